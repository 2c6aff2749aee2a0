//! XLA for CPU compared with the host and the interpreter.
//!
//! A graph is compared node by node: [`graphs`] runs each on the host, and every node becomes a program of its own that XLA
//! is given the host's operands for, all of a batch in one module. An error that grows on its way through a graph has no
//! useful bound, and one that propagates bounds through every op says nothing after the first cancellation, comparison
//! or rounding to an integer; between equal operands the bound of one op is a theorem. What a compiler does across nodes is
//! compared on the whole graphs, in results that only exact nodes lead to, bit for bit.

use super::backward::{Solver, violation_of};
use super::batch::{self, Case, Outcome};
use super::collective::{self, Reduction};
use super::compare;
use super::difference::{self, describe, difference, outside};
use super::tolerance::{Tolerance, tolerance};
use crate::dtype::convert::{Cast, cast};
use crate::ir::{BlockId, ConvDims, Graph, NodeId, Op, UnaryOp, samples};
use crate::reference::{Array, evaluate, evaluate_spmd};
use crate::runtime::Backend;
use crate::runtime::pjrt::{OptionValue, PjrtOptions};
use crate::{Complex64, DType, Result, with_element};
use std::collections::HashSet;
use std::sync::Arc;

/// XLA for CPU with so many devices, for comparing what operations mean: LLVM does not make them fast, which would be a
/// third of the time of a sweep of random graphs.
pub fn unoptimized(devices: usize) -> PjrtOptions {
    let overrides = [("xla_backend_optimization_level", "0"), ("xla_llvm_disable_expensive_passes", "True")];
    PjrtOptions {
        client: vec![("cpu_device_count".into(), OptionValue::Int(devices as i64))],
        overrides: overrides.map(|(name, value)| (name.into(), value.into())).to_vec(),
        ..PjrtOptions::default()
    }
}

/// The bound for each op: that of every backend, but where XLA's own approximation is further from the exact result.
/// Its steps are twice the most that `functions_are_within_their_bounds_for_many_numbers` measures.
fn bound(op: &Op, dtype: DType, terms: usize) -> Tolerance {
    let Op::Unary(function) = op else { return tolerance(op, dtype, terms) };
    match (function, dtype) {
        // 5 at 0.0152.
        (UnaryOp::Expm1, DType::F32) => Tolerance::Ulps(10),
        // 4 at 3.74, where XLA's rational approximation is worst.
        (UnaryOp::Tanh, DType::F32) => Tolerance::Ulps(8),
        // 7 at 19.8.
        (UnaryOp::Tanh, DType::F64) => Tolerance::Ulps(14),
        // 4 at −3.71.
        (UnaryOp::Erf, DType::F32) => Tolerance::Ulps(8),
        (UnaryOp::ErfInv, DType::F32) => Tolerance::OfRoundedSquare(8),
        (UnaryOp::ErfInv, DType::F64) => Tolerance::OfRoundedSquare(16),
        _ => tolerance(op, dtype, terms),
    }
}

/// What is wrong with the results of a run, in words: what is outside of the bound of the program's op. A program of
/// several ops, or of one with blocks, must be exact.
///
/// XLA for CPU computes with subnormal numbers as zeros, as TPUs do. An element is right if it is so with them or
/// without them.
pub fn judge(case: &Case, rows: &[Vec<Array>], got: &[Vec<Array>]) -> Option<String> {
    let [inputs] = rows else { return judge_devices(case, rows, got) };
    judge_alone(&case.graph, inputs, &got[0])
}

/// The same for several devices. A collective that adds up is judged as the sum that it is, those that move elements must be
/// exact.
fn judge_devices(case: &Case, rows: &[Vec<Array>], got: &[Vec<Array>]) -> Option<String> {
    let expected = match evaluate_spmd(&case.graph, rows) {
        Ok(outcomes) => outcomes,
        Err(error) => return Some(format!("interpreter: {error}")),
    };
    let judge = |device: usize| -> Result<Option<String>> {
        let got = &got[device];
        let Some(op) = only_op(&case.graph) else {
            return Ok(unequal(&expected[device].results, got));
        };
        if let Some(Reduction { op, operand, .. }) = collective::reduction(op, rows, device)? {
            let graph = samples::program(&[operand.ty().clone()], op)?;
            return Ok(judge_alone(&graph, &[operand], got));
        }
        Ok(match op {
            Op::AllGather { .. } | Op::AllToAll { .. } | Op::CollectivePermute { .. } | Op::ReplicaId => {
                unequal(&expected[device].results, got)
            }
            _ => judge_alone(&case.graph, &rows[device], got),
        })
    };
    (0..rows.len()).find_map(|device| {
        let found = judge(device).unwrap_or_else(|error| Some(format!("interpreter: {error}")));
        found.map(|found| format!("device {device}: {found}"))
    })
}

