//! Splitting work over the thread pool.
//!
//! Work below about 100 µs stays on the calling thread: handing it out costs as much. The split is by elements of the
//! result, never inside one of them, so it cannot change a value.

use crate::Result;
use bytemuck::Pod;
use rayon::prelude::*;

/// Nanoseconds of work from which splitting pays.
const WORTH_SPLITTING: f64 = 100_000.0;

/// Threads that share work: those of the device's pool, inside it.
pub(super) fn threads() -> usize {
    if rayon::current_thread_index().is_some() { rayon::current_num_threads() } else { 1 }
}

/// Calls `body(first, part)` on consecutive parts of `target`, of whole multiples of `unit` elements (the last takes
/// what is left), possibly in parallel. `cost` is the estimated time of one element in nanoseconds.
pub(super) fn parts<T: Pod + Send + Sync>(
    target: &mut [T],
    unit: usize,
    cost: f64,
    body: impl Fn(usize, &mut [T]) + Sync,
) {
    let width = size_of::<T>();
    let done = bytes(bytemuck::cast_slice_mut(target), width, unit, cost, &|start, part| {
        body(start / width, bytemuck::cast_slice_mut(part));
        Ok(())
    });
    debug_assert!(done.is_ok(), "nothing in it fails");
}

/// [`parts`] with a body that can fail: the first error in the order of time.
pub(super) fn try_parts<T: Pod + Send + Sync>(
    target: &mut [T],
    unit: usize,
    cost: f64,
    body: impl Fn(usize, &mut [T]) -> Result<()> + Sync,
) -> Result<()> {
    let width = size_of::<T>();
    bytes(bytemuck::cast_slice_mut(target), width, unit, cost, &|start, part| {
        body(start / width, bytemuck::cast_slice_mut(part))
    })
}

/// What does not depend on the element type, `width` bytes of it, so that it is compiled once, and each body once.
fn bytes(
    target: &mut [u8],
    width: usize,
    unit: usize,
    cost: f64,
    body: &(dyn Fn(usize, &mut [u8]) -> Result<()> + Sync),
) -> Result<()> {
    let elements = target.len() / width;
    let work = elements as f64 * cost;
    let unit = unit.max(1);
    let threads = threads();
    if work < WORTH_SPLITTING || threads == 1 || elements <= unit {
        return body(0, target);
    }
    // At most four parts a thread, none below half the threshold.
    let count = ((work / (WORTH_SPLITTING / 2.0)) as usize).clamp(1, 4 * threads);
    let part = elements.div_ceil(count).next_multiple_of(unit) * width;
    target.par_chunks_mut(part).enumerate().try_for_each(|(i, chunk)| body(i * part, chunk))
}

/// Parts of three results.
type Three<'t, A, B, C> = (&'t mut [A], &'t mut [B], &'t mut [C]);

/// Calls `body(number, results of that matrix)` for each of `count` matrices, possibly in parallel: an equal part of each target
/// is a matrix's, which may be nothing. `cost` is the estimated time of one in nanoseconds. The first error in the order
/// of numbers.
pub(super) fn matrices<A: Send, B: Send, C: Send>(
    count: usize,
    targets: Three<'_, A, B, C>,
    cost: f64,
    body: &(dyn Fn(usize, Three<'_, A, B, C>) -> Result<()> + Sync),
) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let together = match threads() {
        1 => count,
        _ => ((WORTH_SPLITTING / 2.0 / cost.max(1.0)).ceil() as usize).clamp(1, count),
    };
    halves(0, count, targets, together, body)
}

fn halves<A: Send, B: Send, C: Send>(
    first: usize,
    count: usize,
    (a, b, c): Three<'_, A, B, C>,
    together: usize,
    body: &(dyn Fn(usize, Three<'_, A, B, C>) -> Result<()> + Sync),
) -> Result<()> {
    let (unit_a, unit_b, unit_c) = (a.len() / count, b.len() / count, c.len() / count);
    if count <= together {
        return (0..count).try_for_each(|i| {
            let own = (&mut a[i * unit_a..][..unit_a], &mut b[i * unit_b..][..unit_b], &mut c[i * unit_c..][..unit_c]);
            body(first + i, own)
        });
    }
    let half = count / 2;
    let (a, b, c) = (a.split_at_mut(half * unit_a), b.split_at_mut(half * unit_b), c.split_at_mut(half * unit_c));
    let (left, right) = rayon::join(
        || halves(first, half, (a.0, b.0, c.0), together, body),
        || halves(first + half, count - half, (a.1, b.1, c.1), together, body),
    );
    left.and(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_in_exactly_one_part_of_whole_units() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().expect("a pool");
        pool.install(|| {
            for (len, unit) in [(0, 4), (1, 1), (1000, 7), (7 * 143, 7), (5, 100)] {
                let mut target = vec![0u32; len];
                parts(&mut target, unit, 1e9, |first, part| {
                    assert_eq!(first % unit, 0);
                    for (i, t) in part.iter_mut().enumerate() {
                        *t += (first + i) as u32 + 1;
                    }
                });
                assert!(target.iter().enumerate().all(|(i, &t)| t == i as u32 + 1));
            }
        });
    }

    #[test]
    fn every_matrix_gets_its_own_parts_of_all_results() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().expect("a pool");
        pool.install(|| {
            for (count, units, cost) in
                [(0, (2, 1, 1), 1e9), (1, (3, 0, 2), 1e9), (7, (0, 4, 1), 1e9), (50, (2, 3, 0), 1e4)]
            {
                let mut a = vec![0u8; count * units.0];
                let mut b = vec![0usize; count * units.1];
                let mut c = vec![0u32; count * units.2];
                let body = |number: usize, (a, b, c): Three<'_, u8, usize, u32>| {
                    a.iter_mut().for_each(|a| *a += number as u8 + 1);
                    b.iter_mut().for_each(|b| *b += number + 1);
                    c.iter_mut().for_each(|c| *c += number as u32 + 1);
                    crate::ensure!(number != 40 && number != 45, Internal, "split", "{number}");
                    Ok(())
                };
                let done = matrices(count, (&mut a, &mut b, &mut c), cost, &body);
                assert_eq!(done.err().map(|error| error.message().to_owned()), (count == 50).then(|| "40".to_owned()));
                // Behind an error the rest of its part may be left out.
                let checked = count.min(40);
                assert!(a.chunks(units.0.max(1)).take(checked).zip(1..).all(|(part, n)| part.iter().all(|&x| x == n)));
                assert!(b.chunks(units.1.max(1)).take(checked).zip(1..).all(|(part, n)| part.iter().all(|&x| x == n)));
                assert!(c.chunks(units.2.max(1)).take(checked).zip(1..).all(|(part, n)| part.iter().all(|&x| x == n)));
            }
        });
    }
}
