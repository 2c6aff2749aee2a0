//! Padding of a convolution is zeros that take part: under an infinite kernel element they give NaN.

use smallvec::smallvec;
use std::sync::Arc;
use tpu_core::DType;
use tpu_core::ir::{ConvDims, Op, Precision, Type, samples};
use tpu_core::reference::{Array, evaluate_op};
use tpu_core::runtime::CompileOptions;
use tpu_core::runtime::host::Host;
use tpu_core::testing::compare::run;

const INF: f32 = f32::INFINITY;

/// A convolution of one axis with one feature.
fn dims(padding: i64, input_dilation: usize, kernel_dilation: usize) -> ConvDims {
    ConvDims {
        input_batch: 0,
        input_feature: 1,
        input_spatial: smallvec![2],
        kernel_input_feature: 1,
        kernel_output_feature: 0,
        kernel_spatial: smallvec![2],
        output_batch: 0,
        output_feature: 1,
        output_spatial: smallvec![2],
        strides: smallvec![1],
        padding: smallvec![(padding, padding)],
        input_dilation: smallvec![input_dilation],
        kernel_dilation: smallvec![kernel_dilation],
        reversal: smallvec![false],
        feature_groups: 1,
        batch_groups: 1,
        precision: Precision::Highest,
        result: DType::F32,
    }
}

/// Asserts what the interpreter and the host give.
fn check(dims: ConvDims, x: &[f32], kernel: &[f32], want: &[f32]) {
    let op = Op::Convolution(Arc::new(dims));
    let x = Array::new([1, 1, x.len()], x).unwrap();
    let kernel = Array::new([1, 1, kernel.len()], kernel).unwrap();
    let types: Vec<Type> = vec![x.ty().clone(), kernel.ty().clone()];
    let operands = [x, kernel];
    let program = samples::program(&types, op.clone()).unwrap();
    let host = run(&Host::from_env().unwrap(), &program, &operands, CompileOptions::default()).unwrap();
    for got in [host, evaluate_op(&op, &operands).unwrap()] {
        let got = got[0].to_vec::<f32>().unwrap();
        let same = got.iter().zip(want).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()));
        assert!(same && got.len() == want.len(), "{operands:?}: {got:?} instead of {want:?}");
    }
}

#[test]
fn zeros_of_the_padding_are_multiplied() {
    // torch.nn.functional.conv1d(torch.ones(1, 1, 4), torch.tensor([[[inf, 1, 1]]]), padding=1), and the same from
    // jax.lax.conv_general_dilated on CPU.
    check(dims(1, 1, 1), &[1.0; 4], &[INF, 1.0, 1.0], &[f32::NAN, INF, INF, INF]);
    // Nothing but padding.
    check(dims(2, 1, 1), &[], &[INF, 1.0], &[f32::NAN; 3]);
}

#[test]
fn zeros_between_dilated_input_elements_are_multiplied_and_places_between_kernel_elements_are_not() {
    // StableHLO's specification: the input is padded with zeros, interior ones too, then multiplied.
    check(dims(0, 2, 1), &[1.0; 3], &[INF, 1.0], &[INF, f32::NAN, INF, f32::NAN]);
    // And the window is read with the kernel's dilation as a stride: what lies between is not read.
    check(dims(0, 1, 2), &[1.0, INF, 1.0, 2.0], &[1.0, 1.0], &[2.0, INF]);
}
