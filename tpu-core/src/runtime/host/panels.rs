//! Products of matrices of 16-bit floats, and of f32 with the same blocks.
//!
//! A block of the result is summed over blocks of depth. Of each, both operands are widened to f32 in the order in which the
//! tiles read them, so that no operand is ever in memory a second time; sums are rounded where they leave the cache.
//!
//! An element is the sum, in order, of the sums of its blocks of depth, each in the order of depth: bits depend neither on
//! layouts nor on how the result is cut among threads, nor on the instruction set.

use super::row::isa::Isa;
use super::thread_memory::{pieces, with_memory};
use super::tile::{self, COLUMNS, Put};
use super::widen::{self, Eight, Grid, Number};
use crate::DType;
use half::{bf16, f16};
use rayon::prelude::*;

/// Depth of a block: 256 x 16 numbers of a panel stay in the first-level cache.
const DEPTH: usize = 256;
/// Rows and columns of a block of the result, which stays in the second-level cache with the rows of `a`.
const ROWS: usize = 240;
const WIDTH: usize = 512;
/// Numbers between lines whose distance would otherwise be a power of two, which the same places of the cache would hold.
const GAP: usize = 16;

/// `y[i, j] = Σ a[i, p] b[p, j]`; steps are in elements.
#[derive(Clone, Copy)]
pub(crate) struct Panels {
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    /// The dtype of the operands.
    pub factors: DType,
    pub a: *const u8,
    pub a_row: usize,
    pub a_depth: usize,
    pub b: *const u8,
    pub b_column: usize,
    pub b_depth: usize,
    /// That of the operands or f32.
    pub result: DType,
    pub y: *mut u8,
    pub y_row: usize,
    pub y_column: usize,
}
// SAFETY: tasks write different blocks of the result, and operands are only read.
unsafe impl Sync for Panels {}

impl Panels {
    /// The transpose of the product, which is the product of the transposes in turn.
    fn turned(&self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            a: self.b,
            a_row: self.b_column,
            a_depth: self.b_depth,
            b: self.a,
            b_column: self.a_row,
            b_depth: self.a_depth,
            y_row: self.y_column,
            y_column: self.y_row,
            ..*self
        }
    }

    /// A block of the result.
    fn block(&self, (row, rows): (usize, usize), (column, columns): (usize, usize)) -> Self {
        let (factor, result) = (self.factors.bits() as usize / 8, self.result.bits() as usize / 8);
        Self {
            rows,
            columns,
            a: self.a.wrapping_add(row * self.a_row * factor),
            b: self.b.wrapping_add(column * self.b_column * factor),
            y: self.y.wrapping_add((row * self.y_row + column * self.y_column) * result),
            ..*self
        }
    }
}

/// Runs a product, on more than one thread in the current thread pool.
///
/// # Safety
///
/// All elements of the operands may be read, those of the result written; they are distinct and no operand's. The machine has
/// the instruction set.
pub(crate) unsafe fn run(of: &Panels, isa: Isa, threads: usize) {
    if of.rows == 0 || of.columns == 0 {
        return;
    }
    // A panel of fewer columns is computed as if it had them all; of fewer rows it is not.
    let turned = of.turned();
    let of = if of.columns < COLUMNS && of.columns < of.rows { &turned } else { of };
    let (mut rows, mut width) = (ROWS.min(of.rows), WIDTH.min(of.columns));
    let tasks = |rows: usize, width: usize| of.rows.div_ceil(rows) * of.columns.div_ceil(width);
    while threads > 1 && tasks(rows, width) < 4 * threads && rows.max(width) > 4 * COLUMNS {
        match rows > width {
            true => rows = rows.div_ceil(2).next_multiple_of(6),
            false => width = width.div_ceil(2).next_multiple_of(COLUMNS),
        }
    }
    let (down, along) = (of.rows.div_ceil(rows), of.columns.div_ceil(width));
    let kernel = kernel(isa, of.factors);
    let task = |task: usize| {
        let (row, column) = (task / along * rows, task % along * width);
        let block = of.block((row, rows.min(of.rows - row)), (column, width.min(of.columns - column)));
        // SAFETY: passed on to the caller; tasks have different blocks.
        with_memory(Layout::new(&block).sizes(&block).iter().sum(), |memory| unsafe { kernel(&block, memory) });
    };
    match threads {
        0 | 1 => (0..down * along).for_each(task),
        _ => (0..down * along).into_par_iter().for_each(task),
    }
}

/// Computes one block with memory for its layout, for an instruction set and the dtype of the operands.
type Kernel = unsafe fn(&Panels, &mut [f32]);

