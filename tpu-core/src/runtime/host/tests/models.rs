//! What the parts of real models become.

use super::build::Build;
use super::fusion::assert_same_bits;
use super::*;
use crate::ir::{BinaryOp, Comparison, Reducer, UnaryOp};
use crate::runtime::KernelInfo;
use smallvec::SmallVec;

fn kernels_of(graph: &Graph) -> Vec<KernelInfo> {
    host(1, Isa::available()).compile(graph, CompileOptions::default()).unwrap().kernels()
}

/// `x` in the middle axis of `[n, c, h, w]`.
fn per_channel(b: &mut Build, x: Value, like: Value) -> Value {
    let shape: crate::Shape = b.sizes(like).as_slice().into();
    b.op(Op::BroadcastInDim { shape, axes: [1][..].into() }, &[x])
}

fn channel_mean(b: &mut Build, x: Value) -> Value {
    let sizes = b.sizes(x);
    let sum = b.op(Op::Reduce { kind: Reducer::Sum, axes: [0, 2, 3][..].into() }, &[x]);
    b.scale(sum, 1.0 / (sizes[0] * sizes[2] * sizes[3]) as f64)
}

/// The normalised input and the reciprocal deviations.
fn batch_normal(b: &mut Build, x: Value) -> (Value, Value) {
    let mean = channel_mean(b, x);
    let mean = per_channel(b, mean, x);
    let centred = b.sub(x, mean);
    let square = b.mul(centred, centred);
    let variance = channel_mean(b, square);
    let variance = b.shift(variance, 1e-5);
    let rstd = b.unary(UnaryOp::Rsqrt, variance);
    let wide = per_channel(b, rstd, x);
    (b.mul(centred, wide), rstd)
}

fn bytes_moved(graph: &Graph) -> f64 {
    kernels_of(graph).iter().map(|kernel| kernel.bytes).sum()
}

#[test]
fn a_batch_norm_reads_its_input_three_times_and_writes_its_result() {
    let sizes = [8, 16, 12, 12];
    let mut b = Build::new();
    let (x, w, c) = (b.input(DType::F32, &sizes), b.input(DType::F32, &[16]), b.input(DType::F32, &[16]));
    let (normal, _) = batch_normal(&mut b, x);
    let (w, c) = (per_channel(&mut b, w, x), per_channel(&mut b, c, x));
    let y = b.mul(normal, w);
    let y = b.add(y, c);
    let y = b.binary(BinaryOp::Maximum, y, c);
    let graph = b.done(&[y]);
    // Mean, variance, result; sums of 16 channels or of 8 * 16 beside them, below a tenth.
    let whole = 4.0 * sizes.iter().product::<usize>() as f64;
    let moved = bytes_moved(&graph) / whole;
    assert!((4.0..4.1).contains(&moved), "{moved} times: {:#?}", kernels_of(&graph));
    assert_same_bits("batch norm", &graph);
}

#[test]
fn a_batch_norm_and_its_gradient_keep_nothing_but_the_input() {
    let sizes = [8, 16, 12, 12];
    let mut b = Build::new();
    let (x, dy, w) = (b.input(DType::F32, &sizes), b.input(DType::F32, &sizes), b.input(DType::F32, &[16]));
    let (normal, rstd) = batch_normal(&mut b, x);
    let w_wide = per_channel(&mut b, w, x);
    let y = b.mul(normal, w_wide);
    let along = b.mul(dy, normal);
    let along = channel_mean(&mut b, along);
    let mean = channel_mean(&mut b, dy);
    let (along_wide, mean_wide) = (per_channel(&mut b, along, x), per_channel(&mut b, mean, x));
    let part = b.mul(normal, along_wide);
    let dx = b.sub(dy, mean_wide);
    let dx = b.sub(dx, part);
    let scale = b.mul(rstd, w);
    let scale = per_channel(&mut b, scale, x);
    let dx = b.mul(dx, scale);
    let graph = b.done(&[y, dx]);
    // x for the mean, x for the variance; x and dy for y and the two means of the gradient; x and dy for its result.
    let whole = 4.0 * sizes.iter().product::<usize>() as f64;
    let moved = bytes_moved(&graph) / whole;
    assert!((8.0..8.2).contains(&moved), "{moved} times: {:#?}", kernels_of(&graph));
    assert_same_bits("gradient of a batch norm", &graph);
}

