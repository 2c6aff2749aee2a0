//! More index vectors than are looked at together, as models have them.

use super::{Random, assert_agrees};
use crate::DType;
use crate::ir::{Axes, GatherDims, Op, Reducer, ScatterDims, Type};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// An element at an index along one of two axes, for each element of the indices.
fn elements(axis: usize) -> Op {
    Op::Gather(Arc::new(GatherDims {
        offset_dims: Axes::new(),
        collapsed_slice_dims: smallvec![axis],
        operand_batching_dims: smallvec![1 - axis],
        start_indices_batching_dims: smallvec![1 - axis],
        start_index_map: smallvec![axis],
        index_vector_dim: 2,
        slice_sizes: smallvec![1, 1],
        indices_are_sorted: false,
    }))
}

/// Slices of three axes by numbers of one of them.
fn slices(axis: usize, sizes: [usize; 3]) -> Op {
    let mut extent: Axes = SmallVec::from_slice(&sizes);
    extent[axis] = 1;
    Op::Gather(Arc::new(GatherDims {
        offset_dims: (0..3).filter(|&other| other != axis).collect(),
        collapsed_slice_dims: smallvec![axis],
        operand_batching_dims: Axes::new(),
        start_indices_batching_dims: Axes::new(),
        start_index_map: smallvec![axis],
        index_vector_dim: 1,
        slice_sizes: extent,
        indices_are_sorted: false,
    }))
}

/// Elements combined with those at an index along one of two axes.
fn updates(axis: usize, combiner: Option<Reducer>) -> Op {
    Op::Scatter(Arc::new(ScatterDims {
        update_window_dims: Axes::new(),
        inserted_window_dims: smallvec![axis],
        input_batching_dims: smallvec![1 - axis],
        scatter_indices_batching_dims: smallvec![1 - axis],
        scatter_dims_to_operand_dims: smallvec![axis],
        index_vector_dim: 2,
        indices_are_sorted: false,
        unique_indices: false,
        combiner,
    }))
}

#[test]
fn elements_and_slices_at_many_indices_agree_with_the_reference() {
    let mut random = Random(3);
    for index in [DType::I64, DType::I32, DType::U8] {
        for dtype in [DType::F32, DType::I8] {
            for (axis, sizes) in [(0, [60, 33]), (1, [33, 60])] {
                let types = [Type::new(dtype, [33, 33]), Type::new(index, sizes)];
                let op = elements(axis);
                assert_agrees("elements", &op, &random.operands(&op, &types, true));
            }
            for axis in 0..3 {
                let types = [Type::new(dtype, [9, 10, 11]), Type::new(index, [700])];
                let op = slices(axis, [9, 10, 11]);
                assert_agrees("slices", &op, &random.operands(&op, &types, true));
            }
            for (axis, sizes) in [(0, [60, 33]), (1, [33, 60])] {
                for combiner in [None, Some(Reducer::Sum), Some(Reducer::Max)] {
                    let types = [Type::new(dtype, [33, 33]), Type::new(index, sizes), Type::new(dtype, sizes)];
                    let op = updates(axis, combiner);
                    assert_agrees("updates", &op, &random.operands(&op, &types, false));
                }
            }
        }
    }
}
