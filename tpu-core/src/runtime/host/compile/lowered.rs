//! A fusion group as instructions, for any sizes with the same facts.

use super::assemble::Pieces;
use super::size::{Size, Values};
use super::view::Axes;
use crate::DType;
use crate::ir::{BinaryOp, NodeId, Value};
use crate::runtime::host::copy::StridedCopy;
use crate::runtime::host::row::functions::Cell;
use crate::runtime::host::row::loops::{FoldKernels, Kernel};
use crate::runtime::host::row::program::{Gather, Place};
use smallvec::SmallVec;

/// Memory that a program refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(super) enum Memory {
    /// A value.
    Value(Value),
    /// The constants, from this byte on.
    Constant(usize),
}

/// A group as instructions, for any sizes with the same facts.
pub(super) struct Lowered {
    pub rows: Size,
    pub cols: Size,
    pub fold_rows: Size,
    /// Phases, at least one.
    pub phases: usize,
    pub locals: Vec<Local>,
    pub steps: Vec<Step>,
    pub folds: Vec<Fold>,
    pub columns: Vec<Column>,
    /// What base `FIRST_BUFFER + i` is.
    pub buffers: Vec<Memory>,
    /// Values that it writes.
    pub outputs: Vec<Value>,
    /// The nodes it runs.
    pub nodes: Vec<NodeId>,
    /// Pairs (written, read): the written value may take the memory of the read one.
    pub in_place: Vec<(Value, Value)>,
    pub cost: Cost,
}

/// Estimated nanoseconds on one thread.
#[derive(Clone, Copy, Default)]
pub(super) struct Cost {
    pub per_row: f64,
    pub per_element: f64,
}

/// Where an operand at row `r`, column `c` is: `base + offset + r row_step + c col_step`, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spot {
    pub base: u32,
    pub offset: Size,
    pub row_step: Size,
    pub col_step: Size,
}

impl Spot {
    /// The place for one vector of sizes.
    pub fn at(&self, values: &Values) -> Place {
        let row_step = values.of(self.row_step);
        Place {
            base: self.base,
            offset: values.of(self.offset),
            row_step,
            col_step: values.of(self.col_step),
            stride: row_step,
        }
    }
}

/// A read of elements that no single stride describes, or a count.
#[derive(Clone)]
pub(super) struct Strided {
    pub base: u32,
    /// In elements.
    pub offset: Size,
    /// Sizes and strides, in elements.
    pub rows: [Axes; 2],
    pub cols: [Axes; 2],
    pub bytes: usize,
    pub iota: Option<DType>,
}

impl Strided {
    /// The read for one vector of sizes.
    pub fn at(&self, values: &Values) -> Gather {
        let pairs = |[sizes, strides]: &[Axes; 2]| {
            StridedCopy::axes(&values.all(sizes), &values.all(strides)).iter().copied().collect()
        };
        let (base, bytes, iota) = (self.base, self.bytes, self.iota);
        Gather { base, offset: values.of(self.offset), rows: pairs(&self.rows), cols: pairs(&self.cols), bytes, iota }
    }
}

/// A value of the group.
#[derive(Clone, Debug)]
pub(super) struct Local {
    /// Bytes of an element.
    pub size: usize,
    pub cell: Cell,
    pub full: bool,
    /// Per row, and the same for all rows.
    pub scalar: bool,
    /// Full: the phase that computes it. Per row: the phase whose head has it.
    pub phase: usize,
    /// Where it is, if it is in memory.
    pub spot: Option<Spot>,
    /// It is a 16-bit float that has not been rounded to its type.
    pub unrounded: Option<DType>,
    /// It is computed by an instruction or a reduction of the group.
    pub computed: bool,
}

/// What an instruction runs.
#[derive(Clone)]
pub(super) enum What {
    Loop(Kernel),
    Gather(Box<Strided>),
    Assembly(Box<Pieces>),
}

/// An instruction before places are known.
#[derive(Clone)]
pub(super) struct Step {
    pub what: What,
    pub src: SmallVec<[usize; 3]>,
    pub dst: usize,
    pub full: bool,
    pub phase: usize,
    /// The operation of two f32 that it is, if it is one, and which of its operands are one per row.
    pub arithmetic: Option<(BinaryOp, [bool; 2])>,
}

/// A reduction of each row.
pub(super) struct Fold {
    pub kernels: FoldKernels,
    pub src: usize,
    pub dst: usize,
    pub phase: usize,
}

/// A reduction of columns.
pub(super) struct Column {
    pub kernels: FoldKernels,
    pub src: usize,
    /// The base of the result.
    pub dst: u32,
    pub phase: usize,
}
