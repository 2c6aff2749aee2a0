//! Kernels as large as images: weight gradients.
//!
//! The rows of a tile are output positions of several images, which read the framed input where it is; its columns are output
//! features, for which the kernel is packed. The sum over input features, which are the images of a batch there, is cut
//! into a number of parts that depends on the sizes alone, and the parts are added in order.

use super::super::super::scratch::{Cells, Memory};
use super::super::accumulate::Accumulator;
use super::super::frame::Frame;
use super::super::{split, strided};
use super::geometry::Geometry;
use super::tile::{Kernels, Level, ROWS, Tile, Transpose};
use crate::Result;
use smallvec::SmallVec;
use std::ops::Range;

/// Terms that a tile sums before the next one: 256 x 16 `f32` of the packed kernel stay in the first-level cache.
const TERMS: usize = 256;
/// Most parts of the sum over features.
const PARTS: usize = 8;
/// Most elements that all parts of all sums may have.
const PART_ELEMENTS: usize = 1 << 20;

struct Plan<'p, A> {
    geometry: &'p Geometry,
    kernels: &'p Kernels<A>,
    frame: Frame,
    /// Whether channels of the input are their own frames.
    in_place: bool,
    /// Positions, over all images of a group.
    rows: usize,
    /// Tiles of these rows.
    tiles: usize,
    /// Tiles of output features.
    blocks: usize,
    /// Input features of a part of the sum.
    part: usize,
    /// Such parts.
    parts: usize,
    /// Input features that are framed and packed together.
    together: usize,
    /// Where the frame meets the kernel's first element at each position.
    places: Vec<usize>,
}

/// Computes the outputs into `y`, which lies as [batch, feature, positions …].
pub(super) fn run<A: Accumulator>(
    geometry: &Geometry,
    kernels: &Kernels<A>,
    x: &[A],
    kernel: &[A],
    y: &mut [A],
    memory: Memory<'_>,
) -> Result<()> {
    let plan = Plan::new(geometry, kernels);
    let kernel = strided::packed(Cells::There(kernel), &geometry.kernel_view(), memory)?;
    let unit = plan.blocks * ROWS * kernels.width;
    let mut sums = memory.filled(geometry.groups * plan.parts * plan.tiles * unit, A::default())?;
    let work = y.len() as f64 * geometry.depth() as f64 * A::COST;
    let cost = work / sums.len() as f64;
    split::try_parts(&mut sums, unit, cost, |first, mut sums| {
        let (mut at, end) = (first / unit, (first + sums.len()) / unit);
        while at < end {
            let (number, tile) = (at / plan.tiles, at % plan.tiles);
            let tiles = tile..plan.tiles.min(tile + end - at);
            at += tiles.len();
            let (some, rest) = sums.split_at_mut(tiles.len() * unit);
            plan.sum(x, &kernel, number / plan.parts, number % plan.parts, tiles, some, memory)?;
            sums = rest;
        }
        Ok(())
    })?;
    split::parts(y, plan.places.len(), plan.parts as f64, |first, part| plan.add_parts(&sums, first, part));
    Ok(())
}

impl<'p, A: Accumulator> Plan<'p, A> {
    fn new(geometry: &'p Geometry, kernels: &'p Kernels<A>) -> Self {
        let rows = geometry.batch * geometry.positions();
        let (tiles, blocks) = (rows.div_ceil(ROWS), geometry.outputs.div_ceil(kernels.width));
        let together = (TERMS / geometry.taps()).clamp(1, geometry.inputs);
        let elements = geometry.groups * rows * geometry.outputs;
        let most = (PART_ELEMENTS / elements).clamp(1, PARTS);
        let part = geometry.inputs.div_ceil(most).next_multiple_of(together);
        let frame = geometry.frame(false);
        let mut places = vec![0];
        for (index, axis) in geometry.axes.iter().enumerate() {
            let step = axis.step * frame.step(index);
            places = places.iter().flat_map(|&place| (0..axis.output).map(move |p| place + p * step)).collect();
        }
        let parts = geometry.inputs.div_ceil(part);
        let in_place = frame.is_image();
        Self { geometry, kernels, frame, in_place, rows, tiles, blocks, part, parts, together, places }
    }

