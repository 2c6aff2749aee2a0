//! Normalisation of channels, with running statistics.

use super::{Module, Visitor, is_training};
use crate::recompute::behind_barrier;
use crate::{Param, amp, no_grad};
use tpu_core::{DType, Result, Tensor, ensure};

/// Zero mean and unit variance per channel over the batch and N axes, then an affine map per channel. When
/// [`evaluating`](super::evaluating), mean and variance are the running ones, which training moves: their new values are results of
/// the program that computes the layer.
///
/// ```
/// use tpu_autograd::nn::{BatchNorm1d, Module, evaluating};
/// use tpu_core::{DType, Tensor};
/// let norm = BatchNorm1d::new(1, DType::F32)?;
/// let x = Tensor::from_vec(vec![1.0f32, 3.0], [2, 1])?;
/// norm.forward(&x)?;
/// let state: Vec<String> = norm.named_state().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(state, ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]);
/// let mean = norm.running.as_ref().unwrap().mean.value();
/// assert!((mean.to_vec::<f32>()?[0] - 0.2).abs() < 1e-6);
/// assert!(evaluating(|| norm.forward(&x))?.to_vec::<f32>()?[0] > 0.7);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BatchNorm<const N: usize> {
    /// `[channels]`, ones at first.
    pub weight: Option<Param>,
    /// `[channels]`, zeros at first.
    pub bias: Option<Param>,
    /// Running statistics; without them those of the batch are used always.
    pub running: Option<Running>,
    /// Part of a batch's statistics in the next running ones; `None`: so that these are the mean over all batches.
    pub momentum: Option<f64>,
    /// Added to the variance.
    pub eps: f64,
}

/// PyTorch's `nn.BatchNorm1d`, of `[batch, channels]` or `[batch, channels, length]`.
pub type BatchNorm1d = BatchNorm<1>;
/// PyTorch's `nn.BatchNorm2d`, of `[batch, channels, height, width]`.
pub type BatchNorm2d = BatchNorm<2>;
/// PyTorch's `nn.BatchNorm3d`, of `[batch, channels, depth, height, width]`.
pub type BatchNorm3d = BatchNorm<3>;

/// Buffers with statistics of all batches so far.
#[derive(Clone, Debug)]
pub struct Running {
    /// `[channels]`, zeros at first.
    pub mean: Param,
    /// `[channels]`, ones at first.
    pub var: Param,
    /// Number of batches: a scalar i64. Instance norms leave it at 0, as in PyTorch.
    pub batches: Param,
}

impl Running {
    /// Of no batch yet.
    pub fn new(channels: usize, dtype: DType) -> Result<Self> {
        Ok(Self {
            mean: Param::buffer(Tensor::zeros([channels], dtype)?),
            var: Param::buffer(Tensor::ones([channels], dtype)?),
            batches: Param::buffer(Tensor::zeros([], DType::I64)?),
        })
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.buffer("running_mean", &self.mean);
        visitor.buffer("running_var", &self.var);
        visitor.buffer("num_batches_tracked", &self.batches);
    }
}

