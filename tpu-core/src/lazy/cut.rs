//! Cutting: from pending nodes to a program in the device's queue.
//!
//! A cut takes a set of nodes out of the arena. Of their results it makes real what a handle still points to, what was
//! asked for, and what nodes left behind read. Nodes nobody needs are dropped. Broadcasts, counters and constants
//! of one value that only a handle holds are not made real: they stay pending, reading the program's results, so a
//! broadcast to 2^60 elements costs nothing until somebody reads it.
//!
//! Lists have room for a small program on the stack: where each operation is a program of its own, allocating them would
//! take as long as all the rest.

use super::cell::Cell;
use super::job::{Job, JobInput};
use super::program::Program;
use super::slot::Slot;
use super::stream::{Arena, Input, Stream};
use super::{Reason, mode, stats};
use crate::Location;
use crate::ir::key::Key;
use crate::ir::{Check, Graph, NodeId, Op, Type, Value};
use crate::runtime::CompileOptions;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// Cuts one component. `requested` values are made real whatever they are.
pub(crate) fn component(stream: &Stream, arena: &mut Arena, component: u32, requested: &[(u64, u32)], reason: Reason) {
    let selected = (0..arena.nodes.len()).map(|at| arena.component(at) == component).collect();
    cut(stream, arena, selected, requested, reason);
}

/// Cuts all nodes, which are one component, into one program.
pub(crate) fn all(stream: &Stream, arena: &mut Arena, reason: Reason) {
    let selected = SmallVec::from_elem(true, arena.nodes.len());
    cut(stream, arena, selected, &[], reason);
}

/// Cuts all nodes up to `last`, of all components.
pub(crate) fn prefix(stream: &Stream, arena: &mut Arena, last: u64, reason: Reason) {
    let selected = arena.nodes.iter().map(|node| node.seq <= last).collect();
    cut(stream, arena, selected, &[], reason);
}

/// What becomes of a node.
#[derive(Clone, Copy, Default)]
struct Fate {
    selected: bool,
    /// In the program.
    needed: bool,
    /// Pending after the cut: not selected, or free and not requested.
    stays: bool,
}

type Fates = SmallVec<[Fate; 16]>;

/// A result that the program makes real.
struct Output {
    position: usize,
    result: u32,
    cell: Option<Arc<Cell>>,
}

fn cut(stream: &Stream, arena: &mut Arena, selected: SmallVec<[bool; 16]>, requested: &[(u64, u32)], reason: Reason) {
    stats::visited(arena.nodes.len());
    let (fates, outputs) = decide(arena, &selected, requested);
    if outputs.is_empty() && !fates.iter().any(|fate| fate.needed) {
        return remove(arena, &fates);
    }
    let draft = Draft::new(arena, &fates);
    let slots: SmallVec<[Arc<Slot>; 2]> = outputs
        .iter()
        .map(|out| Slot::scheduled(arena.nodes[out.position].types[out.result as usize].clone()))
        .collect();
    for (output, slot) in outputs.iter().zip(&slots) {
        if let Some(succession) = output.cell.as_ref().and_then(|cell| cell.succession.get()) {
            slot.inherit(succession.clone());
        }
    }
    let mut key = std::mem::take(&mut arena.key);
    let program = draft.program(stream, arena, &outputs, &mut key);
    key.clear();
    arena.key = key;
    stats::cut(reason);
    let location = |at: usize| arena.nodes[at].location.clone();
    let checks = draft.checks.iter().map(|&(at, _)| location(at)).collect();
    let last = draft.members.last().map_or(Location::UNKNOWN, |&at| location(at));
    let inputs = draft.inputs;
    rewire(arena, &outputs, &slots, &fates);
    remove(arena, &fates);
    stream.device().queue().submit(Job { program, inputs, outputs: slots.clone(), checks, last });
    // Only now: whoever sees a slot may submit a program that reads it.
    let mut scheduled = 0;
    for (output, slot) in outputs.iter().zip(slots) {
        if let Some(cell) = &output.cell {
            scheduled += cell.slot.set(slot).is_ok() as usize;
        }
    }
    stream.scheduled(scheduled);
}