/// The first result that has not the bits that are expected.
fn unequal(expected: &[Array], got: &[Array]) -> Option<String> {
    expected.iter().zip(got).enumerate().find_map(|(i, (expected, got))| {
        if expected.ty() != got.ty() {
            return Some(format!("result {i} is {}, expected {}", got.ty(), expected.ty()));
        }
        let found = difference(Tolerance::Bits, &[], expected, got, None)?;
        Some(format!("result {i}: {found}"))
    })
}

fn judge_alone(graph: &Graph, inputs: &[Array], got: &[Array]) -> Option<String> {
    let expected = match evaluate(graph, inputs) {
        Ok(outcome) => outcome.results,
        Err(error) => return Some(format!("interpreter: {error}")),
    };
    let Some(op) = only_op(graph) else { return unequal(&expected, got) };
    if let Op::Cholesky { .. } | Op::TriangularSolve { .. } | Op::Qr | Op::Eigh | Op::Lu = op {
        // `xla_solves_by_an_inverse` is the proof.
        let violation = |inputs: &[Array], expected: &[Array], got: &[Array]| {
            violation_of(Solver::Inverse, op, inputs, expected, got)
        };
        // XLA's rotations leave 3e-14 of the norm in f64, ten times what LAPACK does, whatever tolerance they are given.
        if matches!(op, Op::Eigh) && inputs[0].dtype() == DType::F64 {
            return violation(&in_f32(inputs), &in_f32(&expected), &in_f32(got));
        }
        let found = violation(inputs, &expected, got)?;
        // A factor that is lost for a zero is missing in products with entries up to 3e38.
        if expected.iter().any(|factor| without_subnormals(factor) != *factor) {
            return None;
        }
        let flushed: Vec<Array> = inputs.iter().map(without_subnormals).collect();
        return match evaluate(graph, &flushed) {
            Ok(outcome) if flushed != inputs => violation(&flushed, &outcome.results, got),
            _ => Some(found),
        };
    }
    expected.iter().zip(got).enumerate().find_map(|(i, (expected, got))| {
        if expected.ty() != got.ty() {
            return Some(format!("result {i} is {}, expected {}", got.ty(), expected.ty()));
        }
        if selects_among_equals(op, inputs) {
            return None;
        }
        let dtype = inputs.first().map_or(expected.dtype(), Array::dtype);
        let allowed = bound(op, dtype, difference::terms(op, inputs, expected));
        let mut wrong = outside(allowed, inputs, expected, got, Some(op));
        if !wrong.is_empty() && computes(op) {
            let flushed = outside_without_subnormals(graph, op, inputs, i, got, allowed);
            wrong.retain(|at| flushed.contains(at));
        }
        if !wrong.is_empty()
            && let Op::Convolution(dims) = op
        {
            let right = convolution_without_zeros(graph, dims, inputs, got, allowed);
            wrong.retain(|at| !right.contains(at));
        }
        let &at = wrong.first()?;
        Some(format!("result {i}, allowed {allowed:?}: {}", describe(inputs, expected, got, at)))
    })
}

/// The elements that are outside of the bound if subnormal numbers are zeros, in the operands and in the result. Those
/// of functions that are given one are not among them: XLA's polynomials lose such numbers in other ways too.
fn outside_without_subnormals(
    graph: &Graph,
    op: &Op,
    inputs: &[Array],
    result: usize,
    got: &Array,
    allowed: Tolerance,
) -> HashSet<usize> {
    let flushed: Vec<Array> = inputs.iter().map(without_subnormals).collect();
    let Ok(outcome) = evaluate(graph, &flushed) else { return (0..got.elements()).collect() };
    let expected = without_subnormals(&outcome.results[result]);
    let mut wrong = outside(allowed, &flushed, &expected, &without_subnormals(got), Some(op));
    if matches!(allowed, Tolerance::Ulps(_) | Tolerance::Modulus(_)) {
        wrong.retain(|&at| !inputs.iter().zip(&flushed).any(|(x, zero)| !same_element(x, zero, at)));
    }
    wrong.into_iter().collect()
}

