//! Reductions over axes, along axes and over windows.

use super::{Choices, Grower};
use crate::ir::{Extreme, Op, Reducer, Type, Value, Window};
use std::sync::Arc;

pub fn reduce(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let kind = *choices.pick(Reducer::ALL);
    let x = grower.operand(choices, &Op::Reduce { kind, axes: Default::default() })?;
    let rank = grower.ty(x).shape.rank();
    // Often the last axis, as in softmax and norms.
    let axes = if rank > 0 && choices.one_in(2) { vec![rank - 1] } else { choices.subset(rank) };
    grower.push(Op::Reduce { kind, axes: axes.into_iter().collect() }, &[x])
}

pub fn arg_reduce(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let kind = *choices.pick(Extreme::ALL);
    let x = grower.operand(choices, &Op::ArgReduce { kind, axis: 0 })?;
    let axis = choices.below(grower.ty(x).shape.rank());
    grower.push(Op::ArgReduce { kind, axis }, &[x])
}

pub fn cumulative(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let (kind, reverse) = (*choices.pick(Reducer::ALL), choices.one_in(2));
    let x = grower.operand(choices, &Op::Cumulative { kind, axis: 0, reverse })?;
    let axis = choices.below(grower.ty(x).shape.rank());
    grower.push(Op::Cumulative { kind, axis, reverse }, &[x])
}

/// A window over an operand of these sizes, without base dilation if it must be one that selects.
fn window(choices: &mut Choices<'_>, sizes: &[usize], dilated: bool) -> Window {
    let mut window = Window {
        sizes: Default::default(),
        strides: Default::default(),
        base_dilations: Default::default(),
        window_dilations: Default::default(),
        padding: Default::default(),
    };
    for _ in sizes {
        window.sizes.push(*choices.pick(&[2, 1, 3]));
        window.strides.push(*choices.pick(&[1, 2, 3]));
        window.base_dilations.push(if dilated { *choices.pick(&[1, 1, 2]) } else { 1 });
        window.window_dilations.push(if dilated { *choices.pick(&[1, 1, 2]) } else { 1 });
        window.padding.push((*choices.pick(&[0, 1, -1]), *choices.pick(&[0, 1, 2])));
    }
    window
}

pub fn reduce_window(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let kind = *choices.pick(Reducer::ALL);
    let x = grower.operand(choices, &Op::Reduce { kind, axes: Default::default() })?;
    let window = window(choices, grower.ty(x).shape.sizes(), true);
    grower.push(Op::ReduceWindow { kind, window: Arc::new(window) }, &[x])
}

pub fn select_and_scatter(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let select = *choices.pick(Extreme::ALL);
    let some = Op::SelectAndScatter { select, window: Arc::new(window(&mut Choices::new(&[]), &[], false)) };
    let x = grower.operand(choices, &some)?;
    let ty = grower.ty(x).clone();
    let window = Arc::new(window(choices, ty.shape.sizes(), false));
    // The source has the shape that a reduction over the same windows gives.
    let pooled = Op::ReduceWindow { kind: Reducer::Sum, window: window.clone() };
    let types = crate::ir::infer::infer(&pooled, &[&ty], &grower.graph).ok()?;
    if types[0].shape.elements()? > grower.config.elements {
        return None;
    }
    let source = grower.like(choices, &Type::new(ty.dtype, &types[0].shape));
    grower.push(Op::SelectAndScatter { select, window }, &[x, source])
}
