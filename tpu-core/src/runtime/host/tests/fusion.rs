//! What is one kernel, and that fusing changes no bit.

use super::build::Build;
use super::*;
use crate::ir::{BinaryOp, Reducer, UnaryOp};
use crate::runtime::KernelInfo;

fn kernels_of(graph: &Graph) -> Vec<KernelInfo> {
    host(1, Isa::available()).compile(graph, CompileOptions::default()).unwrap().kernels()
}

/// Asserts that a program is one row program with so many reads and writes.
pub(super) fn assert_one_kernel(graph: &Graph, reads: usize, writes: usize) {
    let kernels = kernels_of(graph);
    let shape: Vec<_> = kernels.iter().map(|k| (k.kind.as_str(), k.reads, k.writes)).collect();
    assert_eq!(shape, [("row_program", reads, writes)], "{kernels:#?}");
}

/// The program with a barrier after every op, so that every value is its own result and nothing can be left out.
fn every_value(graph: &Graph) -> Graph {
    let mut all = graph.clone();
    let main = all.main();
    let values = all[main].nodes.iter().map(|&id| id.into()).collect();
    all.set_results(main, values);
    all
}

/// Runs each op of `graph` as a program of its own.
fn run_one_by_one(graph: &Graph, arguments: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let host = host(1, Isa::available());
    let mut values: Vec<Vec<u8>> = vec![Vec::new(); graph.nodes.len()];
    for &id in &graph[graph.main()].nodes {
        let node = &graph[id];
        if let Op::Parameter { index, .. } = node.op {
            values[id.0 as usize] = arguments[index].clone();
            continue;
        }
        let types: Vec<Type> = node.operands.iter().map(|&v| graph.ty(v).clone()).collect();
        let one = crate::ir::samples::program(&types, node.op.clone()).unwrap();
        let operands: Vec<Vec<u8>> = node.operands.iter().map(|v| values[v.node.0 as usize].clone()).collect();
        let (results, _) = run_with(&host, &one, CompileOptions::default(), &operands).unwrap();
        values[id.0 as usize] = results.into_iter().next().unwrap();
    }
    graph[graph.main()].results.iter().map(|v| values[v.node.0 as usize].clone()).collect()
}

/// Fused, with all intermediate values kept, op by op, on 1 to 3 threads and every instruction set: the same bits. And close
/// to the plain kernels.
pub(super) fn assert_same_bits(name: &str, graph: &Graph) {
    let arguments = arguments(graph, 11);
    let got = run(graph, &arguments);
    for ((ty, got), want) in graph.result_types(graph.main()).zip(&got).zip(&run_plain(graph, &arguments).unwrap()) {
        assert_close(name, ty, got, want);
    }
    assert_eq!(got, run_one_by_one(graph, &arguments), "{name}: op by op");
    let all = every_value(graph);
    let kept = run(&all, &arguments);
    for (result, got) in graph[graph.main()].results.iter().zip(&got) {
        let at = all[all.main()].results.iter().position(|v| v == result).unwrap();
        assert_eq!(&kept[at], got, "{name}: all values kept");
    }
    for isa in levels() {
        for threads in [1, 2, 3] {
            let again = run_with(&host(threads, isa), graph, CompileOptions::default(), &arguments).unwrap().0;
            assert!(got == again, "{name}: {isa:?}, {threads} threads");
        }
    }
}

pub(super) fn gelu_residual_layer_norm(rows: usize, cols: usize) -> Graph {
    let mut b = Build::new();
    let (x, r) = (b.input(DType::F32, &[rows, cols]), b.input(DType::F32, &[rows, cols]));
    let (w, c) = (b.input(DType::F32, &[cols]), b.input(DType::F32, &[cols]));
    let y = b.mul(x, w);
    let y = b.add(y, c);
    let y = b.gelu(y);
    let y = b.add(y, r);
    let y = b.layer_norm(y, w, c);
    b.done(&[y])
}

pub(super) fn softmax(dtype: DType, sizes: &[usize]) -> Graph {
    let mut b = Build::new();
    let x = b.input(dtype, sizes);
    let y = b.softmax(x);
    b.done(&[y])
}

