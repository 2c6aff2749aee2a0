//! Rules of operations that own blocks, and of calls.

use super::{Signatures, Types, at_least_one, representable};
use crate::ir::{BlockId, CustomCall, Op, Type};
use crate::{DType, Error, ErrorKind, Result, ensure};

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
    body: BlockId,
    blocks: &S,
) -> Result<Types> {
    same_types(op, "a body with the parameters", &blocks.parameters(body), operands.iter().copied())?;
    Ok(blocks.results(body).into())
}

pub(super) fn custom_call(op: &Op, call: &CustomCall) -> Result<Types> {
    for ty in &call.results {
        representable(op, &ty.shape)?;
    }
    Ok(call.results.iter().cloned().collect())
}
