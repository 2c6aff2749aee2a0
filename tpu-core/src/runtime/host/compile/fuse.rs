//! Which nodes run together.
//!
//! Nodes become *units*: fusion groups, matrix products, attention, plain kernels, and copies that make a view real. Units have
//! *levels*; whatever a unit reads comes from units of smaller levels. A node may join the group of one of its operands
//! only if that keeps this true, so groups never depend on each other in a circle, and no search is needed.
//!
//! A group has a domain of `rows` × `cols` elements. Its nodes have all of them, or one per row. `cols` is set by the
//! first reduction; before, a group is elementwise and has no rows.

use super::assemble::is_assembly;
use super::domain::{Group, Need, reads_rows};
use super::rules::Kind;
use super::size;
use super::view::{Root, View};
use crate::ir::{Graph, NodeId, Op, Value};
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;

/// Nodes of one group at most: bounds the tiles and the time to compile.
pub(super) const GROUP_NODES: usize = 200;
/// Readers that are looked at before a unit is moved to a later level.
const READERS: usize = 256;

/// What runs together.
#[derive(Debug)]
pub(super) enum Unit {
    /// A row program.
    Group(Group),
    /// A matrix product by strides.
    Dot(NodeId),
    /// An attention, operands by strides.
    Attention(NodeId),
    /// One op by a plain kernel.
    Kernel(NodeId),
    /// A view made real.
    Copy(Value, View),
}

/// The result of fusion.
pub(super) struct Fusion {
    /// In an order that respects what they read.
    pub units: Vec<Unit>,
    /// What each node reads, operand by operand: decided when it was placed, and not changed by copies made later.
    reads: Vec<SmallVec<[View; 3]>>,
    views: Views,
}

/// The views that values are.
struct Views {
    /// Of the results of nodes that are views; empty for others and for those that were made real.
    of: Vec<SmallVec<[View; 1]>>,
}

impl Views {
    /// What a reader of `value` reads from now on.
    fn of(&self, graph: &Graph, value: Value) -> View {
        match self.of[value.node.0 as usize].get(value.result as usize) {
            Some(view) => view.clone(),
            None => View::dense(value, graph.ty(value)),
        }
    }
}

impl Fusion {
    /// What a node reads as its operands.
    pub fn reads(&self, node: NodeId) -> &[View] {
        &self.reads[node.0 as usize]
    }

    /// What a result or check of the program is: a dense value.
    pub fn result(&self, graph: &Graph, value: Value) -> View {
        self.views.of(graph, value)
    }
}

struct State {
    unit: Option<Unit>,
    level: u32,
    /// Nodes outside that read results of this unit.
    readers: Vec<NodeId>,
}

struct Fuser<'a> {
    graph: &'a Graph,
    kinds: &'a [Kind],
    views: Views,
    states: Vec<State>,
    /// The unit that a unit was merged into, or itself.
    parent: Vec<u32>,
    reads: Vec<SmallVec<[View; 3]>>,
    /// The last group that reads each root whole.
    group_reading: HashMap<Value, u32>,
    /// The unit of each node; `u32::MAX` for parameters, constants and views.
    unit_of: Vec<u32>,
}

/// What a node reads: a view, and the unit that computes its root, if one does.
struct Read {
    view: View,
    unit: Option<u32>,
}

/// Forms units.
pub(super) fn fuse(graph: &Graph, kinds: &[Kind]) -> Fusion {
    let mut fuser = Fuser {
        graph,
        kinds,
        views: Views { of: vec![SmallVec::new(); graph.nodes.len()] },
        states: Vec::new(),
        parent: Vec::new(),
        reads: vec![SmallVec::new(); graph.nodes.len()],
        group_reading: HashMap::new(),
        unit_of: vec![u32::MAX; graph.nodes.len()],
    };
    for &id in &graph.blocks[0].nodes {
        fuser.node(id);
    }
    // Results and checks are dense values in memory.
    let wanted = graph.blocks[0].results.iter().chain(graph.checks.iter().map(|check| &check.value));
    for &value in wanted {
        fuser.real(value);
    }
    let order = fuser.schedule();
    let mut states = fuser.states;
    let units = order.into_iter().filter_map(|unit| states[unit as usize].unit.take()).collect();
    Fusion { units, reads: fuser.reads, views: fuser.views }
}

