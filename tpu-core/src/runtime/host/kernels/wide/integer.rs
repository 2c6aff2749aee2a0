//! Integers: everything wraps, division by zero and too long shifts have the values that `ir::op` states.

use super::super::cell::Cell;
use super::{Combine, Map, Wide, Zip, combine, map, reducer, zip};
use crate::ir::{BinaryOp, Reducer, UnaryOp};

/// What signed and unsigned integers do differently.
pub(super) trait Integer: Copy {
    /// |x|, the least value stays itself.
    fn magnitude(self) -> Self;
    /// −1, 0 or 1.
    fn sign(self) -> Self;
    /// Rounded towards zero; −1 (all ones) for a zero divisor.
    fn quotient(self, divisor: Self) -> Self;
    /// What the quotient leaves; the dividend for a zero divisor.
    fn remainder(self, divisor: Self) -> Self;
    /// Wrapping power; negative exponents give 0 unless the base is ±1.
    fn power(self, exponent: Self) -> Self;
    /// Zeros move in from the right.
    fn left(self, by: Self) -> Self;
    /// The sign moves in from the left.
    fn right_arithmetic(self, by: Self) -> Self;
    /// Zeros move in from the left.
    fn right_logical(self, by: Self) -> Self;
}

macro_rules! integer {
    ($($t:ident, $signed:ident, $unsigned:ident: |$x:ident| $magnitude:expr, $sign:expr;)*) => {$(
        #[allow(clippy::unnecessary_cast, reason = "one text for signed and unsigned")]
        #[allow(unused_comparisons, reason = "one text for signed and unsigned")]
        impl Integer for $t {
            fn magnitude(self) -> Self { let $x = self; $magnitude }
            fn sign(self) -> Self { let $x = self; $sign }
            fn quotient(self, divisor: Self) -> Self {
                if divisor == 0 { !0 } else { self.wrapping_div(divisor) }
            }
            fn remainder(self, divisor: Self) -> Self {
                if divisor == 0 { self } else { self.wrapping_rem(divisor) }
            }
            fn power(self, exponent: Self) -> Self {
                if exponent < 0 {
                    return match self {
                        1 => 1,
                        x if x == !0 => if exponent & 1 == 0 { 1 } else { x },
                        _ => 0,
                    };
                }
                let (mut base, mut rest, mut product) = (self, exponent, 1 as Self);
                while rest != 0 {
                    if rest & 1 == 1 {
                        product = product.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    rest >>= 1;
                }
                product
            }
            fn left(self, by: Self) -> Self {
                if (by as $unsigned as u64) < Self::BITS as u64 { self << by } else { 0 }
            }
            fn right_arithmetic(self, by: Self) -> Self {
                let by = (by as $unsigned as u64).min(Self::BITS as u64 - 1);
                (self as $signed >> by) as Self
            }
            fn right_logical(self, by: Self) -> Self {
                if (by as $unsigned as u64) < Self::BITS as u64 { (self as $unsigned >> by) as Self } else { 0 }
            }
        }

        impl Wide for $t {
            fn unary<T: Cell<Wide = Self>>(op: UnaryOp) -> Option<Map<T>> {
                Some(match op {
                    UnaryOp::Abs => map!(|x| x.magnitude()),
                    UnaryOp::Neg => map!(|x| x.wrapping_neg()),
                    UnaryOp::Sign => map!(|x| x.sign()),
                    UnaryOp::Not => map!(|x| !x),
                    UnaryOp::PopulationCount => map!(|x| x.count_ones() as Self),
                    UnaryOp::CountLeadingZeros => map!(|x| x.leading_zeros() as Self),
                    _ => return None,
                })
            }

            fn binary<T: Cell<Wide = Self>>(op: BinaryOp) -> Option<Zip<T>> {
                Some(match op {
                    BinaryOp::Add => zip!(|x, y| x.wrapping_add(y)),
                    BinaryOp::Subtract => zip!(|x, y| x.wrapping_sub(y)),
                    BinaryOp::Multiply => zip!(|x, y| x.wrapping_mul(y)),
                    BinaryOp::Divide => zip!(|x, y| x.quotient(y)),
                    BinaryOp::Remainder => zip!(|x, y| x.remainder(y)),
                    BinaryOp::Power => zip!(|x, y| x.power(y)),
                    BinaryOp::Maximum => zip!(|x, y| x.max(y)),
                    BinaryOp::Minimum => zip!(|x, y| x.min(y)),
                    BinaryOp::And => zip!(|x, y| x & y),
                    BinaryOp::Or => zip!(|x, y| x | y),
                    BinaryOp::Xor => zip!(|x, y| x ^ y),
                    BinaryOp::ShiftLeft => zip!(|x, y| x.left(y)),
                    BinaryOp::ShiftRightArithmetic => zip!(|x, y| x.right_arithmetic(y)),
                    BinaryOp::ShiftRightLogical => zip!(|x, y| x.right_logical(y)),
                    BinaryOp::Atan2 => return None,
                })
            }

            fn reducer<T: Cell<Wide = Self>>(kind: Reducer) -> Option<Combine<T>> {
                Some(match kind {
                    Reducer::Sum => reducer!(0, |x, y| x.wrapping_add(y)),
                    Reducer::Product => reducer!(1, |x, y| x.wrapping_mul(y)),
                    Reducer::Max => reducer!(Self::MIN, |x, y| x.max(y)),
                    Reducer::Min => reducer!(Self::MAX, |x, y| x.min(y)),
                    Reducer::And => reducer!(!0, |x, y| x & y),
                    Reducer::Or => reducer!(0, |x, y| x | y),
                    Reducer::Xor => reducer!(0, |x, y| x ^ y),
                })
            }

            fn is_nan(self) -> bool {
                false
            }

            fn plus(self, x: Self) -> Self {
                self.wrapping_add(x)
            }
        }
    )*};
}
integer! {
    u8, i8, u8: |x| x, (x != 0) as Self;
    u16, i16, u16: |x| x, (x != 0) as Self;
    u32, i32, u32: |x| x, (x != 0) as Self;
    u64, i64, u64: |x| x, (x != 0) as Self;
    i8, i8, u8: |x| x.wrapping_abs(), x.signum();
    i16, i16, u16: |x| x.wrapping_abs(), x.signum();
    i32, i32, u32: |x| x.wrapping_abs(), x.signum();
    i64, i64, u64: |x| x.wrapping_abs(), x.signum();
}

#[cfg(test)]
mod tests {
    use super::Integer;

    #[test]
    fn division_by_zero_gives_all_ones_and_leaves_the_dividend() {
        assert_eq!((7i32.quotient(0), 7i32.remainder(0)), (-1, 7));
        assert_eq!((7u8.quotient(0), 7u8.remainder(0)), (255, 7));
        assert_eq!((i32::MIN.quotient(-1), i32::MIN.remainder(-1)), (i32::MIN, 0));
        assert_eq!(((-7i8).quotient(2), (-7i8).remainder(2)), (-3, -1));
    }

    #[test]
    fn shifts_by_the_width_or_more_empty_the_number() {
        assert_eq!((1i32.left(31), 1i32.left(32), 1i32.left(-1)), (i32::MIN, 0, 0));
        assert_eq!(((-8i8).right_arithmetic(1), (-8i8).right_arithmetic(8), 8i8.right_arithmetic(-1)), (-4, -1, 0));
        assert_eq!(((-1i8).right_logical(7), (-1i8).right_logical(8)), (1, 0));
        assert_eq!((u64::MAX.right_logical(63), u64::MAX.right_logical(u64::MAX)), (1, 0));
    }

    #[test]
    fn powers_wrap_and_negative_exponents_vanish() {
        assert_eq!((3i32.power(4), 0i32.power(0), 2i8.power(7), 2u8.power(9)), (81, 1, -128, 0));
        assert_eq!((2i32.power(-1), 0i32.power(-1), 1i32.power(-5)), (0, 0, 1));
        assert_eq!(((-1i32).power(-3), (-1i32).power(-4), (-1i32).power(3)), (-1, 1, -1));
        assert_eq!(255u8.power(3), 255);
    }

    #[test]
    fn magnitude_and_sign() {
        assert_eq!((i8::MIN.magnitude(), (-5i8).magnitude(), 5u8.magnitude()), (i8::MIN, 5, 5));
        assert_eq!(((-5i64).sign(), 0i64.sign(), 9u16.sign()), (-1, 0, 1));
    }
}
