//! A table of vectors.

use super::{Module, Visitor};
use crate::{Param, amp};
use tpu_core::{DType, Result, Tensor};
use tpu_ops::Generator;

/// Rows of a table: integers of any shape to `[…, width]`. PyTorch's `nn.Embedding`.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// `[rows, width]`
    pub weight: Param,
}

impl Embedding {
    /// Standard normal rows, PyTorch's default.
    pub fn new(rows: usize, width: usize, dtype: DType, generator: &Generator) -> Result<Self> {
        Ok(Self { weight: Param::new(tpu_ops::normal([rows, width], 0.0, 1.0, dtype, Some(generator))?) })
    }
}

impl Module for Embedding {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        tpu_ops::embedding(&amp::value(&self.weight)?, x)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.param("weight", &self.weight);
    }
}
