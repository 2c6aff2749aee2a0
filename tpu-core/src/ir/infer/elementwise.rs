//! Rules of operations that work element by element.

use super::{Types, exactly, same_dtype, same_shape, single, takes};
use crate::ir::support::{self, DTypes};
use crate::ir::{Op, Type, UnaryOp};
use crate::{DType, Result, Shape, ensure};

pub(super) fn unary(op: &Op, kind: UnaryOp, operands: &[&Type]) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    let dtype = match kind {
        UnaryOp::IsFinite => DType::Bool,
        UnaryOp::Abs | UnaryOp::Real | UnaryOp::Imag if x.dtype == DType::Complex64 => DType::F32,
        _ => x.dtype,
    };
    single(Type { dtype, shape: x.shape.clone() })
}

pub(super) fn binary(op: &Op, operands: &[&Type]) -> Result<Types> {
    let [lhs, rhs] = exactly(op, operands)?;
    takes(op, "lhs", lhs)?;
    same_dtype(op, ("lhs", lhs), ("rhs", rhs))?;
    same_shape(op, ("lhs", lhs), ("rhs", rhs))?;
    single(lhs.clone())
}

pub(super) fn compare(op: &Op, operands: &[&Type]) -> Result<Types> {
    let [lhs, rhs] = exactly(op, operands)?;
    takes(op, "lhs", lhs)?;
    same_dtype(op, ("lhs", lhs), ("rhs", rhs))?;
    same_shape(op, ("lhs", lhs), ("rhs", rhs))?;
    single(Type { dtype: DType::Bool, shape: lhs.shape.clone() })
}

pub(super) fn select(op: &Op, operands: &[&Type]) -> Result<Types> {
    let [predicate, on_true, on_false] = exactly(op, operands)?;
    ensure!(predicate.dtype == DType::Bool, DType, op.name(), "requires predicate of bool dtype, got {predicate}");
    same_dtype(op, ("on_true", on_true), ("on_false", on_false))?;
    same_shape(op, ("on_true", on_true), ("on_false", on_false))?;
    same_shape(op, ("predicate", predicate), ("on_true", on_true))?;
    single(on_true.clone())
}

pub(super) fn clamp(op: &Op, operands: &[&Type]) -> Result<Types> {
    let [low, x, high] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    same_dtype(op, ("low", low), ("operand", x))?;
    same_dtype(op, ("operand", x), ("high", high))?;
    same_shape(op, ("low", low), ("operand", x))?;
    same_shape(op, ("operand", x), ("high", high))?;
    single(x.clone())
}

pub(super) fn complex(op: &Op, operands: &[&Type]) -> Result<Types> {
    let [real, imaginary] = exactly(op, operands)?;
    takes(op, "real", real)?;
    same_dtype(op, ("real", real), ("imaginary", imaginary))?;
    same_shape(op, ("real", real), ("imaginary", imaginary))?;
    single(Type { dtype: DType::Complex64, shape: real.shape.clone() })
}

pub(super) fn convert(op: &Op, operands: &[&Type], dtype: DType) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    single(Type { dtype, shape: x.shape.clone() })
}

pub(super) fn bitcast_convert(op: &Op, operands: &[&Type], dtype: DType) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    let targets: DTypes = support::dtypes(op);
    ensure!(targets.contains(dtype), DType, op.name(), "requires a result of {targets} dtype, got {dtype} from {x}");
    let (from, to) = (x.dtype.bits() as usize, dtype.bits() as usize);
    let sizes = x.shape.sizes();
    let shape = if from == to {
        x.shape.clone()
    } else if from > to {
        let shape: Shape = sizes.iter().copied().chain([from / to]).collect();
        super::representable(op, &shape)?;
        shape
    } else {
        let ratio = to / from;
        ensure!(
            sizes.last() == Some(&ratio),
            Shape,
            op.name(),
            "requires a last axis of size {ratio} to make {dtype}, got operand {x}"
        );
        Shape::from(&sizes[..sizes.len() - 1])
    };
    single(Type { dtype, shape })
}

pub(super) fn reduce_precision(op: &Op, operands: &[&Type], exponent: u32, mantissa: u32) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    // Attributes are 32-bit signed in StableHLO.
    let range = 1..=i32::MAX as u32;
    ensure!(range.contains(&exponent), Value, op.name(), "requires 1 to 2^31 - 1 exponent bits, got {exponent}");
    ensure!(mantissa <= *range.end(), Value, op.name(), "requires 0 to 2^31 - 1 mantissa bits, got {mantissa}");
    single(x.clone())
}
