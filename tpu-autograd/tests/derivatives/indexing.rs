//! Gather, scatter, sorting.

use crate::differences::{cases, check, given};
use proptest::prelude::any;
use tpu_autograd::{GradOptions, grad};
use tpu_core::Tensor;
use tpu_core::ir::{Axes, GatherDims, Op, Reducer, ScatterDims};

fn indices(values: &[i64], sizes: &[usize]) -> Tensor {
    Tensor::from_vec(values.to_vec(), sizes).unwrap()
}

#[test]
fn look_ups_with_repeated_indices() {
    let rows = indices(&[2, 0, 2, 3], &[2, 2]);
    check("take", 2, &[given(&[4, 3], -1.0, 1.0)], 3, &|x| Ok(vec![x[0].square()?.take(&rows, 0)?])).unwrap();
    check("take", 2, &[given(&[2, 4, 2], -1.0, 1.0)], 3, &|x| Ok(vec![x[0].square()?.take(&rows, 1)?])).unwrap();
    let none = indices(&[], &[0]);
    check("take", 2, &[given(&[4, 3], -1.0, 1.0)], 3, &|x| Ok(vec![x[0].square()?.take(&none, 0)?])).unwrap();
}

#[test]
fn gather_along_an_axis() {
    let along = indices(&[0, 2, 2, 1, 1, 0], &[2, 3]);
    check("gather", 2, &[given(&[2, 3], -1.0, 1.0)], 3, &|x| Ok(vec![x[0].square()?.gather(1, &along)?])).unwrap();
    let part = indices(&[0, 2], &[1, 2]);
    check("gather", 2, &[given(&[2, 3], -1.0, 1.0)], 3, &|x| Ok(vec![x[0].square()?.gather(1, &part)?])).unwrap();
}

#[test]
fn slices_out_of_range_are_clamped_in_the_gradient_too() {
    // Index vectors (row, column); windows of one row and two columns; the third and fourth are out of range.
    let at = indices(&[0, 0, 2, 1, 5, 9, -3, -1], &[4, 2]);
    let dims = GatherDims {
        offset_dims: Axes::from_slice(&[1]),
        collapsed_slice_dims: Axes::from_slice(&[0]),
        operand_batching_dims: Axes::new(),
        start_indices_batching_dims: Axes::new(),
        start_index_map: Axes::from_slice(&[0, 1]),
        index_vector_dim: 1,
        slice_sizes: Axes::from_slice(&[1, 2]),
        indices_are_sorted: false,
    };
    check("gather", 2, &[given(&[3, 4], -1.0, 1.0)], 3, &|x| {
        Ok(vec![x[0].square()?.gather_general(&at, dims.clone())?])
    })
    .unwrap();
}

#[test]
fn scatters_that_add_or_overwrite() {
    let along = indices(&[0, 2, 2, 1, 1, 1], &[2, 3]);
    for combiner in [None, Some(Reducer::Sum)] {
        check("scatter", 2, &[given(&[2, 3], -1.0, 1.0), given(&[2, 3], -1.0, 1.0)], 3, &|x| {
            Ok(vec![x[0].square()?.scatter(1, &along, &x[1].square()?, combiner)?])
        })
        .unwrap();
        let rows = indices(&[1, 3, 1], &[3]);
        check("put", 2, &[given(&[4, 2], -1.0, 1.0), given(&[3, 2], -1.0, 1.0)], 3, &|x| {
            Ok(vec![x[0].square()?.put(&rows, 0, &x[1].square()?, combiner)?])
        })
        .unwrap();
    }
}

/// Updates `[indices, window]` of one axis, each window at the place that its index says.
fn windows(combiner: Option<Reducer>) -> ScatterDims {
    ScatterDims {
        update_window_dims: Axes::from_slice(&[1]),
        inserted_window_dims: Axes::new(),
        input_batching_dims: Axes::new(),
        scatter_indices_batching_dims: Axes::new(),
        scatter_dims_to_operand_dims: Axes::from_slice(&[0]),
        index_vector_dim: 1,
        indices_are_sorted: false,
        unique_indices: false,
        combiner,
    }
}

