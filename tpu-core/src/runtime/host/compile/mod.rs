//! From a graph to a program of the host: simplify → fuse → lower → plan memory.

mod assemble;
mod attention;
mod batch;
mod constants;
mod describe;
mod domain;
mod dot;
mod fuse;
mod lower;
pub(super) mod memory;
mod place;
mod recompute;
mod rules;
mod simplify;
mod view;

use super::buffer::bytes_of;
use super::control::{Control, ControlStep};
use super::copy::StridedCopy;
use super::kernels;
use super::pool::Aligned;
use super::program::{KernelStep, Located, Program, Source, Step};
use super::row::isa::Isa;
use super::row::program::{FIRST_BUFFER, FRAME, SCRATCH};
use crate::ir::{BlockId, Graph, NodeId, Op, Type, Value};
use crate::runtime::{CompileOptions, KernelInfo};
use crate::{Error, ErrorKind, Result, bail};
use constants::Constants;
use fuse::Unit;
use lower::{Context, Lowered, Memory};
use memory::{ARENA, CONSTANTS, Location, Plan, Request, Use};
use rules::Kind;
use serde_json::Value as Json;
use smallvec::SmallVec;
use std::collections::HashMap;
use view::{Root, View};

/// A unit that is ready to be placed.
enum Draft {
    Rows(Box<Lowered>),
    Dot(Box<super::dot::Dot>, [Memory; 2], Value),
    Attention(Box<super::attention::Attention>, SmallVec<[Memory; 4]>, NodeId),
    Copy(StridedCopy, Memory, Value),
    Kernel(NodeId, SmallVec<[Memory; 4]>),
    Control(NodeId, SmallVec<[Memory; 4]>, Control),
}

/// Errors with `Unsupported` when the host does not have an op: all that it has not are other people's functions.
pub(super) fn supports(op: &Op) -> Result<()> {
    match op {
        Op::CustomCall(call) => bail!(Unsupported, op.name(), "of {} is not supported on host", call.target),
        _ => Ok(()),
    }
}

/// Compiles a program that `verify` accepts; `described`: with its description.
pub(super) fn compile(source: &Graph, options: CompileOptions, isa: Isa, described: bool) -> Result<Program> {
    program(source, options, isa, false, described)
}

/// A program from outside, or that of a block. Blocks nest at most 64 deep, so this recursion ends soon.
fn program(source: &Graph, options: CompileOptions, isa: Isa, inside: bool, described: bool) -> Result<Program> {
    let simplified = simplify::simplify(source);
    let graph = &simplified.graph;
    let kinds: Vec<Kind> = (0..graph.nodes.len()).map(|id| rules::classify(graph, NodeId(id as u32))).collect();
    graph.nodes.iter().try_for_each(|node| supports(&node.op))?;
    let mut fusion = fuse::fuse(graph, &kinds);
    recompute::recompute(graph, &kinds, &mut fusion);
    let context = Context { graph, fusion: &fusion, kinds: &kinds, isa, strict_rounding: options.strict_rounding };
    let mut compiler = Compiler { context: &context, constants: Constants::default(), source, inside, described };
    let readers = compiler.readers();
    let drafts: Vec<Draft> = fusion
        .units
        .iter()
        .enumerate()
        .map(|(index, unit)| compiler.draft(unit, &|value| is_needed(&readers, value, index)))
        .collect::<Result<_>>()?;
    compiler.finish(drafts)
}

/// Units that read a root: the only one, or more than one; results count as more.
#[derive(Clone, Copy, PartialEq)]
enum Readers {
    One(usize),
    Many,
}

fn is_needed(readers: &HashMap<Value, Readers>, value: Value, unit: usize) -> bool {
    readers.get(&value).is_some_and(|&readers| readers != Readers::One(unit))
}

struct Compiler<'a> {
    context: &'a Context<'a>,
    constants: Constants,
    /// What has the blocks.
    source: &'a Graph,
    /// Whether the program is that of a block.
    inside: bool,
    /// Whether it gets a description.
    described: bool,
}

