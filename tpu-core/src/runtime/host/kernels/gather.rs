//! Slices of an operand at places given by indices.

use super::super::scratch::{Memory, Scratch, planned};
use super::index::{Slices, Starts, batch_sizes};
use super::movement::with_width;
use super::strided::{self, Odometer, View};
use super::{Operand, Target, split};
use crate::ir::{Axes, GatherDims, Type};
use crate::{Result, bail};
use bytemuck::Pod;
use std::ops::Range;

/// How the slices lie in the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    /// So many axes of the slices, then those of the index vectors, then the others of the slices.
    Between(usize),
    /// The axes of the index vectors are apart.
    Apart,
}

impl Order {
    fn of(dims: &GatherDims, rank: usize) -> Self {
        let batch: Axes = (0..rank).filter(|axis| !dims.offset_dims.contains(axis)).collect();
        match batch.windows(2).all(|pair| pair[0] + 1 == pair[1]) {
            true => Self::Between(batch.first().copied().unwrap_or(0)),
            false => Self::Apart,
        }
    }
}

/// What [`gather`] needs beside operands and result.
pub(super) fn gather_bytes(dims: &GatherDims, indices: &[usize], result: &Type) -> usize {
    let vectors: usize = batch_sizes(indices, dims.index_vector_dim).iter().product();
    match Order::of(dims, result.shape.rank()) {
        Order::Between(0) => 0,
        Order::Between(_) => planned(&[vectors.saturating_mul(size_of::<isize>())]),
        Order::Apart => planned(&[result.bytes().unwrap_or(0)]),
    }
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
    let slices = Slices {
        indices: *indices,
        vector: dims.index_vector_dim,
        axes: &dims.start_index_map,
        operand_batching: &dims.operand_batching_dims,
        indices_batching: &dims.start_indices_batching_dims,
        sizes,
        extent: &dims.slice_sizes,
        moved: true,
    };
    let starts = slices.starts()?;
    let kept: Axes = (0..sizes.len())
        .filter(|axis| !dims.collapsed_slice_dims.contains(axis) && !dims.operand_batching_dims.contains(axis))
        .collect();
    let window = |kept: &[usize]| View {
        sizes: kept.iter().map(|&axis| dims.slice_sizes[axis]).collect(),
        strides: kept.iter().map(|&axis| strides[axis]).collect(),
        offset: 0,
    };
    let rank = y.ty.shape.rank();
    with_width!(x.ty.dtype, T => {
        let (x, out) = (x.cells::<T>()?, y.cells::<T>()?);
        match Order::of(dims, rank) {
            Order::Between(0) => {
                in_order(out, x, &starts, &Inner::new(&window(&kept)));
            }
            Order::Between(lead) => {
                let (lead, inner) = kept.split_at(lead);
                let all = starts.all(memory)?;
                slabs(out, x, &all, &window(lead), &Inner::new(&window(inner)));
            }
            Order::Apart => {
                // Computed as [batch …, slice …], then brought to the order of the result.
                let mut arranged = memory.filled(out.len(), 0 as T)?;
                in_order(&mut arranged, x, &starts, &Inner::new(&window(&kept)));
                let batch_axes = (0..rank).filter(|axis| !dims.offset_dims.contains(axis));
                let sizes: Axes = starts.batch.iter().chain(&window(&kept).sizes).copied().collect();
                let mut view = View::dense(y.ty.shape.sizes());
                for (axis, &stride) in batch_axes.chain(dims.offset_dims.iter().copied()).zip(&strided::dense(&sizes)) {
                    view.strides[axis] = stride;
                }
                strided::gather(y.cells::<T>()?, &arranged, &view);
            }
        }
    });
    Ok(())
}

/// The slices of one index vector after the other.
fn in_order<T: Pod + Send + Sync>(y: &mut [T], x: &[T], starts: &Starts<'_>, inner: &Inner) {
    let volume = inner.volume;
    split::parts(y, volume, inner.cost::<T>(), |first, part| {
        starts.for_each_block(first / volume, part.len() / volume, |at, starts| {
            inner.copy(&mut part[at * volume..][..starts.len() * volume], x, starts, 0);
        });
    });
}

/// The slices of all index vectors for one place of the leading axes after the other.
fn slabs<T: Pod + Send + Sync>(y: &mut [T], x: &[T], starts: &Scratch<'_, isize>, lead: &View, inner: &Inner) {
    let (volume, count) = (inner.volume, starts.len());
    split::parts(y, volume, inner.cost::<T>(), |first, mut part| {
        let mut slice = first / volume;
        let mut place = Odometer::new(&lead.sizes, &lead.strides, 0, slice / count);
        while !part.is_empty() {
            let at: Range<usize> = slice % count..count.min(slice % count + part.len() / volume);
            let (out, rest) = std::mem::take(&mut part).split_at_mut(at.len() * volume);
            slice += at.len();
            inner.copy(out, x, &starts[at], place.position);
            place.advance();
            part = rest;
        }
    });
}

/// The axes of a slice that lie behind those of the index vectors.
struct Inner {
    volume: usize,
    line: usize,
    step: isize,
    outer: View,
}

impl Inner {
    fn new(window: &View) -> Self {
        let mut outer = window.simplified();
        let volume = outer.sizes.iter().product();
        let (line, step) = (outer.sizes.pop().unwrap_or(1), outer.strides.pop().unwrap_or(1));
        Self { volume, line, step, outer }
    }

    /// Nanoseconds of an element.
    fn cost<T>(&self) -> f64 {
        0.15 * size_of::<T>() as f64 + 5.0 / self.line as f64
    }

    /// Slices at these starts, `place` further on.
    fn copy<T: Pod>(&self, y: &mut [T], x: &[T], starts: &[isize], place: isize) {
        if self.volume == 1 {
            y.iter_mut().zip(starts).for_each(|(y, &start)| *y = x[(start + place) as usize]);
            return;
        }
        for (y, &start) in y.chunks_exact_mut(self.volume).zip(starts) {
            if self.outer.sizes.is_empty() {
                strided::read_line(y, x, start + place, self.step);
                continue;
            }
            let mut at = Odometer::new(&self.outer.sizes, &self.outer.strides, start + place, 0);
            for y in y.chunks_exact_mut(self.line) {
                strided::read_line(y, x, at.position, self.step);
                at.advance();
            }
        }
    }
}
