//! The largest batch that fits.

use super::{Plan, Program, Progress, Target};
use crate::{Result, ensure};

/// Where to look for the largest batch.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The first batch to try.
    pub start: usize,
    /// No batch above this is tried.
    pub most: usize,
    /// The answer is right to this part of itself: 0.05 for 5 %. Smaller parts take more compilations.
    pub tolerance: f64,
    /// How many programs are compiled at most.
    pub compilations: usize,
}

impl Default for Search {
    /// From 8 to 2²⁰, to 5 %, in at most 12 compilations.
    fn default() -> Self {
        Self { start: 8, most: 1 << 20, tolerance: 0.05, compilations: 12 }
    }
}

/// What a search found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Batch {
    /// The largest batch that was compiled and fits, with its plan. `None`: not even one row does.
    pub fits: Option<(usize, Plan)>,
    /// The smallest batch that does not fit, unless all that were tried do.
    pub too_large: Option<usize>,
    /// How many programs were compiled.
    pub compilations: usize,
}

impl Target {
    /// Looks for the largest batch that fits the device's memory. `program` gives the program of a batch. Memory grows
    /// nearly in proportion to the batch, which a search uses: it takes four to eight compilations as a rule.
    ///
    /// Errors as [`plan`](Self::plan) does, with what `program` returns, and when a program is refused for another reason
    /// than memory.
    pub fn largest_batch(
        &self,
        search: Search,
        mut program: impl FnMut(usize) -> Result<Program>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Batch> {
        let mut best = None;
        let (fits, too_large, compilations) = bisect(search, self.device_memory(), |batch| {
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

/// The largest batch known to fit, the smallest known not to, and the number of batches tried.
fn bisect(
    search: Search,
    memory: Option<u64>,
    mut attempt: impl FnMut(usize) -> Result<Tried>,
) -> Result<(Option<usize>, Option<usize>, usize)> {
    let Search { start, most, tolerance, compilations } = search;
    ensure!(start >= 1 && start <= most, Value, "a search", "requires a first batch from 1 to {most}, got {start}");
    let sane = tolerance >= 0.0;
    ensure!(sane, Value, "a search", "requires a tolerance that is not negative, got {tolerance}");
    let (mut fits, mut too_large) = (None, None);
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut next = start;
    let mut tried = 0;
    while tried < compilations {
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
        let (low, high) = (fits.unwrap_or(0), too_large.unwrap_or(most + 1));
        let close = (high - low) as f64 <= 1.0 + tolerance * low as f64;
        if high - low <= 1 || (close && low > 0) {
            break;
        }
        // On the line through the last two points, else twice or half; always strictly between what is known.
        let doubled = if outcome.fits { next.saturating_mul(4) } else { (low + high) / 2 };
        let mut guess = line(&points, memory).unwrap_or(doubled).clamp(low + 1, high - 1);
        // A line that is slightly off would creep up to the end of the interval from one side: each step must shrink the
        // interval to what is asked for if it lands where it is meant to.
        let margin = ((low as f64 * tolerance) as usize).min((high - low) / 2);
        guess = guess.clamp(low + margin.max(1), (high - margin.max(1)).max(low + 1));
        next = guess;
    }
    Ok((fits, too_large, tried))
}

/// The batch at which memory is full, by the line through the last two points. A little less: what fits is worth more.
fn line(points: &[(f64, f64)], memory: Option<u64>) -> Option<usize> {
    let &[.., (x0, y0), (x1, y1)] = points else { return None };
    let slope = (y1 - y0) / (x1 - x0);
    let full = x1 + (memory? as f64 - y1) / slope;
    (slope > 0.0 && full.is_finite() && full >= 1.0).then_some((full * 0.99) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a batch on a device with 16 GB.
    fn search(search: Search, bytes: impl Fn(usize) -> u64, told: bool) -> (Option<usize>, Option<usize>, usize) {
        const MEMORY: u64 = 16_000_000_000;
        let mut last = 0;
        bisect(search, told.then_some(MEMORY), |batch| {
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
    fn nothing_fits_or_everything_does() {
        assert_eq!(search(Search::default(), |_| u64::MAX / 2, true).0, None);
        let all = Search { most: 100, ..Search::default() };
        assert_eq!(search(all, |_| 1, true).0, Some(100));
        assert_eq!(search(Search { start: 1, most: 1, ..all }, |_| 1, true), (Some(1), None, 1));
        assert!(bisect(Search { start: 0, ..all }, None, |_| unreachable!()).is_err());
    }
}
