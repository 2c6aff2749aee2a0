//! Normalisation of channels, which are axis 1.

use super::layer_norm;
use crate::composite::{attributes, composite, widened};
use crate::require;
use smallvec::SmallVec;
use tpu_core::ir::Attribute;
use tpu_core::{Error, Result, Tensor, ensure, lazy};

/// Settings of [`batch_norm`] and [`instance_norm`]; the default is PyTorch's.
#[derive(Clone, Copy, Debug)]
pub struct BatchNorm<'a> {
    /// Running mean and variance, `[channels]` each, of any float dtype.
    pub running: Option<(&'a Tensor, &'a Tensor)>,
    /// A factor per channel, `[channels]`, of the dtype of the input.
    pub weight: Option<&'a Tensor>,
    /// Added per channel, `[channels]`, of the dtype of the input.
    pub bias: Option<&'a Tensor>,
    /// Normalise by the statistics of the batch, and move the running ones; else by the running ones.
    pub training: bool,
    /// Part of the batch's statistics in the next running ones.
    pub momentum: f64,
    /// Added to the variance.
    pub eps: f64,
}

impl Default for BatchNorm<'_> {
    fn default() -> Self {
        Self { running: None, weight: None, bias: None, training: false, momentum: 0.1, eps: 1e-5 }
    }
}

/// What [`batch_norm`] gives.
#[derive(Clone, Debug)]
pub struct Normalized {
    /// The normalised input.
    pub y: Tensor,
    /// The next running mean and variance, without history, if there are running ones and it is training.
    pub running: Option<(Tensor, Tensor)>,
}

/// (x − mean) / √(var + eps) · weight + bias per channel. PyTorch's `batch_norm`, which changes the running statistics in place;
/// here the next ones are results.
///
/// `x`: `[batch, channels, …]`, float. In training mean and (biased) variance are those of all elements of a channel, and the
/// running statistics become `(1 − momentum) · old + momentum · new`, with the unbiased variance. Otherwise, they are the running
/// ones. Without running statistics those of the batch are used always.
///
/// In training it is the composite `tpu.batch_norm` of x, the weight and the bias that there are, with the attributes `eps`,
/// `weight` and `bias` (flags).
///
/// Errors on other shapes or dtypes, and in training on a single element per channel.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{BatchNorm, batch_norm};
/// let x = Tensor::from_vec(vec![1.0f32, 10.0, 3.0, 30.0], [2, 2])?;
/// let (mean, var) = (Tensor::from_slice(&[0.0f32, 0.0])?, Tensor::from_slice(&[1.0f32, 1.0])?);
/// let options = BatchNorm { running: Some((&mean, &var)), training: true, momentum: 0.5, eps: 0.0, ..Default::default() };
/// let out = batch_norm(&x, options)?;
/// assert_eq!(out.y.to_vec::<f32>()?, [-1.0, -1.0, 1.0, 1.0]);
/// assert_eq!(out.running.unwrap().0.to_vec::<f32>()?, [1.0, 10.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn batch_norm(x: &Tensor, options: BatchNorm<'_>) -> Result<Normalized> {
    const OP: &str = "batch_norm";
    let BatchNorm { running, weight, bias, training, momentum, eps } = options;
    let of_batch = training || running.is_none();
    Tensor::checked(|| {
        check(OP, x, &options)?;
        let each = x.elements().checked_div(x.shape().size(1)).unwrap_or(0);
        ensure!(
            !training || each != 1,
            Value,
            OP,
            "requires more than one element per channel in training, got {}",
            x.shape()
        );
        Ok(())
    })?;
    let Some((mean, variance)) = running.filter(|_| !of_batch) else {
        let y = by_batch(x, weight, bias, eps)?;
        let running = match running {
            Some(running) => Some(lazy::at_caller(|| moved(x, running, momentum))?),
            None => None,
        };
        return Ok(Normalized { y, running });
    };
    let wide = widened(x)?;
    let scale = variance.to_dtype(wide.dtype())?.add(eps)?.rsqrt()?;
    let centred = wide.sub(&per_channel(&mean.to_dtype(wide.dtype())?, x)?)?;
    let y = affine(centred.mul(&per_channel(&scale, x)?)?, weight, bias)?.to_dtype(x.dtype())?;
    Ok(Normalized { y, running: None })
}