/// Gradients of a layer norm with respect to its input, weight and bias.
pub(super) fn layer_norm_gradient(dtype: DType, sizes: &[usize]) -> Graph {
    let mut b = Build::new();
    let (x, dy) = (b.input(dtype, sizes), b.input(dtype, sizes));
    let w = b.input(dtype, &sizes[sizes.len() - 1..]);
    let (normal, rstd) = b.normalise(x);
    let dn = b.mul(dy, w);
    let along = b.mul(dn, normal);
    let along = b.mean(along);
    let mean = b.mean(dn);
    let part = b.mul(normal, along);
    let dx = b.sub(dn, mean);
    let dx = b.sub(dx, part);
    let dx = b.mul(dx, rstd);
    let dw = b.mul(dy, normal);
    let dw = b.columns(dw);
    let db = b.columns(dy);
    b.done(&[dx, dw, db])
}

#[test]
fn gelu_affine_residual_and_layer_norm_are_one_kernel() {
    assert_one_kernel(&gelu_residual_layer_norm(64, 96), 4, 1);
}

#[test]
pub(super) fn softmax_is_one_kernel() {
    assert_one_kernel(&softmax(DType::F32, &[4, 3, 50]), 1, 1);
}

#[test]
fn gradients_of_a_layer_norm_are_one_kernel() {
    assert_one_kernel(&layer_norm_gradient(DType::F32, &[4, 32, 96]), 3, 3);
}

#[test]
fn an_adam_update_is_one_kernel() {
    let mut b = Build::new();
    let v: Vec<Value> = (0..4).map(|_| b.input(DType::F32, &[30, 40])).collect();
    let rate = b.input(DType::F32, &[]);
    let (p, g) = (v[0], v[1]);
    let (m0, m1) = (b.scale(v[2], 0.9), b.scale(g, 0.1));
    let m = b.add(m0, m1);
    let square = b.mul(g, g);
    let (v0, v1) = (b.scale(v[3], 0.99), b.scale(square, 0.01));
    let s = b.add(v0, v1);
    let root = b.unary(UnaryOp::Sqrt, s);
    let root = b.shift(root, 1e-8);
    let step = b.div(m, root);
    let step = b.mul(step, rate);
    let p = b.sub(p, step);
    let graph = b.done(&[p, m, s]);
    assert_one_kernel(&graph, 5, 3);
    assert_same_bits("adam", &graph);
}

#[test]
fn attention_scores_read_transposed_operands_and_mask_inside_the_softmax() {
    let mut b = Build::new();
    let (q, k) = (b.input(DType::F32, &[2, 20, 3, 8]), b.input(DType::F32, &[2, 20, 3, 8]));
    let q = b.transpose(q, &[0, 2, 1, 3]);
    let k = b.transpose(k, &[0, 2, 3, 1]);
    let scores = b.matmul(q, k);
    let scores = b.scale(scores, 0.35);
    let shape: crate::Shape = [20, 20].into();
    let row = b.op(Op::Iota { axis: 0, dtype: DType::I32, shape: shape.clone() }, &[]);
    let col = b.op(Op::Iota { axis: 1, dtype: DType::I32, shape }, &[]);
    let seen = b.op(Op::Compare(crate::ir::Comparison::Ge), &[row, col]);
    let seen = b.like(seen, scores);
    let low = b.scale(scores, 0.0);
    let low = b.shift(low, f64::NEG_INFINITY);
    let scores = b.op(Op::Select, &[seen, scores, low]);
    let y = b.softmax(scores);
    let graph = b.done(&[y]);
    let kernels = kernels_of(&graph);
    let kinds: Vec<_> = kernels.iter().map(|k| k.kind.as_str()).collect();
    assert!(kinds.iter().filter(|k| **k == "dot_general").count() == 1 && kinds.len() <= 3, "{kernels:#?}");
    assert_same_bits("attention", &graph);
}

