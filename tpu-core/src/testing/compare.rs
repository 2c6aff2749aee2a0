//! The comparison of a backend with the interpreter.
//!
//! Errors of a whole program have no useful bound, so a program is walked node by node: each node becomes a program of its own
//! on the backend, its operands are what the backend gave before, and its results are compared with what the interpreter makes of the
//! same operands, within the bound of [`tolerance`]. Then the backend runs the whole program, fused as it likes, which must give
//! the bits of the walk (DESIGN: no contraction, single instructions equal their primitive sequence). Values that depend on `f16` or
//! `bf16` are exempt when the options let a fused group keep `f32` between ops.

use super::backward::violation;
use super::difference::{difference, terms};
use super::tolerance::{Tolerance, tolerance};
use crate::ir::{BlockId, Graph, Node, NodeId, Op, Type, Value, samples};
use crate::reference::{Array, evaluate, evaluate_spmd};
use crate::runtime::{Argument, Backend, Buffer, CompileOptions};
use crate::{DType, ErrorKind, Result};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What a comparison covered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Nodes compared with the interpreter.
    pub nodes: usize,
    /// Results of the fused program compared bit for bit.
    pub fused: usize,
    /// Results of the recorded program compared bit for bit, over all [modes](super::modes).
    pub recorded: usize,
    /// Ops that the backend says it does not support; then the whole program is not run.
    pub unsupported: Vec<&'static str>,
}

/// Panics with the program, where and by how much they differ, unless the backend agrees with the interpreter on it.
#[track_caller]
pub fn assert_agrees(backend: &dyn Backend, graph: &Graph, arguments: &[Array]) -> Coverage {
    match compare(backend, graph, arguments) {
        Ok(coverage) => coverage,
        Err(message) => panic!("{message}\nprogram: {graph:#?}"),
    }
}

/// Compares a backend with the interpreter on a program: node by node, then as a whole under both rounding options.
///
/// The error says which node or result differs and how. The program must be valid and without collectives.
pub fn compare(backend: &dyn Backend, graph: &Graph, arguments: &[Array]) -> Result<Coverage, String> {
    judge(backend, graph, arguments).map(|(coverage, _)| coverage)
}

/// Compares a backend with the interpreter on a program of one op that several devices run together: row `i` of the arguments
/// is that of device `i`.
///
/// The error says which result of which device differs and how.
pub fn compare_replicas(backend: &dyn Backend, graph: &Graph, rows: &[Vec<Array>]) -> Result<(), String> {
    let shown = |error| format!("{error:?}");
    let expected = evaluate_spmd(graph, rows).map_err(shown)?;
    let upload = |(device, row): (usize, &Vec<Array>)| -> Result<Vec<Argument>> {
        row.iter().map(|x| Ok(Argument::Shared(backend.upload(device, x.ty(), x.bytes())?))).collect()
    };
    let mut arguments = rows.iter().enumerate().map(upload).collect::<Result<Vec<_>>>().map_err(shown)?;
    let executable = backend.compile_replicas(graph, CompileOptions::default(), rows.len()).map_err(shown)?;
    let outcomes = executable.run_replicas(&mut arguments).map_err(shown)?;
    let op = graph.nodes.iter().map(|node| &node.op).find(|op| !matches!(op, Op::Parameter { .. }));
    for (device, (expected, outcome)) in expected.iter().zip(&outcomes).enumerate() {
        for (i, (expected, got)) in expected.results.iter().zip(&outcome.results).enumerate() {
            let got = read(got).map_err(shown)?;
            let dtype = rows[device].first().map_or(expected.dtype(), Array::dtype);
            let allowed = op.map_or(Tolerance::Bits, |op| tolerance(op, dtype, terms(op, &rows[device], expected)));
            if let Some(found) = difference(allowed, &rows[device], expected, &got, op) {
                return Err(format!("device {device}: result {i}, allowed {allowed:?}: {found}"));
            }
        }
    }
    Ok(())
}

