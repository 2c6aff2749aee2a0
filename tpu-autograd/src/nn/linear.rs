//! The affine map.

use super::{Module, Visitor};
use crate::{Param, amp};
use tpu_core::{DType, Result, Tensor};
use tpu_ops::Generator;

/// x · weightᵀ + bias on the last axis: `[…, in]` to `[…, out]`. PyTorch's `nn.Linear`.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[out, in]`
    pub weight: Param,
    /// `[out]`
    pub bias: Option<Param>,
}

impl Linear {
    /// Weight and bias uniform in ±1/√in, PyTorch's default.
    pub fn new(inputs: usize, outputs: usize, bias: bool, dtype: DType, generator: &Generator) -> Result<Self> {
        let bound = if inputs == 0 { 0.0 } else { 1.0 / (inputs as f64).sqrt() };
        let weight = tpu_ops::uniform([outputs, inputs], -bound, bound, dtype, Some(generator))?;
        let bias = match bias {
            true => Some(Param::new(tpu_ops::uniform([outputs], -bound, bound, dtype, Some(generator))?)),
            false => None,
        };
        Ok(Self { weight: Param::new(weight), bias })
    }
}

impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let bias = amp::optional(self.bias.as_ref())?;
        tpu_ops::linear(&amp::cast(x)?, &amp::value(&self.weight)?, bias.as_ref())
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.param("weight", &self.weight);
        if let Some(bias) = &self.bias {
            visitor.param("bias", bias);
        }
    }
}
