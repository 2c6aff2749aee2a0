//! Patches of the input times the kernel.
//!
//! The kernel is packed once, patches a block at a time: [`POSITIONS`] output positions, over several images if they are small,
//! and about [`TERMS`] elements of the kernel. Both are packed in the order in which a tile reads them.

use super::super::super::scratch::{Memory, Scratch};
use super::super::accumulate::Accumulator;
use super::super::frame::Frame;
use super::super::phase::{Phase, frame};
use super::super::split;
use super::geometry::Geometry;
use super::tile::{FEW_ROWS, Kernels, Level, Pack, ROWS, Run, Tile};
use crate::Result;
use std::ops::Range;

/// Output positions of a block of patches.
const POSITIONS: usize = 128;
/// Terms of the sums that a block of patches has, if one feature does not have more: a tile's share, 384 x 16 `f32`, stays in the
/// first-level cache.
const TERMS: usize = 384;

struct Plan<'p, A> {
    geometry: &'p Geometry,
    phase: &'p Phase,
    kernels: &'p Kernels<A>,
    frame: &'p Frame,
    /// Whether channels of the input are their own frames.
    in_place: bool,
    /// For each kernel element where the first position meets it.
    offsets: Vec<usize>,
    lines: Vec<(usize, usize)>,
    tiles: Vec<Rows>,
    /// The kernel by groups, tiles of output features, input features and spatial elements.
    packed: Scratch<'p, A>,
}

/// Output features of a group that one tile computes, the last ones perhaps beyond the group's.
#[derive(Clone, Copy)]
struct Rows {
    first: usize,
    count: usize,
}

/// Tiles for this many output features, with as few rows beyond them as can be.
fn tiles(outputs: usize) -> Vec<Rows> {
    let beyond = |small: usize| outputs.saturating_sub(small * FEW_ROWS).next_multiple_of(ROWS) + small * FEW_ROWS;
    let small = (0..3).min_by_key(|&small| beyond(small)).unwrap_or(0);
    let large = outputs.saturating_sub(small * FEW_ROWS).div_ceil(ROWS);
    let counts = std::iter::repeat_n(ROWS, large).chain(std::iter::repeat_n(FEW_ROWS, small));
    counts.scan(0, |first, count| Some(Rows { first: std::mem::replace(first, *first + count), count })).collect()
}

/// Rows of these tiles.
fn rows(tiles: &[Rows]) -> usize {
    tiles.last().map_or(0, |tile| tile.first + tile.count)
}

/// Elements of a block of patches that a first-level cache holds.
const FEW_PATCHES: usize = 8192;

/// Memory of one thread.
struct Work<'m, A> {
    frames: Scratch<'m, A>,
    patches: Scratch<'m, A>,
    sums: Scratch<'m, A>,
}

/// Computes the outputs of one phase into `y`, which lies as [batch, feature, positions …].
pub(super) fn run<A: Accumulator>(
    geometry: &Geometry,
    phase: &Phase,
    kernels: &Kernels<A>,
    x: &[A],
    kernel: &[A],
    y: &mut [A],
    memory: Memory<'_>,
) -> Result<()> {
    let frame = &frame(std::slice::from_ref(phase));
    let tiles = tiles(geometry.outputs);
    let plan = Plan {
        geometry,
        phase,
        kernels,
        frame,
        in_place: frame.is_image(),
        offsets: phase.offsets(frame),
        lines: phase.lines(frame),
        packed: pack_kernel(geometry, &phase.taps(), &tiles, kernel, memory)?,
        tiles,
    };
    let (features, positions) = (geometry.features(), geometry.positions());
    // Parts are whole images if there are enough, else some features of an image: patches are packed for each part anew.
    let threads = split::threads();
    let rows = match geometry.batch >= 2 * threads {
        true => features,
        false => features.div_ceil(threads).next_multiple_of(ROWS).min(features),
    };
    let cost = plan.depth() as f64 * (A::COST + 0.3 / geometry.outputs as f64);
    split::try_parts(y, rows * positions, cost, |first, mut part| {
        let (mut row, end) = (first / positions, (first + part.len()) / positions);
        let mut work = plan.work((end - row).div_ceil(features), memory)?;
        while row < end {
            let (image, feature) = (row / features, row % features);
            let (images, some) = match feature == 0 && end - row >= features {
                true => ((end - row) / features, 0..features),
                false => (1, feature..features.min(feature + end - row)),
            };
            let (out, rest) = part.split_at_mut(images * some.len() * positions);
            row += images * some.len();
            plan.images(x, image..image + images, some, out, &mut work);
            part = rest;
        }
        Ok(())
    })
}

