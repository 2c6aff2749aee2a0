//! Rules of reductions.

use super::window::WindowAxis;
use super::{Types, axis_set, exactly, has_axis, increasing, per_axis, same_dtype, single, takes};
use crate::ir::{Op, Type, Window};
use crate::{DType, Result, Shape, ensure};
use smallvec::SmallVec;

pub(super) fn reduce(op: &Op, operands: &[&Type], axes: &[usize]) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    increasing(op, "axes", axes)?;
    let gone = axis_set(op, "axes", axes, x.shape.rank())?;
    let kept = x.shape.sizes().iter().enumerate().filter(|&(axis, _)| !gone.contains(axis));
    single(Type { dtype: x.dtype, shape: kept.map(|(_, &size)| size).collect() })
}

pub(super) fn arg_reduce(op: &Op, operands: &[&Type], axis: usize) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    has_axis(op, "axis", axis, x)?;
    ensure!(
        x.shape.size(axis) > 0,
        Shape,
        op.name(),
        "requires at least one element along axis {axis}, got operand {x}"
    );
    let shape: Shape = x.shape.sizes().iter().enumerate().filter(|&(i, _)| i != axis).map(|(_, &n)| n).collect();
    let index = Type { dtype: DType::I64, shape: shape.clone() };
    Ok(SmallVec::from_iter([Type { dtype: x.dtype, shape }, index]))
}

pub(super) fn cumulative(op: &Op, operands: &[&Type], axis: usize) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    has_axis(op, "axis", axis, x)?;
    single(x.clone())
}

pub(super) fn reduce_window(op: &Op, operands: &[&Type], window: &Window) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    single(Type { dtype: x.dtype, shape: windowed(op, x, window)? })
}

pub(super) fn select_and_scatter(op: &Op, operands: &[&Type], window: &Window) -> Result<Types> {
    let [x, source] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    same_dtype(op, ("operand", x), ("source", source))?;
    let shape = windowed(op, x, window)?;
    let dilations = [("base", &window.base_dilations), ("window", &window.window_dilations)];
    for (name, list) in dilations {
        ensure!(list.iter().all(|&d| d == 1), Value, op.name(), "requires {name} dilations of 1, got {list:?}");
    }
    ensure!(
        source.shape == shape,
        Shape,
        op.name(),
        "requires one source element per window, {shape} for operand {x}, got source {source}"
    );
    single(x.clone())
}

