//! Normalisation: of rows here, of channels in `channels`.

mod channels;

pub use channels::{BatchNorm, Normalized, batch_norm, group_norm, instance_norm};

use crate::composite::{attributes, composite, widened};
use crate::require;
use smallvec::SmallVec;
use tpu_core::ir::Attribute;
use tpu_core::{Result, Tensor, ensure};

/// (x − mean) / √(var + eps) · weight + bias, mean and (biased) variance over the last `normalized.len()` axes; composite
/// `tpu.layer_norm` of x, the weight and the bias that there are, with the attributes `axes` (how many trailing ones), `eps`,
/// `weight` and `bias` (flags). PyTorch's `layer_norm`.
///
/// `x`: float, its last axes have the sizes `normalized`, at least one. `weight`, `bias`: shape `normalized`, dtype of `x`.
/// Errors on other shapes or dtypes.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_slice(&[1.0f32, 3.0])?;
/// assert_eq!(tpu_ops::layer_norm(&x, &[2], None, None, 0.0)?.to_vec::<f32>()?, [-1.0, 1.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn layer_norm(
    x: &Tensor,
    normalized: &[usize],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<Tensor> {
    let axes = trailing("layer_norm", x, normalized, &[("weight", weight), ("bias", bias)])?;
    let attributes = attributes([
        ("axes", Attribute::Int(axes.len() as i64)),
        ("eps", Attribute::Float(eps)),
        ("weight", Attribute::Bool(weight.is_some())),
        ("bias", Attribute::Bool(bias.is_some())),
    ]);
    let operands: SmallVec<[&Tensor; 3]> = [Some(x), weight, bias].into_iter().flatten().collect();
    let (scaled, moved) = (weight.is_some(), bias.is_some());
    composite("tpu.layer_norm", attributes, &operands, |operands| {
        let x = widened(&operands[0])?;
        let centred = x.sub(&x.mean(axes.iter().copied(), true)?)?;
        let variance = centred.square()?.mean(axes.iter().copied(), true)?;
        let mut y = centred.mul(&variance.add(eps)?.rsqrt()?)?;
        let mut affine = operands[1..].iter();
        if scaled && let Some(weight) = affine.next() {
            y = y.mul(&widened(weight)?)?;
        }
        if moved && let Some(bias) = affine.next() {
            y = y.add(&widened(bias)?)?;
        }
        y.to_dtype(operands[0].dtype())
    })
}

/// x / √(mean(x²) + eps) · weight, the mean over the last `normalized.len()` axes; composite `tpu.rms_norm` of x and the
/// weight if there is one, with the attributes `axes`, `eps` and `weight`. PyTorch's `rms_norm`, whose default `eps` is the
/// machine epsilon of the dtype it computes in.
///
/// Shapes, dtypes and errors as of [`layer_norm`].
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_slice(&[3.0f32, -3.0])?;
/// assert_eq!(tpu_ops::rms_norm(&x, &[2], None, 0.0)?.to_vec::<f32>()?, [1.0, -1.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn rms_norm(x: &Tensor, normalized: &[usize], weight: Option<&Tensor>, eps: f64) -> Result<Tensor> {
    let axes = trailing("rms_norm", x, normalized, &[("weight", weight)])?;
    let attributes = attributes([
        ("axes", Attribute::Int(axes.len() as i64)),
        ("eps", Attribute::Float(eps)),
        ("weight", Attribute::Bool(weight.is_some())),
    ]);
    let operands: SmallVec<[&Tensor; 2]> = [Some(x), weight].into_iter().flatten().collect();
    composite("tpu.rms_norm", attributes, &operands, |operands| {
        let x = widened(&operands[0])?;
        let scale = x.square()?.mean(axes.iter().copied(), true)?.add(eps)?.rsqrt()?;
        let y = x.mul(&scale)?;
        let y = if let Some(weight) = operands.get(1) { y.mul(&widened(weight)?)? } else { y };
        y.to_dtype(operands[0].dtype())
    })
}

/// Checks the operands of a norm; gives the axes it runs over, from the end.
#[track_caller]
fn trailing(
    op: &'static str,
    x: &Tensor,
    normalized: &[usize],
    affine: &[(&str, Option<&Tensor>)],
) -> Result<SmallVec<[isize; 4]>> {
    Tensor::checked(|| {
        require::float(op, "an input", x)?;
        ensure!(!normalized.is_empty(), Shape, op, "requires at least one normalised axis, got none");
        ensure!(
            x.sizes().ends_with(normalized),
            Shape,
            op,
            "requires an input whose last axes are {normalized:?}, got {}",
            x.shape()
        );
        for &(name, tensor) in affine {
            if let Some(tensor) = tensor {
                require::sizes(op, name, tensor, normalized)?;
                require::same_dtype(op, ("input", x), (name, tensor))?;
            }
        }
        Ok((1..=normalized.len() as isize).rev().map(|axis| -axis).collect())
    })
}