impl Compiler<'_> {
    fn result(&self, value: Value) -> View {
        self.context.fusion.result(self.context.graph, value)
    }

    /// Which units read each root.
    fn readers(&self) -> HashMap<Value, Readers> {
        let graph = self.context.graph;
        let mut readers: HashMap<Value, Readers> = HashMap::with_capacity(graph.nodes.len());
        let mut read = |view: &View, unit: usize, own: &[NodeId]| {
            if let Root::Value(root) = view.root
                && own.binary_search(&root.node).is_err()
            {
                let entry = readers.entry(root).or_insert(Readers::One(unit));
                if *entry != Readers::One(unit) || unit == usize::MAX {
                    *entry = Readers::Many;
                }
            }
        };
        for (index, unit) in self.context.fusion.units.iter().enumerate() {
            // A group reads its own values where they are computed.
            let (nodes, own): (&[NodeId], &[NodeId]) = match unit {
                Unit::Group(group) => (&group.nodes[..], &group.nodes[..]),
                Unit::Dot(id) | Unit::Attention(id) | Unit::Kernel(id) => (std::slice::from_ref(id), &[]),
                Unit::Copy(_, view) => {
                    read(view, index, &[]);
                    continue;
                }
            };
            nodes.iter().flat_map(|&id| self.context.fusion.reads(id)).for_each(|view| read(view, index, own));
        }
        let wanted = graph.blocks[0].results.iter().chain(graph.checks.iter().map(|check| &check.value));
        for &value in wanted {
            read(&self.result(value), usize::MAX, &[]);
        }
        readers
    }

    fn draft(&mut self, unit: &Unit, needed: &dyn Fn(Value) -> bool) -> Result<Draft> {
        let graph = self.context.graph;
        Ok(match unit {
            Unit::Group(group) => Draft::Rows(Box::new(lower::lower(self.context, &mut self.constants, group, needed))),
            Unit::Dot(id) => {
                let node = &graph[*id];
                let Op::DotGeneral(dims) = &node.op else { return Err(fault("a product that is none")) };
                let [lhs, rhs] = self.context.fusion.reads(*id) else { return Err(fault("a product of one operand")) };
                let factors = graph.ty(node.operands[0]).dtype;
                let dot = dot::dot(dims, factors, lhs, rhs, self.context.isa)
                    .ok_or_else(|| fault("an operand without strides"))?;
                let memory = [self.root(lhs), self.root(rhs)];
                Draft::Dot(Box::new(dot), memory, Value::from(*id))
            }
            Unit::Attention(id) => {
                let attention = attention::attention(graph, self.context.fusion, *id, self.context.isa)
                    .ok_or_else(|| fault("an attention that is none"))?;
                let operands = self.context.fusion.reads(*id).iter().map(|view| self.root(view)).collect();
                Draft::Attention(Box::new(attention), operands, *id)
            }
            Unit::Kernel(id) => {
                let operands = self.context.fusion.reads(*id).iter().map(|view| self.root(view)).collect();
                match &graph[*id].op {
                    Op::While { cond, body } => {
                        let (cond, body) = (Box::new(self.block(*cond)?), Box::new(self.block(*body)?));
                        Draft::Control(*id, operands, Control::While { cond, body })
                    }
                    Op::Case { branches } => {
                        let branches = branches.iter().map(|&branch| self.block(branch)).collect::<Result<_>>()?;
                        Draft::Control(*id, operands, Control::Case { branches })
                    }
                    _ => Draft::Kernel(*id, operands),
                }
            }
            Unit::Copy(value, view) if matches!(view.root, Root::Iota(_)) => {
                Draft::Rows(Box::new(lower::lower_view(self.context, &mut self.constants, *value, view)))
            }
            Unit::Copy(value, view) => {
                let bytes = graph.ty(*value).dtype.bits() as usize / 8;
                let copy = StridedCopy {
                    src_base: 0,
                    src_offset: view.offset * bytes,
                    dst_base: 0,
                    dst_offset: 0,
                    bytes,
                    axes: StridedCopy::axes(&view.sizes, &view.strides),
                };
                Draft::Copy(copy, self.root(view), *value)
            }
        })
    }

    /// A block as a program.
    fn block(&self, block: BlockId) -> Result<Program> {
        let options = CompileOptions { strict_rounding: self.context.strict_rounding };
        program(&self.source.program_of(block), options, self.context.isa, true, false)
    }

    fn root(&mut self, view: &View) -> Memory {
        match &view.root {
            Root::Value(root) => Memory::Value(*root),
            Root::Constant(literal) => Memory::Constant(self.constants.place(literal)),
            Root::Iota(_) => Memory::Constant(0),
        }
    }

    fn finish(mut self, drafts: Vec<Draft>) -> Result<Program> {
        let graph = self.context.graph;
        let main = &graph.blocks[0];
        for &value in main.results.iter().chain(graph.checks.iter().map(|check| &check.value)) {
            let view = self.result(value);
            self.root(&view);
        }
        let uses: Vec<Use> = drafts.iter().map(|draft| uses(graph, draft)).collect();
        // Every value in memory has a possible number of bytes.
        let written = uses.iter().flat_map(|step| step.writes.iter().copied());
        for value in written.chain(main.parameters.iter().map(|&node| node.into())) {
            bytes_of(graph.ty(value))?;
        }
        let bytes = |value: Value| graph.ty(value).bytes().unwrap_or(usize::MAX);
        let arguments: HashMap<Value, usize> =
            main.parameters.iter().enumerate().map(|(index, &node)| (node.into(), index)).collect();
        let root = |value: Value| match self.result(value).root {
            Root::Value(root) => Some(root),
            _ => None,
        };
        let computed: Vec<Value> =
            main.results.iter().filter_map(|&v| root(v)).filter(|v| !arguments.contains_key(v)).collect();
        let kept: Vec<Value> =
            main.results.iter().filter_map(|&v| root(v)).filter(|v| arguments.contains_key(v)).collect();
        let step_of: HashMap<Value, usize> =
            uses.iter().enumerate().flat_map(|(step, uses)| uses.writes.iter().map(move |&v| (v, step))).collect();
        let checks: Vec<Value> = graph.checks.iter().filter_map(|check| root(check.value)).collect();
        let last_check = checks.iter().filter_map(|value| step_of.get(value).copied()).max();
        let plan = memory::plan(&Request {
            steps: &uses,
            bytes: &bytes,
            arguments: &arguments,
            results: &computed,
            kept: &kept,
            checks: &checks,
            last_check,
            careful: !self.inside,
        })?;
        let constants = &self.constants;
        let at = |memory: Memory| locate(&plan, memory);
        let dense = |value: Value| match self.result(value).root {
            Root::Constant(literal) => constants.known(&literal).map(|offset| Location { base: CONSTANTS, offset }),
            Root::Value(root) => plan.locations.get(&root).copied(),
            Root::Iota(_) => None,
        };
        let missing = || fault("a result that nothing computes");
        let results = main
            .results
            .iter()
            .map(|&value| {
                let source = match root(value) {
                    Some(root) if plan.slot_of.contains_key(&root) => Source::Slot(plan.slot_of[&root]),
                    Some(root) if arguments.contains_key(&root) => Source::Argument(arguments[&root]),
                    _ => Source::Constant(dense(value).ok_or_else(missing)?.offset),
                };
                Ok((graph.ty(value).clone(), source))
            })
            .collect::<Result<Vec<_>>>()?;
        let check_values =
            graph.checks.iter().map(|check| dense(check.value).ok_or_else(missing)).collect::<Result<Vec<_>>>()?;
        let kernels: Vec<KernelInfo> =
            drafts.iter().zip(&uses).map(|(draft, uses)| describe::info(graph, draft, uses, &bytes)).collect();
        let flops = kernels.iter().map(|kernel| kernel.flops).sum();
        let moved = kernels.iter().map(|kernel| kernel.bytes).sum();
        let description = if self.described { self.describe(&drafts, &uses, &plan, &bytes) } else { Json::Null };
        let inner = drafts.iter().map(|draft| match draft {
            Draft::Control(_, _, control) => control.programs().map(|program| program.peak_bytes).max().unwrap_or(0),
            _ => 0,
        });
        let inner = inner.max().unwrap_or(0);
        let steps: Vec<Step> = drafts
            .into_iter()
            .enumerate()
            .map(|(index, draft)| place(graph, draft, plan.scratch[index], &at))
            .collect();
        let check_end = if graph.checks.is_empty() { None } else { Some(last_check.map_or(0, |step| step + 1)) };
        let batches = batch::batches(&steps, &uses, &plan, &bytes, arguments.len(), check_end.unwrap_or(0));
        Ok(Program {
            steps,
            batches,
            constants: Aligned::copy_of(constants.bytes()),
            parameters: main.parameters.iter().map(|&node| graph[node].types[0].clone()).collect(),
            arena_bytes: plan.arena_bytes,
            slots: plan.slots.clone(),
            results,
            checks: check_values,
            check_end,
            kernels,
            flops,
            bytes: moved,
            peak_bytes: plan.peak_bytes.saturating_add(inner),
            description,
        })
    }
}

