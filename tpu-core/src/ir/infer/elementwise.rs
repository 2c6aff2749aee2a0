//! Rules of operations that work element by element.

use super::{Types, exactly, same_dtype, same_shape, single, takes};
use crate::ir::support::{self, DTypes};
use crate::ir::{Op, Type, UnaryOp};
use crate::{DType, Result, Shape, ensure};

pub(super) fn unary(op: &Op, kind: UnaryOp, operands: &[&Type]) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    let dtype = match kind {
        UnaryOp::IsFinite => DType::Bool,
        UnaryOp::Abs | UnaryOp::Real | UnaryOp::Imag if x.dtype == DType::Complex64 => DType::F32,
        _ => x.dtype,
    };
    single(Type { dtype, shape: x.shape.clone() })
}

pub(super) fn binary(op: &Op, operands: &[&Type]) -> Result<Types> {
    let [lhs, rhs] = exactly(op, operands)?;
    takes(op, "lhs", lhs)?;
    same_dtype(op, ("lhs", lhs), ("rhs", rhs))?;
    same_shape(op, ("lhs", lhs), ("rhs", rhs))?;
    single(lhs.clone())
}

pub(super) fn compare(op: &Op, operands: &[&Type]) -> Result<Types> {
    let [lhs, rhs] = exactly(op, operands)?;
    takes(op, "lhs", lhs)?;
    same_dtype(op, ("lhs", lhs), ("rhs", rhs))?;
    same_shape(op, ("lhs", lhs), ("rhs", rhs))?;
    single(Type { dtype: DType::Bool, shape: lhs.shape.clone() })
}

pub(super) fn select(op: &Op, operands: &[&Type]) -> Result<Types> {
    let [predicate, on_true, on_false] = exactly(op, operands)?;
    ensure!(predicate.dtype == DType::Bool, DType, op.name(), "requires predicate of bool dtype, got {predicate}");
    same_dtype(op, ("on_true", on_true), ("on_false", on_false))?;
    same_shape(op, ("on_true", on_true), ("on_false", on_false))?;
    same_shape(op, ("predicate", predicate), ("on_true", on_true))?;
    single(on_true.clone())
}

pub(super) fn clamp(op: &Op, operands: &[&Type]) -> Result<Types> {
    let [low, x, high] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    same_dtype(op, ("low", low), ("operand", x))?;
    same_dtype(op, ("operand", x), ("high", high))?;
    same_shape(op, ("low", low), ("operand", x))?;
    same_shape(op, ("operand", x), ("high", high))?;
    single(x.clone())
}

pub(super) fn complex(op: &Op, operands: &[&Type]) -> Result<Types> {
    let [real, imaginary] = exactly(op, operands)?;
    takes(op, "real", real)?;
    same_dtype(op, ("real", real), ("imaginary", imaginary))?;
    same_shape(op, ("real", real), ("imaginary", imaginary))?;
    single(Type { dtype: DType::Complex64, shape: real.shape.clone() })
}

pub(super) fn convert(op: &Op, operands: &[&Type], dtype: DType) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    single(Type { dtype, shape: x.shape.clone() })
}

pub(super) fn bitcast_convert(op: &Op, operands: &[&Type], dtype: DType) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    let targets: DTypes = support::dtypes(op);
    ensure!(targets.contains(dtype), DType, op.name(), "requires a result of {targets} dtype, got {dtype} from {x}");
    let (from, to) = (x.dtype.bits() as usize, dtype.bits() as usize);
    let sizes = x.shape.sizes();
    let shape = if from == to {
        x.shape.clone()
    } else if from > to {
        let shape: Shape = sizes.iter().copied().chain([from / to]).collect();
        super::representable(op, &shape)?;
        shape
    } else {
        let ratio = to / from;
        ensure!(
            sizes.last() == Some(&ratio),
            Shape,
            op.name(),
            "requires a last axis of size {ratio} to make {dtype}, got operand {x}"
        );
        Shape::from(&sizes[..sizes.len() - 1])
    };
    single(Type { dtype, shape })
}

