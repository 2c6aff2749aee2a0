//! What a tensor remembers of how it came about.

use crate::mode::is_grad_enabled;
use crate::param::Cell;
use crate::recompute::Recompute;
use crate::rules::{self, Saves};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use tpu_core::ir::{Graph, Op, Type};
use tpu_core::tensor::{History, Link, Operand, Recorded};
use tpu_core::{DType, Error, ErrorKind, Result, Scalar, Tensor};

/// A step of a history.
pub(crate) struct Node {
    /// Operands have smaller numbers than what was computed from them.
    pub sequence: u64,
    /// For each operand its history, if it has one.
    pub parents: SmallVec<[Option<Link>; 2]>,
    pub kind: Kind,
}

#[expect(clippy::large_enum_variant, reason = "nearly all are operations, and a box would be one more allocation each")]
pub(crate) enum Kind {
    /// Where derivatives end: a parameter, or a tensor named by `requires_grad`.
    Leaf(Weak<Cell>),
    /// A recorded operation.
    Operation(Operation),
    /// A function that runs again in the backward pass.
    Recompute(Recompute),
}

/// A recorded operation with what its derivative reads.
pub(crate) struct Operation {
    pub op: Op,
    pub operands: SmallVec<[Type; 2]>,
    pub results: SmallVec<[Type; 1]>,
    /// Whether its indices were checked.
    pub checked: bool,
    /// The programs that its block numbers stand for.
    pub regions: Box<[Arc<Graph>]>,
    saved: Mutex<Saved>,
}

/// Values kept for the backward pass, all without history: a result's own would be a cycle.
#[derive(Clone, Default)]
pub(crate) struct Saved {
    pub operands: SmallVec<[SavedOperand; 2]>,
    pub results: SmallVec<[Option<Tensor>; 1]>,
    freed: bool,
}

#[derive(Clone)]
pub(crate) enum SavedOperand {
    /// The derivative knows what it needs from the type.
    TypeOnly,
    Tensor(Tensor),
    /// Spread over the shape of the other operands.
    Number(Scalar),
    Scalar(DType, Scalar),
}

static SEQUENCE: AtomicU64 = AtomicU64::new(0);

/// The number of the next node.
pub(crate) fn next_sequence() -> u64 {
    SEQUENCE.fetch_add(1, Ordering::Relaxed)
}

impl Node {
    pub fn leaf(cell: Weak<Cell>) -> Link {
        Self::link(SmallVec::new(), Kind::Leaf(cell))
    }

    pub fn link(parents: SmallVec<[Option<Link>; 2]>, kind: Kind) -> Link {
        Link { history: Arc::new(Self { sequence: next_sequence(), parents, kind }), result: 0 }
    }

    /// The node that a link leads to.
    pub fn of(link: &Link) -> Result<&Self> {
        link.history.as_any().downcast_ref().ok_or_else(|| {
            let message = "requires histories of tpu-autograd only, got one of another library";
            Error::new(ErrorKind::Value, "backward", message)
        })
    }

    /// Number of results.
    pub fn results(&self) -> usize {
        match &self.kind {
            Kind::Leaf(_) => 1,
            Kind::Operation(operation) => operation.results.len(),
            Kind::Recompute(recompute) => recompute.results(),
        }
    }
}

impl Operation {
    fn lock(&self) -> MutexGuard<'_, Saved> {
        // Nothing panics while it is held.
        self.saved.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// What was kept; freed unless it is to be retained.
    pub fn saved(&self, retain: bool) -> Result<Saved> {
        let mut saved = self.lock();
        if saved.freed {
            return Err(freed(self.op.name()));
        }
        if retain {
            return Ok(saved.clone());
        }
        let taken = std::mem::take(&mut *saved);
        let holds = |operand: &SavedOperand| matches!(operand, SavedOperand::Tensor(_));
        if taken.operands.iter().any(holds) || taken.results.iter().any(Option::is_some) {
            saved.freed = true;
        } else {
            // Numbers cost nothing, and what saves only these can be walked again, as in PyTorch.
            *saved = taken.clone();
        }
        Ok(taken)
    }
}