    /// One part of the sums of these tiles of rows.
    fn sum(
        &self,
        x: &[A],
        kernel: &[A],
        group: usize,
        part: usize,
        tiles: Range<usize>,
        sums: &mut [A],
        memory: Memory<'_>,
    ) -> Result<()> {
        let (geometry, width, length) = (self.geometry, self.kernels.width, self.frame.len());
        let positions = self.places.len();
        let images = tiles.start * ROWS / positions..(tiles.end * ROWS).min(self.rows).div_ceil(positions);
        let features = part * self.part..geometry.inputs.min((part + 1) * self.part);
        let framed = if self.in_place { 0 } else { self.together * images.len() * length };
        let mut frames = memory.filled(framed, A::default())?;
        let mut packed = memory.filled(self.together * geometry.taps() * self.blocks * width, A::default())?;
        for first in features.clone().step_by(self.together) {
            let count = self.together.min(features.end - first);
            let origin = |feature: usize, image: usize| {
                (geometry.origin(image, group) + feature as isize * geometry.feature_stride) as usize
            };
            // Where the first feature of the first image is, and distances of features and images.
            let mut source = (x, origin(first, images.start));
            let mut steps = (geometry.feature_stride as usize, geometry.batch_stride as usize);
            if !self.in_place {
                for (number, frame) in frames.chunks_exact_mut(length).take(count * images.len()).enumerate() {
                    let (feature, image) = (first + number / images.len(), images.start + number % images.len());
                    self.frame.fill(frame, x, origin(feature, image) as isize);
                }
                (source, steps) = ((&frames[..], 0), (images.len() * length, length));
            }
            self.pack(kernel, group, first..first + count, &mut packed);
            let levels = self.levels(count, steps.0);
            for_each_nest(&levels, |a, b, nest| {
                for block in 0..self.blocks {
                    let packed = &packed[block * count * geometry.taps() * width + b..];
                    for (tile, sums) in tiles.clone().zip(sums.chunks_exact_mut(self.blocks * ROWS * width)) {
                        let sums = &mut sums[block * ROWS * width..][..ROWS * width];
                        // Rows behind the last one repeat it; nobody reads their sums.
                        let row = |i: usize| (tile * ROWS + i).min(self.rows - 1);
                        let start = |row: usize| {
                            let image = row / positions - images.start;
                            source.1 + a + image * steps.1 + self.places[row % positions]
                        };
                        let rows = std::array::from_fn(|i| source.0[start(row(i))..].as_ptr());
                        let (a, b, c) = (rows, packed.as_ptr(), sums.as_mut_ptr());
                        let tile = Tile { a, b, levels: nest, c, step: width, add: true };
                        // SAFETY: a frame has a place for each kernel element at each position, by its length, and the packed
                        // kernel a line for each element of each feature, which are what the levels go through; the kernels
                        // are those of this processor.
                        unsafe { (self.kernels.tile)(&tile) }
                    }
                }
            });
        }
        Ok(())
    }

    /// The kernel of these input features by tiles of output features, input features and spatial elements.
    fn pack(&self, kernel: &[A], group: usize, features: Range<usize>, packed: &mut [A]) {
        let (geometry, width, taps) = (self.geometry, self.kernels.width, self.geometry.taps());
        for block in 0..self.blocks {
            let lanes = width.min(geometry.outputs - block * width);
            for (number, feature) in features.clone().enumerate() {
                let packed = &mut packed[(block * features.len() + number) * taps * width..][..taps * width];
                let first = ((group * geometry.outputs + block * width) * geometry.inputs + feature) * taps;
                let (x, x_step) = (&kernel[first..], geometry.inputs * taps);
                let mut all = Transpose { x, x_step, rows: lanes, len: taps, y: packed, y_step: width };
                // SAFETY: the kernels are those of this processor.
                unsafe { (self.kernels.transpose)(&mut all) }
            }
        }
    }

    /// The sums over `count` input features and all kernel elements, outermost first.
    fn levels(&self, count: usize, feature_step: usize) -> SmallVec<[Level; 4]> {
        let (geometry, width) = (self.geometry, self.kernels.width);
        let feature = Level { count, a: feature_step, b: geometry.taps() * width };
        let mut levels: SmallVec<[Level; 4]> = [feature].into_iter().collect();
        for (index, axis) in geometry.axes.iter().enumerate() {
            let inner: usize = geometry.axes[index + 1..].iter().map(|axis| axis.taps).product();
            levels.push(Level { count: axis.taps, a: axis.kernel_dilation * self.frame.step(index), b: inner * width });
        }
        levels
    }

    /// The results from `first` on: the parts of each sum, in order.
    fn add_parts(&self, sums: &[A], first: usize, y: &mut [A]) {
        let (geometry, width, positions) = (self.geometry, self.kernels.width, self.places.len());
        let unit = ROWS * width;
        for (number, y) in y.chunks_exact_mut(positions).enumerate() {
            let (image, feature) = (
                (first / positions + number) / geometry.features(),
                (first / positions + number) % geometry.features(),
            );
            let (group, output) = (feature / geometry.outputs, feature % geometry.outputs);
            for (p, y) in y.iter_mut().enumerate() {
                let row = image * positions + p;
                let place = (row / ROWS * self.blocks + output / width) * unit + row % ROWS * width + output % width;
                let of = |part: usize| sums[(group * self.parts + part) * self.tiles * self.blocks * unit + place];
                *y = (1..self.parts).fold(of(0), |sum, part| sum.plus(of(part)));
            }
        }
    }
}

/// Goes through the levels in nests of at most three, of about [`TERMS`] terms: `body` gets where one starts in the two operands.
fn for_each_nest(levels: &[Level], mut body: impl FnMut(usize, usize, [Level; 3])) {
    // How much of each level a nest has: the inner ones whole as long as they fit.
    let mut chunks: SmallVec<[usize; 4]> = SmallVec::from_elem(1, levels.len());
    let (mut terms, mut used) = (1, 0);
    for (chunk, level) in chunks.iter_mut().zip(levels).rev() {
        if used == 3 {
            break;
        }
        *chunk = (TERMS / terms).clamp(1, level.count);
        terms *= *chunk;
        used += 1;
        if *chunk < level.count {
            break;
        }
    }
    let mut at: SmallVec<[usize; 4]> = SmallVec::from_elem(0, levels.len());
    loop {
        let starts = at.iter().zip(levels);
        let (a, b) = starts.fold((0, 0), |(a, b), (&at, level)| (a + at * level.a, b + at * level.b));
        let mut nest = [Level { count: 1, ..Level::default() }; 3];
        for (back, ((&at, level), &chunk)) in at.iter().zip(levels).zip(&chunks).rev().enumerate().take(3) {
            nest[2 - back] = Level { count: chunk.min(level.count - at), ..*level };
        }
        body(a, b, nest);
        let mut axis = levels.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            at[axis] += chunks[axis];
            if at[axis] < levels[axis].count {
                break;
            }
            at[axis] = 0;
        }
    }
}