fn pack_kernel<'m, A: Accumulator>(
    geometry: &Geometry,
    taps: &[isize],
    tiles: &[Rows],
    kernel: &[A],
    memory: Memory<'m>,
) -> Result<Scratch<'m, A>> {
    let (outputs, depth) = (geometry.outputs, geometry.inputs * taps.len());
    let unit = rows(tiles) * depth;
    let mut packed = memory.filled(geometry.groups * unit, A::default())?;
    split::parts(&mut packed, unit, 1.0, |first, part| {
        for (number, packed) in part.chunks_exact_mut(unit).enumerate() {
            let group = first / unit + number;
            for tile in tiles {
                let packed = &mut packed[tile.first * depth..][..tile.count * depth];
                for row in 0..tile.count.min(outputs.saturating_sub(tile.first)) {
                    let feature = group * outputs + tile.first + row;
                    let start = geometry.kernel_origin + feature as isize * geometry.kernel_strides.0;
                    for (f, terms) in packed.chunks_exact_mut(taps.len() * tile.count).enumerate() {
                        let start = start + f as isize * geometry.kernel_strides.1;
                        for (terms, tap) in terms.chunks_exact_mut(tile.count).zip(taps) {
                            terms[row] = kernel[(start + tap) as usize];
                        }
                    }
                }
            }
        }
    });
    Ok(packed)
}

