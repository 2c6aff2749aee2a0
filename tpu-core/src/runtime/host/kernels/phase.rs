//! Output positions by the kernel or window elements that they meet.

use super::frame::{Frame, Side};
use super::strided;
use crate::ir::Axes;
use smallvec::SmallVec;

/// One spatial axis: output position `p` meets input place `p · step + t · kernel_dilation − low` under kernel element `t`, in
/// an input whose elements are `input_dilation` places apart.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    pub input: usize,
    pub input_stride: isize,
    pub output: usize,
    pub taps: usize,
    pub kernel_stride: isize,
    pub step: usize,
    pub low: i64,
    pub input_dilation: usize,
    pub kernel_dilation: usize,
}

/// Along one axis the output positions `first, first + jump, …` and the kernel elements that they meet.
#[derive(Clone)]
pub(super) struct PhaseAxis {
    pub first: usize,
    pub jump: usize,
    /// How many positions, of how many in all phases.
    pub count: usize,
    pub output: usize,
    /// Input elements from one position to the next.
    pub step: usize,
    /// Kernel elements, each with the input element that the first position meets under it, possibly outside.
    pub taps: SmallVec<[(usize, i64); 8]>,
    pub input: usize,
    pub input_stride: isize,
    /// Distance of the input's elements, where the places between are met too.
    pub dilation: usize,
    pub kernel_stride: isize,
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl PhaseAxis {
    /// The positions by what they meet; with `holes` all of them, which then meet what is between the input's elements too.
    fn all(axis: &Axis, holes: bool) -> SmallVec<[Self; 2]> {
        let dilation = if holes { 1 } else { axis.input_dilation };
        let jump = dilation / common_divisor(dilation, axis.step);
        let phase = |first: usize| {
            let taps = (0..axis.taps).filter_map(|tap| {
                let place = (first * axis.step + tap * axis.kernel_dilation) as i64 - axis.low;
                (place.rem_euclid(dilation as i64) == 0).then(|| (tap, place.div_euclid(dilation as i64)))
            });
            Self {
                first,
                jump,
                count: (axis.output - first).div_ceil(jump),
                output: axis.output,
                step: jump * axis.step / dilation,
                taps: taps.collect(),
                input: axis.input,
                input_stride: axis.input_stride,
                dilation: axis.input_dilation / dilation,
                kernel_stride: axis.kernel_stride,
            }
        };
        (0..jump.min(axis.output)).map(phase).collect()
    }
}

/// Output positions by the elements that they meet. There is one phase, unless the input is dilated and the holes are left out.
pub(super) fn phases(axes: &[Axis], holes: bool) -> Vec<Phase> {
    let mut phases = vec![Phase { axes: SmallVec::new() }];
    for axis in axes {
        let along = PhaseAxis::all(axis, holes);
        let longer = |phase: &Phase| {
            let with = |next| Phase { axes: phase.axes.iter().chain([next]).cloned().collect() };
            along.iter().map(with).collect::<Vec<_>>()
        };
        phases = phases.iter().flat_map(longer).collect();
    }
    phases.iter_mut().for_each(Phase::join);
    phases
}

/// One kind of output positions, which all meet the same kernel elements: a convolution of an input without holes.
pub(super) struct Phase {
    pub axes: SmallVec<[PhaseAxis; 3]>,
}

impl Phase {
    /// Axes on which positions are input elements, that lie one after the other, are one axis.
    fn join(&mut self) {
        let plain = |axis: &PhaseAxis| {
            axis.taps.as_slice() == [(0, 0)]
                && axis.step == 1
                && axis.jump == 1
                && axis.count == axis.input
                && axis.dilation == 1
        };
        while let [.., outer, inner] = &mut self.axes[..] {
            let dense = outer.input_stride == inner.input_stride * inner.input as isize;
            if !(plain(outer) && plain(inner) && dense) {
                return;
            }
            (outer.count, outer.output) = (outer.count * inner.count, outer.output * inner.output);
            outer.input *= inner.input;
            outer.input_stride = inner.input_stride;
            self.axes.pop();
        }
    }

    /// The spatial kernel elements, as distances in the kernel.
    pub(super) fn taps(&self) -> Vec<isize> {
        self.over_taps(|axis, index| self.axes[axis].taps[index].0 as isize * self.axes[axis].kernel_stride)
    }

    /// For each of these, where in the frame the first position meets it.
    pub(super) fn offsets(&self, frame: &Frame) -> Vec<usize> {
        let places = self.over_taps(|axis, index| {
            frame.place(axis, (self.axes[axis].taps[index].1 + frame.low(axis)) as usize) as isize
        });
        places.into_iter().map(|place| place as usize).collect()
    }

    /// The lines of positions along the last axis: where each starts in the frame and in an output feature.
    pub(super) fn lines(&self, frame: &Frame) -> Vec<(usize, usize)> {
        let outputs: Axes = self.axes.iter().map(|axis| axis.output).collect();
        let (strides, shift) = (strided::dense(&outputs), self.axes.last().map_or(0, |axis| axis.first));
        let from = self.over_lines(|axis, position| (position * self.axes[axis].step * frame.step(axis)) as isize);
        let to = self.over_lines(|axis, position| {
            (self.axes[axis].first + position * self.axes[axis].jump) as isize * strides[axis]
        });
        from.into_iter().zip(to).map(|(from, to)| (from as usize, to as usize + shift)).collect()
    }

    /// Sums of a number per axis and kernel element, in row-major order of the kernel elements.
    pub(super) fn over_taps(&self, number: impl Fn(usize, usize) -> isize) -> Vec<isize> {
        sums(self.axes.iter().map(|axis| axis.taps.len()), number)
    }

    /// Sums of a number per axis, without the last one, and position, in row-major order of the positions.
    pub(super) fn over_lines(&self, number: impl Fn(usize, usize) -> isize) -> Vec<isize> {
        sums(self.axes.iter().rev().skip(1).rev().map(|axis| axis.count), number)
    }
}

/// The frame that the positions of these phases meet, the last axis split by their step if `split`.
pub(super) fn frame(phases: &[Phase], split: bool) -> Frame {
    let Some(first) = phases.first() else { return Frame::new(SmallVec::new(), 1) };
    let sides = first.axes.iter().enumerate().map(|(axis, side)| {
        // The first and the last place that some position meets.
        let low = |along: &PhaseAxis| along.taps.iter().map(|&(_, base)| base).min();
        let high = |along: &PhaseAxis| {
            let last = ((along.count - 1) * along.step) as i64;
            along.taps.iter().map(|&(_, base)| base + last).max()
        };
        let along = || phases.iter().map(|phase| &phase.axes[axis]);
        let (low, high) = (along().filter_map(low).min().unwrap_or(0), along().filter_map(high).max().unwrap_or(0));
        let length = (high - low) as usize + 1;
        Side { input: side.input, stride: side.input_stride, dilation: side.dilation, low: -low, length }
    });
    Frame::new(sides.collect(), first.axes.last().filter(|_| split).map_or(1, |axis| axis.step))
}

/// For each index vector below these sizes, in row-major order, the sum of a number per axis and index.
fn sums(sizes: impl Iterator<Item = usize>, number: impl Fn(usize, usize) -> isize) -> Vec<isize> {
    let mut sums = vec![0];
    for (axis, size) in sizes.enumerate() {
        let along: Vec<isize> = (0..size).map(|index| number(axis, index)).collect();
        sums = sums.iter().flat_map(|sum| along.iter().map(move |number| sum + number)).collect();
    }
    sums
}
