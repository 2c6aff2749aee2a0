//! Activation functions.

mod piecewise;
mod smooth;

pub use piecewise::{hardshrink, hardsigmoid, hardswish, hardtanh, leaky_relu, prelu, relu6, softshrink, threshold};
pub use smooth::{celu, elu, glu, logsigmoid, mish, selu, softplus, softsign, tanhshrink};

use crate::composite::{attributes, composite, widened};
use crate::require;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};
use tpu_core::ir::{Attribute, Attributes};
use tpu_core::{Result, Tensor};

/// max(x, 0), NaN stays; its derivative at 0 is 0. PyTorch's `relu`.
///
/// `x`: any shape, any real dtype but bool.
///
/// ```
/// use tpu_core::Tensor;
/// let y = tpu_ops::relu(&Tensor::from_slice(&[-1.0f32, 2.0])?)?;
/// assert_eq!(y.to_vec::<f32>()?, [0.0, 2.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn relu(x: &Tensor) -> Result<Tensor> {
    x.le(0)?.select(0, x)
}

/// The two formulas of [`gelu`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Gelu {
    /// x · Φ(x) = x/2 · (1 + erf(x / √2)). PyTorch's `approximate="none"`.
    #[default]
    Erf,
    /// x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))). PyTorch's `approximate="tanh"`.
    Tanh,
}

/// The Gaussian error linear unit, composite `tpu.gelu` with the attribute `approximate` (`none` or `tanh`). PyTorch's `gelu`.
///
/// `x`: any shape, float. The result has its type. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{Gelu, gelu};
/// let y = gelu(&Tensor::from_slice(&[0.0f32, 10.0])?, Gelu::Tanh)?;
/// assert_eq!(y.to_vec::<f32>()?, [0.0, 10.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn gelu(x: &Tensor, form: Gelu) -> Result<Tensor> {
    Tensor::checked(|| require::float("gelu", "an input", x))?;
    let approximate = match form {
        Gelu::Erf => "none",
        Gelu::Tanh => "tanh",
    };
    let attributes = attributes([("approximate", Attribute::Text(approximate.into()))]);
    composite("tpu.gelu", attributes, &[x], |operands| {
        let x = widened(&operands[0])?;
        let gate = match form {
            Gelu::Erf => x.mul(FRAC_1_SQRT_2)?.erf()?,
            Gelu::Tanh => {
                // √(2/π) = √2 · (2/√π) / 2
                let inner = x.square()?.mul(&x)?.mul(0.044715)?.add(&x)?;
                inner.mul(SQRT_2 * FRAC_2_SQRT_PI * 0.5)?.tanh()?
            }
        };
        x.mul(0.5)?.mul(&gate.add(1.0)?)?.to_dtype(operands[0].dtype())
    })
}

/// x · σ(x), composite `tpu.silu`. PyTorch's `silu`, also called swish.
///
/// `x`: any shape, float. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// assert_eq!(tpu_ops::silu(&Tensor::from_slice(&[0.0f32])?)?.to_vec::<f32>()?, [0.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn silu(x: &Tensor) -> Result<Tensor> {
    Tensor::checked(|| require::float("silu", "an input", x))?;
    composite("tpu.silu", Attributes::default(), &[x], |operands| {
        let x = widened(&operands[0])?;
        x.mul(&x.sigmoid()?)?.to_dtype(operands[0].dtype())
    })
}

/// 1 / (1 + e⁻ˣ). PyTorch's `sigmoid`.
///
/// `x`: any shape, float. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// assert_eq!(tpu_ops::sigmoid(&Tensor::from_slice(&[0.0f32])?)?.to_vec::<f32>()?, [0.5]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn sigmoid(x: &Tensor) -> Result<Tensor> {
    x.sigmoid()
}

/// Hyperbolic tangent. PyTorch's `tanh`.
///
/// `x`: any shape, float. Errors on another dtype.
///
/// ```
/// use tpu_core::Tensor;
/// assert_eq!(tpu_ops::tanh(&Tensor::from_slice(&[0.0f32])?)?.to_vec::<f32>()?, [0.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn tanh(x: &Tensor) -> Result<Tensor> {
    x.tanh()
}

/// The input of a function of floats in the dtype that it is computed in.
#[track_caller]
fn float_input(op: &'static str, x: &Tensor) -> Result<Tensor> {
    Tensor::checked(|| require::float(op, "an input", x))?;
    widened(x)
}
