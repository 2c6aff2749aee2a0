//! Conversions between element types, equal to PyTorch 2.15 on CPU at every boundary value.

/// The exact value of an `f8e4m3fn` bit pattern.
pub fn f8e4m3fn_to_f32(bits: u8) -> f32 {
    let sign = if bits & 0x80 != 0 { -1.0 } else { 1.0 };
    let (exponent, mantissa) = ((bits >> 3) & 0xf, (bits & 7) as f32);
    match (exponent, bits & 7) {
        (0xf, 7) => f32::NAN.copysign(sign),
        (0, _) => sign * mantissa * 2f32.powi(-9),
        _ => sign * (1.0 + mantissa / 8.0) * 2f32.powi(exponent as i32 - 7),
    }
}

/// The exact value of an `f8e5m2` bit pattern.
pub fn f8e5m2_to_f32(bits: u8) -> f32 {
    // The upper byte of an IEEE half.
    half::f16::from_bits((bits as u16) << 8).to_f32()
}

/// Nearest `f8e4m3fn`, ties to even; overflow and NaN give NaN.
pub fn f32_to_f8e4m3fn(value: f32) -> u8 {
    let sign = ((value.to_bits() >> 24) & 0x80) as u8;
    let magnitude = value.abs();
    if magnitude.is_nan() || magnitude >= 480.0 {
        return sign | 0x7f;
    }
    if magnitude < 2f32.powi(-6) {
        return sign | (magnitude * 512.0).round_ties_even() as u8;
    }
    let bits = magnitude.to_bits();
    let rounded = bits + 0x7_ffff + ((bits >> 20) & 1);
    sign | ((rounded >> 20) - (120 << 3)) as u8
}

/// Nearest `f8e5m2`, ties to even; overflow gives infinity.
pub fn f32_to_f8e5m2(value: f32) -> u8 {
    let sign = ((value.to_bits() >> 24) & 0x80) as u8;
    let magnitude = value.abs();
    if magnitude.is_nan() {
        return sign | 0x7f;
    }
    if magnitude >= 61440.0 {
        return sign | 0x7c;
    }
    if magnitude < 2f32.powi(-14) {
        return sign | (magnitude * 65536.0).round_ties_even() as u8;
    }
    let bits = magnitude.to_bits();
    let rounded = bits + 0xf_ffff + ((bits >> 21) & 1);
    sign | ((rounded >> 21) - (112 << 2)) as u8
}

/// The element that a number becomes: floats round to nearest, integers wrap, anything not zero is true.
pub fn from_scalar<T: super::Element>(value: crate::Scalar) -> T {
    T::from_scalar(value)
}

/// Conversion from a number as the user wrote it.
pub trait FromScalar {
    /// The element.
    fn from_scalar(value: crate::Scalar) -> Self;
}

macro_rules! from_scalar {
    ($($t:ty: |$i:ident: i128| $int:expr, |$f:ident: f64| $float:expr;)*) => {$(
        impl FromScalar for $t {
            fn from_scalar(value: crate::Scalar) -> Self {
                use crate::Scalar::*;
                let from_int = |$i: i128| -> $t { $int };
                let from_float = |$f: f64| -> $t { $float };
                match value {
                    Bool(v) => from_int(v.into()),
                    Int(v) => from_int(v.into()),
                    UInt(v) => from_int(v.into()),
                    Float(v) | Complex(v, _) => from_float(v),
                }
            }
        }
    )*};
}
from_scalar! {
    bool: |i: i128| i != 0, |f: f64| f != 0.0;
    u8: |i: i128| i as u8, |f: f64| f as i64 as u8;
    u16: |i: i128| i as u16, |f: f64| f as i64 as u16;
    u32: |i: i128| i as u32, |f: f64| f as i64 as u32;
    u64: |i: i128| i as u64, |f: f64| f as u64;
    i8: |i: i128| i as i8, |f: f64| f as i64 as i8;
    i16: |i: i128| i as i16, |f: f64| f as i64 as i16;
    i32: |i: i128| i as i32, |f: f64| f as i32;
    i64: |i: i128| i as i64, |f: f64| f as i64;
    half::f16: |i: i128| half::f16::from_f64(i as f64), |f: f64| half::f16::from_f64(f);
    half::bf16: |i: i128| half::bf16::from_f64(i as f64), |f: f64| half::bf16::from_f64(f);
    f32: |i: i128| i as f32, |f: f64| f as f32;
    f64: |i: i128| i as f64, |f: f64| f;
    super::F8E4M3FN: |i: i128| Self::from_f32(i as f32), |f: f64| Self::from_f32(f as f32);
    super::F8E5M2: |i: i128| Self::from_f32(i as f32), |f: f64| Self::from_f32(f as f32);
}

impl FromScalar for super::Complex64 {
    fn from_scalar(value: crate::Scalar) -> Self {
        match value {
            crate::Scalar::Complex(re, im) => Self::new(re as f32, im as f32),
            real => Self::new(f32::from_scalar(real), 0.0),
        }
    }
}
