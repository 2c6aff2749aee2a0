//! Cross entropy, from logits or from logarithms of probabilities.

use super::{Reduction, reduce};
use crate::composite::{attributes, composite, widened};
use crate::embedding::checked_indices;
use crate::{log_softmax, require};
use tpu_core::ir::Attribute;
use tpu_core::{DType, Result, Tensor, ensure};

/// How [`cross_entropy`] counts; the default is PyTorch's.
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropy<'a> {
    /// A weight per class, `[classes]`, of the logits' dtype.
    pub weight: Option<&'a Tensor>,
    /// Elements with this target count nothing; it need not be a class.
    pub ignore_index: i64,
    /// What becomes of the losses of single elements. A mean is over the weights of the targets that count.
    pub reduction: Reduction,
    /// The part, 0 to 1, of each target's probability that is spread evenly over all classes.
    pub label_smoothing: f64,
}

impl Default for CrossEntropy<'_> {
    fn default() -> Self {
        Self { weight: None, ignore_index: -100, reduction: Reduction::Mean, label_smoothing: 0.0 }
    }
}

/// Minus the logarithm of the probability that `softmax(logits)` gives to the target class. PyTorch's `cross_entropy`.
///
/// `logits`: `[classes]`, `[rows, classes]` or `[rows, classes, …]`, float; `target`: integers of the same shape without the
/// class axis; the result has its shape, or is a scalar, in the dtype of the logits. With smoothing ε, C classes and weights w:
/// `−(1 − ε) w[t] logp[t] − ε/C · Σ w[c] logp[c]`. 16-bit floats are computed in float32, and a mean or sum rounded once
/// at the end. A mean of no element that counts is NaN.
///
/// A `target` of the logits' shape and dtype holds the probabilities p of the classes: `−Σ w[c] ((1 − ε) p[c] + ε/C) logp[c]`.
/// Nothing is ignored then, the index must be negative, and a mean is over all elements, whatever their weights, as in PyTorch.
///
/// Without class weights it is the composite `tpu.cross_entropy` of logits with the classes last and targets, with the attribute
/// `label_smoothing`: the float32 or float64 loss of every row.
///
/// Errors on other shapes or dtypes or a smoothing that is not from 0 to 1. A target that is neither a class nor ignored is
/// an index error when the value is read.
///
/// ```
/// use tpu_core::{DType, Tensor};
/// use tpu_ops::cross_entropy;
/// let logits = Tensor::zeros([3, 2], DType::F32)?;
/// let target = Tensor::from_slice(&[0i64, 1, -100])?;
/// let loss = cross_entropy(&logits, &target, Default::default())?;
/// assert!((loss.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn cross_entropy(logits: &Tensor, target: &Tensor, options: CrossEntropy<'_>) -> Result<Tensor> {
    let axis = Tensor::checked(|| check(logits, target, &options))?;
    if target.dtype().is_float() {
        return with_probabilities(logits, target, axis, &options);
    }
    let classes = logits.shape().size(axis);
    // Without classes there are no targets to check.
    let checked = classes > 0 && !target.dtype().is_always_index(classes);
    let target = target.to_dtype(DType::I64)?;
    let ignored = target.eq(options.ignore_index)?;
    let target = ignored.select(0, &target)?;
    let last =
        logits.permute((0..logits.rank()).filter(|&other| other != axis).chain([axis]).map(|axis| axis as isize))?;
    let (losses, weights) = match options.weight {
        None => {
            let target = if checked { checked_indices(&target, classes)? } else { target };
            (plain(&last, &target, options.label_smoothing)?, None)
        }
        Some(weight) => {
            let (losses, weights) = weighted(&last, &target, &widened(weight)?, options.label_smoothing)?;
            (losses, Some(weights))
        }
    };
    over_rows(&losses, weights.as_ref(), &ignored, options.reduction)?.to_dtype(logits.dtype())
}