impl<A: Accumulator> Plan<'_, A> {
    /// Terms of one sum.
    fn depth(&self) -> usize {
        self.geometry.inputs * self.offsets.len()
    }

    /// Images whose positions are packed together.
    fn together(&self) -> usize {
        POSITIONS.div_ceil(self.phase.positions())
    }

    /// Input features that are packed together: equal shares of all.
    fn features(&self) -> usize {
        let most = (TERMS / self.offsets.len()).clamp(1, self.geometry.inputs);
        self.geometry.inputs.div_ceil(self.geometry.inputs.div_ceil(most))
    }

    /// Memory for up to `images` images.
    fn work<'m>(&self, images: usize, memory: Memory<'m>) -> Result<Work<'m, A>> {
        let width = self.kernels.width;
        let frames = self.together().min(images) * self.geometry.inputs * self.frame.len();
        let positions = POSITIONS.next_multiple_of(width);
        let rows = rows(&self.tiles);
        Ok(Work {
            frames: memory.filled(if self.in_place { 0 } else { frames }, A::default())?,
            // Runs are copied in full panels, so the last one may go beyond the end.
            patches: memory.filled(self.features() * self.offsets.len() * positions + width, A::default())?,
            sums: memory.filled(rows * positions, A::default())?,
        })
    }

    /// These features of these images, which lie one after the other in `out`.
    fn images(&self, x: &[A], images: Range<usize>, features: Range<usize>, out: &mut [A], work: &mut Work<'_, A>) {
        let (geometry, inputs) = (self.geometry, self.geometry.inputs);
        let (length, positions) = (self.frame.len(), self.phase.positions());
        for first in images.clone().step_by(self.together()) {
            let count = self.together().min(images.end - first);
            let out = &mut out[(first - images.start) * features.len() * geometry.positions()..];
            for group in features.start / geometry.outputs..features.end.div_ceil(geometry.outputs) {
                let mut source = (x, geometry.origin(first, group) as usize);
                let mut steps = (geometry.batch_stride as usize, geometry.feature_stride as usize);
                if !self.in_place {
                    for (number, frame) in work.frames.chunks_exact_mut(length).take(count * inputs).enumerate() {
                        let origin = geometry.origin(first + number / inputs, group);
                        self.frame.fill(frame, x, origin + (number % inputs) as isize * geometry.feature_stride);
                    }
                    (source, steps) = ((&work.frames[..], 0), (inputs * length, length));
                }
                for start in (0..count * positions).step_by(POSITIONS) {
                    let places = start..(start + POSITIONS).min(count * positions);
                    let panels = self.runs(places, steps.0, source.1);
                    let buffers = (&mut work.patches[..], &mut work.sums[..]);
                    self.block(source.0, steps.1, group, &features, &panels, buffers, out);
                }
            }
        }
    }

    /// The runs of each panel of these positions, numbered over images.
    fn runs(&self, places: Range<usize>, image_step: usize, origin: usize) -> Vec<Vec<Run>> {
        let columns = self.phase.axes.last().map_or(1, |axis| axis.count);
        let mut panels = Vec::new();
        for start in places.clone().step_by(self.kernels.width) {
            let width = self.kernels.width.min(places.end - start);
            let (mut runs, mut lane) = (Vec::new(), 0);
            while lane < width {
                let (line, column) = ((start + lane) / columns, (start + lane) % columns);
                let (image, line) = (line / self.lines.len(), line % self.lines.len());
                let len = (columns - column).min(width - lane);
                let (from, to) = self.lines[line];
                let jump = self.phase.axes.last().map_or(1, |axis| axis.jump);
                let from = origin + image * image_step + from + column;
                runs.push(Run { lane, len, from, to: to + column * jump, image });
                lane += len;
            }
            panels.push(runs);
        }
        panels
    }

    /// One block of positions.
    fn block(
        &self,
        source: &[A],
        feature_step: usize,
        group: usize,
        features: &Range<usize>,
        panels: &[Vec<Run>],
        (patches, sums): (&mut [A], &mut [A]),
        out: &mut [A],
    ) {
        let (outputs, width, taps) = (self.geometry.outputs, self.kernels.width, self.offsets.len());
        let within = |feature: usize| feature.clamp(group * outputs, (group + 1) * outputs) - group * outputs;
        let (low, high) = (within(features.start), within(features.end));
        let tiles = || self.tiles.iter().filter(|tile| tile.first < high && tile.first + tile.count > low);
        let (positions, jump) = (self.geometry.positions(), self.phase.axes.last().map_or(1, |axis| axis.jump));
        let unit = rows(&self.tiles) * width;
        // Where a feature of a run is in the output.
        let place = |run: &Run, feature: usize| {
            (run.image * features.len() + group * outputs + feature - features.start) * positions + run.to
        };
        // Whether a tile is a part of the output as it is.
        let is_output = |runs: &[Run], tile: &Rows| {
            let inside = tile.first >= low && tile.first + tile.count <= high;
            (inside && jump == 1 && runs.len() == 1 && runs[0].len == width).then(|| place(&runs[0], tile.first))
        };
        for first in (0..self.geometry.inputs).step_by(self.features()) {
            let terms = taps * self.features().min(self.geometry.inputs - first);
            for (number, runs) in panels.iter().enumerate() {
                let panel = &mut patches[number * terms * width..][..(terms + 1) * width];
                let start = first * feature_step;
                let mut all = Pack { panel, x: source, start, runs, offsets: &self.offsets, feature_step };
                // SAFETY: the kernels are those of this processor.
                unsafe { (self.kernels.pack)(&mut all) }
            }
            let mut tile = |tile: &Rows, number: usize| {
                let (runs, panel) = (&panels[number], &patches[number * terms * width..][..terms * width]);
                let weights = (group * rows(&self.tiles) + tile.first) * self.depth() + first * taps * tile.count;
                let weights = &self.packed[weights..][..terms * tile.count];
                let (c, step) = match is_output(runs, tile) {
                    Some(at) => (&mut out[at..][..(tile.count - 1) * positions + width], positions),
                    None => (&mut sums[number * unit + tile.first * width..][..tile.count * width], width),
                };
                let one = Level { count: 1, ..Level::default() };
                let all = Tile {
                    // A small tile reads its own rows only.
                    a: std::array::from_fn(|row| weights[row.min(tile.count - 1)..].as_ptr()),
                    b: panel.as_ptr(),
                    levels: [one, one, Level { count: terms, a: tile.count, b: width }],
                    c: c.as_mut_ptr(),
                    step,
                    add: first > 0,
                };
                let kernel = if tile.count == ROWS { self.kernels.tile } else { self.kernels.small_tile };
                // SAFETY: `weights` are `terms` times the rows of the tile, `panel` `terms` times its columns, `c` has the tile;
                // the kernels are those of this processor.
                unsafe { kernel(&all) }
            };
            // A panel of many terms stays in the first-level cache. Of few terms, all panels do, and lines of the output are
            // written one after the other.
            if terms * width * panels.len() <= FEW_PATCHES {
                tiles().for_each(|rows| (0..panels.len()).for_each(|panel| tile(rows, panel)));
            } else {
                (0..panels.len()).for_each(|panel| tiles().for_each(|rows| tile(rows, panel)));
            }
        }
        for (runs, sums) in panels.iter().zip(sums.chunks_exact(unit)) {
            for tile in tiles().filter(|tile| is_output(runs, tile).is_none()) {
                for feature in tile.first.max(low)..high.min(tile.first + tile.count) {
                    for run in runs {
                        let (to, sums) = (place(run, feature), &sums[feature * width + run.lane..][..run.len]);
                        match jump {
                            1 => out[to..to + run.len].copy_from_slice(sums),
                            _ => out[to..].iter_mut().step_by(jump).zip(sums).for_each(|(out, &sum)| *out = sum),
                        }
                    }
                }
            }
        }
    }
}
