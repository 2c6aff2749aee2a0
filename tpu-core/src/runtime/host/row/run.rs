//! The tile interpreter.

use super::assemble;
use super::functions;
use super::loops::{Call, FoldKernels};
use super::program::{Action, COLUMN_BLOCK, Cut, FRAME, Gather, Instr, Place, RowProgram, SCRATCH, TILE};
use crate::runtime::host::pool::Aligned;
use rayon::prelude::*;
use smallvec::SmallVec;
use std::cell::RefCell;

/// Addresses of the memory that places refer to, by number.
///
/// # Safety invariants
///
/// 1. Each address but that of the frame is good for every access that the program's places describe, and stays so
///    during the run.
/// 2. Places that the program writes overlap no other place, except where a result takes the memory of an operand that is read
///    at the same elements before (see `lower`).
/// 3. Different rows, and in `Cut::Columns` and `Cut::Phases` different tiles, write different elements.
#[derive(Clone, Copy)]
pub(crate) struct Bases<'a> {
    pub all: &'a [*mut u8],
    pub scratch: *mut u8,
}
// SAFETY: tasks write disjoint elements, by invariant 3.
unsafe impl Sync for Bases<'_> {}
// SAFETY: as above.
unsafe impl Send for Bases<'_> {}

impl Bases<'_> {
    #[inline(always)]
    fn at(&self, frame: *mut u8, place: &Place, row: usize, col: usize) -> *mut u8 {
        let base = match place.base {
            FRAME => frame,
            SCRATCH => self.scratch,
            base => self.all[base as usize],
        };
        base.wrapping_add(place.offset + row * place.row_step + col * place.col_step)
    }
}

thread_local! {
    static FRAMES: RefCell<Aligned> = const { RefCell::new(Aligned::new()) };
}

/// Lends this thread's frame. Work that the thread takes over meanwhile gets a fresh one.
fn with_frame(bytes: usize, f: impl FnOnce(*mut u8)) {
    let mut frame = FRAMES.take();
    f(frame.reserve(bytes));
    FRAMES.set(frame);
}

/// A rectangle of elements.
#[derive(Clone, Copy)]
struct Tile {
    row: usize,
    rows: usize,
    col: usize,
    cols: usize,
}

/// Runs a program. With `parallel`, in the current thread pool.
///
/// # Safety
///
/// The invariants of [`Bases`].
pub(crate) unsafe fn run(program: &RowProgram, bases: Bases<'_>, parallel: bool) {
    match program.cut {
        Cut::Phases => run_phases(program, bases, parallel),
        _ => {
            split(units(program), parallel, |begin, end| part(program, bases, begin, end));
            finish(program, bases);
        }
    }
}