/// What both layers do.
fn normalized(
    x: &Tensor,
    [weight, bias]: [Option<&Param>; 2],
    running: Option<&Running>,
    momentum: Option<f64>,
    eps: f64,
    counts: bool,
    norm: impl Fn(&Tensor, tpu_ops::BatchNorm<'_>) -> Result<tpu_ops::Normalized>,
) -> Result<Tensor> {
    let (x, training) = (amp::cast(x)?, is_training());
    let (weight, bias) = (amp::optional(weight)?, amp::optional(bias)?);
    let values = running.map(|running| (running.mean.value(), running.var.value()));
    let options = tpu_ops::BatchNorm {
        running: values.as_ref().map(|(mean, var)| (mean, var)),
        weight: weight.as_ref(),
        bias: bias.as_ref(),
        training: training || running.is_none(),
        // Without a momentum the next statistics are blended below, by a number that only the device knows.
        momentum: momentum.unwrap_or(1.0),
        eps,
    };
    let out = norm(&x, options)?;
    if let (Some(running), Some(old), Some(new)) = (running, values, out.running) {
        no_grad(|| {
            let batches = running.batches.value().add(1)?;
            let blend = |old: &Tensor, new: Tensor| match momentum {
                Some(_) => Ok(new),
                None => old.add(&new.sub(old)?.div(&batches.to_dtype(old.dtype())?)?),
            };
            let (mean, var) = (blend(&old.0, new.0)?, blend(&old.1, new.1)?);
            running.var.set(var)?;
            if !counts {
                return running.mean.set(mean);
            }
            // Nothing else connects the count with the batch: without this it would be a program of its own.
            let held = behind_barrier(&[batches, mean], &[])?;
            running.batches.set(held[0].clone())?;
            running.mean.set(held[1].clone())
        })?;
    }
    Ok(out.y)
}

impl<const N: usize> BatchNorm<N> {
    /// With weight, bias and running statistics, and PyTorch's defaults: a momentum of 0.1 and an `eps` of 1e-5.
    pub fn new(channels: usize, dtype: DType) -> Result<Self> {
        Ok(Self {
            weight: Some(Param::new(Tensor::ones([channels], dtype)?)),
            bias: Some(Param::new(Tensor::zeros([channels], dtype)?)),
            running: Some(Running::new(channels, dtype)?),
            momentum: Some(0.1),
            eps: 1e-5,
        })
    }
}

impl<const N: usize> Module for BatchNorm<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let fits = x.rank() == N + 2 || N == 1 && x.rank() == 2;
        ensure!(
            fits,
            Shape,
            "batch_norm",
            "requires an input [batch, channels, …] of {} axes, got {}",
            N + 2,
            x.shape()
        );
        let affine = [self.weight.as_ref(), self.bias.as_ref()];
        normalized(x, affine, self.running.as_ref(), self.momentum, self.eps, true, tpu_ops::batch_norm)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.optional("weight", self.weight.as_ref());
        visitor.optional("bias", self.bias.as_ref());
        if let Some(running) = &self.running {
            running.visit(visitor);
        }
    }
}

/// Zero mean and unit variance over N axes of each channel of each element of the batch.
#[derive(Clone, Debug)]
pub struct InstanceNorm<const N: usize> {
    /// `[channels]`, if there is one.
    pub weight: Option<Param>,
    /// `[channels]`, if there is one.
    pub bias: Option<Param>,
    /// Running statistics, which then normalise when [`evaluating`](super::evaluating).
    pub running: Option<Running>,
    /// Part of a batch's statistics in the next running ones.
    pub momentum: f64,
    /// Added to the variance.
    pub eps: f64,
}

/// PyTorch's `nn.InstanceNorm1d`, of `[batch, channels, length]` or without the batch.
pub type InstanceNorm1d = InstanceNorm<1>;
/// PyTorch's `nn.InstanceNorm2d`, of `[batch, channels, height, width]` or without the batch.
pub type InstanceNorm2d = InstanceNorm<2>;
/// PyTorch's `nn.InstanceNorm3d`, of `[batch, channels, depth, height, width]` or without the batch.
pub type InstanceNorm3d = InstanceNorm<3>;

impl<const N: usize> Default for InstanceNorm<N> {
    /// PyTorch's: no parameters and no running statistics, an `eps` of 1e-5.
    fn default() -> Self {
        Self { weight: None, bias: None, running: None, momentum: 0.1, eps: 1e-5 }
    }
}

impl<const N: usize> InstanceNorm<N> {
    /// With weight and bias, PyTorch's `affine=True`.
    pub fn affine(channels: usize, dtype: DType) -> Result<Self> {
        let weight = Some(Param::new(Tensor::ones([channels], dtype)?));
        let bias = Some(Param::new(Tensor::zeros([channels], dtype)?));
        Ok(Self { weight, bias, ..Self::default() })
    }
}

impl<const N: usize> Module for InstanceNorm<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let fits = x.rank() == N + 2 || x.rank() == N + 1;
        ensure!(fits, Shape, "instance_norm", "requires an input of {} or {} axes, got {}", N + 1, N + 2, x.shape());
        let affine = [self.weight.as_ref(), self.bias.as_ref()];
        let batch = if x.rank() == N + 2 { x.clone() } else { x.unsqueeze(0)? };
        let y = normalized(
            &batch,
            affine,
            self.running.as_ref(),
            Some(self.momentum),
            self.eps,
            false,
            tpu_ops::instance_norm,
        )?;
        if x.rank() == N + 2 { Ok(y) } else { y.squeeze(0) }
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.optional("weight", self.weight.as_ref());
        visitor.optional("bias", self.bias.as_ref());
        if let Some(running) = &self.running {
            running.visit(visitor);
        }
    }
}