/// Reduces the losses of rows; a mean is over the weights of those that count.
#[track_caller]
fn over_rows(losses: &Tensor, weights: Option<&Tensor>, ignored: &Tensor, reduction: Reduction) -> Result<Tensor> {
    let losses = ignored.select(0, losses)?;
    match reduction {
        Reduction::Mean => {
            let counted = match weights {
                Some(weights) => ignored.select(0, weights)?,
                None => ignored.not()?.to_dtype(losses.dtype())?,
            };
            losses.sum_all()?.div(&counted.sum_all()?)
        }
        other => reduce(&losses, other),
    }
}

/// How [`nll_loss`] counts; the default is PyTorch's.
#[derive(Clone, Copy, Debug)]
pub struct NllLoss<'a> {
    /// A weight per class, `[classes]`, of the input's dtype.
    pub weight: Option<&'a Tensor>,
    /// Elements with this target count nothing; it need not be a class.
    pub ignore_index: i64,
    /// What becomes of the losses of single elements. A mean is over the weights of the targets that count.
    pub reduction: Reduction,
}

impl Default for NllLoss<'_> {
    fn default() -> Self {
        Self { weight: None, ignore_index: -100, reduction: Reduction::Mean }
    }
}

/// Minus what `input` has at the target class, times the weight of that class. PyTorch's `nll_loss`, which takes logarithms of
/// probabilities, as [`log_softmax`] gives them.
///
/// Shapes, dtypes and errors are those of [`cross_entropy`] with class numbers.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{NllLoss, nll_loss};
/// let input = Tensor::from_vec(vec![-1.0f32, -2.0], [1, 2])?;
/// let loss = nll_loss(&input, &Tensor::from_slice(&[1i64])?, NllLoss::default())?;
/// assert_eq!(loss.item::<f32>()?, 2.0);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn nll_loss(input: &Tensor, target: &Tensor, options: NllLoss<'_>) -> Result<Tensor> {
    let NllLoss { weight, ignore_index, reduction } = options;
    let axis = Tensor::checked(|| {
        require::integer("nll_loss", "a target", target)?;
        let axis = class_axis("nll_loss", input, target)?;
        class_weight("nll_loss", input, axis, weight)?;
        Ok(axis)
    })?;
    let target = target.to_dtype(DType::I64)?;
    let ignored = target.eq(ignore_index)?;
    if input.shape().size(axis) == 0 {
        return over_rows(&Tensor::zeros(target.shape(), input.dtype())?, None, &ignored, reduction);
    }
    let target = ignored.select(0, &target)?;
    let chosen = widened(input)?.gather(axis as isize, &target.unsqueeze(axis as isize)?)?.squeeze(axis as isize)?;
    let weights = match weight {
        Some(weight) => Some(widened(weight)?.take(&target, 0)?),
        None => None,
    };
    let losses = match &weights {
        Some(weights) => chosen.mul(weights)?.neg()?,
        None => chosen.neg()?,
    };
    over_rows(&losses, weights.as_ref(), &ignored, reduction)?.to_dtype(input.dtype())
}

/// Checks the operands of cross entropy; gives the axis of classes.
fn check(logits: &Tensor, target: &Tensor, options: &CrossEntropy<'_>) -> Result<usize> {
    const OP: &str = "cross_entropy";
    let axis = class_axis(OP, logits, target)?;
    if target.dtype().is_float() {
        let ignored = options.ignore_index;
        ensure!(ignored < 0, Value, OP, "requires a negative index to ignore beside probabilities, got {ignored}");
    }
    let smoothing = options.label_smoothing;
    ensure!((0.0..=1.0).contains(&smoothing), Value, OP, "requires a smoothing from 0 to 1, got {smoothing}");
    class_weight(OP, logits, axis, options.weight)?;
    Ok(axis)
}

/// Checks input and target; gives the axis of classes.
fn class_axis(op: &'static str, logits: &Tensor, target: &Tensor) -> Result<usize> {
    require::float(op, "logits", logits)?;
    ensure!(logits.rank() >= 1, Shape, op, "requires logits of at least one axis, got a scalar");
    let axis = usize::from(logits.rank() > 1);
    if target.dtype().is_float() {
        require::same_dtype(op, ("logits", logits), ("target", target))?;
        require::sizes(op, "probabilities", target, logits.sizes())?;
        return Ok(axis);
    }
    require::integer(op, "a target", target)?;
    let rest: Vec<usize> = logits.sizes()[..axis].iter().chain(&logits.sizes()[axis + 1..]).copied().collect();
    ensure!(
        target.sizes() == rest,
        Shape,
        op,
        "requires a target of the logits' shape without axis {axis}, got logits {} and target {}",
        logits.shape(),
        target.shape()
    );
    let some = logits.shape().size(axis) > 0 || target.elements() == 0;
    ensure!(some, Index, op, "requires a class for every target, got logits {}", logits.shape());
    Ok(axis)
}

