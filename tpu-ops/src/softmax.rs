//! Softmax and its logarithms.

use crate::composite::{attributes, composite, widened};
use crate::require;
use tpu_core::ir::{Attribute, Attributes};
use tpu_core::{Result, Tensor};

/// exp(x) / Σ exp(x) along `axis`, composite `tpu.softmax` with the attribute `axis`. PyTorch's `softmax`.
///
/// `x`: any shape, float; a scalar counts as an axis of one element. A slice of nothing but −∞, or with NaN or +∞ in it, gives
/// NaN, as in PyTorch. Errors on another dtype or an axis out of range.
///
/// ```
/// use tpu_core::Tensor;
/// let y = tpu_ops::softmax(&Tensor::from_slice(&[1.0f32, 1.0])?, -1)?;
/// assert_eq!(y.to_vec::<f32>()?, [0.5, 0.5]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn softmax(x: &Tensor, axis: isize) -> Result<Tensor> {
    if x.rank() == 0 {
        return softmax(&x.unsqueeze(0)?, axis)?.squeeze(0);
    }
    let (axis, attributes) = along("softmax", x, axis)?;
    composite("tpu.softmax", attributes, &[x], |operands| {
        let exp = shifted(&operands[0], axis)?.exp()?;
        exp.div(&exp.sum([axis], true)?)?.to_dtype(operands[0].dtype())
    })
}

/// x − ln Σ exp(x) along `axis`, composite `tpu.log_softmax` with the attribute `axis`. PyTorch's `log_softmax`.
///
/// Shapes, dtypes and errors as of [`softmax`].
///
/// ```
/// use tpu_core::Tensor;
/// let y = tpu_ops::log_softmax(&Tensor::from_slice(&[3.0f32])?, 0)?;
/// assert_eq!(y.to_vec::<f32>()?, [0.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn log_softmax(x: &Tensor, axis: isize) -> Result<Tensor> {
    if x.rank() == 0 {
        return log_softmax(&x.unsqueeze(0)?, axis)?.squeeze(0);
    }
    let (axis, attributes) = along("log_softmax", x, axis)?;
    composite("tpu.log_softmax", attributes, &[x], |operands| {
        let x = shifted(&operands[0], axis)?;
        x.sub(&x.exp()?.sum([axis], true)?.log()?)?.to_dtype(operands[0].dtype())
    })
}

/// ln Σ exp(x) along `axis`, which vanishes or stays with size one; composite `tpu.logsumexp` with the attributes `axis`
/// and `keep`. PyTorch's `logsumexp`.
///
/// `x`: as of [`softmax`], whose errors it has. Of nothing but −∞, and of no elements, it is −∞.
///
/// ```
/// use tpu_core::Tensor;
/// let y = tpu_ops::logsumexp(&Tensor::from_slice(&[2.0f64, f64::NEG_INFINITY])?, 0, false)?;
/// assert_eq!(y.to_vec::<f64>()?, [2.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn logsumexp(x: &Tensor, axis: isize, keep: bool) -> Result<Tensor> {
    if x.rank() == 0 {
        return logsumexp(&x.unsqueeze(0)?, axis, false);
    }
    let (axis, mut attributes) = along("logsumexp", x, axis)?;
    attributes.0.push(("keep".into(), Attribute::Bool(keep)));
    composite("tpu.logsumexp", attributes, &[x], |operands| {
        let x = widened(&operands[0])?;
        // An infinite maximum would turn into NaN when subtracted from itself.
        let max = x.max([axis], true)?.detach();
        let shift = max.is_finite()?.select(&max, 0.0)?;
        let sum = x.sub(&shift)?.exp()?.sum([axis], true)?.log()?.add(&shift)?;
        let sum = if keep { sum } else { sum.squeeze(axis)? };
        sum.to_dtype(operands[0].dtype())
    })
}

/// Checks operand and axis.
#[track_caller]
fn along(op: &'static str, x: &Tensor, axis: isize) -> Result<(isize, Attributes)> {
    let axis = Tensor::checked(|| {
        require::float(op, "an input", x)?;
        x.axis(axis, op)
    })?;
    Ok((axis as isize, attributes([("axis", Attribute::Int(axis as i64))])))
}

/// `x`, widened, minus its maximum along an axis. Results do not depend on which number is subtracted, so no derivative flows
/// through the maximum.
fn shifted(x: &Tensor, axis: isize) -> Result<Tensor> {
    let x = widened(x)?;
    x.sub(&x.max([axis], true)?.detach())
}
