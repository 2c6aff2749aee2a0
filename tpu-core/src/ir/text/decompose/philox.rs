//! Philox 4x32-10 in plain integer operations.
//!
//! J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. One block cipher of ten rounds turns a
//! counter of four words and a key of two into four random words. The 64-bit counter fills the first two words, low
//! half first, the others are zero; the key is the 64-bit seed, low half first.

use super::Builder;
use crate::ir::{BinaryOp, Op, Value};
use crate::{DType, Scalar, Shape};
use smallvec::smallvec;

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Added to the key from round to round.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Random bits of a shape: four words for each counter from `offset` on, in order, the surplus cut.
pub(super) fn rng_bits(build: &mut Builder, seed: Value, offset: Value, shape: &Shape) -> Value {
    // The shape rule bounds the number of elements.
    let count = shape.elements().unwrap_or(0);
    let blocks = count.div_ceil(4);
    let lanes = Shape::from([blocks]);
    let numbers = build.push(Op::Iota { axis: 0, dtype: DType::U64, shape: lanes.clone() }, &[]);
    let first = build.broadcast(offset, &lanes);
    let counters = build.binary(BinaryOp::Add, first, numbers);
    let zero = build.filled(DType::U32, &lanes, 0);
    let (low, high) = halves(build, counters, &lanes);
    let mut words = [low, high, zero, zero];
    let (low, high) = halves(build, seed, &Shape::scalar());
    let mut key = [low, high];
    for round in 0..ROUNDS {
        if round > 0 {
            for (word, step) in key.iter_mut().zip(WEYL) {
                let step = build.filled(DType::U32, &Shape::scalar(), step);
                *word = build.binary(BinaryOp::Add, *word, step);
            }
        }
        words = one_round(build, words, key, &lanes);
    }
    let columns = words.map(|word| build.push(Op::Reshape([blocks, 1].into()), &[word]));
    let table = build.push(Op::Concatenate { axis: 1 }, &columns);
    let row = build.push(Op::Reshape([4 * blocks].into()), &[table]);
    let cut = Op::Slice { start: smallvec![0], limit: smallvec![count], strides: smallvec![1] };
    let exact = build.push(cut, &[row]);
    build.push(Op::Reshape(shape.clone()), &[exact])
}

fn one_round(build: &mut Builder, words: [Value; 4], key: [Value; 2], shape: &Shape) -> [Value; 4] {
    let [a, b, c, d] = words;
    let (high_a, low_a) = multiply(build, a, MULTIPLIERS[0], shape);
    let (high_c, low_c) = multiply(build, c, MULTIPLIERS[1], shape);
    let [key_a, key_c] = key.map(|word| build.broadcast(word, shape));
    let first = build.binary(BinaryOp::Xor, high_c, b);
    let first = build.binary(BinaryOp::Xor, first, key_a);
    let third = build.binary(BinaryOp::Xor, high_a, d);
    let third = build.binary(BinaryOp::Xor, third, key_c);
    [first, low_c, third, low_a]
}

/// Upper and lower half of the 64-bit product.
fn multiply(build: &mut Builder, word: Value, by: u32, shape: &Shape) -> (Value, Value) {
    let factor = build.filled(DType::U32, shape, by);
    let low = build.binary(BinaryOp::Multiply, word, factor);
    let wide = build.push(Op::Convert(DType::U64), &[word]);
    let factor = build.filled(DType::U64, shape, by);
    let product = build.binary(BinaryOp::Multiply, wide, factor);
    let high = upper_half(build, product, shape);
    (high, low)
}

/// Lower and upper 32 bits of 64-bit words. Both fit before they are converted: how a target converts what does not
/// fit is its own affair.
fn halves(build: &mut Builder, words: Value, shape: &Shape) -> (Value, Value) {
    let mask = build.filled(DType::U64, shape, Scalar::from(u32::MAX));
    let low = build.binary(BinaryOp::And, words, mask);
    let low = build.push(Op::Convert(DType::U32), &[low]);
    (low, upper_half(build, words, shape))
}

fn upper_half(build: &mut Builder, words: Value, shape: &Shape) -> Value {
    let width = build.filled(DType::U64, shape, 32);
    let high = build.binary(BinaryOp::ShiftRightLogical, words, width);
    build.push(Op::Convert(DType::U32), &[high])
}
