//! Every op and dtype of the samples, against the reference.

use super::super::has_kernel;
use super::{Random, assert_agrees};
use crate::ir::{Op, Type, samples};
use crate::reference::{Array, evaluate_op};

/// Whether special values are compared: ops whose reference keeps more digits than they do would overflow elsewhere.
fn takes_special_values(op: &Op) -> bool {
    use crate::ir::Reducer::{Product, Sum};
    !matches!(
        op,
        Op::Reduce { kind: Sum | Product, .. }
            | Op::ReduceWindow { kind: Sum | Product, .. }
            | Op::Cumulative { kind: Sum | Product, .. }
            | Op::SelectAndScatter { .. }
            | Op::DotGeneral(_)
            | Op::Convolution(_)
            | Op::Scatter(_)
            | Op::Fft { .. }
            | Op::Cholesky { .. }
            | Op::TriangularSolve { .. }
    )
}

#[test]
fn every_op_of_every_dtype_agrees_with_the_reference() {
    let mut random = Random(1);
    let mut compared = std::collections::BTreeSet::new();
    for (name, graph) in samples::every_op() {
        for node in &graph.nodes {
            let op = &node.op;
            if !has_kernel(op) || node.types.iter().any(|ty| ty.bytes().is_none_or(|n| n > 1 << 20)) {
                continue;
            }
            let types: Vec<Type> = node.operands.iter().map(|&value| graph.ty(value).clone()).collect();
            compared.insert(op.name());
            for round in 0..4 {
                let special = round % 2 == 1 && takes_special_values(op);
                let inputs = random.operands(op, &types, special);
                assert_agrees(&name, op, &inputs);
            }
        }
    }
    // 26 unary and 15 binary ops, and 38 others.
    assert_eq!(compared.len(), 79, "{compared:?}");
}

#[test]
fn the_executor_does_what_has_no_kernel() {
    let graphs = samples::every_op();
    let ops = graphs.iter().flat_map(|(_, graph)| &graph.nodes).map(|node| &node.op);
    let without: std::collections::BTreeSet<_> = ops.filter(|op| !has_kernel(op)).map(Op::name).collect();
    let want = [
        "all_gather",
        "all_reduce",
        "all_to_all",
        "case",
        "collective_permute",
        "composite",
        "custom_call",
        "parameter",
        "partition_id",
        "reduce_scatter",
        "replica_id",
        "while",
    ];
    assert_eq!(without.into_iter().collect::<Vec<_>>(), want);
}

#[test]
fn empty_operands_give_empty_or_identity_results() {
    let sum = Op::Reduce { kind: crate::ir::Reducer::Sum, axes: [0].into_iter().collect() };
    let none = Array::new([0, 3], &[0f32; 0]).expect("empty");
    assert_agrees("sum over nothing", &sum, std::slice::from_ref(&none));
    let sorted = Op::Sort { axis: 0, descending: false, stable: true };
    assert_agrees("sort nothing", &sorted, &[none]);
    assert!(evaluate_op(&sum, &[Array::new([0, 0], &[0f32; 0]).expect("empty")]).is_ok());
}
