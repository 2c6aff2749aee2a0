//! Shape rules: from an op and its operand types to its result types.

use super::{BlockId, Graph, Op, Type};
use crate::{Error, ErrorKind, Result};
use smallvec::SmallVec;
use std::sync::Arc;

/// Types of the blocks that an op owns; from a graph, or from programs that stand for blocks 0, 1, ….
pub trait Signatures {
    /// Types of a block's parameters.
    fn parameters(&self, block: BlockId) -> Vec<Type>;
    /// Types of a block's results.
    fn results(&self, block: BlockId) -> Vec<Type>;
}

impl Signatures for Graph {
    fn parameters(&self, block: BlockId) -> Vec<Type> {
        self.parameter_types(block).cloned().collect()
    }
    fn results(&self, block: BlockId) -> Vec<Type> {
        self.result_types(block).cloned().collect()
    }
}

impl Signatures for [Arc<Graph>] {
    fn parameters(&self, block: BlockId) -> Vec<Type> {
        let graph = &self[block.0 as usize];
        graph.parameter_types(graph.main()).cloned().collect()
    }
    fn results(&self, block: BlockId) -> Vec<Type> {
        let graph = &self[block.0 as usize];
        graph.result_types(graph.main()).cloned().collect()
    }
}

/// The result types of `op` on `operands`, or an error that names the op, the condition and the facts.
pub fn infer<S: Signatures + ?Sized>(op: &Op, operands: &[&Type], _blocks: &S) -> Result<SmallVec<[Type; 1]>> {
    let _ = operands;
    Err(Error::new(ErrorKind::Internal, op.name(), "has no shape rule"))
}