/// [`compare`], with the results of the nodes run one by one.
pub(super) fn judge(
    backend: &dyn Backend,
    graph: &Graph,
    arguments: &[Array],
) -> Result<(Coverage, Vec<Array>), String> {
    let mut walk = Walk { backend, graph, coverage: Coverage::default(), steps: Vec::new() };
    let unfused = walk.block(graph.main(), arguments.to_vec())?;
    let mut coverage = walk.coverage;
    if !coverage.unsupported.is_empty() {
        return Ok((coverage, unfused));
    }
    let exempt = depends_on(graph, |graph, node| holds_narrow_floats(graph, node, true));
    for strict_rounding in [true, false] {
        let options = CompileOptions { strict_rounding };
        let fused = run(backend, graph, arguments, options).map_err(|error| format!("whole program: {error:?}"))?;
        let results = &graph[graph.main()].results;
        for (i, (value, (fused, unfused))) in results.iter().zip(fused.iter().zip(&unfused)).enumerate() {
            if !strict_rounding && exempt.contains(value) {
                continue;
            }
            if let Some(found) = difference(Tolerance::Bits, &[], unfused, fused, None) {
                return Err(format!(
                    "{options:?}: result {i} ({value:?}) is not that of its nodes one by one: {found}"
                ));
            }
            coverage.fused += 1;
        }
    }
    Ok((coverage, unfused))
}

/// One node of a program that was run node by node.
#[derive(Clone, Debug)]
pub struct Step {
    /// The node: of block 0, or of a block that is run once or more.
    pub node: NodeId,
    /// The node as a program.
    pub program: Graph,
    /// What it was given: results of the backend.
    pub operands: Vec<Array>,
}

/// What every node of a program is given when the backend runs it node by node, and the results. All nodes are compared
/// with the interpreter on the way; where the backend does not support one, the interpreter's results go on.
pub fn steps(backend: &dyn Backend, graph: &Graph, arguments: &[Array]) -> Result<(Vec<Step>, Vec<Array>), String> {
    let mut walk = Walk { backend, graph, coverage: Coverage::default(), steps: Vec::new() };
    let results = walk.block(graph.main(), arguments.to_vec())?;
    Ok((walk.steps, results))
}

/// Runs a program on device 0 of a backend.
pub fn run(backend: &dyn Backend, graph: &Graph, arguments: &[Array], options: CompileOptions) -> Result<Vec<Array>> {
    let executable = backend.compile(graph, options)?;
    let upload = |x: &Array| Ok(Argument::Shared(backend.upload(0, x.ty(), x.bytes())?));
    let mut arguments = arguments.iter().map(upload).collect::<Result<Vec<_>>>()?;
    executable.run(0, &mut arguments)?.results.iter().map(read).collect()
}

pub(super) fn read(buffer: &Arc<dyn Buffer>) -> Result<Array> {
    let ty = buffer.ty().clone();
    let mut bytes = vec![0; ty.bytes().unwrap_or(0)];
    buffer.read(&mut bytes)?;
    Array::from_bytes(ty, bytes)
}

/// Whether a node gives `f16` or `bf16` values, or one inside it does; with `itself` false only the latter counts.
pub(super) fn holds_narrow_floats(graph: &Graph, node: &Node, itself: bool) -> bool {
    let narrow = |node: &Node| node.types.iter().any(|ty| matches!(ty.dtype, DType::F16 | DType::BF16));
    (itself && narrow(node)) || any_inside(graph, &node.op, &narrow)
}

/// The results of block 0 that are, or are computed from, nodes with a property.
pub(super) fn depends_on(graph: &Graph, property: impl Fn(&Graph, &Node) -> bool) -> HashSet<Value> {
    let mut nodes: HashSet<NodeId> = HashSet::new();
    for &id in &graph[graph.main()].nodes {
        let node = &graph[id];
        if property(graph, node) || node.operands.iter().any(|operand| nodes.contains(&operand.node)) {
            nodes.insert(id);
        }
    }
    graph[graph.main()].results.iter().copied().filter(|value| nodes.contains(&value.node)).collect()
}