fn fault(what: &str) -> Error {
    Error::new(ErrorKind::Internal, "compile", format!("met {what}"))
}

fn locate(plan: &Plan, memory: Memory) -> Location {
    match memory {
        Memory::Value(value) => plan.locations.get(&value).copied().unwrap_or(Location { base: ARENA, offset: 0 }),
        Memory::Constant(offset) => Location { base: CONSTANTS, offset },
    }
}

fn values(memory: &[Memory]) -> Vec<Value> {
    let value = |memory: &Memory| match memory {
        Memory::Value(value) => Some(*value),
        Memory::Constant(_) => None,
    };
    memory.iter().filter_map(value).collect()
}

/// Memory planned for a kernel.
fn planned_bytes(graph: &Graph, id: NodeId) -> usize {
    let node = &graph[id];
    let operands: SmallVec<[&Type; 4]> = node.operands.iter().map(|&v| graph.ty(v)).collect();
    node.types.first().map_or(0, |result| kernels::planned_bytes(&node.op, &operands, result))
}

/// What a unit does with memory.
fn uses(graph: &Graph, draft: &Draft) -> Use {
    let simple =
        |reads, writes, fallible| Use { reads, writes, scratch: 0, in_place: Vec::new(), copies: false, fallible };
    match draft {
        Draft::Rows(lowered) => {
            let mut reads = values(&lowered.buffers);
            reads.retain(|value| !lowered.outputs.contains(value));
            Use {
                reads,
                writes: lowered.outputs.clone(),
                scratch: lowered.program.scratch_bytes,
                in_place: lowered.in_place.clone(),
                copies: false,
                fallible: false,
            }
        }
        Draft::Dot(_, operands, out) => simple(values(operands), vec![*out], false),
        Draft::Attention(_, operands, id) => simple(values(operands), results(graph, *id), false),
        Draft::Copy(_, source, out) => simple(values(&[*source]), vec![*out], false),
        Draft::Kernel(id, operands) => {
            let op = &graph[*id].op;
            let in_place = kernels::in_place(op).into_iter().map(|operand| (0, operand));
            Use {
                scratch: planned_bytes(graph, *id),
                in_place: takes_over(*id, operands, in_place),
                copies: true,
                ..simple(values(operands), results(graph, *id), kernels::can_fail(op))
            }
        }
        Draft::Control(id, operands, control) => {
            // A loop's values start where its results are.
            let values_of_loop = if let Control::While { .. } = control { operands.len() } else { 0 };
            let in_place = (0..values_of_loop).map(|at| (at as u32, at));
            let in_place = takes_over(*id, operands, in_place);
            Use { in_place, copies: true, ..simple(values(operands), results(graph, *id), true) }
        }
    }
}