/// Which nodes the program holds and which results it makes real, in order of nodes.
fn decide(arena: &Arena, selected: &[bool], requested: &[(u64, u32)]) -> (Fates, SmallVec<[Output; 2]>) {
    let nodes = &arena.nodes;
    let mut fates: Fates =
        selected.iter().map(|&selected| Fate { selected, needed: false, stays: !selected }).collect();
    let mut outputs = SmallVec::new();
    // Results that nodes left behind read.
    let rest = selected.contains(&false) || nodes.iter().any(|node| node.op.is_free());
    let mut demanded: Vec<SmallVec<[u32; 1]>> = vec![SmallVec::new(); if rest { nodes.len() } else { 0 }];
    for position in (0..nodes.len()).rev() {
        let node = &nodes[position];
        let mut fate = fates[position];
        if fate.selected {
            let demands = demanded.get(position).map_or(&[][..], |results| results);
            let held = node.cells.iter().any(|cell| cell.strong_count() > 0);
            let wanted = requested.iter().any(|&(seq, _)| seq == node.seq);
            if node.op.is_free() && !wanted && (held || !demands.is_empty()) {
                // Stays, for its handles and for those left behind; in the program too if that needs it.
                fate.stays = true;
            } else {
                for (result, cell) in node.cells.iter().enumerate() {
                    let result = result as u32;
                    // Only of what gets its slot before this is dropped: the last handle of a pending value locks the arena.
                    let cell = cell.upgrade();
                    if cell.is_some() || demands.contains(&result) {
                        outputs.push(Output { position, result, cell });
                        fate.needed = true;
                    }
                }
            }
            fate.needed |= node.op.has_side_effect();
        }
        let reads = node.inputs.iter().chain(&node.check);
        for input in reads {
            let &Input::Node { seq, result } = input else { continue };
            let source = arena.position(seq).expect("operands are in the arena");
            if fate.needed {
                fates[source].needed = true;
            }
            if fate.stays && fates[source].selected {
                demanded[source].push(result);
            }
        }
        fates[position] = fate;
    }
    outputs.reverse();
    (fates, outputs)
}

/// A program before it is looked up: its members, inputs and checks.
struct Draft {
    /// Positions of the needed nodes.
    members: SmallVec<[usize; 8]>,
    /// For each position its number among the members.
    numbers: SmallVec<[u32; 8]>,
    inputs: SmallVec<[JobInput; 2]>,
    /// For each member's operand, in order, and its check: a member or an input.
    reads: SmallVec<[Read; 16]>,
    /// (position of the guarded node, its check).
    checks: Vec<(usize, Read)>,
}

#[derive(Clone, Copy)]
enum Read {
    /// Result of a member, by member number.
    Member(u32, u32),
    /// An input; a number is spread over the shape of the member's result.
    Input(u32, bool),
}

/// Which input a slot is. Few are looked through, which takes less than a hash of one.
#[derive(Default)]
struct Numbers {
    few: SmallVec<[(*const Slot, u32); 8]>,
    many: FxHashMap<*const Slot, u32>,
}

impl Numbers {
    /// The number of a slot, which is `next` if it has none yet.
    fn number(&mut self, slot: *const Slot, next: u32) -> u32 {
        if let Some(&(_, number)) = self.few.iter().find(|(known, _)| *known == slot) {
            return number;
        }
        if self.few.len() < self.few.inline_size() {
            self.few.push((slot, next));
            return next;
        }
        *self.many.entry(slot).or_insert(next)
    }
}

