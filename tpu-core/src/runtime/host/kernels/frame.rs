//! Copies of images with the zeros around them, so that no loop asks whether an element is inside.

use super::strided;
use crate::ir::Axes;
use bytemuck::Pod;
use smallvec::SmallVec;

/// One spatial axis of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Side {
    /// Elements of the image and their distance in memory.
    pub input: usize,
    pub stride: isize,
    /// Distance of the image's elements in the frame; zeros lie between.
    pub dilation: usize,
    /// Where the image's first element is in the frame; outside if negative.
    pub low: i64,
    /// Elements of the frame.
    pub length: usize,
}

impl Side {
    /// The image elements that are inside the frame.
    fn inside(&self) -> std::ops::Range<usize> {
        let from = |place: i64| (place.max(0) as u64).div_ceil(self.dilation as u64).min(self.input as u64) as usize;
        from(-self.low)..from(self.length as i64 - self.low)
    }

    /// Where an image element inside the frame is.
    fn place(&self, element: usize) -> usize {
        (element as i64 * self.dilation as i64 + self.low) as usize
    }
}

/// How one channel of an image lies in memory, padded. Elements of the last axis whose places have the same remainder by `split`
/// lie together: those that a step of `split` visits are neighbours.
pub(super) struct Frame {
    sides: SmallVec<[Side; 3]>,
    /// Distance between neighbours along each axis; along the last one, between places a `split` apart.
    steps: SmallVec<[usize; 3]>,
    split: usize,
    /// Elements along the last axis with one remainder.
    columns: usize,
    len: usize,
}

impl Frame {
    pub(super) fn new(sides: SmallVec<[Side; 3]>, split: usize) -> Self {
        let columns = sides.last().map_or(1, |side| side.length.div_ceil(split));
        let mut steps: SmallVec<[usize; 3]> = SmallVec::from_elem(1, sides.len());
        let mut len = columns * split;
        for axis in (0..sides.len().saturating_sub(1)).rev() {
            steps[axis] = len;
            len *= sides[axis].length;
        }
        Self { sides, steps, split, columns, len }
    }

    /// Elements of one channel.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Distance between neighbours along an axis; along the last one, between places a `split` apart.
    pub(super) fn step(&self, axis: usize) -> usize {
        self.steps[axis]
    }

    /// Where the image's first element is along an axis.
    pub(super) fn low(&self, axis: usize) -> i64 {
        self.sides[axis].low
    }

    /// Where place `place` of an axis begins.
    pub(super) fn place(&self, axis: usize, place: usize) -> usize {
        match axis + 1 == self.sides.len() {
            true => place % self.split * self.columns + place / self.split,
            false => place * self.step(axis),
        }
    }

    /// Whether an image's channel is its own frame, for elements that lie `stride` apart along the axes.
    pub(super) fn is_image(&self) -> bool {
        let dense = |axis: usize| self.sides[axis].input == 1 || self.sides[axis].stride == self.step(axis) as isize;
        self.split == 1
            && (0..self.sides.len()).all(|axis| {
                let side = &self.sides[axis];
                side.low == 0 && side.dilation == 1 && side.length == side.input && dense(axis)
            })
    }

    /// Copies a channel whose first element is at `origin` into `frame`, whose zeros are there already.
    pub(super) fn fill<T: Pod>(&self, frame: &mut [T], x: &[T], origin: isize) {
        let Some((last, outer)) = self.sides.split_last() else {
            frame[0] = x[origin as usize];
            return;
        };
        let ranges: SmallVec<[std::ops::Range<usize>; 3]> = outer.iter().map(Side::inside).collect();
        let columns = last.inside();
        if columns.is_empty() || ranges.iter().any(|range| range.is_empty()) {
            return;
        }
        // Lines along the axis before the last one are as far apart as each other; axes before it are gone through one by one.
        let before = outer.len().saturating_sub(1);
        let (lines, from_step, to_step) = match outer.last() {
            Some(side) => (ranges[before].len(), side.stride, side.dilation * self.step(before)),
            None => (1, 0, 0),
        };
        let mut at: Axes = ranges.iter().map(|range| range.start).collect();
        loop {
            let (mut from, mut to) = (origin, 0);
            for (axis, &element) in at.iter().enumerate() {
                from += element as isize * outer[axis].stride;
                to += outer[axis].place(element) * self.step(axis);
            }
            if (self.split, last.dilation, last.stride) == (1, 1, 1) {
                let (first, place) = (from + columns.start as isize, to + last.place(columns.start));
                for line in 0..lines {
                    let (from, to) = ((first + line as isize * from_step) as usize, place + line * to_step);
                    frame[to..to + columns.len()].copy_from_slice(&x[from..from + columns.len()]);
                }
            } else {
                for _ in 0..lines {
                    self.line(&mut frame[to..to + self.columns * self.split], x, from, last, columns.clone());
                    (from, to) = (from + from_step, to + to_step);
                }
            }
            let mut axis = before;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                at[axis] += 1;
                if at[axis] < ranges[axis].end {
                    break;
                }
                at[axis] = ranges[axis].start;
            }
        }
    }

    /// Copies these elements of the last axis.
    fn line<T: Pod>(&self, line: &mut [T], x: &[T], from: isize, side: &Side, elements: std::ops::Range<usize>) {
        if side.dilation > 1 {
            for element in elements {
                line[self.place(self.sides.len() - 1, side.place(element))] =
                    x[(from + element as isize * side.stride) as usize];
            }
            return;
        }
        // With a dilation of one every `split`th element has the same remainder.
        for first in elements.clone().take(self.split) {
            let count = (elements.end - first).div_ceil(self.split);
            let to = self.place(self.sides.len() - 1, side.place(first));
            let step = side.stride * self.split as isize;
            strided::read_line(&mut line[to..to + count], x, from + first as isize * side.stride, step);
        }
    }
}
