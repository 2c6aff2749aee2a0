//! Elementwise nodes.

use super::{Choices, Grower};
use crate::DType;
use crate::ir::{BinaryOp, Comparison, Op, Type, UnaryOp, Value};

pub fn unary(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let op = Op::Unary(*choices.pick(UnaryOp::ALL));
    let x = grower.operand(choices, &op)?;
    grower.push(op, &[x])
}

pub fn binary(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let op = Op::Binary(*choices.pick(BinaryOp::ALL));
    let x = grower.operand(choices, &op)?;
    let y = other(grower, choices, x);
    if choices.one_in(2) { grower.push(op, &[x, y]) } else { grower.push(op, &[y, x]) }
}

pub fn compare(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let op = Op::Compare(*choices.pick(Comparison::ALL));
    let x = grower.operand(choices, &op)?;
    let y = other(grower, choices, x);
    grower.push(op, &[x, y])
}

pub fn select(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let x = grower.any(choices)?;
    let y = other(grower, choices, x);
    let predicate = Type::new(DType::Bool, &grower.ty(x).shape);
    let predicate = grower.like(choices, &predicate);
    grower.push(Op::Select, &[predicate, x, y])
}

pub fn clamp(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let x = grower.operand(choices, &Op::Clamp)?;
    let (low, high) = (other(grower, choices, x), other(grower, choices, x));
    grower.push(Op::Clamp, &[low, x, high])
}

pub fn convert(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let x = grower.any(choices)?;
    let target = *choices.pick(&grower.config.dtypes);
    grower.push(Op::Convert(target), &[x])
}

pub fn complex(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    if !grower.config.dtypes.contains(&DType::Complex64) {
        return None;
    }
    let re = grower.operand(choices, &Op::Complex)?;
    let im = other(grower, choices, re);
    grower.push(Op::Complex, &[re, im])
}

pub fn bitcast(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let op = Op::BitcastConvert(*choices.pick(&grower.config.dtypes));
    let x = grower.operand(choices, &op)?;
    grower.push(op, &[x])
}

pub fn reduce_precision(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let exponent_bits = 1 + choices.below(11) as u32;
    let op = Op::ReducePrecision { exponent_bits, mantissa_bits: choices.below(30) as u32 };
    let x = grower.operand(choices, &op)?;
    grower.push(op, &[x])
}

/// A second operand beside `x`: of its type, often a number stretched to its shape.
pub fn other(grower: &mut Grower<'_>, choices: &mut Choices<'_>, x: Value) -> Value {
    let ty = grower.ty(x).clone();
    if ty.shape.rank() > 0 && choices.one_in(3) {
        // A scalar or a row, stretched.
        let axes: Vec<usize> = if choices.one_in(2) { vec![] } else { vec![ty.shape.rank() - 1] };
        let narrow = Type::new(ty.dtype, axes.iter().map(|&axis| ty.shape.size(axis)).collect::<Vec<_>>());
        let narrow = grower.like(choices, &narrow);
        let op = Op::BroadcastInDim { shape: ty.shape.clone(), axes: axes.into_iter().collect() };
        if let Some(stretched) = grower.push(op, &[narrow]) {
            return stretched;
        }
    }
    grower.like(choices, &ty)
}
