//! A valid program for every op and every dtype that it takes, for tests of whatever works on the whole op set.
//!
//! [`rows`] is the table's left column: one row per op, with what it takes to apply the op to a dtype. [`every_op`]
//! applies every row to every dtype it takes and adds programs for the attributes that matter: [`special`].

mod rows;
mod special;

#[cfg(test)]
pub(crate) use rows::row_scatter;
pub use rows::{Row, rows};
pub use special::special;

use super::{BinaryOp, BlockId, Comparison, Graph, Op, Type, Value, support};
use crate::{DType, Literal, Result, Shape};
use smallvec::smallvec;

/// A named valid program for each op and dtype it takes, and for each attribute that changes its meaning. Parameters
/// take any values, except that `cholesky` wants positive definite matrices to give numbers.
///
/// ```
/// let samples = tpu_core::ir::samples::every_op();
/// assert!(samples.iter().any(|(name, _)| name == "add float32"));
/// ```
pub fn every_op() -> Vec<(String, Graph)> {
    let mut all = Vec::new();
    for row in rows() {
        for dtype in DType::ALL {
            let (types, op) = row.apply(dtype);
            if support::supported(&op, dtype) {
                let graph = program(&types, op).unwrap_or_else(|error| panic!("{} of {dtype}: {error}", row.name));
                all.push((format!("{} {dtype}", row.name), graph));
            }
        }
    }
    all.extend(special());
    all
}

/// The program that applies `op` to parameters of these types and gives all of its results. An op that owns blocks
/// gets them: `while` reverses its first value three times, the branches of `case` give the arguments as they are or
/// reversed, a composite reverses its operands.
pub fn program(types: &[Type], op: Op) -> Result<Graph> {
    let mut graph = Graph::new();
    let main = graph.main();
    let operands: Vec<Value> = types.iter().map(|ty| graph.parameter(main, ty.clone())).collect();
    if let Op::Parameter { .. } = op {
        graph.set_results(main, operands);
        return Ok(graph);
    }
    let op = match op {
        Op::While { .. } => counted_loop(&mut graph, types)?,
        Op::Case { .. } => {
            let arguments = &types[1..];
            Op::Case { branches: smallvec![identity(&mut graph, arguments), reversed(&mut graph, arguments)?] }
        }
        Op::Composite { name, attributes, .. } => {
            Op::Composite { name, attributes, body: reversed(&mut graph, types)? }
        }
        other => other,
    };
    let node = graph.push(main, op, &operands)?;
    let results = (0..graph[node].types.len() as u32).map(|result| Value { node, result }).collect();
    graph.set_results(main, results);
    Ok(graph)
}

/// A block that gives its parameters.
pub fn identity(graph: &mut Graph, types: &[Type]) -> BlockId {
    let block = graph.block();
    let values = types.iter().map(|ty| graph.parameter(block, ty.clone())).collect();
    graph.set_results(block, values);
    block
}

/// A block that gives its parameters reversed along all axes.
pub fn reversed(graph: &mut Graph, types: &[Type]) -> Result<BlockId> {
    let block = graph.block();
    let mut results = Vec::new();
    for ty in types {
        let x = graph.parameter(block, ty.clone());
        results.push(graph.push(block, Op::Reverse((0..ty.shape.rank()).collect()), &[x])?.into());
    }
    graph.set_results(block, results);
    Ok(block)
}

/// A loop over `(x, counter: scalar i32)` that runs while the counter is below 3.
fn counted_loop(graph: &mut Graph, types: &[Type]) -> Result<Op> {
    let cond = graph.block();
    let values: Vec<Value> = types.iter().map(|ty| graph.parameter(cond, ty.clone())).collect();
    let three = graph.constant(cond, Literal::splat(DType::I32, Shape::scalar(), 3));
    let below = graph.push(cond, Op::Compare(Comparison::Lt), &[values[1], three])?;
    graph.set_results(cond, vec![below.into()]);

    let body = graph.block();
    let values: Vec<Value> = types.iter().map(|ty| graph.parameter(body, ty.clone())).collect();
    let one = graph.constant(body, Literal::splat(DType::I32, Shape::scalar(), 1));
    let axes = (0..types[0].shape.rank()).collect();
    let flipped = graph.push(body, Op::Reverse(axes), &[values[0]])?;
    let next = graph.push(body, Op::Binary(BinaryOp::Add), &[values[1], one])?;
    graph.set_results(body, vec![flipped.into(), next.into()]);
    Ok(Op::While { cond, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row for every name that `Op::name` gives.
    #[test]
    fn every_variant_has_a_row() {
        let rows = rows();
        let has = |name: &str| rows.iter().any(|row| row.apply(DType::F32).1.name() == name);
        let mut missing: Vec<&str> = Vec::new();
        missing.extend(super::super::UnaryOp::ALL.iter().map(|op| op.name()).filter(|name| !has(name)));
        missing.extend(BinaryOp::ALL.iter().map(|op| op.name()).filter(|name| !has(name)));
        let others = [
            "parameter",
            "constant",
            "iota",
            "compare",
            "select",
            "clamp",
            "complex",
            "convert",
            "bitcast_convert",
            "reduce_precision",
            "broadcast_in_dim",
            "reshape",
            "transpose",
            "slice",
            "dynamic_slice",
            "dynamic_update_slice",
            "pad",
            "concatenate",
            "reverse",
            "reduce",
            "arg_reduce",
            "reduce_window",
            "select_and_scatter",
            "cumulative",
            "dot_general",
            "convolution",
            "gather",
            "scatter",
            "sort",
            "top_k",
            "rng_bits",
            "fft",
            "cholesky",
            "triangular_solve",
            "qr",
            "eigh",
            "lu",
            "while",
            "case",
            "all_reduce",
            "all_gather",
            "reduce_scatter",
            "all_to_all",
            "collective_permute",
            "replica_id",
            "partition_id",
            "custom_call",
            "optimization_barrier",
            "composite",
        ];
        missing.extend(others.into_iter().filter(|name| !has(name)));
        assert!(missing.is_empty(), "no row for {missing:?}");
    }

    #[test]
    fn names_of_samples_are_distinct() {
        let names: std::collections::HashSet<String> = every_op().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), every_op().len());
    }
}
