//! Copying between dense and strided layouts: the one loop nest under broadcast, transpose, slice, reverse and pad.

use super::super::scratch::{Cells, Memory};
use super::split;
use crate::Result;
use crate::ir::Axes;
use bytemuck::Pod;
use smallvec::SmallVec;

/// Signed distances in elements, one per axis.
pub(super) type Strides = SmallVec<[isize; 6]>;

/// Row-major strides of dense sizes.
pub(super) fn dense(sizes: &[usize]) -> Strides {
    let mut strides: Strides = sizes.iter().map(|_| 0).collect();
    let mut step = 1;
    for (stride, &size) in strides.iter_mut().zip(sizes).rev() {
        *stride = step;
        step *= size.max(1) as isize;
    }
    strides
}

/// Goes through all index vectors below `sizes` in row-major order and keeps the position that they have under some
/// strides.
pub(super) struct Odometer {
    index: Axes,
    sizes: Axes,
    strides: Strides,
    /// Position of the current index vector.
    pub position: isize,
}

impl Odometer {
    /// At the index vector number `start`.
    pub(super) fn new(sizes: &[usize], strides: &[isize], offset: isize, start: usize) -> Self {
        let mut odometer = Self {
            index: SmallVec::from_elem(0, sizes.len()),
            sizes: sizes.into(),
            strides: strides.into(),
            position: offset,
        };
        let mut rest = start;
        for axis in (0..sizes.len()).rev() {
            let size = sizes[axis].max(1);
            odometer.index[axis] = rest % size;
            odometer.position += (rest % size) as isize * strides[axis];
            rest /= size;
        }
        odometer
    }

    /// To the next index vector; after the last comes the first.
    pub(super) fn advance(&mut self) {
        for axis in (0..self.index.len()).rev() {
            self.index[axis] += 1;
            self.position += self.strides[axis];
            if self.index[axis] < self.sizes[axis] {
                return;
            }
            self.position -= self.strides[axis] * self.index[axis] as isize;
            self.index[axis] = 0;
        }
    }
}

/// A strided view: sizes, strides and the position of index 0.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// Sizes of the axes.
    pub sizes: Axes,
    /// Distance between neighbours along each axis.
    pub strides: Strides,
    /// Where index 0 is.
    pub offset: isize,
}

impl View {
    /// A dense array of these sizes.
    pub(super) fn dense(sizes: &[usize]) -> Self {
        Self { sizes: sizes.into(), strides: dense(sizes), offset: 0 }
    }

    /// The same elements in the same order with as few axes as possible: axes of size one dropped, axes that follow on
    /// each other joined. At least one axis is left.
    pub(super) fn simplified(&self) -> Self {
        let (mut sizes, mut strides) = (Axes::new(), Strides::new());
        for (&size, &stride) in self.sizes.iter().zip(&self.strides) {
            match (sizes.last_mut(), strides.last_mut()) {
                _ if size == 1 => {}
                (Some(outer), Some(step)) if *step == stride * size as isize => {
                    *outer *= size;
                    *step = stride;
                }
                _ => {
                    sizes.push(size);
                    strides.push(stride);
                }
            }
        }
        if sizes.is_empty() {
            sizes.push(1);
            strides.push(1);
        }
        Self { sizes, strides, offset: self.offset }
    }
}

/// Elements on each side of a block of a transposing copy: 32 x 32 eight-byte elements are 8 KiB.
const BLOCK: usize = 32;

/// Fills dense `target` with the elements of `source` that `view` names, in row-major order.
pub(super) fn gather<T: Pod + Send + Sync>(target: &mut [T], source: &[T], view: &View) {
    if target.is_empty() {
        return;
    }
    let view = view.simplified();
    let (&inner, outer) = view.sizes.split_last().expect("at least one axis");
    let (&step, outer_strides) = view.strides.split_last().expect("at least one axis");
    // The axis along which the source runs fastest; when it is not the last one, copy block by block.
    let across = (0..outer.len()).rev().find(|&axis| outer_strides[axis].abs() == 1);
    match across {
        Some(axis) if step.abs() > 1 => transposing(target, source, &view, axis),
        _ => split::parts(target, inner, copy_cost::<T>(step), |first, part| {
            let mut row = Odometer::new(outer, outer_strides, view.offset, first / inner);
            for line in part.chunks_exact_mut(inner) {
                read_line(line, source, row.position, step);
                row.advance();
            }
        }),
    }
}

/// Nanoseconds an element takes to move.
fn copy_cost<T>(step: isize) -> f64 {
    let per_byte = if step.abs() <= 1 { 0.15 } else { 0.5 };
    size_of::<T>() as f64 * per_byte
}

