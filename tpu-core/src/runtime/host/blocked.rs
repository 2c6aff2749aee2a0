//! Products of f32 matrices of more than a few rows and columns.
//!
//! Columns of the right operand are laid in panels as tiles read them, a block of depth at a time, for all rows of a task. Rows
//! of the left one are read where they are if few panels go over them, else copied, since lines that are a power of two apart
//! share a place of the cache. An operand that a loop multiplies with in each round is laid in panels once ([`lay`]).
//!
//! An element is the sum, in order, of the sums of its blocks of depth, each in the order of depth: bits depend neither on
//! layouts nor on how the result is cut among threads, nor on the instruction set.

use super::row::isa::Isa;
use super::thread_memory::{pieces, with_memory};
use super::tile::{self, COLUMNS, Put};
use super::widen::{self, Eight, Grid};
use rayon::prelude::*;

/// Depth of a block: a panel of 512 x 16 numbers fills the first-level cache, and sums go to memory and back less often.
const DEPTH: usize = 512;
/// Columns of a block of the right operand, and rows of one of the left, which together are about the second-level cache.
const WIDTH: usize = 512;
const ROWS: usize = 96;
/// Panels that may go over rows of the left operand where they are.
const IN_PLACE: usize = 16;
/// Numbers between lines or panels whose distance would otherwise be a power of two.
const GAP: usize = 16;
/// Multiplications and additions worth a task.
const TASK: usize = 4_000_000;

/// `y[i, j] = Σ a[i, p] b[p, j]`; steps are in elements, and columns of `y` are adjacent.
#[derive(Clone, Copy)]
pub(crate) struct Blocked {
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    pub a: *const f32,
    pub a_row: usize,
    pub a_depth: usize,
    pub b: Right,
    pub y: *mut f32,
    pub y_row: usize,
}
// SAFETY: tasks write different blocks of the result, and operands are only read.
unsafe impl Sync for Blocked {}

/// A right operand.
#[derive(Clone, Copy)]
pub(crate) enum Right {
    /// Where it is.
    Matrix { from: *const f32, depth: usize, column: usize },
    /// As [`lay`] laid it.
    Laid(*const f32),
}

/// Numbers from one panel to the next of a product so deep.
fn panel(depth: usize) -> usize {
    DEPTH.min(depth) * COLUMNS + GAP
}

/// Numbers of a right operand laid in panels.
pub(crate) fn laid(depth: usize, columns: usize) -> usize {
    depth.div_ceil(DEPTH) * columns.div_ceil(COLUMNS) * panel(depth)
}

/// Lays a right operand in panels, block of depth by block of depth; with `parallel` in the current thread pool.
///
/// # Safety
///
/// All elements of the operand may be read, and [`laid`] numbers written to.
pub(crate) unsafe fn lay(
    (depth, columns): (usize, usize),
    from: *const f32,
    (down, along): (usize, usize),
    to: *mut f32,
    isa: Isa,
    parallel: bool,
) {
    let (lay, panel, panels) = (kernels(isa).lay, panel(depth), columns.div_ceil(COLUMNS));
    let wide = WIDTH / COLUMNS;
    let chunks = panels.div_ceil(wide);
    let ends = Ends(from, to);
    let task = |task: usize| {
        let (Ends(from, to), first, chunk) = (ends.get(), task / chunks * DEPTH, task % chunks * wide);
        let columns = WIDTH.min(columns - chunk * COLUMNS);
        let from = from.wrapping_add(first * down + chunk * COLUMNS * along);
        let grid = Grid { from, sizes: (DEPTH.min(depth - first), columns), steps: (down, along) };
        // SAFETY: passed on to the caller; tasks write different panels.
        unsafe { lay(grid, to.wrapping_add((first / DEPTH * panels + chunk) * panel), panel) };
    };
    let tasks = depth.div_ceil(DEPTH) * chunks;
    match parallel {
        true => (0..tasks).into_par_iter().for_each(task),
        false => (0..tasks).for_each(task),
    }
}

