//! Losses with margins, and the similarities that they compare.

use super::{Reduction, equal_pair, pair, reduce};
use crate::composite::widened;
use crate::{relu, require};
use tpu_core::{Result, Tensor};

/// x₁ · x₂ / (max(|x₁|, eps) · max(|x₂|, eps)) along an axis. PyTorch's `cosine_similarity`, whose defaults are axis 1 and 1e-8.
///
/// Operands: shapes that broadcast, one float dtype. Errors otherwise.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_slice(&[3.0f32, 4.0])?;
/// let y = tpu_ops::cosine_similarity(&x, &x.neg()?, 0, 1e-8)?;
/// assert_eq!(y.item::<f32>()?, -1.0);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn cosine_similarity(x1: &Tensor, x2: &Tensor, axis: isize, eps: f64) -> Result<Tensor> {
    let (a, b) = pair("cosine_similarity", x1, x2)?;
    cosine(&a, &b, axis, eps)?.to_dtype(x1.dtype())
}

#[track_caller]
fn cosine(a: &Tensor, b: &Tensor, axis: isize, eps: f64) -> Result<Tensor> {
    let (a, b) = (unit(a, axis, eps)?, unit(b, axis, eps)?);
    a.mul(&b)?.sum([axis], false)
}

/// x divided by its length along an axis. The length is at least `eps`; the derivative sees no such bound, and none of the root
/// at 0, as in PyTorch.
#[track_caller]
fn unit(x: &Tensor, axis: isize, eps: f64) -> Result<Tensor> {
    let square = x.square()?.sum([axis], true)?;
    let none = square.eq(0)?;
    let length = none.select(0, &none.select(1, &square)?.sqrt()?)?;
    let length = length.add(&length.detach().neg()?.add(eps)?.maximum(0.0)?)?;
    x.div(&length)
}

/// (Σ |x₁ − x₂ + eps|^p)^(1/p) along the last axis. PyTorch's `pairwise_distance`, whose defaults are p = 2 and 1e-6.
///
/// Operands: shapes that broadcast, one float dtype. Errors otherwise.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_slice(&[3.0f32, 4.0])?;
/// assert_eq!(tpu_ops::pairwise_distance(&x, &x.zeros_like()?, 2.0, 0.0)?.item::<f32>()?, 5.0);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn pairwise_distance(x1: &Tensor, x2: &Tensor, p: f64, eps: f64) -> Result<Tensor> {
    let (a, b) = pair("pairwise_distance", x1, x2)?;
    distance(&a, &b, p, eps)?.to_dtype(x1.dtype())
}

#[track_caller]
fn distance(a: &Tensor, b: &Tensor, p: f64, eps: f64) -> Result<Tensor> {
    let difference = a.sub(b)?.add(eps)?;
    if p == 2.0 {
        return difference.square()?.sum([-1], false)?.sqrt();
    }
    if p == 1.0 {
        return difference.abs()?.sum([-1], false);
    }
    difference.abs()?.pow(p)?.sum([-1], false)?.pow(1.0 / p)
}

/// x where the target is 1, max(0, margin − x) where it is −1, reduced. PyTorch's `hinge_embedding_loss`, whose default margin
/// is 1.
///
/// `input`, `target`: shapes that broadcast, one float dtype. Errors otherwise.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{Reduction, hinge_embedding_loss};
/// let (x, target) = (Tensor::from_slice(&[3.0f32, 0.25])?, Tensor::from_slice(&[1.0f32, -1.0])?);
/// let loss = hinge_embedding_loss(&x, &target, 1.0, Reduction::None)?;
/// assert_eq!(loss.to_vec::<f32>()?, [3.0, 0.75]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn hinge_embedding_loss(input: &Tensor, target: &Tensor, margin: f64, reduction: Reduction) -> Result<Tensor> {
    let (x, t) = pair("hinge_embedding_loss", input, target)?;
    // A target that is neither 1 nor −1 counts both, as in PyTorch.
    let close = t.eq(-1)?.select(0, &x)?;
    let far = t.eq(1)?.select(0, &relu(&x.neg()?.add(margin)?)?)?;
    reduce(&close.add(&far)?, reduction)?.to_dtype(input.dtype())
}

