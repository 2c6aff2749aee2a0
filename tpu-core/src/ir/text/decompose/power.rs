//! Powers of integers, and of a complex zero.
//!
//! Of integers, XLA for CPU takes an unsigned exponent with the top bit set for a negative one, and stops after so many squarings
//! that larger exponents give the power of fewer bits. This squares as often as the largest exponent asks for.

use super::Builder;
use crate::DType;
use crate::dtype::Kind;
use crate::ir::{BinaryOp, Comparison, Op, Reducer, UnaryOp, Value};

/// `xʸ`, wrapping around; negative exponents give 0 unless `x` is ±1.
pub(super) fn integer(build: &mut Builder, x: Value, y: Value) -> Value {
    let (zero, one) = (build.like(x, 0), build.like(x, 1));
    let signed = build.ty(x).dtype.kind() == Kind::Signed;
    let exponent = if signed { build.binary(BinaryOp::Maximum, y, zero) } else { y };
    let last = build.repeat(&[one, x, exponent], any_left, |build, values| {
        let &[power, base, exponent] = values else { return Vec::new() };
        let odd = is_odd(build, exponent);
        let longer = build.binary(BinaryOp::Multiply, power, base);
        let power = build.select(odd, longer, power);
        let square = build.binary(BinaryOp::Multiply, base, base);
        let one = build.like(exponent, 1);
        vec![power, square, build.binary(BinaryOp::ShiftRightLogical, exponent, one)]
    });
    if !signed {
        return last[0];
    }
    let minus_one = build.like(x, -1);
    let odd = is_odd(build, y);
    let sign = build.select(odd, minus_one, one);
    let is_minus_one = build.compare(Comparison::Eq, x, minus_one);
    let is_one = build.compare(Comparison::Eq, x, one);
    let inverse = build.select(is_minus_one, sign, zero);
    let inverse = build.select(is_one, one, inverse);
    let negative = build.compare(Comparison::Lt, y, zero);
    build.select(negative, inverse, last[0])
}

/// `xʸ`: 0 where `x` is 0 and the real part of `y` is positive, as its limit is; XLA gives NaN unless `y` is real.
pub(super) fn complex(build: &mut Builder, x: Value, y: Value) -> Value {
    let (no, power) = (build.like(x, 0), build.binary(BinaryOp::Power, x, y));
    let is_zero = build.compare(Comparison::Eq, x, no);
    let real = build.unary(UnaryOp::Real, y);
    let zero = build.like(real, 0);
    let vanishes = build.compare(Comparison::Gt, real, zero);
    let vanishes = build.binary(BinaryOp::And, is_zero, vanishes);
    build.select(vanishes, no, power)
}

fn is_odd(build: &mut Builder, x: Value) -> Value {
    let one = build.like(x, 1);
    let bit = build.binary(BinaryOp::And, x, one);
    build.convert(bit, DType::Bool)
}

/// Whether some exponent has bits left.
fn any_left(build: &mut Builder, values: &[Value]) -> Value {
    let exponent = values[2];
    let zero = build.like(exponent, 0);
    let left = build.compare(Comparison::Ne, exponent, zero);
    let axes = (0..build.ty(exponent).shape.rank()).collect();
    build.push(Op::Reduce { kind: Reducer::Or, axes }, &[left])
}
