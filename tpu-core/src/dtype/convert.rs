//! Conversions between element types, equal to PyTorch 2.15's on CPU at every boundary value.
//!
//! The rules, which `tests/convert_table.rs` compares with PyTorch's own answers for all pairs of dtypes:
//!
//! * integer → integer wraps; anything → `bool` asks whether it is not zero (NaN is true); `bool` is 0 or 1.
//! * Anything → float rounds to nearest, ties to even. Targets below `f32` are reached through `f32`, so `f64` and wide
//!   integers round twice, as in PyTorch. Overflow gives infinity, except `f8e4m3fn`, which has none and saturates.
//! * Float → integer rounds towards zero. Out of range C++ leaves it undefined and PyTorch answers what the processor
//!   gives. The narrow integers (`i8`, `i16`, `u16`, and `i32` itself) take the low bits of an `i32`, `u8` and `u32` those of an
//!   `i64`, where every value that the wide type cannot hold (NaN too) is its minimum. `u64` is an `i64` below 2⁶³, and
//!   above it `x − 2⁶³` as `i64` with the top bit flipped. For `u32` PyTorch's vector and scalar loops differ out of
//!   the range of both `i32` and `u32`; the scalar loop's value is ours.
//! * Complex → real drops the imaginary part; complex → `bool` asks whether either part is not zero.

use super::{Complex64, DType, Element, F8E4M3FN, F8E5M2, Kind};
use crate::{Scalar, ensure, with_element};
use half::{bf16, f16};

/// Converts one element.
///
/// ```
/// use tpu_core::dtype::convert::cast;
/// assert_eq!(cast::<f32, u8>(-1.5), 255);
/// assert_eq!(cast::<f64, i32>(f64::NAN), i32::MIN);
/// ```
#[inline(always)]
pub fn cast<A: Element, B: Element>(value: A) -> B {
    B::cast_from(value)
}

/// Converts a slice of elements. Both must have one length: the shorter one ends the loop.
#[inline]
pub fn convert_slice<A: Element, B: Element>(source: &[A], target: &mut [B]) {
    for (target, &source) in target.iter_mut().zip(source) {
        *target = B::cast_from(source);
    }
}

/// Converts row-major little-endian elements, of any alignment.
///
/// Errors when the two slices do not hold the same number of elements.
pub fn convert(source: DType, from: &[u8], target: DType, to: &mut [u8]) -> crate::Result<()> {
    let (wide, narrow) = (source.bits() as usize / 8, target.bits() as usize / 8);
    ensure!(
        from.len().is_multiple_of(wide) && to.len().is_multiple_of(narrow) && from.len() / wide == to.len() / narrow,
        Shape,
        "convert",
        "requires as many {target} as {source} elements, got {} and {} bytes",
        to.len(),
        from.len()
    );
    let integer = matches!(target.kind(), Kind::Signed | Kind::Unsigned);
    match source {
        DType::Complex64 if target == source => to.copy_from_slice(from),
        DType::Complex64 if target == DType::Bool => {
            for (to, from) in to.iter_mut().zip(from.chunks_exact(wide)) {
                *to = u8::from(cast::<Complex64, bool>(Complex64::load(from)));
            }
        }
        // A narrow float converted to itself keeps its bits, also those of a NaN.
        DType::F16 | DType::BF16 | DType::F8E4M3FN | DType::F8E5M2 if target == source => to.copy_from_slice(from),
        DType::F64 => through::<f64>(load::<f64, f64>, from, wide, target, to),
        DType::U64 => through::<u64>(load::<u64, u64>, from, wide, target, to),
        DType::I64 => through::<i64>(load::<i64, i64>, from, wide, target, to),
        DType::I32 => through::<i64>(load::<i32, i64>, from, wide, target, to),
        DType::U32 => through::<i64>(load::<u32, i64>, from, wide, target, to),
        DType::U8 if integer => through::<i64>(load::<u8, i64>, from, wide, target, to),
        DType::U16 if integer => through::<i64>(load::<u16, i64>, from, wide, target, to),
        DType::I8 if integer => through::<i64>(load::<i8, i64>, from, wide, target, to),
        DType::I16 if integer => through::<i64>(load::<i16, i64>, from, wide, target, to),
        // Booleans, integers of up to 16 bits, floats of up to 32, and the real part of complex numbers.
        _ => through::<f32>(with_element!(source, A => load::<A, f32>), from, wide, target, to),
    }
    Ok(())
}

