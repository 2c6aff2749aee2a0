//! Conditions that several ops have on their operands.

use tpu_core::{DType, Result, Tensor, ensure};

/// A float of 16 to 64 bits.
pub(crate) fn float(op: &'static str, name: &str, tensor: &Tensor) -> Result<()> {
    float_dtype(op, name, tensor.dtype())
}

/// The same of a dtype alone.
pub(crate) fn float_dtype(op: &'static str, name: &str, dtype: DType) -> Result<()> {
    let fits = matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
    ensure!(fits, DType, op, "requires {name} of a float dtype of 16 to 64 bits, got {dtype}");
    Ok(())
}

/// Integers.
pub(crate) fn integer(op: &'static str, name: &str, tensor: &Tensor) -> Result<()> {
    ensure!(tensor.dtype().is_integer(), DType, op, "requires {name} of an integer dtype, got {}", tensor.dtype());
    Ok(())
}

/// The dtype of another operand.
pub(crate) fn same_dtype(op: &'static str, (a, left): (&str, &Tensor), (b, right): (&str, &Tensor)) -> Result<()> {
    let (left, right) = (left.dtype(), right.dtype());
    ensure!(left == right, DType, op, "requires {a} and {b} of one dtype, got {left} and {right}");
    Ok(())
}

/// A number of axes.
pub(crate) fn rank(op: &'static str, name: &str, tensor: &Tensor, rank: usize) -> Result<()> {
    ensure!(tensor.rank() == rank, Shape, op, "requires {name} of {rank} axes, got {}", tensor.shape());
    Ok(())
}

/// A shape.
pub(crate) fn sizes(op: &'static str, name: &str, tensor: &Tensor, sizes: &[usize]) -> Result<()> {
    ensure!(tensor.sizes() == sizes, Shape, op, "requires {name} of shape {sizes:?}, got {}", tensor.shape());
    Ok(())
}
