//! Updates of slices of an operand at places given by indices.

use super::super::scratch::{Memory, Scratch, planned};
use super::cell::{Cell, with_number};
use super::elementwise::refused;
use super::gather::{IndexVectors, OUTSIDE, index_bytes};
use super::movement::{self, with_width};
use super::strided::{self, Odometer, View};
use super::wide::Wide;
use super::{Operand, Target, split};
use crate::ir::{Axes, ScatterDims};
use crate::{Result, bail};
use bytemuck::Pod;

/// The operand with updates combined into it in row-major order of the updates; one that does not fit is dropped.
pub(super) fn scatter(
    dims: &ScatterDims,
    [x, indices, updates]: &[Operand<'_>; 3],
    target: &mut [Target<'_>; 1],
    memory: Memory<'_>,
) -> Result<()> {
    // Else the result is in the operand's memory.
    if !x.bytes.is_empty() {
        movement::copy(x, target)?;
    }
    let [y] = target;
    let plan = Plan::new(dims, x, indices, updates, memory)?;
    let dtype = x.ty.dtype;
    match dims.combiner {
        None => with_width!(dtype, T => plan.run::<T>(y.cells()?, updates.cells()?, |y, x| y.copy_from_slice(x))),
        Some(kind) => with_number!(dtype, T => {
            let combine = <T as Cell>::Wide::reducer::<T>(kind).ok_or_else(|| refused("scatter", dtype))?;
            plan.run::<T>(y.cells()?, updates.cells()?, combine.merge);
        }, return Err(refused("scatter", dtype))),
    }
    Ok(())
}

/// What [`scatter`] needs beside operands and result.
pub(super) fn scatter_bytes(dims: &ScatterDims, indices: &[usize]) -> usize {
    planned(&index_bytes(indices, dims.index_vector_dim))
}

struct Plan<'m> {
    /// For each index vector where its window starts in the operand, or [`OUTSIDE`].
    starts: Scratch<'m, isize>,
    /// The window in the operand.
    window: View,
    /// Sizes of the updates.
    updates: Axes,
    /// Strides that lead from an update to the number of its index vector.
    number: strided::Strides,
    /// Strides that lead from an update to its place in the window.
    place: strided::Strides,
    /// Whether the window's axes are the last ones of the updates, so that each index vector has a dense slice.
    trailing: bool,
}

impl<'m> Plan<'m> {
    fn new(
        dims: &ScatterDims,
        x: &Operand<'_>,
        indices: &Operand<'_>,
        updates: &Operand<'_>,
        memory: Memory<'m>,
    ) -> Result<Self> {
        let sizes = x.sizes();
        let strides = strided::dense(sizes);
        let kept = (0..sizes.len())
            .filter(|axis| !dims.inserted_window_dims.contains(axis) && !dims.input_batching_dims.contains(axis));
        let mut extent: Axes = sizes.iter().map(|_| 1).collect();
        let mut window = View { sizes: Axes::new(), strides: strided::Strides::new(), offset: 0 };
        for (axis, &update_axis) in kept.zip(&dims.update_window_dims) {
            extent[axis] = updates.sizes()[update_axis];
            window.sizes.push(extent[axis]);
            window.strides.push(strides[axis]);
        }
        let vectors = IndexVectors::new(
            indices,
            dims.index_vector_dim,
            &dims.scatter_dims_to_operand_dims,
            &dims.input_batching_dims,
            &dims.scatter_indices_batching_dims,
            memory,
        )?;
        let starts = vectors.starts(sizes, &extent, false, memory)?;

        let rank = updates.sizes().len();
        let mut number: strided::Strides = (0..rank).map(|_| 0).collect();
        let mut place = number.clone();
        let batch_axes: Axes = (0..rank).filter(|axis| !dims.update_window_dims.contains(axis)).collect();
        for (&axis, &stride) in batch_axes.iter().zip(&strided::dense(&vectors.batch)) {
            number[axis] = stride;
        }
        for (&axis, &stride) in dims.update_window_dims.iter().zip(&window.strides) {
            place[axis] = stride;
        }
        let trailing = batch_axes.iter().enumerate().all(|(i, &axis)| i == axis);
        Ok(Self { starts, window, updates: updates.sizes().into(), number, place, trailing })
    }

    fn run<T: Pod + Send + Sync>(&self, y: &mut [T], updates: &[T], merge: impl Fn(&mut [T], &[T]) + Sync) {
        if updates.is_empty() {
            return;
        }
        let window = self.window.simplified();
        let volume: usize = window.sizes.iter().product();
        let dense = (window.sizes.len(), window.strides[0]) == (1, 1);
        if self.trailing
            && dense
            && self.starts.iter().all(|&start| start == OUTSIDE || (start as usize).is_multiple_of(volume))
        {
            return self.rows(y, updates, volume, &merge);
        }
        if self.trailing {
            for (slice, &start) in updates.chunks_exact(volume).zip(self.starts.iter()) {
                if start != OUTSIDE {
                    write_window(y, start, &window, slice, &merge);
                }
            }
            return;
        }
        let mut number = Odometer::new(&self.updates, &self.number, 0, 0);
        let mut place = Odometer::new(&self.updates, &self.place, 0, 0);
        for update in updates {
            let start = self.starts[number.position as usize];
            if start != OUTSIDE {
                let at = (start + place.position) as usize;
                merge(&mut y[at..=at], std::slice::from_ref(update));
            }
            number.advance();
            place.advance();
        }
    }

    /// Whole rows: the destination is split, and each part takes the updates that fall into it, in their order.
    fn rows<T: Pod + Send + Sync>(
        &self,
        y: &mut [T],
        updates: &[T],
        row: usize,
        merge: &(impl Fn(&mut [T], &[T]) + Sync),
    ) {
        let cost = updates.len() as f64 / y.len() as f64;
        split::parts(y, row, cost, |first, part| {
            // What is outside wraps to beyond any part.
            for (slice, &start) in updates.chunks_exact(row).zip(self.starts.iter()) {
                let at = (start as usize).wrapping_sub(first);
                if at < part.len() {
                    merge(&mut part[at..at + row], slice);
                }
            }
        });
    }
}

/// One window, line by line where lines are dense.
fn write_window<T: Pod>(y: &mut [T], start: isize, window: &View, slice: &[T], merge: &impl Fn(&mut [T], &[T])) {
    let (&line, outer) = window.sizes.split_last().expect("at least one axis");
    let (&step, outer_strides) = window.strides.split_last().expect("at least one axis");
    let mut at = Odometer::new(outer, outer_strides, start, 0);
    for slice in slice.chunks_exact(line) {
        let from = at.position as usize;
        if step == 1 {
            merge(&mut y[from..from + line], slice);
        } else {
            for (i, update) in slice.iter().enumerate() {
                let place = from + i * step as usize;
                merge(&mut y[place..=place], std::slice::from_ref(update));
            }
        }
        at.advance();
    }
}