fn same_element(x: &Array, y: &Array, at: usize) -> bool {
    let width = x.dtype().bits() as usize / 8;
    x.bytes()[at * width..][..width] == y.bytes()[at * width..][..width]
}

/// As numbers of `f32`, to be judged as those are.
fn in_f32(arrays: &[Array]) -> Vec<Array> {
    let narrowed = |x: &Array| Array::new(&x.ty().shape, &x.cast_vec::<f32>()).unwrap_or_else(|_| x.clone());
    arrays.iter().map(narrowed).collect()
}

/// Whether XLA may add a source to another of equal elements than the first: its order in a window is its own.
/// `xla_selects_another_of_equal_elements` is the proof.
fn selects_among_equals(op: &Op, inputs: &[Array]) -> bool {
    let mut seen = HashSet::new();
    // Zeros of both signs are one number, as are all NaNs.
    let mut place = |x: f64| seen.insert(if x.is_nan() { f64::NAN } else { x + 0.0 }.to_bits());
    matches!(op, Op::SelectAndScatter { .. }) && !inputs[0].cast_vec::<f64>().into_iter().all(&mut place)
}

/// Elements of a convolution that are right if zeros that are no elements are multiplied or not, as XLA likes: it skips
/// padding and holes where it makes a matrix product of a convolution, and where it makes one convolution of several
/// groups it puts zeros in the place of what other groups have. It matters where such a zero meets an infinity or a NaN.
/// `xla_multiplies_zeros_of_a_convolution_as_it_likes` is the proof.
fn convolution_without_zeros(
    graph: &Graph,
    dims: &ConvDims,
    inputs: &[Array],
    got: &Array,
    allowed: Tolerance,
) -> HashSet<usize> {
    let of = |x: &Array, f: fn(f64) -> f64| {
        with_element!(x.dtype(), T => {
            let elements: Vec<T> = x.cast_vec::<f64>().into_iter().map(|x| cast(f(x))).collect();
            Array::new(&x.ty().shape, &elements).unwrap_or_else(|_| x.clone())
        })
    };
    let run = |lhs: fn(f64) -> f64, rhs: fn(f64) -> f64| {
        let operands = [of(&inputs[0], lhs), of(&inputs[1], rhs)];
        let result = evaluate(graph, &operands).ok()?.results.into_iter().next()?;
        Some((operands, result))
    };
    let strange = |x: f64| f64::from(!x.is_finite());
    let finite = |x: f64| if x.is_finite() { x } else { 0.0 };
    let (Some((_, left)), Some((_, right)), Some((clean, expected))) =
        (run(strange, |_| 1.0), run(|_| 1.0, strange), run(finite, finite))
    else {
        return HashSet::new();
    };
    // How many infinities and NaNs are multiplied by an element, for each element of the result.
    let meets: Vec<f64> = left.cast_vec::<f64>().iter().zip(right.cast_vec::<f64>()).map(|(l, r)| l + r).collect();
    let op = Op::Convolution(Arc::new(dims.clone()));
    let off: HashSet<usize> = outside(allowed, &clean, &expected, got, Some(&op)).into_iter().collect();
    let grouped = dims.feature_groups > 1 || dims.batch_groups > 1;
    let strange_anywhere = inputs.iter().any(|x| x.cast_vec::<f64>().iter().any(|x| !x.is_finite()));
    let numbers = got.cast_vec::<f64>();
    let fits = |at: usize| match meets[at] {
        _ if grouped && strange_anywhere && numbers[at].is_nan() => true,
        0.0 => strange_anywhere && !off.contains(&at),
        _ => !numbers[at].is_finite(),
    };
    (0..numbers.len()).filter(|&at| fits(at)).collect()
}

/// The most steps of the type between a result and the exact one rounded, of elements that are not subnormal before or
/// after, and where they are.
pub fn most_steps(inputs: &[Array], expected: &Array, got: &Array) -> (u64, usize) {
    let pairs: Vec<(&Array, Array)> = inputs.iter().chain([expected]).map(|x| (x, without_subnormals(x))).collect();
    let judged = (0..got.elements()).filter(|&at| pairs.iter().all(|(x, normal)| same_element(x, normal, at)));
    judged.map(|at| (difference::steps(expected, got, at), at)).max().unwrap_or_default()
}

