//! Constants as `dense<…>` and back.

use super::lex::{Kind, Token};
use crate::dtype;
use crate::{DType, F8E4M3FN, F8E5M2, Literal, Result, Shape};
use half::{bf16, f16};
use std::fmt::Write;

/// Longer constants are written as the hexadecimal digits of their bytes.
const LONGEST_LIST: usize = 32;

/// A literal as `dense<…>`, without its type.
pub(super) fn dense(literal: &Literal) -> String {
    let (dtype, bytes) = (literal.dtype(), literal.bytes());
    let width = dtype.bits() as usize / 8;
    let count = bytes.len() / width;
    match count {
        0 => "dense<>".to_string(),
        1 => format!("dense<{}>", element(dtype, bytes)),
        // Flags have no bytes in MLIR's form, so they are always listed.
        _ if count > LONGEST_LIST && dtype != DType::Bool => {
            let mut text = String::with_capacity(2 * bytes.len() + 16);
            text.push_str("dense<\"0x");
            for byte in bytes {
                // Writing into a string does not fail.
                let _ = write!(text, "{byte:02X}");
            }
            text.push_str("\">");
            text
        }
        _ => format!("dense<{}>", nested(literal.shape(), bytes.chunks_exact(width).map(|b| element(dtype, b)))),
    }
}

/// Elements in brackets, one level per axis.
fn nested(shape: &Shape, elements: impl Iterator<Item = String>) -> String {
    let sizes = shape.sizes();
    // Elements in one index of each axis.
    let mut strides: Vec<usize> = sizes.to_vec();
    for axis in (0..sizes.len().saturating_sub(1)).rev() {
        strides[axis] *= strides[axis + 1];
    }
    let edges = |i: usize| strides.iter().filter(|&&stride| i.is_multiple_of(stride)).count();
    let mut text = String::new();
    for (i, element) in elements.enumerate() {
        if i > 0 {
            text.push_str(", ");
        }
        text.extend(std::iter::repeat_n('[', edges(i)));
        text.push_str(&element);
        text.extend(std::iter::repeat_n(']', edges(i + 1)));
    }
    text
}

/// One element: a decimal number that reads back as the same bits, or the bits.
fn element(dtype: DType, bytes: &[u8]) -> String {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(word);
    let unused = 64 - dtype.bits();
    match dtype.kind() {
        dtype::Kind::Bool => (bits != 0).to_string(),
        dtype::Kind::Unsigned => bits.to_string(),
        dtype::Kind::Signed => (((bits << unused) as i64) >> unused).to_string(),
        dtype::Kind::Float => float(dtype, bits),
        dtype::Kind::Complex => {
            let (re, im) = (bits & 0xffff_ffff, bits >> 32);
            format!("({}, {})", float(DType::F32, re), float(DType::F32, im))
        }
    }
}

fn float(dtype: DType, bits: u64) -> String {
    let value = value_of(dtype, bits);
    if value.is_finite() {
        // MLIR reads a number as f64 and rounds; the shortest digits of an f32 nearly always survive that.
        let short = if dtype == DType::F64 { decimal(value) } else { decimal(value as f32) };
        for text in [short, decimal(value)] {
            if text.parse().ok().and_then(|read| bits_of(dtype, read)) == Some(bits) {
                return text;
            }
        }
    }
    format!("0x{bits:00$X}", dtype.bits() as usize / 4)
}

/// The shortest digits of a finite number, with the point that MLIR wants.
pub(super) fn decimal(value: impl std::fmt::Debug) -> String {
    let digits = format!("{value:?}");
    match digits.split_once('e') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0e{exponent}"),
        _ => digits,
    }
}

fn value_of(dtype: DType, bits: u64) -> f64 {
    match dtype {
        DType::F16 => f16::from_bits(bits as u16).to_f64(),
        DType::BF16 => bf16::from_bits(bits as u16).to_f64(),
        DType::F32 => f32::from_bits(bits as u32).into(),
        DType::F8E4M3FN => F8E4M3FN::from_bits(bits as u8).to_f32().into(),
        DType::F8E5M2 => F8E5M2::from_bits(bits as u8).to_f32().into(),
        _ => f64::from_bits(bits),
    }
}

/// The bits of the nearest number of a float dtype.
fn bits_of(dtype: DType, value: f64) -> Option<u64> {
    Some(match dtype {
        DType::F16 => f16::from_f64(value).to_bits().into(),
        DType::BF16 => bf16::from_f64(value).to_bits().into(),
        DType::F32 => (value as f32).to_bits().into(),
        DType::F64 => value.to_bits(),
        DType::F8E4M3FN => F8E4M3FN::from_f32(value as f32).to_bits().into(),
        DType::F8E5M2 => F8E5M2::from_f32(value as f32).to_bits().into(),
        _ => return None,
    })
}

/// What stands between the angle brackets of `dense<…>`.
pub(super) enum Content<'t> {
    /// The characters of a string.
    Text(&'t str),
    /// Numbers; complex ones as two.
    Numbers(Vec<Token<'t>>),
}

/// The literal with this content. The number of elements is that of the content, or one that stands for all.
pub(super) fn read(content: &Content<'_>, dtype: DType, shape: Shape) -> Option<Literal> {
    let bytes = match content {
        Content::Text(text) => hex_bytes(text.strip_prefix("0x")?)?,
        Content::Numbers(tokens) => {
            let part = if dtype == DType::Complex64 { DType::F32 } else { dtype };
            let mut bytes = Vec::with_capacity(tokens.len());
            for token in tokens {
                bytes.extend_from_slice(&number(*token, part)?.to_le_bytes()[..part.bits() as usize / 8]);
            }
            bytes
        }
    };
    let width = dtype.bits() as usize / 8;
    let literal: Result<Literal> = match shape.elements() {
        Some(0 | 1) => Literal::from_bytes(dtype, shape, &bytes),
        _ if bytes.len() == width => Literal::repeat(dtype, shape, &bytes),
        _ => Literal::from_bytes(dtype, shape, &bytes),
    };
    literal.ok()
}

fn hex_bytes(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let nibble = |digit: u8| (digit as char).to_digit(16);
    digits.chunks_exact(2).map(|pair| Some((nibble(pair[0])? << 4 | nibble(pair[1])?) as u8)).collect()
}

/// The bits of one number of a dtype that is not complex.
fn number(token: Token<'_>, dtype: DType) -> Option<u64> {
    match (token.kind, dtype.kind()) {
        (Kind::Word, dtype::Kind::Bool) => match token.text {
            "true" => Some(1),
            "false" => Some(0),
            _ => None,
        },
        (Kind::Int, dtype::Kind::Unsigned) => token.text.parse().ok(),
        (Kind::Int, dtype::Kind::Signed) => token.text.parse::<i64>().ok().map(|value| value as u64),
        (Kind::Float, dtype::Kind::Float) => bits_of(dtype, token.text.parse().ok()?),
        (Kind::Hex, dtype::Kind::Float) => u64::from_str_radix(token.text.strip_prefix("0x")?, 16).ok(),
        _ => None,
    }
}
