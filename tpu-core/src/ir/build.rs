//! Adding nodes and blocks to a graph.

use super::{Block, BlockId, Check, Graph, Node, NodeId, Op, Type, Value, infer};
use crate::{Literal, Result};
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;
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

    /// The part of the program that computes `results`, values of block 0, with the checks that guard it. Also which
    /// parameters and which checks are left, by their old numbers.
    pub fn restrict(&self, results: &[Value]) -> (Self, Vec<usize>, Vec<usize>) {
        let main = &self[self.main()];
        let mut needed = vec![false; self.nodes.len()];
        results.iter().for_each(|value| needed[value.node.0 as usize] = true);
        // A check's value may come after what it guards, so one sweep from the end is not always enough.
        let mut count = 0;
        while count != needed.iter().filter(|&&needed| needed).count() {
            count = needed.iter().filter(|&&needed| needed).count();
            for &id in main.nodes.iter().rev() {
                if needed[id.0 as usize] {
                    self[id].operands.iter().for_each(|value| needed[value.node.0 as usize] = true);
                    let guarding = self.checks.iter().filter(|check| check.guards == id);
                    guarding.for_each(|check| needed[check.value.node.0 as usize] = true);
                }
            }
        }
        let mut out = Self::new();
        let mut renamed = vec![NodeId(u32::MAX); self.nodes.len()];
        let (mut parameters, target) = (Vec::new(), out.main());
        for &id in main.nodes.iter().filter(|id| needed[id.0 as usize]) {
            let node = &self[id];
            if let Op::Parameter { index, ty } = &node.op {
                parameters.push((*index, id, ty.clone()));
            }
        }
        parameters.sort_by_key(|&(index, ..)| index);
        for (_, id, ty) in &parameters {
            renamed[id.0 as usize] = out.parameter(target, ty.clone()).node;
        }
        for &id in main.nodes.iter().filter(|id| needed[id.0 as usize]) {
            let node = &self[id];
            if matches!(node.op, Op::Parameter { .. }) {
                continue;
            }
            let mut op = node.op.clone();
            op.map_blocks(|block| out.import_block(self, block));
            let operands = node.operands.iter().map(|v| Value { node: renamed[v.node.0 as usize], result: v.result });
            renamed[id.0 as usize] = out.insert(target, op, operands.collect(), node.types.clone());
        }
        let rename = |v: &Value| Value { node: renamed[v.node.0 as usize], result: v.result };
        out.set_results(target, results.iter().map(rename).collect());
        let checks = (0..self.checks.len()).filter(|&at| needed[self.checks[at].guards.0 as usize]);
        let checks: Vec<usize> = checks.collect();
        for &at in &checks {
            let Check { value, guards } = &self.checks[at];
            out.checks.push(Check { value: rename(value), guards: renamed[guards.0 as usize] });
        }
        (out, parameters.into_iter().map(|(index, ..)| index).collect(), checks)
    }

    /// Copies one block of `other`, and the blocks it owns, into this graph. Nesting is bounded (see the invariants).
    fn import_block(&mut self, other: &Self, block: BlockId) -> BlockId {
        let target = self.block();
        self.copy_block(other, block, target);
        target
    }

    /// The program that one block is on its own, with the blocks it owns. Without checks, which only block 0 has.
    pub fn program_of(&self, block: BlockId) -> Self {
        let mut out = Self::new();
        out.copy_block(self, block, out.main());
        out
    }

    /// Copies a block of `other` into an empty block of this graph.
    fn copy_block(&mut self, other: &Self, block: BlockId, target: BlockId) {
        let mut renamed = HashMap::new();
        for &id in &other[block].nodes {
            let node = &other[id];
            let mut op = node.op.clone();
            op.map_blocks(|inner| self.import_block(other, inner));
            let operands = node.operands.iter().map(|v| Value { node: renamed[&v.node], result: v.result }).collect();
            renamed.insert(id, self.insert(target, op, operands, node.types.clone()));
        }
        let parameters = other[block].parameters.iter().map(|id| renamed[id]).collect();
        let results = other[block].results.iter().map(|v| Value { node: renamed[&v.node], result: v.result }).collect();
        let block = &mut self.blocks[target.0 as usize];
        (block.parameters, block.results) = (parameters, results);
    }
}
