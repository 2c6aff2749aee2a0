//! The opaque history that an automatic differentiation library hangs on tensors. Core carries and extends it; what is
//! in it is the library's.

use super::{Operand, Tensor};
use crate::ir::{Graph, Op};
use std::any::Any;
use std::sync::Arc;

/// How a tensor came about, as an automatic differentiation library keeps it.
///
/// When an operation is recorded with an operand that has a history, that history is asked to extend itself; the
/// answer becomes the history of the results.
pub trait History: Send + Sync + 'static {
    /// The history of the results of a recorded operation, or `None` to drop it. At least one operand has a history.
    fn extend(&self, recorded: &Recorded<'_>) -> Option<Arc<dyn History>>;

    /// Whether there is a derivative for the composite of this name. If not, its body is recorded op by op instead.
    fn differentiates(&self, composite: &str) -> bool;

    /// For downcasting.
    fn as_any(&self) -> &dyn Any;
}

/// A recorded operation.
pub struct Recorded<'a> {
    /// The operation.
    pub op: &'a Op,
    /// What it was recorded on. Tensors have their histories.
    pub operands: &'a [Operand<'a>],
    /// Its results, without history.
    pub results: &'a [Tensor],
    /// The programs that the operation's block numbers stand for.
    pub regions: &'a [Arc<Graph>],
    /// Whether a run-time check guards it: what is computed from the same operands elsewhere wants one too.
    pub checked: bool,
}

/// A tensor's place in a history: a recorded operation and the number of the result.
#[derive(Clone)]
pub struct Link {
    /// The history that [`History::extend`] gave, or that a leaf was given.
    pub history: Arc<dyn History>,
    /// Which result of the operation.
    pub result: u32,
}

impl Tensor {
    /// The history, if there is one.
    pub fn history(&self) -> Option<&Link> {
        self.history.as_ref()
    }

    /// The same value with another history.
    pub fn with_history(&self, history: Option<Link>) -> Self {
        Self { cell: self.cell.clone(), history }
    }

    /// The same value without history: derivatives stop here.
    pub fn detach(&self) -> Self {
        self.with_history(None)
    }

    /// Whether both are the same value: clones of one tensor, whatever their histories.
    pub fn same_value(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.cell, &other.cell)
    }
}
