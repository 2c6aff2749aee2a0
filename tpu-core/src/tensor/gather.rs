//! Indexing by tensors. Indices are checked where the value is computed, unless
//! [`unchecked_indices`](crate::lazy::unchecked_indices) says otherwise.

use super::Tensor;
use crate::ir::{Axes, GatherDims, Op, Reducer, ScatterDims};
use crate::lazy::checks_indices;
use crate::{DType, Result, Shape, ensure};
use smallvec::SmallVec;
use std::sync::Arc;

impl Tensor {
    /// The general gather; see [`GatherDims`]. Unchecked: start indices are clamped into range.
    #[track_caller]
    pub fn gather_general(&self, indices: &Self, dims: GatherDims) -> Result<Self> {
        Self::record_one(Op::Gather(Arc::new(dims)), &[self.into(), indices.into()])
    }

    /// The general scatter; see [`ScatterDims`]. Unchecked: updates out of range are dropped.
    #[track_caller]
    pub fn scatter_general(&self, indices: &Self, updates: &Self, dims: ScatterDims) -> Result<Self> {
        Self::record_one(Op::Scatter(Arc::new(dims)), &[self.into(), indices.into(), updates.into()])
    }

    /// Elements at `indices` (integers of any shape) along an axis, which is replaced by the axes of `indices`. Of a
    /// `[V, D]` table with axis 0 this is the embedding look-up.
    ///
    /// An index outside `0..size` is an error when the value is read, naming this call.
    ///
    /// ```
    /// use tpu_core::Tensor;
    /// let x = Tensor::from_slice(&[10i32, 20, 30])?;
    /// let y = x.take(&Tensor::from_slice(&[2i64, 0])?, 0)?;
    /// assert_eq!(y.to_vec::<i32>()?, [30, 10]);
    /// let error = x.take(&Tensor::from_slice(&[3i64])?, 0)?.to_vec::<i32>().unwrap_err();
    /// assert_eq!(error.kind(), tpu_core::ErrorKind::Index);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn take(&self, indices: &Self, axis: isize) -> Result<Self> {
        let axis = Self::checked(|| self.axis(axis, "take"))?;
        if indices.elements() == 0 {
            // Also of an axis of size zero, which has no slice that a gather could take.
            let sizes = self.sizes();
            let shape = sizes[..axis].iter().chain(indices.sizes()).chain(&sizes[axis + 1..]).copied();
            return self.narrow(axis as isize, 0, 0)?.reshape(shape.collect::<Shape>());
        }
        let dims = take_dims(self, indices, axis);
        let check = indices.index_check(self.shape().size(axis))?;
        Self::record_checked(Op::Gather(Arc::new(dims)), &[self.into(), indices.into()], check.as_ref())
    }

    /// PyTorch's `index_select`: [`take`](Self::take) with `indices` of one axis.
    #[track_caller]
    pub fn index_select(&self, axis: isize, indices: &Self) -> Result<Self> {
        Self::checked(|| {
            ensure!(
                indices.rank() <= 1,
                Shape,
                "index_select",
                "requires indices of one axis, got {}",
                indices.shape()
            );
            Ok(())
        })?;
        if indices.rank() == 0 { self.take(&indices.reshape(1)?, axis) } else { self.take(indices, axis) }
    }

    /// PyTorch's `gather`: `out[i][j] = self[i][indices[i][j]]` for axis 1, and alike. `indices` has this tensor's rank and no
    /// larger size on the other axes.
    #[track_caller]
    pub fn gather(&self, axis: isize, indices: &Self) -> Result<Self> {
        let axis = self.along_axis(axis, indices, "gather")?;
        let source = self.cut_to(indices, axis)?;
        if indices.elements() == 0 {
            // Also where another axis is empty, which has no slice that a gather could take.
            let size = indices.shape().size(axis).min(self.shape().size(axis));
            return source.narrow(axis as isize, 0, size)?.reshape(indices.shape());
        }
        let check = indices.index_check(self.shape().size(axis))?;
        let batch: Axes = (0..self.rank()).filter(|&other| other != axis).collect();
        let dims = GatherDims {
            offset_dims: Axes::new(),
            collapsed_slice_dims: Axes::from_slice(&[axis]),
            operand_batching_dims: batch.clone(),
            start_indices_batching_dims: batch,
            start_index_map: Axes::from_slice(&[axis]),
            index_vector_dim: indices.rank(),
            slice_sizes: SmallVec::from_elem(1, self.rank()),
            indices_are_sorted: false,
        };
        Self::record_checked(Op::Gather(Arc::new(dims)), &[(&source).into(), indices.into()], check.as_ref())
    }

    /// PyTorch's `scatter` and `scatter_add`: `out[i][indices[i][j]] = src[i][j]` for axis 1, combined with what is there if
    /// there is a `combiner`. `indices` and `src` have one shape.
    #[track_caller]
    pub fn scatter(&self, axis: isize, indices: &Self, src: &Self, combiner: Option<Reducer>) -> Result<Self> {
        let axis = self.along_axis(axis, indices, "scatter")?;
        Self::checked(|| {
            let (want, got) = (indices.shape(), src.shape());
            ensure!(
                want == got,
                Shape,
                "scatter",
                "requires a source of the shape of the indices, got {got} and {want}"
            );
            Ok(())
        })?;
        let check = indices.index_check(self.shape().size(axis))?;
        let other: Vec<usize> = (0..self.rank()).filter(|&other| other != axis).collect();
        let same_sizes = other.iter().all(|&axis| self.shape().size(axis) == indices.shape().size(axis));
        let (indices, batch, map) = if same_sizes {
            (indices.clone(), other.iter().copied().collect(), Axes::from_slice(&[axis]))
        } else {
            // Batching axes must agree in size: spell out the full index of each update instead.
            let mut parts = Vec::with_capacity(self.rank());
            for at in 0..self.rank() {
                let part = if at == axis {
                    indices.to_dtype(DType::I64)?
                } else {
                    Self::iota_on(indices.device(), indices.shape(), at, DType::I64)?
                };
                parts.push(part);
            }
            (Self::stack(&parts.iter().collect::<Vec<_>>(), -1)?, Axes::new(), (0..self.rank()).collect())
        };
        let inserted = if same_sizes { Axes::from_slice(&[axis]) } else { (0..self.rank()).collect() };
        let dims = ScatterDims {
            update_window_dims: Axes::new(),
            inserted_window_dims: inserted,
            input_batching_dims: batch.clone(),
            scatter_indices_batching_dims: batch,
            scatter_dims_to_operand_dims: map,
            index_vector_dim: self.rank(),
            indices_are_sorted: false,
            unique_indices: false,
            combiner,
        };
        Self::record_checked(Op::Scatter(Arc::new(dims)), &[self.into(), (&indices).into(), src.into()], check.as_ref())
    }

    /// `updates` combined into this tensor at `indices` along an axis: the reverse of [`take`](Self::take), whose result's
    /// shape `updates` has.
    #[track_caller]
    pub fn put(&self, indices: &Self, axis: isize, updates: &Self, combiner: Option<Reducer>) -> Result<Self> {
        let axis = Self::checked(|| self.axis(axis, "put"))?;
        let check = indices.index_check(self.shape().size(axis))?;
        let window = (0..axis).chain(axis + indices.rank()..updates.rank()).collect();
        let dims = ScatterDims {
            update_window_dims: window,
            inserted_window_dims: Axes::from_slice(&[axis]),
            input_batching_dims: Axes::new(),
            scatter_indices_batching_dims: Axes::new(),
            scatter_dims_to_operand_dims: Axes::from_slice(&[axis]),
            index_vector_dim: indices.rank(),
            indices_are_sorted: false,
            unique_indices: false,
            combiner,
        };
        Self::record_checked(
            Op::Scatter(Arc::new(dims)),
            &[self.into(), indices.into(), updates.into()],
            check.as_ref(),
        )
    }

    /// A scalar i32: −1, or the row-major position of the first of these indices that is not in `0..size`. `None` if
    /// indices are not checked on this thread or in the program being traced, or if no number of their dtype is out of
    /// range.
    #[track_caller]
    pub(crate) fn index_check(&self, size: usize) -> Result<Option<Self>> {
        let trace = crate::lazy::trace::current();
        let checked = checks_indices() && trace.is_none_or(|trace| trace.collects_checks());
        if !checked || !self.dtype().is_integer() || self.dtype().is_always_index(size) {
            return Ok(None);
        }
        let plain = self.detach();
        // A size that the index's dtype cannot hold is no bound for it.
        let low = plain.lt(0)?;
        let bad = match crate::Scalar::from(size).fits(self.dtype()) {
            true => low.bitwise_or(&plain.ge(size)?)?,
            false => low,
        };
        let flat = bad.reshape(self.elements())?;
        let (count, device) = (self.elements(), self.device());
        let (positions, beyond) = match i32::try_from(count) {
            Ok(_) => (Self::iota_on(device, count, 0, DType::I32)?, i64::from(i32::MAX)),
            // Positions beyond i32 are reported as the last that fits.
            Err(_) => (Self::iota_on(device, count, 0, DType::I64)?.minimum(i64::from(i32::MAX))?, i64::MAX),
        };
        let first = flat.select(&positions, beyond)?.min_all()?;
        let none = first.eq(beyond)?;
        Ok(Some(none.select(-1i64, &first)?.to_dtype(DType::I32)?))
    }

    #[track_caller]
    fn along_axis(&self, axis: isize, indices: &Self, op: &'static str) -> Result<usize> {
        Self::checked(|| {
            let axis = self.axis(axis, op)?;
            let fits = indices.rank() == self.rank()
                && (0..self.rank())
                    .all(|other| other == axis || indices.shape().size(other) <= self.shape().size(other));
            ensure!(
                fits,
                Shape,
                op,
                "requires indices of the operand's rank and no larger but on axis {axis}, got operand {} and indices {}",
                self.shape(),
                indices.shape()
            );
            Ok(axis)
        })
    }

    /// The leading part of this tensor that `indices` reaches on all axes but `axis`.
    #[track_caller]
    fn cut_to(&self, indices: &Self, axis: usize) -> Result<Self> {
        let mut source = self.clone();
        for other in (0..self.rank()).filter(|&other| other != axis) {
            let size = indices.shape().size(other);
            if size != self.shape().size(other) {
                source = source.narrow(other as isize, 0, size)?;
            }
        }
        Ok(source)
    }
}

/// Dimension numbers of taking whole slices along one axis.
fn take_dims(source: &Tensor, indices: &Tensor, axis: usize) -> GatherDims {
    let rank = source.rank() + indices.rank() - 1;
    let mut slice_sizes: Axes = SmallVec::from_slice(source.sizes());
    slice_sizes[axis] = 1;
    GatherDims {
        offset_dims: (0..axis).chain(axis + indices.rank()..rank).collect(),
        collapsed_slice_dims: Axes::from_slice(&[axis]),
        operand_batching_dims: Axes::new(),
        start_indices_batching_dims: Axes::new(),
        start_index_map: Axes::from_slice(&[axis]),
        index_vector_dim: indices.rank(),
        slice_sizes,
        indices_are_sorted: false,
    }
}
