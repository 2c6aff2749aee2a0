//! Shape and order of elements.

use super::{Context, Gradients, record, scalar};
use smallvec::SmallVec;
use tpu_core::ir::{Axes, Op, Reducer, Signed};
use tpu_core::tensor::Operand;
use tpu_core::{Result, Shape, Tensor};

/// The sum over what a broadcast repeated, in the operand's shape.
pub(super) fn narrow_to(g: &Tensor, operand: &Shape, axes: &Axes) -> Result<Tensor> {
    let stretched = |axis: usize, at: usize| operand.size(at) != g.shape().size(axis);
    let kept: SmallVec<[usize; 4]> =
        (0..axes.len()).filter(|&at| !stretched(axes[at], at)).map(|at| axes[at]).collect();
    let summed: Axes = (0..g.rank()).filter(|axis| !kept.contains(axis)).collect();
    let mut sum = g.clone();
    if !summed.is_empty() {
        sum = record(Op::Reduce { kind: Reducer::Sum, axes: summed }, &[g])?;
    }
    // What is left has the order of the result; the operand's order may be another.
    let mut order: SmallVec<[usize; 4]> = SmallVec::from_slice(&kept);
    order.sort_unstable();
    let back = kept.iter().map(|axis| order.iter().position(|other| other == axis).unwrap_or(0) as isize);
    sum.permute(back)?.reshape(operand)
}

pub(super) fn transpose_back(g: &Tensor, axes: &Axes) -> Result<Tensor> {
    let mut back: SmallVec<[isize; 6]> = SmallVec::from_elem(0, axes.len());
    for (to, &from) in axes.iter().enumerate() {
        back[from] = to as isize;
    }
    g.permute(back)
}

/// Zeros around and between the elements.
fn padded(x: &Tensor, low: Signed, high: Signed, interior: Axes) -> Result<Tensor> {
    if low.iter().chain(&high).all(|&amount| amount == 0) && interior.iter().all(|&amount| amount == 0) {
        return Ok(x.clone());
    }
    record(Op::Pad { low, high, interior }, &[x, &scalar(x.dtype(), 0)?])
}

pub(super) fn slice(cx: &Context<'_>, start: &Axes, strides: &Axes) -> Result<Gradients> {
    let operand = &cx.operands[0].shape;
    cx.one(|g| {
        let high = (0..g.rank()).map(|axis| {
            let count = g.shape().size(axis) as i64;
            let spread = if count == 0 { 0 } else { (count - 1) * strides[axis] as i64 + 1 };
            operand.size(axis) as i64 - start[axis] as i64 - spread
        });
        let low = start.iter().map(|&start| start as i64).collect();
        padded(g, low, high.collect(), strides.iter().map(|&stride| stride - 1).collect())
    })
}

pub(super) fn pad(cx: &Context<'_>, low: &Signed, high: &Signed, interior: &Axes) -> Result<Gradients> {
    let g = cx.grad()?;
    let negated = |amounts: &Signed| amounts.iter().map(|&amount| -amount).collect();
    let unpadded = padded(g, negated(low), negated(high), SmallVec::from_elem(0, low.len()))?;
    let inner = if interior.iter().any(|&holes| holes > 0) {
        let op = Op::Slice {
            start: SmallVec::from_elem(0, low.len()),
            limit: SmallVec::from_slice(unpadded.sizes()),
            strides: interior.iter().map(|&holes| holes + 1).collect(),
        };
        record(op, &[&unpadded])?
    } else {
        unpadded
    };
    // Everything that did not come from the operand came from the padding value.
    let value = if cx.needs(1) { Some(g.sum_all()?.sub(&inner.sum_all()?)?) } else { None };
    Ok(SmallVec::from_iter([Some(inner), value]))
}

/// Saved start indices, from operand `first` on.
fn starts<'a>(cx: &'a Context<'_>, first: usize) -> Result<SmallVec<[Operand<'a>; 6]>> {
    (first..cx.operands.len()).map(|at| cx.operand(at)).collect()
}

pub(super) fn dynamic_slice(cx: &Context<'_>) -> Result<Gradients> {
    let zeros = Tensor::zeros(&cx.operands[0].shape, cx.operands[0].dtype)?;
    let mut gradients = cx.none();
    gradients[0] = Some(zeros.dynamic_update_slice(cx.grad()?, &starts(cx, 1)?)?);
    Ok(gradients)
}

pub(super) fn dynamic_update_slice(cx: &Context<'_>) -> Result<Gradients> {
    let (g, starts) = (cx.grad()?, starts(cx, 2)?);
    let update = &cx.operands[1];
    let mut gradients = cx.none();
    if cx.needs(0) {
        gradients[0] = Some(g.dynamic_update_slice(&Tensor::zeros(&update.shape, update.dtype)?, &starts)?);
    }
    if cx.needs(1) {
        gradients[1] = Some(g.dynamic_slice(&starts, update.shape.sizes())?);
    }
    Ok(gradients)
}

pub(super) fn concatenate(cx: &Context<'_>, axis: usize) -> Result<Gradients> {
    let g = cx.grad()?;
    let mut start = 0;
    let mut gradients = Gradients::new();
    for (at, operand) in cx.operands.iter().enumerate() {
        let size = operand.shape.size(axis);
        let part = if cx.needs(at) { Some(g.narrow(axis as isize, start, size)?) } else { None };
        gradients.push(part);
        start += size;
    }
    Ok(gradients)
}
