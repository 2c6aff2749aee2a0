//! The arena of nodes and blocks.

use super::Op;
use crate::{DType, Shape};
use smallvec::SmallVec;
use std::fmt;

/// What a value is: element type and shape.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Type {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Shape,
}

impl Type {
    /// A type from its parts.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Self {
        Self { dtype, shape: shape.into() }
    }

    /// Bytes of a dense value, `None` when it cannot exist in memory.
    pub fn bytes(&self) -> Option<usize> {
        self.dtype.bytes_for(self.shape.elements()?)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}
impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Index of a node in [`Graph::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// Index of a block in [`Graph::blocks`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// One result of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value {
    /// The node.
    pub node: NodeId,
    /// Which of its results.
    pub result: u32,
}

impl From<NodeId> for Value {
    /// The first result.
    fn from(node: NodeId) -> Self {
        Self { node, result: 0 }
    }
}

macro_rules! debug_as {
    ($t:ty, |$v:ident, $f:ident| $e:expr) => {
        impl fmt::Debug for $t {
            fn fmt(&self, $f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $v = self;
                $e
            }
        }
    };
}
debug_as!(NodeId, |v, f| write!(f, "n{}", v.0));
debug_as!(BlockId, |v, f| write!(f, "b{}", v.0));
debug_as!(Value, |v, f| match v.result {
    0 => write!(f, "%{}", v.node.0),
    result => write!(f, "%{}#{result}", v.node.0),
});

/// An operation applied to values.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// The operation.
    pub op: Op,
    /// Values it reads.
    pub operands: SmallVec<[Value; 3]>,
    /// Types of its results.
    pub types: SmallVec<[Type; 1]>,
}

/// A list of nodes with parameters and results.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Block {
    /// Values of the `Parameter` nodes, in order.
    pub parameters: Vec<NodeId>,
    /// All nodes, operands first.
    pub nodes: Vec<NodeId>,
    /// What the block gives.
    pub results: Vec<Value>,
}

/// A run-time check: `value` is −1, or the first bad index; then everything that depends on `guards` has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Check {
    /// A scalar i32 of block 0.
    pub value: Value,
    /// The node whose results are wrong when the check fails.
    pub guards: NodeId,
}

/// A program. See the module's documentation for its meaning and invariants.
///
/// ```
/// use tpu_core::ir::{BinaryOp, Graph, Op, Type};
/// use tpu_core::DType;
/// let mut graph = Graph::new();
/// let main = graph.main();
/// let x = graph.parameter(main, Type::new(DType::F32, [4]));
/// let y = graph.push(main, Op::Binary(BinaryOp::Add), &[x, x]).unwrap();
/// graph.set_results(main, vec![y.into()]);
/// assert_eq!(graph.ty(y.into()).to_string(), "float32[4]");
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Graph {
    /// All nodes of all blocks.
    pub nodes: Vec<Node>,
    /// All blocks; 0 is the program.
    pub blocks: Vec<Block>,
    /// Run-time checks; their values are extra results after those of block 0.
    pub checks: Vec<Check>,
}

impl Default for Graph {
    fn default() -> Self {
        Self { nodes: Vec::new(), blocks: vec![Block::default()], checks: Vec::new() }
    }
}

impl std::ops::Index<NodeId> for Graph {
    type Output = Node;
    fn index(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }
}
impl std::ops::Index<BlockId> for Graph {
    type Output = Block;
    fn index(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }
}

impl Graph {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// The block that is the program.
    pub const fn main(&self) -> BlockId {
        BlockId(0)
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        &self[value.node].types[value.result as usize]
    }

    /// The types of a node's operands.
    pub(crate) fn operand_types(&self, node: &Node) -> SmallVec<[&Type; 4]> {
        node.operands.iter().map(|&value| self.ty(value)).collect()
    }

    /// The types of a block's parameters.
    pub fn parameter_types(&self, block: BlockId) -> impl ExactSizeIterator<Item = &Type> {
        self[block].parameters.iter().map(|&node| &self[node].types[0])
    }

    /// The types of a block's results.
    pub fn result_types(&self, block: BlockId) -> impl ExactSizeIterator<Item = &Type> {
        self[block].results.iter().map(|&value| self.ty(value))
    }
}
