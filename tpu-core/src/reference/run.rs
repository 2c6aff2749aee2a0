//! Evaluating blocks, node by node.

use super::array::{Array, check_size};
use super::collective::{Arrival, collective};
use super::{contract, elementwise, fft, indexing, linalg, movement, reduce, window};
use crate::ir::samples::program;
use crate::ir::{Block, BlockId, Graph, NodeId, Op, Type, Value};
use crate::{DType, Result, ensure};
use std::collections::HashMap;

/// How deep blocks may nest.
const DEEPEST: usize = 64;

/// What a program gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluated {
    /// One value per result of the program.
    pub results: Vec<Array>,
    /// One number per check: −1, or the first bad index.
    pub checks: Vec<i32>,
}

/// Evaluates a program on one device.
///
/// Errors when the arguments are not of the parameters' types, a value is too large to be stored, or the program calls a
/// function by name (`custom_call`), of which there are none here.
///
/// ```
/// use tpu_core::ir::{BinaryOp, Graph, Op, Type};
/// use tpu_core::reference::{Array, evaluate};
/// use tpu_core::DType;
/// let mut graph = Graph::new();
/// let main = graph.main();
/// let x = graph.parameter(main, Type::new(DType::F32, [2]));
/// let y = graph.push(main, Op::Binary(BinaryOp::Add), &[x, x]).unwrap();
/// graph.set_results(main, vec![y.into()]);
/// let outcome = evaluate(&graph, &[Array::new([2], &[1.0f32, 2.0]).unwrap()]).unwrap();
/// assert_eq!(outcome.results[0].to_vec::<f32>().unwrap(), [2.0, 4.0]);
/// ```
pub fn evaluate(graph: &Graph, arguments: &[Array]) -> Result<Evaluated> {
    Ok(evaluate_spmd(graph, &[arguments.to_vec()])?.remove(0))
}

/// Evaluates a program on several devices in lock step, each with its own arguments: device number `i` is replica `i`.
pub fn evaluate_spmd(graph: &Graph, arguments: &[Vec<Array>]) -> Result<Vec<Evaluated>> {
    let frames = arguments.iter().enumerate().map(|(i, arguments)| Frame::new(i as u32, arguments.clone())).collect();
    let mut run = Run { graph, frames };
    run.block(graph.main(), 0)?;
    let outcome = |frame: &Frame| {
        let results = graph[graph.main()].results.iter().map(|&value| frame.value(value).clone()).collect();
        let checks = graph.checks.iter().map(|check| Ok(frame.value(check.value).to_vec::<i32>()?[0]));
        Ok(Evaluated { results, checks: checks.collect::<Result<_>>()? })
    };
    run.frames.iter().map(outcome).collect()
}

/// Evaluates one op, which owns no blocks, on its operands.
pub fn evaluate_op(op: &Op, operands: &[Array]) -> Result<Vec<Array>> {
    ensure!(op.blocks().is_empty(), Value, op.name(), "requires its program: evaluate the graph that holds it");
    let types: Vec<Type> = operands.iter().map(|x| x.ty().clone()).collect();
    Ok(evaluate(&program(&types, op.clone())?, operands)?.results)
}

/// One device inside one block.
struct Frame {
    device: u32,
    arguments: Vec<Array>,
    values: HashMap<NodeId, Vec<Array>>,
}

impl Frame {
    fn new(device: u32, arguments: Vec<Array>) -> Self {
        Self { device, arguments, values: HashMap::new() }
    }

    fn value(&self, value: Value) -> &Array {
        &self.values[&value.node][value.result as usize]
    }

    fn operands(&self, operands: &[Value]) -> Vec<&Array> {
        operands.iter().map(|&value| self.value(value)).collect()
    }

    fn results(&self, block: &Block) -> Vec<Array> {
        block.results.iter().map(|&value| self.value(value).clone()).collect()
    }
}

/// The devices that are inside one block together.
struct Run<'g> {
    graph: &'g Graph,
    frames: Vec<Frame>,
}

