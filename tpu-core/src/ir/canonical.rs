//! One numbering for all graphs that differ only in the order of their arenas.

use super::verify::Verified;
use super::{Block, BlockId, Check, Graph, Node, NodeId, Value};

impl Verified<'_> {
    /// The same program with its blocks in the order in which a breadth-first walk over nodes meets them, parameters
    /// first within each block, and nodes numbered block after block. Two graphs that list the same nodes in the same
    /// order within each block have equal canonical forms, and the canonical form is its own.
    pub fn canonical(&self) -> Graph {
        self.renumbered().0
    }

    /// The canonical form, and which node of this program each of its nodes is.
    pub(super) fn renumbered(&self) -> (Graph, Vec<NodeId>) {
        let order = self.walk();
        let mut block_numbers = vec![BlockId(0); self.blocks.len()];
        let mut node_numbers = vec![NodeId(0); self.nodes.len()];
        let mut nodes: Vec<Node> = Vec::with_capacity(self.nodes.len());
        let mut sources = Vec::with_capacity(self.nodes.len());
        for (number, &block) in order.iter().enumerate() {
            block_numbers[block.0 as usize] = BlockId(number as u32);
            for id in self.parameters_first(block) {
                node_numbers[id.0 as usize] = NodeId(nodes.len() as u32);
                nodes.push(self[id].clone());
                sources.push(id);
            }
        }
        let renumber = |value: Value| Value { node: node_numbers[value.node.0 as usize], result: value.result };
        for node in &mut nodes {
            node.op.map_blocks(|block| block_numbers[block.0 as usize]);
            node.operands.iter_mut().for_each(|value| *value = renumber(*value));
        }
        let blocks = order.iter().map(|&block| Block {
            parameters: self[block].parameters.iter().map(|id| node_numbers[id.0 as usize]).collect(),
            nodes: self.parameters_first(block).map(|id| node_numbers[id.0 as usize]).collect(),
            results: self[block].results.iter().map(|&value| renumber(value)).collect(),
        });
        let checks = self
            .checks
            .iter()
            .map(|check| Check { value: renumber(check.value), guards: node_numbers[check.guards.0 as usize] });
        (Graph { nodes, blocks: blocks.collect(), checks: checks.collect() }, sources)
    }

    /// All blocks, owners first, level by level.
    fn walk(&self) -> Vec<BlockId> {
        let mut order = vec![self.main()];
        let mut next = 0;
        while let Some(&block) = order.get(next) {
            for &node in &self[block].nodes {
                order.extend(self[node].op.blocks());
            }
            next += 1;
        }
        order
    }

    fn parameters_first(&self, block: BlockId) -> impl Iterator<Item = NodeId> + '_ {
        let block = &self.graph()[block];
        let others = block.nodes.iter().filter(|&&id| !matches!(self.graph()[id].op, super::Op::Parameter { .. }));
        block.parameters.iter().chain(others).copied()
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::samples::every_op;
    use crate::ir::verify::verify;

    #[test]
    fn canonical_graphs_are_valid_and_their_own_canonical_form() {
        for (name, graph) in every_op() {
            let once = verify(&graph).unwrap().canonical();
            let verified = verify(&once).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(verified.canonical(), once, "{name}");
            assert_eq!(once.nodes.len(), graph.nodes.len(), "{name}");
        }
    }

    #[test]
    fn the_order_of_arenas_does_not_matter() {
        let (_, graph) = every_op().into_iter().find(|(name, _)| name == "program with interleaved blocks").unwrap();
        let canonical = verify(&graph).unwrap().canonical();
        assert_ne!(graph, canonical);
        // The branch that the op names first comes first, with its two nodes after the five of the program.
        let names: Vec<&str> = canonical.nodes.iter().map(|node| node.op.name()).collect();
        let expected = ["parameter", "parameter", "add", "case", "parameter", "negate", "parameter", "reverse"];
        assert_eq!(names, expected);
    }
}
