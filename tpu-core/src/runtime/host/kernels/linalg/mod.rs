//! Dense linear algebra over the last two axes, matrix by matrix, in double precision.

mod eigh;
mod lu;
mod qr;
mod reflection;
mod triangular;

pub(super) use eigh::eigh;
pub(super) use lu::lu;
pub(super) use qr::qr;
pub(super) use triangular::{Solve, cholesky, triangular_solve};

use super::Operand;
use crate::ir::Op;
use crate::{Complex64, Result, bail};
use bytemuck::Pod;
use num_complex::Complex;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// A number that matrices are computed with.
trait Field:
    Pod
    + Default
    + Send
    + Sync
    + PartialEq
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Mul<f64, Output = Self>
    + Div<f64, Output = Self>
    + AddAssign
    + SubAssign
{
    fn conjugate(self) -> Self;
    /// The real part.
    fn real(self) -> f64;
    fn from_real(value: f64) -> Self;
    /// The square of the modulus.
    fn square(self) -> f64;
    /// The sum of the parts' magnitudes, by which LAPACK compares pivots.
    fn size(self) -> f64;
}

impl Field for f64 {
    fn conjugate(self) -> Self {
        self
    }
    fn real(self) -> f64 {
        self
    }
    fn from_real(value: f64) -> Self {
        value
    }
    fn square(self) -> f64 {
        self * self
    }
    fn size(self) -> f64 {
        self.abs()
    }
}

impl Field for Complex<f64> {
    fn conjugate(self) -> Self {
        self.conj()
    }
    fn real(self) -> f64 {
        self.re
    }
    fn from_real(value: f64) -> Self {
        Self::new(value, 0.0)
    }
    fn square(self) -> f64 {
        self.norm_sqr()
    }
    fn size(self) -> f64 {
        self.re.abs() + self.im.abs()
    }
}

/// An element type and the field that it is computed in.
trait Solved: Pod + Send + Sync {
    type In: Field;
    /// The type of its eigenvalues.
    type Real: Pod + Send + Sync;
    fn up(self) -> Self::In;
    fn down(value: Self::In) -> Self;
    fn real_down(value: f64) -> Self::Real;
}

macro_rules! solved {
    ($($t:ty, $field:ty, $real:ty: |$x:ident| $up:expr, $down:expr;)*) => {$(
        impl Solved for $t {
            type In = $field;
            type Real = $real;
            fn up(self) -> $field { let $x = self; $up }
            fn down($x: $field) -> Self { $down }
            fn real_down(value: f64) -> $real { value as $real }
        }
    )*};
}
solved! {
    f32, f64, f32: |x| x.into(), x as Self;
    f64, f64, f64: |x| x, x;
    Complex64, Complex<f64>, f32: |x| Complex::new(x.re.into(), x.im.into()), Self::new(x.re as f32, x.im as f32);
}

/// Runs `$body` with `$T` standing for the element type of `$dtype`.
macro_rules! with_solved {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {{
        macro_rules! arm {
            ($t:ty) => {{
                type $T = $t;
                $body
            }};
        }
        match $dtype {
            crate::DType::F32 => arm!(f32),
            crate::DType::F64 => arm!(f64),
            crate::DType::Complex64 => arm!(crate::Complex64),
            other => crate::bail!(Internal, $op, "does not take {other}"),
        }
    }};
}
use with_solved;

/// The last two sizes.
fn matrix(x: &Operand<'_>, op: &Op) -> Result<(usize, usize)> {
    match x.sizes() {
        [.., rows, columns] => Ok((*rows, *columns)),
        _ => bail!(Internal, op.name(), "requires matrices, got {}", x.ty),
    }
}

/// How many matrices an operand holds.
fn count(x: &Operand<'_>) -> usize {
    x.sizes().iter().rev().skip(2).product()
}

/// A power of two that numbers of at most this size are divided by, without rounding, so that their squares stay in range.
fn power_of_two(largest: f64) -> f64 {
    let exponent = f64::from_bits(largest.to_bits() & f64::INFINITY.to_bits());
    if exponent.is_normal() {
        exponent
    } else if largest < f64::MIN_POSITIVE && largest > 0.0 {
        f64::MIN_POSITIVE
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::power_of_two;

    #[test]
    fn numbers_divided_by_the_power_of_two_are_of_order_one() {
        for x in [1.0, 1.5, 0.7, 1e300, f64::MAX, 1e-300, f64::MIN_POSITIVE] {
            let power = power_of_two(x);
            assert!((1.0..2.0).contains(&(x / power)), "{x}");
            assert_eq!(power.to_bits() << 12, 0, "{x}");
        }
        assert_eq!(power_of_two(f64::MIN_POSITIVE / 8.0), f64::MIN_POSITIVE);
        for x in [0.0, f64::INFINITY, f64::NAN] {
            assert_eq!(power_of_two(x), 1.0);
        }
    }
}
