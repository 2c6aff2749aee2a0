//! Rules of operations that own blocks, and of calls.

use super::{Signatures, Types, at_least_one, representable};
use crate::ir::{Attributes, BlockId, CustomCall, Op, Type};
use crate::{DType, Error, ErrorKind, Result, ensure};
use std::collections::HashSet;

/// That a list of types is another one.
fn same_types<'a>(
    op: &Op,
    what: &str,
    got: &[Type],
    expected: impl ExactSizeIterator<Item = &'a Type> + Clone,
) -> Result<()> {
    ensure!(
        got.iter().eq(expected.clone()),
        Shape,
        op.name(),
        "requires {what} {:?}, got {got:?}",
        expected.collect::<Vec<_>>()
    );
    Ok(())
}

pub(super) fn while_loop<S: Signatures + ?Sized>(
    op: &Op,
    operands: &[&Type],
    cond: BlockId,
    body: BlockId,
    blocks: &S,
) -> Result<Types> {
    let values = || operands.iter().copied();
    same_types(op, "a condition with the parameters", &blocks.parameters(cond), values())?;
    let truth = Type::new(DType::Bool, ());
    same_types(op, "a condition with the result", &blocks.results(cond), [&truth].into_iter())?;
    same_types(op, "a body with the parameters", &blocks.parameters(body), values())?;
    same_types(op, "a body with the results", &blocks.results(body), values())?;
    Ok(values().cloned().collect())
}

pub(super) fn case<S: Signatures + ?Sized>(
    op: &Op,
    operands: &[&Type],
    branches: &[BlockId],
    blocks: &S,
) -> Result<Types> {
    let (index, arguments) = at_least_one(op, operands)?;
    ensure!(
        index.dtype == DType::I32 && index.shape.rank() == 0,
        DType,
        op.name(),
        "requires a scalar int32 as index, got {index}"
    );
    let Some((&first, rest)) = branches.split_first() else {
        return Err(Error::new(ErrorKind::Value, op.name(), "requires at least 1 branch, got 0"));
    };
    let results = blocks.results(first);
    for &branch in branches {
        same_types(op, "branches with the parameters", &blocks.parameters(branch), arguments.iter().copied())?;
    }
    for &branch in rest {
        same_types(op, "branches with the results", &blocks.results(branch), results.iter())?;
    }
    Ok(results.into())
}

pub(super) fn composite<S: Signatures + ?Sized>(
    op: &Op,
    operands: &[&Type],
    name: &str,
    attributes: &Attributes,
    body: BlockId,
    blocks: &S,
) -> Result<Types> {
    ensure!(is_composite_name(name), Value, op.name(), "requires a dotted name outside of {RESERVED}, got {name:?}");
    let mut seen = HashSet::new();
    for (key, _) in &attributes.0 {
        ensure!(
            !key.is_empty() && seen.insert(key),
            Value,
            op.name(),
            "requires attributes of distinct and not empty names, got {key:?}"
        );
    }
    same_types(op, "a body with the parameters", &blocks.parameters(body), operands.iter().copied())?;
    Ok(blocks.results(body).into())
}

/// The namespace of the composites as which the text form writes ops that StableHLO lacks.
const RESERVED: &str = "tpu_core";

/// Two or more words of letters, digits and underscores, joined by dots, the first not reserved.
fn is_composite_name(name: &str) -> bool {
    let word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    name.contains('.') && name.split('.').all(word) && name.split('.').next() != Some(RESERVED)
}

