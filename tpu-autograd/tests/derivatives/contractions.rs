//! Matrix products and convolutions.

use crate::differences::{cases, check, given};
use proptest::prelude::any;
use smallvec::{SmallVec, smallvec};
use tpu_core::DType;
use tpu_core::ir::{Axes, ConvDims, DotDims, Precision};

fn dot(lhs_batch: &[usize], rhs_batch: &[usize], lhs_contract: &[usize], rhs_contract: &[usize]) -> DotDims {
    DotDims {
        lhs_batch: Axes::from_slice(lhs_batch),
        rhs_batch: Axes::from_slice(rhs_batch),
        lhs_contract: Axes::from_slice(lhs_contract),
        rhs_contract: Axes::from_slice(rhs_contract),
        precision: Precision::Highest,
        result: DType::F64,
    }
}

#[test]
fn products_of_any_axes() {
    let rows: [(&[usize], &[usize], DotDims); 9] = [
        (&[2, 3], &[3, 4], dot(&[], &[], &[1], &[0])),
        (&[2, 3], &[4, 3], dot(&[], &[], &[1], &[1])),
        (&[3, 2], &[4, 3], dot(&[], &[], &[0], &[1])),
        (&[5, 2, 3], &[3, 4], dot(&[], &[], &[2], &[0])),
        (&[2, 5, 3], &[2, 3, 4], dot(&[0], &[0], &[2], &[1])),
        (&[2, 5, 3], &[3, 4, 2], dot(&[0], &[2], &[2], &[0])),
        (&[2, 3, 2], &[2, 4, 3], dot(&[], &[], &[0, 1], &[0, 2])),
        (&[3], &[4], dot(&[], &[], &[], &[])),
        (&[2, 0], &[0, 3], dot(&[], &[], &[1], &[0])),
    ];
    for (lhs, rhs, dims) in rows {
        check(&format!("{dims:?}"), 2, &[given(lhs, -1.0, 1.0), given(rhs, -1.0, 1.0)], 3, &|x| {
            Ok(vec![x[0].dot_general(&x[1], dims.clone())?])
        })
        .unwrap();
    }
}

#[test]
fn matmul_broadcasts() {
    check("matmul", 2, &[given(&[2, 1, 2, 3], -1.0, 1.0), given(&[3, 3, 2], -1.0, 1.0)], 3, &|x| {
        Ok(vec![x[0].matmul(&x[1])?])
    })
    .unwrap();
    check("matmul of vectors", 2, &[given(&[3], -1.0, 1.0), given(&[3], -1.0, 1.0)], 3, &|x| {
        Ok(vec![x[0].matmul(&x[1])?])
    })
    .unwrap();
}

#[test]
fn products_with_a_wider_result() {
    let mut operands = [given(&[2, 3], -1.0, 1.0), given(&[3, 2], -1.0, 1.0)];
    operands.iter_mut().for_each(|operand| operand.dtype = DType::F32);
    check("wider", 2, &operands, 3, &|x| Ok(vec![x[0].dot_general(&x[1], dot(&[], &[], &[1], &[0]))?])).unwrap();
}

#[test]
fn convolutions_with_all_attributes() {
    let strategy = (
        (1..6usize, 1..4usize),
        (1..3usize, (-1..3i64, -1..3i64), 1..3usize, 1..3usize, any::<bool>()),
        (1..3usize, 1..3usize, any::<bool>()),
        any::<u64>(),
    );
    cases(
        60,
        strategy,
        |((size, taps), (stride, padding, dilation, holes, reversed), (groups, each, of_batch), seed)| {
            // Two spatial axes, the second plain; groups of features or of the batch.
            let (feature_groups, batch_groups) = if of_batch { (1, groups) } else { (groups, 1) };
            let input = [2 * batch_groups, each * feature_groups, size, 2];
            let kernel = [2 * groups, each, taps, 2];
            let dims = ConvDims {
                input_batch: 0,
                input_feature: 1,
                input_spatial: smallvec![2, 3],
                kernel_input_feature: 1,
                kernel_output_feature: 0,
                kernel_spatial: smallvec![2, 3],
                output_batch: 0,
                output_feature: 1,
                output_spatial: smallvec![2, 3],
                strides: smallvec![stride, 1],
                padding: smallvec![padding, (1, 0)],
                input_dilation: smallvec![dilation, 1],
                kernel_dilation: smallvec![holes, 1],
                reversal: SmallVec::from_slice(&[reversed, false]),
                feature_groups,
                batch_groups,
                precision: Precision::Highest,
                result: DType::F64,
            };
            check(&format!("{dims:?}"), 2, &[given(&input, -1.0, 1.0), given(&kernel, -1.0, 1.0)], seed >> 8, &|x| {
                Ok(vec![x[0].convolution(&x[1], dims.clone())?])
            })
        },
    );
}

#[test]
fn convolutions_with_axes_in_any_order() {
    // Input [height, feature, batch], kernel [out, height, in], output [feature, batch, height].
    let dims = ConvDims {
        input_batch: 2,
        input_feature: 1,
        input_spatial: smallvec![0],
        kernel_input_feature: 2,
        kernel_output_feature: 0,
        kernel_spatial: smallvec![1],
        output_batch: 1,
        output_feature: 0,
        output_spatial: smallvec![2],
        strides: smallvec![2],
        padding: smallvec![(1, 1)],
        input_dilation: smallvec![1],
        kernel_dilation: smallvec![1],
        reversal: smallvec![true],
        feature_groups: 2,
        batch_groups: 1,
        precision: Precision::Highest,
        result: DType::F64,
    };
    check("convolution", 2, &[given(&[5, 4, 2], -1.0, 1.0), given(&[6, 3, 2], -1.0, 1.0)], 4, &|x| {
        Ok(vec![x[0].convolution(&x[1], dims.clone())?])
    })
    .unwrap();
}
