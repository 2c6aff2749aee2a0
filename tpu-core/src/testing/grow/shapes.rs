//! Sources and nodes that move elements.

use super::{Choices, Grower};
use crate::Shape;
use crate::ir::{Op, Type, Value};
use crate::testing::arguments;

pub fn iota(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let Type { dtype, shape } = grower.any_type(choices);
    grower.push(Op::Iota { axis: choices.below(shape.rank()), dtype, shape }, &[])
}

pub fn constant(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let ty = grower.any_type(choices);
    let seed = choices.below(1 << 16) as u64;
    let array = arguments::random(&ty, seed, grower.config.special_values);
    let literal = crate::Literal::from_bytes(ty.dtype, ty.shape, array.bytes()).ok()?;
    grower.push(Op::Constant(std::sync::Arc::new(literal)), &[])
}

pub fn broadcast(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let x = grower.any(choices)?;
    let sizes = grower.ty(x).shape.sizes().to_vec();
    // New axes between the old ones, which keep their order or not; sizes of one may stretch.
    let added = choices.below(3).min(5usize.saturating_sub(sizes.len()));
    let rank = sizes.len() + added;
    let places = choices.permutation(rank);
    let mut axes = places[..sizes.len()].to_vec();
    if !choices.one_in(4) {
        axes.sort_unstable();
    }
    let mut shape: Vec<usize> = (0..rank).map(|_| *choices.pick(&[2, 1, 3, 5, 0])).collect();
    for (&size, &axis) in sizes.iter().zip(&axes) {
        if size != 1 || choices.one_in(2) {
            shape[axis] = size;
        }
    }
    grower.push(Op::BroadcastInDim { shape: shape.into(), axes: axes.into_iter().collect() }, &[x])
}

pub fn reshape(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let x = grower.any(choices)?;
    let mut rest = grower.ty(x).shape.elements()?;
    let mut sizes = Vec::new();
    // Small factors are split off one by one.
    for _ in 0..choices.below(5) {
        let factor = *choices.pick(&[2, 3, 1, 4, 5]);
        if rest % factor == 0 {
            sizes.push(factor);
            rest /= factor;
        }
    }
    if rest != 1 || choices.one_in(2) {
        sizes.insert(choices.below(sizes.len() + 1), rest);
    }
    grower.push(Op::Reshape(sizes.into()), &[x])
}

pub fn transpose(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let x = grower.any(choices)?;
    let permutation = choices.permutation(grower.ty(x).shape.rank());
    grower.push(Op::Transpose(permutation.into_iter().collect()), &[x])
}

pub fn slice(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let x = grower.any(choices)?;
    let shape = grower.ty(x).shape.clone();
    let mut bounds = Vec::new();
    for &size in shape.sizes() {
        let start = choices.below(size + 1);
        let limit = if choices.one_in(2) { size } else { start + choices.below(size - start + 1) };
        bounds.push((start, limit, 1 + choices.below(3)));
    }
    let op = Op::Slice {
        start: bounds.iter().map(|b| b.0).collect(),
        limit: bounds.iter().map(|b| b.1).collect(),
        strides: bounds.iter().map(|b| b.2).collect(),
    };
    grower.push(op, &[x])
}

pub fn pad(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let x = grower.any(choices)?;
    let ty = grower.ty(x).clone();
    let value = grower.like(choices, &Type::new(ty.dtype, Shape::scalar()));
    let (mut low, mut high, mut interior) = (vec![], vec![], vec![]);
    for _ in 0..ty.shape.rank() {
        low.push(*choices.pick(&[0i64, 1, -1, 2]));
        high.push(*choices.pick(&[0i64, 1, -1, 2]));
        interior.push(*choices.pick(&[0usize, 0, 1, 2]));
    }
    let op = Op::Pad {
        low: low.into_iter().collect(),
        high: high.into_iter().collect(),
        interior: interior.into_iter().collect(),
    };
    grower.push(op, &[x, value])
}

pub fn concatenate(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let x = grower.any(choices)?;
    let ty = grower.ty(x).clone();
    if ty.shape.rank() == 0 {
        return None;
    }
    let axis = choices.below(ty.shape.rank());
    let mut parts = vec![x];
    for _ in 0..choices.below(3) {
        let mut sizes = ty.shape.sizes().to_vec();
        if choices.one_in(2) {
            sizes[axis] = choices.below(4);
        }
        parts.push(grower.like(choices, &Type::new(ty.dtype, sizes)));
    }
    grower.push(Op::Concatenate { axis }, &parts)
}

pub fn reverse(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let x = grower.any(choices)?;
    let axes = choices.subset(grower.ty(x).shape.rank());
    grower.push(Op::Reverse(axes.into_iter().collect()), &[x])
}

pub fn barrier(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let operands = [grower.any(choices)?, grower.any(choices)?];
    grower.push(Op::OptimizationBarrier, &operands)
}
