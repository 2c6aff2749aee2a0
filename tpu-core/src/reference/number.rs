//! Arithmetic on single elements, by family of dtypes.
//!
//! Integers are computed as `i128` and wrapped, narrow floats as `f32` and rounded.

use super::special;
use crate::dtype::convert::cast;
use crate::dtype::{Kind, half};
use crate::ir::{BinaryOp, Comparison, UnaryOp};
use crate::{Complex64, Element, Error, ErrorKind, F8E4M3FN, F8E5M2, Result};
use half::{bf16, f16};

/// Elements that the interpreter can compute with.
pub trait Number: Element {
    /// `op(x)`, for ops whose result has the operand's dtype.
    fn unary(op: UnaryOp, x: Self) -> Result<Self>;
    /// `op(x, y)`.
    fn binary(op: BinaryOp, x: Self, y: Self) -> Result<Self>;
    /// Whether the comparison holds.
    fn compare(op: Comparison, x: Self, y: Self) -> bool;
}

fn unsupported<T: Element>(op: &'static str) -> Error {
    Error::new(ErrorKind::DType, op, format!("is not defined for {}", T::DTYPE))
}

fn holds<T: PartialOrd>(op: Comparison, x: T, y: T) -> bool {
    match op {
        Comparison::Eq => x == y,
        Comparison::Ne => x != y,
        Comparison::Lt => x < y,
        Comparison::Le => x <= y,
        Comparison::Gt => x > y,
        Comparison::Ge => x >= y,
    }
}

// ---- floats

