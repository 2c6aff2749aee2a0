//! Reductions and running reductions.

use super::indexing::scatter_along;
use super::{Context, Gradients, Saves, broadcast, conjugate, constant, record, scalar};
use smallvec::SmallVec;
use tpu_core::ir::{Axes, Op, Reducer};
use tpu_core::{DType, Result, Shape, Tensor};

pub(super) fn saves(kind: Reducer) -> Saves {
    match kind {
        Reducer::Sum | Reducer::And | Reducer::Or | Reducer::Xor => Saves::NOTHING,
        Reducer::Product => Saves::input(0),
        Reducer::Max | Reducer::Min => Saves::input(0).and(Saves::output(0)),
    }
}

pub(super) fn gradients(cx: &Context<'_>, kind: Reducer, axes: &Axes) -> Result<Gradients> {
    match kind {
        Reducer::Sum => cx.one(|g| unreduced(g, &cx.operands[0].shape, axes)),
        Reducer::Max | Reducer::Min => cx.one(|g| extreme(&cx.input(0)?, cx.output(0)?, g, axes)),
        Reducer::Product => cx.one(|g| product(&cx.input(0)?, g, axes)),
        Reducer::And | Reducer::Or | Reducer::Xor => cx.no_derivative(""),
    }
}

/// Equal extremes `y` of `x` share evenly, as PyTorch's amax has it.
pub(super) fn extreme(x: &Tensor, y: &Tensor, g: &Tensor, axes: &Axes) -> Result<Tensor> {
    let hits = x.eq(&unreduced(y, x.shape(), axes)?)?.to_dtype(g.dtype())?;
    let count = record(Op::Reduce { kind: Reducer::Sum, axes: axes.clone() }, &[&hits])?;
    hits.mul(&unreduced(&g.div(&count)?, x.shape(), axes)?)
}

/// Each reduced value repeated where its elements were.
fn unreduced(x: &Tensor, shape: &Shape, axes: &Axes) -> Result<Tensor> {
    let kept = (0..shape.rank()).filter(|axis| !axes.contains(axis)).collect();
    broadcast(x, shape, kept)
}

/// For each element the product of all others, without division: so zeros are no exception.
pub(super) fn product(x: &Tensor, g: &Tensor, axes: &Axes) -> Result<Tensor> {
    let kept: SmallVec<[usize; 6]> = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    let order: SmallVec<[usize; 6]> = kept.iter().chain(axes).copied().collect();
    let moved = x.permute(order.iter().map(|&axis| axis as isize))?;
    let count: usize = axes.iter().map(|&axis| x.shape().size(axis)).product();
    let rows: Shape = kept.iter().map(|&axis| x.shape().size(axis)).chain([count]).collect();
    let flat = moved.reshape(&rows)?;
    let last = kept.len();
    let before = shifted(&flat, last, false)?.cumulative(Reducer::Product, last as isize, false)?;
    let after = shifted(&flat, last, true)?.cumulative(Reducer::Product, last as isize, true)?;
    let spread = broadcast(g, &rows, (0..last).collect())?;
    let gradient = spread.mul(&conjugate(&before.mul(&after)?)?)?.reshape(moved.shape())?;
    super::layout::transpose_back(&gradient, &order.iter().copied().collect())
}

/// Moved one place along an axis, away from the end it starts at: the place that becomes free holds a one.
fn shifted(x: &Tensor, axis: usize, to_start: bool) -> Result<Tensor> {
    if x.shape().size(axis) == 0 {
        return Ok(x.clone());
    }
    shift(x, axis, if to_start { -1 } else { 1 }, 1)
}

/// Moved by some places along an axis, with `fill` where nothing came from.
pub(super) fn shift(x: &Tensor, axis: usize, by: i64, fill: i64) -> Result<Tensor> {
    let amounts = |amount: i64| (0..x.rank()).map(|other| if other == axis { amount } else { 0 }).collect();
    let op = Op::Pad { low: amounts(by), high: amounts(-by), interior: SmallVec::from_elem(0, x.rank()) };
    record(op, &[x, &scalar(x.dtype(), fill)?])
}

/// The gradient of the value goes to the element it was.
pub(super) fn arg_reduce(cx: &Context<'_>, axis: usize) -> Result<Gradients> {
    let Some(g) = cx.grad_of(0) else { return Ok(cx.none()) };
    let shape = &cx.operands[0].shape;
    let axes = SmallVec::from_slice(&[axis]);
    let places = Tensor::iota(shape, axis, DType::I64)?;
    let hit = places.eq(&unreduced(cx.output(1)?, shape, &axes)?)?;
    let spread = unreduced(g, shape, &axes)?;
    Ok(SmallVec::from_iter([Some(hit.select(&spread, &constant(&spread, 0)?)?)]))
}

pub(super) fn cumulative_saves(kind: Reducer) -> Saves {
    saves(kind)
}

pub(super) fn cumulative(cx: &Context<'_>, kind: Reducer, axis: usize, reverse: bool) -> Result<Gradients> {
    let along = axis as isize;
    match kind {
        Reducer::Sum => cx.one(|g| g.cumulative(Reducer::Sum, along, !reverse)),
        Reducer::Product => cx.one(|g| {
            let x = cx.input(0)?;
            // y_k = Π_{j≤k} x_j gives ∂L/∂x_i = (Π_{j<i} x_j) · s_i with s_i = g_i + x_{i+1} s_{i+1}: no division, so zeros
            // are no exception.
            let before = shifted(&x, axis, reverse)?.cumulative(Reducer::Product, along, reverse)?;
            let next = if x.shape().size(axis) == 0 { x } else { shift(&x, axis, if reverse { 1 } else { -1 }, 0)? };
            conjugate(&before)?.mul(&recurrence(g, &conjugate(&next)?, axis, reverse)?)
        }),
        Reducer::Max | Reducer::Min => cx.one(|g| extreme_so_far(cx, g, axis, reverse)),
        Reducer::And | Reducer::Or | Reducer::Xor => cx.no_derivative(""),
    }
}

/// `s_i = b_i + a_i · s_{i+1}` along an axis (from `s_{i−1}` if reversed), by doubling the distance looked ahead.
fn recurrence(b: &Tensor, a: &Tensor, axis: usize, reverse: bool) -> Result<Tensor> {
    let (mut a, mut b) = (a.clone(), b.clone());
    let mut distance = 1;
    while distance < b.shape().size(axis) {
        let by = if reverse { distance as i64 } else { -(distance as i64) };
        b = b.add(&a.mul(&shift(&b, axis, by, 0)?)?)?;
        a = a.mul(&shift(&a, axis, by, 0)?)?;
        distance *= 2;
    }
    Ok(b)
}

/// The gradient goes to the latest element that was the extreme, as in PyTorch's cummax; NaN counts as one.
fn extreme_so_far(cx: &Context<'_>, g: &Tensor, axis: usize, reverse: bool) -> Result<Tensor> {
    let (x, y) = (cx.input(0)?.detach(), cx.output(0)?.detach());
    let news = x.eq(&y)?.bitwise_or(&x.ne(&x)?)?;
    let places = Tensor::iota(x.shape(), axis, DType::I64)?;
    let size = x.shape().size(axis) as i64;
    let (none, latest) = if reverse { (size, Reducer::Min) } else { (-1, Reducer::Max) };
    let places = news.select(&places, &constant(&places, none)?)?.cumulative(latest, axis as isize, reverse)?;
    scatter_along(g, &places, axis, g.shape(), true)
}
