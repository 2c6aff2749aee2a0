//! The input where it is, times the packed kernel.
//!
//! The rows of a tile are output positions, its columns output features. Each term of a sum lies at one distance from where a position
//! starts in the input, which a list has: patches of the input are never copied, whatever steps, dilations and paddings are. At
//! most [`POSITIONS`] positions, over several images if they are small, meet [`TERMS`] terms of two panels of the kernel, then of
//! the next two.

use super::super::super::scratch::Scratch;
use super::super::accumulate::Accumulator;
use super::super::frame::Frame;
use super::super::phase::{Phase, frame};
use super::super::{split, strided};
use super::Job;
use super::geometry::Geometry;
use super::tile::{Products, Transpose};
use crate::Result;
use std::ops::Range;

/// Positions that are computed together: enough that a kernel which no cache holds is not waited for.
const POSITIONS: usize = 192;
/// Terms of a sum that are added at a time: 256 x 16 `f32` of the packed kernel stay in the first-level cache.
pub(super) const TERMS: usize = 256;

struct Plan<'p, A> {
    job: Job<'p, A>,
    frame: Frame,
    /// Whether the input is read in its own place, not in frames.
    in_place: bool,
    /// Elements of a frame and what keeps it apart from the next.
    channel: usize,
    /// Images that are computed together, and input features that are framed together.
    images: usize,
    features: usize,
    /// Where each position of an image starts in the source, and where its result is in an output feature.
    places: Vec<usize>,
    results: Vec<usize>,
    /// For each term of the features that are framed together its distance from there.
    offsets: Vec<usize>,
    /// Spatial elements of the kernel.
    taps: usize,
    /// Registers that the output features of a group fill.
    panels: usize,
    /// The kernel by groups, panels, input features and spatial elements.
    packed: Scratch<'p, A>,
}

/// Memory of one thread.
struct Work<'m, A> {
    frames: Scratch<'m, A>,
    sums: Scratch<'m, A>,
    places: Vec<usize>,
}

/// Computes the outputs of one phase into `y`, which lies as [`Geometry::row`] says.
pub(super) fn run<A: Accumulator>(job: Job<'_, A>, phase: &Phase, y: &mut [A]) -> Result<()> {
    let plan = Plan::new(job, phase)?;
    let Geometry { batch, features_first, .. } = *job.geometry;
    let (features, positions, lanes) = (job.geometry.features(), job.geometry.positions(), job.kernels.lanes);
    // Parts are whole images if there are enough, else some features of an image, for which the image is framed anew. Where
    // features come first, they are some features of all images.
    let threads = split::threads();
    let share = features.div_ceil(threads);
    let some = share.next_multiple_of(if share >= 2 * lanes { 2 * lanes } else { lanes });
    let rows = match (features_first, batch >= 2 * threads) {
        (true, _) => some.min(2 * lanes) * batch,
        (false, true) => features,
        (false, false) => some.min(features),
    };
    let (outer, inner) = if features_first { (features, batch) } else { (batch, features) };
    let cost = (job.geometry.inputs * plan.taps) as f64 * A::COST;
    split::try_parts(y, rows * positions, cost, |first, mut part| {
        let (mut row, end) = (first / positions, (first + part.len()) / positions);
        let most = if features_first { inner } else { (end - row).div_ceil(inner) };
        let mut work = plan.work(most)?;
        while row < end {
            let (from, within) = (row / inner, row % inner);
            let (outer, inner) = match within == 0 && end - row >= inner {
                true => (from..outer.min(from + (end - row) / inner), 0..inner),
                false => (from..from + 1, within..inner.min(within + end - row)),
            };
            row += outer.len() * inner.len();
            let (out, rest) = part.split_at_mut(outer.len() * inner.len() * positions);
            let (images, features) = if features_first { (inner, outer) } else { (outer, inner) };
            plan.compute(images, features, out, &mut work);
            part = rest;
        }
        Ok(())
    })
}

/// The next greater number of elements that is an odd number of cache lines: neighbours a power of two apart would share few
/// places of the first-level cache.
fn apart<A>(elements: usize) -> usize {
    let line = 64 / size_of::<A>().clamp(1, 64);
    (elements.div_ceil(line) | 1) * line
}

