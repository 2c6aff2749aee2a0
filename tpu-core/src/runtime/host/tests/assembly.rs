//! Pads, concatenations and reversals inside groups.

use super::build::Build;
use super::fusion::{assert_one_kernel, assert_same_bits};
use super::*;
use crate::ir::UnaryOp;
use smallvec::SmallVec;

fn pad(b: &mut Build, x: Value, low: &[i64], high: &[i64]) -> Value {
    let dtype = b.0.ty(x).dtype;
    let main = b.0.main();
    let fill = b.0.constant(main, crate::Literal::splat(dtype, crate::Shape::scalar(), 0.5));
    let interior = SmallVec::from_elem(0, low.len());
    b.op(Op::Pad { low: low.into(), high: high.into(), interior }, &[x, fill])
}

fn slice(b: &mut Build, x: Value, start: &[usize], limit: &[usize]) -> Value {
    let strides = SmallVec::from_elem(1, start.len());
    b.op(Op::Slice { start: start.into(), limit: limit.into(), strides }, &[x])
}

/// The same bytes as the plain kernels give, which share nothing with groups.
fn assert_moved(name: &str, graph: &Graph) {
    let arguments = arguments(graph, 5);
    let want = run_plain(graph, &arguments).unwrap();
    for isa in levels() {
        for threads in [1, 3] {
            let got = run_with(&host(threads, isa), graph, CompileOptions::default(), &arguments).unwrap().0;
            assert!(got == want, "{name}: {isa:?}, {threads} threads");
        }
    }
}

#[test]
fn elements_arrive_where_the_plain_kernels_put_them() {
    for dtype in [DType::F32, DType::BF16, DType::F64, DType::I64, DType::Bool] {
        // Within rows, across rows, over many tiles; amounts that cut away, one that leaves nothing of the operand.
        let pads: [(&[usize], &[i64], &[i64]); 8] = [
            (&[5], &[2], &[3]),
            (&[4, 6], &[0, 2], &[0, 1]),
            (&[4, 6], &[1, 0], &[2, 0]),
            (&[3, 4, 5], &[1, -1, 2], &[-1, 3, -2]),
            (&[4, 6], &[0, -8], &[0, 9]),
            (&[2, 1, 3], &[0, 2, 0], &[1, 0, 0]),
            (&[1], &[1500], &[900]),
            (&[3, 1100], &[0, 7], &[1, 900]),
        ];
        for (sizes, low, high) in pads {
            let mut b = Build::new();
            let x = b.input(dtype, sizes);
            let y = pad(&mut b, x, low, high);
            assert_moved(&format!("{dtype} {sizes:?} by {low:?} and {high:?}"), &b.done(&[y]));
        }
        for (sizes, axes) in [(&[7][..], &[0][..]), (&[3, 4, 5], &[1]), (&[3, 4, 5], &[0, 2]), (&[2, 1300], &[1])] {
            let mut b = Build::new();
            let x = b.input(dtype, sizes);
            let y = b.op(Op::Reverse(axes.into()), &[x]);
            assert_moved(&format!("{dtype} {sizes:?} reversed along {axes:?}"), &b.done(&[y]));
        }
        for axis in 0..3 {
            let mut b = Build::new();
            let mut sizes = [3, 4, 700];
            let mut piece = |b: &mut Build, size| {
                sizes[axis] = size;
                b.input(dtype, &sizes)
            };
            let pieces = [piece(&mut b, 2), piece(&mut b, 1), piece(&mut b, 5)];
            let y = b.op(Op::Concatenate { axis }, &pieces);
            assert_moved(&format!("{dtype} along {axis}"), &b.done(&[y]));
        }
    }
}

#[test]
fn operands_may_be_views() {
    let mut b = Build::new();
    let x = b.input(DType::F32, &[6, 8, 3]);
    let turned = b.transpose(x, &[1, 0, 2]);
    let part = slice(&mut b, turned, &[2, 1, 0], &[7, 6, 2]);
    let y = pad(&mut b, part, &[1, 0, 2], &[0, 2, 1]);
    let row = b.input(DType::F32, &[1, 5]);
    let wide = b.op(Op::BroadcastInDim { shape: [6, 5].into(), axes: [0, 1][..].into() }, &[row]);
    let z = b.op(Op::Reverse([0, 1][..].into()), &[wide]);
    let count = b.op(Op::Iota { axis: 1, dtype: DType::F32, shape: [6, 3].into() }, &[]);
    let z = b.op(Op::Concatenate { axis: 1 }, &[z, count, z]);
    assert_moved("views", &b.done(&[y, z]));
}

