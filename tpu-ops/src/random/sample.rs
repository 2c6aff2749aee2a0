//! Random integers, orders and draws from weights.

use super::{Generator, double_bits, uniform};
use crate::composite::widened;
use crate::embedding::checked_indices;
use crate::place::beside;
use crate::require;
use tpu_core::{DType, Result, Shape, Tensor, ensure};

/// Integers from `low` up to but not including `high`. PyTorch's `randint`.
///
/// 64 random bits modulo `high − low`: no value is more likely than another by more than one in 2⁶⁴ / (high − low). Errors on
/// a dtype that is no integer or cannot hold the bounds, or if there is nothing between them.
///
/// ```
/// use tpu_core::DType;
/// let x = tpu_ops::randint(3, 6, [10], DType::I64, None)?;
/// assert!(x.to_vec::<i64>()?.iter().all(|v| (3..6).contains(v)));
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn randint(
    low: i64,
    high: i64,
    shape: impl Into<Shape>,
    dtype: DType,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    Tensor::checked(|| {
        ensure!(dtype.is_integer(), DType, "randint", "requires an integer dtype, got {dtype}");
        ensure!(low < high, Value, "randint", "requires low below high, got {low} and {high}");
        let holds = tpu_core::Scalar::from(low).fits(dtype) && tpu_core::Scalar::from(high - 1).fits(dtype);
        ensure!(holds, Value, "randint", "requires bounds that {dtype} holds, got {low} and {high}");
        Ok(())
    })?;
    let words = double_bits(&shape.into(), generator)?.bitcast(DType::U64)?;
    let count = high.wrapping_sub(low) as u64;
    // Numbers of more than 63 bits wrap, and the sum wraps back into range.
    words.rem(count)?.to_dtype(DType::I64)?.add(low)?.to_dtype(dtype)
}

/// The numbers 0 to n − 1 in random order: i64. PyTorch's `randperm`. Sorts by random keys of 64 bits.
///
/// ```
/// let mut order = tpu_ops::randperm(5, None)?.to_vec::<i64>()?;
/// order.sort();
/// assert_eq!(order, [0, 1, 2, 3, 4]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn randperm(n: usize, generator: Option<&Generator>) -> Result<Tensor> {
    let keys = double_bits(&n.into(), generator)?.bitcast(DType::U64)?;
    Ok(keys.sort(0, false)?.1)
}

/// `samples` draws of indices along the last axis, each index with a probability proportional to its weight: i64. PyTorch's
/// `multinomial`.
///
/// `weights`: `[classes]` or `[rows, classes]`, float, not negative; result `[samples]` or `[rows, samples]`. Without
/// `replacement` no index is drawn twice. Errors on another rank or dtype, no classes, no samples, or without replacement more
/// samples than classes. A row with a negative or infinite weight or NaN, of sum 0, or with fewer positive weights than draws
/// without replacement, is an index error when the value is read.
///
/// With replacement the cumulative sums are searched for u · total; without, indices are ordered by −ln(1 − u) / weight, the
/// arrival times of independent processes.
///
/// ```
/// use tpu_core::Tensor;
/// let weights = Tensor::from_slice(&[0.0f32, 3.0, 0.0])?;
/// assert_eq!(tpu_ops::multinomial(&weights, 4, true, None)?.to_vec::<i64>()?, [1; 4]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn multinomial(
    weights: &Tensor,
    samples: usize,
    replacement: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let classes = Tensor::checked(|| {
        require::float("multinomial", "weights", weights)?;
        let rank = weights.rank();
        ensure!((1..=2).contains(&rank), Shape, "multinomial", "requires 1 or 2 axes, got {}", weights.shape());
        let classes = weights.shape().size(rank - 1);
        ensure!(classes > 0, Shape, "multinomial", "requires at least one class, got {}", weights.shape());
        ensure!(samples > 0, Value, "multinomial", "requires at least one sample, got 0");
        let enough = replacement || samples <= classes;
        ensure!(
            enough,
            Value,
            "multinomial",
            "requires no more samples than classes without replacement, got {samples} of {}",
            weights.shape()
        );
        Ok(classes)
    })?;
    let weights = widened(&weights.detach())?;
    let drawn = beside(&weights, || match replacement {
        true => with_replacement(&weights, samples, generator),
        false => without_replacement(&weights, samples, generator),
    })?;
    // Bad rows get an index that the check refuses.
    let valid = weights.ge(0)?.all([-1], true)?;
    let valid = valid.bitwise_and(&weights.sum([-1], true)?.is_finite()?)?;
    checked_indices(&valid.select(&drawn, -1)?, classes)
}

/// Counts the cumulative sums that a random point of the total has passed.
#[track_caller]
fn with_replacement(weights: &Tensor, samples: usize, generator: Option<&Generator>) -> Result<Tensor> {
    let cumulative = weights.cumsum(-1)?;
    let classes = cumulative.shape().size(cumulative.rank() - 1);
    let total = cumulative.narrow(-1, classes - 1, 1)?;
    let mut shape: Vec<usize> = weights.sizes().to_vec();
    shape[weights.rank() - 1] = samples;
    let point = uniform(shape, 0.0, 1.0, weights.dtype(), generator)?.mul(&total)?;
    let passed = cumulative.unsqueeze(-2)?.le(&point.unsqueeze(-1)?)?.to_dtype(DType::I64)?.sum([-1], false)?;
    // The product may round to the total: the last index with a weight is the last one drawn. Without any it is −1.
    let last = cumulative.lt(&total)?.to_dtype(DType::I64)?.sum([-1], true)?;
    let some = total.gt(0)?;
    some.select(&passed.minimum(&last)?, -1)
}

#[track_caller]
fn without_replacement(weights: &Tensor, samples: usize, generator: Option<&Generator>) -> Result<Tensor> {
    let uniform = uniform(weights.shape(), 0.0, 1.0, weights.dtype(), generator)?;
    // ln(1 − u) is 0 for u = 0: an arrival at time 0, unless there is no weight at all.
    let time = uniform.neg()?.log1p()?.neg()?.div(weights)?;
    let time = weights.gt(0)?.select(&time, f64::INFINITY)?;
    let (times, drawn) = time.topk(samples, false)?;
    times.lt(f64::INFINITY)?.select(&drawn, -1)
}
