//! Every cell of the table of ops and dtypes that `ir/support.txt` shows, on the interpreter and on the host.

use tpu_core::ir::{Graph, Op, Type, samples, support};
use tpu_core::reference::Array;
use tpu_core::runtime::host::{Host, HostOptions};
use tpu_core::runtime::{Backend, CompileOptions};
use tpu_core::testing::arguments;
use tpu_core::testing::compare::{compare, compare_replicas};
use tpu_core::{DType, ErrorKind};

/// Arguments for a program of one op: any numbers, a few special ones among them in every other round; indices that are not all
/// inside; matrices that have a factor.
fn given(graph: &Graph, round: u64) -> Vec<Array> {
    let types: Vec<&Type> = graph.parameter_types(graph.main()).collect();
    let op = graph[graph.main()].nodes.iter().map(|&id| &graph[id].op).find(|op| !matches!(op, Op::Parameter { .. }));
    let number = |i: usize| arguments::random(types[i], 64 * round + i as u64, round % 2 == 1);
    let index = |i: usize, size: usize| arguments::indices(types[i], size, 64 * round + i as u64);
    (0..types.len())
        .map(|i| match op {
            Some(Op::Gather(dims)) if i == 1 => index(i, types[0].shape.size(dims.start_index_map[0])),
            // A scalar has no axis, and its indices no elements.
            Some(Op::Scatter(dims)) if i == 1 => match dims.scatter_dims_to_operand_dims.first() {
                Some(&axis) => index(i, types[0].shape.size(axis)),
                None => number(i),
            },
            Some(Op::DynamicSlice { .. }) if i > 0 => index(i, types[0].shape.size(i - 1)),
            Some(Op::DynamicUpdateSlice) if i > 1 => index(i, types[0].shape.size(i - 2)),
            Some(Op::Cholesky { .. } | Op::TriangularSolve { .. }) if i == 0 && round < 6 => {
                arguments::dominant(types[i], round)
            }
            _ => number(i),
        })
        .collect()
}

/// Whether an op concerns several devices.
fn is_collective(op: &Op) -> bool {
    let names = [
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "collective_permute",
        "replica_id",
        "partition_id",
    ];
    names.contains(&op.name())
}

/// Devices that the samples of collectives speak of.
const DEVICES: usize = 4;

#[test]
fn every_cell_runs_on_both_and_agrees_or_is_refused_by_name() {
    let host = Host::from_env().unwrap();
    let several = Host::new(HostOptions { devices: DEVICES, ..HostOptions::default() }).unwrap();
    let (mut agreed, mut refused) = (0, 0);
    for row in samples::rows() {
        for dtype in DType::ALL {
            let (types, op) = row.apply(dtype);
            if !support::supported(&op, dtype) {
                continue;
            }
            let cell = format!("{} of {dtype}", row.name);
            let (name, is_collective) = (op.name(), is_collective(&op));
            let graph = samples::program(&types, op).unwrap();
            // A function that somebody else has.
            if name == "custom_call" {
                let Err(error) = host.compile(&graph, CompileOptions::default()) else { panic!("{cell} compiles") };
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{cell}: {error}");
                assert_eq!(error.to_string(), "custom_call of sample is not supported on host", "{cell}");
                refused += 1;
                continue;
            }
            for round in 0..8 {
                if is_collective {
                    let rows = (0..DEVICES as u64).map(|device| given(&graph, 8 * device + round));
                    let outcome = compare_replicas(&several, &graph, &rows.collect::<Vec<_>>());
                    outcome.unwrap_or_else(|message| panic!("{cell}, round {round}: {message}"));
                    continue;
                }
                let coverage = compare(&host, &graph, &given(&graph, round));
                let coverage = coverage.unwrap_or_else(|message| panic!("{cell}, round {round}: {message}"));
                assert!(coverage.unsupported.is_empty(), "{cell}: {:?}", coverage.unsupported);
                // A parameter is no node to compare; all else is compared, and run as a whole.
                assert!(name == "parameter" || coverage.nodes > 0, "{cell} is not compared");
                assert!(coverage.fused > 0 || matches!(dtype, DType::F16 | DType::BF16), "{cell} is not run whole");
            }
            agreed += 1;
        }
    }
    assert!(refused > 0);
    let cells = support_txt_cells();
    assert_eq!(agreed + refused, cells, "{agreed} cells agree, {refused} are refused");
}

/// The marks in the committed picture of the table.
fn support_txt_cells() -> usize {
    let table = include_str!("../src/ir/support.txt");
    table.lines().skip(1).map(|line| line[27..].matches('x').count()).sum()
}

#[test]
fn samples_with_special_attributes_agree() {
    let host = Host::from_env().unwrap();
    let mut compared = 0;
    for (name, graph) in samples::special() {
        let small = graph.nodes.iter().all(|node| node.types.iter().all(|ty| ty.bytes().is_some_and(|n| n < 1 << 20)));
        let here = graph.nodes.iter().all(|node| !is_collective(&node.op) && node.op.name() != "custom_call");
        if !small || !here || !graph.checks.is_empty() {
            continue;
        }
        for round in 0..8 {
            let outcome = compare(&host, &graph, &given(&graph, round));
            outcome.unwrap_or_else(|message| panic!("{name}, round {round}: {message}"));
        }
        compared += 1;
    }
    assert!(compared > 60, "{compared}");
}
