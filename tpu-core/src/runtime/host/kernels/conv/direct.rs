//! The input where it is, times the packed kernel.
//!
//! The rows of a tile are output positions, its columns output features. Each term of a sum lies at one distance from where a position
//! starts in the input, which a list has: patches of the input are never copied, whatever steps, dilations and paddings are. At
//! most [`POSITIONS`] positions, over several images if they are small, meet [`TERMS`] terms of two panels of the kernel, then of
//! the next two.

use super::super::super::scratch::Scratch;
use super::super::accumulate::Accumulator;
use super::super::frame::Frame;
use super::super::phase::{Phase, PhaseAxis, frame};
use super::super::{split, strided};
use super::Job;
use super::geometry::Geometry;
use super::tile::{Products, ROWS, Transpose};
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
    /// Where lines of an image's positions start in the source and in an output feature, how many positions one has, and how far
    /// apart these are in both.
    lines: Vec<(usize, usize)>,
    columns: usize,
    column_steps: (usize, usize),
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
    /// Sums by features, where results do not lie one after the other.
    turned: Scratch<'m, A>,
    /// Where the positions of a block start in the source, and where their results are in an output feature.
    places: Vec<usize>,
    results: Vec<usize>,
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
        (true, _) => some * batch,
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
        let inside = |axis: &PhaseAxis| {
            let last = ((axis.count - 1) * axis.step) as i64;
            axis.dilation == 1 && axis.taps.iter().all(|&(_, base)| base >= 0 && base + last < axis.input as i64)
        };
        let collide = geometry.inputs > 16 && (geometry.feature_stride as usize * size_of::<A>()).is_multiple_of(512);
        let in_place = !collide && phase.axes.iter().all(inside);
        let (step, low) = (
            |axis: usize| if in_place { phase.axes[axis].input_stride as usize } else { frame.step(axis) },
            |axis: usize| if in_place { 0 } else { frame.low(axis) },
        );
        let outputs: Vec<usize> = phase.axes.iter().map(|axis| axis.output).collect();
        let strides = strided::dense(&outputs);
        let from = phase.over_lines(|axis, position| (position * phase.axes[axis].step * step(axis)) as isize);
        let to = phase.over_lines(|axis, position| {
            (phase.axes[axis].first + position * phase.axes[axis].jump) as isize * strides[axis]
        });
        let last = phase.axes.len().saturating_sub(1);
        let (columns, column_steps, shift) = match phase.axes.last() {
            Some(axis) => (axis.count, (axis.step * step(last), axis.jump), axis.first),
            None => (1, (1, 1), 0),
        };
        let lines: Vec<_> = from.into_iter().zip(to).map(|(from, to)| (from as usize, to as usize + shift)).collect();
        let positions = lines.len() * columns;
        // In the order of the kernel's memory, which packing reads.
        let distances =
            phase.over_taps(|axis, index| ((phase.axes[axis].taps[index].1 + low(axis)) * step(axis) as i64) as isize);
        let mut terms: Vec<_> = phase.taps().into_iter().zip(distances).collect();
        terms.sort_unstable();
        let taps: Vec<isize> = terms.iter().map(|term| term.0).collect();
        let images = (POSITIONS / positions).max(1);
        // With one block of positions, features are framed as they are needed.
        let most =
            if positions <= POSITIONS { (TERMS / taps.len()).clamp(1, geometry.inputs) } else { geometry.inputs };
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
            lines,
            columns,
            column_steps,
            offsets: (0..features).flat_map(within).collect(),
            taps: taps.len(),
            panels: geometry.outputs.div_ceil(job.kernels.lanes),
            packed: pack(job, &taps)?,
            frame,
        })
    }

    /// Positions of one image.
    fn positions(&self) -> usize {
        self.lines.len() * self.columns
    }

    /// Memory for up to `images` images.
    fn work(&self, images: usize) -> Result<Work<'p, A>> {
        let memory = self.job.memory;
        let frames = if self.in_place { 0 } else { self.images.min(images) * self.features * self.channel };
        let positions = POSITIONS.min(self.images * self.positions());
        let turned = if self.positions() == self.job.geometry.positions() { 0 } else { positions };
        Ok(Work {
            frames: memory.filled(frames, A::default())?,
            sums: memory.filled(positions * self.width(self.panels), A::default())?,
            turned: memory.filled(turned * self.job.geometry.outputs, A::default())?,
            places: Vec::with_capacity(positions),
            results: Vec::with_capacity(positions),
        })
    }

    /// Distance of the sums of two positions.
    fn width(&self, panels: usize) -> usize {
        apart::<A>(panels * self.job.kernels.lanes)
    }

    /// These features of these images, which lie one after the other in `out`.
    fn compute(&self, images: Range<usize>, features: Range<usize>, out: &mut [A], work: &mut Work<'_, A>) {
        let outputs = self.job.geometry.outputs;
        for group in features.start / outputs..features.end.div_ceil(outputs) {
            for first in images.clone().step_by(self.images) {
                let now = first..images.end.min(first + self.images);
                let total = now.len() * self.positions();
                let share = total.div_ceil(total.div_ceil(POSITIONS)).next_multiple_of(ROWS).min(POSITIONS);
                for start in (0..total).step_by(share) {
                    let block = start..total.min(start + share);
                    self.locate(block.clone(), work);
                    self.sum(group, &features, now.clone(), start == 0, work);
                    self.store(group, &features, &images, now.start, block, out, work);
                }
            }
        }
    }

    /// Where these positions, numbered over images, start and end up.
    fn locate(&self, block: Range<usize>, Work { places, results, .. }: &mut Work<'_, A>) {
        places.clear();
        results.clear();
        let image_step = match self.in_place {
            true => self.job.geometry.batch_stride as usize,
            false => self.features * self.channel,
        };
        let mut at = block.start;
        while at < block.end {
            let (line, column) = (at / self.columns, at % self.columns);
            let (image, line) = (line / self.lines.len(), line % self.lines.len());
            let columns = column..self.columns.min(column + block.end - at);
            at += columns.len();
            let (from, to) = (image * image_step + self.lines[line].0, self.lines[line].1);
            places.extend(columns.clone().map(|column| from + column * self.column_steps.0));
            results.extend(columns.map(|column| to + column * self.column_steps.1));
        }
    }

    /// The features of a range that are a group's, within it, and the panels that have them.
    fn within(&self, group: usize, features: &Range<usize>) -> (Range<usize>, Range<usize>) {
        let (outputs, lanes) = (self.job.geometry.outputs, self.job.kernels.lanes);
        let within = |feature: usize| feature.clamp(group * outputs, (group + 1) * outputs) - group * outputs;
        let some = within(features.start)..within(features.end);
        (some.clone(), some.start / lanes..some.end.div_ceil(lanes))
    }

    /// The sums of the positions that were located. Images are framed for the first block of theirs; if there are more, all features of
    /// them are.
    fn sum(&self, group: usize, features: &Range<usize>, now: Range<usize>, first: bool, work: &mut Work<'_, A>) {
        let Geometry { inputs, feature_stride, .. } = *self.job.geometry;
        let (lanes, depth) = (self.job.kernels.lanes, inputs * self.taps);
        let Work { frames, sums, places, .. } = work;
        let (_, panels) = self.within(group, features);
        for feature in (0..inputs).step_by(self.features) {
            let count = self.features.min(inputs - feature);
            let origin = |image: usize, feature: usize| {
                self.job.geometry.origin(image, group) + feature as isize * feature_stride
            };
            if first && !self.in_place {
                for (image, frames) in now.clone().zip(frames.chunks_exact_mut(self.features * self.channel)) {
                    for (number, frame) in frames.chunks_exact_mut(self.channel).take(count).enumerate() {
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
            for term in (0..terms).step_by(share) {
                for panel in panels.clone().step_by(2) {
                    let from = (group * self.panels + panel) * depth + feature * self.taps + term;
                    let mut products = Products {
                        a: source,
                        places,
                        offsets: &self.offsets[term..terms.min(term + share)],
                        b: &self.packed[from * lanes..],
                        b_step: depth * lanes,
                        c: &mut sums[(panel - panels.start) * lanes..],
                        c_step: self.width(panels.len()),
                        add: feature + term > 0,
                    };
                    // SAFETY: the kernels are those of this processor.
                    unsafe { self.job.kernels.products(panels.end - panel, &mut products) }
                }
            }
        }
    }

    /// The sums of these positions of the images from `first` on to where they belong in `out`.
    fn store(
        &self,
        group: usize,
        features: &Range<usize>,
        images: &Range<usize>,
        first: usize,
        block: Range<usize>,
        out: &mut [A],
        Work { sums, turned, results, .. }: &mut Work<'_, A>,
    ) {
        let Geometry { outputs, features_first, .. } = *self.job.geometry;
        let (positions, size) = (self.positions(), self.job.geometry.positions());
        let (some, panels) = self.within(group, features);
        let (width, len) = (self.width(panels.len()), some.len());
        let feature = group * outputs + some.start - features.start;
        let mut at = block.start;
        while at < block.end {
            let rows = (positions - at % positions).min(block.end - at);
            let image = first + at / positions - images.start;
            let done = at - block.start;
            at += rows;
            let (start, y_step) = match features_first {
                true => (feature * images.len() + image, images.len() * size),
                false => (image * features.len() + feature, size),
            };
            let (x, out) =
                (&sums[done * width + some.start - panels.start * self.job.kernels.lanes..], &mut out[start * size..]);
            let results = &results[done..done + rows];
            let whole = positions == size;
            let (y, y_step, out_step) = match whole {
                true => (&mut out[results[0]..], y_step, 0),
                false => (&mut turned[..], rows, y_step),
            };
            let mut all = Transpose { x, x_step: width, rows, len, y, y_step };
            // SAFETY: the kernels are those of this processor.
            unsafe { (self.job.kernels.transpose)(&mut all) }
            if !whole {
                for (feature, sums) in turned.chunks_exact(rows).take(len).enumerate() {
                    let out = &mut out[feature * out_step..];
                    results.iter().zip(sums).for_each(|(&result, &sum)| out[result] = sum);
                }
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