/// Normalisation by the statistics of the batch.
#[track_caller]
fn by_batch(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Result<Tensor> {
    let attributes = attributes([
        ("eps", Attribute::Float(eps)),
        ("weight", Attribute::Bool(weight.is_some())),
        ("bias", Attribute::Bool(bias.is_some())),
    ]);
    let operands: SmallVec<[&Tensor; 3]> = [Some(x), weight, bias].into_iter().flatten().collect();
    let (scaled, moved) = (weight.is_some(), bias.is_some());
    composite("tpu.batch_norm", attributes, &operands, |operands| {
        let x = widened(&operands[0])?;
        let centred = x.sub(&x.mean(all_but_channels(&x), true)?)?;
        let variance = centred.square()?.mean(all_but_channels(&x), true)?;
        let y = centred.mul(&variance.add(eps)?.rsqrt()?)?;
        let mut parts = operands[1..].iter();
        let weight = if scaled { parts.next() } else { None };
        let bias = if moved { parts.next() } else { None };
        affine(y, weight, bias)?.to_dtype(operands[0].dtype())
    })
}

/// The next running statistics.
#[track_caller]
fn moved(x: &Tensor, (mean, variance): (&Tensor, &Tensor), momentum: f64) -> Result<(Tensor, Tensor)> {
    // As in the composite, so that a program computes them once.
    let x = widened(&x.detach())?;
    let found = x.mean(all_but_channels(&x), true)?;
    let spread = x.sub(&found)?.square()?.mean(all_but_channels(&x), true)?;
    let each = x.elements() as f64 / x.shape().size(1).max(1) as f64;
    let blend = |old: &Tensor, new: &Tensor, part: f64| {
        let (wide, new) = (widened(&old.detach())?, new.reshape(old.shape())?);
        wide.mul(1.0 - momentum)?.add(&new.to_dtype(wide.dtype())?.mul(part)?)?.to_dtype(old.dtype())
    };
    let next = blend(variance, &spread, momentum * each / (each - 1.0))?;
    Ok((blend(mean, &found, momentum)?, next))
}

/// (x − mean) / √(var + eps) · weight + bias, mean and (biased) variance over groups of channels of each element of the batch.
/// PyTorch's `group_norm`, whose default `eps` is 1e-5.
///
/// `x`: `[batch, channels, …]`, float; `weight`, `bias`: `[channels]`, of the dtype of `x`. Errors on other shapes or dtypes, or
/// if the groups do not divide the channels.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_vec(vec![1.0f32, 3.0, 10.0, 30.0], [1, 4])?;
/// let y = tpu_ops::group_norm(&x, 2, None, None, 0.0)?;
/// assert_eq!(y.to_vec::<f32>()?, [-1.0, 1.0, -1.0, 1.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn group_norm(
    x: &Tensor,
    groups: usize,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<Tensor> {
    const OP: &str = "group_norm";
    Tensor::checked(|| {
        check(OP, x, &BatchNorm { weight, bias, ..BatchNorm::default() })?;
        let channels = x.shape().size(1);
        ensure!(
            groups > 0 && channels.is_multiple_of(groups),
            Value,
            OP,
            "requires groups that divide the channels, got {groups} groups for {channels} channels"
        );
        Ok(())
    })?;
    by_group(x, groups, weight, bias, eps)
}

#[track_caller]
fn by_group(x: &Tensor, groups: usize, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Result<Tensor> {
    let each = x.sizes()[1..].iter().product::<usize>() / groups.max(1);
    let rows = widened(x)?.reshape([x.sizes()[0], groups, each])?;
    let y = layer_norm(&rows, &[each], None, None, eps)?.reshape(x.shape())?;
    affine(y, weight, bias)?.to_dtype(x.dtype())
}

/// [`batch_norm`] of each element of the batch for itself. PyTorch's `instance_norm`, whose `use_input_stats` is `training` here.
/// The next running statistics are those of the elements in the mean.
///
/// `x`: `[batch, channels, …]`, at least one axis more than these. Errors as of [`batch_norm`].
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{BatchNorm, instance_norm};
/// let x = Tensor::from_vec(vec![1.0f32, 3.0, 10.0, 30.0], [2, 1, 2])?;
/// let y = instance_norm(&x, BatchNorm { training: true, eps: 0.0, ..Default::default() })?.y;
/// assert_eq!(y.to_vec::<f32>()?, [-1.0, 1.0, -1.0, 1.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn instance_norm(x: &Tensor, options: BatchNorm<'_>) -> Result<Normalized> {
    const OP: &str = "instance_norm";
    let BatchNorm { running, weight, bias, training, momentum, eps } = options;
    Tensor::checked(|| {
        check(OP, x, &options)?;
        ensure!(
            x.rank() > 2,
            Shape,
            OP,
            "requires an input [batch, channels, …] of three axes or more, got {}",
            x.shape()
        );
        let each = x.sizes()[2..].iter().product::<usize>();
        ensure!(!training || each != 1, Value, OP, "requires more than one element per channel, got {}", x.shape());
        Ok(())
    })?;
    if !training && running.is_some() {
        return batch_norm(x, options);
    }
    let y = by_group(x, x.shape().size(1), weight, bias, eps)?;
    let running = match running {
        Some((mean, variance)) => {
            let (batch, channels) = (x.sizes()[0], x.sizes()[1]);
            // One channel for each element and channel, whose running statistics are all the same ones.
            let each = [&[1, batch * channels], &x.sizes()[2..]].concat();
            let spread =
                |old: &Tensor| widened(&old.detach())?.broadcast_to([batch, channels])?.reshape(batch * channels);
            let joined =
                |new: &Tensor, old: &Tensor| new.reshape([batch, channels])?.mean([0], false)?.to_dtype(old.dtype());
            Some(lazy::at_caller(|| {
                let next = moved(&x.reshape(each)?, (&spread(mean)?, &spread(variance)?), momentum)?;
                Ok::<_, Error>((joined(&next.0, mean)?, joined(&next.1, variance)?))
            })?)
        }
        None => None,
    };
    Ok(Normalized { y, running })
}

/// Axes of which statistics are taken.
fn all_but_channels(x: &Tensor) -> impl Iterator<Item = isize> + use<> {
    (0..x.rank() as isize).filter(|&axis| axis != 1)
}

/// Numbers per channel in a shape that stretches to that of `x`.
#[track_caller]
fn per_channel(numbers: &Tensor, x: &Tensor) -> Result<Tensor> {
    let mut sizes = vec![1; x.rank()];
    sizes[1] = numbers.elements();
    numbers.reshape(sizes)
}

#[track_caller]
fn affine(mut y: Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Result<Tensor> {
    if let Some(weight) = weight {
        y = y.mul(&per_channel(&widened(weight)?, &y)?)?;
    }
    if let Some(bias) = bias {
        y = y.add(&per_channel(&widened(bias)?, &y)?)?;
    }
    Ok(y)
}

fn check(op: &'static str, x: &Tensor, options: &BatchNorm<'_>) -> Result<()> {
    require::float(op, "an input", x)?;
    ensure!(x.rank() >= 2, Shape, op, "requires an input [batch, channels, …], got {}", x.shape());
    let channels = [x.shape().size(1)];
    for (name, tensor) in [("weight", options.weight), ("bias", options.bias)] {
        if let Some(tensor) = tensor {
            require::sizes(op, name, tensor, &channels)?;
            require::same_dtype(op, ("input", x), (name, tensor))?;
        }
    }
    if let Some((mean, variance)) = options.running {
        for (name, tensor) in [("a running mean", mean), ("a running variance", variance)] {
            require::sizes(op, name, tensor, &channels)?;
            require::float(op, name, tensor)?;
        }
    }
    Ok(())
}
