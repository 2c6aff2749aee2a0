//! Gather and scatter.

use super::reduction::shift;
use super::{Context, Gradients, Saves, broadcast, conjugate, constant};
use smallvec::SmallVec;
use std::sync::Arc;
use tpu_core::ir::{Axes, GatherDims, Op, Reducer, ScatterDims, Type};
use tpu_core::{DType, Literal, Result, Scalar, Shape, Tensor};

pub(super) fn scatter_saves(dims: &ScatterDims) -> Saves {
    match dims.combiner {
        None | Some(Reducer::Sum) => Saves::input(1),
        Some(Reducer::Product) => Saves::inputs_from(0),
        Some(Reducer::Max | Reducer::Min) => Saves::inputs_from(0).and(Saves::output(0)),
        Some(Reducer::And | Reducer::Or | Reducer::Xor) => Saves::NOTHING,
    }
}

/// The gradient of each slice is added where the slice was read.
pub(super) fn gather(cx: &Context<'_>, dims: &GatherDims) -> Result<Gradients> {
    let operand = &cx.operands[0];
    let back = ScatterDims {
        update_window_dims: dims.offset_dims.clone(),
        inserted_window_dims: dims.collapsed_slice_dims.clone(),
        input_batching_dims: dims.operand_batching_dims.clone(),
        scatter_indices_batching_dims: dims.start_indices_batching_dims.clone(),
        scatter_dims_to_operand_dims: dims.start_index_map.clone(),
        index_vector_dim: dims.index_vector_dim,
        indices_are_sorted: dims.indices_are_sorted,
        unique_indices: false,
        combiner: Some(Reducer::Sum),
    };
    let bounds: Axes =
        dims.start_index_map.iter().map(|&axis| operand.shape.size(axis) - dims.slice_sizes[axis]).collect();
    // Where gather clamps, scatter would drop.
    let indices = guarded(cx, &bounds, dims.index_vector_dim)?;
    let indices = clamped(&indices, &bounds, dims.index_vector_dim)?;
    let zeros = Tensor::zeros(&operand.shape, operand.dtype)?;
    Ok(SmallVec::from_iter([Some(zeros.scatter_general(&indices, cx.grad()?, back)?), None]))
}

/// The saved indices. If they were checked when they were used, they are again: where they are out of range, what is computed
/// from them fails as the operation did, so that a failed step changes no parameter.
fn guarded(cx: &Context<'_>, bounds: &[usize], vector: usize) -> Result<Tensor> {
    let indices = cx.input(1)?;
    if !cx.checked {
        return Ok(indices);
    }
    // A look-up in the numbers 0, 1, … changes none of them.
    let look_up = |indices: &Tensor, bound: usize| Tensor::iota(bound + 1, 0, DType::I64)?.take(indices, 0);
    if vector == indices.rank() {
        return look_up(&indices, bounds[0]);
    }
    let parts = bounds.iter().enumerate().map(|(at, &bound)| look_up(&indices.narrow(vector as isize, at, 1)?, bound));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    Tensor::concat(&parts.iter().collect::<Vec<_>>(), vector as isize)
}

/// The largest start index of each component as a tensor that broadcasts against the indices; what the indices' dtype cannot
/// hold is no bound for it.
fn largest(indices: &Tensor, bounds: &Axes, vector: usize) -> Result<Tensor> {
    let most = match indices.dtype() {
        DType::I8 => i8::MAX as u64,
        DType::U8 => u8::MAX as u64,
        DType::I16 => i16::MAX as u64,
        DType::U16 => u16::MAX as u64,
        DType::I32 => i32::MAX as u64,
        DType::U32 => u32::MAX as u64,
        _ => i64::MAX as u64,
    };
    let bound = |bound: usize| (bound as u64).min(most) as i64;
    if let [first, rest @ ..] = &bounds[..]
        && rest.iter().all(|other| other == first)
    {
        return constant(indices, bound(*first));
    }
    let values: Vec<i64> = bounds.iter().map(|&size| bound(size)).collect();
    let row = Tensor::constant(Literal::new(values.len(), &values)?)?.to_dtype(indices.dtype())?;
    broadcast(&row, indices.shape(), SmallVec::from_slice(&[vector]))
}

fn clamped(indices: &Tensor, bounds: &Axes, vector: usize) -> Result<Tensor> {
    if bounds.is_empty() {
        return Ok(indices.clone());
    }
    indices.clamp(&constant(indices, 0)?, &largest(indices, bounds, vector)?)
}

