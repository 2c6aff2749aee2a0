//! Adding nodes and blocks to a graph.

use super::{Block, BlockId, Graph, Node, NodeId, Op, Type, Value, infer};
use crate::{Literal, Result};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

impl Graph {
    /// Adds a parameter at the end of the block's parameters.
    pub fn parameter(&mut self, block: BlockId, ty: Type) -> Value {
        let index = self[block].parameters.len();
        let node = self.insert(block, Op::Parameter { index, ty: ty.clone() }, SmallVec::new(), smallvec![ty]);
        self.blocks[block.0 as usize].parameters.push(node);
        node.into()
    }

    /// Adds a constant.
    pub fn constant(&mut self, block: BlockId, literal: Literal) -> Value {
        let ty = Type::new(literal.dtype(), literal.shape());
        self.insert(block, Op::Constant(Arc::new(literal)), SmallVec::new(), smallvec![ty]).into()
    }

    /// Adds a node after the shape rule accepts it. Parameters are added with [`parameter`](Self::parameter).
    pub fn push(&mut self, block: BlockId, op: Op, operands: &[Value]) -> Result<NodeId> {
        let types = {
            let operand_types: SmallVec<[&Type; 4]> = operands.iter().map(|&value| self.ty(value)).collect();
            infer::infer(&op, &operand_types, self)?
        };
        Ok(self.insert(block, op, SmallVec::from_slice(operands), types))
    }

    /// Adds a node whose result types are known to follow from the shape rule.
    pub(crate) fn insert(
        &mut self,
        block: BlockId,
        op: Op,
        operands: SmallVec<[Value; 3]>,
        types: SmallVec<[Type; 1]>,
    ) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).expect("fewer than 2^32 nodes"));
        self.nodes.push(Node { op, operands, types });
        self.blocks[block.0 as usize].nodes.push(id);
        id
    }

    /// Adds an empty block, to be owned by a node pushed later.
    pub fn block(&mut self) -> BlockId {
        self.blocks.push(Block::default());
        BlockId(self.blocks.len() as u32 - 1)
    }

    /// Says what a block gives.
    pub fn set_results(&mut self, block: BlockId, results: Vec<Value>) {
        self.blocks[block.0 as usize].results = results;
    }

    /// Copies all blocks of `other` into this graph and returns the block that its program became. Checks of `other`
    /// are not copied.
    pub fn import(&mut self, other: &Self) -> BlockId {
        let (node_base, block_base) = (self.nodes.len() as u32, self.blocks.len() as u32);
        let node = |id: NodeId| NodeId(id.0 + node_base);
        let value = |v: Value| Value { node: node(v.node), result: v.result };
        self.nodes.extend(other.nodes.iter().map(|n| {
            let mut op = n.op.clone();
            op.map_blocks(|b| BlockId(b.0 + block_base));
            Node { op, operands: n.operands.iter().map(|&v| value(v)).collect(), types: n.types.clone() }
        }));
        self.blocks.extend(other.blocks.iter().map(|b| Block {
            parameters: b.parameters.iter().map(|&n| node(n)).collect(),
            nodes: b.nodes.iter().map(|&n| node(n)).collect(),
            results: b.results.iter().map(|&v| value(v)).collect(),
        }));
        BlockId(block_base)
    }
}
