//! The bits of results do not depend on the number of threads.

use super::{Random, kernel};
use crate::DType;
use crate::ir::samples::row_scatter;
use crate::ir::{Axes, ConvDims, DotDims, Extreme, FftKind, Op, Precision, Reducer, Type, Window};
use crate::reference::Array;
use smallvec::smallvec;
use std::sync::Arc;

fn on_threads(count: usize, op: &Op, inputs: &[Array]) -> Vec<Vec<u8>> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build().expect("a pool");
    pool.install(|| kernel(op, inputs)).expect("a kernel").iter().map(|y| y.bytes().to_vec()).collect()
}

/// Sizes large enough to be split.
fn large_programs() -> Vec<(Op, Vec<Type>)> {
    let f32s = |sizes: &[usize]| Type::new(DType::F32, sizes);
    let sum = |axes: &[usize]| Op::Reduce { kind: Reducer::Sum, axes: Axes::from_slice(axes) };
    let dot = DotDims {
        lhs_batch: smallvec![],
        rhs_batch: smallvec![],
        lhs_contract: smallvec![1],
        rhs_contract: smallvec![0],
        precision: Precision::Highest,
        result: DType::F32,
    };
    let conv = ConvDims {
        input_batch: 0,
        input_feature: 1,
        input_spatial: smallvec![2, 3],
        kernel_input_feature: 1,
        kernel_output_feature: 0,
        kernel_spatial: smallvec![2, 3],
        output_batch: 0,
        output_feature: 1,
        output_spatial: smallvec![2, 3],
        strides: smallvec![1, 1],
        padding: smallvec![(1, 1), (1, 1)],
        input_dilation: smallvec![1, 1],
        kernel_dilation: smallvec![1, 1],
        reversal: smallvec![false, false],
        feature_groups: 1,
        batch_groups: 1,
        precision: Precision::Highest,
        result: DType::F32,
    };
    let weights = ConvDims {
        input_batch: 1,
        input_feature: 0,
        kernel_input_feature: 0,
        kernel_output_feature: 1,
        output_batch: 1,
        output_feature: 0,
        ..conv.clone()
    };
    let rows = row_scatter(Some(Reducer::Sum));
    let window = Arc::new(Window {
        sizes: smallvec![1, 3, 3],
        strides: smallvec![1, 2, 2],
        base_dilations: smallvec![1; 3],
        window_dilations: smallvec![1; 3],
        padding: smallvec![(0, 0), (1, 0), (1, 0)],
    });
    vec![
        (sum(&[0, 1]), vec![f32s(&[700, 1001])]),
        (sum(&[0]), vec![f32s(&[5000, 130])]),
        (sum(&[1]), vec![f32s(&[130, 5000])]),
        (sum(&[0, 2]), vec![f32s(&[60, 30, 301])]),
        (Op::Cumulative { kind: Reducer::Sum, axis: 1, reverse: false }, vec![f32s(&[100, 3000])]),
        (Op::DotGeneral(Arc::new(dot)), vec![f32s(&[300, 257]), f32s(&[257, 190])]),
        (Op::Convolution(Arc::new(conv.clone())), vec![f32s(&[5, 16, 24, 24]), f32s(&[8, 16, 3, 3])]),
        (Op::Convolution(Arc::new(conv)), vec![f32s(&[1, 16, 40, 40]), f32s(&[8, 16, 3, 3])]),
        (Op::Convolution(Arc::new(weights)), vec![f32s(&[5, 16, 24, 24]), f32s(&[5, 8, 24, 24])]),
        (Op::Scatter(Arc::new(rows)), vec![f32s(&[8, 64]), Type::new(DType::I64, [5000]), f32s(&[5000, 64])]),
        (Op::ReduceWindow { kind: Reducer::Sum, window: window.clone() }, vec![f32s(&[60, 40, 40])]),
        (Op::SelectAndScatter { select: Extreme::Max, window }, vec![f32s(&[60, 40, 40]), f32s(&[60, 20, 20])]),
        (Op::TopK { k: 7, largest: true }, vec![f32s(&[20, 9000])]),
        (Op::Transpose(smallvec![2, 0, 1]), vec![f32s(&[37, 65, 301])]),
        (Op::Fft { kind: FftKind::Rfft, lengths: smallvec![60, 222] }, vec![f32s(&[60, 222])]),
        (Op::Qr, vec![f32s(&[30, 20, 14])]),
        (Op::Eigh, vec![Type::new(DType::Complex64, [30, 16, 16])]),
        (Op::Lu, vec![f32s(&[3, 60, 70])]),
        (Op::Lu, vec![f32s(&[150, 130])]),
        (Op::Sort { axis: 0, descending: false, stable: true }, vec![f32s(&[500, 90])]),
    ]
}

#[test]
fn results_have_the_same_bits_on_one_two_and_three_threads() {
    let mut random = Random(7);
    for (op, types) in large_programs() {
        let inputs = random.operands(&op, &types, false);
        let one = on_threads(1, &op, &inputs);
        for count in [2, 3] {
            assert!(on_threads(count, &op, &inputs) == one, "{op:?} differs on {count} threads");
        }
    }
}
