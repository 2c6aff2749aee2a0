//! A program recorded op by op and run by the scheduler, in every mode.
//!
//! The modes cut the same operations into programs differently, and none of that may be seen in the results: they are the
//! bits of the nodes run one by one, which [`compare`](super::compare) has judged. Where the options let a fused group keep `f32`
//! between ops, what depends on `f16` or `bf16` is exempt.

use super::compare::{Coverage, depends_on, holds_narrow_floats, judge};
use super::difference::difference;
use super::tolerance::Tolerance;
use crate::ir::{Graph, NodeId, Op, Value};
use crate::reference::Array;
use crate::tensor::Operand;
use crate::{Device, Mode, Result, Tensor, lazy};
use std::collections::HashMap;
use std::sync::Arc;

/// How a program is recorded and cut.
#[derive(Clone, Copy, Debug)]
struct Way {
    mode: Mode,
    strict_rounding: bool,
    /// Whether every tensor is held until the end, so that a cut must make all of them real.
    hold: bool,
}

const WAYS: [Way; 5] = [
    Way { mode: Mode::DeferAndFuse, strict_rounding: false, hold: false },
    Way { mode: Mode::DeferAndFuse, strict_rounding: true, hold: false },
    Way { mode: Mode::DeferAndFuse, strict_rounding: true, hold: true },
    Way { mode: Mode::DeferNever, strict_rounding: false, hold: false },
    Way { mode: Mode::DeferNeverAndLaunchBlocking, strict_rounding: false, hold: true },
];

/// Panics with the program, where and by how much they differ, unless a device agrees with the interpreter on it in every
/// mode.
#[track_caller]
pub fn assert_agrees_in_every_mode(device: &Device, graph: &Graph, arguments: &[Array]) -> Coverage {
    match compare_in_every_mode(device, graph, arguments) {
        Ok(coverage) => coverage,
        Err(message) => panic!("{message}\nprogram: {graph:#?}"),
    }
}

/// [`compare`](super::compare::compare) on the device's backend, then the program recorded as tensors in each mode, which
/// must give the same bits.
///
/// The error says which node or result differs and how. The program must be valid, without collectives and checks.
pub fn compare_in_every_mode(device: &Device, graph: &Graph, arguments: &[Array]) -> Result<Coverage, String> {
    let (mut coverage, mut unfused) = judge(device.runtime(), graph, &[arguments.to_vec()])?;
    let unfused = unfused.remove(0);
    if !coverage.unsupported.is_empty() {
        return Ok(coverage);
    }
    let narrow = depends_on(graph, |graph, node| holds_narrow_floats(graph, node, true));
    // One op is one program there, but the body of a composite is one too.
    let narrow_inside = depends_on(graph, |graph, node| holds_narrow_floats(graph, node, false));
    let results = &graph[graph.main()].results;
    for way in WAYS {
        let got = device.scope(|| run(graph, arguments, way)).map_err(|error| format!("{way:?}: {error:?}"))?;
        let exempt = if way.mode == Mode::DeferAndFuse { &narrow } else { &narrow_inside };
        for (i, (value, (got, unfused))) in results.iter().zip(got.iter().zip(&unfused)).enumerate() {
            if !way.strict_rounding && exempt.contains(value) {
                continue;
            }
            if let Some(found) = difference(Tolerance::Bits, &[], unfused, got, None) {
                return Err(format!("{way:?}: result {i} ({value:?}) is not that of its nodes one by one: {found}"));
            }
            coverage.recorded += 1;
        }
    }
    Ok(coverage)
}

/// The results of a program recorded on the current device.
fn run(graph: &Graph, arguments: &[Array], way: Way) -> Result<Vec<Array>> {
    way.mode.scope(|| {
        let read = || {
            let mut tensors = record(graph, arguments)?;
            let results = graph[graph.main()].results.iter();
            let results: Vec<Tensor> =
                results.map(|value| tensors[&value.node][value.result as usize].clone()).collect();
            if !way.hold {
                tensors.clear();
            }
            results.iter().map(|tensor| Array::from_bytes(tensor.ty().clone(), tensor.to_bytes()?)).collect()
        };
        if way.strict_rounding { lazy::strict_rounding(read) } else { read() }
    })
}

/// All values of block 0 as tensors.
fn record(graph: &Graph, arguments: &[Array]) -> Result<HashMap<NodeId, Vec<Tensor>>> {
    let mut tensors: HashMap<NodeId, Vec<Tensor>> = HashMap::new();
    for &id in &graph[graph.main()].nodes {
        let node = &graph[id];
        let results = match &node.op {
            Op::Parameter { index, .. } => {
                let array = &arguments[*index];
                vec![Tensor::from_bytes(array.dtype(), array.ty().shape.clone(), array.bytes())?]
            }
            op => {
                let mut op = op.clone();
                let regions: Vec<Arc<Graph>> =
                    op.blocks().iter().map(|&block| Arc::new(graph.program_of(block))).collect();
                let mut next = 0;
                op.map_blocks(|_| {
                    next += 1;
                    crate::ir::BlockId(next - 1)
                });
                let tensor = |value: &Value| &tensors[&value.node][value.result as usize];
                let operands: Vec<Operand<'_>> = node.operands.iter().map(|value| tensor(value).into()).collect();
                crate::tensor::record(op, &operands, &regions, crate::tensor::Check::None)?.into_vec()
            }
        };
        tensors.insert(id, results);
    }
    Ok(tensors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::BlockId;
    use crate::reference::ReferenceBackend;
    use crate::testing::choices::Stream;
    use crate::testing::compare::tests::{Wrong, program};
    use crate::testing::graphs::{Config, generate};

    #[test]
    fn the_interpreter_agrees_with_itself_in_every_mode() {
        let device = &Device::open(Arc::new(ReferenceBackend))[0];
        let config = Config::default();
        let mut total = Coverage::default();
        for seed in 0..30 {
            let mut stream = Stream(seed);
            let bytes: Vec<u8> = (0..200).map(|_| stream.bits() as u8).collect();
            let (graph, arguments) = generate(&bytes, &config);
            let coverage = assert_agrees_in_every_mode(device, &graph, &arguments);
            total.recorded += coverage.recorded;
        }
        assert!(total.recorded > 100, "{total:?}");
    }

    #[test]
    fn a_difference_that_only_a_cut_makes_is_found() {
        let (graph, arguments) = program();
        // Right op by op and as a whole, wrong where a tensor that is held makes it a program of two results.
        let device = &Device::open(Arc::new(Wrong(|graph| {
            let results = &mut graph.blocks[0].results;
            if results.len() == 2 {
                results.swap(0, 1);
            }
        })))[0];
        let message = compare_in_every_mode(device, &graph, &arguments).unwrap_err();
        assert!(message.starts_with("Way { mode: DeferAndFuse, strict_rounding: true, hold: true }"), "{message}");
    }

    #[test]
    fn blocks_become_programs_of_their_own() {
        for (name, graph) in crate::ir::samples::every_op() {
            for block in 1..graph.blocks.len() as u32 {
                let program = graph.program_of(BlockId(block));
                assert!(crate::ir::verify::verify(&program).is_ok(), "{name}");
                let types = |graph: &Graph, block| graph.result_types(block).cloned().collect::<Vec<_>>();
                assert_eq!(types(&program, program.main()), types(&graph, BlockId(block)), "{name}");
            }
        }
    }
}
