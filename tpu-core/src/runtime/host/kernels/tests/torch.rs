//! Values from PyTorch 2.15 on CPU. Inputs are small integers, so sums and products are exact in any order:
//!
//! ```python
//! import torch, torch.nn.functional as F
//! def ramp(*s):
//!     n = 1
//!     for d in s: n *= d
//!     return ((torch.arange(n) * 7) % 11 - 5).reshape(s).float()
//! ```

use super::{kernel, numbers};
use crate::ir::{Axes, ConvDims, DotDims, Extreme, Op, Precision, Reducer, TransposeKind, UnaryOp, Window};
use crate::reference::Array;
use crate::{Complex64, DType};
use smallvec::smallvec;
use std::sync::Arc;

fn ramp(shape: &[usize]) -> Array {
    let n: usize = shape.iter().product();
    let values: Vec<f32> = (0..n).map(|i| (i * 7 % 11) as f32 - 5.0).collect();
    Array::new(shape, &values).expect("as many elements")
}

fn f32s(shape: &[usize], values: &[i32]) -> Array {
    let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
    Array::new(shape, &values).expect("as many elements")
}

fn integers(op: &Op, inputs: &[Array]) -> Vec<i32> {
    numbers::<f32>(op, inputs).into_iter().map(|v| v as i32).collect()
}

/// PyTorch's layout for any number of spatial axes.
fn nchw(spatial: usize) -> ConvDims {
    let axes: Axes = (2..2 + spatial).collect();
    ConvDims {
        input_batch: 0,
        input_feature: 1,
        input_spatial: axes.clone(),
        kernel_input_feature: 1,
        kernel_output_feature: 0,
        kernel_spatial: axes.clone(),
        output_batch: 0,
        output_feature: 1,
        output_spatial: axes,
        strides: smallvec![1; spatial],
        padding: smallvec![(0, 0); spatial],
        input_dilation: smallvec![1; spatial],
        kernel_dilation: smallvec![1; spatial],
        reversal: smallvec![false; spatial],
        feature_groups: 1,
        batch_groups: 1,
        precision: Precision::Highest,
        result: DType::F32,
    }
}

/// `F.conv2d(ramp(2, 4, 5, 6), ramp(6, 2, 3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2)`
const CONV: [i32; 288] = [
    -74, 14, 39, -36, 21, 23, -11, 13, 22, 14, -44, 31, 29, -6, 18, -20, -13, 2, 29, -5, 16, 26, -19, -2, 25, 1, -97,
    44, 9, -48, 14, 14, -27, -27, 72, -13, -54, 59, 12, 4, -5, 30, -36, 3, 42, -40, 25, 7, 25, -23, 42, 3, -36, 57, -5,
    -29, 12, 20, -54, -13, 72, -107, -27, 39, 14, -19, 9, 44, -97, 15, 25, -17, -16, 33, 32, -110, 23, 35, -33, 7, 32,
    4, -148, 52, 21, -43, 18, 4, 1, -23, 44, 9, -48, 27, 14, 14, -15, -1, -25, 49, 2, -78, 26, -2, 34, -30, 59, 11,
    -92, 80, -3, -20, -23, 17, 3, -36, 57, -48, -29, 13, 19, -2, -5, 10, -8, 29, -3, -11, -30, 24, 35, -19, 48, -28,
    -24, 44, 19, -9, -5, 29, -14, 20, 27, -43, 14, -74, 15, 39, -36, 21, 9, -11, -80, 22, 46, -44, 31, 29, -10, 18, 27,
    -13, -14, 29, -5, 16, 19, -19, -17, 25, 15, -97, 44, 9, -19, 14, 39, -27, -107, 72, -13, -54, 20, 12, -29, -5, 57,
    -36, 3, 42, -23, 25, 7, 25, -40, 42, 3, -36, 30, -5, 4, 12, 59, -54, -13, 72, -27, -27, 14, 14, -48, 9, 44, -97, 1,
    25, 12, -16, 20, 32, -110, 23, 37, -33, -17, 32, 26, -148, 52, 21, -23, 18, 25, 1, -97, 44, 9, -48, 14, 14, -7,
    -15, 11, -25, 49, 2, -67, 26, -12, 34, -47, 59, 11, -92, 36, -3, 25, -23, 42, 3, -36, 57, -5, -29, 7, 19, -9, -5,
    10, -8, 16, -3, 15, -30, 12, 35, -19, 48, 7, -24, -19, 19, 16, -5, 29, -14, -13, 27,
];

