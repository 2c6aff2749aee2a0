//! The comparison of a backend with the interpreter.
//!
//! Errors of a whole program have no useful bound, so a program is walked node by node: each node becomes a program of its own
//! on the backend, its operands are what the backend gave before, and its results are compared with what the interpreter makes of the
//! same operands, within the bound of [`tolerance`]. Then the backend runs the whole program, fused as it likes, which must give
//! the bits of the walk (DESIGN: no contraction, single instructions equal their primitive sequence). Values that depend on `f16` or
//! `bf16` are exempt when the options let a fused group keep `f32` between ops.

use super::backward::violation;
use super::collective::{self, Reduction};
use super::difference::{difference, terms};
use super::tolerance::{Tolerance, tolerance};
use crate::ir::{BlockId, Graph, Node, NodeId, Op, Type, Value, samples};
use crate::reference::{Array, evaluate_spmd};
use crate::runtime::{Argument, Backend, Buffer, CompileOptions, Executable};
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
    compare_replicas(backend, graph, &[arguments.to_vec()])
}

/// The same for a program that several devices run together: row `i` of the arguments is that of device `i`. All of them must
/// go through its loops and branches in the same way.
pub fn compare_replicas(backend: &dyn Backend, graph: &Graph, rows: &[Vec<Array>]) -> Result<Coverage, String> {
    judge(backend, graph, rows).map(|(coverage, _)| coverage)
}

/// [`compare_replicas`], with the results of the nodes run one by one.
pub(super) fn judge(
    backend: &dyn Backend,
    graph: &Graph,
    rows: &[Vec<Array>],
) -> Result<(Coverage, Vec<Vec<Array>>), String> {
    let mut walk = Walk { backend, graph, coverage: Coverage::default(), steps: Vec::new() };
    let unfused = walk.block(graph.main(), rows.to_vec())?;
    let mut coverage = walk.coverage;
    if !coverage.unsupported.is_empty() {
        return Ok((coverage, unfused));
    }
    let exempt = depends_on(graph, |graph, node| holds_narrow_floats(graph, node, true));
    for strict_rounding in [true, false] {
        let options = CompileOptions { strict_rounding };
        let fused = run_replicas(backend, graph, rows, options).map_err(|error| format!("whole program: {error:?}"))?;
        for (device, (fused, unfused)) in fused.iter().zip(&unfused).enumerate() {
            let results = &graph[graph.main()].results;
            for (i, (value, (fused, unfused))) in results.iter().zip(fused.iter().zip(unfused)).enumerate() {
                if !strict_rounding && exempt.contains(value) {
                    continue;
                }
                if let Some(found) = difference(Tolerance::Bits, &[], unfused, fused, None) {
                    return Err(format!(
                        "{options:?}: {}result {i} ({value:?}) is not that of its nodes one by one: {found}",
                        on(device, rows)
                    ));
                }
                coverage.fused += 1;
            }
        }
    }
    Ok((coverage, unfused))
}

/// Which of several devices, for messages.
fn on(device: usize, rows: &[Vec<Array>]) -> String {
    if rows.len() > 1 { format!("device {device}: ") } else { String::new() }
}

/// One node of a program that was run node by node.
#[derive(Clone, Debug)]
pub struct Step {
    /// The node: of block 0, or of a block that is run once or more.
    pub node: NodeId,
    /// The node as a program.
    pub program: Graph,
    /// What it was given on each device: results of the backend.
    pub rows: Vec<Vec<Array>>,
}

/// What every node of a program is given when the backend runs it node by node. All nodes are compared
/// with the interpreter on the way; where the backend does not support one, the interpreter's results go on.
pub fn steps(backend: &dyn Backend, graph: &Graph, rows: &[Vec<Array>]) -> Result<Vec<Step>, String> {
    let mut walk = Walk { backend, graph, coverage: Coverage::default(), steps: Vec::new() };
    walk.block(graph.main(), rows.to_vec())?;
    Ok(walk.steps)
}

/// Runs a program on device 0 of a backend.
pub fn run(backend: &dyn Backend, graph: &Graph, arguments: &[Array], options: CompileOptions) -> Result<Vec<Array>> {
    run_replicas(backend, graph, &[arguments.to_vec()], options).map(|mut results| results.remove(0))
}

/// Runs a program on the devices of a backend, row `i` of the arguments on device `i`, and gives the results of each.
pub fn run_replicas(
    backend: &dyn Backend,
    graph: &Graph,
    rows: &[Vec<Array>],
    options: CompileOptions,
) -> Result<Vec<Vec<Array>>> {
    execute(backend, &*compile(backend, graph, options, rows.len())?, rows)
}

/// Compiles a program for so many devices.
pub(super) fn compile(
    backend: &dyn Backend,
    graph: &Graph,
    options: CompileOptions,
    devices: usize,
) -> Result<Arc<dyn Executable>> {
    if devices == 1 { backend.compile(graph, options) } else { backend.compile_replicas(graph, options, devices) }
}

/// Runs what was compiled for as many devices as there are rows.
pub(super) fn execute(
    backend: &dyn Backend,
    executable: &dyn Executable,
    rows: &[Vec<Array>],
) -> Result<Vec<Vec<Array>>> {
    let upload = |(device, row): (usize, &Vec<Array>)| -> Result<Vec<Argument>> {
        row.iter().map(|x| Ok(Argument::Shared(backend.upload(device, x.ty(), x.bytes())?))).collect()
    };
    let mut rows = rows.iter().enumerate().map(upload).collect::<Result<Vec<_>>>()?;
    let outcomes = match &mut rows[..] {
        [arguments] => vec![executable.run(0, arguments)?],
        several => executable.run_replicas(several)?,
    };
    outcomes.iter().map(|outcome| outcome.results.iter().map(read).collect()).collect()
}