fn kernel(isa: Isa, factors: DType) -> Kernel {
    macro_rules! of {
        ($level:ident) => {
            match factors {
                DType::BF16 => $level::<bf16>,
                DType::F16 => $level::<f16>,
                _ => $level::<f32>,
            }
        };
    }
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => of!(avx2),
        _ => of!(portable),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<T: Number>(of: &Panels, memory: &mut [f32]) {
    // SAFETY: passed on to the caller.
    unsafe { block::<std::arch::x86_64::__m256, T>(of, memory, tile::kernel(Isa::Avx2)) }
}

unsafe fn portable<T: Number>(of: &Panels, memory: &mut [f32]) {
    // SAFETY: passed on to the caller.
    unsafe { block::<[f32; 8], T>(of, memory, tile::kernel(Isa::Portable)) }
}

/// How a block lies in memory, in numbers.
struct Layout {
    /// Depth of a block of depth.
    depth: usize,
    /// Whether rows of `a` lie side by side, since they do so in the operand, or along depth.
    beside: bool,
    /// From one line of `a` to the next.
    a_line: usize,
    a: usize,
    panels: usize,
    /// From one panel of `b` to the next.
    panel: usize,
    /// The same of sums: nothing if none has to wait for the next block of depth.
    sums: usize,
}

impl Layout {
    fn new(of: &Panels) -> Self {
        let depth = DEPTH.min(of.depth);
        let beside = of.a_row == 1 && of.a_depth != 1;
        let a_line = if beside { of.rows } else { depth }.next_multiple_of(8) + GAP;
        Self {
            depth,
            beside,
            a_line,
            a: a_line * if beside { depth } else { of.rows },
            panels: of.columns.div_ceil(COLUMNS),
            panel: depth * COLUMNS + GAP,
            sums: if of.depth > depth { of.rows * COLUMNS } else { 0 },
        }
    }

    /// Numbers of `a`, `b` and sums.
    fn sizes(&self, of: &Panels) -> [usize; 3] {
        [self.a, self.panels * self.panel, (self.sums * self.panels).max(of.rows * COLUMNS)]
    }
}

#[inline(always)]
unsafe fn block<V: Eight, T: Number>(of: &Panels, memory: &mut [f32], product: tile::Kernel) {
    let layout = Layout::new(of);
    let [a, b, sums] = pieces(memory, layout.sizes(of));
    if of.depth == 0 {
        sums.fill(0.0);
        // SAFETY: passed on to the caller.
        (0..layout.panels).for_each(|number| unsafe { store::<T>(of, sums.as_ptr(), number * COLUMNS) });
        return;
    }
    let [a, b, sums] = [a, b, sums].map(<[f32]>::as_mut_ptr);
    let (a_row, a_depth) = if layout.beside { (1, layout.a_line) } else { (layout.a_line, 1) };
    for first in (0..of.depth).step_by(layout.depth) {
        let depth = layout.depth.min(of.depth - first);
        let from = of.a.cast::<T>().wrapping_add(first * of.a_depth);
        let of_a = match layout.beside {
            true => Grid { from, sizes: (depth, of.rows), steps: (of.a_depth, of.a_row) },
            false => Grid { from, sizes: (of.rows, depth), steps: (of.a_row, of.a_depth) },
        };
        let from = of.b.cast::<T>().wrapping_add(first * of.b_depth);
        let of_b = Grid { from, sizes: (depth, of.columns), steps: (of.b_depth, of.b_column) };
        // SAFETY: the operands have these elements, by the caller, and the pieces room for them.
        unsafe {
            widen::lines::<V, T>(of_a, a, layout.a_line);
            widen::panels::<V, T>(of_b, b, layout.panel);
        }
        for number in 0..layout.panels {
            let sums = sums.wrapping_add(number * layout.sums);
            let all = tile::Product {
                rows: of.rows,
                depth: [1, depth],
                a,
                a_row,
                a_depth: [0, a_depth],
                b: b.wrapping_add(number * layout.panel),
                b_row: COLUMNS,
                c: sums,
                c_row: COLUMNS,
                columns: COLUMNS,
                put: if first == 0 { Put::Set } else { Put::Add },
            };
            // SAFETY: the pieces have all rows of `a`, this panel of `b` and these sums; the rest is passed on to the caller.
            unsafe {
                product(&all);
                if first + depth == of.depth {
                    store::<T>(of, sums, number * COLUMNS);
                }
            }
        }
    }
}

/// Writes a panel of sums to the result, from a column on.
#[inline(always)]
unsafe fn store<T: Number>(of: &Panels, sums: *const f32, column: usize) {
    let (sizes, steps) = ((of.rows, COLUMNS.min(of.columns - column)), (of.y_row, of.y_column));
    // SAFETY: passed on to the caller; the result has these columns.
    unsafe {
        match of.result {
            DType::F32 => widen::put::<f32>(sums, of.y.cast::<f32>().add(column * steps.1), sizes, steps),
            _ => widen::put::<T>(sums, of.y.cast::<T>().add(column * steps.1), sizes, steps),
        }
    }
}

#[cfg(test)]
mod tests;
