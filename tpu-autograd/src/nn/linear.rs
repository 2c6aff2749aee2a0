//! The affine map.

use super::{Module, Visitor, init};
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
        let (weight, bias) = init::layer(&[outputs, inputs], bias, dtype, generator)?;
        Ok(Self { weight: Param::new(weight), bias: bias.map(Param::new) })
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
