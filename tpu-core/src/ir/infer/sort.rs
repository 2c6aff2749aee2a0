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

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::DType::*;
    use crate::ir::*;

    #[test]
    fn sort_takes_values_of_any_dtype_and_the_shape_of_the_keys() {
        let op = |axis| Op::Sort { axis, descending: false, stable: true };
        assert_eq!(shown(op(0), &[f32s(&[3])]), "float32[3]");
        assert_eq!(shown(op(1), &[f32s(&[2, 0]), ty(Complex64, &[2, 0])]), "float32[2, 0] complex64[2, 0]");
        assert_eq!(
            shown(op(0), &[f32s(&[3]), f32s(&[2])]),
            "Shape: sort requires values of the shape of the keys, got keys float32[3] and values float32[2]"
        );
        assert_eq!(
            shown(op(0), &[ty(Complex64, &[3])]),
            "DType: sort requires keys of bool, integer or float dtype, got complex64[3]"
        );
        assert_eq!(shown(op(0), &[f32s(&[])]), "Axis: sort requires axis below the rank 0 of float32[], got 0");
        assert_eq!(shown(op(0), &[]), "Value: sort requires at least 1 operand, got 0");
    }

    #[test]
    fn top_k_takes_no_more_than_there_is() {
        let op = |k| Op::TopK { k, largest: true };
        assert_eq!(shown(op(2), &[f32s(&[3, 5])]), "float32[3, 2] int32[3, 2]");
        assert_eq!(shown(op(0), &[f32s(&[0])]), "float32[0] int32[0]");
        assert_eq!(
            shown(op(6), &[f32s(&[3, 5])]),
            "Value: top_k requires k of at most the size 5 of the last axis of float32[3, 5], got 6"
        );
        assert_eq!(shown(op(0), &[f32s(&[])]), "Shape: top_k requires at least 1 axis, got operand float32[]");
    }
}
