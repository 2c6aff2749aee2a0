//! Kernels as large as images: weight gradients.
//!
//! The rows of a tile are output positions of several images, which read the framed input where it is; its columns are output
//! features, for which the kernel is packed. The sum over input features, which are the images of a batch there, is cut
//! into a number of parts that depends on the sizes alone, and the parts are added in order.

use super::super::super::scratch::Cells;
use super::super::accumulate::Accumulator;
use super::super::frame::Frame;
use super::super::split;
use super::Job;
use super::direct::TERMS;
use super::geometry::Rows;
use super::tile::{Products, ROWS, Transpose};
use crate::Result;
use std::ops::Range;

/// Most parts of the sum over features.
const PARTS: usize = 8;
/// Most elements that all parts of all sums may have.
const PART_ELEMENTS: usize = 1 << 20;

struct Plan<'p, A> {
    job: Job<'p, A>,
    kernel: Cells<'p, A>,
    kernel_rows: Rows,
    frame: Frame,
    /// Whether channels of the input are their own frames.
    in_place: bool,
    /// Positions, over all images of a group.
    rows: usize,
    /// Tiles of these rows.
    tiles: usize,
    /// Registers that the output features of a group fill.
    panels: usize,
    /// Input features of a part of the sum.
    part: usize,
    /// Such parts.
    parts: usize,
    /// Input features that are framed and packed together.
    together: usize,
    /// Where the frame meets the kernel's first element at each position.
    places: Vec<usize>,
    /// The kernel's elements from there.
    offsets: Vec<usize>,
}

/// Computes the outputs into `y`, which lies as `Geometry::row` says.
pub(super) fn run<A: Accumulator>(job: Job<'_, A>, y: &mut [A]) -> Result<()> {
    let plan = Plan::new(job)?;
    let unit = plan.unit();
    let mut sums = job.memory.filled(job.geometry.groups * plan.parts * plan.tiles * unit, A::default())?;
    let work = y.len() as f64 * job.geometry.depth() as f64 * A::COST;
    let cost = work / sums.len() as f64;
    split::try_parts(&mut sums, unit, cost, |first, mut sums| {
        let (mut at, end) = (first / unit, (first + sums.len()) / unit);
        while at < end {
            let (number, tile) = (at / plan.tiles, at % plan.tiles);
            let tiles = tile..plan.tiles.min(tile + end - at);
            at += tiles.len();
            let (some, rest) = sums.split_at_mut(tiles.len() * unit);
            plan.sum(number / plan.parts, number % plan.parts, tiles, some)?;
            sums = rest;
        }
        Ok(())
    })?;
    split::parts(y, plan.places.len(), plan.parts as f64, |first, part| plan.add_parts(&sums, first, part));
    Ok(())
}

impl<'p, A: Accumulator> Plan<'p, A> {
    fn new(job: Job<'p, A>) -> Result<Self> {
        let geometry = job.geometry;
        let rows = geometry.batch * geometry.positions();
        let together = (TERMS / geometry.taps()).clamp(1, geometry.inputs);
        let elements = geometry.groups * rows * geometry.outputs;
        let most = (PART_ELEMENTS / elements).clamp(1, PARTS);
        let part = geometry.inputs.div_ceil(most).next_multiple_of(together);
        let frame = geometry.frame(false);
        let mut places = vec![0];
        let mut offsets = vec![0];
        for (index, axis) in geometry.axes.iter().enumerate() {
            let (step, dilation) = (axis.step * frame.step(index), axis.kernel_dilation * frame.step(index));
            places = places.iter().flat_map(|&place| (0..axis.output).map(move |p| place + p * step)).collect();
            offsets = offsets.iter().flat_map(|&offset| (0..axis.taps).map(move |t| offset + t * dilation)).collect();
        }
        let (kernel, kernel_rows) = geometry.rows_of_kernel(job.kernel, job.memory)?;
        Ok(Self {
            job,
            kernel,
            kernel_rows,
            in_place: frame.is_image(),
            frame,
            rows,
            tiles: rows.div_ceil(ROWS),
            panels: geometry.outputs.div_ceil(job.kernels.lanes),
            part,
            parts: geometry.inputs.div_ceil(part),
            together,
            places,
            offsets,
        })
    }

    /// Sums of a tile of rows.
    fn unit(&self) -> usize {
        ROWS * self.panels * self.job.kernels.lanes
    }

