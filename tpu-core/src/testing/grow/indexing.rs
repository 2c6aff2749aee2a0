//! Nodes whose operands say where elements are, orders, and random bits.

use super::{Choices, Grower};
use crate::ir::{GatherDims, Op, Reducer, ScatterDims, Type, Value};
use crate::{DType, Shape};
use std::sync::Arc;

fn index_dtype(grower: &Grower<'_>, choices: &mut Choices<'_>) -> DType {
    let integers: Vec<DType> = grower.config.dtypes.iter().copied().filter(|dtype| dtype.is_integer()).collect();
    if integers.is_empty() { DType::I32 } else { *choices.pick(&integers) }
}

fn starts(grower: &mut Grower<'_>, choices: &mut Choices<'_>, sizes: &[usize]) -> Vec<Value> {
    let ty = Type::new(index_dtype(grower, choices), Shape::scalar());
    sizes.iter().map(|&size| grower.fresh_indices(choices, ty.clone(), size)).collect()
}

fn window(choices: &mut Choices<'_>, sizes: &[usize]) -> Vec<usize> {
    sizes.iter().map(|&size| choices.below(size + 1)).collect()
}

pub fn dynamic_slice(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let x = grower.any(choices)?;
    let sizes = grower.ty(x).shape.sizes().to_vec();
    let window = window(choices, &sizes);
    let mut operands = vec![x];
    operands.extend(starts(grower, choices, &sizes));
    grower.push(Op::DynamicSlice { sizes: window.into_iter().collect() }, &operands)
}

pub fn dynamic_update_slice(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let x = grower.any(choices)?;
    let ty = grower.ty(x).clone();
    let window = window(choices, ty.shape.sizes());
    let update = grower.like(choices, &Type::new(ty.dtype, window));
    let mut operands = vec![x, update];
    operands.extend(starts(grower, choices, ty.shape.sizes()));
    grower.push(Op::DynamicUpdateSlice, &operands)
}

/// What gather and scatter have in common: which operand axes are batched, indexed and dropped from the window.
struct Plan {
    /// Sizes of the axes of `indices` without that of index vectors.
    batch: Vec<usize>,
    /// Operand axes that go along with the first axes of `batch`.
    batched: Vec<usize>,
    /// Operand axis of each component of an index vector.
    mapped: Vec<usize>,
    /// Operand axes that are neither batched nor in the window.
    dropped: Vec<usize>,
    /// Window sizes of all operand axes.
    window: Vec<usize>,
    /// Where the axis of index vectors is; the last place may mean none.
    vector_dim: usize,
    indices: Vec<usize>,
}

fn plan(choices: &mut Choices<'_>, sizes: &[usize]) -> Plan {
    let rank = sizes.len();
    let batched: Vec<usize> = (0..rank).filter(|_| choices.one_in(5)).collect();
    let rest: Vec<usize> = (0..rank).filter(|axis| !batched.contains(axis)).collect();
    let order = choices.permutation(rest.len());
    let count = choices.below(rest.len() + 1);
    let mapped: Vec<usize> = order[..count].iter().map(|&i| rest[i]).collect();
    let mut window: Vec<usize> = sizes.to_vec();
    let mut dropped = Vec::new();
    for (axis, &size) in sizes.iter().enumerate() {
        if batched.contains(&axis) {
            window[axis] = size.min(1);
        } else if mapped.contains(&axis) {
            window[axis] = if choices.one_in(2) { size.min(1) } else { choices.below(size + 1) };
            if window[axis] == 1 && choices.one_in(2) {
                dropped.push(axis);
            }
        }
    }
    let mut batch: Vec<usize> = batched.iter().map(|&axis| sizes[axis]).collect();
    for _ in 0..choices.below(3) {
        batch.push(*choices.pick(&[3, 1, 4, 2, 0]));
    }
    let vector_dim = if count == 1 && choices.one_in(2) { batch.len() } else { choices.below(batch.len() + 1) };
    let mut indices = batch.clone();
    if count != 1 || vector_dim < batch.len() || choices.one_in(2) {
        indices.insert(vector_dim, count);
    }
    Plan { batch, batched, mapped, dropped, window, vector_dim, indices }
}

impl Plan {
    /// The axes of `indices` that go along with the batched operand axes.
    fn batch_axes(&self) -> Vec<usize> {
        (0..self.batched.len()).map(|i| if i >= self.vector_dim { i + 1 } else { i }).collect()
    }

    /// The sizes of the window's axes that are not dropped.
    fn kept(&self) -> Vec<usize> {
        let kept = |axis: &usize| !self.dropped.contains(axis) && !self.batched.contains(axis);
        (0..self.window.len()).filter(kept).map(|axis| self.window[axis]).collect()
    }

