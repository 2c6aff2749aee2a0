//! Normalisation over the last axes, or over groups of channels.

use super::{Module, Visitor};
use crate::{Param, amp};
use tpu_core::{DType, Result, Shape, Tensor};

/// Zero mean and unit variance over the last axes, then an affine map. PyTorch's `nn.LayerNorm`.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// Of the normalised shape, ones at first.
    pub weight: Option<Param>,
    /// Of the normalised shape, zeros at first.
    pub bias: Option<Param>,
    /// Added to the variance.
    pub eps: f64,
    shape: Shape,
}

impl LayerNorm {
    /// With weight and bias, and PyTorch's default `eps` of 1e-5.
    pub fn new(shape: impl Into<Shape>, dtype: DType) -> Result<Self> {
        let shape = shape.into();
        let weight = Some(Param::new(Tensor::ones(&shape, dtype)?));
        let bias = Some(Param::new(Tensor::zeros(&shape, dtype)?));
        Ok(Self { weight, bias, eps: 1e-5, shape })
    }

    /// Without bias.
    pub fn without_bias(self) -> Self {
        Self { bias: None, ..self }
    }
}

impl Module for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (amp::optional(self.weight.as_ref())?, amp::optional(self.bias.as_ref())?);
        tpu_ops::layer_norm(&amp::cast(x)?, self.shape.sizes(), weight.as_ref(), bias.as_ref(), self.eps)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        if let Some(weight) = &self.weight {
            visitor.param("weight", weight);
        }
        if let Some(bias) = &self.bias {
            visitor.param("bias", bias);
        }
    }
}

/// Unit mean square over the last axes, then a factor per element. PyTorch's `nn.RMSNorm`.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    /// Of the normalised shape, ones at first.
    pub weight: Param,
    /// Added to the mean square.
    pub eps: f64,
    shape: Shape,
}

impl RmsNorm {
    /// With this `eps`; PyTorch's default is the spacing of numbers at one, 2⁻²³ for float32.
    pub fn new(shape: impl Into<Shape>, eps: f64, dtype: DType) -> Result<Self> {
        let shape = shape.into();
        Ok(Self { weight: Param::new(Tensor::ones(&shape, dtype)?), eps, shape })
    }
}

impl Module for RmsNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        tpu_ops::rms_norm(&amp::cast(x)?, self.shape.sizes(), Some(&amp::value(&self.weight)?), self.eps)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.param("weight", &self.weight);
    }
}

/// Zero mean and unit variance over groups of channels of each element of the batch, then an affine map per channel. PyTorch's
/// `nn.GroupNorm`.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    /// Groups of channels.
    pub groups: usize,
    /// `[channels]`, ones at first.
    pub weight: Option<Param>,
    /// `[channels]`, zeros at first.
    pub bias: Option<Param>,
    /// Added to the variance.
    pub eps: f64,
}

impl GroupNorm {
    /// With weight and bias, and PyTorch's default `eps` of 1e-5.
    pub fn new(groups: usize, channels: usize, dtype: DType) -> Result<Self> {
        let weight = Some(Param::new(Tensor::ones([channels], dtype)?));
        let bias = Some(Param::new(Tensor::zeros([channels], dtype)?));
        Ok(Self { groups, weight, bias, eps: 1e-5 })
    }
}

impl Module for GroupNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (amp::optional(self.weight.as_ref())?, amp::optional(self.bias.as_ref())?);
        tpu_ops::group_norm(&amp::cast(x)?, self.groups, weight.as_ref(), bias.as_ref(), self.eps)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.optional("weight", self.weight.as_ref());
        visitor.optional("bias", self.bias.as_ref());
    }
}
