//! The intermediate representation: small pure programs.
//!
//! # Meaning
//!
//! A [`Graph`] is an arena of [`Node`]s grouped into [`Block`]s. A node applies an [`Op`] to operands and has N
//! results; a [`Value`] is `(node, result)`. Block 0 is the program; the others belong to `while`, `case` and
//! `composite` nodes. A block sees its own parameters and nodes only, so a sub-program can be moved, compared and
//! compiled by itself.
//!
//! Everything is a value: nothing aliases, nothing is written in place, order between nodes matters only through
//! operands (and for custom calls with side effects, which keep their order). What the backends do with memory is theirs.
//!
//! # Invariants ([`verify`] enforces this list)
//!
//! 1. Every block lists its nodes in an order in which operands come first, and each node is in exactly one block.
//! 2. Operands are values of the same block; result numbers exist.
//! 3. Result types are what the shape rule says.
//! 4. A block's parameters are its `Parameter` nodes, numbered 0, 1, … without gaps, in `Block::parameters`.
//! 5. Each block but 0 is owned by exactly one node of a block with a smaller nesting depth; depth is at most 64.
//! 6. `checks` are scalar i32 values of block 0, each with the node that it guards, in block 0.

mod attributes;
mod build;
mod canonical;
mod graph;
pub mod infer;
pub mod key;
pub mod op;
#[cfg(any(test, feature = "reference"))]
pub mod samples;
pub mod support;
pub mod text;
pub mod verify;

pub use attributes::{
    Attribute, Attributes, Axes, ConvDims, CustomCall, DotDims, GatherDims, ReplicaGroups, ScatterDims, Signed, Window,
};
pub use graph::{Block, BlockId, Check, Graph, Node, NodeId, Type, Value};
pub use op::{BinaryOp, Comparison, Extreme, FftKind, Op, Precision, Reducer, TransposeKind, UnaryOp};
