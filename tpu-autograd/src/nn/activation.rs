//! Activations with parameters.

use super::{Module, Visitor};
use crate::{Param, amp};
use tpu_core::{DType, Result, Tensor};

/// x above 0, weight · x elsewhere. PyTorch's `nn.PReLU`.
#[derive(Clone, Debug)]
pub struct PRelu {
    /// `[1]`, or a number per channel.
    pub weight: Param,
}

impl PRelu {
    /// So many slopes, 0.25 at first, PyTorch's default.
    pub fn new(slopes: usize, dtype: DType) -> Result<Self> {
        Ok(Self { weight: Param::new(Tensor::full([slopes], 0.25, dtype)?) })
    }
}

impl Module for PRelu {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        tpu_ops::prelu(&amp::cast(x)?, &amp::value(&self.weight)?)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.param("weight", &self.weight);
    }
}