#[test]
fn grouped_convolution_with_steps_and_holes() {
    let dims = ConvDims {
        strides: smallvec![2, 1],
        padding: smallvec![(1, 1), (2, 2)],
        kernel_dilation: smallvec![1, 2],
        feature_groups: 2,
        ..nchw(2)
    };
    let op = Op::Convolution(Arc::new(dims));
    assert_eq!(integers(&op, &[ramp(&[2, 4, 5, 6]), ramp(&[6, 2, 3, 2])]), CONV);
}

/// `torch.autograd.grad(y, (x, w), ramp(*y.shape))` of the convolution above, first.
const CONV_INPUT_GRADIENT: [i32; 240] = [
    -17, -1, -7, 31, -8, -14, 21, 53, 8, -15, -27, 5, -10, 17, 0, -17, -1, -7, 46, 1, -66, 21, 53, 8, -14, 24, -15,
    -10, 17, 0, -11, -13, -15, 27, -8, -10, 10, 6, 2, -35, 16, 12, -16, 37, -20, -11, -13, -15, 44, -15, -41, 10, 6, 2,
    -10, 32, -3, -16, 37, -20, 28, -9, -13, 27, -10, -14, -27, 20, 45, -29, -37, 10, 29, -8, -12, 28, -9, -13, -36, 22,
    14, -27, 20, 45, -14, -7, -11, 29, -8, -12, 25, -52, 3, 25, 25, 3, 10, -23, 21, 10, -1, -34, 25, -52, 25, 25, -52,
    3, 21, -23, 10, 10, -23, 21, 3, -52, 25, 25, -52, 25, -1, -7, 31, -8, -14, 24, 53, 8, -15, -27, 5, 4, 17, 0, -17,
    -1, -7, 31, 1, -66, 21, 53, 8, -15, 24, -15, -10, 17, 0, -17, -13, -15, 27, -8, -10, 32, 6, 2, -35, 16, 12, -25,
    37, -20, -11, -13, -15, 27, -15, -41, 10, 6, 2, -35, 32, -3, -16, 37, -20, -11, -9, -13, 27, -10, -14, -7, 20, 45,
    -29, -37, 10, 2, -8, -12, 28, -9, -13, 27, 22, 14, -27, 20, 45, -29, -7, -11, 29, -8, -12, 28, -52, 3, 25, 25, 3,
    -52, -23, 21, 10, -1, -34, -1, -52, 25, 25, -52, 3, 25, -23, 10, 10, -23, 21, 10, -52, 25, 25, -52, 25, 25,
];

#[test]
fn input_gradient_of_a_convolution_is_one_of_the_dilated_result() {
    // Kernel [6, 2, 3, 2], output features split into groups 2 x 3; for the gradient features go the other way: [3, 2 x 2].
    let kernel = ramp(&[6, 2, 3, 2]).to_vec::<f32>().expect("floats");
    let mut turned = vec![0.0; kernel.len()];
    for (group, out, input, tap) in
        (0..2).flat_map(|g| (0..3).flat_map(move |o| (0..2).flat_map(move |i| (0..6).map(move |t| (g, o, i, t)))))
    {
        turned[(out * 4 + group * 2 + input) * 6 + tap] = kernel[((group * 3 + out) * 2 + input) * 6 + tap];
    }
    let turned = Array::new([3, 4, 3, 2], &turned).expect("as many elements");
    // Along each axis: low = (k − 1) d − p; high makes the result as long as the input.
    let dims = ConvDims {
        kernel_input_feature: 0,
        kernel_output_feature: 1,
        input_dilation: smallvec![2, 1],
        kernel_dilation: smallvec![1, 2],
        reversal: smallvec![true, true],
        padding: smallvec![(1, 5 - 5 - 1 + 2), (0, 6 - 8 + 2)],
        feature_groups: 2,
        ..nchw(2)
    };
    let op = Op::Convolution(Arc::new(dims));
    assert_eq!(integers(&op, &[ramp(&[2, 6, 3, 8]), turned]), CONV_INPUT_GRADIENT);
}