/// One line: `step` between its elements in the source.
pub(super) fn read_line<T: Pod>(line: &mut [T], source: &[T], start: isize, step: isize) {
    match step {
        1 => line.copy_from_slice(&source[start as usize..start as usize + line.len()]),
        0 => line.fill(source[start as usize]),
        // Pairs are something that the compiler has vectors for.
        2 if !line.is_empty() => {
            let source = &source[start as usize..start as usize + 2 * line.len() - 1];
            if let (Some((out, rest)), Some((&x, pairs))) = (line.split_last_mut(), source.split_last()) {
                *out = x;
                rest.iter_mut().zip(pairs.chunks_exact(2)).for_each(|(out, pair)| *out = pair[0]);
            }
        }
        _ => {
            let mut at = start;
            for out in line {
                *out = source[at as usize];
                at += step;
            }
        }
    }
}

/// The same when the source runs fastest along `axis`, not along the last one: in square blocks over these two axes. A
/// block goes through a small buffer, so each side is touched in whole lines, once: with sizes that are powers of two
/// all lines of a block compete for the same few places of the cache, and lines left half used would not come back.
fn transposing<T: Pod + Send + Sync>(target: &mut [T], source: &[T], view: &View, axis: usize) {
    let rank = view.sizes.len();
    let (rows, columns) = (view.sizes[axis], view.sizes[rank - 1]);
    let (row_step, column_step) = (view.strides[axis], view.strides[rank - 1]);
    // In the target: consecutive slabs, each holding one whole `axis`; inside it the axes between are loops.
    let between: usize = view.sizes[axis + 1..rank - 1].iter().product();
    let pitch = between * columns;
    let (outer, outer_strides) = (&view.sizes[..axis], &view.strides[..axis]);
    let (middle, middle_strides) = (&view.sizes[axis + 1..rank - 1], &view.strides[axis + 1..rank - 1]);
    // A part is a whole number of target rows along `axis`; blocks are cut at its ends.
    split::parts(target, pitch, copy_cost::<T>(2), |first, part| {
        let mut block = [T::zeroed(); BLOCK * BLOCK];
        let mut row = first / pitch;
        let mut part = part;
        while !part.is_empty() {
            let inside = row % rows;
            let height = BLOCK.min(rows - inside).min(part.len() / pitch);
            let (slab, rest) = part.split_at_mut(height * pitch);
            let base = Odometer::new(outer, outer_strides, view.offset, row / rows).position;
            let mut lane = Odometer::new(middle, middle_strides, base + inside as isize * row_step, 0);
            for m in 0..between {
                for left in (0..columns).step_by(BLOCK) {
                    let width = BLOCK.min(columns - left);
                    let corner = lane.position + left as isize * column_step;
                    for (c, line) in block.chunks_exact_mut(BLOCK).take(width).enumerate() {
                        read_line(&mut line[..height], source, corner + c as isize * column_step, row_step);
                    }
                    for r in 0..height {
                        let out = r * pitch + m * columns + left;
                        for (c, out) in slab[out..out + width].iter_mut().enumerate() {
                            *out = block[c * BLOCK + r];
                        }
                    }
                }
                lane.advance();
            }
            row += height;
            part = rest;
        }
    });
}

/// Writes the elements of `source` under `from` to the places of `target` under `to`. The views have the same sizes;
/// places of `to` are distinct.
pub(super) fn copy<T: Pod>(target: &mut [T], to: &View, source: &[T], from: &View) {
    if to.sizes.contains(&0) {
        return;
    }
    // Trailing axes that are dense on both sides make one line.
    let rank = to.sizes.len();
    let (mut run, mut axis) = (1, rank);
    while axis > 0 {
        let dense = to.strides[axis - 1] == run as isize && from.strides[axis - 1] == run as isize;
        if !dense && to.sizes[axis - 1] != 1 {
            break;
        }
        axis -= 1;
        run *= to.sizes[axis];
    }
    let count: usize = to.sizes[..axis].iter().product();
    let mut out = Odometer::new(&to.sizes[..axis], &to.strides[..axis], to.offset, 0);
    let mut x = Odometer::new(&from.sizes[..axis], &from.strides[..axis], from.offset, 0);
    for _ in 0..count {
        let (o, i) = (out.position as usize, x.position as usize);
        target[o..o + run].copy_from_slice(&source[i..i + run]);
        out.advance();
        x.advance();
    }
}

/// The elements that `view` names, in row-major order; `source` itself when it is them.
pub(super) fn packed<'a, T: Pod + Send + Sync>(
    source: Cells<'a, T>,
    view: &View,
    memory: Memory<'a>,
) -> Result<Cells<'a, T>> {
    let count: usize = view.sizes.iter().product();
    let simple = view.simplified();
    if count == source.len() && simple.offset == 0 && (simple.sizes.len(), simple.strides[0]) == (1, 1) {
        return Ok(source);
    }
    let mut target = memory.filled(count, T::zeroed())?;
    gather(&mut target, &source, view);
    Ok(Cells::Brought(target))
}
