//! Losses of the difference of two tensors.

use super::{Reduction, pair, reduce};
use tpu_core::{Result, Tensor, ensure};

/// (x − y)², reduced. PyTorch's `mse_loss`.
///
/// `input`, `target`: shapes that broadcast, one float dtype. Errors otherwise.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{Reduction, mse_loss};
/// let x = Tensor::from_slice(&[1.0f32, 4.0])?;
/// let loss = mse_loss(&x, &x.zeros_like()?, Reduction::Mean)?;
/// assert_eq!(loss.item::<f32>()?, 8.5);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn mse_loss(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    let (x, y) = pair("mse_loss", input, target)?;
    reduce(&x.sub(&y)?.square()?, reduction)?.to_dtype(input.dtype())
}

/// |x − y|, reduced. PyTorch's `l1_loss`.
///
/// Shapes, dtypes and errors as of [`mse_loss`].
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{Reduction, l1_loss};
/// let x = Tensor::from_slice(&[1.0f32, -4.0])?;
/// assert_eq!(l1_loss(&x, &x.zeros_like()?, Reduction::Mean)?.item::<f32>()?, 2.5);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn l1_loss(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    let (x, y) = pair("l1_loss", input, target)?;
    reduce(&x.sub(&y)?.abs()?, reduction)?.to_dtype(input.dtype())
}

/// With d = |x − y|: d² / (2 beta) where d is below `beta`, else d − beta / 2; [`l1_loss`] if it is 0. PyTorch's
/// `smooth_l1_loss`, whose default is 1.
///
/// Shapes, dtypes and errors as of [`mse_loss`], and a negative `beta`.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{Reduction, smooth_l1_loss};
/// let x = Tensor::from_slice(&[0.5f32, -4.0])?;
/// let loss = smooth_l1_loss(&x, &x.zeros_like()?, 1.0, Reduction::None)?;
/// assert_eq!(loss.to_vec::<f32>()?, [0.125, 3.5]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn smooth_l1_loss(input: &Tensor, target: &Tensor, beta: f64, reduction: Reduction) -> Result<Tensor> {
    Tensor::checked(|| {
        ensure!(beta >= 0.0, Value, "smooth_l1_loss", "requires a beta of at least 0, got {beta}");
        Ok(())
    })?;
    if beta == 0.0 {
        return l1_loss(input, target, reduction);
    }
    let (x, y) = pair("smooth_l1_loss", input, target)?;
    let difference = x.sub(&y)?;
    let distance = difference.abs()?;
    let near = difference.square()?.mul(0.5 / beta)?;
    let losses = distance.lt(beta)?.select(&near, &distance.sub(0.5 * beta)?)?;
    reduce(&losses, reduction)?.to_dtype(input.dtype())
}

/// With d = |x − y|: d² / 2 where d is at most `delta`, else delta · (d − delta / 2). PyTorch's `huber_loss`, whose default is 1.
///
/// Shapes, dtypes and errors as of [`mse_loss`], and a `delta` that is not above 0.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{Reduction, huber_loss};
/// let x = Tensor::from_slice(&[1.0f32, -4.0])?;
/// let loss = huber_loss(&x, &x.zeros_like()?, 2.0, Reduction::None)?;
/// assert_eq!(loss.to_vec::<f32>()?, [0.5, 6.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn huber_loss(input: &Tensor, target: &Tensor, delta: f64, reduction: Reduction) -> Result<Tensor> {
    Tensor::checked(|| {
        ensure!(delta > 0.0, Value, "huber_loss", "requires a delta above 0, got {delta}");
        Ok(())
    })?;
    let (x, y) = pair("huber_loss", input, target)?;
    let difference = x.sub(&y)?;
    let distance = difference.abs()?;
    let far = distance.sub(0.5 * delta)?.mul(delta)?;
    let losses = distance.le(delta)?.select(&difference.square()?.mul(0.5)?, &far)?;
    reduce(&losses, reduction)?.to_dtype(input.dtype())
}