/// The second gradient of the convolution above.
const CONV_WEIGHT_GRADIENT: [i32; 72] = [
    17, -13, -20, 45, -26, -23, 3, -22, -15, 8, -20, -23, 3, 17, 14, -20, 48, -26, 17, 3, -38, -15, 60, -20, -22, 3,
    37, 14, -10, 48, -13, 17, 16, -38, -14, 60, -28, -48, 47, 6, -20, -29, -24, -28, 46, 7, 15, 22, 36, -28, 33, 47,
    22, -20, 13, -24, 19, 46, 41, 15, -10, 36, -80, 33, -35, 22, -38, 13, -74, 19, 1, 41,
];

#[test]
fn weight_gradient_of_a_convolution_swaps_batch_and_features() {
    let dims = ConvDims {
        input_batch: 1,
        input_feature: 0,
        kernel_input_feature: 0,
        kernel_output_feature: 1,
        output_batch: 1,
        output_feature: 0,
        // Steps and holes swap; high padding gives as many results as the kernel has taps.
        strides: smallvec![1, 2],
        kernel_dilation: smallvec![2, 1],
        padding: smallvec![(1, 3 - 1 + 5 - 5 - 1), (2, 2 + 8 - 6 - 2)],
        batch_groups: 2,
        ..nchw(2)
    };
    let op = Op::Convolution(Arc::new(dims));
    assert_eq!(integers(&op, &[ramp(&[2, 4, 5, 6]), ramp(&[2, 6, 3, 8])]), CONV_WEIGHT_GRADIENT);
}

#[test]
fn convolutions_over_one_and_three_axes() {
    // F.conv1d(ramp(2, 3, 7), ramp(4, 3, 3), padding=1, stride=2)
    let dims = ConvDims { strides: smallvec![2], padding: smallvec![(1, 1)], ..nchw(1) };
    let want = [
        -6, -50, -1, 15, -36, -10, 35, -18, 44, -3, 5, 15, -8, -7, -36, 37, -8, 52, 35, -34, 44, 6, -48, 4, -36, 4, 1,
        -13, -6, -9, 39, 3,
    ];
    assert_eq!(integers(&Op::Convolution(Arc::new(dims)), &[ramp(&[2, 3, 7]), ramp(&[4, 3, 3])]), want);
    // F.conv3d(ramp(1, 2, 3, 4, 3), ramp(2, 2, 2, 2, 2))
    let want =
        [19, -84, -37, -85, -27, -86, -84, 99, -85, 98, -86, 86, 7, 18, -26, 18, 7, -59, 18, 18, 18, 18, -59, 29];
    let op = Op::Convolution(Arc::new(nchw(3)));
    assert_eq!(integers(&op, &[ramp(&[1, 2, 3, 4, 3]), ramp(&[2, 2, 2, 2, 2])]), want);
}

fn pooling(sizes: [usize; 2], strides: [usize; 2], padding: [i64; 2]) -> Arc<Window> {
    let pad = |p| (p, p);
    Arc::new(Window {
        sizes: smallvec![1, 1, sizes[0], sizes[1]],
        strides: smallvec![1, 1, strides[0], strides[1]],
        base_dilations: smallvec![1; 4],
        window_dilations: smallvec![1; 4],
        padding: smallvec![(0, 0), (0, 0), pad(padding[0]), pad(padding[1])],
    })
}

#[test]
fn max_pooling_and_its_gradient() {
    // y = F.max_pool2d(ramp(1, 2, 5, 6), (3, 2), stride=(2, 2), padding=(1, 0)); torch.autograd.grad(y, x, ramp(*y.shape))
    let window = pooling([3, 2], [2, 2], [1, 0]);
    let x = ramp(&[1, 2, 5, 6]);
    let pool = Op::ReduceWindow { kind: Reducer::Max, window: window.clone() };
    assert_eq!(integers(&pool, std::slice::from_ref(&x)), [4, 5, 1, 4, 5, 4, 5, 3, 4, 5, 4, 2, 5, 4, 5, 1, 4, 5]);
    let undo = Op::SelectAndScatter { select: Extreme::Max, window };
    assert_eq!(
        integers(&undo, &[x, ramp(&[1, 2, 3, 3])]),
        [
            0, 0, 0, 2, -2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, -3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, -4, 0, 0, 0, 0, 0,
            -5, 0, 5, 0, 0, -3, 0, 0, 0, 0, 0, 0, 0, 5, 1, 0, -3, 0, 0, 0, 0, 0, 0, 0, 4, 0
        ]
    );
}

