//! Cross entropy of yes and no.

use super::{Reduction, equal_pair, reduce};
use crate::composite::{composite, widened};
use crate::{logsigmoid, require};
use tpu_core::ir::Attributes;
use tpu_core::{Result, Tensor};

/// −(t ln x + (1 − t) ln(1 − x)) · weight, reduced; logarithms are at least −100. PyTorch's `binary_cross_entropy`.
///
/// `input`: probabilities; `target`: of its shape; `weight`: broadcasts with them; one float dtype. Errors otherwise. Unlike in
/// PyTorch a probability outside of 0 to 1 is no error but NaN.
///
/// Recorded as the composite `tpu.binary_cross_entropy` of input and target. Its derivative is PyTorch's: (x − t) / (x (1 − x)),
/// the divisor at least 1e-12.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{Reduction, bce_loss};
/// let x = Tensor::from_slice(&[0.5f64, 0.0])?;
/// let target = Tensor::from_slice(&[1.0f64, 1.0])?;
/// let loss = bce_loss(&x, &target, None, Reduction::None)?;
/// assert_eq!(loss.to_vec::<f64>()?, [2f64.ln(), 100.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn bce_loss(input: &Tensor, target: &Tensor, weight: Option<&Tensor>, reduction: Reduction) -> Result<Tensor> {
    let (x, t) = equal_pair("bce_loss", input, target)?;
    let losses = composite("tpu.binary_cross_entropy", Attributes::default(), &[&x, &t], |operands| {
        let (x, t) = (&operands[0], &operands[1]);
        let yes = t.mul(&x.log()?.maximum(-100.0)?)?;
        let no = t.neg()?.add(1.0)?.mul(&x.neg()?.log1p()?.maximum(-100.0)?)?;
        yes.add(&no)?.neg()
    })?;
    reduce(&weighted("bce_loss", losses, input, weight)?, reduction)?.to_dtype(input.dtype())
}

/// How [`bce_with_logits`] counts; the default is PyTorch's.
#[derive(Clone, Copy, Debug, Default)]
pub struct BceWithLogits<'a> {
    /// A factor of each loss; broadcasts with the logits.
    pub weight: Option<&'a Tensor>,
    /// A factor of the losses of positive targets; broadcasts with the logits.
    pub pos_weight: Option<&'a Tensor>,
    /// What becomes of the losses of single elements.
    pub reduction: Reduction,
}

/// −(pos_weight · t · ln σ(x) + (1 − t) · ln(1 − σ(x))) · weight, reduced, for logits of any size. PyTorch's
/// `binary_cross_entropy_with_logits`.
///
/// `logits`, `target`: one shape and float dtype, which the weights have too. Errors otherwise.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::bce_with_logits;
/// let x = Tensor::from_slice(&[0.0f64, 1000.0])?;
/// let target = Tensor::from_slice(&[1.0f64, 0.0])?;
/// let loss = bce_with_logits(&x, &target, Default::default())?;
/// assert_eq!(loss.item::<f64>()?, (2f64.ln() + 1000.0) / 2.0);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn bce_with_logits(logits: &Tensor, target: &Tensor, options: BceWithLogits<'_>) -> Result<Tensor> {
    const OP: &str = "bce_with_logits";
    let (x, t) = equal_pair(OP, logits, target)?;
    let log = logsigmoid(&x)?;
    let yes = match options.pos_weight {
        None => log,
        Some(positive) => {
            Tensor::checked(|| require::same_dtype(OP, ("logits", logits), ("pos_weight", positive)))?;
            widened(positive)?.sub(1.0)?.mul(&t)?.add(1.0)?.mul(&log)?
        }
    };
    let losses = t.neg()?.add(1.0)?.mul(&x)?.sub(&yes)?;
    reduce(&weighted(OP, losses, logits, options.weight)?, options.reduction)?.to_dtype(logits.dtype())
}

#[track_caller]
fn weighted(op: &'static str, losses: Tensor, input: &Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    let Some(weight) = weight else { return Ok(losses) };
    Tensor::checked(|| require::same_dtype(op, ("input", input), ("weight", weight)))?;
    losses.mul(&widened(weight)?)
}