fn read(buffer: &Arc<dyn Buffer>) -> Result<Array> {
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
    /// The results of a block on each device. Blocks nest at most 64 deep, so this recursion ends soon.
    fn block(&mut self, block: BlockId, rows: Vec<Vec<Array>>) -> Result<Vec<Vec<Array>>, String> {
        let graph = self.graph;
        // Of each node, the results on each device.
        let mut values: HashMap<NodeId, Vec<Vec<Array>>> = HashMap::new();
        let of = |values: &HashMap<NodeId, Vec<Vec<Array>>>, list: &[Value]| -> Vec<Vec<Array>> {
            let one = |device: usize, value: &Value| values[&value.node][device][value.result as usize].clone();
            (0..rows.len()).map(|device| list.iter().map(|value| one(device, value)).collect()).collect()
        };
        for &id in &graph[block].nodes {
            let node = &graph[id];
            let operands = of(&values, &node.operands);
            let results = match &node.op {
                Op::Parameter { index, .. } => rows.iter().map(|row| vec![row[*index].clone()]).collect(),
                Op::Composite { body, .. } => self.block(*body, operands)?,
                Op::Case { branches } => {
                    let branch = usize::try_from(decision(&operands)?).unwrap_or(usize::MAX).min(branches.len() - 1);
                    self.block(branches[branch], operands.iter().map(|row| row[1..].to_vec()).collect())?
                }
                Op::While { cond, body } => {
                    let mut state = operands;
                    while decision(&self.block(*cond, state.clone())?)? != 0 {
                        state = self.block(*body, state)?;
                    }
                    state
                }
                _ => self.node(id, node, &operands)?,
            };
            values.insert(id, results);
        }
        Ok(of(&values, &graph[block].results))
    }

    /// The backend's results of one op on each device, after they have been compared.
    fn node(&mut self, id: NodeId, node: &Node, rows: &[Vec<Array>]) -> Result<Vec<Vec<Array>>, String> {
        let types: Vec<Type> = rows[0].iter().map(|x| x.ty().clone()).collect();
        let place = |message: String| {
            let types: Vec<String> = types.iter().map(Type::to_string).collect();
            format!("{id:?} {} of ({}): {message}", node.op.name(), types.join(", "))
        };
        let program = samples::program(&types, node.op.clone()).map_err(|error| place(format!("{error:?}")))?;
        self.steps.push(Step { node: id, program: program.clone(), rows: rows.to_vec() });
        let expected = evaluate_spmd(&program, rows).map_err(|error| place(format!("interpreter: {error:?}")))?;
        let expected: Vec<Vec<Array>> = expected.into_iter().map(|outcome| outcome.results).collect();
        let options = CompileOptions { strict_rounding: true };
        let got = match run_replicas(self.backend, &program, rows, options) {
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                self.coverage.unsupported.push(node.op.name());
                return Ok(expected);
            }
            Err(error) => return Err(place(format!("{error:?}"))),
        };
        for (device, (expected, got)) in expected.iter().zip(&got).enumerate() {
            // What a collective adds up is bounded as the sum that it is.
            let found = match collective::reduction(&node.op, rows, device).map_err(|error| place(error.to_string()))? {
                Some(Reduction { op, operand, result }) => departure(&op, &[operand], &[result], got),
                None => departure(&node.op, &rows[device], expected, got),
            };
            if let Some(found) = found {
                return Err(place(format!("{}{found}", on(device, rows))));
            }
        }
        self.coverage.nodes += 1;
        Ok(got)
    }
}

/// The number that decides where devices go on, which must be one for all of them.
fn decision(rows: &[Vec<Array>]) -> Result<i64, String> {
    let numbers: Vec<i64> = rows.iter().map(|row| row[0].cast_vec::<i64>()[0]).collect();
    if numbers.iter().any(|&number| number != numbers[0]) {
        return Err(format!("devices part at {numbers:?}"));
    }
    Ok(numbers[0])
}

/// What is wrong with a device's results of an op, in words.
fn departure(op: &Op, operands: &[Array], expected: &[Array], got: &[Array]) -> Option<String> {
    for (i, (expected, got)) in expected.iter().zip(got).enumerate() {
        if expected.ty() != got.ty() {
            return Some(format!("result {i} is {}, expected {}", got.ty(), expected.ty()));
        }
        let dtype = operands.first().map_or(expected.dtype(), Array::dtype);
        let allowed = tolerance(op, dtype, terms(op, operands, expected));
        if let Some(found) = difference(allowed, operands, expected, got, Some(op)) {
            return Some(format!("result {i}, allowed {allowed:?}: {found}"));
        }
    }
    let backward = operands.first().is_some_and(|x| tolerance(op, x.dtype(), 1) == Tolerance::Backward);
    if backward { violation(op, operands, expected, got) } else { None }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ir::{BinaryOp, Type, UnaryOp};
    use crate::reference::ReferenceBackend;
    use crate::runtime::MemoryStats;
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
        fn supports(&self, op: &Op, operands: &[&Type]) -> Result<()> {
            ReferenceBackend.supports(op, operands)
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
