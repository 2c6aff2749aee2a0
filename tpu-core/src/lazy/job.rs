//! One run of a program: inputs in, slots filled or failed.

use super::program::Program;
use super::slot::Slot;
use super::stats;
use crate::ir::{Graph, NodeId, Op};
use crate::literal::ScalarBytes;
use crate::runtime::{Argument, Backend, Outcome};
use crate::{DType, Error, ErrorKind, Location, Result};
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A program to run, what it reads and where its results go.
#[derive(Debug)]
pub(crate) struct Job {
    pub program: Arc<Program>,
    pub inputs: SmallVec<[JobInput; 2]>,
    pub outputs: SmallVec<[Arc<Slot>; 2]>,
    /// For each check of the program, where the guarded operation was recorded this time.
    pub checks: Vec<Location>,
    /// Where the last operation was recorded.
    pub last: Location,
}

#[derive(Debug)]
pub(crate) enum JobInput {
    /// Its buffer is donated if nothing else holds the slot when the program runs: handles and pending nodes can only be
    /// cloned from others, so nothing can come to hold it later. Decided at the cut, it would depend on how far the
    /// thread that ran the last program has come with letting go of its results.
    Slot(Arc<Slot>),
    Number(ScalarBytes, DType),
}

impl Job {
    /// Runs on the calling thread. Whatever happens, every output slot ends up fulfilled or failed.
    pub fn run(self, backend: &dyn Backend, device: usize) {
        let caught = catch_unwind(AssertUnwindSafe(|| self.try_run(backend, device)));
        if let Err(panic) = caught {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown panic");
            let error = Error::new(ErrorKind::Execution, "run", format!("panicked in the backend: {text}"));
            self.fail_all(&error.at(&self.last));
        }
    }

    /// Fails every output that has no value yet.
    pub fn fail_all(&self, error: &Error) {
        for slot in self.outputs.iter().filter(|slot| slot.is_scheduled()) {
            slot.fail(error.clone());
        }
    }

    fn try_run(&self, backend: &dyn Backend, device: usize) {
        let (mut arguments, failed) = self.arguments();
        if let Some(first) = failed {
            self.give_back(&mut arguments);
            let error = |input: &JobInput| match input {
                JobInput::Slot(slot) => slot.error(),
                JobInput::Number(..) => None,
            };
            let errors: Vec<Option<Error>> = self.inputs.iter().map(error).collect();
            if errors.iter().all(Option::is_none) {
                return self.fail_all(&first.at(&self.last));
            }
            return self.run_what_is_left(&errors, backend, device);
        }
        match self.execute(arguments, backend, device) {
            Ok(outcome) => self.distribute(outcome),
            Err(error) => self.fail_all(&error.at(&self.last)),
        }
    }

