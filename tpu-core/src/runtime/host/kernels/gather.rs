//! Slices of an operand at places given by indices.

use super::super::scratch::{Memory, Scratch, planned};
use super::movement::{read_indices, with_width};
use super::strided::{self, Odometer, Strides, View};
use super::{Operand, Target, split};
use crate::ir::{Axes, GatherDims, Type};
use crate::{Result, bail};
use bytemuck::Pod;
use smallvec::SmallVec;

/// Index vectors of a gather or scatter: which operand axes they address, and how the axes of the index array that are
/// not the vector's count.
pub(super) struct IndexVectors<'m> {
    /// All indices.
    values: Scratch<'m, i64>,
    /// Sizes of the batch axes of the index array: all but the vector's.
    pub batch: Axes,
    /// Their strides in the index array.
    strides: Strides,
    /// Distance between components of a vector.
    component: usize,
    /// For each component its operand axis.
    axes: Axes,
    /// Pairs of operand axis and batch axis that go along with each other.
    pairs: Vec<(usize, usize)>,
}

impl<'m> IndexVectors<'m> {
    pub(super) fn new(
        indices: &Operand<'_>,
        vector: usize,
        axes: &[usize],
        operand_batching: &[usize],
        indices_batching: &[usize],
        memory: Memory<'m>,
    ) -> Result<Self> {
        let sizes = indices.sizes();
        let strides = strided::dense(sizes);
        let batch_axes = (0..sizes.len()).filter(|&axis| axis != vector);
        // Numbers of index axes shift down by one behind the vector's axis.
        let pairs = operand_batching.iter().zip(indices_batching).map(|(&o, &i)| (o, i - usize::from(i > vector)));
        let mut values = memory.filled(sizes.iter().product(), 0)?;
        read_indices(indices, &mut values)?;
        Ok(Self {
            values,
            batch: batch_sizes(sizes, vector),
            strides: batch_axes.map(|axis| strides[axis]).collect(),
            component: if vector < sizes.len() { strides[vector] as usize } else { 0 },
            axes: axes.into(),
            pairs: pairs.collect(),
        })
    }

    /// For every index vector, in row-major order, where a slice of `extent` starts in an operand of these sizes: the start
    /// clamped so that the slice fits, or [`OUTSIDE`] where it does not fit and slices are not to be moved.
    pub(super) fn starts(
        &self,
        sizes: &[usize],
        extent: &[usize],
        moved: bool,
        memory: Memory<'m>,
    ) -> Result<Scratch<'m, isize>> {
        let strides = strided::dense(sizes);
        let room = |axis: usize| sizes[axis] as i64 - extent[axis] as i64;
        // For each component of a vector how far a start may be, and the distance that it is a multiple of.
        let components: SmallVec<[(i64, isize); 4]> =
            self.axes.iter().map(|&axis| (room(axis), strides[axis])).collect();
        let possible = (0..sizes.len()).all(|axis| room(axis) >= 0);
        let mut paired: Strides = SmallVec::from_elem(0, self.batch.len());
        for &(operand, batch) in &self.pairs {
            paired[batch] = strides[operand];
        }
        let rank = self.batch.len().saturating_sub(1);
        let last = |list: &[isize]| list.last().copied().unwrap_or(0);
        let (step, paired_step) = (last(&self.strides), last(&paired));
        let columns = self.batch.last().copied().unwrap_or(1);
        let mut starts = memory.filled(self.batch.iter().product(), OUTSIDE)?;
        split::parts(&mut starts, columns, 2.0 + 2.0 * components.len() as f64, |first, part| {
            let mut vector = Odometer::new(&self.batch[..rank], &self.strides[..rank], 0, first / columns.max(1));
            let mut along = Odometer::new(&self.batch[..rank], &paired[..rank], 0, first / columns.max(1));
            for line in part.chunks_exact_mut(columns.max(1)) {
                for (column, start) in (0..).zip(line) {
                    let at = (vector.position + column * step) as usize;
                    let (mut place, mut fits) = (along.position + column * paired_step, possible);
                    for (number, &(room, stride)) in components.iter().enumerate() {
                        let index = self.values[at + number * self.component];
                        place += index.clamp(0, room.max(0)) as isize * stride;
                        fits &= (0..=room).contains(&index);
                    }
                    *start = if fits || moved { place } else { OUTSIDE };
                }
                vector.advance();
                along.advance();
            }
        });
        Ok(starts)
    }
}

/// Where a slice that does not fit starts.
pub(super) const OUTSIDE: isize = -1;