impl Run<'_> {
    /// Evaluates all nodes of a block in all frames.
    fn block(&mut self, block: BlockId, depth: usize) -> Result<()> {
        ensure!(depth <= DEEPEST, Internal, "reference", "requires blocks nested at most {DEEPEST} deep");
        for frame in &self.frames {
            let (want, got) = (self.graph.parameter_types(block), &frame.arguments);
            ensure!(
                want.len() == got.len(),
                Shape,
                "reference",
                "requires {} arguments, got {}",
                want.len(),
                got.len()
            );
            for (i, (want, got)) in want.zip(got).enumerate() {
                ensure!(want == got.ty(), Shape, "reference", "requires {want} as argument {i}, got {}", got.ty());
            }
        }
        for &node in &self.graph[block].nodes {
            let results = self.node(node, depth)?;
            for (frame, results) in self.frames.iter_mut().zip(results) {
                frame.values.insert(node, results);
            }
        }
        Ok(())
    }

    /// The results of one node, per frame.
    fn node(&self, id: NodeId, depth: usize) -> Result<Vec<Vec<Array>>> {
        let node = &self.graph[id];
        let operands = |frame: &Frame| frame.operands(&node.operands).into_iter().cloned().collect::<Vec<_>>();
        match &node.op {
            Op::Parameter { index, .. } => {
                Ok(self.frames.iter().map(|frame| vec![frame.arguments[*index].clone()]).collect())
            }
            Op::Composite { body, .. } => self.call(*body, self.frames.iter().map(operands).collect(), depth),
            Op::Case { branches } => self.case(branches, self.frames.iter().map(operands).collect(), depth),
            Op::While { cond, body } => self.repeat(*cond, *body, self.frames.iter().map(operands).collect(), depth),
            Op::AllReduce { .. }
            | Op::AllGather { .. }
            | Op::ReduceScatter { .. }
            | Op::AllToAll { .. }
            | Op::CollectivePermute { .. } => {
                let arrival = |frame| Arrival { device: Frame::device(frame), operand: frame.value(node.operands[0]) };
                let arrivals: Vec<_> = self.frames.iter().map(arrival).collect();
                Ok(collective(&node.op, &arrivals, &node.types[0])?.into_iter().map(|x| vec![x]).collect())
            }
            op => self.frames.iter().map(|frame| local(op, frame, &node.operands, &node.types)).collect(),
        }
    }

    /// The results of a block called by all frames.
    fn call(&self, block: BlockId, arguments: Vec<Vec<Array>>, depth: usize) -> Result<Vec<Vec<Array>>> {
        let devices = self.frames.iter().map(|frame| frame.device);
        self.call_on(block, devices.zip(arguments).collect(), depth)
    }

    /// The results of a block called by some devices.
    fn call_on(&self, block: BlockId, calls: Vec<(u32, Vec<Array>)>, depth: usize) -> Result<Vec<Vec<Array>>> {
        let frames = calls.into_iter().map(|(device, arguments)| Frame::new(device, arguments)).collect();
        let mut run = Run { graph: self.graph, frames };
        run.block(block, depth + 1)?;
        Ok(run.frames.iter().map(|frame| frame.results(&self.graph[block])).collect())
    }

    /// `case`: the devices of each branch enter it together.
    fn case(&self, branches: &[BlockId], operands: Vec<Vec<Array>>, depth: usize) -> Result<Vec<Vec<Array>>> {
        let mut results: Vec<Vec<Array>> = vec![Vec::new(); operands.len()];
        let mut chosen = Vec::new();
        for operands in &operands {
            let index = operands[0].to_vec::<i32>()?[0];
            chosen.push(usize::try_from(index).unwrap_or(usize::MAX).min(branches.len() - 1));
        }
        for (branch, &block) in branches.iter().enumerate() {
            let inside: Vec<usize> = (0..operands.len()).filter(|&i| chosen[i] == branch).collect();
            if inside.is_empty() {
                continue;
            }
            let calls = inside.iter().map(|&i| (self.frames[i].device, operands[i][1..].to_vec())).collect();
            for (&i, values) in inside.iter().zip(self.call_on(block, calls, depth)?) {
                results[i] = values;
            }
        }
        Ok(results)
    }

    /// `while`: the devices that go on do so together.
    fn repeat(
        &self,
        cond: BlockId,
        body: BlockId,
        mut values: Vec<Vec<Array>>,
        depth: usize,
    ) -> Result<Vec<Vec<Array>>> {
        let mut active: Vec<usize> = (0..values.len()).collect();
        loop {
            let calls = |active: &[usize], values: &[Vec<Array>]| {
                active.iter().map(|&i| (self.frames[i].device, values[i].clone())).collect::<Vec<_>>()
            };
            let mut going = Vec::new();
            for (&i, answer) in active.iter().zip(self.call_on(cond, calls(&active, &values), depth)?) {
                if answer[0].to_vec::<bool>()?[0] {
                    going.push(i);
                }
            }
            if going.is_empty() {
                return Ok(values);
            }
            for (&i, next) in going.iter().zip(self.call_on(body, calls(&going, &values), depth)?) {
                values[i] = next;
            }
            active = going;
        }
    }
}

