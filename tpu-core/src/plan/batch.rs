//! The largest batch that fits.

use super::{Plan, Program, Progress, Target};
use crate::{Result, ensure};
use std::sync::atomic::{AtomicBool, Ordering};

/// Where to look for the largest batch.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// A batch with its plan, made before: the search begins there, if it fits.
    pub known: Option<(usize, &'a Plan)>,
    /// The first batch to try, if none is known.
    pub start: usize,
    /// No batch above this is tried.
    pub most: usize,
    /// The answer is right to this part of itself: 0.05 for 5 %. Smaller parts take more compilations.
    pub tolerance: f64,
    /// How many programs are compiled at most.
    pub compilations: usize,
    /// Once it is true no other program is compiled, and what is known by then is the answer.
    pub stop: Option<&'a AtomicBool>,
}

impl Default for Search<'_> {
    /// From 8 to 2²⁰, to 5 %, in at most 12 compilations.
    fn default() -> Self {
        Self { known: None, start: 8, most: 1 << 20, tolerance: 0.05, compilations: 12, stop: None }
    }
}

/// What a search found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Batch {
    /// The largest batch that was compiled and fits, with its plan. `None`: none that was tried does.
    pub fits: Option<(usize, Plan)>,
    /// The smallest batch that does not fit, unless all that were tried do.
    pub too_large: Option<usize>,
    /// How many programs were compiled.
    pub compilations: usize,
}

