//! The gradients of queries, keys and values.
//!
//! Every sum over keys goes through the blocks of keys in order, every sum over queries through the blocks of queries, head after
//! head of those that share keys. So it makes no difference to the bits whether one task has all pairs of blocks of a head, or
//! tasks have the pairs of one block of queries, and others again those of one block of keys. The second way computes weights
//! twice, and is for machines with more threads than heads.

use super::rows::{padded, side_by_side};
use super::weights::Slopes;
use super::{Axes, Dense, KEYS, LANES, Lanes, Matrices, QUERIES, Run, each};
use crate::runtime::host::thread_memory::{pieces, with_memory};
use crate::runtime::host::tile::{COLUMNS, Product, Put};
use std::ops::Range;

/// What a task of the derivative works on and writes.
struct Task<'a> {
    run: &'a Run<'a>,
    gradient: &'a Matrices,
    /// Logarithms of sums, and what gradients of weights have in common.
    rows: [Dense; 2],
    results: [Dense; 3],
    /// Whether it writes the gradients of queries, and those of keys and values.
    writes: [bool; 2],
}

/// # Safety
///
/// As for [`super::run`].
pub(super) unsafe fn run(run: &Run<'_>, gradient: &Matrices, rows: [Dense; 2], results: [Dense; 3], threads: usize) {
    let of = run.of;
    let heads: usize = of.lead.iter().product();
    let shared = heads / of.group;
    let (query_blocks, key_blocks) = (of.queries.div_ceil(QUERIES), of.keys.div_ceil(KEYS));
    let task = |writes| Task { run, gradient, rows, results, writes };
    let whole = task([true, true]);
    if shared >= threads {
        each(shared, threads, |head| {
            // SAFETY: passed on to the caller; tasks write the gradients of different heads.
            unsafe { whole.pairs(head, 0..of.group * query_blocks, 0..key_blocks) };
        });
        return;
    }
    let (of_queries, of_keys) = (task([true, false]), task([false, true]));
    each(heads * query_blocks, threads, |at| {
        let (head, block) = (at / (of.group * query_blocks), at % (of.group * query_blocks));
        // SAFETY: as above, of different queries.
        unsafe { of_queries.pairs(head, block..block + 1, 0..key_blocks) };
    });
    each(shared * key_blocks, threads, |at| {
        let (head, block) = (at / key_blocks, at % key_blocks);
        // SAFETY: as above, of different keys.
        unsafe { of_keys.pairs(head, 0..of.group * query_blocks, block..block + 1) };
    });
}

