//! Sorting.

use super::Tensor;
use crate::ir::Op;
use crate::{DType, Result};

impl Tensor {
    /// Sorted along an axis, with the indices (i64) that sort it. Stable; NaN counts as the largest.
    #[track_caller]
    pub fn sort(&self, axis: isize, descending: bool) -> Result<(Self, Self)> {
        let axis = Self::checked(|| self.axis(axis, "sort"))?;
        let order = Self::iota_on(self.device(), self.shape(), axis, DType::I64)?;
        let op = Op::Sort { axis, descending, stable: true };
        let mut results = Self::record(op, &[self.into(), (&order).into()])?;
        let indices = results.pop().expect("two results");
        Ok((results.pop().expect("two results"), indices))
    }

    /// The `k` largest, or smallest, elements along the last axis, best first, and their indices (i64).
    ///
    /// ```
    /// use tpu_core::Tensor;
    /// let (values, indices) = Tensor::from_slice(&[3.0f32, 9.0, 5.0])?.topk(2, true)?;
    /// assert_eq!(values.to_vec::<f32>()?, [9.0, 5.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn topk(&self, k: usize, largest: bool) -> Result<(Self, Self)> {
        let mut results = Self::record(Op::TopK { k, largest }, &[self.into()])?;
        let indices = results.pop().expect("two results").to_dtype(DType::I64)?;
        Ok((results.pop().expect("two results"), indices))
    }
}
