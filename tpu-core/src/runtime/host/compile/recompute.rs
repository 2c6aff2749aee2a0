//! Values that are computed again where they are read instead of being kept in memory.
//!
//! A group ends where something needs all of it, the mean of a batch for example, and what was computed before is read from
//! memory after. A light op on what is in memory anyway is cheaper done twice: its value is then never written. It is done only
//! if every reader can, and if none reads more bytes than before, an eighth of the value's aside.

use super::assemble::is_assembly;
use super::domain::{Group, Need};
use super::fuse::{Fusion, GROUP_NODES, Unit};
use super::rules::Kind;
use super::size::{self, Size};
use super::view::{Root, View};
use crate::ir::{BinaryOp, Graph, NodeId, Op, UnaryOp, Value};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::ops::Add;

/// Groups that compute a value again at most.
const READERS: usize = 4;

/// Whether an op takes less time than reading its result.
fn is_light(op: &Op) -> bool {
    match op {
        Op::Unary(op) => matches!(op, UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Not),
        Op::Binary(op) => matches!(
            op,
            BinaryOp::Add
                | BinaryOp::Subtract
                | BinaryOp::Multiply
                | BinaryOp::Maximum
                | BinaryOp::Minimum
                | BinaryOp::And
                | BinaryOp::Or
                | BinaryOp::Xor
        ),
        Op::Compare(_) | Op::Select | Op::Convert(_) => true,
        _ => false,
    }
}

/// The values in memory that a unit reads, and whether each is read only where it is.
type Reads = HashMap<Value, bool>;

struct Search<'a> {
    graph: &'a Graph,
    kinds: &'a [Kind],
    /// The unit that computes each node.
    owner: HashMap<NodeId, usize>,
    /// Values that are results or checks.
    wanted: HashSet<Value>,
    /// Of each unit.
    reads: Vec<Reads>,
    /// The units that read each value from memory.
    readers: HashMap<Value, SmallVec<[usize; READERS]>>,
}

/// Puts nodes into the groups that read their values.
pub(super) fn recompute(graph: &Graph, kinds: &[Kind], fusion: &mut Fusion) {
    let mut owner = HashMap::new();
    for (index, unit) in fusion.units.iter().enumerate() {
        match unit {
            Unit::Group(group) => owner.extend(group.nodes.iter().map(|&node| (node, index))),
            Unit::Dot(node) | Unit::Attention(node) | Unit::Kernel(node) => _ = owner.insert(*node, index),
            Unit::Copy(value, _) => _ = owner.insert(value.node, index),
        }
    }
    let wanted = graph.blocks[0].results.iter().chain(graph.checks.iter().map(|check| &check.value));
    let root = |&value: &Value| match fusion.result(graph, value).root {
        Root::Value(root) => Some(root),
        _ => None,
    };
    let wanted = wanted.filter_map(root).collect();
    let reads: Vec<Reads> = fusion.units.iter().map(|unit| reads(graph, fusion, unit)).collect();
    let mut search = Search { graph, kinds, owner, wanted, reads, readers: HashMap::new() };
    for (index, reads) in search.reads.iter().enumerate() {
        reads.keys().for_each(|&value| search.readers.entry(value).or_default().push(index));
    }
    // Last groups first: what a value is computed from may be computed again in its turn.
    for index in (0..fusion.units.len()).rev() {
        let Unit::Group(group) = &fusion.units[index] else { continue };
        for node in group.nodes.clone().into_iter().rev() {
            // A node that is here to be computed again is its owner's to move.
            if search.owner[&node] == index && search.may_move(fusion, node, index) {
                search.try_move(fusion, node, index);
            }
        }
    }
    fusion.units.retain(|unit| !matches!(unit, Unit::Group(group) if group.nodes.is_empty()));
}

