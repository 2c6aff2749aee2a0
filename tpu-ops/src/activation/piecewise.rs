//! Activation functions made of lines. Where two of them meet the derivative is PyTorch's: that of the piece that has the point.

use super::float_input;
use crate::require;
use tpu_core::{Result, Tensor, ensure};

/// min(max(x, 0), 6). PyTorch's `relu6`.
///
/// `x`: any shape, float. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// assert_eq!(tpu_ops::relu6(&Tensor::from_slice(&[-1.0f32, 2.0, 9.0])?)?.to_vec::<f32>()?, [0.0, 2.0, 6.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn relu6(x: &Tensor) -> Result<Tensor> {
    hardtanh(x, 0.0, 6.0)
}

/// x from `low` to `high`, and these outside; NaN stays. PyTorch's `hardtanh`, whose defaults are −1 and 1.
///
/// `x`: any shape, float. Errors on another dtype, or a `low` above `high`.
///
/// ```
/// use tpu_core::Tensor;
/// let y = tpu_ops::hardtanh(&Tensor::from_slice(&[-3.0f32, 0.5])?, -1.0, 1.0)?;
/// assert_eq!(y.to_vec::<f32>()?, [-1.0, 0.5]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn hardtanh(x: &Tensor, low: f64, high: f64) -> Result<Tensor> {
    Tensor::checked(|| {
        require::float("hardtanh", "an input", x)?;
        ensure!(low <= high, Value, "hardtanh", "requires low not above high, got {low} and {high}");
        Ok(())
    })?;
    let above = x.ge(high)?.select(high, x)?;
    x.le(low)?.select(low, &above)
}

/// min(max(x + 3, 0), 6) / 6. PyTorch's `hardsigmoid`.
///
/// `x`: any shape, float. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// assert_eq!(tpu_ops::hardsigmoid(&Tensor::from_slice(&[-5.0f32, 0.0])?)?.to_vec::<f32>()?, [0.0, 0.5]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn hardsigmoid(x: &Tensor) -> Result<Tensor> {
    let wide = float_input("hardsigmoid", x)?;
    let line = wide.add(3.0)?.div(6.0)?;
    let above = wide.ge(3.0)?.select(1.0, &line)?;
    wide.le(-3.0)?.select(0.0, &above)?.to_dtype(x.dtype())
}

/// x · min(max(x + 3, 0), 6) / 6. PyTorch's `hardswish`.
///
/// `x`: any shape, float. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// assert_eq!(tpu_ops::hardswish(&Tensor::from_slice(&[-5.0f32, 6.0])?)?.to_vec::<f32>()?, [0.0, 6.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn hardswish(x: &Tensor) -> Result<Tensor> {
    let wide = float_input("hardswish", x)?;
    wide.mul(&hardtanh(&wide.add(3.0)?, 0.0, 6.0)?)?.div(6.0)?.to_dtype(x.dtype())
}

/// x above 0, slope · x elsewhere. PyTorch's `leaky_relu`, whose default slope is 0.01.
///
/// `x`: any shape, float. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// let y = tpu_ops::leaky_relu(&Tensor::from_slice(&[-4.0f32, 2.0])?, 0.25)?;
/// assert_eq!(y.to_vec::<f32>()?, [-1.0, 2.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn leaky_relu(x: &Tensor, slope: f64) -> Result<Tensor> {
    let wide = float_input("leaky_relu", x)?;
    wide.gt(0)?.select(&wide, &wide.mul(slope)?)?.to_dtype(x.dtype())
}

/// x above 0, weight · x elsewhere. PyTorch's `prelu`.
///
/// `x`: any shape, float; `weight`: `[1]`, or a number for each channel, which are axis 1; of the dtype of `x`. Errors otherwise.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_vec(vec![-4.0f32, -4.0], [1, 2])?;
/// let y = tpu_ops::prelu(&x, &Tensor::from_slice(&[0.25f32, 0.5])?)?;
/// assert_eq!(y.to_vec::<f32>()?, [-1.0, -2.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn prelu(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    Tensor::checked(|| {
        require::same_dtype("prelu", ("input", x), ("weight", weight))?;
        let channels = if x.rank() > 1 { x.shape().size(1) } else { 1 };
        let fits = weight.rank() <= 1 && (weight.elements() == 1 || weight.elements() == channels);
        ensure!(
            fits,
            Shape,
            "prelu",
            "requires a weight of one element or one per channel, got weight {} and input {}",
            weight.shape(),
            x.shape()
        );
        Ok(())
    })?;
    let wide = float_input("prelu", x)?;
    let mut sizes = vec![1; x.rank()];
    if x.rank() > 1 {
        sizes[1] = weight.elements();
    }
    let weight = weight.reshape(sizes)?.to_dtype(wide.dtype())?;
    wide.gt(0)?.select(&wide, &wide.mul(&weight)?)?.to_dtype(x.dtype())
}

/// 0 from −lambda to lambda, x outside. PyTorch's `hardshrink`, whose default `lambda` is 0.5.
///
/// `x`: any shape, float. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// assert_eq!(tpu_ops::hardshrink(&Tensor::from_slice(&[0.5f32, -2.0])?, 0.5)?.to_vec::<f32>()?, [0.0, -2.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn hardshrink(x: &Tensor, lambda: f64) -> Result<Tensor> {
    Tensor::checked(|| require::float("hardshrink", "an input", x))?;
    x.abs()?.le(lambda)?.select(0, x)
}

/// x − lambda above lambda, x + lambda below −lambda, 0 between; NaN stays. PyTorch's `softshrink`, whose default `lambda` is 0.5.
///
/// `x`: any shape, float. Errors on another dtype, or a negative `lambda`.
///
/// ```
/// use tpu_core::Tensor;
/// assert_eq!(tpu_ops::softshrink(&Tensor::from_slice(&[0.25f32, -2.0])?, 0.5)?.to_vec::<f32>()?, [0.0, -1.5]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn softshrink(x: &Tensor, lambda: f64) -> Result<Tensor> {
    Tensor::checked(|| {
        ensure!(lambda >= 0.0, Value, "softshrink", "requires a lambda of at least 0, got {lambda}");
        Ok(())
    })?;
    let wide = float_input("softshrink", x)?;
    let moved = wide.gt(0)?.select(&wide.sub(lambda)?, &wide.add(lambda)?)?;
    wide.abs()?.le(lambda)?.select(0, &moved)?.to_dtype(x.dtype())
}

/// x above `threshold`, `value` elsewhere; NaN stays. PyTorch's `threshold`.
///
/// `x`: any shape, float. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// let y = tpu_ops::threshold(&Tensor::from_slice(&[1.0f32, 3.0])?, 2.0, -1.0)?;
/// assert_eq!(y.to_vec::<f32>()?, [-1.0, 3.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn threshold(x: &Tensor, threshold: f64, value: f64) -> Result<Tensor> {
    Tensor::checked(|| require::float("threshold", "an input", x))?;
    x.le(threshold)?.select(value, x)
}