impl Draft {
    fn new(arena: &Arena, fates: &[Fate]) -> Self {
        let nodes = &arena.nodes;
        let mut draft = Self {
            members: SmallVec::with_capacity(nodes.len()),
            numbers: SmallVec::from_elem(u32::MAX, nodes.len()),
            inputs: SmallVec::new(),
            reads: SmallVec::with_capacity(2 * nodes.len()),
            checks: Vec::new(),
        };
        let mut slots = Numbers::default();
        for (position, node) in nodes.iter().enumerate() {
            if !fates[position].needed {
                continue;
            }
            // First of all, as a check may be a result of what it guards.
            draft.numbers[position] = draft.members.len() as u32;
            draft.members.push(position);
            let numbers = &draft.numbers;
            let mut read = |inputs: &mut SmallVec<[JobInput; 2]>, input: &Input| match input {
                &Input::Node { seq, result } => {
                    Read::Member(numbers[arena.position(seq).expect("operands are in the arena")], result)
                }
                Input::Slot(slot) => {
                    let next = inputs.len() as u32;
                    let number = slots.number(Arc::as_ptr(slot), next);
                    if number == next {
                        inputs.push(JobInput::Slot(slot.clone()));
                    }
                    Read::Input(number, false)
                }
                &Input::Number { bytes, dtype, spread } => {
                    // Never shared between equal numbers: what is equal today may differ tomorrow.
                    inputs.push(JobInput::Number(bytes, dtype));
                    Read::Input(inputs.len() as u32 - 1, spread)
                }
            };
            for input in node.inputs.iter() {
                let read = read(&mut draft.inputs, input);
                draft.reads.push(read);
            }
            if let Some(check) = &node.check {
                let read = read(&mut draft.inputs, check);
                draft.checks.push((position, read));
            }
        }
        draft
    }

    /// Looks the program up, assembling it when the cache does not have it. `key` is empty and lends its memory.
    fn program(&self, stream: &Stream, arena: &Arena, outputs: &[Output], key: &mut Key) -> Arc<Program> {
        let options = CompileOptions { strict_rounding: mode::rounds_strictly() };
        self.write_key(key, arena, outputs, options);
        let first = self.members.first().map_or(&Location::UNKNOWN, |&at| &arena.nodes[at].location);
        stream.device().programs().get(key, options, first, |located| {
            let (graph, members) = self.graph(arena, outputs);
            let locations = if located { self.locations(arena, &graph, &members) } else { Vec::new() };
            (graph, locations)
        })
    }

    fn write_key(&self, key: &mut Key, arena: &Arena, outputs: &[Output], options: CompileOptions) {
        key.structure.reserve(8 + 4 * self.inputs.len() + 12 * self.members.len() + 2 * outputs.len());
        key.word(options.strict_rounding as u32);
        key.word(self.inputs.len() as u32);
        for input in &self.inputs {
            match input {
                JobInput::Slot(slot) => key.ty(slot.ty()),
                JobInput::Number(_, dtype) => key.word(u32::MAX - *dtype as u32),
            }
        }
        let mut reads = self.reads.iter();
        for &position in &self.members {
            let node = &arena.nodes[position];
            key.op(&node.op);
            key.word(node.inputs.len() as u32);
            for read in reads.by_ref().take(node.inputs.len()) {
                match *read {
                    Read::Member(member, result) => {
                        key.word(member);
                        key.word(result);
                    }
                    Read::Input(input, spread) => {
                        key.word(input);
                        key.word(u32::MAX - spread as u32);
                    }
                }
            }
            node.types.iter().for_each(|ty| key.ty(ty));
            node.regions.iter().for_each(|region| key.graph(region));
        }
        for &(position, check) in &self.checks {
            key.word(self.numbers[position]);
            match check {
                Read::Member(member, result) => key.structure.extend([member, result]),
                Read::Input(input, _) => key.structure.extend([input, u32::MAX]),
            }
        }
        for output in outputs {
            key.word(self.numbers[output.position]);
            key.word(output.result);
        }
    }

