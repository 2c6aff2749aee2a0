//! Every op and dtype of the samples.

use super::*;
use crate::ErrorKind;
use crate::ir::samples;

/// Whether a program holds an op that is not `wanted`, parameters aside.
fn holds_other(graph: &Graph, wanted: impl Fn(&Op) -> bool) -> bool {
    graph.nodes.iter().any(|node| !matches!(node.op, Op::Parameter { .. }) && !wanted(&node.op))
}

#[test]
fn every_sample_agrees_with_the_plain_kernels() {
    let mut ran = 0;
    for (name, graph) in samples::every_op() {
        let arguments = arguments(&graph, 7);
        let got = run_with(&host(1, Isa::available()), &graph, CompileOptions::default(), &arguments);
        let absent = holds_other(&graph, |op| host(1, Isa::available()).supports(op, &[]).is_ok());
        if absent {
            let error = got.expect_err(&name);
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
            continue;
        }
        // Samples of legal values that no memory holds.
        if graph.result_types(graph.main()).any(|ty| ty.bytes().is_none_or(|bytes| bytes > 1 << 38)) {
            assert_eq!(got.expect_err(&name).kind(), ErrorKind::OutOfMemory, "{name}");
            continue;
        }
        // Of several devices.
        if let Err(error) = &got
            && error.kind() == ErrorKind::Value
        {
            continue;
        }
        let (got, _) = got.unwrap_or_else(|error| panic!("{name}: {error}"));
        if holds_other(&graph, kernels::has_kernel) {
            // What the executor does itself: composites, loops, branches.
            continue;
        }
        let want = run_plain(&graph, &arguments).unwrap_or_else(|error| panic!("{name}: {error}"));
        for ((ty, got), want) in graph.result_types(graph.main()).zip(&got).zip(&want) {
            assert_close(&name, ty, got, want);
        }
        ran += 1;
    }
    assert!(ran > 300, "only {ran} samples ran");
}
