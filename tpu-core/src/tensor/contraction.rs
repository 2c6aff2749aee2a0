//! Matrix products and convolutions.

use super::Tensor;
use super::layout::broadcast_axes;
use crate::ir::{Axes, ConvDims, DotDims, Op, Precision};
use crate::{DType, Result, Shape, ensure};
use std::sync::Arc;

impl Tensor {
    /// The general product: contracts pairs of axes, pairs batch axes; see [`DotDims`].
    #[track_caller]
    pub fn dot_general(&self, rhs: &Self, dims: DotDims) -> Result<Self> {
        Self::record_one(Op::DotGeneral(Arc::new(dims)), &[self.into(), rhs.into()])
    }

    /// Matrix product with PyTorch's rules: `[…, m, k] × […, k, n] → […, m, n]`, leading axes broadcast; an operand of
    /// one axis is a row or a column that vanishes from the result.
    ///
    /// ```
    /// use tpu_core::{DType, Tensor};
    /// let x = Tensor::ones([2, 3], DType::F32)?;
    /// assert_eq!(x.matmul(&Tensor::ones([3, 4], DType::F32)?)?.to_vec::<f32>()?, [3.0; 8]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn matmul(&self, rhs: &Self) -> Result<Self> {
        Self::checked(|| {
            let full = self.rank() > 0 && rhs.rank() > 0;
            ensure!(full, Shape, "matmul", "requires at least one axis each, got {} and {}", self.shape(), rhs.shape());
            Ok(())
        })?;
        let (row, column) = (self.rank() == 1, rhs.rank() == 1);
        let lhs = if row { self.unsqueeze(0)? } else { self.clone() };
        let rhs = if column { rhs.unsqueeze(1)? } else { rhs.clone() };
        let product = lhs.matmul_batched(&rhs)?;
        match (row, column) {
            (false, false) => Ok(product),
            (true, false) => product.squeeze(-2),
            (false, true) => product.squeeze(-1),
            (true, true) => product.squeeze(-1)?.squeeze(-1),
        }
    }

    /// The product of operands of at least two axes.
    #[track_caller]
    fn matmul_batched(&self, rhs: &Self) -> Result<Self> {
        let (m, k) = (self.shape().size(self.rank() - 2), self.shape().size(self.rank() - 1));
        let (inner, n) = (rhs.shape().size(rhs.rank() - 2), rhs.shape().size(rhs.rank() - 1));
        let lead = |tensor: &Self| Shape::from(&tensor.sizes()[..tensor.rank() - 2]);
        let batch = Self::checked(|| {
            ensure!(
                k == inner,
                Shape,
                "matmul",
                "requires as many columns of lhs as rows of rhs, got {} and {}",
                self.shape(),
                rhs.shape()
            );
            let batch = Shape::broadcast(&lead(self), &lead(rhs));
            ensure!(
                batch.is_some(),
                Shape,
                "matmul",
                "requires leading axes that broadcast, got {} and {}",
                self.shape(),
                rhs.shape()
            );
            Ok(batch.unwrap_or_default())
        })?;
        if rhs.rank() == 2 {
            // One product of [… m, k] with one matrix: leading axes of lhs are free.
            return self.dot_general(rhs, dot_dims([].into_iter(), self.rank() - 1, [].into_iter(), 0, self.dtype()));
        }
        let (lhs, rhs) = (widen(self, &batch, [m, k])?, widen(rhs, &batch, [k, n])?);
        let lead = batch.rank();
        lhs.dot_general(&rhs, dot_dims(0..lead, lead + 1, 0..lead, lead, self.dtype()))
    }

    /// The general convolution; see [`ConvDims`].
    #[track_caller]
    pub fn convolution(&self, kernel: &Self, dims: ConvDims) -> Result<Self> {
        Self::record_one(Op::Convolution(Arc::new(dims)), &[self.into(), kernel.into()])
    }
}

/// A matrix for each of `batch`.
#[track_caller]
fn widen(tensor: &Tensor, batch: &Shape, matrix: [usize; 2]) -> Result<Tensor> {
    let shape: Shape = batch.sizes().iter().copied().chain(matrix).collect();
    if *tensor.shape() == shape { Ok(tensor.clone()) } else { broadcast_axes(tensor, &shape) }
}

/// Dimension numbers of a product with one contracted axis, in this thread's precision.
fn dot_dims(
    lhs_batch: impl Iterator<Item = usize>,
    lhs_contract: usize,
    rhs_batch: impl Iterator<Item = usize>,
    rhs_contract: usize,
    result: DType,
) -> DotDims {
    DotDims {
        lhs_batch: lhs_batch.collect(),
        rhs_batch: rhs_batch.collect(),
        lhs_contract: Axes::from_slice(&[lhs_contract]),
        rhs_contract: Axes::from_slice(&[rhs_contract]),
        precision: Precision::current(),
        result,
    }
}
