//! Elements for the parameters and constants of random programs.

use super::choices::Stream;
use crate::dtype::Kind;
use crate::dtype::convert::cast;
use crate::ir::Type;
use crate::reference::Array;
use crate::{Complex64, DType, Element, with_element};

/// Elements of a type, from a seed: mostly ordinary numbers, some from the edges of the type.
pub fn random(ty: &Type, seed: u64, special_values: bool) -> Array {
    let mut stream = Stream(seed);
    // All of an array from one of three styles, so that sums over it are sometimes exact and often finite.
    let style = stream.below(4);
    let specials = special_values && style == 3;
    with_element!(ty.dtype, T => {
        let count = ty.shape.elements().unwrap_or(0);
        let elements: Vec<T> = (0..count).map(|_| element(&mut stream, style, specials)).collect();
        Array::new(&ty.shape, &elements).expect("as many elements as the type says")
    })
}

/// Numbers where functions and conversions turn: powers of two with a bit or two more or less, of all magnitudes and
/// both signs, and every value that is special.
pub fn edges(ty: &Type, seed: u64) -> Array {
    let mut stream = Stream(seed);
    with_element!(ty.dtype, T => {
        let count = ty.shape.elements().unwrap_or(0);
        let elements: Vec<T> = (0..count).map(|_| edge(&mut stream)).collect();
        Array::new(&ty.shape, &elements).expect("as many elements as the type says")
    })
}

fn edge<T: Element>(stream: &mut Stream) -> T {
    let dtype = T::DTYPE;
    match dtype.kind() {
        Kind::Bool => cast(stream.bits() & 1 == 1),
        Kind::Unsigned | Kind::Signed => {
            let mut bit = || 1i64.wrapping_shl(stream.below(64) as u32);
            let sum = bit().wrapping_add(bit()).wrapping_sub(bit());
            cast([sum, sum.wrapping_neg(), sum.wrapping_sub(1), sum >> 32][stream.below(4) as usize])
        }
        Kind::Float => cast(float_edge(stream, dtype)),
        Kind::Complex => {
            let part = |stream: &mut Stream| float_edge(stream, DType::F32) as f32;
            cast(Complex64::new(part(stream), part(stream)))
        }
    }
}

fn float_edge(stream: &mut Stream, dtype: DType) -> f64 {
    if stream.below(8) == 0 {
        return special(stream, dtype);
    }
    // Often small integers and what lies around them, sometimes the ends of the range.
    let (low, high) = match (dtype, stream.below(4)) {
        (DType::F64, 0) => (-1074, 1024),
        (_, 0) => (-149, 128),
        (_, 1) => (-8, 72),
        _ => (-16, 16),
    };
    let power = 2f64.powi(low + stream.below((high - low) as u64) as i32);
    let mut bit = |most: u64| (stream.below(3) as f64 - 1.0) * 2f64.powi(-(stream.below(most) as i32));
    let value = power * (1.0 + bit(12) + bit(54));
    if stream.below(2) == 0 { value } else { -value }
}

/// Indices into an axis of `size`, some of them just outside.
pub fn indices(ty: &Type, size: usize, seed: u64) -> Array {
    let mut stream = Stream(seed);
    with_element!(ty.dtype, T => {
        let count = ty.shape.elements().unwrap_or(0);
        let index = |stream: &mut Stream| match stream.below(16) {
            0 => -1,
            1 => size as i64,
            _ => stream.below(size.max(1) as u64) as i64,
        };
        let elements: Vec<T> = (0..count).map(|_| cast(index(&mut stream))).collect();
        Array::new(&ty.shape, &elements).expect("as many elements as the type says")
    })
}

/// Square matrices over the last two axes whose diagonal, real and positive, outweighs the rest of its row and column.
pub fn dominant(ty: &Type, seed: u64) -> Array {
    let n = ty.shape.sizes().last().copied().unwrap_or(0);
    with_element!(ty.dtype, T => {
        let mut elements: Vec<T> = random(ty, seed, false).to_vec().expect("its own type");
        let size = |x: T| {
            let x: Complex64 = cast(x);
            x.re.abs() + x.im.abs()
        };
        let most = elements.iter().map(|&x| size(x)).fold(1.0, f32::max);
        for (i, element) in elements.iter_mut().enumerate().filter(|(i, _)| i / n % n == i % n) {
            *element = cast(2.0 * n as f32 * most + size(*element) + i as f32);
        }
        Array::new(&ty.shape, &elements).expect("as many elements")
    })
}

fn element<T: Element>(stream: &mut Stream, style: u64, specials: bool) -> T {
    match T::DTYPE.kind() {
        Kind::Bool => cast(stream.bits() & 1 == 1),
        Kind::Unsigned | Kind::Signed => cast(integer(stream, style)),
        Kind::Float => cast(float(stream, style, specials, T::DTYPE)),
        Kind::Complex => {
            let part = |stream: &mut Stream| float(stream, style, specials, DType::F32) as f32;
            cast(Complex64::new(part(stream), part(stream)))
        }
    }
}

fn integer(stream: &mut Stream, style: u64) -> i64 {
    match (style, stream.below(8)) {
        (3, 0) => i64::MIN >> (8 * stream.below(8)),
        (3, 1) => i64::MAX >> (8 * stream.below(8)),
        (3, _) => stream.bits() as i64,
        _ => stream.below(12) as i64 - 4,
    }
}

fn float(stream: &mut Stream, style: u64, specials: bool, dtype: DType) -> f64 {
    if specials && stream.below(6) == 0 {
        return special(stream, dtype);
    }
    match style {
        // Eighths: sums and many products are exact.
        0 => stream.below(65) as f64 / 8.0 - 4.0,
        // Of one sign: nothing cancels.
        1 => stream.unit() * 2.0,
        2 => stream.unit() * 8.0 - 4.0,
        // Over many magnitudes.
        _ => (stream.unit() * 2.0 - 1.0) * 2f64.powi(stream.below(24) as i32 - 12),
    }
}

/// NaN, infinities, zeros, the least and the largest numbers.
fn special(stream: &mut Stream, dtype: DType) -> f64 {
    let (least, largest) = match dtype {
        DType::F64 => (f64::from_bits(3), f64::MAX),
        DType::F16 => (2f64.powi(-24), 65504.0),
        DType::BF16 => (2f64.powi(-133), 3.3895e38),
        _ => (f32::from_bits(3).into(), f32::MAX.into()),
    };
    let all = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, least, -least, largest, -largest, 1.0];
    all[stream.below(all.len() as u64) as usize]
}