#[test]
fn sums_over_windows() {
    // F.avg_pool2d(ramp(1, 1, 4, 4), 3, stride=1, padding=1) * 9
    let pool = Op::ReduceWindow { kind: Reducer::Sum, window: pooling([3, 3], [1, 1], [1, 1]) };
    let want = [-5, -3, 6, 7, -6, -5, 3, 1, -3, 5, 2, 4, -1, 3, 1, 0];
    assert_eq!(integers(&pool, &[ramp(&[1, 1, 4, 4])]), want);
}

#[test]
fn sorting_puts_nan_above_all_and_keeps_equals_in_order() {
    // torch.sort(x, descending=…, stable=True).indices
    let x = [3.0, f32::NAN, -1.0, 3.0, f32::INFINITY, -0.0, 0.0, f32::NEG_INFINITY];
    let keys = Array::new([8], &x).expect("8 numbers");
    let places = Array::new([8], &[0i32, 1, 2, 3, 4, 5, 6, 7]).expect("8 numbers");
    for (descending, want) in [(false, [7, 2, 5, 6, 0, 3, 4, 1]), (true, [1, 4, 0, 3, 5, 6, 2, 7])] {
        let op = Op::Sort { axis: 0, descending, stable: true };
        let sorted = kernel(&op, &[keys.clone(), places.clone()]).expect("a kernel");
        assert_eq!(sorted[1].to_vec::<i32>().expect("indices"), want);
        let values = sorted[0].to_vec::<f32>().expect("floats");
        assert!(values.iter().zip(want).all(|(v, i)| v.to_bits() == x[i as usize].to_bits()));
    }
    // torch.argmax(x), torch.argmin(x): both the NaN; torch.argmax of [1, 5, 5] is 1.
    for kind in [Extreme::Max, Extreme::Min] {
        let found = kernel(&Op::ArgReduce { kind, axis: 0 }, std::slice::from_ref(&keys)).expect("a kernel");
        assert_eq!(found[1].to_vec::<i64>().expect("an index"), [1]);
        assert!(found[0].to_vec::<f32>().expect("a number")[0].is_nan());
    }
    let found = kernel(&Op::ArgReduce { kind: Extreme::Max, axis: 0 }, &[f32s(&[3], &[1, 5, 5])]).expect("a kernel");
    assert_eq!(found[1].to_vec::<i64>().expect("an index"), [1]);
    // torch.topk(torch.tensor([1., 4., 2., 4., 3.]), 3)
    let found = kernel(&Op::TopK { k: 3, largest: true }, &[f32s(&[5], &[1, 4, 2, 4, 3])]).expect("a kernel");
    assert_eq!(found[0].to_vec::<f32>().expect("floats"), [4.0, 4.0, 3.0]);
    assert_eq!(found[1].to_vec::<i32>().expect("indices"), [1, 3, 4]);
}

#[test]
fn running_sums_and_products() {
    // torch.cumsum(ramp(3, 4), 1), torch.cumprod(ramp(3, 4), 0)
    let sum = Op::Cumulative { kind: Reducer::Sum, axis: 1, reverse: false };
    assert_eq!(integers(&sum, &[ramp(&[3, 4])]), [-5, -3, -5, 0, 1, -2, 2, 2, -4, -1, -2, -7]);
    let product = Op::Cumulative { kind: Reducer::Product, axis: 0, reverse: false };
    assert_eq!(integers(&product, &[ramp(&[3, 4])]), [-5, 2, -2, 5, -5, -6, -8, 0, 20, -18, 8, 0]);
}

fn matmul(result: DType) -> Op {
    Op::DotGeneral(Arc::new(DotDims {
        lhs_batch: smallvec![],
        rhs_batch: smallvec![],
        lhs_contract: smallvec![1],
        rhs_contract: smallvec![0],
        precision: Precision::Highest,
        result,
    }))
}

#[test]
fn integer_products_wrap_or_widen() {
    // a = torch.tensor([[100, -100], [127, 127]], dtype=torch.int8); a @ a; a.int() @ a.int()
    let a = Array::new([2, 2], &[100i8, -100, 127, 127]).expect("4 numbers");
    assert_eq!(numbers::<i8>(&matmul(DType::I8), &[a.clone(), a.clone()]), [116, 84, -99, 101]);
    assert_eq!(numbers::<i32>(&matmul(DType::I32), &[a.clone(), a]), [-2700, -22700, 28829, 3429]);
}

fn f64s(shape: &[usize], values: &[f64]) -> Array {
    Array::new(shape, values).expect("as many elements")
}