/// Whether a node of the blocks that an op owns, at any depth, has a property.
fn any_inside(graph: &Graph, op: &Op, property: &dyn Fn(&Node) -> bool) -> bool {
    let mut blocks: Vec<BlockId> = op.blocks().to_vec();
    while let Some(block) = blocks.pop() {
        for &id in &graph[block].nodes {
            if property(&graph[id]) {
                return true;
            }
            blocks.extend(graph[id].op.blocks());
        }
    }
    false
}

/// One run of a program on a backend, node by node.
struct Walk<'a> {
    backend: &'a dyn Backend,
    graph: &'a Graph,
    coverage: Coverage,
    steps: Vec<Step>,
}

impl Walk<'_> {
    /// The results of a block. Blocks nest at most 64 deep, so this recursion ends soon.
    fn block(&mut self, block: BlockId, arguments: Vec<Array>) -> Result<Vec<Array>, String> {
        let graph = self.graph;
        let mut values: HashMap<NodeId, Vec<Array>> = HashMap::new();
        for &id in &graph[block].nodes {
            let node = &graph[id];
            let operands: Vec<Array> =
                node.operands.iter().map(|operand| values[&operand.node][operand.result as usize].clone()).collect();
            let results = match &node.op {
                Op::Parameter { index, .. } => vec![arguments[*index].clone()],
                Op::Composite { body, .. } => self.block(*body, operands)?,
                Op::Case { branches } => {
                    let index = operands[0].cast_vec::<i64>()[0];
                    let branch = usize::try_from(index).unwrap_or(usize::MAX).min(branches.len() - 1);
                    self.block(branches[branch], operands[1..].to_vec())?
                }
                Op::While { cond, body } => {
                    let mut state = operands;
                    while self.block(*cond, state.clone())?[0].cast_vec::<bool>()[0] {
                        state = self.block(*body, state)?;
                    }
                    state
                }
                _ => self.node(id, node, &operands)?,
            };
            values.insert(id, results);
        }
        let results = graph[block].results.iter();
        Ok(results.map(|value| values[&value.node][value.result as usize].clone()).collect())
    }

    /// The backend's results of one op, after they have been compared.
    fn node(&mut self, id: NodeId, node: &Node, operands: &[Array]) -> Result<Vec<Array>, String> {
        let place = |message: String| {
            let types: Vec<String> = operands.iter().map(|x| x.ty().to_string()).collect();
            format!("{id:?} {} of ({}): {message}", node.op.name(), types.join(", "))
        };
        let types: Vec<Type> = operands.iter().map(|x| x.ty().clone()).collect();
        let program = samples::program(&types, node.op.clone()).map_err(|error| place(format!("{error:?}")))?;
        self.steps.push(Step { node: id, program: program.clone(), operands: operands.to_vec() });
        let expected = evaluate(&program, operands).map_err(|error| place(format!("interpreter: {error:?}")))?.results;
        let options = CompileOptions { strict_rounding: true };
        let got = match run(self.backend, &program, operands, options) {
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                self.coverage.unsupported.push(node.op.name());
                return Ok(expected);
            }
            Err(error) => return Err(place(format!("{error:?}"))),
        };
        for (i, (expected, got)) in expected.iter().zip(&got).enumerate() {
            if expected.ty() != got.ty() {
                return Err(place(format!("result {i} is {}, expected {}", got.ty(), expected.ty())));
            }
            let terms = terms(&node.op, operands, expected);
            let allowed = tolerance(&node.op, operands.first().map_or(expected.dtype(), Array::dtype), terms);
            if let Some(found) = difference(allowed, operands, expected, got, Some(&node.op)) {
                return Err(place(format!("result {i}, allowed {allowed:?}: {found}")));
            }
        }
        if operands.first().is_some_and(|x| tolerance(&node.op, x.dtype(), 1) == Tolerance::Backward)
            && let Some(found) = violation(&node.op, operands, &expected, &got)
        {
            return Err(place(found));
        }
        self.coverage.nodes += 1;
        Ok(got)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ir::{BinaryOp, Type, UnaryOp};
    use crate::reference::ReferenceBackend;
    use crate::runtime::{Executable, MemoryStats};
    use crate::testing::choices::Stream;
    use crate::testing::graphs::{Config, generate};

    #[test]
    fn the_interpreter_agrees_with_itself_on_random_programs() {
        let config = Config::default();
        let mut total = Coverage::default();
        for seed in 0..60 {
            let mut stream = Stream(seed);
            let bytes: Vec<u8> = (0..200).map(|_| stream.bits() as u8).collect();
            let (graph, arguments) = generate(&bytes, &config);
            let coverage = assert_agrees(&ReferenceBackend, &graph, &arguments);
            total.nodes += coverage.nodes;
            total.fused += coverage.fused;
            assert!(coverage.unsupported.is_empty());
        }
        assert!(total.nodes > 500 && total.fused > 100, "{total:?}");
    }

    /// A backend that compiles another program than it is given.
    #[derive(Debug)]
    pub struct Wrong(pub fn(&mut Graph));

    impl Backend for Wrong {
        fn name(&self) -> &str {
            "wrong"
        }
        fn device_count(&self) -> usize {
            1
        }
        fn generic_in_sizes(&self) -> bool {
            false
        }
        fn supports(&self, op: &Op) -> Result<()> {
            ReferenceBackend.supports(op)
        }
        fn compile(&self, graph: &Graph, options: CompileOptions) -> Result<Arc<dyn Executable>> {
            let mut graph = graph.clone();
            self.0(&mut graph);
            ReferenceBackend.compile(&graph, options)
        }
        fn upload(&self, device: usize, ty: &Type, bytes: &[u8]) -> Result<Arc<dyn Buffer>> {
            ReferenceBackend.upload(device, ty, bytes)
        }
        fn memory(&self, device: usize) -> MemoryStats {
            ReferenceBackend.memory(device)
        }
        fn reset_peak_memory(&self, _device: usize) {}
    }

    /// `exp(x) + x`.
    pub fn program() -> (Graph, Vec<Array>) {
        let mut graph = Graph::new();
        let main = graph.main();
        let x = graph.parameter(main, Type::new(DType::F32, [2]));
        let exp = graph.push(main, Op::Unary(UnaryOp::Exp), &[x]).unwrap();
        let sum = graph.push(main, Op::Binary(BinaryOp::Add), &[exp.into(), x]).unwrap();
        graph.set_results(main, vec![sum.into()]);
        (graph, vec![Array::new([2], &[0.5f32, 1.5]).unwrap()])
    }

    #[test]
    fn a_wrong_kernel_is_found_at_its_node() {
        let (graph, arguments) = program();
        let wrong = Wrong(|graph| {
            for node in &mut graph.nodes {
                if node.op == Op::Unary(UnaryOp::Exp) {
                    node.op = Op::Unary(UnaryOp::Expm1);
                }
            }
        });
        let message = compare(&wrong, &graph, &arguments).unwrap_err();
        assert!(message.starts_with("n1 exponential of (float32[2]): result 0"), "{message}");
    }

    #[test]
    fn a_fusion_that_changes_bits_is_found() {
        let (graph, arguments) = program();
        // Right op by op, wrong as soon as the two ops stand together.
        let wrong = Wrong(|graph| {
            if graph.nodes.iter().any(|node| node.op == Op::Unary(UnaryOp::Exp)) {
                graph.nodes.iter_mut().filter(|node| node.op == Op::Binary(BinaryOp::Add)).for_each(|node| {
                    node.op = Op::Binary(BinaryOp::Subtract);
                });
            }
        });
        let message = compare(&wrong, &graph, &arguments).unwrap_err();
        assert!(message.contains("result 0 (%2) is not that of its nodes one by one"), "{message}");
    }
}
