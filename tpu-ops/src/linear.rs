//! The affine map of the last axis.

use crate::require;
use tpu_core::ir::{Axes, DotDims, Precision};
use tpu_core::{Result, Tensor, ensure};

/// x · weightᵀ + bias. PyTorch's `linear`.
///
/// `x`: `[…, in]`; `weight`: `[out, in]`; `bias`: `[out]`; result `[…, out]`. One dtype, number but not bool. Errors on other
/// shapes or dtypes.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_vec(vec![1.0f32, 2.0], [1, 2])?;
/// let weight = Tensor::from_vec(vec![1.0f32, 1.0, 0.0, 10.0], [2, 2])?;
/// let bias = Tensor::from_slice(&[0.5f32, 0.0])?;
/// assert_eq!(tpu_ops::linear(&x, &weight, Some(&bias))?.to_vec::<f32>()?, [3.5, 20.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    Tensor::checked(|| {
        require::rank("linear", "a weight", weight, 2)?;
        ensure!(
            x.sizes().last() == Some(&weight.shape().size(1)),
            Shape,
            "linear",
            "requires an input whose last axis has the size of the weight's last, got {} and {}",
            x.shape(),
            weight.shape()
        );
        require::same_dtype("linear", ("input", x), ("weight", weight))?;
        if let Some(bias) = bias {
            require::sizes("linear", "a bias", bias, &weight.sizes()[..1])?;
            require::same_dtype("linear", ("input", x), ("bias", bias))?;
        }
        Ok(())
    })?;
    let product = x.dot_general(
        weight,
        DotDims {
            lhs_batch: Axes::new(),
            rhs_batch: Axes::new(),
            lhs_contract: Axes::from_slice(&[x.rank() - 1]),
            rhs_contract: Axes::from_slice(&[1]),
            precision: Precision::current(),
            result: x.dtype(),
        },
    )?;
    match bias {
        Some(bias) => product.add(bias),
        None => Ok(product),
    }
}
