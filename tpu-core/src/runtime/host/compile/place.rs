//! The second half of lowering: from values and phases to places, tiles and the finished program.

use super::lower::Lowering;
use super::lowered::{Local, Lowered, Memory, Spot, Step, What};
use super::pairs;
use super::size::Values;
use crate::ir::Value;
use crate::runtime::host::pool::ALIGN;
use crate::runtime::host::row::program::{
    Action, COLUMN_BLOCK, ColumnFold, Cut, FIRST_BUFFER, FRAME, Instr, Phase, Place, RowFold, RowProgram, SCRATCH, TILE,
};
use smallvec::SmallVec;
use std::collections::HashMap;

/// A position in a program: phase, then instruction; reductions come last in a phase.
type At = (usize, usize);
const END: usize = usize::MAX;

/// Lays out memory that is handed out and taken back by size.
#[derive(Default)]
struct Layout {
    bytes: usize,
    /// Bytes and offset of what was taken back.
    free: SmallVec<[(usize, usize); 8]>,
}

impl Layout {
    fn take(&mut self, bytes: usize) -> usize {
        let bytes = bytes.next_multiple_of(ALIGN);
        match self.free.iter().rposition(|&(free, _)| free == bytes) {
            Some(at) => self.free.swap_remove(at).1,
            None => self.fresh(bytes),
        }
    }

    /// Memory that nothing else ever has.
    fn fresh(&mut self, bytes: usize) -> usize {
        let at = self.bytes;
        self.bytes += bytes.next_multiple_of(ALIGN);
        at
    }

    fn give(&mut self, at: usize, bytes: usize) {
        self.free.push((bytes.next_multiple_of(ALIGN), at));
    }
}

/// What is left to do once a group's instructions are known, as far as it does not depend on sizes.
pub(super) fn finish(mut lowering: Lowering<'_>) -> Lowered {
    delay(&mut lowering);
    pairs::join(&mut lowering);
    let in_place = in_place(&lowering);
    let Lowering { rows, cols, fold_rows, locals, steps, folds, columns, buffers, outputs, cost, .. } = lowering;
    let last_phase = steps.iter().map(|s| s.phase).chain(folds.iter().map(|f| f.phase)).max().unwrap_or(0);
    Lowered {
        rows,
        cols,
        fold_rows,
        phases: last_phase + 1,
        locals,
        steps,
        folds,
        columns,
        buffers,
        outputs: outputs.into_iter().map(|(value, _)| value).collect(),
        nodes: Vec::new(),
        in_place,
        cost,
    }
}

impl Lowered {
    /// The program for one vector of sizes: every value has a place, every instruction its form.
    pub fn at(&self, values: &Values) -> RowProgram {
        let [rows, cols, fold_rows] = [self.rows, self.cols, self.fold_rows].map(|size| values.of(size));
        let (phases, folds, columns) = (self.phases, &self.folds, &self.columns);
        let cut = cut(rows, cols, fold_rows, !columns.is_empty(), phases > 1 || !folds.is_empty());
        let tile_rows = match cut {
            Cut::Rows => (TILE / cols.max(1)).clamp(1, rows.max(1)),
            _ => 1,
        };
        let shape = Shape { rows, cols, tile_rows, cut };
        let mut places: Vec<Option<Place>> =
            self.locals.iter().map(|local| local.spot.map(|spot| spot.at(values))).collect();
        let (mut frame, mut scratch) = shape.allocate(self, &mut places);
        let place_of = |local: usize| places[local].unwrap_or_default();

        let mut program_phases = vec![Phase::default(); phases];
        for step in &self.steps {
            let instr = shape.instruction(step, &self.locals, &places, values);
            let phase = &mut program_phases[step.phase];
            if step.full { phase.body.push(instr) } else { phase.head.push(instr) }
        }
        let tiles = cols.div_ceil(TILE);
        for fold in folds {
            let bytes = self.locals[fold.dst].size;
            let partial = if cut == Cut::Phases {
                let offset = scratch.fresh(rows * tiles * bytes);
                Place { base: SCRATCH, offset, row_step: tiles * bytes, col_step: bytes, stride: tiles * bytes }
            } else {
                let offset = frame.fresh(tile_rows * tiles * bytes);
                Place { base: FRAME, offset, row_step: 0, col_step: bytes, stride: bytes }
            };
            let (src, dst) = (place_of(fold.src), place_of(fold.dst));
            program_phases[fold.phase].folds.push(RowFold { kernels: fold.kernels, bytes, src, dst, partial });
        }
        let blocks = rows / fold_rows.max(1) * fold_rows.div_ceil(COLUMN_BLOCK);
        let columns = columns.iter().map(|column| {
            let bytes = self.locals[column.src].size;
            let partial = scratch.fresh(blocks * cols * bytes);
            let dst = Place { base: column.dst, ..Place::default() };
            ColumnFold { kernels: column.kernels, bytes, src: place_of(column.src), partial, dst, phase: column.phase }
        });
        RowProgram {
            rows,
            cols,
            tile_rows,
            cut,
            phases: program_phases,
            columns: columns.collect(),
            fold_rows,
            frame_bytes: frame.bytes,
            scratch_bytes: scratch.bytes,
            nanoseconds: rows as f64 * (self.cost.per_row + cols as f64 * self.cost.per_element),
        }
    }
}