/// What the gradient of four slices is.
#[test]
fn a_sum_of_pads_is_one_kernel() {
    let mut b = Build::new();
    let gates: Vec<Value> = (0..4).map(|_| b.input(DType::F32, &[10, 16])).collect();
    let padded: Vec<Value> =
        gates.iter().zip(0..).map(|(&x, i)| pad(&mut b, x, &[0, 16 * i], &[0, 48 - 16 * i])).collect();
    let sum = padded[1..].iter().fold(padded[0], |sum, &x| b.add(sum, x));
    let graph = b.done(&[sum]);
    assert_one_kernel(&graph, 4, 1);
    assert_same_bits("pads", &graph);
}

/// Rotary positions: the partner of an element is in the other half of its row.
#[test]
fn a_reversal_and_what_is_done_with_it_are_one_kernel() {
    let mut b = Build::new();
    let (x, cos, sin) =
        (b.input(DType::F32, &[5, 7, 32]), b.input(DType::F32, &[7, 32]), b.input(DType::F32, &[7, 32]));
    let pairs = b.op(Op::Reshape([5, 7, 2, 16].into()), &[x]);
    let partner = b.op(Op::Reverse([2][..].into()), &[pairs]);
    let partner = b.op(Op::Reshape([5, 7, 32].into()), &[partner]);
    let (own, other) = (b.mul(x, cos), b.mul(partner, sin));
    let y = b.add(own, other);
    let graph = b.done(&[y]);
    assert_one_kernel(&graph, 3, 1);
    assert_same_bits("rotary", &graph);
}

#[test]
fn what_is_put_together_comes_from_memory_and_may_be_reduced() {
    let mut b = Build::new();
    let (x, y) = (b.input(DType::F32, &[9, 40]), b.input(DType::F32, &[9, 24]));
    let left = b.unary(UnaryOp::Exp, x);
    let both = b.op(Op::Concatenate { axis: 1 }, &[left, y]);
    let out = b.softmax(both);
    let graph = b.done(&[out]);
    let kernels = host(1, Isa::available()).compile(&graph, CompileOptions::default()).unwrap().kernels();
    assert_eq!(kernels.iter().map(|kernel| kernel.ops.len()).collect::<Vec<_>>(), [1, 6], "{kernels:#?}");
    assert_same_bits("softmax of two", &graph);
    // One element per row of another group.
    let mut b = Build::new();
    let (x, y) = (b.input(DType::F32, &[9, 40]), b.input(DType::F32, &[5, 1]));
    let column = pad(&mut b, y, &[3, 0], &[1, 0]);
    let top = b.last(crate::ir::Reducer::Max, x);
    let top = b.add(top, column);
    let z = b.op(Op::BroadcastInDim { shape: [9, 40].into(), axes: [0, 1][..].into() }, &[top]);
    let z = b.sub(x, z);
    let graph = b.done(&[z]);
    assert_same_bits("a pad per row", &graph);
}

#[test]
fn small_integers_are_read_by_the_group_that_converts_them() {
    for dtype in [DType::U8, DType::I8, DType::U16, DType::I16] {
        let bytes: Vec<u8> =
            (0..=255).flat_map(|x| crate::Scalar::Int(x).to_bytes(dtype).as_slice().to_vec()).collect();
        let mut b = Build::new();
        let x = b.input(dtype, &[16, 16]);
        let y = b.op(Op::Convert(DType::F32), &[x]);
        let y = b.scale(y, 0.5);
        let graph = b.done(&[y]);
        assert_one_kernel(&graph, 1, 1);
        let (got, _) = run_with(&host(1, Isa::available()), &graph, CompileOptions::default(), &[bytes]).unwrap();
        let want: Vec<f32> =
            (0..=255).map(|x| if dtype == DType::I8 { x as u8 as i8 as f32 } else { x as f32 } * 0.5).collect();
        assert_eq!(f32::read_bytes(&got[0]), want);
        for to in [DType::BF16, DType::F64, DType::I32, DType::I64, DType::U32, DType::Bool] {
            let mut b = Build::new();
            let x = b.input(dtype, &[3, 5]);
            let y = b.op(Op::Convert(to), &[x]);
            assert_moved(&format!("{dtype} to {to}"), &b.done(&[y]));
        }
    }
}
