//! Pads, concatenations and reversals inside groups: read from their operands' memory, wherever a tile is.

use super::lower::{LIGHT, Lowering};
use super::lowered::{Memory, What};
use super::size::{self, Size, Values};
use super::view::{Root, View};
use crate::ir::{NodeId, Op};
use crate::runtime::host::row::functions::{self, Cell};
use crate::runtime::host::row::program::{Assembly, Place, Window, WindowAxis};
use smallvec::{SmallVec, smallvec};

/// Operands of a concatenation in a group at most: each is looked at for each tile.
const PIECES: usize = 16;

/// Whether an op puts elements of its operands together. In a group it reads them from memory, never from the group itself:
/// they are at other places than its own.
pub(super) fn is_assembly(op: &Op) -> bool {
    matches!(op, Op::Pad { .. } | Op::Concatenate { .. } | Op::Reverse(_))
}

/// Whether groups can do that to these elements.
pub(super) fn is_member(op: &Op, cell: Option<Cell>, operands: usize) -> bool {
    let simple = match op {
        Op::Pad { interior, .. } => interior.iter().all(|&holes| holes == 0),
        Op::Concatenate { .. } => operands <= PIECES,
        op => is_assembly(op),
    };
    simple && cell.is_some()
}

/// Elements put together from windows, for any sizes with the same facts.
#[derive(Clone)]
pub(super) struct Pieces {
    windows: SmallVec<[Piece; 2]>,
    /// Base, and the byte there, of the element that is everywhere else.
    fill: Option<(u32, Size)>,
    bytes: usize,
    cols: Size,
}

/// A rectangle of elements in memory.
#[derive(Clone)]
struct Piece {
    base: u32,
    offset: Size,
    axes: SmallVec<[Side; 4]>,
}

/// One axis of a piece.
#[derive(Clone, Copy)]
struct Side {
    size: Size,
    low: Size,
    count: Size,
    stride: Size,
    /// Whether it goes backwards.
    back: bool,
}

impl Pieces {
    /// The bases that it reads.
    pub fn bases(&self) -> impl Iterator<Item = u32> {
        self.windows.iter().map(|piece| piece.base).chain(self.fill.map(|fill| fill.0))
    }

    /// The instruction for one vector of sizes.
    pub fn at(&self, values: &Values) -> Assembly {
        let axis = |side: &Side| {
            let stride = values.of(side.stride) as isize;
            WindowAxis {
                size: values.of(side.size),
                low: values.of(side.low),
                count: values.of(side.count),
                step: if side.back { -stride } else { stride },
            }
        };
        let window = |piece: &Piece| Window {
            base: piece.base,
            offset: values.of(piece.offset),
            axes: piece.axes.iter().map(axis).collect(),
        };
        Assembly {
            windows: self.windows.iter().map(window).collect(),
            fill: self.fill.map(|(base, offset)| Place { base, offset: values.of(offset), ..Place::default() }),
            bytes: self.bytes,
            cols: values.of(self.cols),
        }
    }
}

/// Where a window starts along an axis, and how much of it is cut away there.
#[derive(Clone, Copy, Default)]
struct Start {
    low: Size,
    cut: Size,
}

impl Lowering<'_> {
    /// The elements of such a node.
    pub(super) fn assembly(&mut self, id: NodeId) -> Option<usize> {
        let context = self.context();
        let node = &context.graph[id];
        let ty = &node.types[0];
        let (sizes, reads) = (size::of(ty), context.fusion.reads(id));
        let mut windows: SmallVec<[Piece; 2]> = SmallVec::new();
        let mut fill = None;
        let bytes = ty.dtype.bits() as usize / 8;
        match &node.op {
            Op::Pad { low, .. } => {
                let start = |axis: usize| {
                    let magnitude = Size::attribute(low[axis]);
                    let none = Size::number(0);
                    if low[axis] < 0 {
                        Start { low: none, cut: magnitude }
                    } else {
                        Start { low: magnitude, cut: none }
                    }
                };
                windows.extend(self.window(&reads[0], &sizes, start, |_| false));
                fill = Some((self.memory_of(&reads[1])?, reads[1].offset * bytes));
            }
            Op::Concatenate { axis } => {
                let mut next = Start::default();
                for view in reads {
                    let start = |at: usize| if at == *axis { next } else { Start::default() };
                    windows.extend(self.window(view, &sizes, start, |_| false));
                    next.low += view.sizes[*axis];
                }
            }
            Op::Reverse(axes) => {
                windows.extend(self.window(&reads[0], &sizes, |_| Start::default(), |axis| axes.contains(&axis)))
            }
            _ => return None,
        }
        let cell = Cell::of(ty.dtype)?;
        let full = size::elements(ty) == self.rows * self.cols && self.cols > 1;
        let what = What::Assembly(Box::new(Pieces { windows, fill, bytes, cols: self.cols }));
        let raw = self.step_at(what, SmallVec::new(), cell, bytes, full, 3.0 * LIGHT);
        Some(match functions::load(context.isa, ty.dtype) {
            Some(kernel) => self.step(What::Loop(kernel), smallvec![raw], cell, cell.size(), LIGHT),
            None => raw,
        })
    }

    fn memory_of(&mut self, view: &View) -> Option<u32> {
        match &view.root {
            Root::Value(root) => Some(self.base(Memory::Value(*root))),
            Root::Constant(literal) => Some(self.constant(literal)),
            Root::Iota(_) => None,
        }
    }

    /// The part of the whole of these sizes that a view is, if there is one: `start` says where it starts along each axis, `back`
    /// whether it goes backwards.
    fn window(
        &mut self,
        view: &View,
        sizes: &[Size],
        start: impl Fn(usize) -> Start,
        back: impl Fn(usize) -> bool,
    ) -> Option<Piece> {
        let base = self.memory_of(view)?;
        let mut offset = view.offset;
        let mut axes: SmallVec<[Side; 4]> = SmallVec::new();
        for (axis, &size) in sizes.iter().enumerate() {
            let (Start { low, cut }, stride, back) = (start(axis), view.strides[axis], back(axis));
            let count = (view.sizes[axis] - cut).min(size - low);
            if count == 0 {
                return None;
            }
            offset += stride * if back { count - Size::number(1) } else { cut };
            if size == 1 {
                continue;
            }
            match axes.last_mut() {
                // An axis that is there whole goes on where the one before it does.
                Some(last)
                    if count == size && (last.count == 1 || last.back == back && last.stride == stride * size) =>
                {
                    let (low, count) = (last.low * size, last.count * size);
                    *last = Side { size: last.size * size, low, count, stride, back };
                }
                _ => axes.push(Side { size, low, count, stride, back }),
            }
        }
        if axes.is_empty() {
            let (one, none) = (Size::number(1), Size::number(0));
            axes.push(Side { size: one, low: none, count: one, stride: none, back: false });
        }
        Some(Piece { base, offset, axes })
    }
}
