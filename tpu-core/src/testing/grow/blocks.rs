//! Nodes that own blocks: each block is a random program of its own, without parameters but those its owner gives it.

use super::{Choices, Grower};
use crate::ir::{BinaryOp, Comparison, Graph, Op, Type, Value};
use crate::testing::arguments;
use crate::{DType, Literal, Shape};
use std::sync::Arc;

/// A random program over parameters of these types.
fn inner<'c>(grower: &Grower<'c>, choices: &mut Choices<'_>, types: &[Type]) -> Grower<'c> {
    let mut inner = Grower::new(grower.config, grower.replicas(), Some(types), grower.depth + 1);
    let nodes = 1 + choices.below(6);
    inner.grow(choices, nodes);
    inner
}

/// The latest value of each type; the parameters are there if nothing else is.
fn latest(inner: &Grower<'_>, types: &[Type]) -> Option<Vec<Value>> {
    types.iter().map(|ty| inner.values.iter().rev().copied().find(|&value| inner.ty(value) == ty)).collect()
}

fn operands(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Vec<Value>> {
    (0..1 + choices.below(3)).map(|_| grower.any(choices)).collect()
}

fn types(grower: &Grower<'_>, values: &[Value]) -> Vec<Type> {
    values.iter().map(|&value| grower.ty(value).clone()).collect()
}

pub fn composite(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let operands = operands(grower, choices)?;
    let mut inner = inner(grower, choices, &types(grower, &operands));
    let mut results = vec![*inner.values.last()?];
    results.extend((0..choices.below(2)).map(|_| *choices.pick(&inner.values)));
    let main = inner.graph.main();
    inner.graph.set_results(main, results);
    let op = |body| Op::Composite { name: "tpu.random".into(), attributes: Arc::default(), body };
    grower.push_owner(&[&inner.graph], |blocks| op(blocks[0]), &operands)
}

/// A loop of at most three rounds: its last value counts.
pub fn repeat(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let mut operands = operands(grower, choices)?;
    let zero = crate::reference::Array::scalar(DType::I32, 0);
    operands.push(grower.given(zero));
    let types = types(grower, &operands);
    let rounds = choices.below(4) as i64;
    let mut body = inner(grower, choices, &types);
    let mut results = latest(&body, &types[..types.len() - 1])?;
    let main = body.graph.main();
    let counter: Value = body.graph[main].parameters[types.len() - 1].into();
    let one = body.graph.constant(main, Literal::splat(DType::I32, Shape::scalar(), 1));
    results.push(body.graph.push(main, Op::Binary(BinaryOp::Add), &[counter, one]).ok()?.into());
    body.graph.set_results(main, results);

    let mut cond = Graph::new();
    let main = cond.main();
    let parameters: Vec<Value> = types.iter().map(|ty| cond.parameter(main, ty.clone())).collect();
    let limit = cond.constant(main, Literal::splat(DType::I32, Shape::scalar(), rounds));
    let below = cond.push(main, Op::Compare(Comparison::Lt), &[*parameters.last()?, limit]).ok()?;
    cond.set_results(main, vec![below.into()]);
    grower.push_owner(&[&cond, &body.graph], |blocks| Op::While { cond: blocks[0], body: blocks[1] }, &operands)
}

/// One to three branches that give values of the types of their arguments.
pub fn case(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let given = operands(grower, choices)?;
    let types = types(grower, &given);
    let count = 1 + choices.below(3);
    let mut programs: Vec<Graph> = Vec::new();
    for _ in 0..count {
        let mut branch = inner(grower, choices, &types);
        let results = latest(&branch, &types)?;
        let main = branch.graph.main();
        branch.graph.set_results(main, results);
        programs.push(branch.graph);
    }
    // The same branch on all devices, which may meet in it.
    let index = arguments::indices(&Type::new(DType::I32, Shape::scalar()), count, choices.below(1 << 16) as u64);
    let mut operands = vec![grower.given(index)];
    operands.extend(given);
    let programs: Vec<&Graph> = programs.iter().collect();
    grower.push_owner(&programs, |blocks| Op::Case { branches: blocks.into() }, &operands)
}
