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
