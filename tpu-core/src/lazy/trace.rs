//! Tracing: operations recorded into a program of their own, for the bodies of composites, loops and branches.

use super::mode::{surround, surroundings};
use crate::ir::{Graph, Op, Type, Value};
use crate::tensor::Tensor;
use crate::{Device, Error, ErrorKind, Literal, Result, Shape};
use std::sync::{Arc, Mutex};

/// A program being traced.
#[derive(Debug)]
pub(crate) struct Trace {
    graph: Mutex<Graph>,
    /// Checks of what was recorded, where whoever traces has a use for them.
    checks: Option<Mutex<Vec<Value>>>,
}

/// What an operand is to a trace.
pub(crate) enum TraceOperand<'a> {
    /// A value of this trace.
    Value(Value),
    /// A number, spread over the shape if there is one; baked into the program.
    Number(Literal, Option<&'a Shape>),
}

impl Trace {
    fn lock(&self) -> std::sync::MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether checks of indices are part of the program.
    pub fn collects_checks(&self) -> bool {
        self.checks.is_some()
    }

    /// Adds a check: a scalar i32, −1 or the first bad index.
    pub fn check(&self, value: Value) {
        if let Some(checks) = &self.checks {
            checks.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(value);
        }
    }

    /// Records an op whose block numbers stand for `regions`.
    pub fn push<'a>(
        &self,
        mut op: Op,
        operands: impl Iterator<Item = TraceOperand<'a>>,
        regions: &[Arc<Graph>],
    ) -> Result<Vec<(Value, Type)>> {
        let mut graph = self.lock();
        let main = graph.main();
        op.map_blocks(|block| graph.import(&regions[block.0 as usize]));
        let mut values = Vec::new();
        for operand in operands {
            values.push(match operand {
                TraceOperand::Value(value) => value,
                TraceOperand::Number(literal, shape) => {
                    let value = graph.constant(main, literal);
                    match shape {
                        Some(shape) => {
                            let spread = Op::BroadcastInDim { shape: shape.clone(), axes: Default::default() };
                            graph.push(main, spread, &[value])?.into()
                        }
                        None => value,
                    }
                }
            });
        }
        let node = graph.push(main, op, &values)?;
        let types = graph[node].types.iter().cloned().enumerate();
        Ok(types.map(|(result, ty)| (Value { node, result: result as u32 }, ty)).collect())
    }
}

/// The program that `f` records from parameters of the given types. `f` may use only these and numbers: a tensor from
/// outside is an error, as it would be missing wherever the program runs.
pub(crate) fn trace(
    device: &Device,
    parameters: &[Type],
    f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<Graph> {
    run(device, parameters, Trace { graph: Mutex::default(), checks: None }, f).map(|(graph, _)| graph)
}

/// As [`trace`], with the checks of the indices in the program.
pub(crate) fn trace_checked(
    device: &Device,
    parameters: &[Type],
    f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<(Graph, Vec<Value>)> {
    run(device, parameters, Trace { graph: Mutex::default(), checks: Some(Mutex::default()) }, f)
}

fn run(
    device: &Device,
    parameters: &[Type],
    trace: Trace,
    f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<(Graph, Vec<Value>)> {
    let trace = Arc::new(trace);
    let arguments: Vec<Tensor> = parameters
        .iter()
        .map(|ty| {
            let mut graph = trace.lock();
            let main = graph.main();
            Tensor::traced(device, &trace, graph.parameter(main, ty.clone()), ty.clone())
        })
        .collect();
    let results = surround(|surroundings| &surroundings.trace, trace.clone(), || f(&arguments))?;
    let mut values = Vec::with_capacity(results.len());
    for result in &results {
        values.push(result.value_in(&trace).ok_or_else(foreign_tensor)?);
    }
    let mut graph = std::mem::take(&mut *trace.lock());
    let main = graph.main();
    graph.set_results(main, values);
    let checks = trace.checks.as_ref().map(|checks| checks.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    Ok((graph, checks.as_deref().cloned().unwrap_or_default()))
}

/// The trace that this thread records into.
pub(crate) fn current() -> Option<Arc<Trace>> {
    surroundings(|surroundings| surroundings.trace.borrow().clone()).flatten()
}

pub(crate) fn foreign_tensor() -> Error {
    let message = "requires that its function uses only its arguments and numbers, got a tensor from outside: pass it \
                   as an argument";
    Error::new(ErrorKind::Value, "trace", message)
}
