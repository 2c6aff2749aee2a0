//! What recording, scheduling, compiling and running cost as programs and tensors grow.

pub mod plot;

use crate::measure::clock::Clock;
use crate::mix::{self, operands};
use std::time::{Duration, Instant};
use tpu_core::{Mode, Result, Tensor, lazy};
use tpu_ops::{Gelu, gelu};

/// Numbers of operations, 1 to 10⁴.
const OPERATIONS: [usize; 13] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000];
/// Number of elements, 1 to 10⁸.
const ELEMENTS: [usize; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Seconds by size.
#[derive(Clone, Debug)]
pub struct Line {
    /// What takes the time.
    pub name: &'static str,
    /// Size and seconds, sizes rising.
    pub points: Vec<(f64, f64)>,
}

impl Line {
    fn new(name: &'static str) -> Self {
        Self { name, points: Vec::new() }
    }

    /// Seconds per unit of size, at this size if it was measured.
    pub fn each(&self, size: usize) -> Option<f64> {
        let point = self.points.iter().find(|point| point.0 == size as f64)?;
        Some(point.1 / point.0)
    }

    /// The largest slope between two points that are ten times apart, from `start` on: on paper with two logarithmic scales 1 is
    /// a cost that is linear, 2 one that is quadratic, 0 one that does not grow.
    pub fn worst_slope(&self, start: usize) -> f64 {
        let from: Vec<_> = self.points.iter().filter(|point| point.0 >= start as f64).collect();
        let pairs = from.iter().flat_map(|a| from.iter().filter(move |b| b.0 == 10.0 * a.0).map(move |b| (a, b)));
        pairs.map(|(a, b)| (b.1 / a.1).log10()).fold(f64::NAN, f64::max)
    }
}

/// Which time counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Time {
    /// By the wall.
    Wall,
    /// What the threads of this process compute, whoever else computes meanwhile.
    Processor,
}

/// The median time of some runs, without what `set_up` takes and what it takes to drop the result.
fn median<S, T>(time: Time, mut set_up: impl FnMut() -> Result<S>, mut run: impl FnMut(S) -> Result<T>) -> Result<f64> {
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.len() < 5 || (times.len() < 101 && start.elapsed() < Duration::from_millis(200)) {
        let input = set_up()?;
        let begin = Clock::start();
        let result = run(input)?;
        let (wall, processor) = begin.milliseconds();
        times.push(if time == Time::Wall { wall } else { processor } * 1e-3);
        drop(result);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Seconds that were spent compiling or planning while `f` ran.
fn compiling(f: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = lazy::statistics();
    f()?;
    Ok(lazy::statistics().since(&before).compile_seconds)
}

/// Costs of a program of small operations of many kinds, by their number, up to `most` of them. What compiling takes is by the
/// wall in any case.
///
/// # Errors
/// When a program fails.
pub fn by_operations(most: usize, time: Time) -> Result<[Line; 4]> {
    let mut recording = Line::new("recording");
    let mut cutting = Line::new("cutting and running what is compiled");
    let mut compile = Line::new("compiling");
    let mut never = Line::new("DeferNever, compiled before: recording and running");
    let (x, w) = operands()?;
    let mut variant = 0;
    for &count in OPERATIONS.iter().filter(|&&count| count <= most) {
        let size = count as f64;
        let record = || mix::record(&x, &w, count);
        recording.points.push((size, median(time, || Ok(()), |()| record())?));
        record()?.wait()?;
        cutting.points.push((size, median(time, record, |pending| pending.wait().map(|()| pending))?));
        let mut seconds = Vec::new();
        for _ in 0..3 {
            variant += 1;
            let new = different(&record()?, variant)?;
            seconds.push(compiling(|| new.wait())?);
        }
        seconds.sort_by(f64::total_cmp);
        compile.points.push((size, seconds[1]));
        let step = || Mode::DeferNever.scope(|| record()?.wait());
        step()?;
        never.points.push((size, median(time, || Ok(()), |()| step())?));
    }
    Ok([recording, cutting, compile, never])
}

/// The same program with an ending that no other number gives: its digits as operations.
fn different(x: &Tensor, number: u32) -> Result<Tensor> {
    let mut x = x.clone();
    for bit in 0..8 {
        x = if number >> bit & 1 == 1 { x.abs()? } else { x.neg()? };
    }
    Ok(x)
}

/// Costs of gelu(x · 2 + 1) + x, by the number of elements, up to `most` of them. What planning takes is by the wall in any case.
///
/// # Errors
/// When a program fails, or there is no memory.
pub fn by_elements(most: usize, time: Time) -> Result<[Line; 3]> {
    let mut recording = Line::new("recording");
    let mut planning = Line::new("planning for a new size");
    let mut running = Line::new("cutting and running what is compiled");
    // Every size but the first is a new one of a program that is there.
    compute(&Tensor::from_vec(vec![0.5f32; 3], 3)?)?.wait()?;
    for &count in ELEMENTS.iter().filter(|&&count| count <= most) {
        let size = count as f64;
        let x = Tensor::from_vec((0..count).map(|at| (at % 1000) as f32 * 0.002 - 1.0).collect(), count)?;
        let pending = compute(&x)?;
        planning.points.push((size, compiling(|| pending.wait())?));
        recording.points.push((size, median(time, || Ok(()), |()| compute(&x))?));
        running.points.push((size, median(time, || compute(&x), |pending| pending.wait().map(|()| pending))?));
    }
    Ok([recording, planning, running])
}

fn compute(x: &Tensor) -> Result<Tensor> {
    gelu(&x.mul(2.0)?.add(1.0)?, Gelu::Tanh)?.add(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_tell_linear_from_quadratic() {
        let line = |power: i32| Line {
            name: "",
            points: [10.0f64, 100.0, 250.0, 1000.0].map(|size| (size, size.powi(power) * 3e-9)).into(),
        };
        for power in 0..3 {
            assert!((line(power).worst_slope(10) - f64::from(power)).abs() < 1e-9);
        }
        // Only from 100 on: what grows before does not count.
        let mut late = line(1);
        late.points[0].1 = 1e-12;
        assert!(late.worst_slope(10) > 2.0 && late.worst_slope(100) < 1.01);
        assert!((line(1).each(250).unwrap() - 3e-9).abs() < 1e-15 && line(1).each(2500).is_none());
    }

    #[test]
    fn every_cost_is_measured_at_every_size() {
        for line in by_operations(50, Time::Wall).unwrap() {
            assert_eq!(line.points.len(), 6, "{}", line.name);
            assert!(line.points.iter().all(|point| point.1 > 0.0), "{line:?}");
        }
        for line in by_elements(1000, Time::Processor).unwrap() {
            assert_eq!(line.points.len(), 4, "{}", line.name);
            assert!(line.points.iter().all(|point| point.1 > 0.0), "{line:?}");
        }
    }
}
