//! Losses that are logarithms of densities.

use super::{Reduction, pair, reduce};
use crate::composite::widened;
use crate::require;
use std::f64::consts::PI;
use tpu_core::{Result, Tensor};

/// t · (ln t − x), 0 where t is 0, reduced; with `log_target` e^t · (t − x). PyTorch's `kl_div`: `input` holds logarithms of
/// probabilities, `target` probabilities, or their logarithms. [`Reduction::BatchMean`] gives the divergence.
///
/// `input`, `target`: shapes that broadcast, one float dtype. Errors otherwise.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{Reduction, kl_div};
/// let x = Tensor::from_slice(&[0.5f64.ln(), 0.5f64.ln()])?;
/// let loss = kl_div(&x, &Tensor::from_slice(&[1.0f64, 0.0])?, false, Reduction::Sum)?;
/// assert_eq!(loss.item::<f64>()?, 2f64.ln());
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn kl_div(input: &Tensor, target: &Tensor, log_target: bool, reduction: Reduction) -> Result<Tensor> {
    let (x, t) = pair("kl_div", input, target)?;
    let losses = if log_target {
        t.exp()?.mul(&t.sub(&x)?)?
    } else {
        // Where t is 0 neither value nor derivative may see ln 0.
        let zero = t.eq(0)?;
        let entropy = zero.select(0, &t.mul(&zero.select(1, &t)?.log()?)?)?;
        entropy.sub(&t.mul(&x)?)?
    };
    reduce(&losses, reduction)?.to_dtype(input.dtype())
}

/// How [`poisson_nll_loss`] reads its input; the default is PyTorch's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PoissonNll {
    /// The input is the logarithm of the rate.
    pub log_input: bool,
    /// Adds Stirling's approximation of ln t! where t is above 1.
    pub full: bool,
    /// Added to the rate before its logarithm is taken.
    pub eps: f64,
    /// What becomes of the losses of single elements.
    pub reduction: Reduction,
}

impl Default for PoissonNll {
    fn default() -> Self {
        Self { log_input: true, full: false, eps: 1e-8, reduction: Reduction::Mean }
    }
}

/// eˣ − t x, or x − t ln(x + eps) of a rate x, reduced. PyTorch's `poisson_nll_loss`.
///
/// `input`, `target`: shapes that broadcast, one float dtype. Errors otherwise.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_slice(&[0.0f32])?;
/// let loss = tpu_ops::poisson_nll_loss(&x, &Tensor::from_slice(&[5.0f32])?, Default::default())?;
/// assert_eq!(loss.item::<f32>()?, 1.0);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn poisson_nll_loss(input: &Tensor, target: &Tensor, options: PoissonNll) -> Result<Tensor> {
    let PoissonNll { log_input, full, eps, reduction } = options;
    let (x, t) = pair("poisson_nll_loss", input, target)?;
    let mut losses = if log_input { x.exp()?.sub(&t.mul(&x)?)? } else { x.sub(&t.mul(&x.add(eps)?.log()?)?)? };
    if full {
        let many = t.gt(1)?;
        let t = many.select(&t, 1)?;
        let stirling = t.mul(&t.log()?)?.sub(&t)?.add(&t.mul(2.0 * PI)?.log()?.mul(0.5)?)?;
        losses = losses.add(&many.select(&stirling, 0)?)?;
    }
    reduce(&losses, reduction)?.to_dtype(input.dtype())
}

/// Settings of [`gaussian_nll_loss`]; the default is PyTorch's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GaussianNll {
    /// Adds ln(2π) / 2.
    pub full: bool,
    /// The least variance.
    pub eps: f64,
    /// What becomes of the losses of single elements.
    pub reduction: Reduction,
}

impl Default for GaussianNll {
    fn default() -> Self {
        Self { full: false, eps: 1e-6, reduction: Reduction::Mean }
    }
}

/// (ln v + (x − t)² / v) / 2, reduced, where v is the variance, at least `eps`; the derivative sees no such bound. PyTorch's
/// `gaussian_nll_loss`.
///
/// `input`, `target`, `variance`: shapes that broadcast, one float dtype. Errors otherwise.
///
/// ```
/// use tpu_core::Tensor;
/// let (x, one) = (Tensor::from_slice(&[3.0f32])?, Tensor::from_slice(&[1.0f32])?);
/// let loss = tpu_ops::gaussian_nll_loss(&x, &one, &one, Default::default())?;
/// assert_eq!(loss.item::<f32>()?, 2.0);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn gaussian_nll_loss(input: &Tensor, target: &Tensor, variance: &Tensor, options: GaussianNll) -> Result<Tensor> {
    let GaussianNll { full, eps, reduction } = options;
    let (x, t) = pair("gaussian_nll_loss", input, target)?;
    Tensor::checked(|| require::same_dtype("gaussian_nll_loss", ("input", input), ("variance", variance)))?;
    let v = widened(variance)?;
    // The bound is added as a constant.
    let v = v.add(&v.detach().neg()?.add(eps)?.maximum(0.0)?)?;
    let mut losses = v.log()?.add(&x.sub(&t)?.square()?.div(&v)?)?.mul(0.5)?;
    if full {
        losses = losses.add(0.5 * (2.0 * PI).ln())?;
    }
    reduce(&losses, reduction)?.to_dtype(input.dtype())
}