impl Frame {
    fn device(&self) -> u32 {
        self.device
    }
}

/// The results of an op that concerns one device and owns no block.
fn local(op: &Op, frame: &Frame, operands: &[Value], types: &[Type]) -> Result<Vec<Array>> {
    let x = frame.operands(operands);
    for ty in types {
        check_size(ty)?;
    }
    let ty = match (op, types) {
        (Op::CustomCall(call), _) => {
            crate::bail!(Unsupported, "custom_call", "of {} is not supported on reference", call.target)
        }
        (_, [ty, ..]) => ty,
        // An `optimization_barrier` of nothing.
        (_, []) => return Ok(Vec::new()),
    };
    let one = match op {
        Op::Constant(literal) => Array::from_literal(literal),
        Op::Iota { axis, .. } => elementwise::iota(*axis, ty),
        Op::Unary(op) => elementwise::unary(*op, x[0], ty),
        Op::Binary(op) => elementwise::binary(*op, x[0], x[1], ty),
        Op::Compare(op) => elementwise::compare(*op, x[0], x[1], ty),
        Op::Select => elementwise::select(x[0], x[1], x[2], ty),
        Op::Clamp => elementwise::clamp(x[0], x[1], x[2], ty),
        Op::Complex => elementwise::complex(x[0], x[1], ty),
        Op::Convert(_) => elementwise::convert(x[0], ty),
        Op::BitcastConvert(_) => elementwise::bitcast(x[0], ty),
        Op::ReducePrecision { exponent_bits, mantissa_bits } => {
            elementwise::reduce_precision(x[0], *exponent_bits, *mantissa_bits, ty)
        }
        Op::BroadcastInDim { axes, .. } => movement::broadcast(x[0], axes, ty),
        Op::Reshape(shape) => x[0].with_shape(shape),
        Op::Transpose(permutation) => movement::transpose(x[0], permutation, ty),
        Op::Slice { start, strides, .. } => movement::slice(x[0], start, strides, ty),
        Op::DynamicSlice { .. } => movement::dynamic_slice(x[0], &x[1..], ty),
        Op::DynamicUpdateSlice => movement::dynamic_update_slice(x[0], x[1], &x[2..], ty),
        Op::Pad { low, interior, .. } => movement::pad(x[0], x[1], low, interior, ty),
        Op::Concatenate { axis } => movement::concatenate(&x, *axis, ty),
        Op::Reverse(axes) => movement::reverse(x[0], axes, ty),
        Op::Reduce { kind, axes } => reduce::reduce(*kind, x[0], axes, ty),
        Op::ArgReduce { kind, axis } => return reduce::arg_reduce(*kind, x[0], *axis, types),
        Op::ReduceWindow { kind, window } => window::reduce_window(*kind, x[0], window, ty),
        Op::SelectAndScatter { select, window } => window::select_and_scatter(*select, x[0], x[1], window, ty),
        Op::Cumulative { kind, axis, reverse } => reduce::cumulative(*kind, x[0], *axis, *reverse, ty),
        Op::DotGeneral(dims) => contract::dot(x[0], x[1], dims, ty),
        Op::Convolution(dims) => contract::convolution(x[0], x[1], dims, ty),
        Op::Gather(dims) => indexing::gather(x[0], x[1], dims, ty),
        Op::Scatter(dims) => indexing::scatter(x[0], x[1], x[2], dims, ty),
        Op::Sort { axis, descending, .. } => return indexing::sort(&x, *axis, *descending, types),
        Op::TopK { k, largest } => return indexing::top_k(x[0], *k, *largest, types),
        Op::RngBits(_) => indexing::rng_bits(x[0], x[1], ty),
        Op::Fft { kind, lengths } => fft::fft(*kind, x[0], lengths, ty),
        Op::Cholesky { lower } => linalg::cholesky(x[0], *lower, ty),
        Op::TriangularSolve { left, lower, unit_diagonal, transpose } => {
            linalg::triangular_solve(x[0], x[1], (*left, *lower, *unit_diagonal), *transpose, ty)
        }
        Op::Qr => return linalg::qr(x[0], types),
        Op::Eigh => return linalg::eigh(x[0], types),
        Op::Lu => return linalg::lu(x[0], types),
        Op::ReplicaId => Ok(Array::scalar(DType::U32, frame.device)),
        Op::PartitionId => Ok(Array::scalar(DType::U32, 0u32)),
        Op::OptimizationBarrier => return Ok(x.into_iter().cloned().collect()),
        Op::Parameter { .. }
        | Op::Composite { .. }
        | Op::Case { .. }
        | Op::While { .. }
        | Op::AllReduce { .. }
        | Op::AllGather { .. }
        | Op::ReduceScatter { .. }
        | Op::AllToAll { .. }
        | Op::CollectivePermute { .. }
        | Op::CustomCall(_) => crate::bail!(Internal, op.name(), "does not concern one device alone"),
    };
    Ok(vec![one?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Reducer, ReplicaGroups, samples};
    use crate::{ErrorKind, with_element};
    use smallvec::smallvec;
    use std::sync::Arc;

    /// Small numbers from 0 to 4, which are also valid indices, pivots and truth values.
    fn small(ty: &Type) -> Array {
        with_element!(ty.dtype, T => Array::from_fn::<T>(ty, |i| crate::dtype::convert::cast((i % 5) as u8)).unwrap())
    }

    #[test]
    fn every_op_gives_what_its_shape_rule_says() {
        for (name, graph) in samples::every_op() {
            let arguments: Vec<Array> = graph.parameter_types(graph.main()).map(small).collect();
            // As many devices as the groups of the samples speak of.
            match evaluate_spmd(&graph, &vec![arguments; 4]) {
                Ok(outcomes) => {
                    for outcome in outcomes {
                        let got: Vec<&Type> = outcome.results.iter().map(Array::ty).collect();
                        assert_eq!(got, graph.result_types(graph.main()).collect::<Vec<_>>(), "{name}");
                        assert_eq!(outcome.checks.len(), graph.checks.len(), "{name}");
                    }
                }
                Err(error) => {
                    let expected = match error.kind() {
                        ErrorKind::Unsupported => name.starts_with("custom_call"),
                        ErrorKind::OutOfMemory => name == "broadcast of 2^60" || name == "constant equal",
                        _ => false,
                    };
                    assert!(expected, "{name}: {error:?}");
                }
            }
        }
    }

    /// A program of one collective on four devices, device `i` holding `[10 i, 10 i + 1, …]`.
    fn on_four(op: Op, elements: usize) -> Vec<Vec<i32>> {
        let mut graph = Graph::new();
        let main = graph.main();
        let x = graph.parameter(main, Type::new(DType::I32, [elements]));
        let node = graph.push(main, op, &[x]).unwrap();
        graph.set_results(main, vec![node.into()]);
        let argument = |device| (0..elements as i32).map(|i| 10 * device + i).collect::<Vec<_>>();
        let arguments: Vec<_> = (0..4).map(|i| vec![Array::new([elements], &argument(i)).unwrap()]).collect();
        let outcomes = evaluate_spmd(&graph, &arguments).unwrap();
        outcomes.iter().map(|outcome| outcome.results[0].to_vec().unwrap()).collect()
    }

    #[test]
    fn collectives_work_within_their_groups() {
        let groups = Arc::new(ReplicaGroups { groups: vec![smallvec![0, 2], smallvec![3, 1]], channel: 0 });
        let kind = Reducer::Sum;
        let reduced = on_four(Op::AllReduce { kind, groups: groups.clone() }, 2);
        assert_eq!(reduced, [[20, 22], [40, 42], [20, 22], [40, 42]]);
        let gathered = on_four(Op::AllGather { axis: 0, groups: groups.clone() }, 1);
        assert_eq!(gathered, [[0, 20], [30, 10], [0, 20], [30, 10]]);
        let scattered = on_four(Op::ReduceScatter { kind, axis: 0, groups: groups.clone() }, 2);
        assert_eq!(scattered, [[20], [42], [22], [40]]);
        let exchanged = on_four(Op::AllToAll { split_axis: 0, concat_axis: 0, groups }, 2);
        assert_eq!(exchanged, [[0, 20], [31, 11], [1, 21], [30, 10]]);
        let permuted = on_four(Op::CollectivePermute { pairs: Arc::new([(0, 1), (1, 3)]), channel: 0 }, 1);
        assert_eq!(permuted, [[0], [0], [0], [10]]);
    }

    #[test]
    fn arguments_must_have_the_types_of_the_parameters() {
        let mut graph = Graph::new();
        let main = graph.main();
        graph.parameter(main, Type::new(DType::F32, [2]));
        assert_eq!(evaluate(&graph, &[]).unwrap_err().kind(), ErrorKind::Shape);
        let error = evaluate(&graph, &[Array::new([2], &[1i32, 2]).unwrap()]).unwrap_err();
        assert_eq!(error.to_string(), "reference requires float32[2] as argument 0, got int32[2]");
    }
}
