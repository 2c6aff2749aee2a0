//! The scheduler against an eager oracle: random interleavings of recording, reading, cloning, dropping, ending steps,
//! changing modes, updating cells and failing, on several threads that exchange tensors.

use crate::bytes::Bytes;
use crate::driver::Target;
use crate::{Outcome, check};
use std::sync::Mutex;
use tpu_core::lazy::{self, Limits};
use tpu_core::{DType, ErrorKind, Mode, Tensor};

/// The target.
pub const TARGET: Target = Target { name: "scheduler", longest: 600, run };

/// All tensors of a case have this size, or one element.
const SIZE: usize = 4;

/// Two numbers that must come out bit for bit, of either kind, or a failure.
#[derive(Clone, Debug, PartialEq)]
enum Plain {
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    /// An index out of range, or what depends on one.
    Failed,
}

#[derive(Clone)]
struct Pair {
    tensor: Tensor,
    plain: Plain,
}

fn run(mut bytes: Bytes<'_>) -> Outcome {
    let nodes = *bytes.pick(&[usize::MAX, usize::MAX, 40, 7, 1]);
    lazy::set_limits(Limits { nodes, bytes: *bytes.pick(&[usize::MAX, 500]) });
    let threads = bytes.pick(&[1, 1, 2, 3, 4]);
    let shared = Mutex::new(Vec::new());
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let dealt = bytes.deal(*threads);
        let running: Vec<_> =
            dealt.into_iter().map(|bytes| scope.spawn(|| Worker::new(bytes, &shared).work())).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
    });
    outcomes.into_iter().collect::<Result<(), String>>()?;
    // What the threads left is read by another thread, after they have ended.
    shared.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).iter().try_for_each(compare)
}

/// Reads a tensor and compares it.
fn compare(pair: &Pair) -> Outcome {
    let read = match pair.tensor.dtype() {
        DType::I64 => pair.tensor.to_vec().map(Plain::Ints),
        _ => pair.tensor.to_vec().map(Plain::Floats),
    };
    match (read, &pair.plain) {
        (Ok(Plain::Floats(got)), Plain::Floats(want)) => {
            let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
            check!(got.len() == want.len() && got.iter().zip(want).all(same), "must be {want:?}, is {got:?}");
        }
        (Ok(got), want) => check!(got == *want, "must be {want:?}, is {got:?}"),
        (Err(error), Plain::Failed) => check!(error.kind() == ErrorKind::Index, "must be an index error, is: {error}"),
        (Err(error), want) => return Err(format!("must be {want:?}, is: {error}")),
    }
    Ok(())
}

/// One thread of a case.
struct Worker<'a> {
    bytes: Bytes<'a>,
    shared: &'a Mutex<Vec<Pair>>,
    mine: Vec<Pair>,
    mode: Mode,
}

impl<'a> Worker<'a> {
    fn new(bytes: Bytes<'a>, shared: &'a Mutex<Vec<Pair>>) -> Self {
        Self { bytes, shared, mine: Vec::new(), mode: Mode::DeferAndFuse }
    }

    fn work(mut self) -> Outcome {
        while !self.bytes.is_empty() {
            self.step()?;
        }
        // Some are read, in an order that differs from that of recording; the rest is dropped or left to others.
        while let Some(pair) = self.take() {
            match self.bytes.below(3) {
                0 => compare(&pair)?,
                1 => self.shared().push(pair),
                _ => {}
            }
        }
        Ok(())
    }

    fn shared(&self) -> std::sync::MutexGuard<'a, Vec<Pair>> {
        self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn step(&mut self) -> Outcome {
        match self.bytes.below(24) {
            0..2 => {
                let pair = self.create()?;
                self.mine.push(pair);
            }
            2..12 => self.record()?,
            12 => self.update()?,
            13 => self.read()?,
            14 => self.schedule()?,
            15 => lazy::mark_step(),
            16 if self.bytes.one_in(4) => lazy::synchronize().map_err(|error| error.to_string())?,
            17 => self.mode = *self.bytes.pick(&Mode::ALL),
            18 => {
                let clone = self.any()?.clone();
                self.mine.push(clone);
            }
            19 => {
                if let Some(pair) = self.take() {
                    self.shared().push(pair);
                }
            }
            20 => {
                let other = self.shared().pop();
                self.mine.extend(other);
            }
            _ => drop(self.take()),
        }
        Ok(())
    }

    /// Takes one of this thread's tensors away.
    fn take(&mut self) -> Option<Pair> {
        (!self.mine.is_empty()).then(|| self.mine.swap_remove(self.bytes.below(self.mine.len())))
    }

