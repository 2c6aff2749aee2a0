//! Random graphs on the host and on XLA for CPU.
#![allow(clippy::print_stderr, reason = "a test that does not run says so")]

mod pjrt;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config as Runner, RngSeed, TestRunner};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use tpu_core::DType;
use tpu_core::ir::{Graph, Node, Op, samples, support};
use tpu_core::reference::Array;
use tpu_core::runtime::host::{Host, HostOptions};
use tpu_core::runtime::pjrt::Pjrt;
use tpu_core::testing::graphs::{Config, generate_replicas};
use tpu_core::testing::{cases, xla};

/// Graphs in a module.
const IN_A_MODULE: usize = 20;
/// On how many devices the graphs of the modules run, in turn.
const DEVICES: [usize; 8] = [1, 1, 1, 2, 1, 1, 4, 3];
const MOST_DEVICES: usize = 4;

/// A graph with its arguments on each device.
type Sample = (Graph, Vec<Vec<Array>>);

/// The graphs of a sweep, module by module.
fn modules(graphs: usize) -> Vec<Vec<Sample>> {
    let mut runner = TestRunner::new(Runner { rng_seed: RngSeed::Fixed(0x7075), ..Runner::default() });
    let bytes = prop::collection::vec(any::<u8>(), 0..300);
    let config = Config::default();
    let mut one = |devices| {
        let bytes = bytes.new_tree(&mut runner).expect("bytes").current();
        generate_replicas(&bytes, &config, devices)
    };
    let devices = (0..graphs / IN_A_MODULE).map(|module| DEVICES[module % DEVICES.len()]);
    devices.map(|devices| (0..IN_A_MODULE).map(|_| one(devices)).collect()).collect()
}

#[test]
fn random_graphs_agree_on_the_host_and_on_xla() {
    let Some(path) = pjrt::plugin(pjrt::CPU) else { return };
    let plugin = Pjrt::open(path, &xla::unoptimized(MOST_DEVICES)).unwrap();
    let host = Host::new(HostOptions { devices: MOST_DEVICES, ..HostOptions::default() }).unwrap();
    let modules = modules(cases(500) as usize);
    // XLA compiles most of the time, one program on one thread.
    let next = AtomicUsize::new(0);
    let run = || {
        let mut lines = Vec::new();
        while let Some((number, module)) = modules.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed)) {
            for (at, message) in xla::graphs(&host, &plugin, module, IN_A_MODULE).wrong {
                let line = format!("graph {}: {message}", IN_A_MODULE * number + at);
                eprintln!("{line}");
                lines.push(line);
            }
        }
        lines
    };
    let lines = std::thread::scope(|scope| {
        let other = scope.spawn(run);
        let mut lines = run();
        lines.extend(other.join().unwrap());
        lines
    });
    assert!(lines.is_empty(), "{} differences\n{}", lines.len(), lines.join("\n"));
}

/// The row and the column of a node in `ir/support.txt`.
fn cell(graph: &Graph, node: &Node) -> (String, DType) {
    let op = &node.op;
    let name = match op {
        Op::Compare(comparison) => format!("compare {}", comparison.name()),
        Op::Convert(to) => format!("convert to {to}"),
        Op::Reduce { kind, .. } | Op::ReduceWindow { kind, .. } | Op::Cumulative { kind, .. } => {
            format!("{} {}", op.name(), kind.name())
        }
        Op::AllReduce { kind, .. } | Op::ReduceScatter { kind, .. } => format!("{} {}", op.name(), kind.name()),
        Op::Scatter(dims) => format!("scatter {}", dims.combiner.map_or("overwriting", |kind| kind.name())),
        Op::Fft { kind, .. } => format!("fft {}", kind.name()),
        _ => op.name().to_string(),
    };
    let data = match op {
        Op::Select | Op::Clamp | Op::Case { .. } => node.operands.get(1),
        _ => node.operands.first(),
    };
    (name, data.map_or_else(|| node.types[0].dtype, |&data| graph.ty(data).dtype))
}

/// Every op, all ranks, sizes of 0 and special values; in a long sweep every op of every dtype that it takes.
#[test]
fn the_graphs_hold_every_op() {
    let graphs = cases(500) as usize;
    let (mut cells, mut ranks, mut special) = (BTreeMap::<_, usize>::new(), BTreeMap::<_, usize>::new(), [0; 4]);
    let mut empty = BTreeSet::new();
    for (graph, rows) in modules(graphs).iter().flatten() {
        for node in &graph.nodes {
            *cells.entry(cell(graph, node)).or_default() += 1;
            for ty in &node.types {
                *ranks.entry(ty.shape.rank()).or_default() += 1;
                if ty.shape.elements() == Some(0) {
                    empty.insert(node.op.name());
                }
            }
        }
        for x in rows.iter().flatten().filter(|x| x.dtype().is_float()) {
            let values = x.cast_vec::<f64>();
            let least = if x.dtype() == DType::F16 { 6.2e-5 } else { f32::MIN_POSITIVE.into() };
            let kinds: [&dyn Fn(f64) -> bool; 4] =
                [&|x| x.is_nan(), &|x| x.is_infinite(), &|x| x == 0.0 && x.is_sign_negative(), &|x| {
                    x != 0.0 && x.abs() < least
                }];
            for (kind, count) in kinds.iter().zip(&mut special) {
                *count += usize::from(values.iter().any(|&x| kind(x)));
            }
        }
    }
    let total: usize = cells.values().sum();
    eprintln!("{total} nodes, ranks {ranks:?}, {} ops of nothing, special values {special:?}", empty.len());
    let (mut missing, mut missing_rows) = (Vec::new(), Vec::new());
    for row in samples::rows() {
        let mut line = String::new();
        for dtype in DType::ALL {
            let taken = support::supported(&row.apply(dtype).1, dtype);
            let count = cells.get(&(row.name.clone(), dtype)).copied().unwrap_or(0);
            line += &if taken { format!("{count:6}") } else { "     .".into() };
            // Nobody has the kernel that it calls.
            if taken && count == 0 && row.name != "custom_call" {
                missing.push(format!("{} {dtype}", row.name));
            }
        }
        if !cells.keys().any(|(name, _)| *name == row.name) && row.name != "custom_call" {
            missing_rows.push(row.name.clone());
        }
        eprintln!("{:27}{line}", row.name);
    }
    assert!(missing_rows.is_empty(), "never generated: {missing_rows:?}");
    assert!(graphs < 10_000 || missing.is_empty(), "never generated: {missing:?}");
    // Measured over 10,000: 1.9 values of rank 5 a graph, 0.2 arguments with subnormal numbers.
    assert!((0..=5).all(|rank| ranks.get(&rank).is_some_and(|&count| count > graphs / 2)), "{ranks:?}");
    assert!(special.iter().all(|&count| count > graphs / 20) && empty.len() > 40, "{special:?} {empty:?}");
}