/// Moves each full instruction to the phase of its first reader, so that fewer values are kept across phases.
fn delay(lowering: &mut Lowering<'_>) {
    let mut first = vec![END; lowering.locals.len()];
    for fold in &lowering.folds {
        first[fold.src] = first[fold.src].min(fold.phase);
    }
    for column in &lowering.columns {
        first[column.src] = first[column.src].min(column.phase);
    }
    for step in lowering.steps.iter_mut().rev() {
        if step.full && first[step.dst] != END {
            step.phase = step.phase.max(first[step.dst]);
            lowering.locals[step.dst].phase = step.phase;
        }
        for &x in &step.src {
            first[x] = first[x].min(step.phase);
        }
    }
}

/// How the work is cut. It changes no bit of the results.
fn cut(rows: usize, cols: usize, fold_rows: usize, has_columns: bool, has_phases: bool) -> Cut {
    let tile_rows = (TILE / cols.max(1)).max(1);
    let units = match has_columns {
        true => rows / fold_rows.max(1) * fold_rows.div_ceil(COLUMN_BLOCK),
        false => rows.div_ceil(tile_rows),
    };
    if units >= 16 || cols <= TILE {
        Cut::Rows
    } else if !has_phases {
        Cut::Columns
    } else if !has_columns && cols >= 8 * TILE {
        Cut::Phases
    } else {
        Cut::Rows
    }
}

/// Pairs of an output and an input of the same elements that is not read any more once the output is written.
fn in_place(lowering: &Lowering<'_>) -> Vec<(Value, Value)> {
    let dense = |spot: &Spot, size: usize| {
        let row = lowering.cols * size;
        let along = spot.col_step == size || lowering.cols == 1;
        spot.offset == 0 && along && (spot.row_step == row || lowering.rows == 1)
    };
    // Of each buffer: the last position at which it is read, `None` if some read is not dense.
    let mut reads: HashMap<u32, Option<(At, usize)>> = HashMap::new();
    let mut read = |local: &Local, at: At| {
        if let Some(spot) = local.spot {
            let safe = dense(&spot, local.size);
            let entry = reads.entry(spot.base).or_insert(Some((at, local.size)));
            *entry = match *entry {
                Some((last, size)) if safe && size == local.size => Some((last.max(at), size)),
                _ => None,
            };
        }
    };
    let mut writes = Vec::new();
    for (index, step) in lowering.steps.iter().enumerate() {
        let at = (step.phase, index);
        for &x in &step.src {
            read(&lowering.locals[x], at);
        }
        let local = &lowering.locals[step.dst];
        if let Some(spot) = local.spot.filter(|_| step.full || (lowering.cols == 1 && lowering.rows == 1)) {
            writes.push((spot.base, at, local.size));
        }
    }
    for fold in &lowering.folds {
        read(&lowering.locals[fold.src], (fold.phase, END));
    }
    for column in &lowering.columns {
        read(&lowering.locals[column.src], (column.phase, END));
    }
    // What a gather reads may be anywhere.
    for step in &lowering.steps {
        match &step.what {
            What::Gather(gather) if gather.iota.is_none() => _ = reads.insert(gather.base, None),
            What::Assembly(pieces) => pieces.bases().for_each(|base| _ = reads.insert(base, None)),
            What::Gather(_) | What::Loop(_) => {}
        }
    }
    let mut pairs = Vec::new();
    for &(base, at, size) in &writes {
        let Some(&(output, _)) = lowering.outputs.iter().find(|(_, known)| *known == base) else { continue };
        for (index, memory) in lowering.buffers.iter().enumerate() {
            let Memory::Value(input) = *memory else { continue };
            if let Some(Some((last, input_size))) = reads.get(&(FIRST_BUFFER + index as u32))
                && *last <= at
                && *input_size == size
                && input != output
            {
                pairs.push((output, input));
            }
        }
    }
    pairs
}

struct Shape {
    rows: usize,
    cols: usize,
    tile_rows: usize,
    cut: Cut,
}