fn unary_f64(op: UnaryOp, x: f64) -> Option<f64> {
    Some(match op {
        UnaryOp::Abs => x.abs(),
        UnaryOp::Neg => -x,
        UnaryOp::Sign if x == 0.0 || x.is_nan() => x,
        UnaryOp::Sign => 1f64.copysign(x),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::RoundNearestEven => x.round_ties_even(),
        UnaryOp::RoundNearestAfz => x.round(),
        UnaryOp::Exp => x.exp(),
        UnaryOp::Expm1 => x.exp_m1(),
        UnaryOp::Log => x.ln(),
        UnaryOp::Log1p => x.ln_1p(),
        // Two forms, each without cancellation or overflow on its side.
        UnaryOp::Logistic if x >= 0.0 => 1.0 / (1.0 + (-x).exp()),
        UnaryOp::Logistic => x.exp() / (1.0 + x.exp()),
        UnaryOp::Tanh => x.tanh(),
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Tan => x.tan(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Rsqrt => 1.0 / x.sqrt(),
        UnaryOp::Cbrt => x.cbrt(),
        UnaryOp::Erf => special::erf(x),
        UnaryOp::ErfInv => special::erf_inv(x),
        UnaryOp::IsFinite
        | UnaryOp::Not
        | UnaryOp::PopulationCount
        | UnaryOp::CountLeadingZeros
        | UnaryOp::Real
        | UnaryOp::Imag => return None,
    })
}

fn binary_f64(op: BinaryOp, x: f64, y: f64) -> Option<f64> {
    Some(match op {
        BinaryOp::Add => x + y,
        BinaryOp::Subtract => x - y,
        BinaryOp::Multiply => x * y,
        BinaryOp::Divide => x / y,
        BinaryOp::Remainder => x % y,
        BinaryOp::Power => x.powf(y),
        BinaryOp::Atan2 => x.atan2(y),
        BinaryOp::Maximum | BinaryOp::Minimum if x.is_nan() || y.is_nan() => f64::NAN,
        // Of two zeros the positive one is the larger.
        BinaryOp::Maximum if x == y => {
            if x.is_sign_negative() {
                y
            } else {
                x
            }
        }
        BinaryOp::Minimum if x == y => {
            if x.is_sign_negative() {
                x
            } else {
                y
            }
        }
        BinaryOp::Maximum => {
            if x > y {
                x
            } else {
                y
            }
        }
        BinaryOp::Minimum => {
            if x < y {
                x
            } else {
                y
            }
        }
        BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Xor
        | BinaryOp::ShiftLeft
        | BinaryOp::ShiftRightArithmetic
        | BinaryOp::ShiftRightLogical => return None,
    })
}

/// Basic arithmetic must round once from the exact value. `f64` has more than twice the digits of `f32`, so that rounding an `f64` sum,
/// product, quotient or square root to `f32` does so; every other function may as well be computed there.
fn unary_f32(op: UnaryOp, x: f32) -> Option<f32> {
    unary_f64(op, x.into()).map(|y| y as f32)
}
fn binary_f32(op: BinaryOp, x: f32, y: f32) -> Option<f32> {
    binary_f64(op, x.into(), y.into()).map(|z| z as f32)
}

macro_rules! floats {
    ($($t:ty: $wide:ty, $unary:ident, $binary:ident;)*) => {$(
        impl Number for $t {
            fn unary(op: UnaryOp, x: Self) -> Result<Self> {
                let y = $unary(op, cast::<_, $wide>(x)).ok_or_else(|| unsupported::<Self>(op.name()))?;
                Ok(cast(y))
            }
            fn binary(op: BinaryOp, x: Self, y: Self) -> Result<Self> {
                let z = $binary(op, cast::<_, $wide>(x), cast::<_, $wide>(y));
                Ok(cast(z.ok_or_else(|| unsupported::<Self>(op.name()))?))
            }
            fn compare(op: Comparison, x: Self, y: Self) -> bool {
                holds(op, cast::<_, $wide>(x), cast::<_, $wide>(y))
            }
        }
    )*};
}
floats! {
    f64: f64, unary_f64, binary_f64;
    f32: f32, unary_f32, binary_f32;
    f16: f32, unary_f32, binary_f32;
    bf16: f32, unary_f32, binary_f32;
    F8E4M3FN: f32, unary_f32, binary_f32;
    F8E5M2: f32, unary_f32, binary_f32;
}

// ---- integers

/// What an integer op needs to know beyond the values.
struct Integer {
    bits: u32,
    signed: bool,
}

impl Integer {
    /// The bits of `x` as a number without sign.
    fn unsigned(&self, x: i128) -> u128 {
        x as u128 & ((1 << self.bits) - 1)
    }

    fn unary(&self, op: UnaryOp, x: i128) -> Option<i128> {
        Some(match op {
            UnaryOp::Abs => x.abs(),
            UnaryOp::Neg => -x,
            UnaryOp::Sign => x.signum(),
            UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::RoundNearestEven | UnaryOp::RoundNearestAfz => x,
            UnaryOp::Not => !x,
            UnaryOp::PopulationCount => self.unsigned(x).count_ones().into(),
            UnaryOp::CountLeadingZeros => (self.unsigned(x).leading_zeros() - (128 - self.bits)).into(),
            UnaryOp::Exp
            | UnaryOp::Expm1
            | UnaryOp::Log
            | UnaryOp::Log1p
            | UnaryOp::Logistic
            | UnaryOp::Tanh
            | UnaryOp::Sin
            | UnaryOp::Cos
            | UnaryOp::Tan
            | UnaryOp::Sqrt
            | UnaryOp::Rsqrt
            | UnaryOp::Cbrt
            | UnaryOp::Erf
            | UnaryOp::ErfInv
            | UnaryOp::IsFinite
            | UnaryOp::Real
            | UnaryOp::Imag => return None,
        })
    }

    fn binary(&self, op: BinaryOp, x: i128, y: i128) -> Option<i128> {
        // A shift count is read without sign: a negative one is too large.
        let shift = self.unsigned(y).min(self.bits.into()) as u32;
        Some(match op {
            BinaryOp::Add => x + y,
            BinaryOp::Subtract => x - y,
            BinaryOp::Multiply => x.wrapping_mul(y),
            BinaryOp::Divide if y == 0 => -1,
            BinaryOp::Divide => x / y,
            BinaryOp::Remainder if y == 0 => x,
            BinaryOp::Remainder => x % y,
            BinaryOp::Power => power(x, y),
            BinaryOp::Maximum => x.max(y),
            BinaryOp::Minimum => x.min(y),
            BinaryOp::And => x & y,
            BinaryOp::Or => x | y,
            BinaryOp::Xor => x ^ y,
            BinaryOp::ShiftLeft if shift == self.bits => 0,
            BinaryOp::ShiftLeft => x.wrapping_shl(shift),
            // The top bit is the sign for this op, whatever the dtype says.
            BinaryOp::ShiftRightArithmetic => {
                let negative = self.unsigned(x) >> (self.bits - 1) == 1;
                let value = if negative && !self.signed { x - (1 << self.bits) } else { x };
                value >> shift
            }
            BinaryOp::ShiftRightLogical => (self.unsigned(x) >> shift) as i128,
            BinaryOp::Atan2 => return None,
        })
    }
}

/// `x` to the power `y`, of which the low 64 bits are right.
fn power(x: i128, y: i128) -> i128 {
    match (x, y) {
        (1, _) => 1,
        (-1, _) => {
            if y % 2 == 0 {
                1
            } else {
                -1
            }
        }
        (_, ..0) => 0,
        (..) => {
            let (mut result, mut square, mut rest) = (1i128, x, y);
            while rest > 0 {
                if rest % 2 == 1 {
                    result = result.wrapping_mul(square);
                }
                square = square.wrapping_mul(square);
                rest /= 2;
            }
            result
        }
    }
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Number for $t {
            fn unary(op: UnaryOp, x: Self) -> Result<Self> {
                let int = Integer { bits: Self::BITS, signed: Self::MIN != 0 };
                Ok(int.unary(op, x.into()).ok_or_else(|| unsupported::<Self>(op.name()))? as Self)
            }
            fn binary(op: BinaryOp, x: Self, y: Self) -> Result<Self> {
                let int = Integer { bits: Self::BITS, signed: Self::MIN != 0 };
                Ok(int.binary(op, x.into(), y.into()).ok_or_else(|| unsupported::<Self>(op.name()))? as Self)
            }
            fn compare(op: Comparison, x: Self, y: Self) -> bool {
                holds(op, x, y)
            }
        }
    )*};
}
integers! { u8 u16 u32 u64 i8 i16 i32 i64 }