fn assert_near(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(want) {
        // A dozen roundings of numbers below 100.
        assert!((g - w).abs() < 1e-13, "{got:?} instead of {want:?}");
    }
}

const SYMMETRIC: [f64; 9] = [4.0, 2.0, -2.0, 2.0, 10.0, 2.0, -2.0, 2.0, 6.0];

#[test]
fn cholesky_factors() {
    // torch.linalg.cholesky(a), torch.linalg.cholesky(a, upper=True); only one triangle is read.
    let mut a = SYMMETRIC;
    a[1] = f64::NAN;
    let lower = numbers::<f64>(&Op::Cholesky { lower: true }, &[f64s(&[3, 3], &a)]);
    assert_near(&lower, &[2.0, 0.0, 0.0, 1.0, 3.0, 0.0, -1.0, 1.0, 2.0]);
    let mut a = SYMMETRIC;
    a[6] = f64::NAN;
    let upper = numbers::<f64>(&Op::Cholesky { lower: false }, &[f64s(&[3, 3], &a)]);
    assert_near(&upper, &[2.0, 1.0, -1.0, 0.0, 3.0, 1.0, 0.0, 0.0, 2.0]);
    // torch.linalg.cholesky(torch.tensor([[2, 1 - 1j], [1 + 1j, 3]])): [[√2, 0], [(1 + 1j) / √2, √2]]
    let c = |re, im| Complex64::new(re, im);
    let a = Array::new([2, 2], &[c(2.0, 0.0), c(1.0, -1.0), c(1.0, 1.0), c(3.0, 0.0)]).expect("4 numbers");
    let l = numbers::<Complex64>(&Op::Cholesky { lower: true }, std::slice::from_ref(&a));
    let (root, half) = (2f32.sqrt(), 0.5f32.sqrt());
    let want = [c(root, 0.0), c(0.0, 0.0), c(half, half), c(root, 0.0)];
    assert!(l.iter().zip(want).all(|(l, w)| (l - w).norm() < 2e-7), "{l:?}");
    let u = numbers::<Complex64>(&Op::Cholesky { lower: false }, &[a]);
    let want = [c(root, 0.0), c(half, -half), c(0.0, 0.0), c(root, 0.0)];
    assert!(u.iter().zip(want).all(|(u, w)| (u - w).norm() < 2e-7), "{u:?}");
}

#[test]
fn a_matrix_that_is_not_positive_definite_has_no_factor() {
    let factor = numbers::<f64>(&Op::Cholesky { lower: true }, &[f64s(&[2, 2], &[1.0, 0.0, 2.0, 1.0])]);
    // No part of it looks like an answer.
    assert!([0, 2, 3].iter().all(|&i| factor[i].is_nan()) && factor[1] == 0.0);
}