/// Elements that convert at a time: their intermediate values stay in the first-level cache.
const BLOCK: usize = 256;

/// Converts by way of `W`, which holds every value of the source: a loop per source and a loop per target for each `W`
/// instead of a loop per pair.
fn through<W: Element>(load: fn(&[u8], &mut [W]), from: &[u8], width: usize, target: DType, to: &mut [u8]) {
    let store: fn(&[W], &mut [u8]) = with_element!(target, B => store::<W, B>);
    let mut values = [W::default(); BLOCK];
    let narrow = target.bits() as usize / 8;
    for (from, to) in from.chunks(BLOCK * width).zip(to.chunks_mut(BLOCK * narrow)) {
        let values = &mut values[..from.len() / width];
        load(from, values);
        store(values, to);
    }
}

fn load<A: Element, W: Element>(from: &[u8], values: &mut [W]) {
    for (value, from) in values.iter_mut().zip(from.chunks_exact(size_of::<A>())) {
        *value = W::cast_from(A::load(from));
    }
}

fn store<W: Element, B: Element>(values: &[W], to: &mut [u8]) {
    for (&value, to) in values.iter().zip(to.chunks_exact_mut(size_of::<B>())) {
        to.copy_from_slice(bytemuck::bytes_of(&B::cast_from(value)));
    }
}

/// The element that a number becomes: a `bool`, `i64`, `u64` or `f64` converted by the rules of this module, as
/// `torch.full` does. A complex number gives its real part to a real type.
pub fn from_scalar<T: Element>(value: Scalar) -> T {
    match value {
        Scalar::Bool(v) => cast(v),
        Scalar::Int(v) => cast(v),
        Scalar::UInt(v) => cast(v),
        Scalar::Float(v) => cast(v),
        Scalar::Complex(re, im) if T::DTYPE.is_complex() => cast(Complex64::new(re as f32, im as f32)),
        Scalar::Complex(re, _) => cast(re),
    }
}

/// How an element converts to each of the others: one method per target, so that generic code over two element types
/// compiles to one straight loop. Unless a type says otherwise the way goes through `f32`.
#[doc(hidden)]
#[rustfmt::skip]
pub trait Cast: Copy {
    fn cast_from<A: Cast>(value: A) -> Self;
    /// From the element's own bytes.
    fn load(bytes: &[u8]) -> Self;
    fn to_f32(self) -> f32;
    #[inline(always)] fn to_bool(self) -> bool { self.to_f32() != 0.0 }
    #[inline(always)] fn to_u8(self) -> u8 { self.to_f32().to_u8() }
    #[inline(always)] fn to_u16(self) -> u16 { self.to_f32().to_u16() }
    #[inline(always)] fn to_u32(self) -> u32 { self.to_f32().to_u32() }
    #[inline(always)] fn to_u64(self) -> u64 { self.to_f32().to_u64() }
    #[inline(always)] fn to_i8(self) -> i8 { self.to_f32().to_i8() }
    #[inline(always)] fn to_i16(self) -> i16 { self.to_f32().to_i16() }
    #[inline(always)] fn to_i32(self) -> i32 { self.to_f32().to_i32() }
    #[inline(always)] fn to_i64(self) -> i64 { self.to_f32().to_i64() }
    #[inline(always)] fn to_f64(self) -> f64 { self.to_f32().into() }
    #[inline(always)] fn to_f16(self) -> f16 { f16::from_bits(f32_to_f16(self.to_f32())) }
    #[inline(always)] fn to_bf16(self) -> bf16 { bf16::from_bits(f32_to_bf16(self.to_f32())) }
    #[inline(always)] fn to_f8e4m3fn(self) -> F8E4M3FN { F8E4M3FN::from_bits(f32_to_f8e4m3fn(self.to_f32())) }
    #[inline(always)] fn to_f8e5m2(self) -> F8E5M2 { F8E5M2::from_bits(f32_to_f8e5m2(self.to_f32())) }
    #[inline(always)] fn to_complex64(self) -> Complex64 { Complex64::new(self.to_f32(), 0.0) }
}