    /// One of this thread's tensors.
    fn any(&mut self) -> Result<&Pair, String> {
        if self.mine.is_empty() {
            let pair = self.create()?;
            self.mine.push(pair);
        }
        let at = self.bytes.below(self.mine.len());
        Ok(&self.mine[at])
    }

    fn read(&mut self) -> Outcome {
        compare(self.any()?)
    }

    fn schedule(&mut self) -> Outcome {
        let wait = self.bytes.one_in(2);
        let pair = self.any()?;
        match (if wait { pair.tensor.wait() } else { pair.tensor.realize() }, &pair.plain) {
            (Err(error), Plain::Failed) if error.kind() == ErrorKind::Index => Ok(()),
            (Err(error), _) => Err(error.to_string()),
            (Ok(()), Plain::Failed) if wait => Err("waited for a value that must have failed".into()),
            (Ok(()), _) => Ok(()),
        }
    }

    fn create(&mut self) -> Result<Pair, String> {
        let start = self.bytes.between(-5, 5);
        let ints: Vec<i64> = (0..SIZE as i64).map(|at| start + at).collect();
        let floats: Vec<f64> = ints.iter().map(|&v| v as f64 / 3.0).collect();
        let (tensor, plain) = match self.bytes.below(5) {
            0 => (Tensor::from_slice(&ints), Plain::Ints(ints)),
            1 => (Tensor::from_slice(&floats), Plain::Floats(floats)),
            2 => (Tensor::full(SIZE, start, DType::I64), Plain::Ints(vec![start; SIZE])),
            3 => (Tensor::ones(SIZE, DType::F64), Plain::Floats(vec![1.0; SIZE])),
            _ => (Tensor::iota(SIZE, 0, DType::I64), Plain::Ints((0..SIZE as i64).collect())),
        };
        Ok(Pair { tensor: self.mode.scope(|| tensor).map_err(|error| error.to_string())?, plain })
    }

    fn record(&mut self) -> Outcome {
        let (a, b) = (self.any()?.clone(), self.any()?.clone());
        let kind = self.bytes.below(12);
        let number = self.bytes.between(-3, 3);
        let pair = match kind {
            0..6 => self.binary(kind, &a, &b),
            6 => self.with_number(&a, number),
            7 => self.total(&a),
            8 => self.convert(&a),
            9 => self.pick_index(&a, number),
            10 => self.spread(number),
            _ => self.negate(&a),
        };
        match pair {
            // In the blocking mode a failure surfaces at the call.
            Err(error) if error.kind() == ErrorKind::Index && self.mode == Mode::DeferNeverAndLaunchBlocking => Ok(()),
            Err(error) => Err(format!("{kind}: {error}")),
            Ok(pair) => {
                self.mine.push(pair);
                Ok(())
            }
        }
    }

    fn pair(&self, plain: Plain, record: impl FnOnce() -> tpu_core::Result<Tensor>) -> tpu_core::Result<Pair> {
        Ok(Pair { tensor: self.mode.scope(record)?, plain })
    }

    fn binary(&self, kind: usize, a: &Pair, b: &Pair) -> tpu_core::Result<Pair> {
        // Of two kinds of numbers the second is converted first.
        let b = if a.tensor.dtype() == b.tensor.dtype() { b.clone() } else { self.convert(b)? };
        let plain = zip(
            &a.plain,
            if kind == 5 { &a.plain } else { &b.plain },
            |x, y| match kind {
                0 => x.wrapping_add(y),
                1 => x.wrapping_sub(y),
                2 => x.wrapping_mul(y),
                3 => x.max(y),
                4 => x.min(y),
                _ => x,
            },
            |x, y| match kind {
                0 => x + y,
                1 => x - y,
                2 => x * y,
                3 => extreme(x, y, x > y),
                4 => extreme(x, y, x < y),
                _ => x,
            },
        );
        let (a, b) = (&a.tensor, &b.tensor);
        self.pair(plain, || match kind {
            0 => a.add(b),
            1 => a.sub(b),
            2 => a.mul(b),
            3 => a.maximum(b),
            4 => a.minimum(b),
            // A dead value beside a live one.
            _ => a.add(b).and_then(|_| a.neg()).and_then(|negative| negative.neg()),
        })
    }

    fn with_number(&self, a: &Pair, number: i64) -> tpu_core::Result<Pair> {
        let plain = zip(&a.plain, &a.plain, |x, _| x.wrapping_mul(number), |x, _| x * number as f64);
        self.pair(plain, || a.tensor.mul(number))
    }

    fn negate(&self, a: &Pair) -> tpu_core::Result<Pair> {
        let plain = zip(&a.plain, &a.plain, |x, _| x.wrapping_neg(), |x, _| -x);
        self.pair(plain, || a.tensor.neg())
    }

    fn spread(&self, number: i64) -> tpu_core::Result<Pair> {
        self.pair(Plain::Ints(vec![number; SIZE]), || Tensor::scalar(number)?.broadcast_to(SIZE))
    }

