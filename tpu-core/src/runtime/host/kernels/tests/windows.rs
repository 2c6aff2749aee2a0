//! Windows as pooling has them, over lines longer than a register, with values that no order places.

use super::super::selection::select_and_scatter_on;
use super::{Array, Memory, Random, assert_agrees};
use crate::DType;
use crate::ir::{Extreme, Op, Reducer, Type, Window, infer};
use crate::runtime::host::kernels::{Operand, Target};
use crate::runtime::host::pool::Pool;
use crate::runtime::host::row::isa::Isa;
use crate::runtime::host::scratch;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// A window over the last two of four axes.
fn pooling(size: usize, stride: usize, hole: usize, dilation: usize, padding: (i64, i64)) -> Arc<Window> {
    let over = |value: usize| smallvec![1, 1, value, value];
    Arc::new(Window {
        sizes: over(size),
        strides: over(stride),
        base_dilations: over(dilation),
        window_dilations: over(hole),
        padding: smallvec![(0, 0), (0, 0), padding, padding],
    })
}

#[test]
fn windows_over_images_agree_with_the_reference() {
    let mut random = Random(5);
    let x = |dtype| Type::new(dtype, [2, 3, 9, 37]);
    for window in [
        pooling(2, 2, 1, 1, (0, 0)),
        pooling(3, 1, 1, 1, (1, 1)),
        pooling(3, 2, 1, 1, (1, 0)),
        pooling(2, 1, 3, 1, (2, -1)),
        // The gradients of the mean over windows two and three apart.
        pooling(3, 1, 1, 2, (1, 2)),
        pooling(2, 1, 1, 3, (0, 2)),
        pooling(3, 2, 2, 3, (4, 1)),
        // Windows of nothing but padding at both ends.
        pooling(2, 1, 1, 1, (5, 4)),
    ] {
        for kind in [Reducer::Max, Reducer::Min, Reducer::Sum] {
            for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
                let op = Op::ReduceWindow { kind, window: window.clone() };
                let inputs = random.operands(&op, &[x(dtype)], kind != Reducer::Sum);
                assert_agrees("windows", &op, &inputs);
            }
        }
    }
}

#[test]
fn windows_along_the_first_axes_agree_with_the_reference() {
    let mut random = Random(6);
    // Channels last, and a window over the first of two axes.
    let last = Window {
        sizes: smallvec![1, 2, 3, 1],
        strides: smallvec![1, 2, 1, 1],
        base_dilations: smallvec![1, 1, 2, 1],
        window_dilations: smallvec![1; 4],
        padding: smallvec![(0, 0), (1, 0), (0, 1), (0, 0)],
    };
    let first = Window {
        sizes: smallvec![3, 1],
        strides: smallvec![2, 1],
        base_dilations: smallvec![1, 1],
        window_dilations: smallvec![1, 1],
        padding: smallvec![(1, 1), (0, 0)],
    };
    for (window, sizes) in [(last, &[2usize, 6, 5, 20][..]), (first, &[9, 33])] {
        let op = Op::ReduceWindow { kind: Reducer::Sum, window: Arc::new(window) };
        let inputs = random.operands(&op, &[Type::new(DType::F32, sizes)], false);
        assert_agrees("windows", &op, &inputs);
    }
}

/// What is selected and added with the loops of one instruction set.
fn selected(isa: Isa, select: Extreme, window: &Window, inputs: &[Array; 2]) -> Vec<u8> {
    let memory = inputs.each_ref().map(|x| Memory::of(x.bytes()));
    let [x, source] = [0, 1].map(|at| Operand { ty: inputs[at].ty(), bytes: memory[at].bytes() });
    let mut output = Memory::new(x.bytes.len());
    let mut target = Target { ty: x.ty, bytes: output.bytes_mut() };
    let (pool, piece) = (Arc::new(Pool::new(None)), scratch::Piece::none());
    let memory = scratch::Memory::new(&pool, &piece);
    select_and_scatter_on(isa, select, window, [&x, &source], &mut target, memory).expect("a kernel");
    output.bytes().to_vec()
}

#[test]
fn the_first_extreme_of_a_window_is_selected_whatever_the_values() {
    let mut random = Random(7);
    for window in [
        pooling(2, 2, 1, 1, (0, 0)),
        pooling(3, 1, 1, 1, (1, 1)),
        pooling(3, 2, 1, 1, (1, 0)),
        pooling(2, 3, 1, 1, (3, 4)),
    ] {
        for select in Extreme::ALL {
            for dtype in [DType::F32, DType::F64, DType::BF16, DType::I8] {
                let op = Op::SelectAndScatter { select: *select, window: window.clone() };
                let x = Type::new(dtype, [2, 3, 7, 36]);
                let windows = Op::ReduceWindow { kind: Reducer::Max, window: window.clone() };
                let source: SmallVec<[Type; 1]> =
                    infer::infer(&windows, &[&x], &crate::ir::Graph::new()).expect("windows").into_iter().collect();
                // NaN, infinities, both zeros and equal values are among the operand's; what is added is moderate.
                let inputs = [(x, true), (source[0].clone(), false)].map(|(ty, special)| random.array(&ty, special));
                assert_agrees("selection", &op, &inputs);
                let [first, more @ ..] = [Isa::Portable, Isa::Avx2, Isa::Avx512]
                    .map(|isa| (isa <= Isa::available()).then(|| selected(isa, *select, &window, &inputs)));
                for level in more.into_iter().flatten() {
                    assert!(Some(level) == first, "{dtype}, {window:?}: levels differ");
                }
            }
        }
    }
}
