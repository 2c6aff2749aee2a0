//! Pads, concatenations and reversals inside groups: read from their operands' memory, wherever a tile is.

use super::lower::{LIGHT, Lowering, Memory, What};
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

impl Lowering<'_> {
    /// The elements of such a node.
    pub(super) fn assembly(&mut self, id: NodeId) -> Option<usize> {
        let context = self.context();
        let node = &context.graph[id];
        let ty = &node.types[0];
        let (sizes, reads) = (ty.shape.sizes(), context.fusion.reads(id));
        let mut windows: SmallVec<[Window; 2]> = SmallVec::new();
        let mut fill = None;
        let bytes = ty.dtype.bits() as usize / 8;
        match &node.op {
            Op::Pad { low, .. } => {
                windows.extend(self.window(&reads[0], sizes, |axis| low[axis], |_| false));
                let base = self.memory_of(&reads[1])?;
                fill = Some(Place { base, offset: reads[1].offset * bytes, ..Place::default() });
            }
            Op::Concatenate { axis } => {
                let mut start = 0;
                for view in reads {
                    let low = |at: usize| if at == *axis { start } else { 0 };
                    windows.extend(self.window(view, sizes, low, |_| false));
                    start += view.sizes[*axis] as i64;
                }
            }
            Op::Reverse(axes) => windows.extend(self.window(&reads[0], sizes, |_| 0, |axis| axes.contains(&axis))),
            _ => return None,
        }
        let cell = Cell::of(ty.dtype)?;
        let full = ty.shape.elements() == Some(self.rows * self.cols) && self.cols > 1;
        let what = What::Assembly(Box::new(Assembly { windows, fill, bytes, cols: self.cols }));
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

    /// The part of the whole of these sizes that a view is, if there is one: `low` says where it starts along each axis, `back`
    /// whether it goes backwards.
    fn window(
        &mut self,
        view: &View,
        sizes: &[usize],
        low: impl Fn(usize) -> i64,
        back: impl Fn(usize) -> bool,
    ) -> Option<Window> {
        let base = self.memory_of(view)?;
        let mut offset = view.offset;
        let mut axes: SmallVec<[WindowAxis; 4]> = SmallVec::new();
        for (axis, &size) in sizes.iter().enumerate() {
            let (low, stride) = (low(axis), view.strides[axis]);
            // What a negative pad cuts away.
            let cut = if low < 0 { low.unsigned_abs() as usize } else { 0 };
            let low = low.max(0) as usize;
            let count = view.sizes[axis].saturating_sub(cut).min(size.saturating_sub(low));
            if count == 0 {
                return None;
            }
            offset += stride * if back(axis) { count - 1 } else { cut };
            let step = if back(axis) { -(stride as isize) } else { stride as isize };
            if size == 1 {
                continue;
            }
            match axes.last_mut() {
                // An axis that is there whole goes on where the one before it does.
                Some(last) if count == size && (last.count == 1 || last.step == step.wrapping_mul(size as isize)) => {
                    *last = WindowAxis { size: last.size * size, low: last.low * size, count: last.count * size, step };
                }
                _ => axes.push(WindowAxis { size, low, count, step }),
            }
        }
        if axes.is_empty() {
            axes.push(WindowAxis { size: 1, low: 0, count: 1, step: 0 });
        }
        Some(Window { base, offset, axes })
    }
}
