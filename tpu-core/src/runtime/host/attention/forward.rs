//! The result, block of queries by block of queries.

use super::rows::{padded, side_by_side};
use super::{Dense, KEYS, LANES, Lanes, QUERIES, Run, each};
use crate::DType;
use crate::runtime::host::thread_memory::{pieces, with_memory};
use crate::runtime::host::tile::{COLUMNS, Product, Put};
use half::{bf16, f16};

/// # Safety
///
/// As for [`super::run`].
pub(super) unsafe fn run(run: &Run<'_>, out: Dense, log_sum: Dense, threads: usize) {
    let of = run.of;
    let blocks = of.queries.div_ceil(QUERIES);
    let heads: usize = of.lead.iter().product();
    each(heads * blocks, threads, |task| {
        // SAFETY: passed on to the caller; tasks write the results of different queries.
        unsafe { block(run, task / blocks, task % blocks * QUERIES, out, log_sum) };
    });
}

/// The queries of one block.
unsafe fn block(run: &Run<'_>, head: usize, query: usize, out: Dense, log_sum: Dense) {
    let of = run.of;
    let columns = [padded(of.width), padded(of.out)];
    let queries = QUERIES.min(of.queries - query);
    let panels = queries.div_ceil(LANES);
    let rows = panels * LANES;
    let keys = KEYS.min(of.keys);
    let point = of.point(head);
    let shared = of.shared(&point);
    let sizes =
        [rows * columns[0], rows * columns[0], rows * columns[1], rows * keys, keys * of.width, keys * columns[1]];
    with_memory(sizes.iter().sum(), |memory| {
        let [natural, turned, sums, scores, key_memory, values] = pieces(memory, sizes);
        // SAFETY: the operand has these rows.
        unsafe { of.query.panels(run, &point, (query, queries, of.width), rows, natural) };
        side_by_side(natural, rows, turned);
        sums.fill(0.0);
        let mut most = [[f32::NEG_INFINITY; LANES]; QUERIES / LANES];
        let mut total = [[0f32; LANES]; QUERIES / LANES];
        let visible = of.visible(query + queries);
        for key in (0..visible).step_by(KEYS) {
            let count = KEYS.min(visible - key);
            // SAFETY: the operands have these rows.
            let key_rows = unsafe {
                of.value.panels(run, &shared, (key, count, of.out), count, values);
                of.key.rows(run, &shared, (key, count, of.width), key_memory)
            };
            let mut rescaled = most;
            for panel in 0..panels {
                let lanes = LANES.min(queries - panel * LANES);
                let first = query + panel * LANES;
                let visible = of.visible_from(key, count, first + lanes);
                let scores = &mut scores[panel * count * LANES..][..visible * LANES];
                let product = Product {
                    rows: visible,
                    depth: [1, of.width],
                    a: key_rows.start,
                    a_row: key_rows.step,
                    a_depth: [0, 1],
                    b: turned[panel * columns[0] * LANES..].as_ptr(),
                    b_row: LANES,
                    c: scores.as_mut_ptr(),
                    c_row: LANES,
                    columns: COLUMNS,
                    put: Put::Set,
                };
                // SAFETY: the rows are there, and the pieces were cut to these sizes; the instruction set is the machine's.
                unsafe { (run.product)(&product) };
                let scores = scores.as_chunks_mut::<LANES>().0;
                let mut scale = of.scale;
                if let Some(mask) = &of.mask {
                    // SAFETY: the mask is stretched to all queries and keys.
                    unsafe { mask.mask(run, &point, (first, lanes), key, scores) };
                    scale = 1.0;
                }
                let (most, total, rescaled) = (&mut most[panel], &mut total[panel], &mut rescaled[panel]);
                let mut sum = [0.0; LANES];
                // SAFETY: the instruction set is the machine's.
                unsafe {
                    (run.loops.scores)(scores, scale, &of.seen(first, key, count), most);
                    (run.loops.exponentials)(scores, &shift(most, of.mask.is_some()), &mut sum, rescaled);
                }
                *total = std::array::from_fn(|lane| total[lane] * rescaled[lane] + sum[lane]);
            }
            for column in (0..columns[1]).step_by(COLUMNS) {
                for panel in 0..panels {
                    let lanes = LANES.min(queries - panel * LANES);
                    let product = Product {
                        rows: lanes,
                        depth: [1, of.visible_from(key, count, query + panel * LANES + lanes)],
                        a: scores[panel * count * LANES..].as_ptr(),
                        a_row: 1,
                        a_depth: [0, LANES],
                        b: values[column * count..].as_ptr(),
                        b_row: COLUMNS,
                        c: sums[panel * LANES * columns[1] + column..].as_mut_ptr(),
                        c_row: columns[1],
                        columns: COLUMNS,
                        put: Put::Rescale(rescaled[panel].as_ptr()),
                    };
                    // SAFETY: as above.
                    unsafe { (run.product)(&product) };
                }
            }
        }
        let mut logs = total;
        for (logs, most) in logs.iter_mut().zip(&most) {
            // SAFETY: the instruction set is the machine's.
            unsafe { (run.loops.logarithms)(logs, &shift(most, of.mask.is_some())) };
        }
        for row in 0..queries {
            let (panel, lane) = (row / LANES, row % LANES);
            let place = head * of.queries + query + row;
            let sums = &mut sums[row * columns[1]..][..of.out];
            // Where a mask hides all keys, zeros. Without one, what the division gives.
            let total = total[panel][lane];
            let divisor = if of.mask.is_some() && total == 0.0 { 1.0 } else { total };
            sums.iter_mut().for_each(|x| *x /= divisor);
            // SAFETY: the results have these rows, which are this task's.
            unsafe {
                run.dense::<f32>(log_sum).add(place).write(logs[panel][lane]);
                store(of.query.dtype, sums, run.dense(out), place * of.out);
            }
        }
    });
}

/// What is subtracted from scores before their exponentials: the largest, unless a mask hid them all.
fn shift(most: &Lanes, masked: bool) -> Lanes {
    most.map(|most| if masked && most == f32::NEG_INFINITY { 0.0 } else { most })
}

/// Writes numbers rounded to `dtype` from an element on.
unsafe fn store(dtype: DType, numbers: &[f32], to: *mut u8, first: usize) {
    macro_rules! store {
        ($t:ty, $round:expr) => {
            for (at, &x) in numbers.iter().enumerate() {
                // SAFETY: passed on to the caller.
                unsafe { to.cast::<$t>().add(first + at).write($round(x)) };
            }
        };
    }
    match dtype {
        DType::BF16 => store!(bf16, bf16::from_f32),
        DType::F16 => store!(f16, f16::from_f32),
        _ => store!(f32, std::convert::identity),
    }
}