    /// The program, and the node in it of each member.
    fn graph(&self, arena: &Arena, outputs: &[Output]) -> (Graph, Vec<NodeId>) {
        let mut graph = Graph::new();
        let main = graph.main();
        let parameters: Vec<Value> = self
            .inputs
            .iter()
            .map(|input| match input {
                JobInput::Slot(slot) => graph.parameter(main, slot.ty().clone()),
                JobInput::Number(_, dtype) => graph.parameter(main, Type::new(*dtype, ())),
            })
            .collect();
        let mut members: Vec<NodeId> = Vec::with_capacity(self.members.len());
        let mut reads = self.reads.iter();
        for &position in &self.members {
            let node = &arena.nodes[position];
            let mut op = node.op.clone();
            op.map_blocks(|block| graph.import(&node.regions[block.0 as usize]));
            // Numbers stand among the operands of elementwise ops only, whose operands have the result's shape.
            let shape = &node.types[0].shape;
            let mut operands = SmallVec::new();
            for read in reads.by_ref().take(node.inputs.len()) {
                operands.push(match *read {
                    Read::Member(member, result) => Value { node: members[member as usize], result },
                    Read::Input(input, false) => parameters[input as usize],
                    Read::Input(input, true) => {
                        let scalar = parameters[input as usize];
                        let ty = Type::new(graph.ty(scalar).dtype, shape);
                        let spread = Op::BroadcastInDim { shape: ty.shape.clone(), axes: Default::default() };
                        graph.insert(main, spread, SmallVec::from_slice(&[scalar]), SmallVec::from_elem(ty, 1)).into()
                    }
                });
            }
            members.push(graph.insert(main, op, operands, node.types.clone()));
        }
        let results = outputs
            .iter()
            .map(|out| Value { node: members[self.numbers[out.position] as usize], result: out.result })
            .collect();
        graph.set_results(main, results);
        graph.checks = self
            .checks
            .iter()
            .map(|&(position, check)| Check {
                value: match check {
                    Read::Member(member, result) => Value { node: members[member as usize], result },
                    Read::Input(input, _) => parameters[input as usize],
                },
                guards: members[self.numbers[position] as usize],
            })
            .collect();
        (graph, members)
    }

    /// Where each node of the program was recorded: members, and what spreads a number for the member behind it. Inputs
    /// and what is in the blocks of members have no place of their own.
    fn locations(&self, arena: &Arena, graph: &Graph, members: &[NodeId]) -> Vec<Location> {
        let mut locations = vec![Location::UNKNOWN; graph.nodes.len()];
        for (&member, &position) in members.iter().zip(&self.members) {
            let location = &arena.nodes[position].location;
            locations[member.0 as usize] = location.clone();
            for &Value { node, .. } in &graph[member].operands {
                if locations[node.0 as usize].file().is_none() && !matches!(graph[node].op, Op::Parameter { .. }) {
                    locations[node.0 as usize] = location.clone();
                }
            }
        }
        locations
    }
}

/// Nodes left behind read the program's results from now on.
fn rewire(arena: &mut Arena, outputs: &[Output], slots: &[Arc<Slot>], fates: &[Fate]) {
    if !fates.iter().any(|fate| fate.stays) {
        return;
    }
    let made: FxHashMap<(u64, u32), &Arc<Slot>> = outputs
        .iter()
        .zip(slots)
        .map(|(output, slot)| ((arena.nodes[output.position].seq, output.result), slot))
        .collect();
    for (position, fate) in fates.iter().enumerate() {
        if !fate.stays {
            continue;
        }
        let node = &mut arena.nodes[position];
        for input in node.inputs.iter_mut().chain(&mut node.check) {
            if let Input::Node { seq, result } = input
                && let Some(slot) = made.get(&(*seq, *result))
            {
                *input = Input::Slot((*slot).clone());
            }
        }
    }
}

/// Takes the nodes that do not stay out of the arena.
fn remove(arena: &mut Arena, fates: &[Fate]) {
    if fates.iter().all(|fate| !fate.stays) {
        arena.nodes.clear();
    } else {
        let mut fates = fates.iter();
        arena.nodes.retain(|_| fates.next().is_some_and(|fate| fate.stays));
    }
    arena.settle();
}