/// A block of queries as the products want it.
struct Queries<'a> {
    /// Of the first one in its head, and their number.
    first: usize,
    count: usize,
    /// As panels of columns, and with sixteen rows side by side: queries, gradients of the result.
    natural: [&'a mut [f32]; 2],
    turned: [&'a mut [f32]; 2],
    rows: [[Lanes; QUERIES / LANES]; 2],
}

impl Task<'_> {
    /// All pairs of these blocks of queries, counted through the heads that share keys and values, and blocks of keys.
    unsafe fn pairs(&self, shared: usize, query_blocks: Range<usize>, key_blocks: Range<usize>) {
        let of = self.run.of;
        let widths = [of.width, of.out];
        let columns = widths.map(padded);
        let rows = QUERIES.min(of.queries).next_multiple_of(LANES);
        let keys = KEYS.min(of.keys);
        let sizes = [
            rows * columns[0],
            rows * columns[1],
            rows * columns[0],
            rows * columns[1],
            rows * keys,
            rows * keys,
            keys * columns[0],
            keys * columns[1],
        ];
        if self.writes[1] {
            let rows = (key_blocks.start * KEYS).min(of.keys)..(key_blocks.end * KEYS).min(of.keys);
            for (result, width) in self.results[1..].iter().zip(widths) {
                let start = (shared * of.keys + rows.start) * width;
                // SAFETY: these rows of the result are this task's.
                unsafe { self.run.dense::<f32>(*result).add(start).write_bytes(0, rows.len() * width) };
            }
        }
        with_memory(sizes.iter().sum(), |memory| {
            let [query, gradient, turned_query, turned_gradient, scores, slopes, key, value] = pieces(memory, sizes);
            let mut block = Queries {
                first: 0,
                count: 0,
                natural: [query, gradient],
                turned: [turned_query, turned_gradient],
                rows: [[[0.0; LANES]; QUERIES / LANES]; 2],
            };
            let blocks_of_head = of.queries.div_ceil(QUERIES);
            for at in query_blocks {
                let head = shared * of.group + at / blocks_of_head;
                let point = of.point(head);
                let shared_point = of.shared(&point);
                // SAFETY: the operands have these rows.
                unsafe { self.load(head, &point, at % blocks_of_head * QUERIES, &mut block) };
                if self.writes[0] {
                    let start = (head * of.queries + block.first) * of.width;
                    // SAFETY: these rows of the result are this task's.
                    unsafe { self.run.dense::<f32>(self.results[0]).add(start).write_bytes(0, block.count * of.width) };
                }
                let visible = of.visible(block.first + block.count);
                for first in key_blocks.clone().map(|block| block * KEYS).take_while(|&first| first < visible) {
                    let count = KEYS.min(visible - first);
                    // SAFETY: the operands have these rows.
                    unsafe {
                        of.key.panels(self.run, &shared_point, (first, count, of.width), count, key);
                        of.value.panels(self.run, &shared_point, (first, count, of.out), count, value);
                        self.pair((head, shared, &point), &block, (first, count, [key, value]), scores, slopes);
                    }
                }
            }
        });
    }

    /// Reads a block of queries.
    unsafe fn load(&self, head: usize, point: &Axes, first: usize, block: &mut Queries<'_>) {
        let of = self.run.of;
        let count = QUERIES.min(of.queries - first);
        (block.first, block.count) = (first, count);
        for (at, (matrix, width)) in [(&of.query, of.width), (self.gradient, of.out)].into_iter().enumerate() {
            let size = count.next_multiple_of(LANES);
            let natural = &mut block.natural[at][..size * padded(width)];
            // SAFETY: passed on to the caller.
            unsafe { matrix.panels(self.run, point, (first, count, width), size, natural) };
            side_by_side(natural, size, block.turned[at]);
            let rows = self.run.dense::<f32>(self.rows[at]).wrapping_add(head * of.queries + first);
            // A lane without a query, or of one that sees no key, has no weights: e to the −∞.
            let none = if at == 0 { f32::INFINITY } else { 0.0 };
            for (lane, x) in block.rows[at].as_flattened_mut().iter_mut().enumerate() {
                // SAFETY: there is one for each query.
                *x = if lane < count { unsafe { *rows.add(lane) } } else { none };
                if at == 0 && *x == f32::NEG_INFINITY {
                    *x = none;
                }
            }
        }
    }

    /// Adds what a block of queries and a block of keys give each other.
    unsafe fn pair(
        &self,
        (head, shared, point): (usize, usize, &Axes),
        block: &Queries<'_>,
        (key, keys, panels_of_keys): (usize, usize, [&[f32]; 2]),
        scores: &mut [f32],
        slopes: &mut [f32],
    ) {
        let (run, of) = (self.run, self.run.of);
        let panels = block.count.div_ceil(LANES);
        let size = keys * LANES;
        for panel in 0..panels {
            let (first, lanes) = (block.first + panel * LANES, LANES.min(block.count - panel * LANES));
            let visible = of.visible_from(key, keys, first + lanes);
            let (scores, hidden) = scores[panel * size..][..size].split_at_mut(visible * LANES);
            hidden.fill(0.0);
            let (slopes, hidden) = slopes[panel * size..][..size].split_at_mut(visible * LANES);
            hidden.fill(0.0);
            for (at, (width, c)) in [(of.width, &mut *scores), (of.out, &mut *slopes)].into_iter().enumerate() {
                let product = Product {
                    rows: visible,
                    depth: [padded(width) / COLUMNS, COLUMNS],
                    a: panels_of_keys[at].as_ptr(),
                    a_row: COLUMNS,
                    a_depth: [keys * COLUMNS, 1],
                    b: block.turned[at][panel * padded(width) * LANES..].as_ptr(),
                    b_row: LANES,
                    c: c.as_mut_ptr(),
                    c_row: LANES,
                    columns: COLUMNS,
                    put: Put::Set,
                };
                // SAFETY: the rows are there, and the panels were cut to these sizes; the instruction set is the machine's.
                unsafe { (run.product)(&product) };
            }
            let (scores, slopes) = (scores.as_chunks_mut::<LANES>().0, slopes.as_chunks_mut::<LANES>().0);
            let mut scale = of.scale;
            if let Some(mask) = &of.mask {
                // SAFETY: the mask is stretched to all queries and keys.
                unsafe { mask.mask(run, point, (first, lanes), key, scores) };
                scale = 1.0;
            }
            let seen = of.seen(first, key, keys);
            let (log_sum, common) = (&block.rows[0][panel], &block.rows[1][panel]);
            // SAFETY: the instruction set is the machine's.
            unsafe {
                (run.loops.slopes)(scores, slopes, &Slopes { scale, factor: of.scale, seen: &seen, log_sum, common });
            }
            if self.writes[0] {
                let start = (head * of.queries + first) * of.width;
                let to = run.dense::<f32>(self.results[0]).wrapping_add(start);
                let weights = (slopes.as_ptr().cast::<f32>(), 1, [0, LANES]);
                // SAFETY: the rows are there, and those of the result are this task's.
                unsafe { self.add((lanes, of.width), [1, visible], weights, (panels_of_keys[0], keys), to) };
            }
        }
        if self.writes[1] {
            for (at, (width, weights)) in [(of.width, &*slopes), (of.out, &*scores)].into_iter().enumerate() {
                // Few keys at a time on the diagonal, where the first queries see none of the last keys.
                let diagonal = of.causal && key + keys > block.first + 1;
                let step = if diagonal { 2 * LANES } else { keys };
                for at_once in (0..keys).step_by(step) {
                    let blind = (0..panels)
                        .take_while(|panel| of.visible(block.first + (panel + 1) * LANES) <= key + at_once && diagonal);
                    let blind = blind.count();
                    let start = (shared * of.keys + key + at_once) * width;
                    let to = run.dense::<f32>(self.results[1 + at]).wrapping_add(start);
                    let weights = weights[blind * size + at_once * LANES..].as_ptr();
                    let natural = &block.natural[at][blind * LANES * COLUMNS..];
                    let (rows, depth) = (step.min(keys - at_once), [panels - blind, LANES]);
                    // SAFETY: as above.
                    unsafe {
                        self.add((rows, width), depth, (weights, LANES, [size, 1]), (natural, panels * LANES), to)
                    };
                }
            }
        }
    }

    /// Adds a product with panels to dense rows of a result.
    unsafe fn add(
        &self,
        (rows, width): (usize, usize),
        depth: [usize; 2],
        (a, a_row, a_depth): (*const f32, usize, [usize; 2]),
        (panels, size): (&[f32], usize),
        to: *mut f32,
    ) {
        for (panel, column) in (0..width).step_by(COLUMNS).enumerate() {
            let product = Product {
                rows,
                depth,
                a,
                a_row,
                a_depth,
                b: panels[panel * size * COLUMNS..].as_ptr(),
                b_row: COLUMNS,
                c: to.wrapping_add(column),
                c_row: width,
                columns: COLUMNS.min(width - column),
                put: Put::Add,
            };
            // SAFETY: passed on to the caller.
            unsafe { (self.run.product)(&product) };
        }
    }
}