impl Search<'_> {
    /// Lets every reader of a node's value compute it, if all can.
    fn try_move(&mut self, fusion: &mut Fusion, node: NodeId, index: usize) {
        let value = Value::from(node);
        let Some(readers) = self.readers.get(&value).filter(|readers| readers.len() <= READERS).cloned() else {
            return;
        };
        let groups: Option<Vec<Group>> = readers.iter().map(|&reader| self.widened(fusion, reader, node)).collect();
        let Some(groups) = groups else { return };
        for (&reader, group) in readers.iter().zip(groups) {
            fusion.units[reader] = Unit::Group(group);
            let reads = reads(self.graph, fusion, &fusion.units[reader]);
            for &root in reads.keys().filter(|root| !self.reads[reader].contains_key(*root)) {
                self.readers.entry(root).or_default().push(reader);
            }
            self.reads[reader] = reads;
        }
        self.readers.remove(&value);
        forget(fusion, index, node);
    }

    /// Whether a node of unit `index` is light and reads only memory that is there before its group runs.
    fn may_move(&self, fusion: &Fusion, node: NodeId, index: usize) -> bool {
        let outside = |view: &View| match view.root {
            Root::Value(root) => self.owner.get(&root.node) != Some(&index),
            _ => true,
        };
        self.kinds[node.0 as usize] == Kind::Elementwise
            && is_light(&self.graph[node].op)
            && !self.wanted.contains(&node.into())
            && fusion.reads(node).iter().all(outside)
    }

    /// The group `reader` with the node in it, if it reads the node's value only where it is and then reads hardly more bytes
    /// than now.
    fn widened(&self, fusion: &Fusion, reader: usize, node: NodeId) -> Option<Group> {
        let Unit::Group(group) = &fusion.units[reader] else { return None };
        let (value, reads) = (Value::from(node), &self.reads[reader]);
        if reads.get(&value) != Some(&true) || group.nodes.len() >= GROUP_NODES {
            return None;
        }
        let bytes = |value: Value| size::bytes(self.graph.ty(value));
        let mut more: HashSet<Value> = HashSet::new();
        for view in fusion.reads(node) {
            if let Root::Value(root) = view.root
                && !reads.contains_key(&root)
            {
                more.insert(root);
            }
        }
        // Means and the like come beside what is read instead of the value.
        let bound = bytes(value) + bytes(value) / 8;
        if more.iter().map(|&root| bytes(root)).fold(Size::number(0), Size::add) > bound {
            return None;
        }
        let need = Need::of(self.graph, node, Kind::Elementwise);
        let mut wide = group.with(&need)?;
        wide.nodes = group.nodes.clone();
        let at = wide.nodes.partition_point(|&other| other < node);
        wide.nodes.insert(at, node);
        Some(wide)
    }
}

/// Takes a node out of a group that does not read its value itself.
fn forget(fusion: &mut Fusion, index: usize, node: NodeId) {
    let Unit::Group(group) = &fusion.units[index] else { return };
    let own = |view: &View| view.root == Root::Value(node.into());
    if group.nodes.iter().any(|&reader| fusion.reads(reader).iter().any(own)) {
        return;
    }
    if let Unit::Group(group) = &mut fusion.units[index] {
        group.nodes.retain(|&other| other != node);
    }
}

fn reads(graph: &Graph, fusion: &Fusion, unit: &Unit) -> Reads {
    let mut all = Reads::new();
    let mut read = |view: &View, whole: bool| {
        if let Root::Value(root) = view.root {
            let there = whole && view.is_dense();
            all.entry(root).and_modify(|known| *known &= there).or_insert(there);
        }
    };
    match unit {
        Unit::Group(group) => {
            for &node in &group.nodes {
                // What is put together comes from memory.
                let whole = !is_assembly(&graph[node].op);
                fusion.reads(node).iter().for_each(|view| read(view, whole));
            }
            group.nodes.iter().for_each(|&node| _ = all.remove(&Value::from(node)));
        }
        Unit::Dot(node) | Unit::Attention(node) | Unit::Kernel(node) => {
            fusion.reads(*node).iter().for_each(|view| read(view, false))
        }
        Unit::Copy(_, view) => read(view, false),
    }
    all
}