impl Shape {
    /// Places for all values that have none: tiles in the frame, values that cross phases of long rows whole. Returns the
    /// frame and the scratch memory.
    fn allocate(&self, of: &Lowered, places: &mut [Option<Place>]) -> (Layout, Layout) {
        let (mut frame, mut scratch) = (Layout::default(), Layout::default());
        let (locals, steps) = (&of.locals, &of.steps);
        // Last use of each value.
        let mut last: Vec<At> = vec![(0, 0); locals.len()];
        for (index, step) in steps.iter().enumerate() {
            for &x in step.src.iter().chain([&step.dst]) {
                last[x] = last[x].max((step.phase, index));
            }
        }
        let folds = of.folds.iter().map(|f| (f.src, f.phase));
        for (src, phase) in folds.chain(of.columns.iter().map(|c| (c.src, c.phase))) {
            last[src] = last[src].max((phase, END));
        }
        for (local, place) in locals.iter().zip(&mut *places) {
            if !local.computed || local.full || place.is_some() {
                continue;
            }
            let size = local.size;
            *place = Some(match self.cut {
                Cut::Phases => {
                    let offset = scratch.fresh(self.rows * size);
                    Place { base: SCRATCH, offset, row_step: size, col_step: 0, stride: size }
                }
                _ => {
                    let offset = frame.fresh(self.tile_rows * size);
                    Place { base: FRAME, offset, row_step: 0, col_step: 0, stride: size }
                }
            });
        }
        let mut order: Vec<Vec<usize>> = vec![Vec::new(); of.phases];
        for (index, step) in steps.iter().enumerate().filter(|(_, step)| step.full) {
            order[step.phase].push(index);
        }
        let long = self.cols > TILE;
        let tile_bytes = |size: usize| self.tile_rows * self.cols.min(TILE) * size;
        // Tiles to give back after a position; whole rows to give back at the end of a phase, never used as tiles.
        let mut whole: Vec<(usize, usize, usize)> = Vec::new();
        let mut spare: Vec<(usize, usize)> = Vec::new();
        let mut live: Vec<(At, usize, usize)> = Vec::new();
        for (phase, indices) in order.iter().enumerate() {
            for &index in indices {
                live.retain(|&(until, offset, bytes)| {
                    let over = until < (phase, index);
                    if over {
                        frame.give(offset, bytes);
                    }
                    !over
                });
                let dst = steps[index].dst;
                if places[dst].is_some() {
                    continue;
                }
                let size = locals[dst].size;
                let crosses = last[dst].0 > phase;
                places[dst] = Some(if crosses && self.cut == Cut::Phases {
                    let offset = scratch.fresh(self.rows * self.cols * size);
                    let row_step = self.cols * size;
                    Place { base: SCRATCH, offset, row_step, col_step: size, stride: row_step }
                } else if crosses && long {
                    let bytes = self.cols * size;
                    let offset = match spare.iter().position(|&(_, spare)| spare == bytes) {
                        Some(at) => spare.swap_remove(at).0,
                        None => frame.fresh(bytes),
                    };
                    whole.push((last[dst].0, offset, bytes));
                    Place { base: FRAME, offset, row_step: 0, col_step: size, stride: bytes }
                } else {
                    let bytes = tile_bytes(size);
                    let offset = frame.take(bytes);
                    live.push((last[dst], offset, bytes));
                    Place { base: FRAME, offset, row_step: 0, col_step: 0, stride: self.cols.min(TILE) * size }
                });
            }
            whole.retain(|&(until, offset, bytes)| {
                if until <= phase {
                    spare.push((offset, bytes));
                }
                until > phase
            });
        }
        (frame, scratch)
    }

    /// The finished form of an instruction.
    fn instruction(&self, step: &Step, locals: &[Local], places: &[Option<Place>], values: &Values) -> Instr {
        let place_of = |local: usize| places[local].unwrap_or_default();
        let dense = |x: usize| {
            let (local, place) = (&locals[x], place_of(x));
            if local.full { place.stride == self.cols * local.size } else { place.stride == 0 }
        };
        let action = match &step.what {
            What::Loop(kernel) => {
                let place = |i: usize| place_of(step.src.get(i).copied().unwrap_or(step.src[0]));
                Action::Loop { kernel: *kernel, src: [place(0), place(1), place(2)] }
            }
            What::Gather(strided) => Action::Gather(Box::new(strided.at(values))),
            What::Assembly(pieces) => Action::Assembly(Box::new(pieces.at(values))),
        };
        let loops = matches!(step.what, What::Loop(_));
        let flat = step.full && loops && self.cols <= TILE && dense(step.dst) && step.src.iter().all(|&x| dense(x));
        Instr { action, dst: place_of(step.dst), flat }
    }
}
