//! Copies of images with the zeros around them, so that no loop asks whether an element is inside.

use super::strided;
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
    /// Where each line of the image that is inside starts, from the image's first element, and where it goes.
    lines: Vec<(isize, usize)>,
    pieces: SmallVec<[Piece; 2]>,
}

/// Elements of a line that lie one after the other in the frame.
struct Piece {
    /// Where the first is in the line of the image, and how far apart they are there.
    from: isize,
    step: isize,
    /// Where they go in the line of the frame.
    to: usize,
    count: usize,
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
        let mut frame = Self { sides, steps, split, columns, len, lines: vec![(0, 0)], pieces: SmallVec::new() };
        frame.pieces = frame.pieces();
        let outer = frame.sides.len().saturating_sub(1);
        for (side, step) in frame.sides.iter().zip(&frame.steps).take(outer) {
            let along = |&(from, to): &(isize, usize)| {
                let next =
                    move |element: usize| (from + element as isize * side.stride, to + side.place(element) * step);
                side.inside().map(next)
            };
            frame.lines = frame.lines.iter().flat_map(along).collect();
        }
        frame
    }

    /// The elements of a line that are inside. With a dilation of one every `split`th has the same remainder; else each is by itself.
    fn pieces(&self) -> SmallVec<[Piece; 2]> {
        let Some(side) = self.sides.last() else {
            return [Piece { from: 0, step: 1, to: 0, count: 1 }].into_iter().collect();
        };
        let (inside, together) = (side.inside(), if side.dilation == 1 { self.split } else { usize::MAX });
        let piece = |element: usize| Piece {
            from: element as isize * side.stride,
            step: side.stride * self.split as isize,
            to: self.place(self.sides.len() - 1, side.place(element)),
            count: (inside.end - element).div_ceil(together),
        };
        inside.clone().take(together).map(piece).collect()
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
        for &(from, to) in &self.lines {
            for piece in &self.pieces {
                let line = &mut frame[to + piece.to..][..piece.count];
                strided::read_line(line, x, origin + from + piece.from, piece.step);
            }
        }
    }
}
