//! Real floats. `f32` and `f64` are the plain twins of the row programs' loops.

use super::super::cell::Cell;
use super::{Combine, Map, Wide, Zip, combine, map, reducer, zip};
use crate::ir::{BinaryOp, Reducer, UnaryOp};

macro_rules! float {
    ($($t:ident: erf $erf:path, inverse $erf_inv:path;)*) => {$(
        impl Wide for $t {
            fn unary<T: Cell<Wide = Self>>(op: UnaryOp) -> Option<Map<T>> {
                Some(match op {
                    UnaryOp::Abs => map!(|x| x.abs()),
                    UnaryOp::Neg => map!(|x| -x),
                    UnaryOp::Sign => map!(|x| if x > 0.0 { 1.0 } else if x < 0.0 { -1.0 } else { x }),
                    UnaryOp::Floor => map!(|x| x.floor()),
                    UnaryOp::Ceil => map!(|x| x.ceil()),
                    UnaryOp::RoundNearestEven => map!(|x| x.round_ties_even()),
                    UnaryOp::RoundNearestAfz => map!(|x| x.round()),
                    UnaryOp::Exp => map!(|x| x.exp()),
                    UnaryOp::Expm1 => map!(|x| x.exp_m1()),
                    UnaryOp::Log => map!(|x| x.ln()),
                    UnaryOp::Log1p => map!(|x| x.ln_1p()),
                    // An exponential that cannot overflow: far below zero the result is that exponential, down to subnormals.
                    UnaryOp::Logistic => map!(|x| {
                        let e = (-x.abs()).exp();
                        (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
                    }),
                    UnaryOp::Tanh => map!(|x| x.tanh()),
                    UnaryOp::Sin => map!(|x| x.sin()),
                    UnaryOp::Cos => map!(|x| x.cos()),
                    UnaryOp::Tan => map!(|x| x.tan()),
                    UnaryOp::Sqrt => map!(|x| x.sqrt()),
                    UnaryOp::Rsqrt => map!(|x| 1.0 / x.sqrt()),
                    UnaryOp::Cbrt => map!(|x| x.cbrt()),
                    UnaryOp::Erf => map!(|x| $erf(x)),
                    UnaryOp::ErfInv => map!(|x| $erf_inv(x)),
                    UnaryOp::IsFinite
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
                    BinaryOp::Multiply => zip!(|x, y| x * y),
                    BinaryOp::Divide => zip!(|x, y| x / y),
                    BinaryOp::Remainder => zip!(|x, y| x % y),
                    BinaryOp::Power => zip!(|x, y| x.powf(y)),
                    BinaryOp::Atan2 => zip!(|x, y| x.atan2(y)),
                    BinaryOp::Maximum => zip!(|x, y| if x > y || x.is_nan() { x } else { y }),
                    BinaryOp::Minimum => zip!(|x, y| if x < y || x.is_nan() { x } else { y }),
                    BinaryOp::And
                    | BinaryOp::Or
                    | BinaryOp::Xor
                    | BinaryOp::ShiftLeft
                    | BinaryOp::ShiftRightArithmetic
                    | BinaryOp::ShiftRightLogical => return None,
                })
            }

            fn reducer<T: Cell<Wide = Self>>(kind: Reducer) -> Option<Combine<T>> {
                Some(match kind {
                    Reducer::Sum => reducer!(0.0, |x, y| x + y),
                    Reducer::Product => reducer!(1.0, |x, y| x * y),
                    Reducer::Max => reducer!(Self::NEG_INFINITY, |x, y| if x > y || x.is_nan() { x } else { y }),
                    Reducer::Min => reducer!(Self::INFINITY, |x, y| if x < y || x.is_nan() { x } else { y }),
                    Reducer::And | Reducer::Or | Reducer::Xor => return None,
                })
            }

            fn is_nan(self) -> bool {
                $t::is_nan(self)
            }

            #[inline(always)]
            fn plus(self, x: Self) -> Self {
                self + x
            }
        }
    )*};
}
float! {
    f32: erf libm::erff, inverse erf_inv_f32;
    f64: erf libm::erf, inverse erf_inv;
}

fn erf_inv_f32(x: f32) -> f32 {
    erf_inv(x.into()) as f32
}

/// The inverse error function: a rational guess (M. Giles, "Approximating the erfinv function", 2010, to six digits),
/// then Halley's steps on erf, or on erfc near ±1 where erf has lost the digits.
pub(in crate::runtime::host) fn erf_inv(x: f64) -> f64 {
    let size = x.abs();
    if size >= 1.0 || size.is_nan() {
        return if size == 1.0 { f64::INFINITY.copysign(x) } else { f64::NAN };
    }
    if x == 0.0 {
        return x;
    }
    let log = -((1.0 - size) * (1.0 + size)).ln();
    let mut y = if log < 5.0 {
        let w = log - 2.5;
        [
            2.810_226_36e-8,
            3.432_739_39e-7,
            -3.523_387_7e-6,
            -4.391_506_54e-6,
            0.000_218_580_87,
            -0.001_253_725_03,
            -0.004_177_681_640,
            0.246_640_727,
            1.501_409_41,
        ]
        .iter()
        .fold(0.0, |sum, c| sum * w + c)
    } else {
        let w = log.sqrt() - 3.0;
        [
            -0.000_200_214_257,
            0.000_100_950_558,
            0.001_349_343_22,
            -0.003_673_428_44,
            0.005_739_507_73,
            -0.007_622_461_3,
            0.009_438_870_47,
            1.001_674_06,
            2.832_976_82,
        ]
        .iter()
        .fold(0.0, |sum, c| sum * w + c)
    } * size;
    for _ in 0..3 {
        let error = if size < 0.5 { libm::erf(y) - size } else { (1.0 - size) - libm::erfc(y) };
        let slope = std::f64::consts::FRAC_2_SQRT_PI * (-y * y).exp();
        let step = error / slope;
        y -= step / (1.0 + y * step);
    }
    y.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::erf_inv;

    #[test]
    fn inverse_error_function_at_known_points() {
        // torch.special.erfinv(torch.tensor([...], dtype=torch.float64)).
        for (x, want) in [
            (0.5, 0.476_936_276_204_469_9),
            (-0.1, -0.088_855_990_494_257_69),
            (0.9, 1.163_087_153_676_674_3),
            (0.999_999, 3.458_910_737_275_499),
            (1e-300, 8.862_269_254_527_58e-301),
        ] {
            let got = erf_inv(x);
            assert!(((got - want) / want).abs() < 1e-13, "{x}: {got} instead of {want}");
        }
        assert_eq!(erf_inv(1.0), f64::INFINITY);
        assert_eq!(erf_inv(-1.0), f64::NEG_INFINITY);
        assert!(erf_inv(1.5).is_nan() && erf_inv(f64::NAN).is_nan());
        assert!(erf_inv(-0.0).is_sign_negative());
    }
}