    /// What the program reads, and the first error if some of it cannot be had.
    fn arguments(&self) -> (Vec<Argument>, Option<Error>) {
        let mut failed = None;
        let mut arguments = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            let argument = match input {
                JobInput::Slot(slot) if Arc::strong_count(slot) == 1 => slot.take().map(Argument::Donated),
                JobInput::Slot(slot) => slot.wait().map(Argument::Shared),
                JobInput::Number(bytes, _) => Ok(Argument::Scalar(*bytes)),
            };
            arguments.push(argument.unwrap_or_else(|error| {
                failed.get_or_insert(error);
                Argument::Taken
            }));
        }
        (arguments, failed)
    }

    fn execute(&self, mut arguments: Vec<Argument>, backend: &dyn Backend, device: usize) -> Result<Outcome> {
        // A panic in the backend loses what it had taken; what it had not is given back like after an error.
        let run = || self.program.executable(backend)?.run(device, &mut arguments);
        let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            self.give_back(&mut arguments);
            std::panic::resume_unwind(panic)
        });
        let outcome = outcome.map_err(|error| self.lose(&arguments, error));
        self.give_back(&mut arguments);
        outcome
    }

    /// After a run that failed: the buffers that it took are lost, which is part of the error.
    fn lose(&self, arguments: &[Argument], error: Error) -> Error {
        let taken = |(input, argument): (&'_ JobInput, &Argument)| match (input, argument) {
            (JobInput::Slot(slot), Argument::Taken) if slot.is_given_away() => Some(slot.clone()),
            _ => None,
        };
        let lost: Vec<Arc<Slot>> = self.inputs.iter().zip(arguments).filter_map(taken).collect();
        if lost.is_empty() {
            return error;
        }
        let (count, message) = (lost.len(), error.message());
        let message = format!("{message}; lost with it: {count} values that the program was to overwrite");
        let error = Error::new(error.kind(), error.op().to_owned(), message).at(error.location()).at(&self.last);
        lost.iter().for_each(|slot| slot.fail(error.clone()));
        error
    }

    /// Puts donated buffers that the program left alone back into their slots.
    fn give_back(&self, arguments: &mut Vec<Argument>) {
        for (input, argument) in self.inputs.iter().zip(arguments.drain(..)) {
            if let (JobInput::Slot(slot), Argument::Donated(buffer)) = (input, argument) {
                slot.fulfil(buffer);
            }
        }
    }

    /// Fulfils the outputs, except those that depend on an operation whose check failed.
    fn distribute(&self, outcome: Outcome) {
        if outcome.checks.iter().all(|&bad| bad < 0) {
            return self.outputs.iter().zip(outcome.results).for_each(|(slot, buffer)| slot.fulfil(buffer));
        }
        let graph = &self.program.graph;
        let mut errors: Vec<Option<Error>> = vec![None; self.outputs.len()];
        for (number, &bad) in outcome.checks.iter().enumerate().filter(|(_, bad)| **bad >= 0) {
            let guards = graph.checks[number].guards;
            let op = graph[guards].op.name();
            let most = largest_index(graph, guards).map_or(String::new(), |most| format!(" (at most {most})"));
            let message =
                format!("requires indices in range{most}, got one out of range at position {bad} of the indices");
            let error = Error::new(ErrorKind::Index, op, message).at(&self.checks[number]);
            let tainted = dependents(graph, |node| node == guards.0 as usize);
            for (slot, value) in errors.iter_mut().zip(&graph[graph.main()].results) {
                if tainted[value.node.0 as usize] && slot.is_none() {
                    *slot = Some(error.clone());
                }
            }
        }
        for ((slot, buffer), error) in self.outputs.iter().zip(outcome.results).zip(errors) {
            match error {
                None => slot.fulfil(buffer),
                Some(error) => slot.fail(error),
            }
        }
    }

    /// Some inputs have failed: what depends on them fails with the first of their errors, the rest is computed.
    fn run_what_is_left(&self, errors: &[Option<Error>], backend: &dyn Backend, device: usize) {
        let graph = &self.program.graph;
        let mut first: Vec<Option<&Error>> = vec![None; self.outputs.len()];
        for (&parameter, error) in graph[graph.main()].parameters.iter().zip(errors) {
            let Some(error) = error else { continue };
            let tainted = dependents(graph, |node| node == parameter.0 as usize);
            for (slot, value) in first.iter_mut().zip(&graph[graph.main()].results) {
                if tainted[value.node.0 as usize] && slot.is_none_or(|first| error.made() < first.made()) {
                    *slot = Some(error);
                }
            }
        }
        let left: Vec<usize> = (0..first.len()).filter(|&at| first[at].is_none()).collect();
        if !left.is_empty() {
            stats::partial();
            let results: Vec<_> = left.iter().map(|&at| graph[graph.main()].results[at]).collect();
            let (rest, parameters, checks) = graph.restrict(&results);
            let inputs = parameters.iter().map(|&at| match &self.inputs[at] {
                // What a failed value was to replace must stay: held twice, it is not donated.
                JobInput::Slot(slot) => JobInput::Slot(slot.clone()),
                JobInput::Number(bytes, dtype) => JobInput::Number(*bytes, *dtype),
            });
            let job = Self {
                program: Arc::new(Program::new(rest, self.program.options())),
                inputs: inputs.collect(),
                outputs: left.iter().map(|&at| self.outputs[at].clone()).collect(),
                checks: checks.iter().map(|&at| self.checks[at].clone()).collect(),
                last: self.last.clone(),
            };
            job.run(backend, device);
        }
        for (slot, error) in self.outputs.iter().zip(first) {
            if let Some(error) = error {
                slot.fail(error.clone());
            }
        }
    }
}

/// The largest index that a gather or scatter along one axis takes.
fn largest_index(graph: &Graph, node: NodeId) -> Option<usize> {
    let size = |axis: usize| graph.ty(graph[node].operands[0]).shape.size(axis);
    match &graph[node].op {
        Op::Gather(dims) => match dims.start_index_map[..] {
            [axis] => size(axis).checked_sub(dims.slice_sizes[axis]),
            _ => None,
        },
        Op::Scatter(dims) => match dims.scatter_dims_to_operand_dims[..] {
            [axis] if dims.inserted_window_dims.contains(&axis) => size(axis).checked_sub(1),
            _ => None,
        },
        _ => None,
    }
}

/// Which nodes of the program are, or depend on, those that `is_source` names.
fn dependents(graph: &Graph, is_source: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut tainted = vec![false; graph.nodes.len()];
    for &id in &graph[graph.main()].nodes {
        let node = &graph[id];
        let at = id.0 as usize;
        tainted[at] = is_source(at) || node.operands.iter().any(|value| tainted[value.node.0 as usize]);
        debug_assert!(!matches!(node.op, Op::Parameter { .. }) || node.operands.is_empty());
    }
    tainted
}