/// Float to `i32` or `i64` as x86 does it: what does not fit, and NaN, is the minimum.
macro_rules! truncate {
    ($name:ident, $float:ty, $int:ty) => {
        #[inline(always)]
        fn $name(value: $float) -> $int {
            // `as` saturates, which is right below; the bound itself is a power of two, so it is exact.
            if value < -(<$int>::MIN as $float) { value as $int } else { <$int>::MIN }
        }
    };
}
truncate!(f32_to_i32, f32, i32);
truncate!(f32_to_i64, f32, i64);
truncate!(f64_to_i32, f64, i32);
truncate!(f64_to_i64, f64, i64);

/// An implementation of [`Cast`]: `method -> type = expression of the value`.
macro_rules! cast {
    ($t:ty, $to:ident, |$bytes:ident| $load:expr, |$v:ident| { $($method:ident -> $r:ty = $e:expr;)* }) => {
        impl Cast for $t {
            #[inline(always)]
            fn cast_from<A: Cast>(value: A) -> Self {
                value.$to()
            }
            #[inline(always)]
            fn load($bytes: &[u8]) -> Self {
                $load
            }
            $(#[inline(always)]
            fn $method(self) -> $r {
                let $v = self;
                $e
            })*
        }
    };
}

macro_rules! integers {
    ($($t:ty, $to:ident;)*) => {$(
        cast!($t, $to, |bytes| bytemuck::pod_read_unaligned(bytes), |v| {
            to_bool -> bool = v != 0;
            to_u8 -> u8 = v as u8;
            to_u16 -> u16 = v as u16;
            to_u32 -> u32 = v as u32;
            to_u64 -> u64 = v as u64;
            to_i8 -> i8 = v as i8;
            to_i16 -> i16 = v as i16;
            to_i32 -> i32 = v as i32;
            to_i64 -> i64 = v as i64;
            to_f32 -> f32 = v as f32;
            to_f64 -> f64 = v as f64;
        });
    )*};
}
integers! {
    u8, to_u8; u16, to_u16; u32, to_u32; u64, to_u64;
    i8, to_i8; i16, to_i16; i32, to_i32; i64, to_i64;
}

macro_rules! floats {
    ($($t:ty, $to:ident, $to_i32:ident, $to_i64:ident;)*) => {$(
        cast!($t, $to, |bytes| bytemuck::pod_read_unaligned(bytes), |v| {
            to_bool -> bool = v != 0.0;
            to_u8 -> u8 = $to_i64(v) as u8;
            to_u16 -> u16 = $to_i32(v) as u16;
            to_u32 -> u32 = $to_i64(v) as u32;
            to_u64 -> u64 = {
                let half = (1u64 << 63) as $t;
                if v >= half { ($to_i64(v - half) as u64) ^ (1 << 63) } else { $to_i64(v) as u64 }
            };
            to_i8 -> i8 = $to_i32(v) as i8;
            to_i16 -> i16 = $to_i32(v) as i16;
            to_i32 -> i32 = $to_i32(v);
            to_i64 -> i64 = $to_i64(v);
            to_f32 -> f32 = v as f32;
            to_f64 -> f64 = v as f64;
        });
    )*};
}
floats! {
    f32, to_f32, f32_to_i32, f32_to_i64;
    f64, to_f64, f64_to_i32, f64_to_i64;
}

cast!(bool, to_bool, |bytes| bytes[0] != 0, |v| {
    to_bool -> bool = v;
    to_f32 -> f32 = v as u8 as f32;
});
// A narrow float converted to itself keeps its bits, also those of a NaN.
cast!(f16, to_f16, |bytes| bytemuck::pod_read_unaligned(bytes), |v| {
    to_f16 -> f16 = v;
    to_f32 -> f32 = f16_to_f32(v.to_bits());
});
cast!(bf16, to_bf16, |bytes| bytemuck::pod_read_unaligned(bytes), |v| {
    to_bf16 -> bf16 = v;
    to_f32 -> f32 = f32::from_bits((v.to_bits() as u32) << 16);
});
cast!(F8E4M3FN, to_f8e4m3fn, |bytes| bytemuck::pod_read_unaligned(bytes), |v| {
    to_f8e4m3fn -> F8E4M3FN = v;
    to_f32 -> f32 = f8e4m3fn_to_f32(v.to_bits());
});
cast!(F8E5M2, to_f8e5m2, |bytes| bytemuck::pod_read_unaligned(bytes), |v| {
    to_f8e5m2 -> F8E5M2 = v;
    to_f32 -> f32 = f8e5m2_to_f32(v.to_bits());
});
cast!(Complex64, to_complex64, |bytes| bytemuck::pod_read_unaligned(bytes), |v| {
    to_bool -> bool = v.re != 0.0 || v.im != 0.0;
    to_f32 -> f32 = v.re;
    to_complex64 -> Complex64 = v;
});