fn results(graph: &Graph, node: NodeId) -> Vec<Value> {
    (0..graph[node].types.len() as u32).map(|result| Value { node, result }).collect()
}

/// The pairs of result and operand that may share memory: those whose operand is no other operand as well.
fn takes_over(node: NodeId, operands: &[Memory], pairs: impl Iterator<Item = (u32, usize)>) -> Vec<(Value, Value)> {
    let pair = |(result, operand): (u32, usize)| match operands[operand] {
        Memory::Value(read) if operands.iter().filter(|&&other| other == Memory::Value(read)).count() == 1 => {
            Some((Value { node, result }, read))
        }
        _ => None,
    };
    pairs.filter_map(pair).collect()
}

/// The step of a unit, with all places known.
fn place(graph: &Graph, draft: Draft, scratch: usize, at: &dyn Fn(Memory) -> Location) -> Step {
    match draft {
        Draft::Rows(lowered) => {
            let mut program = lowered.program;
            program.for_each_place(|base, offset, unit| {
                if *base == FRAME || *base == SCRATCH {
                    return;
                }
                let location = at(lowered.buffers[(*base - FIRST_BUFFER) as usize]);
                *base = location.base;
                *offset += location.offset / unit;
            });
            Step::Rows(Box::new(program), scratch)
        }
        Draft::Dot(mut dot, operands, out) => {
            let (lhs, rhs, out) = (at(operands[0]), at(operands[1]), at(Memory::Value(out)));
            (dot.lhs.base, dot.rhs.base, dot.out_base) = (lhs.base, rhs.base, out.base);
            dot.lhs.offset += lhs.offset;
            dot.rhs.offset += rhs.offset;
            dot.out_offset = out.offset;
            Step::Dot(dot)
        }
        Draft::Attention(mut attention, operands, id) => {
            let operands: SmallVec<[Location; 8]> = operands.iter().map(|&memory| at(memory)).collect();
            let results: SmallVec<[Location; 3]> =
                results(graph, id).into_iter().map(|value| at(Memory::Value(value))).collect();
            attention::place(&mut attention, &operands, &results);
            Step::Attention(attention)
        }
        Draft::Copy(mut copy, source, out) => {
            let (src, dst) = (at(source), at(Memory::Value(out)));
            (copy.src_base, copy.dst_base, copy.dst_offset) = (src.base, dst.base, dst.offset);
            copy.src_offset += src.offset;
            Step::Copy(copy)
        }
        Draft::Kernel(id, operands) => {
            let (operands, results) = located(graph, id, &operands, at);
            let scratch = (scratch, planned_bytes(graph, id));
            let step = Box::new(KernelStep { op: graph[id].op.clone(), operands, results, scratch });
            match step.op {
                Op::AllReduce { .. }
                | Op::AllGather { .. }
                | Op::ReduceScatter { .. }
                | Op::AllToAll { .. }
                | Op::CollectivePermute { .. }
                | Op::ReplicaId
                | Op::PartitionId => Step::Collective(step),
                _ => Step::Kernel(step),
            }
        }
        Draft::Control(id, operands, control) => {
            let (operands, results) = located(graph, id, &operands, at);
            Step::Control(Box::new(ControlStep { control, operands, results }))
        }
    }
}

/// Types and places of a node's operands and results.
fn located(graph: &Graph, id: NodeId, operands: &[Memory], at: &dyn Fn(Memory) -> Location) -> (Located, Located) {
    let types = graph[id].operands.iter().map(|&v| graph.ty(v).clone());
    let results = results(graph, id).into_iter().map(|value| (graph.ty(value).clone(), at(Memory::Value(value))));
    (types.zip(operands.iter().map(|&memory| at(memory))).collect(), results.collect())
}
