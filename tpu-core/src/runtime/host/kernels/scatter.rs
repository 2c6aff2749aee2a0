//! Updates of slices of an operand at places given by indices.

use super::super::scratch::{Memory, planned};
use super::cell::{Cell, with_number};
use super::elementwise::refused;
use super::index::{OUTSIDE, Slices, Starts, batch_sizes};
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
    let sizes: Axes = y.ty.shape.sizes().into();
    let extent = Extent::new(dims, &sizes, updates);
    let plan = Plan::new(dims, &sizes, &extent, indices, updates)?;
    let dtype = x.ty.dtype;
    match dims.combiner {
        None => with_width!(dtype, T => {
            let merge = Merge { row: |y, x| y.copy_from_slice(x), each: set::<T> };
            plan.run::<T>(y.cells()?, updates.cells()?, merge, memory)
        }),
        Some(kind) => with_number!(dtype, T => {
            let combine = <T as Cell>::Wide::reducer::<T>(kind).ok_or_else(|| refused("scatter", dtype))?;
            let merge = Merge { row: combine.merge, each: combine.merge_at };
            plan.run::<T>(y.cells()?, updates.cells()?, merge, memory)
        }, Err(refused("scatter", dtype))),
    }
}

/// Puts elements at their places, less a number; those outside are left out.
fn set<T: Pod>(y: &mut [T], places: &[isize], first: isize, x: &[T]) {
    for (place, &x) in places.iter().zip(x) {
        if let Some(y) = y.get_mut((place - first) as usize) {
            *y = x;
        }
    }
}

/// What [`scatter`] needs beside operands and result.
pub(super) fn scatter_bytes(dims: &ScatterDims, indices: &[usize], updates: usize) -> usize {
    let vectors: usize = batch_sizes(indices, dims.index_vector_dim).iter().product();
    if is_trailing(dims, updates) { 0 } else { planned(&[vectors.saturating_mul(size_of::<isize>())]) }
}

/// The axes of the updates that are those of the index vectors.
fn batch_axes(dims: &ScatterDims, rank: usize) -> Axes {
    (0..rank).filter(|axis| !dims.update_window_dims.contains(axis)).collect()
}

/// Whether the window's axes are the last ones of the updates, so that each index vector has a dense slice.
fn is_trailing(dims: &ScatterDims, rank: usize) -> bool {
    batch_axes(dims, rank).iter().enumerate().all(|(i, &axis)| i == axis)
}

/// How updates are combined with what is there.
#[derive(Clone, Copy)]
struct Merge<T> {
    /// A row with another.
    row: fn(&mut [T], &[T]),
    /// Elements at places, less a number; those outside are left out.
    each: fn(&mut [T], &[isize], isize, &[T]),
}

/// The window in the operand: how far it reaches along all axes, and those that the updates have.
struct Extent {
    all: Axes,
    window: View,
}

impl Extent {
    fn new(dims: &ScatterDims, sizes: &[usize], updates: &Operand<'_>) -> Self {
        let strides = strided::dense(sizes);
        let kept = (0..sizes.len())
            .filter(|axis| !dims.inserted_window_dims.contains(axis) && !dims.input_batching_dims.contains(axis));
        let mut all: Axes = sizes.iter().map(|_| 1).collect();
        let mut window = View { sizes: Axes::new(), strides: strided::Strides::new(), offset: 0 };
        for (axis, &update_axis) in kept.zip(&dims.update_window_dims) {
            all[axis] = updates.sizes()[update_axis];
            window.sizes.push(all[axis]);
            window.strides.push(strides[axis]);
        }
        Self { all, window }
    }
}

struct Plan<'a> {
    /// Where the windows of index vectors start in the operand.
    starts: Starts<'a>,
    window: &'a View,
    /// Sizes of the updates.
    updates: Axes,
    /// Strides that lead from an update to the number of its index vector.
    number: strided::Strides,
    /// Strides that lead from an update to its place in the window.
    place: strided::Strides,
    trailing: bool,
}

