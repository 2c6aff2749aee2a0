//! Worked examples: the rules that `ir::op` states, small enough to check by hand.

use super::numbers;
use crate::ir::{BinaryOp, GatherDims, Op, Reducer, UnaryOp, samples};
use crate::reference::Array;
use crate::{DType, Element, Shape};
use half::{bf16, f16};
use smallvec::smallvec;
use std::sync::Arc;

fn array<T: Element>(shape: impl Into<Shape>, values: &[T]) -> Array {
    Array::new(shape, values).expect("as many elements")
}

#[test]
fn transposed_matrix() {
    let x = array([2, 3], &[1i16, 2, 3, 4, 5, 6]);
    assert_eq!(numbers::<i16>(&Op::Transpose(smallvec![1, 0]), &[x]), [1, 4, 2, 5, 3, 6]);
}

#[test]
fn padding_inside_and_negative() {
    let x = array([3], &[1u8, 2, 3]);
    let pad =
        |low, high, interior| Op::Pad { low: smallvec![low], high: smallvec![high], interior: smallvec![interior] };
    let value = array((), &[9u8]);
    assert_eq!(numbers::<u8>(&pad(1, 2, 1), &[x.clone(), value.clone()]), [9, 1, 9, 2, 9, 3, 9, 9]);
    assert_eq!(numbers::<u8>(&pad(-1, 0, 1), &[x.clone(), value.clone()]), [9, 2, 9, 3]);
    assert_eq!(numbers::<u8>(&pad(-2, -1, 0), &[x, value]), [0u8; 0]);
}

#[test]
fn start_indices_are_clamped_so_that_the_window_fits() {
    let x = array([5], &[0i32, 1, 2, 3, 4]);
    let op = Op::DynamicSlice { sizes: smallvec![2] };
    assert_eq!(numbers::<i32>(&op, &[x.clone(), array((), &[9i64])]), [3, 4]);
    assert_eq!(numbers::<i32>(&op, &[x.clone(), array((), &[-3i8])]), [0, 1]);
    assert_eq!(numbers::<i32>(&op, &[x.clone(), array((), &[u64::MAX])]), [3, 4]);
    let update = [x, array([2], &[8i32, 9]), array((), &[4i32])];
    assert_eq!(numbers::<i32>(&Op::DynamicUpdateSlice, &update), [0, 1, 2, 8, 9]);
}

/// Rows of a table.
fn row_gather(width: usize) -> Op {
    Op::Gather(Arc::new(GatherDims {
        offset_dims: smallvec![1],
        collapsed_slice_dims: smallvec![0],
        operand_batching_dims: smallvec![],
        start_indices_batching_dims: smallvec![],
        start_index_map: smallvec![0],
        index_vector_dim: 1,
        slice_sizes: smallvec![1, width],
        indices_are_sorted: false,
    }))
}

fn row_scatter(combiner: Option<Reducer>) -> Op {
    Op::Scatter(Arc::new(samples::row_scatter(combiner)))
}