#[test]
fn updates_out_of_range_have_no_gradient() {
    let at = indices(&[0, 7, -1, 3], &[4]);
    for combiner in [None, Some(Reducer::Sum)] {
        let dims = windows(combiner);
        // Windows of two: the one that starts at the last element does not fit either.
        check("scatter", 2, &[given(&[4], -1.0, 1.0), given(&[4, 2], -1.0, 1.0)], 3, &|x| {
            Ok(vec![x[0].square()?.scatter_general(&at, &x[1].square()?, dims.clone())?])
        })
        .unwrap();
    }
}

#[test]
fn scatters_that_multiply_or_take_extremes() {
    let along = indices(&[0, 2, 2, 1, 1, 1], &[2, 3]);
    for combiner in [Reducer::Product, Reducer::Max, Reducer::Min] {
        cases(4, any::<u64>(), |seed| {
            let operands = [given(&[2, 3], 0.4, 1.0), given(&[2, 3], 0.4, 1.0)];
            check("scatter", 2, &operands, seed >> 8, &|x| {
                Ok(vec![x[0].square()?.scatter(1, &along, &x[1].square()?, Some(combiner))?.square()?])
            })?;
            // Index vectors of two that start windows of two; the last two do not fit.
            let at = indices(&[0, 1, 0, 7, -1], &[5]);
            let dims = windows(Some(combiner));
            check("scatter windows", 2, &[given(&[4], 0.4, 1.0), given(&[5, 2], 0.4, 1.0)], seed >> 8, &|x| {
                Ok(vec![x[0].square()?.scatter_general(&at, &x[1].square()?, dims.clone())?.square()?])
            })
        });
    }
}

#[test]
fn scattered_products_with_zeros() {
    // y = (x₀ a b c, x₁ d), of which a and c are zero.
    let leaf = |values: &[f64]| tpu_autograd::requires_grad(&Tensor::from_slice(values).unwrap()).unwrap();
    let (x, u) = (leaf(&[2.0, 0.0]), leaf(&[0.0, 3.0, 0.0, 5.0]));
    let y = x.scatter(0, &indices(&[0, 0, 0, 1], &[4]), &u, Some(Reducer::Product)).unwrap();
    let again = GradOptions { create_graph: true, ..GradOptions::default() };
    let first = grad(&[&y], &[&x, &u], again).unwrap();
    assert_eq!(first[0].to_vec::<f64>().unwrap(), [0.0, 5.0]);
    assert_eq!(first[1].to_vec::<f64>().unwrap(), [0.0; 4]);
    // ∂²y₀/∂a∂c = x₀ b, ∂²y₁/∂x₁∂d = 1.
    let a = first[1].narrow(0, 0, 1).unwrap();
    assert_eq!(grad(&[&a], &[&u], again).unwrap()[0].to_vec::<f64>().unwrap(), [0.0, 0.0, 6.0, 0.0]);
    let d = first[1].narrow(0, 3, 1).unwrap();
    assert_eq!(grad(&[&d], &[&x], again).unwrap()[0].to_vec::<f64>().unwrap(), [0.0, 1.0]);
}

#[test]
fn sorting() {
    cases(8, (1..3usize, 1..5usize, any::<bool>(), any::<u64>()), |(rows, columns, descending, seed)| {
        check("sort", 2, &[given(&[rows, columns], 0.2, 1.0)], seed >> 8, &|x| {
            let x = x[0].square()?;
            Ok(vec![x.sort(1, descending)?.0, x.sort(0, descending)?.0.square()?])
        })?;
        check("topk", 2, &[given(&[rows, columns], 0.2, 1.0)], seed >> 8, &|x| {
            Ok(vec![x[0].square()?.topk(columns.min(2), descending)?.0.square()?])
        })?;
        let operands = [given(&[columns], 0.2, 1.0), given(&[columns], -1.0, 1.0)];
        check("sort by keys", 2, &operands, seed >> 8, &|x| {
            let op = Op::Sort { axis: 0, descending, stable: true };
            Ok(Tensor::record(op, &[(&x[0].square()?).into(), (&x[1].square()?).into()])?.into_vec())
        })
    });
}