fn class_weight(op: &'static str, logits: &Tensor, axis: usize, weight: Option<&Tensor>) -> Result<()> {
    let Some(weight) = weight else { return Ok(()) };
    require::sizes(op, "a weight", weight, &[logits.shape().size(axis)])?;
    require::same_dtype(op, ("logits", logits), ("weight", weight))
}

/// The loss where the target holds probabilities.
#[track_caller]
fn with_probabilities(logits: &Tensor, target: &Tensor, axis: usize, options: &CrossEntropy<'_>) -> Result<Tensor> {
    let classes = logits.shape().size(axis);
    let smoothing = options.label_smoothing;
    let log = log_softmax(&widened(logits)?, axis as isize)?;
    let mut target = widened(target)?;
    if smoothing > 0.0 {
        target = target.mul(1.0 - smoothing)?.add(smoothing / classes as f64)?;
    }
    let mut terms = log.mul(&target)?.neg()?;
    if let Some(weight) = options.weight {
        let mut sizes = vec![1; logits.rank()];
        sizes[axis] = classes;
        terms = terms.mul(&widened(weight)?.reshape(sizes)?)?;
    }
    let reduced = match options.reduction {
        Reduction::Mean => {
            let elements = logits.elements().checked_div(classes).unwrap_or(0);
            // 0 / 0 of no element.
            terms.sum_all()?.div(elements as f64)?
        }
        other => reduce(&terms.sum([axis as isize], false)?, other)?,
    };
    reduced.to_dtype(logits.dtype())
}

/// The loss of each row of `[…, classes]`, in one pass: a maximum and two sums a row.
#[track_caller]
fn plain(logits: &Tensor, target: &Tensor, smoothing: f64) -> Result<Tensor> {
    let attributes = attributes([("label_smoothing", Attribute::Float(smoothing))]);
    composite("tpu.cross_entropy", attributes, &[logits, target], |operands| {
        let logits = widened(&operands[0])?;
        let axis = logits.rank() - 1;
        let classes = logits.shape().size(axis) as f64;
        let shifted = logits.sub(&logits.max([-1], true)?.detach())?;
        let normaliser = shifted.exp()?.sum([-1], false)?.log()?;
        let counted = logits.device().scope(|| Tensor::iota(logits.shape(), axis, DType::I64))?;
        let hit = operands[1].unsqueeze(-1)?.broadcast_to(logits.shape())?.eq(&counted)?;
        let chosen = hit.select(&shifted, 0)?.sum([-1], false)?;
        let loss = normaliser.sub(&chosen)?;
        if smoothing == 0.0 {
            return Ok(loss);
        }
        let spread = normaliser.sub(&shifted.sum([-1], false)?.mul(1.0 / classes)?)?;
        loss.mul(1.0 - smoothing)?.add(&spread.mul(smoothing)?)
    })
}

/// The loss of each row and the weight of its target.
#[track_caller]
fn weighted(logits: &Tensor, target: &Tensor, weight: &Tensor, smoothing: f64) -> Result<(Tensor, Tensor)> {
    let log = log_softmax(&widened(logits)?, -1)?;
    let chosen = log.gather(-1, &target.unsqueeze(-1)?)?.squeeze(-1)?;
    let weights = weight.take(target, 0)?;
    let loss = chosen.mul(&weights)?.neg()?;
    if smoothing == 0.0 {
        return Ok((loss, weights));
    }
    let classes = weight.shape().size(0) as f64;
    let spread = log.mul(weight)?.sum([-1], false)?.mul(-smoothing / classes)?;
    Ok((loss.mul(1.0 - smoothing)?.add(&spread)?, weights))
}
