//! First values of parameters, by the formulas of PyTorch's `nn.init`.
//!
//! Shapes are `[out, in, …]`: fan-in is the number of inputs of one output, fan-out that of outputs of one input.

use tpu_core::{DType, Result, Shape, Tensor, ensure};
use tpu_ops::{Generator, normal, uniform};

/// Which distribution the values are drawn from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distribution {
    /// Uniform in ±√3 · deviation.
    Uniform,
    /// Normal.
    Normal,
}

/// Glorot's: of deviation gain · √(2 / (fan-in + fan-out)). PyTorch's `xavier_uniform_` and `xavier_normal_`.
///
/// Errors on a shape of fewer than two axes.
///
/// ```
/// use tpu_autograd::nn::init::{Distribution, xavier};
/// use tpu_core::DType;
/// let w = xavier([2, 4], 1.0, Distribution::Uniform, DType::F32, &tpu_ops::Generator::new(0))?;
/// assert!(w.to_vec::<f32>()?.iter().all(|v| v.abs() <= 1.0));
/// # Ok::<(), tpu_core::Error>(())
/// ```
pub fn xavier(
    shape: impl Into<Shape>,
    gain: f64,
    distribution: Distribution,
    dtype: DType,
    generator: &Generator,
) -> Result<Tensor> {
    let shape = shape.into();
    let (inputs, outputs) = fans("xavier", &shape)?;
    draw(shape, gain * (2.0 / (inputs + outputs)).sqrt(), distribution, dtype, generator)
}

/// He's, for layers before a leaky ReLU of this slope, 0 for a plain one: of deviation √(2 / (1 + slope²) / fan-in). PyTorch's
/// `kaiming_uniform_` and `kaiming_normal_`. Errors as of [`xavier`].
pub fn kaiming(
    shape: impl Into<Shape>,
    slope: f64,
    distribution: Distribution,
    dtype: DType,
    generator: &Generator,
) -> Result<Tensor> {
    let shape = shape.into();
    let (inputs, _) = fans("kaiming", &shape)?;
    draw(shape, (2.0 / (1.0 + slope * slope) / inputs).sqrt(), distribution, dtype, generator)
}

fn fans(op: &'static str, shape: &Shape) -> Result<(f64, f64)> {
    ensure!(shape.rank() >= 2, Shape, op, "requires a shape of at least two axes, got {shape}");
    let field: f64 = shape.sizes()[2..].iter().map(|&size| size as f64).product();
    Ok((shape.size(1) as f64 * field, shape.size(0) as f64 * field))
}

fn draw(
    shape: Shape,
    deviation: f64,
    distribution: Distribution,
    dtype: DType,
    generator: &Generator,
) -> Result<Tensor> {
    // Without inputs there are no elements either.
    let deviation = if deviation.is_finite() { deviation } else { 0.0 };
    match distribution {
        Distribution::Uniform => {
            let bound = 3f64.sqrt() * deviation;
            uniform(shape, -bound, bound, dtype, Some(generator))
        }
        Distribution::Normal => normal(shape, 0.0, deviation, dtype, Some(generator)),
    }
}

/// A layer's default: weight and bias uniform in ±1/√fan-in, which for the weight is [`kaiming`] of slope √5.
pub(super) fn layer(
    shape: &[usize],
    bias: bool,
    dtype: DType,
    generator: &Generator,
) -> Result<(Tensor, Option<Tensor>)> {
    let bound = bound(shape);
    let weight = uniform(shape, -bound, bound, dtype, Some(generator))?;
    let bias = if bias { Some(self::bias(shape[0], shape, dtype, generator)?) } else { None };
    Ok((weight, bias))
}

/// A bias beside a weight of this shape, by default.
pub(super) fn bias(outputs: usize, weight: &[usize], dtype: DType, generator: &Generator) -> Result<Tensor> {
    let bound = bound(weight);
    uniform([outputs], -bound, bound, dtype, Some(generator))
}

/// 1/√fan-in
fn bound(weight: &[usize]) -> f64 {
    let fan: usize = weight[1..].iter().product();
    if fan == 0 { 0.0 } else { 1.0 / (fan as f64).sqrt() }
}