    /// Which axes of a result with the batch and the window hold the window, and its sizes.
    fn spread(&self, choices: &mut Choices<'_>) -> (Vec<usize>, Vec<usize>) {
        let (kept, rank) = (self.kept(), self.kept().len() + self.batch.len());
        let mut places = choices.permutation(rank)[..kept.len()].to_vec();
        places.sort_unstable();
        let (mut windows, mut batches) = (kept.iter(), self.batch.iter());
        let next = |axis| if places.contains(&axis) { windows.next() } else { batches.next() };
        let sizes = (0..rank).map(next).map(|size| size.copied().unwrap_or(1)).collect();
        (places, sizes)
    }

    fn operand(&self, grower: &mut Grower<'_>, choices: &mut Choices<'_>, sizes: &[usize]) -> Option<Value> {
        let size = self.mapped.iter().map(|&axis| sizes[axis]).max().unwrap_or(1);
        let ty = Type::new(index_dtype(grower, choices), self.indices.clone());
        (ty.shape.elements()? <= grower.config.elements).then(|| grower.fresh_indices(choices, ty, size))
    }
}

pub fn gather(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let x = grower.any(choices)?;
    let sizes = grower.ty(x).shape.sizes().to_vec();
    let plan = plan(choices, &sizes);
    let indices = plan.operand(grower, choices, &sizes)?;
    let (offset_dims, _) = plan.spread(choices);
    let dims = GatherDims {
        offset_dims: offset_dims.into_iter().collect(),
        collapsed_slice_dims: plan.dropped.iter().copied().collect(),
        operand_batching_dims: plan.batched.iter().copied().collect(),
        start_indices_batching_dims: plan.batch_axes().into_iter().collect(),
        start_index_map: plan.mapped.iter().copied().collect(),
        index_vector_dim: plan.vector_dim,
        slice_sizes: plan.window.iter().copied().collect(),
        indices_are_sorted: false,
    };
    grower.push(Op::Gather(Arc::new(dims)), &[x, indices])
}

pub fn scatter(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let combiner = if choices.one_in(4) { None } else { Some(*choices.pick(Reducer::ALL)) };
    let mut dims = ScatterDims {
        update_window_dims: Default::default(),
        inserted_window_dims: Default::default(),
        input_batching_dims: Default::default(),
        scatter_indices_batching_dims: Default::default(),
        scatter_dims_to_operand_dims: Default::default(),
        index_vector_dim: 0,
        indices_are_sorted: false,
        unique_indices: false,
        combiner,
    };
    let x = grower.operand(choices, &Op::Scatter(Arc::new(dims.clone())))?;
    let ty = grower.ty(x).clone();
    let plan = plan(choices, ty.shape.sizes());
    let indices = plan.operand(grower, choices, ty.shape.sizes())?;
    let (places, sizes) = plan.spread(choices);
    let updates = Type::new(ty.dtype, sizes);
    if updates.shape.elements()? > grower.config.elements {
        return None;
    }
    let updates = grower.like(choices, &updates);
    dims.update_window_dims = places.into_iter().collect();
    dims.inserted_window_dims = plan.dropped.iter().copied().collect();
    dims.input_batching_dims = plan.batched.iter().copied().collect();
    dims.scatter_indices_batching_dims = plan.batch_axes().into_iter().collect();
    dims.scatter_dims_to_operand_dims = plan.mapped.iter().copied().collect();
    dims.index_vector_dim = plan.vector_dim;
    grower.push(Op::Scatter(Arc::new(dims)), &[x, indices, updates])
}

pub fn sort(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let descending = choices.one_in(2);
    let keys = grower.operand(choices, &Op::Sort { axis: 0, descending, stable: true })?;
    let shape = grower.ty(keys).shape.clone();
    let mut operands = vec![keys];
    for _ in 0..choices.below(3) {
        let dtype = *choices.pick(&grower.config.dtypes);
        operands.push(grower.like(choices, &Type::new(dtype, &shape)));
    }
    // Without other operands, what an unstable sort may do cannot be seen.
    let stable = operands.len() > 1 || choices.one_in(2);
    grower.push(Op::Sort { axis: choices.below(shape.rank()), descending, stable }, &operands)
}

pub fn top_k(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let x = grower.operand(choices, &Op::TopK { k: 0, largest: true })?;
    let last = grower.ty(x).shape.sizes().last().copied()?;
    grower.push(Op::TopK { k: choices.below(last + 1), largest: choices.one_in(2) }, &[x])
}

pub fn rng_bits(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let word = Type::new(DType::U64, Shape::scalar());
    let (seed, offset) = (grower.fresh(choices, word.clone()), grower.fresh(choices, word));
    let shape = grower.any_shape(choices);
    grower.push(Op::RngBits(shape), &[seed, offset])
}
