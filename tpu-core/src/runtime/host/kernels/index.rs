//! Where the slices of a gather or scatter start.

use super::super::scratch::{Memory, Scratch};
use super::movement::{IndexReader, index_reader};
use super::strided::{self, Odometer, Strides};
use super::{Operand, split};
use crate::ir::Axes;
use crate::{DType, Result};
use smallvec::SmallVec;

/// Index vectors that are looked at together: arrays of them should not lie a page apart, where a processor takes a read for one
/// of what it has just written.
const BLOCK: usize = 480;

/// Where a slice that does not fit starts.
pub(super) const OUTSIDE: isize = -1;

/// Sizes of the index array's axes but the vector's.
pub(super) fn batch_sizes(indices: &[usize], vector: usize) -> Axes {
    indices.iter().enumerate().filter(|&(axis, _)| axis != vector).map(|(_, &size)| size).collect()
}

/// Slices of an operand at index vectors.
pub(super) struct Slices<'a> {
    pub indices: Operand<'a>,
    /// The axis of the index array along which a vector lies; none if it is their number.
    pub vector: usize,
    /// For each component of a vector the operand's axis that it is on.
    pub axes: &'a [usize],
    /// Axes of the operand and of the index array that go along with each other.
    pub operand_batching: &'a [usize],
    pub indices_batching: &'a [usize],
    /// Sizes of the operand and of a slice.
    pub sizes: &'a [usize],
    pub extent: &'a [usize],
    /// Whether a slice that does not fit is moved so that it does.
    pub moved: bool,
}

/// One component of the index vectors.
struct Component {
    /// How far a start may be.
    room: i64,
    /// The distance that it is a multiple of.
    stride: isize,
}

/// For each index vector, in row-major order, where its slice starts in the operand.
pub(super) struct Starts<'a> {
    indices: Operand<'a>,
    /// The indices, if they are `i64`.
    plain: Option<&'a [i64]>,
    read: IndexReader,
    /// Sizes of the axes of the index array but the vector's, their strides there, and in the operand if they go along with one
    /// of its axes.
    pub batch: Axes,
    strides: Strides,
    paired: Strides,
    /// Distance between components of a vector.
    component: usize,
    components: SmallVec<[Component; 4]>,
    moved: bool,
    /// Whether some slice fits at all.
    possible: bool,
}

impl<'a> Slices<'a> {
    pub(super) fn starts(&self) -> Result<Starts<'a>> {
        let of_indices = strided::dense(self.indices.sizes());
        let of_operand = strided::dense(self.sizes);
        let batch = batch_sizes(self.indices.sizes(), self.vector);
        let mut paired: Strides = SmallVec::from_elem(0, batch.len());
        for (&operand, &index) in self.operand_batching.iter().zip(self.indices_batching) {
            // Numbers of index axes shift down by one behind the vector's axis.
            paired[index - usize::from(index > self.vector)] = of_operand[operand];
        }
        let room = |axis: usize| self.sizes[axis] as i64 - self.extent[axis] as i64;
        let component = |&axis: &usize| Component { room: room(axis).max(0), stride: of_operand[axis] };
        Ok(Starts {
            indices: self.indices,
            plain: (self.indices.ty.dtype == DType::I64).then(|| self.indices.cells()).transpose()?,
            read: index_reader(self.indices.ty.dtype)?,
            strides: (0..of_indices.len()).filter(|&axis| axis != self.vector).map(|axis| of_indices[axis]).collect(),
            batch,
            paired,
            component: of_indices.get(self.vector).map_or(0, |&stride| stride as usize),
            components: self.axes.iter().map(component).collect(),
            moved: self.moved,
            possible: (0..self.sizes.len()).all(|axis| room(axis) >= 0),
        })
    }
}