pub(super) fn scatter(cx: &Context<'_>, dims: &Arc<ScatterDims>) -> Result<Gradients> {
    let g = cx.grad()?;
    let updates = &cx.operands[2];
    let mut gradients = cx.none();
    let indices = || match room(&cx.operands[0], updates, dims) {
        Some(bounds) => guarded(cx, &bounds, dims.index_vector_dim),
        None => cx.input(1),
    };
    match dims.combiner {
        Some(Reducer::Sum) => {
            gradients[0] = Some(g.clone());
            if cx.needs(2) {
                let indices = indices()?;
                let inside = inside(&indices, &cx.operands[0], updates, dims)?;
                let read = g.gather_general(&indices, reading(dims, &cx.operands[0], updates))?;
                gradients[2] = Some(inside.select(&read, &constant(&read, 0)?)?);
            }
        }
        None => {
            let indices = indices()?;
            if cx.needs(0) {
                let zeros = Tensor::zeros(&updates.shape, updates.dtype)?;
                gradients[0] = Some(g.scatter_general(&indices, &zeros, (**dims).clone())?);
            }
            if cx.needs(2) {
                let back = reading(dims, &cx.operands[0], updates);
                let read = g.gather_general(&indices, back.clone())?;
                let won = winners(&indices, cx, dims, back)?;
                gradients[2] = Some(won.select(&read, &constant(&read, 0)?)?);
            }
        }
        Some(Reducer::Product) => {
            let (indices, x, u) = (indices()?, cx.input(0)?, cx.input(2)?);
            if cx.needs(0) {
                let all = x.ones_like()?.scatter_general(&indices, &u, (**dims).clone())?;
                gradients[0] = Some(g.mul(&conjugate(&all)?)?);
            }
            if cx.needs(2) {
                let inside = inside(&indices, &cx.operands[0], updates, dims)?;
                let read = g.mul(&conjugate(&x)?)?.gather_general(&indices, reading(dims, &cx.operands[0], updates))?;
                let gradient = read.mul(&conjugate(&product_of_others(cx, &indices, &u, dims)?)?)?;
                gradients[2] = Some(inside.select(&gradient, &constant(&gradient, 0)?)?);
            }
        }
        // Equal extremes share evenly, the old element among them, as PyTorch's scatter_reduce and JAX have it.
        Some(Reducer::Max | Reducer::Min) => {
            let (indices, y) = (indices()?, cx.output(0)?);
            let back = reading(dims, &cx.operands[0], updates);
            let kept = cx.input(0)?.eq(y)?.to_dtype(g.dtype())?;
            let hit = cx.input(2)?.eq(&y.gather_general(&indices, back.clone())?)?;
            let hit = hit.bitwise_and(&inside(&indices, &cx.operands[0], updates, dims)?)?;
            let sum = ScatterDims { combiner: Some(Reducer::Sum), ..(**dims).clone() };
            let share = g.div(&kept.scatter_general(&indices, &hit.to_dtype(g.dtype())?, sum)?)?;
            gradients[0] = Some(kept.mul(&share)?);
            let read = share.gather_general(&indices, back)?;
            gradients[2] = Some(hit.select(&read, &constant(&read, 0)?)?);
        }
        Some(Reducer::And | Reducer::Or | Reducer::Xor) => return cx.no_derivative(""),
    }
    Ok(gradients)
}

/// For each update the product of all others of its element: no division, so zeros are no exception. Sorted by element, they
/// are the products of those before and of those behind.
fn product_of_others(cx: &Context<'_>, indices: &Tensor, u: &Tensor, dims: &ScatterDims) -> Result<Tensor> {
    if dims.unique_indices {
        return u.ones_like();
    }
    let operand = &cx.operands[0];
    let elements = |shape: &Shape| shape.elements().unwrap_or(usize::MAX);
    let number = Tensor::iota(elements(&operand.shape), 0, DType::I64)?.reshape(&operand.shape)?;
    let flat = Shape::from([elements(u.shape())]);
    let element = number.gather_general(indices, reading(dims, operand, &cx.operands[2]))?;
    // What was dropped is of no element.
    let inside = inside(indices, operand, &cx.operands[2], dims)?;
    let element = inside.select(&element, &constant(&element, -1)?)?.reshape(&flat)?;
    let values = inside.select(u, &constant(u, 1)?)?.reshape(&flat)?;
    let places = Tensor::iota(&flat, 0, DType::I64)?;
    let sort = Op::Sort { axis: 0, descending: false, stable: true };
    let sorted = Tensor::record(sort, &[(&element).into(), (&values).into(), (&places).into()])?;
    let (element, values) = (&sorted[0], &sorted[1]);
    let others = products_before(values, element, 1)?.mul(&products_before(values, element, -1)?)?;
    scatter_along(&others, &sorted[2], 0, &flat, false)?.reshape(u.shape())
}