#[test]
fn products_of_few_rows_or_columns_have_the_same_bits_whatever_the_layouts() {
    for (rows, turned) in [1, 2, 5, 8, 16].into_iter().flat_map(|rows| [(rows, false), (rows, true)]) {
        let mut b = Build::new();
        let x = b.input(DType::F32, &[rows, 300]);
        let w = b.input(DType::F32, if turned { &[70, 300] } else { &[300, 70] });
        let w = if turned { b.transpose(w, &[1, 0]) } else { w };
        let y = b.matmul(x, w);
        let (x, w) = (b.transpose(x, &[1, 0]), b.transpose(w, &[1, 0]));
        let z = b.matmul(w, x);
        let graph = b.done(&[y, z]);
        let arguments = arguments(&graph, 11);
        // Op by op, transposes are in memory.
        let got = run(&graph, &arguments);
        assert_eq!(got, run_one_by_one(&graph, &arguments), "{rows} rows, turned: {turned}");
        for (isa, threads) in levels().into_iter().flat_map(|isa| [1, 2, 4].map(|threads| (isa, threads))) {
            let again = run_with(&host(threads, isa), &graph, CompileOptions::default(), &arguments).unwrap().0;
            assert!(got == again, "{rows} rows, turned: {turned}, {isa:?}, {threads} threads");
        }
    }
}

#[test]
fn a_mask_of_counters_is_computed_where_it_is_used() {
    let mut b = Build::new();
    let (x, y) = (b.input(DType::F32, &[16, 16]), b.input(DType::F32, &[16, 16]));
    let masked = |b: &mut Build, x: Value| {
        let count = |axis| Op::Iota { axis, dtype: DType::I32, shape: [16, 16].into() };
        let (row, col) = (b.op(count(0), &[]), b.op(count(1), &[]));
        let seen = b.op(Op::Compare(crate::ir::Comparison::Ge), &[row, col]);
        let nothing = b.scale(x, 0.0);
        b.op(Op::Select, &[seen, x, nothing])
    };
    let x = masked(&mut b, x);
    let product = b.matmul(x, y);
    let out = masked(&mut b, product);
    let graph = b.done(&[out]);
    let kernels = kernels_of(&graph);
    let shape: Vec<_> = kernels.iter().map(|k| (k.kind.as_str(), k.reads, k.writes)).collect();
    assert_eq!(shape, [("row_program", 1, 1), ("dot_general", 2, 1), ("row_program", 1, 1)], "{kernels:#?}");
    assert_same_bits("masks", &graph);
}

#[test]
fn a_constant_of_one_value_is_the_same_however_it_was_spread() {
    let mut b = Build::new();
    let x = b.input(DType::F32, &[4, 6]);
    let spread = b.scale(x, 0.5);
    let main = b.0.main();
    let whole = b.0.constant(main, crate::Literal::splat(DType::F32, [4, 6], 0.5));
    let whole = b.mul(x, whole);
    let (one, other) = (b.unary(UnaryOp::Tanh, spread), b.unary(UnaryOp::Tanh, whole));
    let sum = b.add(one, other);
    let graph = b.done(&[sum]);
    let ops: Vec<String> = kernels_of(&graph).into_iter().flat_map(|kernel| kernel.ops).collect();
    assert_eq!(ops, ["multiply", "tanh", "add"]);
    assert_same_bits("constants", &graph);
}

#[test]
fn fusing_changes_no_bit() {
    for (rows, cols) in [(64, 96), (7, 5), (3, 1500), (130, 1024), (2, 20_000), (1, 3)] {
        assert_same_bits("chain", &gelu_residual_layer_norm(rows, cols));
    }
    for sizes in [&[4, 3, 50][..], &[5, 1], &[1, 9000], &[2, 3000], &[300, 7]] {
        assert_same_bits("softmax", &softmax(DType::F32, sizes));
        assert_same_bits("softmax", &softmax(DType::F64, sizes));
    }
    for sizes in [&[4, 32, 96][..], &[200, 33], &[3, 2000], &[1, 1, 4]] {
        assert_same_bits("gradient", &layer_norm_gradient(DType::F32, sizes));
        assert_same_bits("gradient", &layer_norm_gradient(DType::F64, sizes));
    }
}

