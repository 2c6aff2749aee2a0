//! Recording named composites of one result.

use tpu_core::ir::{Attribute, Attributes};
use tpu_core::{DType, Result, Tensor};

/// Attributes by name, in order.
pub(crate) fn attributes<const N: usize>(pairs: [(&str, Attribute); N]) -> Attributes {
    Attributes(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// [`Tensor::composite`] with one result.
#[track_caller]
pub(crate) fn composite(
    name: &str,
    attributes: Attributes,
    operands: &[&Tensor],
    body: impl FnOnce(&[Tensor]) -> Result<Tensor>,
) -> Result<Tensor> {
    Ok(Tensor::composite(name, attributes, operands, |operands| Ok(vec![body(operands)?]))?.swap_remove(0))
}

/// The dtype that floats are computed in where PyTorch accumulates: float32 for the 16-bit ones.
pub(crate) fn accumulator(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}

/// `tensor` in its [`accumulator`] dtype.
#[track_caller]
pub(crate) fn widened(tensor: &Tensor) -> Result<Tensor> {
    tensor.to_dtype(accumulator(tensor.dtype()))
}
