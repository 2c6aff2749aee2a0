//! Rules of sorting.

use super::{Types, at_least_one, exactly, has_axis, single, takes};
use crate::ir::{Op, Type};
use crate::{DType, Error, ErrorKind, Result, Shape, ensure};
use smallvec::SmallVec;

pub(super) fn sort(op: &Op, operands: &[&Type], axis: usize) -> Result<Types> {
    let (keys, values) = at_least_one(op, operands)?;
    takes(op, "keys", keys)?;
    has_axis(op, "axis", axis, keys)?;
    for ty in values {
        ensure!(
            ty.shape == keys.shape,
            Shape,
            op.name(),
            "requires values of the shape of the keys, got keys {keys} and values {ty}"
        );
    }
    match values {
        [] => single(keys.clone()),
        _ => Ok(operands.iter().copied().cloned().collect()),
    }
}

pub(super) fn top_k(op: &Op, operands: &[&Type], k: usize) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    let Some((&last, lead)) = x.shape.sizes().split_last() else {
        return Err(Error::new(ErrorKind::Shape, op.name(), format!("requires at least 1 axis, got operand {x}")));
    };
    ensure!(k <= last, Value, op.name(), "requires k of at most the size {last} of the last axis of {x}, got {k}");
    ensure!(last <= 1 << 31, Shape, op.name(), "requires a last axis of at most 2^31, for i32 indices, got {x}");
    let shape: Shape = lead.iter().copied().chain([k]).collect();
    let indices = Type { dtype: DType::I32, shape: shape.clone() };
    Ok(SmallVec::from_iter([Type { dtype: x.dtype, shape }, indices]))
}