pub(super) fn custom_call(op: &Op, call: &CustomCall) -> Result<Types> {
    for ty in &call.results {
        representable(op, &ty.shape)?;
    }
    Ok(call.results.iter().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::DType::*;
    use crate::ir::samples::{identity, reversed};
    use crate::ir::*;
    use crate::{Literal, Result};
    use smallvec::smallvec;
    use std::sync::Arc;

    fn message(result: Result<NodeId>) -> String {
        format!("{:?}", result.unwrap_err())
    }

    /// A block of two f32[2] that gives a bool scalar.
    fn always(graph: &mut Graph) -> BlockId {
        let block = identity(graph, &[f32s(&[2]), f32s(&[2])]);
        let truth = graph.constant(block, Literal::splat(Bool, (), true));
        graph.set_results(block, vec![truth]);
        block
    }

    #[test]
    fn a_loop_keeps_its_types() {
        let mut graph = Graph::new();
        let x = graph.parameter(graph.main(), f32s(&[2]));
        let cond = always(&mut graph);
        let body = identity(&mut graph, &[f32s(&[2]), f32s(&[2])]);
        let main = graph.main();
        assert_eq!(
            message(graph.push(main, Op::While { cond, body }, &[x])),
            "Shape: while requires a condition with the parameters [float32[2]], got [float32[2], float32[2]]"
        );
        assert_eq!(
            message(graph.push(main, Op::While { cond: body, body }, &[x, x])),
            "Shape: while requires a condition with the result [bool[]], got [float32[2], float32[2]]"
        );
        assert_eq!(
            message(graph.push(main, Op::While { cond, body: cond }, &[x, x])),
            "Shape: while requires a body with the results [float32[2], float32[2]], got [bool[]]"
        );
        let node = graph.push(main, Op::While { cond, body }, &[x, x]).unwrap();
        assert_eq!(format!("{:?}", graph[node].types), "[float32[2], float32[2]]");
    }

    #[test]
    fn branches_agree() {
        let mut graph = Graph::new();
        let main = graph.main();
        let (x, index) = (graph.parameter(main, f32s(&[2])), graph.parameter(main, ty(I32, &[])));
        let (a, b) = (identity(&mut graph, &[f32s(&[2])]), identity(&mut graph, &[f32s(&[3])]));
        let empty = identity(&mut graph, &[f32s(&[2])]);
        graph.set_results(empty, vec![]);
        let case = |branches| Op::Case { branches };
        assert_eq!(
            message(graph.push(main, case(smallvec![a]), &[x, x])),
            "DType: case requires a scalar int32 as index, got float32[2]"
        );
        assert_eq!(
            message(graph.push(main, case(smallvec![]), &[index])),
            "Value: case requires at least 1 branch, got 0"
        );
        assert_eq!(
            message(graph.push(main, case(smallvec![a, b]), &[index, x])),
            "Shape: case requires branches with the parameters [float32[2]], got [float32[3]]"
        );
        assert_eq!(
            message(graph.push(main, case(smallvec![a, empty]), &[index, x])),
            "Shape: case requires branches with the results [float32[2]], got []"
        );
        assert!(graph.push(main, case(smallvec![a, a]), &[index, x]).is_ok());
    }

    #[test]
    fn composites_are_named_and_typed() {
        let mut graph = Graph::new();
        let main = graph.main();
        let x = graph.parameter(main, f32s(&[2]));
        let body = reversed(&mut graph, &[f32s(&[3])]).unwrap();
        let composite = |name: &str, attributes| Op::Composite { name: name.into(), attributes, body };
        assert_eq!(
            message(graph.push(main, composite("tpu.flip", Arc::default()), &[x])),
            "Shape: composite requires a body with the parameters [float32[2]], got [float32[3]]"
        );
        for name in ["flip", "tpu.", ".flip", "tpu.fl ip", "tpu_core.flip"] {
            assert!(
                message(graph.push(main, composite(name, Arc::default()), &[x]))
                    .starts_with(&format!("Value: composite requires a dotted name outside of tpu_core, got {name:?}")),
                "{name}"
            );
        }
        let twice = Attributes(vec![("a".into(), Attribute::Int(1)), ("a".into(), Attribute::Int(2))]);
        assert_eq!(
            message(graph.push(main, composite("tpu.flip", Arc::new(twice)), &[x])),
            "Value: composite requires attributes of distinct and not empty names, got \"a\""
        );
    }

    #[test]
    fn calls_and_barriers_give_what_they_say() {
        let call = CustomCall {
            target: "f".into(),
            backend_config: String::new(),
            has_side_effect: false,
            results: vec![f32s(&[2]), ty(I8, &[])],
        };
        assert_eq!(shown(Op::CustomCall(Arc::new(call)), &[f32s(&[])]), "float32[2] int8[]");
        assert_eq!(shown(Op::OptimizationBarrier, &[f32s(&[2]), ty(I8, &[])]), "float32[2] int8[]");
    }
}
