//! Continuous distributions and coins.

use super::{Generator, bits, double_bits};
use crate::composite::{attributes, composite};
use crate::place::beside;
use crate::require;
use std::f64::consts::SQRT_2;
use tpu_core::ir::Attribute;
use tpu_core::{DType, Result, Shape, Tensor, ensure};

/// Uniform numbers in `[low, high)`: `low + u · (high − low)`, where rounding may give `high`. PyTorch's `rand` and `uniform_`.
///
/// u is a multiple of 2⁻²⁴ for float32, of 2⁻⁵³ (two words) for float64, of 2⁻¹¹ for float16 and of 2⁻⁸ for bfloat16: never
/// rounded, never 1. Errors on a dtype that is no float, or bounds that are not finite or in the wrong order.
///
/// ```
/// use tpu_core::DType;
/// let x = tpu_ops::uniform([3], -1.0, 1.0, DType::F32, None)?;
/// assert!(x.to_vec::<f32>()?.iter().all(|v| (-1.0..1.0).contains(v)));
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn uniform(
    shape: impl Into<Shape>,
    low: f64,
    high: f64,
    dtype: DType,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    Tensor::checked(|| {
        require::float_dtype("uniform", "a result", dtype)?;
        let ordered = low.is_finite() && high.is_finite() && low <= high;
        ensure!(ordered, Value, "uniform", "requires finite bounds, low not above high, got {low} and {high}");
        Ok(())
    })?;
    let unit = unit(&shape.into(), dtype, generator)?;
    if (low, high) == (0.0, 1.0) { Ok(unit) } else { unit.mul(high - low)?.add(low) }
}

/// Uniform numbers in [0, 1) without rounding, composite `tpu.uniform` of the random words.
#[track_caller]
fn unit(shape: &Shape, dtype: DType, generator: Option<&Generator>) -> Result<Tensor> {
    let attributes = attributes([("dtype", Attribute::Text(dtype.name().into()))]);
    let words = if dtype == DType::F64 { double_bits(shape, generator)? } else { bits(shape, generator)? };
    composite("tpu.uniform", attributes, &[&words], |operands| {
        let words = &operands[0];
        let kept = match dtype {
            DType::F64 => {
                let high = words.narrow(-1, 0, 1)?.squeeze(-1)?.shift_right_logical(5)?.to_dtype(DType::F64)?;
                let low = words.narrow(-1, 1, 1)?.squeeze(-1)?.shift_right_logical(6)?.to_dtype(DType::F64)?;
                return high.mul(2f64.powi(26))?.add(&low)?.mul(2f64.powi(-53));
            }
            DType::BF16 => 8,
            DType::F16 => 11,
            _ => 24,
        };
        words.shift_right_logical(32 - kept)?.to_dtype(dtype)?.mul(2f64.powi(-kept))
    })
}

/// Normal numbers of a mean and a standard deviation. PyTorch's `normal` and `randn`.
///
/// `mean + std · z`, z computed in at least float32 by the formula of [`tpu_core::random`], at most 5.42 in magnitude. Errors on
/// a dtype that is no float, a mean that is not finite, or a deviation that is negative or not finite.
///
/// ```
/// use tpu_core::DType;
/// let x = tpu_ops::normal([3], 0.0, 0.02, DType::F32, None)?;
/// assert!(x.to_vec::<f32>()?.iter().all(|v| v.abs() < 0.11));
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn normal(
    shape: impl Into<Shape>,
    mean: f64,
    std: f64,
    dtype: DType,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    Tensor::checked(|| {
        require::float_dtype("normal", "a result", dtype)?;
        let valid = mean.is_finite() && std.is_finite() && std >= 0.0;
        ensure!(valid, Value, "normal", "requires a finite mean and a deviation from 0 on, got {mean} and {std}");
        Ok(())
    })?;
    let words = bits(&shape.into(), generator)?;
    let wide = if dtype == DType::F64 { dtype } else { DType::F32 };
    let attributes = attributes([("dtype", Attribute::Text(wide.name().into()))]);
    let standard = composite("tpu.normal", attributes, &[&words], |operands| {
        // 2u − 1 = (2n + 1 − 2²⁴) · 2⁻²⁴ for the upper 24 bits n: an odd integer below 2²⁴ in magnitude, exact in float32.
        let upper = operands[0].shift_right_logical(8)?.to_dtype(DType::I32)?;
        let centred = upper.mul(2)?.add(1 - (1 << 24))?.to_dtype(wide)?.mul(2f64.powi(-24))?;
        centred.erf_inv()?.mul(SQRT_2)
    })?;
    let scaled = if std == 1.0 { standard } else { standard.mul(std)? };
    let moved = if mean == 0.0 { scaled } else { scaled.add(mean)? };
    moved.to_dtype(dtype)
}

/// True with probability `p`: bool. `p` is rounded to a multiple of 2⁻³². Errors if it is not from 0 to 1.
///
/// ```
/// assert_eq!(tpu_ops::bernoulli([2], 1.0, None)?.to_vec::<bool>()?, [true, true]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn bernoulli(shape: impl Into<Shape>, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
    Tensor::checked(|| {
        ensure!((0.0..=1.0).contains(&p), Value, "bernoulli", "requires a probability from 0 to 1, got {p}");
        Ok(())
    })?;
    below(&shape.into(), p, generator)
}

/// [`bernoulli`] for a probability that is in range.
#[track_caller]
pub(crate) fn below(shape: &Shape, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
    let words = bits(shape, generator)?;
    let threshold = (p * 2f64.powi(32)).round() as u64;
    match threshold {
        0 => words.lt(0),
        _ => words.le(threshold - 1),
    }
}

/// One with the probability that each element of `p` is, else zero, in its dtype. PyTorch's `bernoulli`.
///
/// `p`: any shape, float. Compares with a uniform number of 24 bits. A probability below 0 acts as 0, above 1 as 1, NaN as 0.
/// Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// let p = Tensor::from_slice(&[0.0f32, 1.0])?;
/// assert_eq!(tpu_ops::random::bernoulli_like(&p, None)?.to_vec::<f32>()?, [0.0, 1.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn bernoulli_like(p: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    Tensor::checked(|| require::float("bernoulli", "probabilities", p))?;
    let uniform = beside(p, || unit(p.shape(), DType::F32, generator))?;
    let probability = p.detach();
    let wide = if p.dtype() == DType::F64 { probability } else { probability.to_dtype(DType::F32)? };
    uniform.to_dtype(wide.dtype())?.lt(&wide)?.to_dtype(p.dtype())
}
