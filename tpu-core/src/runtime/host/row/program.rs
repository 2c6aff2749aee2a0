//! Row programs as data.

use super::loops::{FoldKernels, Kernel};
use crate::DType;
use smallvec::SmallVec;

/// Elements of a tile. Also the blocks of a long row's reduction, so it is part of what a sum means here.
pub(crate) const TILE: usize = 1024;
/// Rows that a reduction over columns folds one after the other; the blocks' results are folded pairwise.
pub(crate) const COLUMN_BLOCK: usize = 64;

/// Number of the thread's own frame among the bases.
pub(crate) const FRAME: u32 = 0;
/// Number of the run's scratch memory for this program.
pub(crate) const SCRATCH: u32 = 1;
/// Number of the first buffer.
pub(crate) const FIRST_BUFFER: u32 = 2;

/// Where an operand of a tile at row `r`, column `c` is: `base + offset + r row_step + c col_step`, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub base: u32,
    pub offset: usize,
    pub row_step: usize,
    pub col_step: usize,
    /// Bytes between rows inside the tile.
    pub stride: usize,
}

/// Reads elements that no single stride describes, or counts.
#[derive(Clone, Debug)]
pub(crate) struct Gather {
    pub base: u32,
    /// In elements.
    pub offset: usize,
    /// Sizes and strides, in elements, outermost first.
    pub rows: SmallVec<[(usize, usize); 4]>,
    pub cols: SmallVec<[(usize, usize); 4]>,
    /// Bytes of an element; of a cell for `iota`.
    pub bytes: usize,
    /// An element is its index, of this dtype.
    pub iota: Option<DType>,
}

/// One axis of a [`Window`], over an axis of the elements that are put together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowAxis {
    /// Elements along the axis.
    pub size: usize,
    /// Where the window starts.
    pub low: usize,
    /// Elements of the window.
    pub count: usize,
    /// Elements between neighbours in memory.
    pub step: isize,
}

/// A rectangle of elements that is read from memory.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub base: u32,
    /// Of its first element, in elements.
    pub offset: usize,
    /// Outermost first, at least one.
    pub axes: SmallVec<[WindowAxis; 4]>,
}

/// Elements put together from windows that do not overlap: what pads, concatenations and reversals are.
#[derive(Clone, Debug)]
pub(crate) struct Assembly {
    pub windows: SmallVec<[Window; 2]>,
    /// Where the element is that is everywhere else; `None` when the windows cover everything.
    pub fill: Option<Place>,
    /// Bytes of an element.
    pub bytes: usize,
    /// Elements of a row of the program: row `r`, column `c` has element `r cols + c` of the whole.
    pub cols: usize,
}

/// What an instruction does.
#[derive(Clone)]
pub(crate) enum Action {
    /// A loop over sources.
    Loop { kernel: Kernel, src: [Place; 3] },
    /// A strided read.
    Gather(Box<Gather>),
    /// Reads of several places.
    Assembly(Box<Assembly>),
}

/// One instruction.
#[derive(Clone)]
pub(crate) struct Instr {
    pub action: Action,
    pub dst: Place,
    /// All operands are dense over the rows of a tile, so that the tile is one long row.
    pub flat: bool,
}

/// A reduction of each row.
#[derive(Clone)]
pub(crate) struct RowFold {
    pub kernels: FoldKernels,
    pub bytes: usize,
    pub src: Place,
    /// One element per row.
    pub dst: Place,
    /// One element per row and tile of the row.
    pub partial: Place,
}

/// A reduction over the rows: of each column, for each of `rows / fold_rows` runs of rows.
#[derive(Clone)]
pub(crate) struct ColumnFold {
    pub kernels: FoldKernels,
    pub bytes: usize,
    pub src: Place,
    /// Where the blocks' results start in the scratch memory.
    pub partial: usize,
    pub dst: Place,
    /// The phase that computes `src`.
    pub phase: usize,
}

/// Instructions between reductions.
#[derive(Clone, Default)]
pub(crate) struct Phase {
    /// On one element per row, before the rest.
    pub head: Vec<Instr>,
    /// On whole tiles.
    pub body: Vec<Instr>,
    /// After the last tile of a row.
    pub folds: Vec<RowFold>,
}

/// How the work of a program is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    /// Tiles of whole rows go through all phases.
    Rows,
    /// One phase without row folds: columns are independent too.
    Columns,
    /// Few long rows: phase by phase, tiles of a row in parallel; what lives across phases is in the scratch memory.
    Phases,
}

/// A compiled group.
#[derive(Clone)]
pub(crate) struct RowProgram {
    pub rows: usize,
    pub cols: usize,
    /// Rows of a tile: more than one only when `cols` fits in a tile.
    pub tile_rows: usize,
    pub cut: Cut,
    pub phases: Vec<Phase>,
    pub columns: Vec<ColumnFold>,
    /// Rows that one column fold covers.
    pub fold_rows: usize,
    pub frame_bytes: usize,
    pub scratch_bytes: usize,
    /// Estimated nanoseconds on one thread.
    pub nanoseconds: f64,
}

impl RowProgram {
    /// Columns of a tile.
    pub fn tile_cols(&self) -> usize {
        self.cols.min(TILE)
    }

    /// Blocks of rows that one column fold has.
    pub fn fold_blocks(&self) -> usize {
        self.fold_rows.div_ceil(COLUMN_BLOCK)
    }

    /// Calls `f` with every place, to move bases.
    pub fn for_each_place(&mut self, mut f: impl FnMut(&mut u32, &mut usize, usize)) {
        for phase in &mut self.phases {
            for instr in phase.head.iter_mut().chain(&mut phase.body) {
                f(&mut instr.dst.base, &mut instr.dst.offset, 1);
                match &mut instr.action {
                    Action::Loop { src, .. } => src.iter_mut().for_each(|p| f(&mut p.base, &mut p.offset, 1)),
                    Action::Gather(gather) if gather.iota.is_none() => {
                        f(&mut gather.base, &mut gather.offset, gather.bytes);
                    }
                    Action::Gather(_) => {}
                    Action::Assembly(assembly) => {
                        let bytes = assembly.bytes;
                        assembly.windows.iter_mut().for_each(|w| f(&mut w.base, &mut w.offset, bytes));
                        assembly.fill.iter_mut().for_each(|p| f(&mut p.base, &mut p.offset, 1));
                    }
                }
            }
            for fold in &mut phase.folds {
                for place in [&mut fold.src, &mut fold.dst, &mut fold.partial] {
                    f(&mut place.base, &mut place.offset, 1);
                }
            }
        }
        for fold in &mut self.columns {
            for place in [&mut fold.src, &mut fold.dst] {
                f(&mut place.base, &mut place.offset, 1);
            }
        }
    }
}
