//! Splitting work over the thread pool.
//!
//! Work below about 100 µs stays on the calling thread: handing it out costs as much. The split is by elements of the
//! result, never inside one of them, so it cannot change a value.

use crate::Result;
use bytemuck::Pod;
use rayon::prelude::*;

/// Nanoseconds of work from which splitting pays.
const WORTH_SPLITTING: f64 = 100_000.0;

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
    let threads = rayon::current_num_threads();
    if work < WORTH_SPLITTING || threads == 1 || elements <= unit {
        return body(0, target);
    }
    // At most four parts a thread, none below half the threshold.
    let count = ((work / (WORTH_SPLITTING / 2.0)) as usize).clamp(1, 4 * threads);
    let part = elements.div_ceil(count).next_multiple_of(unit) * width;
    target.par_chunks_mut(part).enumerate().try_for_each(|(i, chunk)| body(i * part, chunk))
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
}