impl Starts<'_> {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.batch.iter().product()
    }

    /// Whether all are multiples of a distance, [`OUTSIDE`] aside.
    pub(super) fn are_multiples_of(&self, distance: usize) -> bool {
        let components = self.components.iter().map(|component| component.stride);
        components.chain(self.paired.iter().copied()).all(|stride| (stride as usize).is_multiple_of(distance))
    }

    /// Elements of an operand of so many that index vectors with one number along their first axis stay within, and how many
    /// vectors these are: if that axis goes along with the operand's first one.
    pub(super) fn slab(&self, elements: usize) -> Option<(usize, usize)> {
        let (&stride, &size) = self.paired.first().zip(self.batch.first())?;
        let outermost = stride > 0 && size * stride as usize == elements;
        outermost.then(|| (stride as usize, self.batch[1..].iter().product()))
    }

    /// Calls `body` with the starts of `count` index vectors from `first` on, a block at a time, and how many came before.
    pub(super) fn for_each_block(&self, first: usize, count: usize, mut body: impl FnMut(usize, &[isize])) {
        let rank = self.batch.len().saturating_sub(1);
        let last = |list: &[isize]| list.last().copied().unwrap_or(0);
        let steps = (last(&self.strides), last(&self.paired));
        let columns = self.batch.last().copied().unwrap_or(1).max(1);
        let mut vector = Odometer::new(&self.batch[..rank], &self.strides[..rank], 0, first / columns);
        let mut along = Odometer::new(&self.batch[..rank], &self.paired[..rank], 0, first / columns);
        let mut starts = [0; BLOCK];
        let (mut column, mut done) = (first % columns, 0);
        while done < count {
            // As many lines, or as much of one, as there is room for.
            let mut filled = 0;
            while filled < BLOCK && done + filled < count {
                let len = (columns - column).min(BLOCK - filled).min(count - done - filled);
                let at = (vector.position + column as isize * steps.0) as usize;
                let place = along.position + column as isize * steps.1;
                self.line(at, place, steps, &mut starts[filled..filled + len]);
                filled += len;
                column += len;
                if column == columns {
                    column = 0;
                    vector.advance();
                    along.advance();
                }
            }
            body(done, &starts[..filled]);
            done += filled;
        }
    }

    /// The starts of index vectors that lie `steps.0` apart from `at` on, in parts of the operand that lie `steps.1` apart from
    /// `place` on.
    fn line(&self, at: usize, place: isize, steps: (isize, isize), starts: &mut [isize]) {
        if !(self.moved || self.possible) {
            return starts.fill(OUTSIDE);
        }
        let places = (0..).map(|column| place + column * steps.1);
        if self.components.is_empty() {
            starts.iter_mut().zip(places).for_each(|(start, place)| *start = place);
            return;
        }
        let mut memory = [0; BLOCK];
        for (number, &Component { room, stride }) in self.components.iter().enumerate() {
            let at = at + number * self.component;
            let indices = match self.plain {
                Some(plain) if steps.0 == 1 => &plain[at..at + starts.len()],
                _ => {
                    (self.read)(self.indices.bytes, at, steps.0 as usize, &mut memory[..starts.len()]);
                    &memory[..starts.len()]
                }
            };
            let before = starts.iter_mut().zip(indices);
            match (number, self.moved) {
                (0, true) => before.zip(places.clone()).for_each(|((start, &index), place)| {
                    *start = place + index.clamp(0, room) as isize * stride;
                }),
                (0, false) => before.zip(places.clone()).for_each(|((start, &index), place)| {
                    let fits = (0..=room).contains(&index);
                    *start = if fits { place + index as isize * stride } else { OUTSIDE };
                }),
                (_, true) => {
                    before.for_each(|(start, &index)| *start += index.clamp(0, room) as isize * stride);
                }
                (_, false) => before.for_each(|(start, &index)| {
                    let fits = *start != OUTSIDE && (0..=room).contains(&index);
                    *start = if fits { *start + index as isize * stride } else { OUTSIDE };
                }),
            }
        }
    }

    /// All starts in memory.
    pub(super) fn all<'m>(&self, memory: Memory<'m>) -> Result<Scratch<'m, isize>> {
        let mut all = memory.filled(self.count(), 0)?;
        split::parts(&mut all, 1, 3.0, |first, part| {
            self.for_each_block(first, part.len(), |at, starts| part[at..at + starts.len()].copy_from_slice(starts));
        });
        Ok(all)
    }
}