// ---- the narrow floats, without branches so that loops over them vectorise

/// The exact value of IEEE half bits.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = ((bits & 0x7fff) as u32) << 13;
    // Exponent and mantissa in f32's place, off by the difference of the biases; the product is exact, subnormals too.
    let finite = (f32::from_bits(magnitude) * 2f32.powi(112)).to_bits();
    let value = if magnitude >= 0x7c00 << 13 { magnitude | 0x7f80_0000 } else { finite };
    f32::from_bits(value | ((bits & 0x8000) as u32) << 16)
}

/// Nearest IEEE half, ties to even.
#[inline(always)]
pub fn f32_to_f16(value: f32) -> u16 {
    let magnitude = value.to_bits() & 0x7fff_ffff;
    let sign = (value.to_bits() >> 16) as u16 & 0x8000;
    let normal = magnitude.wrapping_add(0xfff + ((magnitude >> 13) & 1)).wrapping_sub(112 << 23) >> 13;
    // The spacing of numbers from 1/2 to 1 is that of half's subnormals, so the sum rounds where it should.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let finite = if magnitude < 113 << 23 { subnormal } else { normal };
    let special = if magnitude > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
    sign | if magnitude >= 143 << 23 { special } else { finite as u16 }
}

/// Nearest `bf16`, ties to even.
#[inline(always)]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    if value.is_nan() { 0x7fc0 } else { rounded }
}

/// The exact value of an `f8e4m3fn` bit pattern.
#[inline(always)]
pub fn f8e4m3fn_to_f32(bits: u8) -> f32 {
    let sign = ((bits & 0x80) as u32) << 24;
    let magnitude = ((bits & 0x7f) as u32) << 20;
    let finite = (f32::from_bits(magnitude) * 2f32.powi(120)).to_bits();
    f32::from_bits(sign | if bits & 0x7f == 0x7f { 0x7fc0_0000 } else { finite })
}

/// The exact value of an `f8e5m2` bit pattern.
#[inline(always)]
pub fn f8e5m2_to_f32(bits: u8) -> f32 {
    // The upper byte of an IEEE half.
    f16_to_f32((bits as u16) << 8)
}

/// Nearest `f8e4m3fn`, ties to even; overflow and infinity give the largest number, NaN stays.
#[inline(always)]
pub fn f32_to_f8e4m3fn(value: f32) -> u8 {
    let magnitude = value.to_bits() & 0x7fff_ffff;
    let sign = (value.to_bits() >> 24) as u8 & 0x80;
    let normal = magnitude.wrapping_add(0x7_ffff + ((magnitude >> 20) & 1)).wrapping_sub(120 << 23) >> 20;
    // Numbers from 2^14 to 2^15 are 2^-9 apart, as this type's subnormals.
    let subnormal = (f32::from_bits(magnitude) + 16384.0).to_bits().wrapping_sub(16384f32.to_bits());
    let finite = if magnitude < 121 << 23 { subnormal } else { normal };
    let limited = if magnitude >= 136 << 23 { 0x7e } else { finite.min(0x7e) as u8 };
    sign | if magnitude > 0x7f80_0000 { 0x7f } else { limited }
}

/// Nearest `f8e5m2`, ties to even; overflow gives infinity.
#[inline(always)]
pub fn f32_to_f8e5m2(value: f32) -> u8 {
    let magnitude = value.to_bits() & 0x7fff_ffff;
    let sign = (value.to_bits() >> 24) as u8 & 0x80;
    let normal = magnitude.wrapping_add(0xf_ffff + ((magnitude >> 21) & 1)).wrapping_sub(112 << 23) >> 21;
    // Numbers from 2^7 to 2^8 are 2^-16 apart, as this type's subnormals.
    let subnormal = (f32::from_bits(magnitude) + 128.0).to_bits().wrapping_sub(128f32.to_bits());
    let finite = if magnitude < 113 << 23 { subnormal } else { normal };
    let special = if magnitude > 0x7f80_0000 { 0x7f } else { 0x7c };
    sign | if magnitude >= 143 << 23 { special } else { finite as u8 }
}