/// Where an operand comes from and goes to, which tasks share.
#[derive(Clone, Copy)]
struct Ends(*const f32, *mut f32);
// SAFETY: tasks write different panels, and the operand is only read.
unsafe impl Sync for Ends {}

impl Ends {
    fn get(&self) -> Self {
        *self
    }
}

/// Runs a product, on more than one thread in the current thread pool.
///
/// # Safety
///
/// All elements of the operands may be read, those of the result written; they are distinct and no operand's. The machine has
/// the instruction set.
pub(crate) unsafe fn run(of: &Blocked, isa: Isa, threads: usize) {
    if of.rows == 0 || of.columns == 0 {
        return;
    }
    let worth = 2 * of.rows * of.columns * of.depth / TASK;
    let (mut rows, mut width) = (of.rows, of.columns.next_multiple_of(COLUMNS));
    if threads > 1 {
        let tasks = |rows: usize, width: usize| of.rows.div_ceil(rows) * of.columns.div_ceil(width);
        while tasks(rows, width) < (4 * threads).min(worth) && rows.max(width) > 2 * COLUMNS {
            match rows > width {
                true => rows = rows.div_ceil(2).next_multiple_of(tile::ROWS),
                false => width = width.div_ceil(2).next_multiple_of(COLUMNS),
            }
        }
    }
    let (down, along) = (of.rows.div_ceil(rows), of.columns.div_ceil(width));
    let kernel = kernels(isa).part;
    let task = |task: usize| {
        let (row, column) = (task / along * rows, task % along * width);
        let part = Part { row, rows: rows.min(of.rows - row), column, columns: width.min(of.columns - column) };
        with_memory(part.memory(of).iter().sum(), |memory| {
            // SAFETY: passed on to the caller; tasks have different parts.
            unsafe { kernel(of, &part, memory) };
        });
    };
    match down * along {
        1 => task(0),
        tasks => (0..tasks).into_par_iter().for_each(task),
    }
}

/// A part of the result, from a row and from a column that begins a panel on.
struct Part {
    row: usize,
    rows: usize,
    column: usize,
    columns: usize,
}

impl Part {
    /// Panels of a block of columns.
    fn panels(&self) -> usize {
        WIDTH.min(self.columns).div_ceil(COLUMNS)
    }

    fn in_place(&self) -> bool {
        self.panels() <= IN_PLACE
    }

    /// Numbers of a block of `b` and of one of `a`.
    fn memory(&self, of: &Blocked) -> [usize; 2] {
        let b = if let Right::Matrix { .. } = of.b { self.panels() * panel(of.depth) } else { 0 };
        let depth = DEPTH.min(of.depth);
        [b, if self.in_place() { 0 } else { (ROWS + GAP) * (depth.next_multiple_of(8) + GAP) }]
    }
}

/// Functions for an instruction set.
struct Kernels {
    /// Computes a part of a product with memory for its blocks.
    part: unsafe fn(&Blocked, &Part, &mut [f32]),
    /// Lays elements in panels so far apart.
    lay: unsafe fn(Grid<f32>, *mut f32, usize),
}

fn kernels(isa: Isa) -> Kernels {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => Kernels { part: avx2::part, lay: avx2::lay },
        _ => Kernels { part: portable::part, lay: portable::lay },
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Blocked, Grid, Isa, Part, tile, widen};
    use std::arch::x86_64::__m256;

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn part(of: &Blocked, part: &Part, memory: &mut [f32]) {
        // SAFETY: passed on to the caller.
        unsafe { super::part::<__m256>(of, part, memory, tile::kernel(Isa::Avx2)) }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn lay(grid: Grid<f32>, to: *mut f32, panel: usize) {
        // SAFETY: passed on to the caller.
        unsafe { widen::panels::<__m256, f32>(grid, to, panel) }
    }
}

mod portable {
    use super::{Blocked, Grid, Isa, Part, tile, widen};

