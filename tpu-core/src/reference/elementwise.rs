//! Ops that compute each result element from the operand elements at the same place.

use super::array::{Array, check_size};
use super::number::Number;
use crate::dtype::convert;
use crate::ir::{BinaryOp, Comparison, Type, UnaryOp};
use crate::{Complex64, DType, Result, bail, ensure, with_element};

/// `unary(x)`.
pub fn unary(op: UnaryOp, x: &Array, ty: &Type) -> Result<Array> {
    match op {
        UnaryOp::IsFinite => is_finite(x, ty),
        UnaryOp::Abs if x.dtype().is_complex() => {
            let x = x.to_vec::<Complex64>()?;
            Array::from_fn(ty, |i| (x[i].re as f64).hypot(x[i].im.into()) as f32)
        }
        UnaryOp::Real if x.dtype().is_complex() => {
            let x = x.to_vec::<Complex64>()?;
            Array::from_fn(ty, |i| x[i].re)
        }
        UnaryOp::Imag if x.dtype().is_complex() => {
            let x = x.to_vec::<Complex64>()?;
            Array::from_fn(ty, |i| x[i].im)
        }
        _ => with_element!(x.dtype(), T => {
            let values = x.to_vec::<T>()?.into_iter().map(|x| T::unary(op, x)).collect::<Result<Vec<T>>>()?;
            Array::new(&ty.shape, &values)
        }),
    }
}

fn is_finite(x: &Array, ty: &Type) -> Result<Array> {
    ensure!(x.dtype().is_float(), DType, "is_finite", "is not defined for {}", x.dtype());
    let values = x.cast_vec::<f64>();
    Array::from_fn(ty, |i| values[i].is_finite())
}

/// `binary(x, y)`.
pub fn binary(op: BinaryOp, x: &Array, y: &Array, ty: &Type) -> Result<Array> {
    with_element!(x.dtype(), T => {
        let pairs = x.to_vec::<T>()?.into_iter().zip(y.to_vec::<T>()?);
        let values = pairs.map(|(x, y)| T::binary(op, x, y)).collect::<Result<Vec<T>>>()?;
        Array::new(&ty.shape, &values)
    })
}

/// `compare(x, y)`.
pub fn compare(op: Comparison, x: &Array, y: &Array, ty: &Type) -> Result<Array> {
    with_element!(x.dtype(), T => {
        let (x, y) = (x.to_vec::<T>()?, y.to_vec::<T>()?);
        Array::from_fn(ty, |i| T::compare(op, x[i], y[i]))
    })
}

/// `select(predicate, on_true, on_false)`.
pub fn select(predicate: &Array, on_true: &Array, on_false: &Array, ty: &Type) -> Result<Array> {
    let predicate = predicate.to_vec::<bool>()?;
    with_element!(ty.dtype, T => {
        let (yes, no) = (on_true.to_vec::<T>()?, on_false.to_vec::<T>()?);
        Array::from_fn(ty, |i| if predicate[i] { yes[i] } else { no[i] })
    })
}

/// `clamp(low, x, high)`.
pub fn clamp(low: &Array, x: &Array, high: &Array, ty: &Type) -> Result<Array> {
    with_element!(ty.dtype, T => {
        let (low, x, high) = (low.to_vec::<T>()?, x.to_vec::<T>()?, high.to_vec::<T>()?);
        let clamped = x.iter().enumerate().map(|(i, &x)| {
            let raised = T::binary(BinaryOp::Maximum, x, low[i])?;
            T::binary(BinaryOp::Minimum, raised, high[i])
        });
        Array::new(&ty.shape, &clamped.collect::<Result<Vec<T>>>()?)
    })
}

/// `complex(real, imaginary)`.
pub fn complex(re: &Array, im: &Array, ty: &Type) -> Result<Array> {
    let (re, im) = (re.to_vec::<f32>()?, im.to_vec::<f32>()?);
    Array::from_fn(ty, |i| Complex64::new(re[i], im[i]))
}

/// `convert(x)`.
pub fn convert(x: &Array, ty: &Type) -> Result<Array> {
    check_size(ty)?;
    let mut bytes = vec![0; ty.bytes().unwrap_or(0)];
    convert::convert(x.dtype(), x.bytes(), ty.dtype, &mut bytes)?;
    Array::from_bytes(ty.clone(), bytes)
}

/// `bitcast_convert(x)`: memory is little endian and row-major, so the bytes stay as they are.
pub fn bitcast(x: &Array, ty: &Type) -> Result<Array> {
    Array::from_bytes(ty.clone(), x.bytes().to_vec())
}

/// `reduce_precision(x)`.
pub fn reduce_precision(x: &Array, exponent_bits: u32, mantissa_bits: u32, ty: &Type) -> Result<Array> {
    let (exponent, mantissa) = match x.dtype() {
        DType::F16 => (5, 10),
        DType::BF16 => (8, 7),
        DType::F32 => (8, 23),
        DType::F64 => (11, 52),
        dtype => bail!(DType, "reduce_precision", "is not defined for {dtype}"),
    };
    let mut bytes = Vec::with_capacity(x.bytes().len());
    for element in x.bytes().chunks_exact(x.width()) {
        let bits = element.iter().rev().fold(0u64, |bits, &byte| bits << 8 | byte as u64);
        let reduced = reduce_bits(bits, (exponent, mantissa), (exponent_bits, mantissa_bits));
        bytes.extend_from_slice(&reduced.to_le_bytes()[..x.width()]);
    }
    Array::from_bytes(ty.clone(), bytes)
}

