//! The derivative test: the gradient of a weighted sum of a function's results, along a direction, against the central
//! difference of that sum.
//!
//! A central difference with step h is wrong by h²/6 · f''' for its form and by about eps/h · |f| for rounding; h = eps^(1/3)
//! balances both at eps^(2/3): 3.7e-11 for f64, 2.4e-5 for f32. Third derivatives in the ranges tested stay below 1e3, sums
//! have at most a few dozen terms of size 10, and second order differences take gradients, larger by up to 1e2: tolerances
//! of 1e-6 (f64) and 2e-2 (f32), relative to the largest term of the sum.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use tpu_autograd::{GradOptions, grad, no_grad, requires_grad};
use tpu_core::{DType, Result, Tensor};

/// An operand: its sizes and the range of its elements, which are all at least (high − low) / 2n apart.
#[derive(Clone, Debug)]
pub struct Given {
    pub sizes: Vec<usize>,
    pub low: f64,
    pub high: f64,
    pub dtype: DType,
}

/// A float64 operand.
pub fn given(sizes: &[usize], low: f64, high: f64) -> Given {
    Given { sizes: sizes.to_vec(), low, high, dtype: DType::F64 }
}

impl Given {
    fn values(&self, seed: u64) -> Vec<f64> {
        let count: usize = self.sizes.iter().product();
        let mut places: Vec<usize> = (0..count).collect();
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + count as u64);
        for at in (1..count).rev() {
            places.swap(at, (random.next() * (at + 1) as f64) as usize);
        }
        let step = (self.high - self.low) / count.max(1) as f64;
        places.into_iter().map(|place| self.low + step * (place as f64 + 0.25 + 0.5 * random.next())).collect()
    }

    fn tensor(&self, values: &[f64]) -> Result<Tensor> {
        Tensor::from_vec(values.to_vec(), &self.sizes[..])?.to_dtype(self.dtype)
    }
}

/// SplitMix64, as numbers in [0, 1).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Fixed weights of both signs.
fn weights(like: &Tensor, salt: u64) -> Result<Tensor> {
    let mut random = Random(salt);
    let values: Vec<f64> = (0..like.elements()).map(|_| 2.0 * random.next() - 1.0).collect();
    Tensor::from_vec(values, like.shape())?.to_dtype(like.dtype())
}

/// Σ weights · results.
fn weighted(results: &[Tensor], salt: u64) -> Result<Tensor> {
    let mut sum: Option<Tensor> = None;
    for (at, result) in results.iter().enumerate() {
        let part = result.mul(&weights(result, salt + at as u64)?)?.sum_all()?;
        sum = Some(match sum {
            Some(sum) => sum.add(&part)?,
            None => part,
        });
    }
    Ok(sum.expect("a function has results"))
}

/// Checks the first `order` derivatives of `f` at the given operands.
pub fn check(
    name: &str,
    order: usize,
    operands: &[Given],
    seed: u64,
    f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<()> {
    let loss = |x: &[Tensor]| weighted(&f(x)?, 1);
    compare(&format!("{name}, first order"), operands, seed, &loss)?;
    if order > 1 {
        let slope = |x: &[Tensor]| {
            let create_graph = GradOptions { create_graph: true, allow_unused: true, ..GradOptions::default() };
            let inputs: Vec<&Tensor> = x.iter().collect();
            weighted(&grad(&[&loss(x)?], &inputs, create_graph)?, 77)
        };
        compare(&format!("{name}, second order"), operands, seed, &slope)?;
    }
    Ok(())
}

fn compare(name: &str, operands: &[Given], seed: u64, loss: &dyn Fn(&[Tensor]) -> Result<Tensor>) -> Result<()> {
    let narrow = operands.iter().any(|operand| operand.dtype == DType::F32);
    let (step, tolerance) = if narrow { (5e-3, 2e-2) } else { (6e-6, 1e-6) };
    let values: Vec<Vec<f64>> =
        operands.iter().enumerate().map(|(at, operand)| operand.values(seed + 31 * at as u64)).collect();
    let at = |moved: Option<(usize, &[f64], f64)>| -> Result<Vec<Tensor>> {
        let tensors = operands.iter().zip(&values).enumerate().map(|(number, (operand, values))| match moved {
            Some((which, direction, by)) if which == number => {
                let shifted: Vec<f64> = values.iter().zip(direction).map(|(x, d)| x + by * d).collect();
                operand.tensor(&shifted)
            }
            _ => operand.tensor(values),
        });
        tensors.map(|tensor| requires_grad(&tensor?)).collect()
    };
    let x = at(None)?;
    let y = loss(&x)?;
    let options = GradOptions { allow_unused: true, ..GradOptions::default() };
    let gradients = match y.history() {
        Some(_) => grad(&[&y], &x.iter().collect::<Vec<_>>(), options)?,
        None => x.iter().map(|x| x.detach().zeros_like()).collect::<Result<_>>()?,
    };
    for (number, gradient) in gradients.iter().enumerate() {
        assert_eq!(gradient.ty(), x[number].ty(), "{name}: type of gradient {number}");
        let gradient = no_grad(|| gradient.to_dtype(DType::F64)?.to_vec::<f64>())?;
        let mut random = Random(seed + 1000 * number as u64);
        let direction: Vec<f64> = gradient.iter().map(|_| 2.0 * random.next() - 1.0).collect();
        let terms = gradient.iter().zip(&direction).map(|(g, d)| g * d);
        let scale = terms.clone().fold(1.0f64, |most, term| most.max(term.abs()));
        let found: f64 = terms.sum();
        let value = |by: f64| loss(&at(Some((number, &direction, by)))?)?.to_dtype(DType::F64)?.item::<f64>();
        let expected = (value(step)? - value(-step)?) / (2.0 * step);
        assert!(
            (found - expected).abs() <= tolerance * scale,
            "{name}: operand {number} of {operands:?}, seed {seed}: gradient {found}, difference {expected}"
        );
    }
    Ok(())
}

/// Runs a test over cases that a strategy draws, always the same ones, and more of them in a long sweep.
pub fn cases<S: Strategy>(count: u32, strategy: S, test: impl Fn(S::Value) -> Result<()>) {
    let config = Config { cases: tpu_core::testing::cases(count), failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let run = |value| test(value).map_err(|error| TestCaseError::fail(format!("{error:?}")));
    if let Err(error) = TestRunner::new_with_rng(config, rng).run(&strategy, run) {
        panic!("{error}");
    }
}

/// Shapes of `axes` axes, of few elements, with zero sizes among them.
pub fn shapes(axes: std::ops::Range<usize>) -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(prop_sizes(), axes)
}

fn prop_sizes() -> impl Strategy<Value = usize> {
    proptest::prop_oneof![1 => 0..1usize, 8 => 1..4usize]
}
