//! Conversions with PyTorch's results (`dtype::convert` says which) where XLA's differ: it saturates floats that an
//! integer type cannot hold, drops the imaginary part where a bool asks for both, gives NaN above the largest `f8e4m3fn`, and rounds `f64` and wide integers to 16 and 8
//! bits at once instead of by way of `f32`.

use super::Builder;
use crate::DType;
use crate::dtype::Kind;
use crate::ir::{BinaryOp, Comparison, Op, UnaryOp, Value};

/// Whether a `convert` of StableHLO may give something else.
pub(super) fn differs(from: DType, to: DType) -> bool {
    let fraction = matches!(from.kind(), Kind::Float | Kind::Complex);
    match to {
        _ if from == to || from == DType::Bool => false,
        DType::Bool => from.is_complex(),
        DType::F8E4M3FN => true,
        DType::F16 | DType::BF16 | DType::F8E5M2 => {
            matches!(from, DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64)
        }
        _ => fraction && matches!(to.kind(), Kind::Signed | Kind::Unsigned),
    }
}

/// `x` as `to`, for a pair that [`differs`].
pub(super) fn convert(build: &mut Builder, x: Value, to: DType) -> Value {
    if to == DType::Bool {
        let zero = build.like(x, 0);
        return build.compare(Comparison::Ne, x, zero);
    }
    let real = if build.ty(x).dtype.is_complex() { build.unary(UnaryOp::Real, x) } else { x };
    match to.kind() {
        Kind::Signed | Kind::Unsigned => {
            let wide = if build.ty(real).dtype == DType::F64 { DType::F64 } else { DType::F32 };
            let float = build.convert(real, wide);
            integer(build, float, to)
        }
        _ => {
            let float = build.convert(real, DType::F32);
            let float = if to == DType::F8E4M3FN { limited(build, float) } else { float };
            build.convert(float, to)
        }
    }
}

/// Within the largest numbers of `f8e4m3fn`, which has no infinity. NaN stays.
fn limited(build: &mut Builder, x: Value) -> Value {
    let (low, high) = (build.like(x, -448.0), build.like(x, 448.0));
    build.push(Op::Clamp, &[low, x, high])
}

fn integer(build: &mut Builder, x: Value, to: DType) -> Value {
    match (to, build.ty(x).dtype) {
        (DType::U64, _) => unsigned(build, x),
        // Of an `f32` that `i32` cannot hold, an `i64` has eight zero bits at the end, as `i32`'s minimum has.
        (DType::U8, DType::F64) | (DType::U32 | DType::I64, _) => {
            let wide = truncated(build, x, DType::I64);
            build.convert(wide, to)
        }
        _ => {
            let wide = truncated(build, x, DType::I32);
            build.convert(wide, to)
        }
    }
}

/// As `i32` or `i64`: what does not fit, and NaN, is the minimum.
fn truncated(build: &mut Builder, x: Value, to: DType) -> Value {
    let end = 2f64.powi(to.bits() as i32 - 1);
    let (end, least) = (build.like(x, end), build.filled(to, &build.ty(x).shape, lowest(to)));
    let below = build.compare(Comparison::Lt, x, end);
    // A target saturates below, which gives the minimum too.
    let whole = build.convert(x, to);
    build.select(below, whole, least)
}

fn lowest(dtype: DType) -> i64 {
    i64::MIN >> (64 - dtype.bits())
}

/// As `u64`: an `i64` below 2⁶³, above it the rest as `i64` with the top bit flipped.
fn unsigned(build: &mut Builder, x: Value) -> Value {
    let half = build.like(x, 2f64.powi(63));
    let upper = build.compare(Comparison::Ge, x, half);
    let rest = build.binary(BinaryOp::Subtract, x, half);
    let rest = build.select(upper, rest, x);
    let whole = truncated(build, rest, DType::I64);
    let top = build.like(whole, i64::MIN);
    let flipped = build.binary(BinaryOp::Xor, whole, top);
    let bits = build.select(upper, flipped, whole);
    build.push(Op::BitcastConvert(DType::U64), &[bits])
}