impl<'p, A: Accumulator> Plan<'p, A> {
    fn new(job: Job<'p, A>, phase: &Phase) -> Result<Self> {
        let (geometry, frame) = (job.geometry, frame(std::slice::from_ref(phase), false));
        let inside = |axis: &super::super::phase::PhaseAxis| {
            let last = ((axis.count - 1) * axis.step) as i64;
            axis.dilation == 1 && axis.taps.iter().all(|&(_, base)| base >= 0 && base + last < axis.input as i64)
        };
        let collide = geometry.inputs > 16 && (geometry.feature_stride as usize * size_of::<A>()).is_multiple_of(512);
        let in_place = !collide && phase.axes.iter().all(inside);
        let (step, low) = (
            |axis: usize| if in_place { phase.axes[axis].input_stride as usize } else { frame.step(axis) },
            |axis: usize| if in_place { 0 } else { frame.low(axis) },
        );
        let places = phase.over_positions(|axis, position| position * phase.axes[axis].step * step(axis));
        let outputs: Vec<usize> = phase.axes.iter().map(|axis| axis.output).collect();
        let strides = strided::dense(&outputs);
        let results = phase.over_positions(|axis, position| {
            (phase.axes[axis].first + position * phase.axes[axis].jump) * strides[axis] as usize
        });
        // In the order of the kernel's memory, which packing reads.
        let distances =
            phase.over_taps(|axis, index| ((phase.axes[axis].taps[index].1 + low(axis)) * step(axis) as i64) as isize);
        let mut terms: Vec<_> = phase.taps().into_iter().zip(distances).collect();
        terms.sort_unstable();
        let taps: Vec<isize> = terms.iter().map(|term| term.0).collect();
        let images = (POSITIONS / places.len()).max(1);
        // With one block of positions, features are framed as they are needed.
        let most =
            if places.len() <= POSITIONS { (TERMS / taps.len()).clamp(1, geometry.inputs) } else { geometry.inputs };
        let features = geometry.inputs.div_ceil(geometry.inputs.div_ceil(most));
        let channel = apart::<A>(frame.len());
        let feature_step = if in_place { geometry.feature_stride as usize } else { channel };
        let within = |feature: usize| terms.iter().map(move |term| feature * feature_step + term.1 as usize);
        Ok(Self {
            job,
            in_place,
            channel,
            images,
            features,
            places,
            results,
            offsets: (0..features).flat_map(within).collect(),
            taps: taps.len(),
            panels: geometry.outputs.div_ceil(job.kernels.lanes),
            packed: pack(job, &taps)?,
            frame,
        })
    }

    /// Memory for up to `images` images.
    fn work(&self, images: usize) -> Result<Work<'p, A>> {
        let frames = if self.in_place { 0 } else { self.images.min(images) * self.features * self.channel };
        let positions = POSITIONS.min(self.images * self.places.len());
        Ok(Work {
            frames: self.job.memory.filled(frames, A::default())?,
            sums: self.job.memory.filled(positions * self.width(self.panels), A::default())?,
            places: Vec::with_capacity(self.images * self.places.len()),
        })
    }

    /// Distance of the sums of two positions.
    fn width(&self, panels: usize) -> usize {
        apart::<A>(panels * self.job.kernels.lanes)
    }

    /// These features of these images, which lie one after the other in `out`.
    fn compute(&self, images: Range<usize>, features: Range<usize>, out: &mut [A], work: &mut Work<'_, A>) {
        let Geometry { outputs, batch_stride, .. } = *self.job.geometry;
        let image_step = if self.in_place { batch_stride as usize } else { self.features * self.channel };
        work.places.clear();
        let count = self.images.min(images.len());
        work.places
            .extend((0..count).flat_map(|image| self.places.iter().map(move |place| image * image_step + place)));
        let end = images.end;
        for group in features.start / outputs..features.end.div_ceil(outputs) {
            for first in images.clone().step_by(self.images) {
                let now = first..end.min(first + self.images);
                self.group(group, (&images, now), &features, out, work);
            }
        }
    }

    /// The features that are a group's, of the images `now`.
    fn group(
        &self,
        group: usize,
        (images, now): (&Range<usize>, Range<usize>),
        features: &Range<usize>,
        out: &mut [A],
        Work { frames, sums, places }: &mut Work<'_, A>,
    ) {
        let Geometry { outputs, inputs, feature_stride, features_first, .. } = *self.job.geometry;
        let (lanes, positions, depth) = (self.job.kernels.lanes, self.places.len(), inputs * self.taps);
        // Features within the group, and the panels that have them.
        let within = |feature: usize| feature.clamp(group * outputs, (group + 1) * outputs) - group * outputs;
        let (low, high) = (within(features.start), within(features.end));
        let panels = low / lanes..high.div_ceil(lanes);
        let width = self.width(panels.len());
        let places = &places[..now.len() * positions];
        let blocks = places.len().div_ceil(POSITIONS);
        let together = places.len().div_ceil(blocks).next_multiple_of(6).min(POSITIONS);
        for feature in (0..inputs).step_by(self.features) {
            let count = self.features.min(inputs - feature);
            let origin = |image: usize, feature: usize| {
                self.job.geometry.origin(image, group) + feature as isize * feature_stride
            };
            if !self.in_place {
                for (image, frames) in now.clone().zip(frames.chunks_exact_mut(self.features * self.channel)) {
                    for (number, frame) in frames.chunks_exact_mut(self.channel).take(count).enumerate() {
                        let frame = &mut frame[..self.frame.len()];
                        self.frame.fill(frame, self.job.x, origin(image, feature + number));
                    }
                }
            }
            let source = match self.in_place {
                true => &self.job.x[origin(now.start, feature) as usize..],
                false => &frames[..],
            };
            let terms = count * self.taps;
            let share = terms.div_ceil(terms.div_ceil(TERMS));
            for (block, places) in places.chunks(together).enumerate() {
                for term in (0..terms).step_by(share) {
                    let offsets = &self.offsets[term..terms.min(term + share)];
                    for panel in panels.clone().step_by(2) {
                        let from = (group * self.panels + panel) * depth + feature * self.taps + term;
                        let mut products = Products {
                            a: source,
                            places,
                            offsets,
                            b: &self.packed[from * lanes..],
                            b_step: depth * lanes,
                            c: &mut sums[(panel - panels.start) * lanes..],
                            c_step: width,
                            add: feature + term > 0,
                        };
                        // SAFETY: the kernels are those of this processor.
                        unsafe { self.job.kernels.products(panels.end - panel, &mut products) }
                    }
                }
                if feature + count < inputs {
                    continue;
                }
                // The sums are whole: into the output, image by image.
                let size = self.job.geometry.positions();
                let (mut done, first) = (0, block * together);
                while done < places.len() {
                    let (image, position) = ((first + done) / positions, (first + done) % positions);
                    let rows = (positions - position).min(places.len() - done);
                    let (image, feature) = (now.start + image - images.start, group * outputs + low - features.start);
                    let (start, y_step) = match features_first {
                        true => (feature * images.len() + image, images.len() * size),
                        false => (image * features.len() + feature, size),
                    };
                    let sums = &sums[done * width + low - panels.start * lanes..];
                    let results = &self.results[position..position + rows];
                    self.store(sums, width, results, high - low, &mut out[start * size..], y_step);
                    done += rows;
                }
            }
        }
    }

    /// Sums of some positions and `len` features to where they belong in `out`.
    fn store(&self, sums: &[A], width: usize, results: &[usize], len: usize, out: &mut [A], y_step: usize) {
        let rows = results.len();
        if results[rows - 1] - results[0] + 1 == rows {
            let y = &mut out[results[0]..];
            let mut all = Transpose { x: sums, x_step: width, rows, len, y, y_step };
            // SAFETY: the kernels are those of this processor.
            return unsafe { (self.job.kernels.transpose)(&mut all) };
        }
        for feature in 0..len {
            let out = &mut out[feature * y_step..];
            for (sums, &result) in sums.chunks(width).zip(results) {
                out[result] = sums[feature];
            }
        }
    }
}