#[test]
fn reductions_have_the_same_bits_over_any_axes_however_long() {
    let cases: [(&[usize], &[usize]); 9] = [
        (&[100_000], &[0]),
        (&[3, 70, 40], &[1]),
        (&[3, 70, 40], &[0, 2]),
        (&[3, 70, 40], &[0, 1]),
        (&[2, 100_000], &[0]),
        (&[70_000, 2], &[0]),
        (&[1, 5, 1], &[0, 2]),
        (&[4, 5, 6, 7], &[0, 2]),
        (&[9, 1, 3000], &[1, 2]),
    ];
    for (sizes, axes) in cases {
        for kind in [Reducer::Sum, Reducer::Max, Reducer::Min] {
            let mut b = Build::new();
            let x = b.input(DType::F32, sizes);
            let y = b.mul(x, x);
            let y = b.op(Op::Reduce { kind, axes: axes.into() }, &[y]);
            assert_same_bits(&format!("{kind:?} of {sizes:?} over {axes:?}"), &b.done(&[y]));
        }
    }
}

#[test]
fn sixteen_bit_groups_round_once_unless_told_to_round_always() {
    let mut b = Build::new();
    let (x, y) = (b.input(DType::BF16, &[4, 8]), b.input(DType::BF16, &[4, 8]));
    let z = b.mul(x, y);
    let z = b.add(z, x);
    let graph = b.done(&[z]);
    let arguments = arguments(&graph, 3);
    let value = |i: usize| numbers(&Type::new(DType::BF16, [4, 8]), &arguments[i]);
    let round = |v: f64| half::bf16::from_f64(v).to_f64();
    let ty = Type::new(DType::BF16, [4, 8]);
    let host = host(1, Isa::available());
    let strict = CompileOptions { strict_rounding: true };
    for (options, rounds) in [(CompileOptions::default(), false), (strict, true)] {
        let got = run_with(&host, &graph, options, &arguments).unwrap().0;
        for ((got, x), y) in numbers(&ty, &got[0]).iter().zip(value(0)).zip(value(1)) {
            // Products of bf16 numbers are exact in f32.
            let product = if rounds { round(x * y) } else { x * y };
            assert_eq!(*got, round((product as f32 + x as f32) as f64));
        }
    }
    let strict_bits = run_with(&host, &graph, strict, &arguments).unwrap().0;
    assert_eq!(strict_bits, run_one_by_one(&graph, &arguments));
}

#[test]
fn a_chain_of_small_ops_is_few_kernels() {
    let mut b = Build::new();
    let mut x = b.input(DType::F32, &[64]);
    let y = b.input(DType::F32, &[64]);
    for i in 0..1000 {
        x = b.binary([BinaryOp::Add, BinaryOp::Multiply, BinaryOp::Maximum][i % 3], x, y);
    }
    let graph = b.done(&[x]);
    assert!(kernels_of(&graph).len() <= 6);
    assert_same_bits("chain", &graph);
}

/// Found by the long sweep of random programs: the two groups that the selection reads are merged while it tries to join one of
/// them, which the kernel between them and it forbids. It was then put into the group that was gone, and never computed.
#[test]
fn a_node_that_cannot_join_the_groups_it_reads_is_computed_all_the_same() {
    let mut b = Build::new();
    let (x, y) = (b.input(DType::F32, &[40]), b.input(DType::F32, &[40]));
    let less = b.op(Op::Compare(crate::ir::Comparison::Lt), &[x, y]);
    let finite = b.unary(UnaryOp::IsFinite, x);
    let turned = b.op(Op::Reverse([0][..].into()), &[less]);
    let chosen = b.op(Op::Select, &[less, finite, turned]);
    let graph = b.done(&[chosen]);
    let ops: usize = kernels_of(&graph).iter().map(|kernel| kernel.ops.len()).sum();
    assert_eq!(ops, 4, "{:#?}", kernels_of(&graph));
    assert_same_bits("selection", &graph);
}