impl<'a> Plan<'a> {
    fn new(
        dims: &'a ScatterDims,
        sizes: &'a [usize],
        extent: &'a Extent,
        indices: &Operand<'a>,
        updates: &Operand<'_>,
    ) -> Result<Self> {
        let slices = Slices {
            indices: *indices,
            vector: dims.index_vector_dim,
            axes: &dims.scatter_dims_to_operand_dims,
            operand_batching: &dims.input_batching_dims,
            indices_batching: &dims.scatter_indices_batching_dims,
            sizes,
            extent: &extent.all,
            moved: false,
        };
        let starts = slices.starts()?;
        let rank = updates.sizes().len();
        let mut number: strided::Strides = (0..rank).map(|_| 0).collect();
        let mut place = number.clone();
        for (&axis, &stride) in batch_axes(dims, rank).iter().zip(&strided::dense(&starts.batch)) {
            number[axis] = stride;
        }
        for (&axis, &stride) in dims.update_window_dims.iter().zip(&extent.window.strides) {
            place[axis] = stride;
        }
        let trailing = is_trailing(dims, rank);
        Ok(Self { starts, window: &extent.window, updates: updates.sizes().into(), number, place, trailing })
    }

    fn run<T: Pod + Send + Sync>(&self, y: &mut [T], updates: &[T], merge: Merge<T>, memory: Memory<'_>) -> Result<()> {
        if updates.is_empty() || y.is_empty() {
            return Ok(());
        }
        let window = self.window.simplified();
        let volume: usize = window.sizes.iter().product();
        let dense = (window.sizes.len(), window.strides[0]) == (1, 1);
        if self.trailing && dense && self.starts.are_multiples_of(volume) {
            self.rows(y, updates, volume, merge);
        } else if self.trailing {
            self.starts.for_each_block(0, self.starts.count(), |at, starts| {
                for (slice, &start) in updates[at * volume..].chunks_exact(volume).zip(starts) {
                    if start != OUTSIDE {
                        write_window(y, start, &window, slice, &merge.row);
                    }
                }
            });
        } else {
            let starts = self.starts.all(memory)?;
            let mut number = Odometer::new(&self.updates, &self.number, 0, 0);
            let mut place = Odometer::new(&self.updates, &self.place, 0, 0);
            for update in updates {
                let start = starts[number.position as usize];
                if start != OUTSIDE {
                    let at = (start + place.position) as usize;
                    (merge.row)(&mut y[at..=at], std::slice::from_ref(update));
                }
                number.advance();
                place.advance();
            }
        }
        Ok(())
    }

    /// Whole rows: the destination is split, and each part takes the updates that fall into it, in their order.
    fn rows<T: Pod + Send + Sync>(&self, y: &mut [T], updates: &[T], row: usize, merge: Merge<T>) {
        // Elements of the destination that have their own run of index vectors, and how long it is; else each part looks at all of
        // them, and there are no more parts than threads.
        let slab = self.starts.slab(y.len());
        let unit = match slab {
            Some((elements, _)) => elements,
            None => (y.len() / row).div_ceil(split::threads()) * row,
        };
        let cost = (2 * updates.len()) as f64 / y.len() as f64;
        split::parts(y, unit, cost, |first, part| {
            let (before, count) = match slab {
                Some((elements, vectors)) => (first / elements * vectors, part.len() / elements * vectors),
                None => (0, self.starts.count()),
            };
            let updates = &updates[before * row..];
            self.starts.for_each_block(before, count, |at, starts| {
                let updates = &updates[at * row..][..starts.len() * row];
                if row == 1 {
                    return (merge.each)(part, starts, first as isize, updates);
                }
                // What is outside wraps to beyond any part.
                for (slice, &start) in updates.chunks_exact(row).zip(starts) {
                    let at = (start as usize).wrapping_sub(first);
                    if at < part.len() {
                        (merge.row)(&mut part[at..at + row], slice);
                    }
                }
            });
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