impl Fuser<'_> {
    fn find(&mut self, mut unit: u32) -> u32 {
        while self.parent[unit as usize] != unit {
            let up = self.parent[unit as usize];
            self.parent[unit as usize] = self.parent[up as usize];
            unit = up;
        }
        unit
    }

    fn unit_of(&mut self, node: NodeId) -> Option<u32> {
        match self.unit_of[node.0 as usize] {
            u32::MAX => None,
            unit => Some(self.find(unit)),
        }
    }

    fn node(&mut self, id: NodeId) {
        let node = &self.graph[id];
        match self.kinds[id.0 as usize] {
            Kind::Parameter => {}
            Kind::View => self.add_view(id),
            Kind::Dot => {
                let reads = node.operands.iter().enumerate().map(|(i, &v)| self.read_for_dot(id, i, v)).collect();
                self.single(Unit::Dot(id), id, reads);
            }
            Kind::Attention => {
                let reads = node.operands.iter().enumerate().map(|(i, &v)| self.read_for_attention(id, i, v)).collect();
                self.single(Unit::Attention(id), id, reads);
            }
            Kind::Kernel => {
                let reads = node.operands.iter().map(|&v| self.real(v)).collect();
                self.single(Unit::Kernel(id), id, reads);
            }
            Kind::Elementwise | Kind::RowFold | Kind::ColumnFold => self.member(id),
        }
    }

    fn add_view(&mut self, id: NodeId) {
        let node = &self.graph[id];
        let views: SmallVec<[View; 1]> = match &node.op {
            Op::Constant(literal) => smallvec![View::constant(literal, &node.types[0])],
            Op::Iota { axis, .. } => smallvec![View::iota(*axis, &node.types[0])],
            Op::OptimizationBarrier => node.operands.iter().map(|&v| self.views.of(self.graph, v)).collect(),
            op => match self.views.of(self.graph, node.operands[0]).apply(op, &node.types[0]) {
                Some(view) => smallvec![view],
                // A reshape that strides cannot express: of the operand made real.
                None => {
                    let real = self.real(node.operands[0]);
                    real.view.apply(op, &node.types[0]).into_iter().collect()
                }
            },
        };
        self.views.of[id.0 as usize] = views;
    }

    fn read(&mut self, value: Value) -> Read {
        let view = self.views.of(self.graph, value);
        let unit = match view.root {
            Root::Value(root) => self.unit_of(root.node),
            _ => None,
        };
        Read { view, unit }
    }

    /// Reads `value` as a dense value in memory, making it one if it is another kind of view.
    fn real(&mut self, value: Value) -> Read {
        // A barrier has no memory of its own.
        let mut source = value;
        while let (Op::OptimizationBarrier, node) = (&self.graph[source.node].op, &self.graph[source.node]) {
            source = node.operands[source.result as usize];
        }
        if source != value {
            let read = self.real(source);
            self.views.of[value.node.0 as usize][value.result as usize] = read.view.clone();
            return read;
        }
        let read = self.read(value);
        let stored = match &read.view.root {
            Root::Value(_) => true,
            Root::Constant(literal) => !literal.is_splat(),
            Root::Iota(_) => false,
        };
        if stored && read.view.is_dense() {
            return read;
        }
        let level = read.unit.map_or(0, |unit| self.states[unit as usize].level + 1);
        let node = value.node;
        let unit = Unit::Copy(value, read.view);
        let number = self.new_unit(unit, level);
        if let Some(source) = read.unit {
            self.states[source as usize].readers.push(node);
        }
        self.unit_of[node.0 as usize] = number;
        // Readers from now on take the copy.
        self.views.of[node.0 as usize].clear();
        Read { view: View::dense(value, self.graph.ty(value)), unit: Some(number) }
    }

    fn read_for_dot(&mut self, dot: NodeId, operand: usize, value: Value) -> Read {
        let Op::DotGeneral(dims) = &self.graph[dot].op else { return self.real(value) };
        let read = self.read(value);
        let (batch, contract) =
            if operand == 0 { (&dims.lhs_batch, &dims.lhs_contract) } else { (&dims.rhs_batch, &dims.rhs_contract) };
        // Small products add up in an order that depends on the operands' layout, so theirs is that of the value.
        let fixed = super::dot::depends_on_layout(self.graph, dot) && !read.view.is_dense();
        if !fixed && super::dot::is_matrix(&read.view, batch, contract) { read } else { self.real(value) }
    }

    fn read_for_attention(&mut self, attention: NodeId, operand: usize, value: Value) -> Read {
        let read = self.read(value);
        let stored = !matches!(read.view.root, Root::Iota(_));
        let strided = stored && super::attention::is_strided(self.graph, attention, operand, &read.view);
        if strided { read } else { self.real(value) }
    }

    fn read_for_group(&mut self, value: Value) -> Read {
        let read = self.read(value);
        if is_scattered(&read.view) { self.real(value) } else { read }
    }

    /// An operand whose elements are put together with others: in memory.
    fn read_for_assembly(&mut self, value: Value) -> Read {
        let read = self.read_for_group(value);
        if let Root::Iota(_) = read.view.root { self.real(value) } else { read }
    }

    fn new_unit(&mut self, unit: Unit, level: u32) -> u32 {
        let number = self.states.len() as u32;
        self.states.push(State { unit: Some(unit), level, readers: Vec::new() });
        self.parent.push(number);
        number
    }

    fn single(&mut self, unit: Unit, id: NodeId, reads: SmallVec<[Read; 3]>) {
        let level = reads.iter().filter_map(|read| read.unit).map(|u| self.states[u as usize].level + 1).max();
        let number = self.new_unit(unit, level.unwrap_or(0));
        self.assign(id, number, &reads);
    }

    fn assign(&mut self, id: NodeId, unit: u32, reads: &[Read]) {
        self.unit_of[id.0 as usize] = unit;
        self.reads[id.0 as usize] = reads.iter().map(|read| read.view.clone()).collect();
        for read in reads {
            if let (Root::Value(root), true) = (&read.view.root, read.view.is_dense()) {
                self.group_reading.insert(*root, unit);
            }
        }
        for source in reads.iter().filter_map(|read| read.unit) {
            let source = self.find(source);
            if source != unit {
                self.states[source as usize].readers.push(id);
            }
        }
    }

    /// Adds a node to a group, an old one if possible.
    fn member(&mut self, id: NodeId) {
        let node = &self.graph[id];
        // Inputs that would have to be gathered from all over memory are made real.
        let assembly = is_assembly(&node.op);
        let mut reads: SmallVec<[Read; 3]> = SmallVec::new();
        for &operand in &node.operands {
            reads.push(if assembly { self.read_for_assembly(operand) } else { self.read_for_group(operand) });
        }
        let need = Need::of(self.graph, id, self.kinds[id.0 as usize]);
        // Groups that the node may join, judged by domain and by how it reads them.
        let mut candidates: SmallVec<[(u32, Group); 3]> = SmallVec::new();
        // What an assembly reads is elsewhere in the domain, so it starts a group of its own, which its readers may join.
        let units: SmallVec<[u32; 3]> = reads.iter().filter_map(|read| read.unit).filter(|_| !assembly).collect();
        for (i, &unit) in units.iter().enumerate() {
            if units[..i].contains(&unit) {
                continue;
            }
            if let Some(group) = self.joined(unit, &need, &reads) {
                candidates.push((unit, group));
            }
        }
        // A reduction of an input goes with a group that reads this input anyway.
        let reduces = self.kinds[id.0 as usize] != Kind::Elementwise;
        if candidates.is_empty()
            && reduces
            && reads[0].view.is_dense()
            && let Root::Value(root) = reads[0].view.root
            && let Some(&known) = self.group_reading.get(&root)
        {
            let unit = self.find(known);
            candidates.extend(self.joined(unit, &need, &reads).map(|domain| (unit, domain)));
        }
        candidates.sort_by_key(|(unit, _)| std::cmp::Reverse(self.states[*unit as usize].level));
        for (target, domain) in candidates {
            // An attempt that failed may have merged this group into the one that it tried, which no more can take the node.
            if self.states[target as usize].unit.is_none() {
                continue;
            }
            if self.join(id, target, domain, &reads) {
                return;
            }
        }
        let below = |unit: u32| {
            let unit = self.find(unit);
            self.states[unit as usize].level + 1
        };
        let level = reads.iter().filter_map(|read| read.unit).map(below).max();
        let group = Group { nodes: vec![id], ..need.domain() };
        let number = self.new_unit(Unit::Group(group), level.unwrap_or(0));
        self.assign(id, number, &reads);
    }

    /// The domain of group `unit` with the node in it, if their domains fit and the node reads the group's values where they
    /// are.
    fn joined(&mut self, unit: u32, need: &Need, reads: &[Read]) -> Option<Group> {
        let Some(Unit::Group(group)) = &self.states[unit as usize].unit else { return None };
        if group.nodes.len() >= GROUP_NODES {
            return None;
        }
        let domain = group.with(need)?;
        for read in reads.iter().filter(|read| read.unit == Some(unit)) {
            if !self.fits(&read.view, &domain) {
                return None;
            }
        }
        Some(domain)
    }

    /// Whether a node of a group with this domain can read a value of the group by this view: each element where it is.
    fn fits(&self, view: &View, domain: &Group) -> bool {
        let Root::Value(root) = view.root else { return true };
        // The result of a column reduction is there only when the group has ended.
        if self.kinds[root.node.0 as usize] == Kind::ColumnFold {
            return false;
        }
        let full = size::elements(self.graph.ty(root)) == domain.elements();
        match (full, domain.cols) {
            (true, _) => view.is_dense(),
            (false, Some(cols)) => reads_rows(view, &domain.shape, domain.rows(), cols),
            (false, None) => false,
        }
    }

    /// Puts the node into the group `target`, together with other groups that it reads where that is possible.
    fn join(&mut self, id: NodeId, target: u32, mut domain: Group, reads: &SmallVec<[Read; 3]>) -> bool {
        let others: SmallVec<[u32; 3]> = reads.iter().filter_map(|read| read.unit).filter(|&u| u != target).collect();
        let mut target = target;
        for &other in &others {
            let other = self.find(other);
            if other == target {
                continue;
            }
            if let Some((merged, joint)) = self.merge(target, other, &domain, reads) {
                (target, domain) = (merged, joint);
                continue;
            }
            let level = self.states[other as usize].level + 1;
            if self.states[target as usize].level < level && !self.raise(target, level) {
                return false;
            }
        }
        // Raising may have passed another operand's level only upwards, so all are below now.
        let state = &mut self.states[target as usize];
        if let Some(Unit::Group(group)) = &mut state.unit {
            let nodes = std::mem::take(&mut group.nodes);
            *group = Group { nodes, ..domain };
            group.nodes.push(id);
        }
        self.assign(id, target, reads);
        true
    }

    /// Whether everything that reads `unit`, other than `apart`, is above `level`.
    fn readers_above(&mut self, unit: u32, apart: u32, level: u32) -> bool {
        if self.states[unit as usize].readers.len() > READERS {
            return false;
        }
        let readers = std::mem::take(&mut self.states[unit as usize].readers);
        let above = readers.iter().all(|&reader| match self.unit_of(reader) {
            Some(at) => at == unit || at == apart || self.states[at as usize].level > level,
            None => true,
        });
        self.states[unit as usize].readers = readers;
        above
    }

    fn raise(&mut self, unit: u32, level: u32) -> bool {
        let possible = self.readers_above(unit, unit, level);
        if possible {
            self.states[unit as usize].level = level;
        }
        possible
    }

    /// Merges group `other` into `target` if their domains fit and no unit in between reads one and feeds the other.
    fn merge(&mut self, target: u32, other: u32, domain: &Group, reads: &[Read]) -> Option<(u32, Group)> {
        let Some(Unit::Group(group)) = &self.states[other as usize].unit else { return None };
        let Some(Unit::Group(mine)) = &self.states[target as usize].unit else { return None };
        if group.nodes.len() + mine.nodes.len() >= GROUP_NODES {
            return None;
        }
        let joint = domain.union(group)?;
        // What the node reads of the other group must be there at its own place, too.
        for read in reads.iter().filter(|read| read.unit == Some(other)) {
            if !self.fits(&read.view, &joint) {
                return None;
            }
        }
        let (mine, theirs) = (self.states[target as usize].level, self.states[other as usize].level);
        let level = mine.max(theirs);
        // Whoever moves up must stay below its readers. What one group reads of the other has to fit as well; only
        // groups that do not read each other are merged.
        let apart = |fuser: &mut Self, unit: u32, from: u32| {
            let readers = std::mem::take(&mut fuser.states[from as usize].readers);
            let none = readers.len() <= READERS && readers.iter().all(|&r| fuser.unit_of(r) != Some(unit));
            fuser.states[from as usize].readers = readers;
            none
        };
        let independent = apart(self, target, other) && apart(self, other, target);
        if !independent
            || (mine < level && !self.readers_above(target, other, level))
            || (theirs < level && !self.readers_above(other, target, level))
        {
            return None;
        }
        let gone = self.states[other as usize].unit.take();
        let readers = std::mem::take(&mut self.states[other as usize].readers);
        let state = &mut self.states[target as usize];
        state.readers.extend(readers);
        state.level = level;
        if let (Some(Unit::Group(mine)), Some(Unit::Group(theirs))) = (&mut state.unit, gone) {
            mine.nodes.extend(theirs.nodes);
        }
        self.parent[other as usize] = target;
        Some((target, joint))
    }

    /// Units in an order that respects what they read: those that checks need first, then by their last node as recorded.
    fn schedule(&mut self) -> Vec<u32> {
        let n = self.states.len();
        let mut last = vec![0u32; n];
        let mut next: Vec<SmallVec<[u32; 2]>> = vec![SmallVec::new(); n];
        let mut waits = vec![0u32; n];
        for unit in 0..n as u32 {
            if self.parent[unit as usize] != unit {
                continue;
            }
            let readers = std::mem::take(&mut self.states[unit as usize].readers);
            for reader in readers {
                if let Some(at) = self.unit_of(reader).filter(|&at| at != unit) {
                    next[unit as usize].push(at);
                    waits[at as usize] += 1;
                }
            }
            last[unit as usize] = match self.states[unit as usize].unit.as_mut() {
                Some(Unit::Group(group)) => {
                    group.nodes.sort();
                    group.nodes.last().map_or(0, |node| node.0)
                }
                Some(Unit::Dot(node) | Unit::Attention(node) | Unit::Kernel(node)) => node.0,
                Some(Unit::Copy(value, _)) => value.node.0,
                None => 0,
            };
        }
        let urgent = self.needed_by_checks(&next);
        let key = |unit: u32| std::cmp::Reverse((!urgent[unit as usize], last[unit as usize], unit));
        let ready = (0..n as u32).filter(|&u| self.parent[u as usize] == u && waits[u as usize] == 0);
        let mut heap: std::collections::BinaryHeap<_> = ready.map(key).collect();
        let mut order = Vec::with_capacity(n);
        while let Some(std::cmp::Reverse((_, _, unit))) = heap.pop() {
            order.push(unit);
            for &after in &next[unit as usize] {
                waits[after as usize] -= 1;
                if waits[after as usize] == 0 {
                    heap.push(key(after));
                }
            }
        }
        order
    }

    /// Which units compute the values of checks, or something on the way there.
    fn needed_by_checks(&mut self, next: &[SmallVec<[u32; 2]>]) -> Vec<bool> {
        let mut urgent = vec![false; next.len()];
        let mut back: Vec<SmallVec<[u32; 2]>> = vec![SmallVec::new(); next.len()];
        if self.graph.checks.is_empty() {
            return urgent;
        }
        for (unit, after) in next.iter().enumerate() {
            for &after in after {
                back[after as usize].push(unit as u32);
            }
        }
        let values: Vec<Value> = self.graph.checks.iter().map(|check| check.value).collect();
        let mut stack: Vec<u32> = values.into_iter().filter_map(|value| self.read(value).unit).collect();
        while let Some(unit) = stack.pop() {
            if !std::mem::replace(&mut urgent[unit as usize], true) {
                stack.extend(&back[unit as usize]);
            }
        }
        urgent
    }
}

/// Whether reading the view along its last axis would touch a cache line per element.
fn is_scattered(view: &View) -> bool {
    if matches!(view.root, Root::Iota(_)) {
        return false;
    }
    let inner = view.sizes.iter().zip(&view.strides).rev().find(|(size, _)| **size != 1);
    inner.is_some_and(|(_, &stride)| stride > 4)
}