#[test]
fn triangular_systems() {
    let solve = |left, lower, unit_diagonal, transpose| Op::TriangularSolve { left, lower, unit_diagonal, transpose };
    let a = f64s(&[3, 3], &SYMMETRIC);
    let b = f64s(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let bt = f64s(&[2, 3], &[1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    use TransposeKind::{Adjoint, None, Transpose};
    // torch.linalg.solve_triangular(a.triu(), b, upper=True)
    let x = [0.6, 0.9, 2.0 / 15.0, 0.2, 5.0 / 6.0, 1.0];
    assert_near(&numbers(&solve(true, false, false, None), &[a.clone(), b.clone()]), &x);
    assert_near(&numbers(&solve(true, true, false, Transpose), &[a.clone(), b.clone()]), &x);
    assert_near(&numbers(&solve(true, true, false, Adjoint), &[a.clone(), b.clone()]), &x);
    // torch.linalg.solve_triangular(a.tril(), b.T, upper=False, left=False)
    let x = [0.6, 2.0 / 15.0, 5.0 / 6.0, 0.9, 0.2, 1.0];
    assert_near(&numbers(&solve(false, true, false, None), &[a.clone(), bt.clone()]), &x);
    assert_near(&numbers(&solve(false, false, false, Transpose), &[a.clone(), bt]), &x);
    // torch.linalg.solve_triangular(a.tril().T, b, upper=True, unitriangular=True)
    let x = [25.0, 30.0, -7.0, -8.0, 5.0, 6.0];
    assert_near(&numbers(&solve(true, true, true, Transpose), &[a, b]), &x);
}

#[test]
fn adjoint_systems_conjugate() {
    // (2i)* x = 1: x = 1 / (−2i) = i / 2.
    let op = Op::TriangularSolve { left: true, lower: true, unit_diagonal: false, transpose: TransposeKind::Adjoint };
    let a = Array::new([1, 1], &[Complex64::new(0.0, 2.0)]).expect("one number");
    let b = Array::new([1, 1], &[Complex64::new(1.0, 0.0)]).expect("one number");
    assert_eq!(numbers::<Complex64>(&op, &[a, b]), [Complex64::new(0.0, 0.5)]);
}

#[test]
fn complex_functions() {
    // z = torch.tensor([0.3 + 0.4j, -1.5 + 2j, 2 - 0.25j]).to(torch.complex64).to(torch.complex128); torch.exp(z), …
    let z = [(0.3, 0.4), (-1.5, 2.0), (2.0, -0.25)].map(|(re, im)| Complex64::new(re, im));
    let table: [(UnaryOp, [(f64, f64); 3]); 12] = [
        (
            UnaryOp::Exp,
            [
                (1.2433023067576445, 0.5256597928739909),
                (-0.09285491028402633, 0.2028916804701695),
                (7.159348238970706, -1.8280817340292228),
            ],
        ),
        (
            UnaryOp::Log,
            [
                (-0.6931471567180876, 0.9272952060806836),
                (0.9162907318741551, 2.214297435588181),
                (0.7008992738279278, -0.12435499454676144),
            ],
        ),
        (
            UnaryOp::Sqrt,
            [
                (0.6324555414579976, 0.31622776601683794),
                (std::f64::consts::FRAC_1_SQRT_2, std::f64::consts::SQRT_2),
                (1.4169623207895539, -0.08821688351624482),
            ],
        ),
        (
            UnaryOp::Tanh,
            [
                (0.338254757090949, 0.3811320773430741),
                (-1.0641443991765371, -0.08039101531016819),
                (0.968214572183509, -0.017009461384601497),
            ],
        ),
        (
            UnaryOp::Sin,
            [
                (0.3194787437768703, 0.39240668954150504),
                (-3.752771340479298, 0.2565539560904818),
                (0.9378612777147958, 0.10512381651256378),
            ],
        ),
        (
            UnaryOp::Cos,
            [
                (1.0327878827332837, -0.12138561878996783),
                (0.26612719531354573, 3.6177750739401375),
                (-0.4292192986881662, 0.22969972965814137),
            ],
        ),
        (
            UnaryOp::Tan,
            [
                (0.2610736912870206, 0.41063347876021083),
                (-0.0053620609220030565, 1.036920282100185),
                (-1.596689210770756, -1.099398135211779),
            ],
        ),
        (
            UnaryOp::Rsqrt,
            [
                (1.2649110527581657, -0.6324555169547613),
                (0.28284271247461895, -0.565685424949238),
                (0.7030101815281647, 0.04376783093289818),
            ],
        ),
        (
            UnaryOp::Sign,
            [
                (0.6000000095367428, 0.7999999928474427),
                (-0.6000000000000001, 0.8),
                (0.9922778767136677, -0.12403473458920847),
            ],
        ),
        (
            UnaryOp::Expm1,
            [
                (0.24330230675764455, 0.5256597928739909),
                (-1.0928549102840264, 0.2028916804701695),
                (6.159348238970706, -1.8280817340292228),
            ],
        ),
        (
            UnaryOp::Logistic,
            [
                (0.5774309351803968, 0.09901811557849308),
                (-0.04984258297024425, 0.234807340416369),
                (0.8832992526675669, -0.026146512968650146),
            ],
        ),
        (
            UnaryOp::Log1p,
            [
                (0.3075928292107348, 0.2984989331971156),
                (0.7234594914681627, 1.8157749899217608),
                (1.1020725100903965, -0.08314123188844123),
            ],
        ),
    ];
    let z = Array::new([3], &z).expect("3 numbers");
    for (op, want) in table {
        let got = numbers::<Complex64>(&Op::Unary(op), std::slice::from_ref(&z));
        for (g, (re, im)) in got.iter().zip(want) {
            let error = (f64::from(g.re) - re).hypot(f64::from(g.im) - im);
            assert!(error <= f64::from(f32::EPSILON) * re.hypot(im), "{}: {got:?} instead of {want:?}", op.name());
        }
    }
}