#[test]
fn rows_of_a_table_and_back() {
    let table = array([3, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let rows = numbers::<f32>(&row_gather(2), &[table, array([4], &[2i64, 0, 7, -1])]);
    assert_eq!(rows, [5.0, 6.0, 1.0, 2.0, 5.0, 6.0, 1.0, 2.0]);
    // torch.zeros(4, 2).index_add_(0, torch.tensor([1, 3, 1]), torch.tensor([[1., 2.], [3., 4.], [5., 6.]])), and rows
    // that do not exist are dropped.
    let zeros = array([4, 2], &[0f32; 8]);
    let updates = array([5, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
    let indices = array([5], &[1i32, 3, 1, 4, -1]);
    let sum = numbers::<f32>(&row_scatter(Some(Reducer::Sum)), &[zeros.clone(), indices.clone(), updates.clone()]);
    assert_eq!(sum, [0.0, 0.0, 6.0, 8.0, 0.0, 0.0, 3.0, 4.0]);
    let last = numbers::<f32>(&row_scatter(None), &[zeros, indices, updates]);
    assert_eq!(last, [0.0, 0.0, 5.0, 6.0, 0.0, 0.0, 3.0, 4.0]);
}

#[test]
fn gathering_boxes_as_in_the_specification() {
    // The first example of StableHLO's `gather`: operand 0..24 as [3, 4, 2], slices [1, 2, 2] at [0, 0], [1, 0], [2, 1] and
    // [0, 1], [1, 1], [0, 9]; the last is clamped to [0, 2] of the two indexed axes (1, 0).
    let x: Vec<i32> = (1..=24).collect();
    let op = Op::Gather(Arc::new(GatherDims {
        offset_dims: smallvec![2, 3],
        collapsed_slice_dims: smallvec![0],
        operand_batching_dims: smallvec![],
        start_indices_batching_dims: smallvec![],
        start_index_map: smallvec![1, 0],
        index_vector_dim: 2,
        slice_sizes: smallvec![1, 2, 2],
        indices_are_sorted: false,
    }));
    let indices = array([2, 3, 2], &[0i64, 0, 1, 0, 2, 1, 0, 1, 1, 1, 0, 9]);
    let want = [1, 2, 3, 4, 3, 4, 5, 6, 13, 14, 15, 16, 9, 10, 11, 12, 11, 12, 13, 14, 17, 18, 19, 20];
    assert_eq!(numbers::<i32>(&op, &[array([3, 4, 2], &x), indices]), want);
}

#[test]
fn reductions_of_nothing_give_the_identity() {
    let none = array([0], &[0f32; 0]);
    let reduce = |kind| Op::Reduce { kind, axes: smallvec![0] };
    assert_eq!(numbers::<f32>(&reduce(Reducer::Sum), std::slice::from_ref(&none)), [0.0]);
    assert_eq!(numbers::<f32>(&reduce(Reducer::Product), std::slice::from_ref(&none)), [1.0]);
    assert_eq!(numbers::<f32>(&reduce(Reducer::Max), std::slice::from_ref(&none)), [f32::NEG_INFINITY]);
    assert_eq!(numbers::<i8>(&reduce(Reducer::Min), &[array([0], &[0i8; 0])]), [127]);
    assert_eq!(numbers::<u16>(&reduce(Reducer::And), &[array([0], &[0u16; 0])]), [u16::MAX]);
}

#[test]
fn half_precision_sums_do_not_stall() {
    // In f16, 2048 + 1 is 2048; in bf16, 256 + 1 is 256.
    let sum = Op::Reduce { kind: Reducer::Sum, axes: smallvec![0] };
    assert_eq!(numbers::<f16>(&sum, &[array([4096], &[f16::ONE; 4096])]), [f16::from_f32(4096.0)]);
    assert_eq!(numbers::<bf16>(&sum, &[array([4096], &[bf16::ONE; 4096])]), [bf16::from_f32(4096.0)]);
}

#[test]
fn long_float_sums_keep_their_digits() {
    // 2^24 + k ones cannot be counted one by one in f32; the tree counts them exactly.
    let (rows, columns) = ((1 << 24) / 128 + 1, 128);
    let x = array([rows, columns], &vec![1f32; rows * columns]);
    let all = Op::Reduce { kind: Reducer::Sum, axes: smallvec![0, 1] };
    assert_eq!(numbers::<f32>(&all, std::slice::from_ref(&x)), [(rows * columns) as f32]);
    let tenth = array([1 << 20, 2], &vec![0.1f32; 1 << 21]);
    let down = numbers::<f32>(&Op::Reduce { kind: Reducer::Sum, axes: smallvec![0] }, &[tenth]);
    // 2^20 terms: 6 roundings in a run of 64, 14 levels of the tree; exact is 2^20 times the f32 nearest 0.1.
    let exact = f64::from(0.1f32) * f64::from(1 << 20);
    assert!(down.iter().all(|&d| (f64::from(d) - exact).abs() <= exact * 80.0 * f64::from(f32::EPSILON)));
}

#[test]
fn nan_wins_and_zero_keeps_its_sign() {
    let x = array([3], &[f32::NAN, 1.0, -0.0]);
    let y = array([3], &[2.0, f32::NAN, -0.0]);
    let max = numbers::<f32>(&Op::Binary(BinaryOp::Maximum), &[x.clone(), y.clone()]);
    let min = numbers::<f32>(&Op::Binary(BinaryOp::Minimum), &[x.clone(), y]);
    assert!(max[0].is_nan() && max[1].is_nan() && min[0].is_nan() && min[1].is_nan());
    let sign = numbers::<f32>(&Op::Unary(UnaryOp::Sign), &[x]);
    assert!(sign[0].is_nan() && sign[1] == 1.0 && sign[2].is_sign_negative() && sign[2] == 0.0);
    let halves = array([4], &[0.5f64, 1.5, -2.5, 2.5]);
    let even = numbers::<f64>(&Op::Unary(UnaryOp::RoundNearestEven), std::slice::from_ref(&halves));
    assert_eq!(even, [0.0, 2.0, -2.0, 2.0]);
    assert_eq!(numbers::<f64>(&Op::Unary(UnaryOp::RoundNearestAfz), &[halves]), [1.0, 2.0, -3.0, 3.0]);
    let fmod = [array([2], &[-7f32, 7.0]), array([2], &[3f32, -3.0])];
    assert_eq!(numbers::<f32>(&Op::Binary(BinaryOp::Remainder), &fmod), [-1.0, 1.0]);
}

#[test]
fn fewer_bits_round_to_even_overflow_and_vanish() {
    // To f16: 1 + 2^-11 is a tie and goes to 1, 1 + 3 · 2^-11 to 1 + 2^-9; 65520 overflows, 65519 does not; numbers
    // below 2^-14 vanish.
    let x = [1.0 + 2f32.powi(-11), 1.0 + 3.0 * 2f32.powi(-11), 65520.0, 65519.0, -1e-5, f32::NAN, f32::NEG_INFINITY];
    let op = Op::ReducePrecision { exponent_bits: 5, mantissa_bits: 10 };
    let y = numbers::<f32>(&op, &[array([7], &x)]);
    assert_eq!(y[..5], [1.0, 1.0 + 2f32.powi(-9), f32::INFINITY, 65504.0, 0.0]);
    assert!(y[4].is_sign_negative() && y[5].is_nan() && y[6] == f32::NEG_INFINITY);
}

#[test]
fn bits_are_read_little_endian() {
    let x = array([1], &[0x0403_0201u32]);
    assert_eq!(numbers::<u8>(&Op::BitcastConvert(DType::U8), &[x]), [1, 2, 3, 4]);
    let x = array([2, 2], &[0u16, 0x3f80, 1, 0]);
    assert_eq!(numbers::<f32>(&Op::BitcastConvert(DType::F32), &[x]), [1.0, f32::from_bits(1)]);
}

#[test]
fn random_bits_are_the_published_ones() {
    // Random123's vector for counter and key zero, and lane 1 of the counter 2^32 of key 5.
    let word = |v: u64| array((), &[v]);
    let bits = numbers::<u32>(&Op::RngBits([5].into()), &[word(0), word(0)]);
    assert_eq!(bits[..4], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    let shifted = numbers::<u32>(&Op::RngBits([2, 3].into()), &[word(0), word(u64::MAX)]);
    assert_eq!(shifted[4..], bits[..2]);
}