/// For each value the product of those before it in its run of equal elements, or of those behind it if `step` is −1.
fn products_before(values: &Tensor, element: &Tensor, step: i64) -> Result<Tensor> {
    let moved = |distance: i64, product: &Tensor| {
        let same = shift(element, 0, distance, -2)?.eq(element)?;
        Ok::<_, tpu_core::Error>((same, shift(product, 0, distance, 1)?))
    };
    let (mut product, mut distance) = (values.clone(), 1);
    while distance < values.elements() {
        let (same, other) = moved(step * distance as i64, &product)?;
        product = same.select(&product.mul(&other)?, &product)?;
        distance *= 2;
    }
    let (same, other) = moved(step, &product)?;
    same.select(&other, &constant(&other, 1)?)
}

/// The gather that reads where a scatter writes.
fn reading(dims: &ScatterDims, operand: &Type, updates: &Type) -> GatherDims {
    let mut windows = dims.update_window_dims.iter();
    let missing = |axis: &usize| dims.inserted_window_dims.contains(axis) || dims.input_batching_dims.contains(axis);
    let size = |axis: usize| match missing(&axis) {
        true => 1,
        false => windows.next().map_or(1, |&window| updates.shape.size(window)),
    };
    GatherDims {
        slice_sizes: (0..operand.shape.rank()).map(size).collect(),
        offset_dims: dims.update_window_dims.clone(),
        collapsed_slice_dims: dims.inserted_window_dims.clone(),
        operand_batching_dims: dims.input_batching_dims.clone(),
        start_indices_batching_dims: dims.scatter_indices_batching_dims.clone(),
        start_index_map: dims.scatter_dims_to_operand_dims.clone(),
        index_vector_dim: dims.index_vector_dim,
        indices_are_sorted: dims.indices_are_sorted,
    }
}

/// The largest index of each component whose window fits; `None` if none does.
fn room(operand: &Type, updates: &Type, dims: &ScatterDims) -> Option<Axes> {
    let sizes = reading(dims, operand, updates).slice_sizes;
    dims.scatter_dims_to_operand_dims.iter().map(|&axis| operand.shape.size(axis).checked_sub(sizes[axis])).collect()
}

/// Which updates were not dropped for being out of range: a bool of the updates' shape.
fn inside(indices: &Tensor, operand: &Type, updates: &Type, dims: &ScatterDims) -> Result<Tensor> {
    let Some(bounds) = room(operand, updates, dims) else { return Tensor::zeros(&updates.shape, DType::Bool) };
    if bounds.is_empty() {
        return Tensor::ones(&updates.shape, DType::Bool);
    }
    let high = largest(indices, &bounds, dims.index_vector_dim)?;
    let mut inside = indices.ge(&constant(indices, 0)?)?.bitwise_and(&indices.le(&high)?)?;
    if dims.index_vector_dim < indices.rank() {
        inside = inside.all([dims.index_vector_dim as isize], false)?;
    }
    let axes = (0..updates.shape.rank()).filter(|axis| !dims.update_window_dims.contains(axis)).collect();
    broadcast(&inside, &updates.shape, axes)
}

/// Which updates are in the result of an overwriting scatter: those in range that no later one overwrote.
fn winners(indices: &Tensor, cx: &Context<'_>, dims: &Arc<ScatterDims>, back: GatherDims) -> Result<Tensor> {
    let (operand, updates) = (&cx.operands[0], &cx.operands[2]);
    if dims.unique_indices {
        return inside(indices, operand, updates, dims);
    }
    let count = Tensor::iota(updates.shape.elements().unwrap_or(usize::MAX), 0, DType::I64)?;
    let own = count.reshape(&updates.shape)?;
    let nobody = Tensor::constant(Literal::splat(DType::I64, operand.shape.clone(), Scalar::Int(-1)))?;
    let writer = nobody.scatter_general(indices, &own, (**dims).clone())?;
    writer.gather_general(indices, back)?.eq(&own)
}

/// Along one axis: `out[… places[i] …] = x[… i …]` for distinct places, zero elsewhere; with `add` the sum for places that
/// repeat.
pub(super) fn scatter_along(x: &Tensor, places: &Tensor, axis: usize, shape: &Shape, add: bool) -> Result<Tensor> {
    let zeros = Tensor::zeros(shape, x.dtype())?;
    let others: Axes = (0..shape.rank()).filter(|&other| other != axis).collect();
    let dims = ScatterDims {
        update_window_dims: Axes::new(),
        inserted_window_dims: SmallVec::from_slice(&[axis]),
        input_batching_dims: others.clone(),
        scatter_indices_batching_dims: others,
        scatter_dims_to_operand_dims: SmallVec::from_slice(&[axis]),
        index_vector_dim: shape.rank(),
        indices_are_sorted: false,
        unique_indices: !add,
        combiner: add.then_some(Reducer::Sum),
    };
    zeros.scatter_general(places, x, dims)
}
