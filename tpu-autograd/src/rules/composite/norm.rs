//! Normalisation over the last axes, or over all but that of channels. Statistics are computed again: they cost one pass over rows that are read anyway.

use super::super::{Context, Gradients, constant, scaled};
use super::widened;
use smallvec::SmallVec;
use tpu_core::ir::Attributes;
use tpu_core::{Result, Tensor};

/// The normalised axes, from the end, and the others.
fn split(x: &Tensor, attributes: &Attributes) -> (SmallVec<[isize; 4]>, SmallVec<[isize; 4]>) {
    let count = attributes.int("axes").unwrap_or(1) as isize;
    ((1..=count).map(|axis| -axis).collect(), (0..x.rank() as isize - count).collect())
}

/// With x̂ = (x − mean) r and ḡ = g · weight: `r (ḡ − mean(ḡ) − x̂ mean(ḡ x̂))`.
pub(super) fn layer_norm(cx: &Context<'_>, attributes: &Attributes) -> Result<Gradients> {
    let (g, x) = (widened(cx.grad()?)?, widened(&cx.input(0)?)?);
    let (axes, _) = split(&x, attributes);
    let mean = |x: &Tensor| x.mean(axes.iter().copied(), true);
    let centred = x.sub(&mean(&x)?)?;
    let variance = mean(&centred.square()?)?;
    let scale = variance.add(&constant(&variance, attributes.float("eps").unwrap_or(0.0))?)?.rsqrt()?;
    let normal = centred.mul(&scale)?;
    let weighted = weighted(cx, &g, attributes)?;
    let gradient = if cx.needs(0) {
        let along = mean(&weighted.mul(&normal)?)?;
        let inner = weighted.sub(&mean(&weighted)?)?.sub(&normal.mul(&along)?)?;
        Some(inner.mul(&scale)?.to_dtype(cx.operands[0].dtype)?)
    } else {
        None
    };
    affine(cx, gradient, &g, &normal, attributes)
}

/// With x̂ = x r and ḡ = g · weight: `r (ḡ − x̂ mean(ḡ x̂))`.
pub(super) fn rms_norm(cx: &Context<'_>, attributes: &Attributes) -> Result<Gradients> {
    let (g, x) = (widened(cx.grad()?)?, widened(&cx.input(0)?)?);
    let (axes, _) = split(&x, attributes);
    let mean = |x: &Tensor| x.mean(axes.iter().copied(), true);
    let square = mean(&x.square()?)?;
    let scale = square.add(&constant(&square, attributes.float("eps").unwrap_or(0.0))?)?.rsqrt()?;
    let normal = x.mul(&scale)?;
    let weighted = weighted(cx, &g, attributes)?;
    let gradient = if cx.needs(0) {
        let inner = weighted.sub(&normal.mul(&mean(&weighted.mul(&normal)?)?)?)?;
        Some(inner.mul(&scale)?.to_dtype(cx.operands[0].dtype)?)
    } else {
        None
    };
    affine(cx, gradient, &g, &normal, attributes)
}

/// As [`layer_norm`], over all axes but that of channels, where the weight leaves the means: Σ ḡ and Σ ḡ x̂ serve everything.
pub(super) fn batch_norm(cx: &Context<'_>, attributes: &Attributes) -> Result<Gradients> {
    let (g, x) = (widened(cx.grad()?)?, widened(&cx.input(0)?)?);
    let axes = || (0..x.rank() as isize).filter(|&axis| axis != 1);
    let centred = x.sub(&x.mean(axes(), true)?)?;
    let variance = centred.square()?.mean(axes(), true)?;
    let scale = variance.add(&constant(&variance, attributes.float("eps").unwrap_or(0.0))?)?.rsqrt()?;
    let normal = centred.mul(&scale)?;
    let (level, along) = (g.sum(axes(), true)?, g.mul(&normal)?.sum(axes(), true)?);
    let channels = x.shape().size(1);
    let each = 1.0 / (x.elements() as f64 / channels.max(1) as f64);
    let gradient = if cx.needs(0) {
        let inner = g.sub(&scaled(&level, each)?)?.sub(&normal.mul(&scaled(&along, each)?)?)?;
        let scale = match attributes.flag("weight") {
            true => scale.mul(&widened(&cx.input(1)?)?.reshape(scale.shape())?)?,
            false => scale,
        };
        Some(inner.mul(&scale)?.to_dtype(cx.operands[0].dtype)?)
    } else {
        None
    };
    let mut gradients = SmallVec::from_iter([gradient]);
    for (name, sum) in [("weight", along), ("bias", level)] {
        if attributes.flag(name) {
            let dtype = cx.operands[gradients.len()].dtype;
            gradients.push(Some(sum.reshape([channels])?.to_dtype(dtype)?));
        }
    }
    Ok(gradients)
}

/// The gradient of what the weight multiplied.
fn weighted(cx: &Context<'_>, g: &Tensor, attributes: &Attributes) -> Result<Tensor> {
    if attributes.flag("weight") { g.mul(&widened(&cx.input(1)?)?) } else { Ok(g.clone()) }
}

/// The gradients of weight and bias, behind that of x.
fn affine(
    cx: &Context<'_>,
    gradient: Option<Tensor>,
    g: &Tensor,
    normal: &Tensor,
    attributes: &Attributes,
) -> Result<Gradients> {
    let (_, others) = split(g, attributes);
    let mut gradients = SmallVec::from_iter([gradient]);
    for name in ["weight", "bias"].into_iter().filter(|name| attributes.flag(name)) {
        let at = gradients.len();
        gradients.push(match cx.needs(at) {
            true => {
                let each = if name == "weight" { g.mul(normal)? } else { g.clone() };
                Some(each.sum(others.iter().copied(), false)?.to_dtype(cx.operands[at].dtype)?)
            }
            false => None,
        });
    }
    Ok(gradients)
}