/// Runs programs none of which writes what another one reads or writes, as one piece of work for the current thread pool: many
/// small ones cost no more than a large one.
///
/// # Safety
///
/// The invariants of [`Bases`], each for its program; none is cut by phases.
pub(crate) unsafe fn run_together(programs: &[(&RowProgram, Bases<'_>)]) {
    let units: SmallVec<[usize; 64]> = programs.iter().map(|(program, _)| units(program)).collect();
    let mut starts: SmallVec<[f64; 64]> = SmallVec::with_capacity(programs.len() + 1);
    starts.push(0.0);
    for (program, _) in programs {
        starts.push(starts[starts.len() - 1] + program.nanoseconds);
    }
    let total = starts[programs.len()];
    let parts = rayon::current_num_threads() * 4;
    // Equal parts by estimated time; the same boundary is the end of one part and the start of the next.
    let boundary = |part: usize| if part == parts { f64::INFINITY } else { total * part as f64 / parts as f64 };
    let unit_at = |index: usize, time: f64| {
        let (start, end) = (starts[index], starts[index + 1]);
        match time {
            time if time >= end => units[index],
            time if time <= start => 0,
            time => ((time - start) / (end - start) * units[index] as f64) as usize,
        }
    };
    (0..parts).into_par_iter().for_each(|at| {
        let (from, to) = (boundary(at), boundary(at + 1));
        for (index, (program, bases)) in programs.iter().enumerate() {
            let begin = if at == 0 { 0 } else { unit_at(index, from) };
            let end = unit_at(index, to);
            part(program, *bases, begin, end);
        }
    });
    programs.iter().for_each(|(program, bases)| finish(program, *bases));
}

/// Pieces that the work of a program can be cut into, unless it is cut by phases.
fn units(program: &RowProgram) -> usize {
    if program.rows == 0 || program.cols == 0 {
        return 0;
    }
    match program.cut {
        Cut::Columns => program.cols.div_ceil(TILE),
        _ => program.fold_rows.div_ceil(unit_rows(program)) * (program.rows / program.fold_rows),
    }
}

/// Rows of a unit: it is never cut inside a block of a column fold.
fn unit_rows(program: &RowProgram) -> usize {
    if program.columns.is_empty() { program.tile_rows } else { COLUMN_BLOCK }
}

/// Runs units `begin..end`.
fn part(program: &RowProgram, bases: Bases<'_>, begin: usize, end: usize) {
    if begin == end {
        return;
    }
    with_frame(program.frame_bytes, |frame| match program.cut {
        Cut::Columns => columns(program, bases, frame, begin, end),
        _ => rows(program, bases, frame, begin, end),
    });
}

/// What is left when all units have run.
fn finish(program: &RowProgram, bases: Bases<'_>) {
    for fold in program.columns.iter().filter(|_| program.rows > 0 && program.cols > 0) {
        finish_columns(program, bases, fold.partial, fold.bytes, &fold.kernels, &fold.dst);
    }
}

/// Splits `0..units` among the threads in runs of equal length.
fn split(units: usize, parallel: bool, f: impl Fn(usize, usize) + Sync) {
    let threads = if parallel { rayon::current_num_threads() } else { 1 };
    if threads == 1 || units <= 1 {
        return f(0, units);
    }
    let parts = (threads * 4).min(units);
    (0..parts).into_par_iter().for_each(|i| f(units * i / parts, units * (i + 1) / parts));
}

fn rows(program: &RowProgram, bases: Bases<'_>, frame: *mut u8, begin: usize, end: usize) {
    let unit = unit_rows(program);
    let per_fold = program.fold_rows.div_ceil(unit);
    for at in begin..end {
        let (fold, index) = (at / per_fold, at % per_fold);
        let first = fold * program.fold_rows;
        let (begin, end) = (index * unit, ((index + 1) * unit).min(program.fold_rows));
        block_of_rows(program, bases, frame, first + begin, first + end, 0, program.cols);
    }
}

fn columns(program: &RowProgram, bases: Bases<'_>, frame: *mut u8, begin: usize, end: usize) {
    let (begin, end) = (begin * TILE, (end * TILE).min(program.cols));
    let unit = if program.columns.is_empty() { program.rows } else { COLUMN_BLOCK };
    for first in (0..program.rows).step_by(program.fold_rows) {
        for row in (first..first + program.fold_rows).step_by(unit) {
            let limit = (row + unit).min(first + program.fold_rows);
            block_of_rows(program, bases, frame, row, limit, begin, end);
        }
    }
}

/// Where the results of the block of rows at `row` are in a column fold's partial area.
fn column_partial(program: &RowProgram, row: usize, bytes: usize) -> usize {
    let block = row / program.fold_rows * program.fold_blocks() + row % program.fold_rows / COLUMN_BLOCK;
    block * program.cols * bytes
}

/// All phases of rows `begin..end`, columns `left..right`; within one block of the column folds, if there are any.
fn block_of_rows(
    program: &RowProgram,
    bases: Bases<'_>,
    frame: *mut u8,
    begin: usize,
    end: usize,
    left: usize,
    right: usize,
) {
    for fold in &program.columns {
        let dst =
            bases.scratch.wrapping_add(fold.partial + column_partial(program, begin, fold.bytes) + left * fold.bytes);
        let call = one(dst, [std::ptr::null(); 3], right - left);
        // SAFETY: the partial area is of the scratch memory, invariant 1.
        unsafe { (fold.kernels.identity)(&call) };
    }
    let tile_cols = program.tile_cols();
    for row in (begin..end).step_by(program.tile_rows) {
        let rows = program.tile_rows.min(end - row);
        for (index, phase) in program.phases.iter().enumerate() {
            let head = Tile { row, rows: 1, col: 0, cols: rows };
            for instr in &phase.head {
                execute(instr, bases, frame, head, true);
            }
            for col in (left..right).step_by(tile_cols) {
                let tile = Tile { row, rows, col, cols: tile_cols.min(right - col) };
                for instr in &phase.body {
                    execute(instr, bases, frame, tile, false);
                }
                for fold in &phase.folds {
                    fold_tile(fold, bases, frame, tile);
                }
                for fold in program.columns.iter().filter(|fold| fold.phase == index) {
                    let dst = bases
                        .scratch
                        .wrapping_add(fold.partial + column_partial(program, row, fold.bytes) + col * fold.bytes);
                    let src = bases.at(frame, &fold.src, tile.row, tile.col);
                    let call = Call {
                        dst,
                        src: [src; 3],
                        dst_stride: 0,
                        src_stride: [fold.src.stride; 3],
                        rows: tile.rows,
                        cols: tile.cols,
                    };
                    // SAFETY: invariants 1 and 3; the partial area is of the scratch memory.
                    unsafe { (fold.kernels.column)(&call) };
                }
            }
            for fold in &phase.folds {
                finish_rows(program, fold, bases, frame, row, rows);
            }
        }
    }
}

fn run_phases(program: &RowProgram, bases: Bases<'_>, parallel: bool) {
    if program.rows == 0 || program.cols == 0 {
        return;
    }
    let tile_cols = program.tile_cols();
    let per_row = program.cols.div_ceil(tile_cols);
    for phase in &program.phases {
        with_frame(program.frame_bytes, |frame| {
            for instr in &phase.head {
                execute(instr, bases, frame, Tile { row: 0, rows: 1, col: 0, cols: program.rows }, true);
            }
        });
        if !phase.body.is_empty() || !phase.folds.is_empty() {
            split(program.rows * per_row, parallel, |begin, end| {
                with_frame(program.frame_bytes, |frame| {
                    for at in begin..end {
                        let (row, col) = (at / per_row, at % per_row * tile_cols);
                        let tile = Tile { row, rows: 1, col, cols: tile_cols.min(program.cols - col) };
                        for instr in &phase.body {
                            execute(instr, bases, frame, tile, false);
                        }
                        for fold in &phase.folds {
                            fold_tile(fold, bases, frame, tile);
                        }
                    }
                });
            });
        }
        for fold in &phase.folds {
            for row in 0..program.rows {
                finish_rows(program, fold, bases, std::ptr::null_mut(), row, 1);
            }
        }
    }
}

/// A call on one row of adjacent elements.
fn one(dst: *mut u8, src: [*const u8; 3], cols: usize) -> Call {
    Call { dst, src, dst_stride: 0, src_stride: [0; 3], rows: 1, cols }
}

#[inline(always)]
fn execute(instr: &Instr, bases: Bases<'_>, frame: *mut u8, tile: Tile, head: bool) {
    // Instructions of the head take rows where those of the body take columns.
    let (row, col) = if head { (tile.row, 0) } else { (tile.row, tile.col) };
    let dst = bases.at(frame, &instr.dst, row, col);
    match &instr.action {
        Action::Loop { kernel, src } => {
            let call = Call {
                dst,
                src: [
                    bases.at(frame, &src[0], row, col),
                    bases.at(frame, &src[1], row, col),
                    bases.at(frame, &src[2], row, col),
                ],
                dst_stride: instr.dst.stride,
                src_stride: [src[0].stride, src[1].stride, src[2].stride],
                rows: if instr.flat { 1 } else { tile.rows },
                cols: if instr.flat { tile.rows * tile.cols } else { tile.cols },
            };
            // SAFETY: invariants 1 to 3 of `Bases`; the kernel was chosen for an available instruction set.
            unsafe { kernel(&call) };
        }
        Action::Gather(gather) => {
            let base = match gather.iota {
                Some(_) => std::ptr::null_mut(),
                None => bases.all[gather.base as usize],
            };
            let tile = if head { Tile { row: 0, rows: 1, col: tile.row, cols: tile.cols } } else { tile };
            run_gather(gather, base, dst, instr.dst.stride, tile);
        }
        Action::Assembly(assembly) => {
            // A value of one element per row has rows in place of columns.
            let (rows, cols) = if head { (1, 1) } else { (tile.rows, assembly.cols) };
            for i in 0..rows {
                let line = assemble::Line { first: (tile.row + i) * cols + tile.col, count: tile.cols };
                // SAFETY: the destination has `cols` elements in each row, and windows are good to read, by invariant 1.
                unsafe { assemble::run(assembly, bases.all, dst.wrapping_add(i * instr.dst.stride), line) };
            }
        }
    }
}

fn run_gather(gather: &Gather, base: *mut u8, dst: *mut u8, stride: usize, tile: Tile) {
    for i in 0..tile.rows {
        let mut start = gather.offset;
        let mut rest = tile.row + i;
        for &(size, step) in gather.rows.iter().rev() {
            start += rest % size * step;
            rest /= size;
        }
        let dst = dst.wrapping_add(i * stride);
        let (mut col, end) = (tile.col, tile.col + tile.cols);
        let (inner, step) = gather.cols.last().copied().unwrap_or((1, 0));
        while col < end {
            let mut from = start;
            let mut rest = col / inner;
            for &(size, step) in gather.cols.iter().rev().skip(1) {
                from += rest % size * step;
                rest /= size;
            }
            let first = col % inner;
            let n = (inner - first).min(end - col);
            from += first * step;
            let out = dst.wrapping_add((col - tile.col) * gather.bytes);
            match gather.iota {
                // SAFETY: the destination has `cols` elements in each row, invariant 1.
                Some(dtype) => unsafe { functions::count(dtype, from, step, out, n) },
                // SAFETY: invariant 1 for source and destination.
                None => unsafe { copy_strided(base.wrapping_add(from * gather.bytes), step, out, n, gather.bytes) },
            }
            col += n;
        }
    }
}

/// Copies `n` elements that lie `step` elements apart.
unsafe fn copy_strided(src: *const u8, step: usize, dst: *mut u8, n: usize, bytes: usize) {
    if step == 1 {
        // SAFETY: passed on to the caller: both sides have n adjacent elements and do not overlap.
        return unsafe { std::ptr::copy_nonoverlapping(src, dst, n * bytes) };
    }
    macro_rules! copy {
        ($t:ty) => {
            for i in 0..n {
                // SAFETY: passed on to the caller: n elements on both sides.
                unsafe {
                    let x = src.cast::<$t>().add(i * step).read_unaligned();
                    dst.cast::<$t>().add(i).write_unaligned(x);
                }
            }
        };
    }
    match bytes {
        1 => copy!(u8),
        2 => copy!(u16),
        4 => copy!(u32),
        _ => copy!(u64),
    }
}

/// Folds the part of each row in this tile to one element of the partial area.
fn fold_tile(fold: &super::program::RowFold, bases: Bases<'_>, frame: *mut u8, tile: Tile) {
    let call = Call {
        dst: bases.at(frame, &fold.partial, tile.row, tile.col / TILE),
        src: [bases.at(frame, &fold.src, tile.row, tile.col); 3],
        dst_stride: fold.partial.stride,
        src_stride: [fold.src.stride; 3],
        rows: tile.rows,
        cols: tile.cols,
    };
    // SAFETY: invariants 1 and 3 of `Bases`.
    unsafe { (fold.kernels.reduce)(&call) };
}

/// Folds what the tiles of each row gave, pairwise, into one element per row.
fn finish_rows(
    program: &RowProgram,
    fold: &super::program::RowFold,
    bases: Bases<'_>,
    frame: *mut u8,
    row: usize,
    rows: usize,
) {
    let tiles = program.cols.div_ceil(TILE);
    let partial = bases.at(frame, &fold.partial, row, 0);
    let dst = bases.at(frame, &fold.dst, row, 0);
    // SAFETY: the partial area has `tiles` elements for each row (more than one only for tiles of one row) and the
    // destination one, adjacent; they are different areas.
    unsafe {
        fold_pairwise(partial, tiles, fold.bytes, 1, fold.kernels.pair);
        std::ptr::copy_nonoverlapping(partial, dst, rows * fold.bytes);
    }
}

/// Folds `count` vectors of `cols` elements, one after the other in memory, into the first: neighbours first.
unsafe fn fold_pairwise(at: *mut u8, mut count: usize, bytes: usize, cols: usize, pair: super::loops::Kernel) {
    let size = cols * bytes;
    while count > 1 {
        for i in 0..count / 2 {
            let (a, b) = (at.wrapping_add(2 * i * size), at.wrapping_add((2 * i + 1) * size));
            // The destination is `a` itself or earlier vectors that are used up.
            let call = one(at.wrapping_add(i * size), [a, b, b], cols);
            // SAFETY: all within the `count` vectors.
            unsafe { pair(&call) };
        }
        if count % 2 == 1 {
            // SAFETY: the last vector moves to the end of the folded ones; different as count > 1.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    at.wrapping_add((count - 1) * size),
                    at.wrapping_add(count / 2 * size),
                    size,
                );
            }
        }
        count = count.div_ceil(2);
    }
}

/// Folds the blocks of a column fold and writes the result.
fn finish_columns(
    program: &RowProgram,
    bases: Bases<'_>,
    partial: usize,
    bytes: usize,
    kernels: &FoldKernels,
    dst: &Place,
) {
    let size = program.cols * bytes;
    for index in 0..program.rows / program.fold_rows {
        let at = bases.scratch.wrapping_add(partial + index * program.fold_blocks() * size);
        let dst = bases.at(std::ptr::null_mut(), dst, 0, 0).wrapping_add(index * size);
        // SAFETY: the partial area has `fold_blocks` vectors for each run of rows, the destination one.
        unsafe {
            fold_pairwise(at, program.fold_blocks(), bytes, program.cols, kernels.pair);
            std::ptr::copy_nonoverlapping(at, dst, size);
        }
    }
}