/// The shape of one element per window.
fn windowed(op: &Op, x: &Type, window: &Window) -> Result<Shape> {
    let rank = x.shape.rank();
    let lists = [
        ("window sizes", &window.sizes),
        ("strides", &window.strides),
        ("base dilations", &window.base_dilations),
        ("window dilations", &window.window_dilations),
    ];
    for (name, list) in lists {
        per_axis(op, name, list, rank)?;
    }
    per_axis(op, "paddings", &window.padding, rank)?;
    let count = |axis: usize| {
        let along = WindowAxis {
            size: window.sizes[axis],
            stride: window.strides[axis],
            base_dilation: window.base_dilations[axis],
            window_dilation: window.window_dilations[axis],
            padding: window.padding[axis],
        };
        along.windows(op, axis, x.shape.size(axis))
    };
    (0..rank).map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::DType::*;
    use crate::ir::*;
    use smallvec::smallvec;
    use std::sync::Arc;

    #[test]
    fn reduce_removes_axes() {
        let sum = |axes: &[usize]| Op::Reduce { kind: Reducer::Sum, axes: Axes::from_slice(axes) };
        assert_eq!(shown(sum(&[0, 2]), &[f32s(&[2, 3, 4])]), "float32[3]");
        assert_eq!(shown(sum(&[]), &[f32s(&[])]), "float32[]");
        assert_eq!(shown(sum(&[0]), &[f32s(&[0, 3])]), "float32[3]");
        assert_eq!(shown(sum(&[1, 0]), &[f32s(&[2, 3])]), "Axis: reduce requires increasing axes, got [1, 0]");
        assert_eq!(shown(sum(&[2]), &[f32s(&[2, 3])]), "Axis: reduce requires axes below the rank 2, got [2]");
        assert_eq!(
            shown(Op::Reduce { kind: Reducer::Max, axes: smallvec![0] }, &[ty(Complex64, &[2])]),
            "DType: reduce requires operand of bool, integer or float dtype, got complex64[2]"
        );
    }

    #[test]
    fn arg_reduce_wants_something_to_choose_from() {
        let op = |axis| Op::ArgReduce { kind: Extreme::Max, axis };
        assert_eq!(shown(op(0), &[f32s(&[2, 3])]), "float32[3] int64[3]");
        assert_eq!(shown(op(1), &[f32s(&[0, 3])]), "float32[0] int64[0]");
        assert_eq!(
            shown(op(1), &[f32s(&[3, 0])]),
            "Shape: arg_reduce requires at least one element along axis 1, got operand float32[3, 0]"
        );
        assert_eq!(shown(op(0), &[f32s(&[])]), "Axis: arg_reduce requires axis below the rank 0 of float32[], got 0");
    }

    #[test]
    fn cumulative_keeps_the_shape() {
        let op = |axis| Op::Cumulative { kind: Reducer::Sum, axis, reverse: false };
        assert_eq!(shown(op(1), &[f32s(&[2, 3])]), "float32[2, 3]");
        assert_eq!(
            shown(op(2), &[f32s(&[2, 3])]),
            "Axis: cumulative requires axis below the rank 2 of float32[2, 3], got 2"
        );
    }

    fn along(size: usize, stride: usize, base: usize, dilation: usize, padding: (i64, i64)) -> Arc<Window> {
        Arc::new(Window {
            sizes: smallvec![size],
            strides: smallvec![stride],
            base_dilations: smallvec![base],
            window_dilations: smallvec![dilation],
            padding: smallvec![padding],
        })
    }

    #[test]
    fn windows_are_counted() {
        let count = |size, window| shown(Op::ReduceWindow { kind: Reducer::Sum, window }, &[f32s(&[size])]);
        // torch.nn.functional.max_pool1d(torch.zeros(1, 1, 10), 3, 2, padding=1).shape[2] == 5
        assert_eq!(count(10, along(3, 2, 1, 1, (1, 1))), "float32[5]");
        // … of 10 with kernel 3, stride 1, dilation 2: 6.
        assert_eq!(count(10, along(3, 1, 1, 2, (0, 0))), "float32[6]");
        // StableHLO's example of reduce_window: 3 elements, base dilation 2, padding (2, 1), window dilation 3, stride 4.
        assert_eq!(count(3, along(2, 4, 2, 3, (2, 1))), "float32[2]");
        assert_eq!(count(2, along(3, 1, 1, 1, (0, 0))), "float32[0]");
        assert_eq!(count(0, along(1, 1, 1, 1, (0, 0))), "float32[0]");
        assert_eq!(count(4, along(1, 1, 1, 1, (-2, -3))), "float32[0]");
        assert_eq!(
            count(4, along(0, 1, 1, 1, (0, 0))),
            "Value: reduce_window requires window sizes from 1 to 2^63 - 1, got 0 along axis 0"
        );
        assert_eq!(
            count(4, along(1, 0, 1, 1, (0, 0))),
            "Value: reduce_window requires strides from 1 to 2^63 - 1, got 0 along axis 0"
        );
        assert_eq!(
            count(4, along(1, 1, 1, 1, (i64::MAX, i64::MAX))),
            "Shape: reduce_window requires a size from 0 to 2^63 - 1 of result axis 0, got 18446744073709551618"
        );
        assert_eq!(
            shown(Op::ReduceWindow { kind: Reducer::Sum, window: along(1, 1, 1, 1, (0, 0)) }, &[f32s(&[2, 3])]),
            "Value: reduce_window requires 2 window sizes, one per axis, got [1]"
        );
    }

    #[test]
    fn select_and_scatter_wants_one_source_element_per_window() {
        let op = |base| Op::SelectAndScatter { select: Extreme::Max, window: along(2, 2, base, 1, (0, 0)) };
        assert_eq!(shown(op(1), &[f32s(&[6]), f32s(&[3])]), "float32[6]");
        assert_eq!(
            shown(op(1), &[f32s(&[6]), f32s(&[2])]),
            "Shape: select_and_scatter requires one source element per window, [3] for operand float32[6], got source \
             float32[2]"
        );
        assert_eq!(
            shown(op(2), &[f32s(&[6]), f32s(&[5])]),
            "Value: select_and_scatter requires base dilations of 1, got [2]"
        );
    }
}