    pub(super) unsafe fn part(of: &Blocked, part: &Part, memory: &mut [f32]) {
        // SAFETY: passed on to the caller.
        unsafe { super::part::<[f32; 8]>(of, part, memory, tile::kernel(Isa::Portable)) }
    }

    pub(super) unsafe fn lay(grid: Grid<f32>, to: *mut f32, panel: usize) {
        // SAFETY: passed on to the caller.
        unsafe { widen::panels::<[f32; 8], f32>(grid, to, panel) }
    }
}

#[inline(always)]
unsafe fn part<V: Eight>(of: &Blocked, part: &Part, memory: &mut [f32], product: tile::Kernel) {
    let [of_b, of_a] = pieces(memory, part.memory(of));
    let (panel, y) = (panel(of.depth), of.y.wrapping_add(part.row * of.y_row + part.column));
    for left in (0..part.columns).step_by(WIDTH) {
        let columns = WIDTH.min(part.columns - left);
        for first in (0..of.depth).step_by(DEPTH) {
            let depth = DEPTH.min(of.depth - first);
            let b = match of.b {
                Right::Matrix { from, depth: down, column: along } => {
                    let from = from.wrapping_add(first * down + (part.column + left) * along);
                    let grid = Grid { from, sizes: (depth, columns), steps: (down, along) };
                    // SAFETY: the operand has these elements, by the caller, and there is room for a block.
                    unsafe { widen::panels::<V, f32>(grid, of_b.as_mut_ptr(), panel) };
                    of_b.as_ptr()
                }
                Right::Laid(from) => {
                    let panels = of.columns.div_ceil(COLUMNS);
                    from.wrapping_add((first / DEPTH * panels + (part.column + left) / COLUMNS) * panel)
                }
            };
            for top in (0..part.rows).step_by(ROWS) {
                let rows = ROWS.min(part.rows - top);
                let from = of.a.wrapping_add((part.row + top) * of.a_row + first * of.a_depth);
                let (a, a_row, a_depth) = match part.in_place() {
                    true => (from, of.a_row, of.a_depth),
                    // SAFETY: as above.
                    false => unsafe { copied::<V>(from, (rows, depth), (of.a_row, of.a_depth), of_a) },
                };
                for (number, column) in (0..columns).step_by(COLUMNS).enumerate() {
                    let all = tile::Product {
                        rows,
                        depth: [1, depth],
                        a,
                        a_row,
                        a_depth: [0, a_depth],
                        b: b.wrapping_add(number * panel),
                        b_row: COLUMNS,
                        c: y.wrapping_add(top * of.y_row + left + column),
                        c_row: of.y_row,
                        columns: COLUMNS.min(columns - column),
                        put: if first == 0 { Put::Set } else { Put::Add },
                    };
                    // SAFETY: there are these rows of `a` and this panel of `b`; the rest is passed on to the caller.
                    unsafe { product(&all) };
                }
            }
        }
    }
}

/// A block of the left operand, copied the way it lies: where it is, and its steps.
#[inline(always)]
unsafe fn copied<V: Eight>(
    from: *const f32,
    (rows, depth): (usize, usize),
    (row, down): (usize, usize),
    to: &mut [f32],
) -> (*const f32, usize, usize) {
    let beside = row == 1 && down != 1;
    let line = if beside { rows } else { depth }.next_multiple_of(8) + GAP;
    let grid = match beside {
        true => Grid { from, sizes: (depth, rows), steps: (down, row) },
        false => Grid { from, sizes: (rows, depth), steps: (row, down) },
    };
    debug_assert!(grid.sizes.0 * line <= to.len());
    // SAFETY: passed on to the caller; there is room for so many lines.
    unsafe { widen::lines::<V, f32>(grid, to.as_mut_ptr(), line) };
    let (a_row, a_depth) = if beside { (1, line) } else { (line, 1) };
    (to.as_ptr(), a_row, a_depth)
}

#[cfg(test)]
mod tests;