/// The kernel by groups, panels of output features, input features and these spatial elements.
fn pack<'p, A: Accumulator>(job: Job<'p, A>, taps: &[isize]) -> Result<Scratch<'p, A>> {
    let Geometry { outputs, inputs, groups, kernel_origin, kernel_strides: (row, feature), .. } = *job.geometry;
    let (lanes, count) = (job.kernels.lanes, taps.len());
    let panels = outputs.div_ceil(lanes);
    let unit = inputs * count * lanes;
    let mut packed = job.memory.filled(groups * panels * unit, A::default())?;
    let neighbours = taps[count - 1] - taps[0] + 1 == count as isize;
    split::parts(&mut packed, unit, 1.0, |first, part| {
        for (number, packed) in part.chunks_exact_mut(unit).enumerate() {
            let (group, panel) = ((first / unit + number) / panels, (first / unit + number) % panels);
            let rows = lanes.min(outputs - panel * lanes);
            let start = kernel_origin + (group * outputs + panel * lanes) as isize * row;
            // Terms that lie one after the other for each output feature: of all input features at once, or of each.
            let (times, len) = if feature == count as isize { (1, inputs * count) } else { (inputs, count) };
            if neighbours && row > 0 {
                for (f, y) in packed.chunks_exact_mut(len * lanes).enumerate().take(times) {
                    let x = &job.kernel[(start + f as isize * feature + taps[0]) as usize..];
                    let mut all = Transpose { x, x_step: row as usize, rows, len, y, y_step: lanes };
                    // SAFETY: the kernels are those of this processor.
                    unsafe { (job.kernels.transpose)(&mut all) }
                }
                continue;
            }
            for (f, terms) in packed.chunks_exact_mut(count * lanes).enumerate() {
                for (terms, tap) in terms.chunks_exact_mut(lanes).zip(taps) {
                    let start = start + f as isize * feature + tap;
                    for (lane, term) in terms.iter_mut().enumerate().take(rows) {
                        *term = job.kernel[(start + lane as isize * row) as usize];
                    }
                }
            }
        }
    });
    Ok(packed)
}
