//! `complex64`: functions are evaluated in double precision and rounded once.

use super::super::cell::Cell;
use super::{Combine, Map, Wide, Zip, combine, map, reducer, zip};
use crate::Complex64;
use crate::ir::{BinaryOp, Reducer, UnaryOp};
use num_complex::Complex;

fn up(x: Complex64) -> Complex<f64> {
    Complex::new(x.re.into(), x.im.into())
}
fn down(x: Complex<f64>) -> Complex64 {
    Complex::new(x.re as f32, x.im as f32)
}

/// eˣ − 1 without cancellation: (eᵃ − 1) cos b − 2 sin²(b/2), eᵃ sin b.
fn exp_m1(x: Complex<f64>) -> Complex<f64> {
    let (half, grown) = ((x.im / 2.0).sin(), x.re.exp_m1());
    Complex::new(grown * x.im.cos() - 2.0 * half * half, x.re.exp() * x.im.sin())
}

/// ln(1 + x): |1 + x|² − 1 = a(2 + a) + b².
fn ln_1p(x: Complex<f64>) -> Complex<f64> {
    Complex::new(0.5 * (x.re * (2.0 + x.re) + x.im * x.im).ln_1p(), x.im.atan2(1.0 + x.re))
}

fn power(x: Complex<f64>, y: Complex<f64>) -> Complex<f64> {
    match (x == Complex::ZERO, y == Complex::ZERO) {
        (_, true) => Complex::ONE,
        (true, _) if y.re > 0.0 => Complex::ZERO,
        _ => x.powc(y),
    }
}

impl Wide for Complex64 {
    fn unary<T: Cell<Wide = Self>>(op: UnaryOp) -> Option<Map<T>> {
        const ONE: Complex<f64> = Complex::ONE;
        Some(match op {
            UnaryOp::Neg => map!(|x| -x),
            UnaryOp::Sign => map!(|x| {
                let size = up(x).norm();
                if size == 0.0 { x } else { down(up(x) / size) }
            }),
            UnaryOp::Exp => map!(|x| down(up(x).exp())),
            UnaryOp::Expm1 => map!(|x| down(exp_m1(up(x)))),
            UnaryOp::Log => map!(|x| down(up(x).ln())),
            UnaryOp::Log1p => map!(|x| down(ln_1p(up(x)))),
            UnaryOp::Logistic => map!(|x| down(ONE / (ONE + (-up(x)).exp()))),
            UnaryOp::Tanh => map!(|x| down(up(x).tanh())),
            UnaryOp::Sin => map!(|x| down(up(x).sin())),
            UnaryOp::Cos => map!(|x| down(up(x).cos())),
            UnaryOp::Tan => map!(|x| down(up(x).tan())),
            UnaryOp::Sqrt => map!(|x| down(up(x).sqrt())),
            UnaryOp::Rsqrt => map!(|x| down(ONE / up(x).sqrt())),
            UnaryOp::Abs
            | UnaryOp::Floor
            | UnaryOp::Ceil
            | UnaryOp::RoundNearestEven
            | UnaryOp::RoundNearestAfz
            | UnaryOp::Cbrt
            | UnaryOp::Erf
            | UnaryOp::ErfInv
            | UnaryOp::IsFinite
            | UnaryOp::Not
            | UnaryOp::PopulationCount
            | UnaryOp::CountLeadingZeros
            | UnaryOp::Real
            | UnaryOp::Imag => return None,
        })
    }

    fn binary<T: Cell<Wide = Self>>(op: BinaryOp) -> Option<Zip<T>> {
        Some(match op {
            BinaryOp::Add => zip!(|x, y| x + y),
            BinaryOp::Subtract => zip!(|x, y| x - y),
            BinaryOp::Multiply => zip!(|x, y| down(up(x) * up(y))),
            BinaryOp::Divide => zip!(|x, y| down(up(x) / up(y))),
            BinaryOp::Power => zip!(|x, y| down(power(up(x), up(y)))),
            _ => return None,
        })
    }

    fn reducer<T: Cell<Wide = Self>>(kind: Reducer) -> Option<Combine<T>> {
        match kind {
            Reducer::Sum => Some(reducer!(Self::ZERO, |x, y| x + y)),
            Reducer::Product => Some(reducer!(Self::ONE, |x, y| down(up(x) * up(y)))),
            _ => None,
        }
    }

    fn is_nan(self) -> bool {
        self.re.is_nan() || self.im.is_nan()
    }

    fn plus(self, x: Self) -> Self {
        self + x
    }
}