/// max(0, −t (x₁ − x₂) + margin), reduced. PyTorch's `margin_ranking_loss`, whose default margin is 0.
///
/// Operands: shapes that broadcast, one float dtype. Errors otherwise.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{Reduction, margin_ranking_loss};
/// let (a, b) = (Tensor::from_slice(&[3.0f32])?, Tensor::from_slice(&[1.0f32])?);
/// assert_eq!(margin_ranking_loss(&a, &b, &b.neg()?, 0.5, Reduction::Mean)?.item::<f32>()?, 2.5);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn margin_ranking_loss(
    input1: &Tensor,
    input2: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    let (a, b) = pair("margin_ranking_loss", input1, input2)?;
    Tensor::checked(|| require::same_dtype("margin_ranking_loss", ("input", input1), ("target", target)))?;
    let losses = widened(target)?.neg()?.mul(&a.sub(&b)?)?.add(margin)?;
    reduce(&relu(&losses)?, reduction)?.to_dtype(input1.dtype())
}

/// ln(1 + e^(−t x)), reduced. PyTorch's `soft_margin_loss`.
///
/// `input`, `target`: one shape and float dtype. Errors otherwise.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{Reduction, soft_margin_loss};
/// let x = Tensor::from_slice(&[0.0f64])?;
/// assert_eq!(soft_margin_loss(&x, &x.ones_like()?, Reduction::Mean)?.item::<f64>()?, 2f64.ln());
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn soft_margin_loss(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    let (x, t) = equal_pair("soft_margin_loss", input, target)?;
    reduce(&crate::logsigmoid(&t.mul(&x)?)?.neg()?, reduction)?.to_dtype(input.dtype())
}

/// 1 − cos(x₁, x₂) where the target is 1, max(0, cos(x₁, x₂) − margin) where it is −1, reduced. PyTorch's
/// `cosine_embedding_loss`, whose default margin is 0.
///
/// Inputs: `[batch, width]` or `[width]`; `target`: without the width; one float dtype. Errors otherwise.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{Reduction, cosine_embedding_loss};
/// let x = Tensor::from_vec(vec![3.0f32, 4.0], [1, 2])?;
/// let loss = cosine_embedding_loss(&x, &x.neg()?, &Tensor::from_slice(&[1.0f32])?, 0.0, Reduction::Mean)?;
/// assert!((loss.item::<f32>()? - 2.0).abs() < 1e-6);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn cosine_embedding_loss(
    input1: &Tensor,
    input2: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    let (a, b) = pair("cosine_embedding_loss", input1, input2)?;
    Tensor::checked(|| require::same_dtype("cosine_embedding_loss", ("input", input1), ("target", target)))?;
    let (cosine, t) = (embedded_cosine(&a, &b)?, widened(target)?);
    let close = t.eq(1)?.select(&cosine.neg()?.add(1)?, 0)?;
    let far = t.eq(-1)?.select(&relu(&cosine.sub(margin)?)?, 0)?;
    reduce(&close.add(&far)?, reduction)?.to_dtype(input1.dtype())
}

/// The cosine with a small number under both roots, which this loss has instead of a bound.
#[track_caller]
fn embedded_cosine(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    const EPS: f64 = 1e-12;
    let (aa, bb) = (a.square()?.sum([-1], false)?.add(EPS)?, b.square()?.sum([-1], false)?.add(EPS)?);
    a.mul(b)?.sum([-1], false)?.div(&aa.mul(&bb)?.sqrt()?)
}

/// max(0, |anchor − positive| − |anchor − negative| + margin), reduced, with [`pairwise_distance`] of this `p` and an eps of
/// 1e-6. PyTorch's `triplet_margin_loss`, whose defaults are a margin of 1 and p = 2.
///
/// Operands: shapes that broadcast, one float dtype. Errors otherwise.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{Reduction, triplet_margin_loss};
/// let x = Tensor::from_slice(&[3.0f32, 4.0])?;
/// let loss = triplet_margin_loss(&x, &x, &x, 1.0, 2.0, Reduction::Mean)?;
/// assert_eq!(loss.item::<f32>()?, 1.0);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn triplet_margin_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    margin: f64,
    p: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    let (a, near) = pair("triplet_margin_loss", anchor, positive)?;
    let (_, far) = pair("triplet_margin_loss", anchor, negative)?;
    let losses = distance(&a, &near, p, 1e-6)?.sub(&distance(&a, &far, p, 1e-6)?)?.add(margin)?;
    reduce(&relu(&losses)?, reduction)?.to_dtype(anchor.dtype())
}