pub(super) fn reduce_precision(op: &Op, operands: &[&Type], exponent: u32, mantissa: u32) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    // Attributes are 32-bit signed in StableHLO.
    let range = 1..=i32::MAX as u32;
    ensure!(range.contains(&exponent), Value, op.name(), "requires 1 to 2^31 - 1 exponent bits, got {exponent}");
    ensure!(mantissa <= *range.end(), Value, op.name(), "requires 0 to 2^31 - 1 mantissa bits, got {mantissa}");
    single(x.clone())
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::DType::*;
    use crate::ir::*;

    #[test]
    fn unary_keeps_the_type_except_where_the_function_changes_it() {
        assert_eq!(shown(Op::Unary(UnaryOp::Exp), &[f32s(&[2, 3])]), "float32[2, 3]");
        assert_eq!(shown(Op::Unary(UnaryOp::Exp), &[f32s(&[])]), "float32[]");
        assert_eq!(shown(Op::Unary(UnaryOp::Neg), &[ty(I8, &[0])]), "int8[0]");
        assert_eq!(shown(Op::Unary(UnaryOp::IsFinite), &[f32s(&[2])]), "bool[2]");
        assert_eq!(shown(Op::Unary(UnaryOp::Abs), &[ty(Complex64, &[2])]), "float32[2]");
        assert_eq!(shown(Op::Unary(UnaryOp::Imag), &[ty(Complex64, &[2])]), "float32[2]");
        assert_eq!(shown(Op::Unary(UnaryOp::Sign), &[ty(Complex64, &[2])]), "complex64[2]");
    }

    #[test]
    fn unary_rejects_dtypes_and_counts() {
        assert_eq!(
            shown(Op::Unary(UnaryOp::Exp), &[ty(I32, &[2])]),
            "DType: exponential requires operand of float or complex dtype, got int32[2]"
        );
        assert_eq!(
            shown(Op::Unary(UnaryOp::Abs), &[ty(U8, &[2])]),
            "DType: abs requires operand of signed integer, float or complex dtype, got uint8[2]"
        );
        assert_eq!(shown(Op::Unary(UnaryOp::Exp), &[]), "Value: exponential requires 1 operand, got 0");
    }

    #[test]
    fn binary_wants_one_type() {
        let add = || Op::Binary(BinaryOp::Add);
        assert_eq!(shown(add(), &[f32s(&[2, 3]), f32s(&[2, 3])]), "float32[2, 3]");
        assert_eq!(shown(add(), &[ty(Bool, &[]), ty(Bool, &[])]), "bool[]");
        assert_eq!(
            shown(add(), &[f32s(&[2, 3]), f32s(&[3])]),
            "Shape: add requires operands of one shape, got lhs float32[2, 3] and rhs float32[3]"
        );
        assert_eq!(
            shown(add(), &[f32s(&[2]), ty(I32, &[2])]),
            "DType: add requires operands of one dtype, got lhs float32[2] and rhs int32[2]"
        );
        assert_eq!(
            shown(Op::Binary(BinaryOp::And), &[f32s(&[2]), f32s(&[2])]),
            "DType: and requires lhs of bool or integer dtype, got float32[2]"
        );
        assert_eq!(shown(add(), &[f32s(&[2])]), "Value: add requires 2 operands, got 1");
    }

    #[test]
    fn compare_gives_bool_and_orders_no_complex_numbers() {
        let c = || ty(Complex64, &[2]);
        assert_eq!(shown(Op::Compare(Comparison::Lt), &[ty(F8E5M2, &[2]), ty(F8E5M2, &[2])]), "bool[2]");
        assert_eq!(shown(Op::Compare(Comparison::Ne), &[c(), c()]), "bool[2]");
        assert_eq!(
            shown(Op::Compare(Comparison::Lt), &[c(), c()]),
            "DType: compare requires lhs of bool, integer, float or float8 dtype, got complex64[2]"
        );
    }

    #[test]
    fn select_and_clamp_want_one_shape() {
        let x = || f32s(&[2]);
        assert_eq!(shown(Op::Select, &[ty(Bool, &[2]), x(), x()]), "float32[2]");
        assert_eq!(
            shown(Op::Select, &[x(), x(), x()]),
            "DType: select requires predicate of bool dtype, got float32[2]"
        );
        assert_eq!(
            shown(Op::Select, &[ty(Bool, &[]), x(), x()]),
            "Shape: select requires operands of one shape, got predicate bool[] and on_true float32[2]"
        );
        assert_eq!(
            shown(Op::Select, &[ty(Bool, &[2]), x(), ty(F64, &[2])]),
            "DType: select requires operands of one dtype, got on_true float32[2] and on_false float64[2]"
        );
        assert_eq!(shown(Op::Clamp, &[x(), x(), x()]), "float32[2]");
        assert_eq!(
            shown(Op::Clamp, &[f32s(&[]), x(), x()]),
            "Shape: clamp requires operands of one shape, got low float32[] and operand float32[2]"
        );
    }

    #[test]
    fn complex_numbers_have_parts_of_f32() {
        assert_eq!(shown(Op::Complex, &[f32s(&[2]), f32s(&[2])]), "complex64[2]");
        assert_eq!(
            shown(Op::Complex, &[ty(F64, &[2]), ty(F64, &[2])]),
            "DType: complex requires real of float32 dtype, got float64[2]"
        );
    }

    /// Shapes as StableHLO's specification of `bitcast_convert` gives them.
    #[test]
    fn bitcast_convert_adds_or_removes_the_last_axis() {
        assert_eq!(shown(Op::BitcastConvert(I32), &[f32s(&[3])]), "int32[3]");
        assert_eq!(shown(Op::BitcastConvert(U8), &[f32s(&[3])]), "uint8[3, 4]");
        assert_eq!(shown(Op::BitcastConvert(F32), &[ty(U8, &[3, 4])]), "float32[3]");
        assert_eq!(
            shown(Op::BitcastConvert(F32), &[ty(U8, &[3])]),
            "Shape: bitcast_convert requires a last axis of size 4 to make float32, got operand uint8[3]"
        );
        assert_eq!(
            shown(Op::BitcastConvert(Bool), &[ty(U8, &[3])]),
            "DType: bitcast_convert requires a result of integer, float or float8 dtype, got bool from uint8[3]"
        );
    }

    #[test]
    fn convert_takes_everything_and_reduce_precision_an_exponent() {
        assert_eq!(shown(Op::Convert(Bool), &[ty(Complex64, &[3])]), "bool[3]");
        assert_eq!(shown(Op::ReducePrecision { exponent_bits: 5, mantissa_bits: 0 }, &[f32s(&[])]), "float32[]");
        assert_eq!(
            shown(Op::ReducePrecision { exponent_bits: 0, mantissa_bits: 2 }, &[f32s(&[])]),
            "Value: reduce_precision requires 1 to 2^31 - 1 exponent bits, got 0"
        );
    }
}