impl Number for bool {
    fn unary(op: UnaryOp, x: Self) -> Result<Self> {
        match op {
            UnaryOp::Not => Ok(!x),
            _ => Err(unsupported::<Self>(op.name())),
        }
    }
    fn binary(op: BinaryOp, x: Self, y: Self) -> Result<Self> {
        match op {
            BinaryOp::Add | BinaryOp::Maximum | BinaryOp::Or => Ok(x | y),
            BinaryOp::Multiply | BinaryOp::Minimum | BinaryOp::And => Ok(x & y),
            BinaryOp::Xor => Ok(x ^ y),
            _ => Err(unsupported::<Self>(op.name())),
        }
    }
    fn compare(op: Comparison, x: Self, y: Self) -> bool {
        holds(op, x, y)
    }
}

// ---- complex numbers, computed in f64

type Wide = num_complex::Complex<f64>;

/// A complex number in `f64`.
pub fn widen(x: Complex64) -> Wide {
    Wide::new(x.re.into(), x.im.into())
}

/// A complex number rounded to `f32` parts.
pub fn narrow(x: Wide) -> Complex64 {
    Complex64::new(x.re as f32, x.im as f32)
}

fn unary_complex(op: UnaryOp, x: Wide) -> Option<Wide> {
    let one = Wide::new(1.0, 0.0);
    Some(match op {
        UnaryOp::Neg => -x,
        UnaryOp::Sign if x.re == 0.0 && x.im == 0.0 => Wide::new(0.0, 0.0),
        UnaryOp::Sign => x / x.norm(),
        UnaryOp::Exp => x.exp(),
        UnaryOp::Expm1 => {
            // eˣ − 1 = (e^re − 1) cos im − 2 sin²(im/2) + i e^re sin im
            let half = (x.im / 2.0).sin();
            Wide::new(x.re.exp_m1() * x.im.cos() - 2.0 * half * half, x.re.exp() * x.im.sin())
        }
        UnaryOp::Log => x.ln(),
        UnaryOp::Log1p => {
            // |1 + x|² − 1 without cancellation.
            let excess = x.re * (2.0 + x.re) + x.im * x.im;
            Wide::new(excess.ln_1p() / 2.0, x.im.atan2(1.0 + x.re))
        }
        UnaryOp::Logistic => one / (one + (-x).exp()),
        UnaryOp::Tanh => x.tanh(),
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Tan => x.tan(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Rsqrt => one / x.sqrt(),
        _ => return None,
    })
}

fn binary_complex(op: BinaryOp, x: Wide, y: Wide) -> Option<Wide> {
    Some(match op {
        BinaryOp::Add => x + y,
        BinaryOp::Subtract => x - y,
        BinaryOp::Multiply => x * y,
        BinaryOp::Divide => x / y,
        BinaryOp::Power => x.powc(y),
        _ => return None,
    })
}

impl Number for Complex64 {
    fn unary(op: UnaryOp, x: Self) -> Result<Self> {
        unary_complex(op, widen(x)).map(narrow).ok_or_else(|| unsupported::<Self>(op.name()))
    }
    fn binary(op: BinaryOp, x: Self, y: Self) -> Result<Self> {
        binary_complex(op, widen(x), widen(y)).map(narrow).ok_or_else(|| unsupported::<Self>(op.name()))
    }
    /// Only equality is meant; the shape rule refuses the others.
    fn compare(op: Comparison, x: Self, y: Self) -> bool {
        (x == y) == (op == Comparison::Eq)
    }
}

/// The number from which a reduction of `kind` over elements of `T` starts.
pub fn identity<T: Number>(kind: crate::ir::Reducer) -> T {
    use crate::ir::Reducer::*;
    match (kind, T::DTYPE.kind()) {
        (Sum | Or | Xor, _) => cast(0u8),
        (Product, _) => cast(1u8),
        (And, _) => cast(-1i64),
        (Max, Kind::Bool | Kind::Unsigned) => cast(false),
        (Min, Kind::Bool | Kind::Unsigned) => cast(-1i64),
        (Max, Kind::Signed) => cast(1u64 << (T::DTYPE.bits() - 1)),
        (Min, Kind::Signed) => cast((1u64 << (T::DTYPE.bits() - 1)) - 1),
        (Max, Kind::Float | Kind::Complex) => lowest::<T>(),
        (Min, Kind::Float | Kind::Complex) => negated(lowest::<T>()),
    }
}

/// −∞, or the lowest number of a type without infinities (which the conversion saturates to).
fn lowest<T: Number>() -> T {
    cast(f32::NEG_INFINITY)
}

fn negated<T: Number>(x: T) -> T {
    T::unary(UnaryOp::Neg, x).unwrap_or(x)
}

/// The op that combines two elements of a reduction.
pub fn combiner(kind: crate::ir::Reducer) -> BinaryOp {
    use crate::ir::Reducer;
    match kind {
        Reducer::Sum => BinaryOp::Add,
        Reducer::Product => BinaryOp::Multiply,
        Reducer::Max => BinaryOp::Maximum,
        Reducer::Min => BinaryOp::Minimum,
        Reducer::And => BinaryOp::And,
        Reducer::Or => BinaryOp::Or,
        Reducer::Xor => BinaryOp::Xor,
    }
}