/// Rounds the bits of a float with the `(exponent, mantissa)` bits of `from` to those of `to`: to nearest even, too large is infinite,
/// too small for a normal number is zero (only if there are fewer exponent bits), NaN stays.
fn reduce_bits(bits: u64, from: (u32, u32), to: (u32, u32)) -> u64 {
    let infinity = ((1u64 << from.0) - 1) << from.1;
    let sign = bits & (1 << (from.0 + from.1));
    let mut magnitude = bits ^ sign;
    if magnitude > infinity {
        return bits;
    }
    if to.1 < from.1 && magnitude < infinity {
        let dropped = from.1 - to.1;
        let odd = (magnitude >> dropped) & 1;
        magnitude += (1 << (dropped - 1)) - 1 + odd;
        magnitude = magnitude >> dropped << dropped;
    }
    if to.0 < from.0 {
        let (bias, narrow_bias) = ((1u64 << (from.0 - 1)) - 1, (1u64 << (to.0 - 1)) - 1);
        let exponent = magnitude >> from.1;
        if exponent > bias + narrow_bias {
            magnitude = infinity;
        } else if exponent <= bias - narrow_bias {
            magnitude = 0;
        }
    }
    sign | magnitude
}

/// `iota`.
pub fn iota(axis: usize, ty: &Type) -> Result<Array> {
    let stride: usize = ty.shape.sizes()[axis + 1..].iter().product();
    let size = ty.shape.size(axis);
    with_element!(ty.dtype, T => Array::from_fn(ty, |i| convert::cast::<u64, T>((i / stride % size) as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::F8E4M3FN;
    use half::bf16;

    fn f32s(values: &[f32]) -> Array {
        Array::new(values.len(), values).unwrap()
    }

    #[test]
    fn reduce_precision_to_bf16_agrees_with_the_conversion() {
        let values = [1.0f32, 1.003_906_3, 1.005, -3.125_3, 1e-40, f32::MAX, f32::INFINITY, 0.0, -0.0];
        let x = f32s(&values);
        let reduced = reduce_precision(&x, 8, 7, x.ty()).unwrap().to_vec::<f32>().unwrap();
        for (x, y) in values.iter().zip(reduced) {
            assert_eq!(bf16::from_f32(*x).to_f32().to_bits(), y.to_bits(), "{x}");
        }
    }

    #[test]
    fn reduce_precision_to_half_overflows_and_flushes() {
        let x = f32s(&[65504.0, 65520.0, -1e6, 6.2e-5, 6e-5, -6e-5, f32::NAN]);
        let reduced = reduce_precision(&x, 5, 10, x.ty()).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(reduced[..3], [65504.0, f32::INFINITY, f32::NEG_INFINITY]);
        assert_eq!(half::f16::from_f32(6.2e-5).to_f32(), reduced[3]);
        assert_eq!((reduced[4].to_bits(), reduced[5].to_bits()), (0.0f32.to_bits(), (-0.0f32).to_bits()));
        assert!(reduced[6].is_nan());
    }

    #[test]
    fn integer_arithmetic_has_the_documented_corner_values() {
        use BinaryOp::*;
        let cases: [(BinaryOp, i8, i8, i8); 14] = [
            (Divide, 7, 0, -1),
            (Divide, -128, -1, -128),
            (Divide, -7, 2, -3),
            (Remainder, 7, 0, 7),
            (Remainder, -128, -1, 0),
            (Remainder, -7, 2, -1),
            (ShiftLeft, 1, 8, 0),
            (ShiftLeft, 1, -1, 0),
            (ShiftRightArithmetic, -128, 100, -1),
            (ShiftRightLogical, -128, 7, 1),
            (ShiftRightLogical, -128, 8, 0),
            (Power, 3, 5, -13),
            (Power, 2, -1, 0),
            (Power, -1, -3, -1),
        ];
        for (op, x, y, expected) in cases {
            assert_eq!(i8::binary(op, x, y).unwrap(), expected, "{op:?}({x}, {y})");
        }
        assert_eq!(u64::binary(Power, 3, 41).unwrap(), 3u64.wrapping_pow(41));
        assert_eq!(u8::binary(ShiftRightArithmetic, 0x80, 1).unwrap(), 0xc0);
        assert_eq!(i64::unary(UnaryOp::Abs, i64::MIN).unwrap(), i64::MIN);
        assert_eq!(i16::unary(UnaryOp::CountLeadingZeros, 1).unwrap(), 15);
        assert_eq!(i16::unary(UnaryOp::PopulationCount, -1).unwrap(), 16);
    }

    #[test]
    fn nan_wins_in_maximum_and_the_positive_zero_is_larger() {
        assert!(f32::binary(BinaryOp::Maximum, 1.0, f32::NAN).unwrap().is_nan());
        assert!(f64::binary(BinaryOp::Minimum, f64::NAN, 1.0).unwrap().is_nan());
        assert_eq!(f32::binary(BinaryOp::Maximum, -0.0, 0.0).unwrap().to_bits(), 0);
        assert_eq!(f32::binary(BinaryOp::Minimum, 0.0, -0.0).unwrap().to_bits(), (-0.0f32).to_bits());
    }

    #[test]
    fn eight_bit_floats_round_after_each_op() {
        let x = F8E4M3FN::from_f32(1.125);
        // 1.265625 lies between 1.25 and 1.375.
        assert_eq!(F8E4M3FN::binary(BinaryOp::Multiply, x, x).unwrap().to_f32(), 1.25);
    }
}
