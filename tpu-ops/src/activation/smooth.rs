//! Activation functions with exponentials and logarithms.
//!
//! Exponentials stop where their branch is not taken: their derivative there would be infinite, times zero.

use super::float_input;
use tpu_core::{Result, Tensor, ensure};

/// ln(1 + e^(beta · x)) / beta, and x itself where beta · x is above `threshold`. PyTorch's `softplus`; its defaults are 1 and
/// 20.
///
/// `x`: any shape, float. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// let y = tpu_ops::softplus(&Tensor::from_slice(&[0.0f64, 30.0])?, 1.0, 20.0)?;
/// assert_eq!(y.to_vec::<f64>()?, [2f64.ln(), 30.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn softplus(x: &Tensor, beta: f64, threshold: f64) -> Result<Tensor> {
    let wide = float_input("softplus", x)?;
    let scaled = if beta == 1.0 { wide.clone() } else { wide.mul(beta)? };
    let linear = scaled.gt(threshold)?;
    let curve = linear.select(0.0, &scaled)?.exp()?.log1p()?;
    let curve = if beta == 1.0 { curve } else { curve.div(beta)? };
    linear.select(&wide, &curve)?.to_dtype(x.dtype())
}

/// x above 0, alpha · (eˣ − 1) elsewhere. PyTorch's `elu`, whose default `alpha` is 1.
///
/// `x`: any shape, float. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// let y = tpu_ops::elu(&Tensor::from_slice(&[-1e9f32, 2.0])?, 1.0)?;
/// assert_eq!(y.to_vec::<f32>()?, [-1.0, 2.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn elu(x: &Tensor, alpha: f64) -> Result<Tensor> {
    exponential(&float_input("elu", x)?, alpha, 1.0, 1.0)?.to_dtype(x.dtype())
}

/// [`elu`] of this `alpha`, all times a scale, such that means of 0 and variances of 1 stay (Klambauer et al. 2017). PyTorch's
/// `selu`.
///
/// `x`: any shape, float. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// let y = tpu_ops::selu(&Tensor::from_slice(&[1.0f32])?)?;
/// assert!((y.item::<f32>()? - 1.050701).abs() < 1e-6);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn selu(x: &Tensor) -> Result<Tensor> {
    const ALPHA: f64 = 1.673_263_242_354_377_2;
    const SCALE: f64 = 1.050_700_987_355_480_5;
    exponential(&float_input("selu", x)?, ALPHA * SCALE, SCALE, 1.0)?.to_dtype(x.dtype())
}

/// x above 0, alpha · (e^(x / alpha) − 1) elsewhere: [`elu`] with a continuous derivative. PyTorch's `celu`, whose default
/// `alpha` is 1.
///
/// `x`: any shape, float. Errors on another dtype, or an `alpha` of 0.
///
/// ```
/// use tpu_core::Tensor;
/// let y = tpu_ops::celu(&Tensor::from_slice(&[-1e9f32, 2.0])?, 3.0)?;
/// assert_eq!(y.to_vec::<f32>()?, [-3.0, 2.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn celu(x: &Tensor, alpha: f64) -> Result<Tensor> {
    Tensor::checked(|| {
        ensure!(alpha != 0.0, Value, "celu", "requires an alpha that is not 0, got {alpha}");
        Ok(())
    })?;
    exponential(&float_input("celu", x)?, alpha, 1.0, 1.0 / alpha)?.to_dtype(x.dtype())
}

/// above · x where x is above 0, below · (e^(inner · x) − 1) elsewhere.
#[track_caller]
fn exponential(x: &Tensor, below: f64, above: f64, inner: f64) -> Result<Tensor> {
    let positive = x.gt(0)?;
    let negative = positive.select(0.0, x)?;
    let curve = if inner == 1.0 { negative } else { negative.mul(inner)? }.expm1()?;
    let curve = if below == 1.0 { curve } else { curve.mul(below)? };
    let line = if above == 1.0 { x.clone() } else { x.mul(above)? };
    positive.select(&line, &curve)
}

/// x · tanh(ln(1 + eˣ)). PyTorch's `mish`.
///
/// `x`: any shape, float. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// let y = tpu_ops::mish(&Tensor::from_slice(&[0.0f32, 40.0])?)?;
/// assert_eq!(y.to_vec::<f32>()?, [0.0, 40.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn mish(x: &Tensor) -> Result<Tensor> {
    let wide = float_input("mish", x)?;
    wide.mul(&softplus(&wide, 1.0, 20.0)?.tanh()?)?.to_dtype(x.dtype())
}

/// ln σ(x) = min(x, 0) − ln(1 + e^−|x|). PyTorch's `logsigmoid`.
///
/// `x`: any shape, float. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// let y = tpu_ops::logsigmoid(&Tensor::from_slice(&[0.0f64, -1e9])?)?;
/// assert_eq!(y.to_vec::<f64>()?, [-(2f64.ln()), -1e9]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn logsigmoid(x: &Tensor) -> Result<Tensor> {
    let wide = float_input("logsigmoid", x)?;
    let tail = wide.abs()?.neg()?.exp()?.log1p()?;
    wide.minimum(0)?.sub(&tail)?.to_dtype(x.dtype())
}

/// x / (1 + |x|). PyTorch's `softsign`.
///
/// `x`: any shape, float. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// assert_eq!(tpu_ops::softsign(&Tensor::from_slice(&[-1.0f32])?)?.to_vec::<f32>()?, [-0.5]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn softsign(x: &Tensor) -> Result<Tensor> {
    let wide = float_input("softsign", x)?;
    wide.div(&wide.abs()?.add(1)?)?.to_dtype(x.dtype())
}

/// x − tanh(x). PyTorch's `tanhshrink`.
///
/// `x`: any shape, float. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// assert_eq!(tpu_ops::tanhshrink(&Tensor::from_slice(&[40.0f32])?)?.to_vec::<f32>()?, [39.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn tanhshrink(x: &Tensor) -> Result<Tensor> {
    let wide = float_input("tanhshrink", x)?;
    wide.sub(&wide.tanh()?)?.to_dtype(x.dtype())
}

/// The first half of an axis times the sigmoid of the second. PyTorch's `glu`.
///
/// `x`: float, of an even size along `axis`; the result has half of it. Errors otherwise.
///
/// ```
/// use tpu_core::Tensor;
/// assert_eq!(tpu_ops::glu(&Tensor::from_slice(&[3.0f32, 0.0])?, -1)?.to_vec::<f32>()?, [1.5]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn glu(x: &Tensor, axis: isize) -> Result<Tensor> {
    let half = Tensor::checked(|| {
        let size = x.shape().size(x.axis(axis, "glu")?);
        ensure!(size.is_multiple_of(2), Shape, "glu", "requires an even size along axis {axis}, got {}", x.shape());
        Ok(size / 2)
    })?;
    let wide = float_input("glu", x)?;
    let gate = wide.narrow(axis, half, half)?.sigmoid()?;
    wide.narrow(axis, 0, half)?.mul(&gate)?.to_dtype(x.dtype())
}