/// Sizes of the index array's axes but the vector's.
pub(super) fn batch_sizes(indices: &[usize], vector: usize) -> Axes {
    indices.iter().enumerate().filter(|&(axis, _)| axis != vector).map(|(_, &size)| size).collect()
}

/// Bytes of an `i64` for each index and of an `isize` for each index vector.
pub(super) fn index_bytes(indices: &[usize], vector: usize) -> [usize; 2] {
    let count = |sizes: &[usize]| sizes.iter().product::<usize>();
    [count(indices).saturating_mul(8), count(&batch_sizes(indices, vector)).saturating_mul(size_of::<isize>())]
}

/// Whether the slices of a result of this rank lie one after the other.
fn is_trailing(dims: &GatherDims, rank: usize) -> bool {
    (0..rank).filter(|axis| !dims.offset_dims.contains(axis)).enumerate().all(|(i, axis)| i == axis)
}

/// What [`gather`] needs beside operands and result.
pub(super) fn gather_bytes(dims: &GatherDims, indices: &[usize], result: &Type) -> usize {
    let [values, starts] = index_bytes(indices, dims.index_vector_dim);
    let slices = if is_trailing(dims, result.shape.rank()) { 0 } else { result.bytes().unwrap_or(0) };
    planned(&[values, starts, slices])
}

/// For each index vector a slice of the operand, its start clamped so that it fits.
pub(super) fn gather(
    dims: &GatherDims,
    x: &Operand<'_>,
    indices: &Operand<'_>,
    [y]: &mut [Target<'_>; 1],
    memory: Memory<'_>,
) -> Result<()> {
    if y.bytes.is_empty() {
        return Ok(());
    }
    let sizes = x.sizes();
    let strides = strided::dense(sizes);
    let vectors = IndexVectors::new(
        indices,
        dims.index_vector_dim,
        &dims.start_index_map,
        &dims.operand_batching_dims,
        &dims.start_indices_batching_dims,
        memory,
    )?;
    let starts = vectors.starts(sizes, &dims.slice_sizes, true, memory)?;
    let kept = (0..sizes.len())
        .filter(|axis| !dims.collapsed_slice_dims.contains(axis) && !dims.operand_batching_dims.contains(axis));
    let window = View {
        sizes: kept.clone().map(|axis| dims.slice_sizes[axis]).collect(),
        strides: kept.map(|axis| strides[axis]).collect(),
        offset: 0,
    };

    let rank = y.ty.shape.rank();
    let batch_axes: Axes = (0..rank).filter(|axis| !dims.offset_dims.contains(axis)).collect();
    let trailing = is_trailing(dims, rank);
    with_width!(x.ty.dtype, T => {
        let (x, out) = (x.cells::<T>()?, y.cells::<T>()?);
        if trailing {
            gather_slices(out, x, &starts, &window);
        } else {
            // Computed as [batch …, slice …], then brought to the order of the result.
            let mut arranged = memory.filled(out.len(), 0 as T)?;
            gather_slices(&mut arranged, x, &starts, &window);
            let arranged_sizes: Axes = vectors.batch.iter().chain(&window.sizes).copied().collect();
            let from = strided::dense(&arranged_sizes);
            let mut view = View::dense(y.ty.shape.sizes());
            for (&axis, &stride) in batch_axes.iter().chain(&dims.offset_dims).zip(&from) {
                view.strides[axis] = stride;
            }
            strided::gather(y.cells::<T>()?, &arranged, &view);
        }
    });
    Ok(())
}

/// One slice after the other.
fn gather_slices<T: Pod + Send + Sync>(y: &mut [T], x: &[T], starts: &[isize], window: &View) {
    let window = window.simplified();
    let volume: usize = window.sizes.iter().product();
    let (&line, outer) = window.sizes.split_last().expect("at least one axis");
    let (&step, outer_strides) = window.strides.split_last().expect("at least one axis");
    let cost = 0.15 * size_of::<T>() as f64 + 5.0 / line as f64;
    split::parts(y, volume, cost, |first, part| {
        if volume == 1 {
            part.iter_mut().zip(&starts[first..]).for_each(|(y, &start)| *y = x[start as usize]);
            return;
        }
        for (y, &start) in part.chunks_exact_mut(volume).zip(&starts[first / volume..]) {
            if outer.is_empty() {
                strided::read_line(y, x, start, step);
                continue;
            }
            let mut at = Odometer::new(outer, outer_strides, start, 0);
            for y in y.chunks_exact_mut(line) {
                strided::read_line(y, x, at.position, step);
                at.advance();
            }
        }
    });
}
