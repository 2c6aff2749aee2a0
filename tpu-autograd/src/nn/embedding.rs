//! A table of vectors.

use super::{Module, Visitor};
use crate::{Param, amp};
use tpu_core::{DType, Error, ErrorKind, Result, Tensor};
use tpu_ops::{Generator, embedding, embedding_padded};

/// Rows of a table: integers of any shape to `[…, width]`. PyTorch's `nn.Embedding`.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// `[rows, width]`
    pub weight: Param,
    /// The row that gets no gradient.
    pub padding: Option<usize>,
}

impl Embedding {
    /// Standard normal rows, PyTorch's default.
    pub fn new(rows: usize, width: usize, dtype: DType, generator: &Generator) -> Result<Self> {
        let weight = tpu_ops::normal([rows, width], 0.0, 1.0, dtype, Some(generator))?;
        Ok(Self { weight: Param::new(weight), padding: None })
    }

    /// With a row that is zero and stays so, because it gets no gradient. PyTorch's `padding_idx`. Errors if there is no such
    /// row.
    pub fn with_padding(self, row: usize) -> Result<Self> {
        let weight = self.weight.value().detach();
        let rows = weight.shape().size(0);
        if row >= rows {
            let message = format!("requires a padding row below {rows}, got {row}");
            return Err(Error::new(ErrorKind::Index, "embedding", message));
        }
        let is_padding = Tensor::iota([rows, 1], 0, DType::I64)?.eq(row)?;
        self.weight.set(is_padding.select(0, &weight)?)?;
        Ok(Self { padding: Some(row), ..self })
    }
}

impl Module for Embedding {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let weight = amp::value(&self.weight)?;
        match self.padding {
            Some(row) => embedding_padded(&weight, x, row),
            None => embedding(&weight, x),
        }
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.param("weight", &self.weight);
    }
}