impl Target {
    /// Looks for the largest batch that fits the device's memory. `program` gives the program of a batch.
    ///
    /// Memory grows nearly in proportion to the batch, and the compiler says early that a program does not fit, and by how
    /// much; to compile one that fits takes minutes. So the search comes from above, along a line through what it
    /// knows: as a rule two programs that do not fit and one that does.
    ///
    /// Errors as [`plan`](Self::plan) does, with what `program` returns, and when a program is refused for another reason
    /// than memory.
    pub fn largest_batch(
        &self,
        search: Search<'_>,
        mut program: impl FnMut(usize) -> Result<Program>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Batch> {
        let known = search.known.and_then(|(batch, plan)| Some((batch, plan, plan.outcome.as_ref().ok()?.memory)));
        let mut best = known.map(|(batch, plan, _)| (batch, plan.clone()));
        // What is there without a row: mostly parameters, and they are arguments.
        let point = known.map(|(batch, _, memory)| Known { batch, bytes: memory.peak, fixed: memory.arguments });
        let (fits, too_large, compilations) = bisect(search, point, self.device_memory(), |batch| {
            let plan = self.plan(&program(batch)?, &mut |at| progress(Progress { batch: Some(batch), ..at }))?;
            let tried = match &plan.outcome {
                Ok(figures) => Tried { fits: true, bytes: Some(figures.memory.peak) },
                Err(refusal) if refusal.is_out_of_memory() => Tried { fits: false, bytes: refusal.needed },
                Err(refusal) => return Err(refusal.error.clone()),
            };
            if tried.fits {
                best = Some((batch, plan));
            }
            Ok(tried)
        })?;
        // Batches that fit are tried in rising order.
        debug_assert_eq!(best.as_ref().map(|best| best.0), fits);
        Ok(Batch { fits: best, too_large, compilations })
    }
}

/// What trying a batch gave: whether it fits, and the memory it takes.
struct Tried {
    fits: bool,
    bytes: Option<u64>,
}

/// A batch that fits, its bytes, and about how many of them are not those of rows.
struct Known {
    batch: usize,
    bytes: u64,
    fixed: u64,
}

/// The largest batch known to fit, the smallest known not to, and the number of batches tried.
fn bisect(
    search: Search<'_>,
    known: Option<Known>,
    memory: Option<u64>,
    mut attempt: impl FnMut(usize) -> Result<Tried>,
) -> Result<(Option<usize>, Option<usize>, usize)> {
    let Search { start, most, tolerance, compilations, stop, .. } = search;
    ensure!(start >= 1 && start <= most, Value, "a search", "requires a first batch from 1 to {most}, got {start}");
    let sane = tolerance >= 0.0;
    ensure!(sane, Value, "a search", "requires a tolerance that is not negative, got {tolerance}");
    let (mut fits, mut too_large) = (None, None);
    let mut points: Vec<(f64, f64)> = Vec::new();
    if let Some(Known { batch, bytes, fixed }) = known.filter(|known| (1..=most).contains(&known.batch)) {
        fits = Some(batch);
        points.extend([(0.0, fixed as f64), (batch as f64, bytes as f64)]);
    }
    let mut tried = 0;
    loop {
        let (low, high) = (fits.unwrap_or(0), too_large.unwrap_or(most + 1));
        let close = low > 0 && (high - low) as f64 <= 1.0 + tolerance * low as f64;
        let stopped = stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        if high - low <= 1 || close || tried == compilations || stopped {
            return Ok((fits, too_large, tried));
        }
        // The first line is a rough one.
        let above = if tried == 0 { 0.5 } else { 0.5 * tolerance };
        let next = match full(&points, memory) {
            // Is it too much a little above? That is said early.
            Some(full) if (full * (1.0 + tolerance)) < high as f64 => (full * (1.0 + above)) as usize,
            // A little below, as close as is asked for at least.
            Some(full) => ((0.99 * full) as usize).max(((high as f64 - 1.0) / (1.0 + tolerance)).ceil() as usize),
            None if low == 0 && too_large.is_none() => start,
            None if too_large.is_none() => low.saturating_mul(4),
            None => (low + high) / 2,
        };
        let next = next.clamp(low + 1, high - 1);
        tried += 1;
        let outcome = attempt(next)?;
        if let Some(bytes) = outcome.bytes {
            points.push((next as f64, bytes as f64));
        }
        if outcome.fits {
            fits = Some(next);
        } else {
            too_large = Some(next);
        }
    }
}

/// The batch at which memory is full, by the line through the last two points; by a single one, as if half of its bytes were
/// those of rows.
fn full(points: &[(f64, f64)], memory: Option<u64>) -> Option<f64> {
    let memory = memory? as f64;
    let full = match points {
        [] => return None,
        &[(x, y)] => 2.0 * x * memory / y,
        &[.., (x0, y0), (x1, y1)] => {
            let slope = (y1 - y0) / (x1 - x0);
            if slope <= 0.0 {
                return None;
            }
            x1 + (memory - y1) / slope
        }
    };
    (full.is_finite() && full >= 1.0).then_some(full)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a batch on a device with 16 GB.
    fn search(search: Search<'_>, bytes: impl Fn(usize) -> u64, told: bool) -> (Option<usize>, Option<usize>, usize) {
        search_from(search, None, bytes, told)
    }

    const MEMORY: u64 = 16_000_000_000;

    fn search_from(
        search: Search<'_>,
        known: Option<usize>,
        bytes: impl Fn(usize) -> u64,
        told: bool,
    ) -> (Option<usize>, Option<usize>, usize) {
        let mut last = 0;
        let known = known.map(|batch| Known { batch, bytes: bytes(batch), fixed: 0 });
        bisect(search, known, told.then_some(MEMORY), |batch| {
            let need = bytes(batch);
            assert_ne!(batch, last, "the same batch twice");
            last = batch;
            Ok(Tried { fits: need <= MEMORY, bytes: told.then_some(need) })
        })
        .unwrap()
    }

    #[test]
    fn memory_that_grows_with_the_batch_is_found_in_a_few_steps() {
        // 1 GB and 13 MB per row: 1153 rows.
        let bytes = |batch: usize| 1_000_000_000 + 13_000_000 * batch as u64;
        let (fits, too_large, tried) = search(Search::default(), bytes, true);
        let (fits, too_large) = (fits.unwrap(), too_large.unwrap());
        assert!(fits <= 1153 && too_large > 1153 && too_large - fits <= 1 + fits / 20, "{fits} {too_large}");
        assert!(tried <= 5, "{tried}");
        // From what is known of a small batch: one that fits, after those that do not.
        let (mut fitting, known) = (0, Some(Known { batch: 8, bytes: bytes(8), fixed: 990_000_000 }));
        let (fits, too_large, tried) = bisect(Search::default(), known, Some(MEMORY), |batch| {
            let tried = Tried { fits: bytes(batch) <= MEMORY, bytes: Some(bytes(batch)) };
            fitting += usize::from(tried.fits);
            Ok(tried)
        })
        .unwrap();
        let (fits, too_large) = (fits.unwrap(), too_large.unwrap());
        assert!(fits <= 1153 && too_large > 1153 && too_large - fits <= 1 + fits / 20, "{fits} {too_large}");
        assert!(fitting == 1 && tried <= 4, "{fitting} of {tried}");
        // To the row, and when nothing is known but yes and no.
        for told in [true, false] {
            let exact = Search { tolerance: 0.0, compilations: 40, ..Search::default() };
            let (fits, too_large, tried) = search(exact, bytes, told);
            assert_eq!((fits, too_large), (Some(1153), Some(1154)), "{told}, {tried} tried");
        }
    }

    #[test]
    fn memory_that_grows_in_steps_and_bends_is_found_too() {
        let bytes =
            |batch: usize| 500_000_000 + (batch as u64).div_ceil(64) * 640_000_000 + (batch * batch) as u64 * 900;
        let most = (1..).take_while(|&batch| bytes(batch) <= 16_000_000_000).last().unwrap();
        let (fits, too_large, _) = search(Search::default(), bytes, true);
        let (fits, too_large) = (fits.unwrap(), too_large.unwrap());
        assert!(fits <= most && most < too_large && too_large - fits <= 1 + fits / 20, "{fits} {most} {too_large}");
    }

    #[test]
    fn a_search_that_is_stopped_says_what_it_knows() {
        let stop = AtomicBool::new(true);
        let stopped = Search { stop: Some(&stop), ..Search::default() };
        assert_eq!(search_from(stopped, Some(8), |_| 1, true), (Some(8), None, 0));
        let one = Search { compilations: 1, ..Search::default() };
        // A megabyte per row: 16,000 fit, and half as many more are tried.
        let (fits, too_large, tried) = search_from(one, Some(8), |batch| batch as u64 * 1_000_000, true);
        assert_eq!((fits, tried), (Some(8), 1));
        assert!((23_000..25_000).contains(&too_large.unwrap()), "{too_large:?}");
    }

    #[test]
    fn nothing_fits_or_everything_does() {
        assert_eq!(search(Search::default(), |_| u64::MAX / 2, true).0, None);
        let all = Search { most: 100, ..Search::default() };
        assert_eq!(search(all, |_| 1, true).0, Some(100));
        assert_eq!(search(Search { start: 1, most: 1, ..all }, |_| 1, true), (Some(1), None, 1));
        assert!(bisect(Search { start: 0, ..all }, None, None, |_| unreachable!()).is_err());
    }
}