pub(crate) fn freed(op: &str) -> Error {
    let message = format!(
        "requires the values saved for it, got a history (at {op}) whose values an earlier backward freed: ask that one to \
         retain the graph"
    );
    Error::new(ErrorKind::Value, "backward", message)
}

impl History for Node {
    fn extend(&self, recorded: &Recorded<'_>) -> Option<Arc<dyn History>> {
        if !is_grad_enabled() || !recorded.results.iter().any(|result| result.dtype().is_differentiable()) {
            return None;
        }
        let mut parents = SmallVec::new();
        let mut needs: SmallVec<[bool; 4]> = SmallVec::new();
        for operand in recorded.operands {
            let link = match operand {
                Operand::Tensor(tensor) => tensor.history().cloned(),
                Operand::Number(_) | Operand::Scalar(..) => None,
            };
            needs.push(link.is_some());
            parents.push(link);
        }
        let saves = rules::saves(recorded.op, &needs);
        let kind = Kind::Operation(Operation::new(recorded, saves));
        Some(Arc::new(Self { sequence: next_sequence(), parents, kind }))
    }

    fn differentiates(&self, composite: &str) -> bool {
        // Without a history there is nothing to differentiate, and the composite stays whole.
        !is_grad_enabled() || rules::composite::is_known(composite)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Operation {
    fn new(recorded: &Recorded<'_>, saves: Saves) -> Self {
        let results = recorded.results;
        let like = recorded.operands.iter().find_map(|operand| match operand {
            Operand::Tensor(tensor) if tensor.dtype().is_differentiable() => Some(tensor.ty()),
            _ => None,
        });
        let types = recorded.operands.iter().map(|operand| match operand {
            Operand::Tensor(tensor) => tensor.ty().clone(),
            Operand::Number(_) => like.unwrap_or(results[0].ty()).clone(),
            Operand::Scalar(dtype, _) => Type::new(*dtype, ()),
        });
        let operands = recorded.operands.iter().enumerate().map(|(at, operand)| match operand {
            Operand::Tensor(tensor) if saves.operand(at) => SavedOperand::Tensor(tensor.detach()),
            Operand::Tensor(_) => SavedOperand::TypeOnly,
            &Operand::Number(number) => SavedOperand::Number(number),
            &Operand::Scalar(dtype, number) => SavedOperand::Scalar(dtype, number),
        });
        let kept = results.iter().enumerate().map(|(at, result)| saves.result(at).then(|| result.clone()));
        let saved = Saved { operands: operands.collect(), results: kept.collect(), freed: false };
        Self {
            op: recorded.op.clone(),
            operands: types.collect(),
            results: results.iter().map(|result| result.ty().clone()).collect(),
            checked: recorded.checked,
            regions: recorded.regions.into(),
            saved: Mutex::new(saved),
        }
    }
}

thread_local! {
    /// Links of dropped nodes that are still to be dropped, and whether somebody is at it.
    static DROPPING: RefCell<(Vec<Link>, bool)> = const { RefCell::new((Vec::new(), false)) };
}

impl Drop for Node {
    /// Histories are chains of any length: they are taken apart in a loop, not by recursion.
    fn drop(&mut self) {
        let parents = self.parents.drain(..).flatten();
        let alone = DROPPING.try_with(|dropping| {
            let (links, busy) = &mut *dropping.borrow_mut();
            links.extend(parents);
            !std::mem::replace(busy, true)
        });
        if alone != Ok(true) {
            return;
        }
        let next = || DROPPING.with(|dropping| dropping.borrow_mut().0.pop());
        while let Some(link) = next() {
            drop(link);
        }
        DROPPING.with(|dropping| dropping.borrow_mut().1 = false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_of_a_million_nodes_drops_on_a_small_stack() {
        let run = || {
            let mut link = Node::leaf(Weak::new());
            for _ in 0..1_000_000 {
                link = Node::link(SmallVec::from_iter([Some(link)]), Kind::Leaf(Weak::new()));
            }
            drop(link);
        };
        std::thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap().join().unwrap();
    }
}