    /// The sum at every place; of floats, whose order of adding is not said, the largest.
    fn total(&self, a: &Pair) -> tpu_core::Result<Pair> {
        let plain = match &a.plain {
            Plain::Ints(v) => Plain::Ints(vec![v.iter().fold(0, |sum: i64, &v| sum.wrapping_add(v)); SIZE]),
            Plain::Floats(v) => {
                Plain::Floats(vec![v.iter().copied().reduce(|x, y| extreme(x, y, x > y)).unwrap_or(0.0); SIZE])
            }
            Plain::Failed => Plain::Failed,
        };
        self.pair(plain, || {
            let all = if a.tensor.dtype() == DType::I64 { a.tensor.sum_all()? } else { a.tensor.max_all()? };
            all.broadcast_to(SIZE)
        })
    }

    /// i64 to f64 as Rust rounds; f64 to i64 from a comparison, so that nothing overflows.
    fn convert(&self, a: &Pair) -> tpu_core::Result<Pair> {
        let plain = match &a.plain {
            Plain::Ints(v) => Plain::Floats(v.iter().map(|&v| v as f64).collect()),
            Plain::Floats(v) => Plain::Ints(v.iter().map(|&v| (v > 0.5) as i64).collect()),
            Plain::Failed => Plain::Failed,
        };
        self.pair(plain, || match a.tensor.dtype() {
            DType::I64 => a.tensor.to_dtype(DType::F64),
            _ => a.tensor.gt(0.5)?.to_dtype(DType::I64),
        })
    }

    /// The element at an index at every place; an index that may be out of range.
    fn pick_index(&self, a: &Pair, number: i64) -> tpu_core::Result<Pair> {
        let index = number + 1;
        let at = |len: usize| usize::try_from(index).ok().filter(|&at| at < len);
        let plain = match &a.plain {
            Plain::Ints(v) => at(v.len()).map(|at| Plain::Ints(vec![v[at]; SIZE])),
            Plain::Floats(v) => at(v.len()).map(|at| Plain::Floats(vec![v[at]; SIZE])),
            Plain::Failed => None,
        };
        self.pair(plain.unwrap_or(Plain::Failed), || a.tensor.take(&Tensor::full(SIZE, index, DType::I64)?, 0))
    }

    /// A mutable cell is updated: the new value takes the old one's place, and the old handle goes. When the new value
    /// fails, the old one is still to be had.
    fn update(&mut self) -> Outcome {
        let old = self.any()?.clone();
        let other = self.any()?.clone();
        let step = self.bytes.one_in(2);
        if old.plain == Plain::Failed || old.tensor.wait().is_err() {
            return Ok(());
        }
        let shift = self.bytes.between(-3, 3);
        let update = || {
            let picked = self.pick_index(&other, shift)?;
            self.binary(0, &old, &picked)
        };
        let new = match update() {
            Err(error) if error.kind() == ErrorKind::Index && self.mode == Mode::DeferNeverAndLaunchBlocking => {
                return Ok(());
            }
            new => new.map_err(|error| error.to_string())?,
        };
        new.tensor.replaces(&old.tensor);
        let expected = old.plain;
        self.mine.retain(|pair| !pair.tensor.same_value(&old.tensor));
        drop(old.tensor);
        if step {
            lazy::mark_step();
        }
        compare(&new)?;
        if new.plain == Plain::Failed {
            let restored = new.tensor.restored().ok_or("the value before a failed update must be there")?;
            return compare(&Pair { tensor: restored, plain: expected });
        }
        self.mine.push(new);
        Ok(())
    }
}

/// The larger or smaller number, NaN if one is.
fn extreme(x: f64, y: f64, first: bool) -> f64 {
    match (x.is_nan() || y.is_nan(), first) {
        (true, _) => f64::NAN,
        (false, true) => x,
        // Of equal numbers the zero's sign decides nothing that is compared here: there is no negative zero to start with,
        // and both orders give what the operation documents.
        (false, false) => y,
    }
}

fn zip(a: &Plain, b: &Plain, ints: impl Fn(i64, i64) -> i64, floats: impl Fn(f64, f64) -> f64) -> Plain {
    match (a, b) {
        (Plain::Ints(a), Plain::Ints(b)) => Plain::Ints(a.iter().zip(b).map(|(&a, &b)| ints(a, b)).collect()),
        (Plain::Floats(a), Plain::Floats(b)) => Plain::Floats(a.iter().zip(b).map(|(&a, &b)| floats(a, b)).collect()),
        _ => Plain::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_interleavings_agree_with_the_eager_oracle() {
        crate::driver::test(TARGET, 1, 150).unwrap();
    }
}