/// The op of a program of one.
pub fn only_op(graph: &Graph) -> Option<&Op> {
    let mut ops = graph[graph.main()].nodes.iter().map(|&id| &graph[id].op);
    let op = ops.by_ref().find(|op| !matches!(op, Op::Parameter { .. }))?;
    (graph.blocks.len() == 1 && ops.next().is_none()).then_some(op)
}

/// Whether an op computes with its elements, instead of moving them.
pub(super) fn computes(op: &Op) -> bool {
    match op {
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Clamp | Op::Convert(_) | Op::ReducePrecision { .. } => true,
        Op::Reduce { .. } | Op::ArgReduce { .. } | Op::ReduceWindow { .. } | Op::SelectAndScatter { .. } => true,
        Op::Cumulative { .. } | Op::DotGeneral(_) | Op::Convolution(_) | Op::Sort { .. } | Op::TopK { .. } => true,
        Op::Fft { .. } | Op::Cholesky { .. } | Op::TriangularSolve { .. } | Op::Qr | Op::Eigh | Op::Lu => true,
        Op::AllReduce { .. } | Op::ReduceScatter { .. } => true,
        Op::Scatter(dims) => dims.combiner.is_some(),
        Op::Parameter { .. } | Op::Constant(_) | Op::Iota { .. } | Op::Select | Op::Complex => false,
        Op::BitcastConvert(_) | Op::BroadcastInDim { .. } | Op::Reshape(_) | Op::Transpose(_) => false,
        Op::Slice { .. } | Op::DynamicSlice { .. } | Op::DynamicUpdateSlice | Op::Pad { .. } => false,
        Op::Concatenate { .. } | Op::Reverse(_) | Op::Gather(_) | Op::RngBits(_) => false,
        Op::AllGather { .. } | Op::AllToAll { .. } | Op::CollectivePermute { .. } => false,
        Op::ReplicaId | Op::PartitionId | Op::CustomCall(_) | Op::OptimizationBarrier => false,
        Op::While { .. } | Op::Case { .. } | Op::Composite { .. } => false,
    }
}

/// The same elements with zeros of the same sign in place of subnormal numbers.
pub(super) fn without_subnormals(x: &Array) -> Array {
    let least = match x.dtype() {
        DType::F64 => f64::MIN_POSITIVE,
        DType::F32 | DType::BF16 | DType::Complex64 => f32::MIN_POSITIVE.into(),
        _ => return x.clone(),
    };
    let flush = |x: f64| if x.abs() < least { 0f64.copysign(x) } else { x };
    with_element!(x.dtype(), T => {
        let width = x.dtype().bits() as usize / 8;
        let flushed = |bytes: &[u8]| -> T {
            let element = T::load(bytes);
            if x.dtype().is_complex() {
                let Complex64 { re, im } = cast(element);
                return cast(Complex64::new(flush(re.into()) as f32, flush(im.into()) as f32));
            }
            let value: f64 = cast(element);
            if value.abs() < least { cast(flush(value)) } else { element }
        };
        let elements: Vec<T> = x.bytes().chunks_exact(width).map(flushed).collect();
        Array::new(&x.ty().shape, &elements).unwrap_or_else(|_| x.clone())
    })
}

/// XLA for CPU lays out the operand of a transform as the op before it likes, here the indices of an `arg_reduce`, and then refuses the
/// layout when it runs: graph 2395 of the long sweep, `irfft` of `arg_reduce` with nothing but a conversion between. No text
/// can say how a value lies.
const REFUSED: &str = "LayoutUtil::IsMonotonicWithDim0Major";