    /// One part of the sums of these tiles of rows.
    fn sum(&self, group: usize, part: usize, tiles: Range<usize>, sums: &mut [A]) -> Result<()> {
        let Job { geometry, kernels, x, memory, .. } = self.job;
        let (lanes, length, taps) = (kernels.lanes, self.frame.len(), self.offsets.len());
        let positions = self.places.len();
        let rows = tiles.start * ROWS..(tiles.end * ROWS).min(self.rows);
        let images = rows.start / positions..rows.end.div_ceil(positions);
        let features = part * self.part..geometry.inputs.min((part + 1) * self.part);
        // Distances of features and images.
        let steps = match self.in_place {
            true => (geometry.feature_stride as usize, geometry.batch_stride as usize),
            false => (images.len() * length, length),
        };
        let place = |row: usize| (row / positions - images.start) * steps.1 + self.places[row % positions];
        let places: Vec<usize> = rows.map(place).collect();
        let within = |feature: usize| self.offsets.iter().map(move |offset| feature * steps.0 + offset);
        let offsets: Vec<usize> = (0..self.together.min(features.len())).flat_map(within).collect();
        let framed = if self.in_place { 0 } else { self.together * images.len() * length };
        let mut frames = memory.filled(framed, A::default())?;
        let mut packed = memory.filled(self.together * taps * self.panels * lanes, A::default())?;
        for first in features.clone().step_by(self.together) {
            let count = self.together.min(features.end - first);
            let origin = |feature: usize, image: usize| {
                geometry.origin(image, group) + feature as isize * geometry.feature_stride
            };
            if !self.in_place {
                for (number, frame) in frames.chunks_exact_mut(length).take(count * images.len()).enumerate() {
                    let (feature, image) = (first + number / images.len(), images.start + number % images.len());
                    self.frame.fill(frame, x, origin(feature, image));
                }
            }
            let source = match self.in_place {
                true => &x[origin(first, images.start) as usize..],
                false => &frames[..],
            };
            self.pack(group, first..first + count, &mut packed);
            let terms = count * taps;
            let share = terms.div_ceil(terms.div_ceil(TERMS));
            for term in (0..terms).step_by(share) {
                for panel in (0..self.panels).step_by(2) {
                    let mut products = Products {
                        a: source,
                        places: &places,
                        offsets: &offsets[term..terms.min(term + share)],
                        b: &packed[(panel * terms + term) * lanes..],
                        b_step: terms * lanes,
                        c: &mut sums[panel * lanes..],
                        c_step: self.panels * lanes,
                        add: true,
                    };
                    // SAFETY: the kernels are those of this processor.
                    unsafe { kernels.products(self.panels - panel, &mut products) }
                }
            }
        }
        Ok(())
    }

    /// The kernel of these input features by panels of output features, input features and spatial elements.
    fn pack(&self, group: usize, features: Range<usize>, packed: &mut [A]) {
        let Job { geometry, kernels, .. } = self.job;
        let (lanes, taps) = (kernels.lanes, self.offsets.len());
        for panel in 0..self.panels {
            let rows = lanes.min(geometry.outputs - panel * lanes);
            for (number, feature) in features.clone().enumerate() {
                let y = &mut packed[(panel * features.len() + number) * taps * lanes..][..taps * lanes];
                let Rows { first, output, input } = self.kernel_rows;
                let first = first + (group * geometry.outputs + panel * lanes) * output + feature * input;
                let (x, x_step) = (&self.kernel[first..], output);
                let mut all = Transpose { x, x_step, rows, len: taps, y, y_step: lanes };
                // SAFETY: the kernels are those of this processor.
                unsafe { (kernels.transpose)(&mut all) }
            }
        }
    }

    /// The results from `first` on: the parts of each sum, in order.
    fn add_parts(&self, sums: &[A], first: usize, y: &mut [A]) {
        let (geometry, width, positions) = (self.job.geometry, self.panels * self.job.kernels.lanes, self.places.len());
        let part = self.tiles * self.unit();
        for (number, y) in y.chunks_exact_mut(positions).enumerate() {
            let (image, feature) = geometry.row(first / positions + number);
            let (group, output) = (feature / geometry.outputs, feature % geometry.outputs);
            for (p, y) in y.iter_mut().enumerate() {
                let place = group * self.parts * part + (image * positions + p) * width + output;
                let of = |number: usize| sums[place + number * part];
                *y = (1..self.parts).fold(of(0), |sum, number| sum.plus(of(number)));
            }
        }
    }
}
