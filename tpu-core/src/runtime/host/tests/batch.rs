//! Row programs that run together.

use super::build::Build;
use super::fusion::assert_same_bits;
use super::*;
use crate::ir::UnaryOp;
use crate::runtime::host::compile;

/// The steps of each batch, and whether it is shared among threads.
fn batches(graph: &Graph) -> Vec<(usize, bool)> {
    let (_, program) = compile::compile(graph, CompileOptions::default(), Isa::available(), false).unwrap();
    program.batches.iter().map(|batch| (batch.steps.len(), batch.parallel)).collect()
}

/// Adam's updates of parameters of these sizes.
fn updates(sizes: &[&[usize]]) -> Graph {
    let mut b = Build::new();
    let rate = b.input(DType::F32, &[]);
    let mut results = Vec::new();
    for sizes in sizes {
        let [p, g, m, v] = [(); 4].map(|()| b.input(DType::F32, sizes));
        let (m0, m1) = (b.scale(m, 0.9), b.scale(g, 0.1));
        let m = b.add(m0, m1);
        let square = b.mul(g, g);
        let (v0, v1) = (b.scale(v, 0.99), b.scale(square, 0.01));
        let v = b.add(v0, v1);
        let root = b.unary(UnaryOp::Sqrt, v);
        let root = b.shift(root, 1e-8);
        let step = b.div(m, root);
        let step = b.mul(step, rate);
        let p = b.sub(p, step);
        results.extend([p, m, v]);
    }
    b.done(&results)
}

#[test]
fn updates_of_fifty_parameters_are_one_piece_of_work() {
    let sizes: Vec<&[usize]> = (0..50).map(|i| if i % 2 == 0 { &[60, 60][..] } else { &[60] }).collect();
    let graph = updates(&sizes);
    assert_eq!(batches(&graph), [(50, true)]);
    assert_same_bits("updates", &graph);
    // Few and small: not worth a thread.
    assert_eq!(batches(&updates(&sizes[..4])), [(4, false)]);
}

#[test]
fn norms_of_gradients_are_one_piece_of_work_and_what_reads_them_is_another() {
    let mut b = Build::new();
    let sums: Vec<Value> = (0..12)
        .map(|i| {
            let g = b.input(DType::F32, &[50 + i, 70]);
            let square = b.mul(g, g);
            b.op(Op::Reduce { kind: crate::ir::Reducer::Sum, axes: [0, 1][..].into() }, &[square])
        })
        .collect();
    let norm = sums[1..].iter().fold(sums[0], |sum, &x| b.add(sum, x));
    let graph = b.done(&[norm]);
    // The kernel of one of them adds all sums up.
    assert_eq!(batches(&graph).iter().map(|batch| batch.0).collect::<Vec<_>>(), [11, 1]);
    assert_same_bits("norm", &graph);
}

#[test]
fn a_result_in_the_memory_of_an_argument_waits_for_what_reads_the_argument() {
    let mut b = Build::new();
    let (p, row) = (b.input(DType::F32, &[30, 40]), b.input(DType::F32, &[40]));
    let columns = b.columns(p);
    let wide = b.like(row, p);
    let twice = b.add(wide, wide);
    let graph = b.done(&[columns, twice]);
    let (_, program) = compile::compile(&graph, CompileOptions::default(), Isa::available(), false).unwrap();
    let donors: Vec<Option<usize>> = program.slots.iter().map(|slot| slot.donor).collect();
    assert_eq!(donors, [None, Some(0)]);
    assert_eq!(batches(&graph).len(), 2);
    assert_same_bits("donors", &graph);
}