#[test]
fn a_loss_by_cross_entropy_and_its_gradient_are_one_kernel_but_for_the_mean() {
    let (rows, classes) = (30, 70);
    let mut b = Build::new();
    let (x, labels) = (b.input(DType::F32, &[rows, classes]), b.input(DType::I64, &[rows, 1]));
    let labels = b.op(Op::BroadcastInDim { shape: [rows, classes].into(), axes: [0, 1][..].into() }, &[labels]);
    let class = b.op(Op::Iota { axis: 1, dtype: DType::I64, shape: [rows, classes].into() }, &[]);
    let hit = b.op(Op::Compare(Comparison::Eq), &[labels, class]);
    let top = b.last(Reducer::Max, x);
    let shifted = b.sub(x, top);
    let e = b.unary(UnaryOp::Exp, shifted);
    let sum = b.last(Reducer::Sum, e);
    let log = b.unary(UnaryOp::Log, sum);
    let log = b.sub(shifted, log);
    let none = b.scale(log, 0.0);
    let picked = b.op(Op::Select, &[hit, log, none]);
    let losses = b.last(Reducer::Sum, picked);
    let p = b.div(e, sum);
    let one = b.op(Op::Convert(DType::F32), &[hit]);
    let dx = b.sub(p, one);
    let dx = b.scale(dx, 1.0 / rows as f64);
    let loss = b.op(Op::Reduce { kind: Reducer::Sum, axes: [0, 1][..].into() }, &[losses]);
    let graph = b.done(&[loss, dx]);
    let shape: Vec<_> = kernels_of(&graph).iter().map(|k| (k.kind.clone(), k.reads, k.writes)).collect();
    let rows = |reads, writes| ("row_program".to_owned(), reads, writes);
    assert_eq!(shape, [rows(2, 2), rows(1, 1)]);
    assert_same_bits("cross entropy", &graph);
}

#[test]
fn a_cell_of_an_lstm_is_two_kernels_beside_its_products() {
    let (batch, width) = (6, 20);
    let mut b = Build::new();
    let (x, h, c) =
        (b.input(DType::F32, &[batch, 12]), b.input(DType::F32, &[batch, width]), b.input(DType::F32, &[batch, width]));
    let (w, u) = (b.input(DType::F32, &[12, 4 * width]), b.input(DType::F32, &[width, 4 * width]));
    let bias = b.input(DType::F32, &[4 * width]);
    let (own, recurrent) = (b.matmul(x, w), b.matmul(h, u));
    let z = b.add(own, recurrent);
    let z = b.add(z, bias);
    let gate = |b: &mut Build, i: usize, op| {
        let slice = Op::Slice {
            start: SmallVec::from_slice(&[0, i * width]),
            limit: SmallVec::from_slice(&[batch, (i + 1) * width]),
            strides: SmallVec::from_elem(1, 2),
        };
        let z = b.op(slice, &[z]);
        b.unary(op, z)
    };
    let [i, f, o] = [0, 1, 3].map(|at| gate(&mut b, at, UnaryOp::Logistic));
    let g = gate(&mut b, 2, UnaryOp::Tanh);
    let (kept, new) = (b.mul(f, c), b.mul(i, g));
    let c = b.add(kept, new);
    let t = b.unary(UnaryOp::Tanh, c);
    let h = b.mul(o, t);
    let graph = b.done(&[h, c]);
    let shape: Vec<_> = kernels_of(&graph).iter().map(|k| (k.kind.clone(), k.reads, k.writes)).collect();
    let rows = |reads, writes| ("row_program".to_owned(), reads, writes);
    assert_eq!(shape.iter().filter(|k| k.0 == "dot_general").count(), 2);
    // The sum of the products and the bias; the gates and the state.
    assert_eq!(shape[2..], [rows(3, 1), rows(2, 2)]);
    assert_same_bits("lstm", &graph);
}