/// Compares graphs on a host and on XLA, `size` of them in a module: with their arguments on each device, of which all graphs
/// have equally many.
pub fn graphs(host: &dyn Backend, xla: &dyn Backend, graphs: &[(Graph, Vec<Vec<Array>>)], size: usize) -> Outcome {
    let mut all = Outcome::default();
    for (batch_number, batch) in graphs.chunks(size.max(1)).enumerate() {
        let (mut nodes, mut of, mut wholes) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (graph, rows)) in batch.iter().enumerate() {
            let number = batch_number * size + number;
            match cases(host, graph, rows) {
                Ok((steps, whole)) => {
                    of.extend(steps.iter().map(|_| number));
                    nodes.extend(steps);
                    wholes.push(whole);
                }
                Err(message) => all.wrong.push((number, format!("host: {message}"))),
            }
        }
        let outcome = batch::run(xla, &nodes, nodes.len(), &judge);
        all.programs += outcome.programs;
        let named = |(at, message): (usize, String)| {
            let operands = nodes[at].runs[0].iter().flatten().map(shown).collect::<Vec<_>>().join(", ");
            (of[at], format!("{}: {message}, of {operands}", nodes[at].name))
        };
        all.wrong.extend(outcome.wrong.into_iter().map(named));
        let outcome = batch::run(xla, &wholes, wholes.len(), &exact_results);
        all.programs += outcome.programs;
        let first = batch_number * size;
        let wrong = outcome.wrong.into_iter().filter(|(_, message)| !message.contains(REFUSED));
        all.wrong.extend(wrong.map(|(at, message)| (first + at, format!("whole: {message}"))));
    }
    all
}

/// An array of a few elements, of others the type.
fn shown(x: &Array) -> String {
    const MOST: usize = 40;
    let elements = with_element!(x.dtype(), T => format!("{:?}", x.to_vec::<T>().unwrap_or_default()));
    if x.elements() <= MOST { format!("{} {elements}", x.ty()) } else { x.ty().to_string() }
}

/// The nodes of a graph, and the graph with those of its results that only exact nodes lead to.
fn cases(host: &dyn Backend, graph: &Graph, rows: &[Vec<Array>]) -> Result<(Vec<Case>, Case), String> {
    let mut rounded: HashSet<NodeId> = HashSet::new();
    let mut nodes = Vec::new();
    for step in compare::steps(host, graph, rows)? {
        let op = only_op(&step.program).ok_or("a node is a program of one op")?;
        if step.rows.iter().any(|operands| !is_exact(op, operands)) {
            rounded.insert(step.node);
        }
        let name = format!("{:?} {}", step.node, op.name());
        nodes.push(Case { name, graph: step.program, runs: vec![step.rows] });
    }
    let mut whole = graph.clone();
    let exact = exact_nodes(graph, &rounded);
    let results = graph[graph.main()].results.iter().copied().filter(|value| exact.contains(&value.node)).collect();
    whole.set_results(graph.main(), results);
    Ok((nodes, Case { name: "whole".into(), graph: whole, runs: vec![rows.to_vec()] }))
}

/// Whether nothing is rounded, whatever the compiler makes of it together with its neighbours.
fn is_exact(op: &Op, operands: &[Array]) -> bool {
    let floats = operands.iter().any(|x| x.dtype().is_differentiable());
    let has_subnormals = || operands.iter().any(|x| without_subnormals(x) != *x);
    match op {
        _ if !floats || !computes(op) => !matches!(op, Op::Convert(to) if to.is_differentiable()),
        Op::Compare(_) | Op::ArgReduce { .. } | Op::Sort { .. } => !has_subnormals(),
        _ => false,
    }
}

/// The nodes of block 0 that are computed from others without rounding, in themselves and in the blocks they own.
fn exact_nodes(graph: &Graph, rounded: &HashSet<NodeId>) -> HashSet<NodeId> {
    let mut exact = HashSet::new();
    for &id in &graph[graph.main()].nodes {
        let node = &graph[id];
        let mut blocks: Vec<BlockId> = node.op.blocks().to_vec();
        let mut rounds = rounded.contains(&id) || node.operands.iter().any(|operand| !exact.contains(&operand.node));
        while let Some(block) = blocks.pop() {
            rounds |= graph[block].nodes.iter().any(|id| rounded.contains(id));
            blocks.extend(graph[block].nodes.iter().flat_map(|&id| graph[id].op.blocks()));
        }
        if !rounds {
            exact.insert(id);
        }
    }
    exact
}

fn exact_results(case: &Case, rows: &[Vec<Array>], got: &[Vec<Array>]) -> Option<String> {
    let expected = match evaluate_spmd(&case.graph, rows) {
        Ok(outcomes) => outcomes,
        Err(error) => return Some(format!("interpreter: {error}")),
    };
    expected.iter().zip(got).enumerate().find_map(|(device, (expected, got))| {
        let found = unequal(&expected.results, got)?;
        Some(format!("device {device}: {found}\nprogram: {:#?}", case.graph))
    })
}
