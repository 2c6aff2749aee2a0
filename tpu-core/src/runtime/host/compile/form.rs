//! A program for all sizes with the same facts, and the program for one vector of them.

use super::batch;
use super::constants::{Constants, Placed};
use super::describe::{self, Flops};
use super::fuse::{self, Unit};
use super::lower::{self, Context};
use super::lowered::{Lowered, Memory};
use super::memory::{self, CONSTANTS, Location, Number, Plan, Request, Use};
use super::rules::{self, Kind};
use super::size::{self, Size, Values};
use super::view::{Root, View};
use super::{attention, dot, fault, recompute, simplify, supports};
use crate::ir::{BlockId, DotDims, Graph, NodeId, Op, Type, Value};
use crate::runtime::CompileOptions;
use crate::runtime::host::buffer::bytes_of;
use crate::runtime::host::control::{Control, ControlStep};
use crate::runtime::host::copy::StridedCopy;
use crate::runtime::host::kernels;
use crate::runtime::host::program::{KernelName, KernelStep, Located, Program, Source, Step, Work};
use crate::runtime::host::row::isa::Isa;
use crate::runtime::host::row::program::{FIRST_BUFFER, FRAME, SCRATCH};
use crate::{DType, Result};
use serde_json::Value as Json;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// A unit, lowered.
pub(super) enum Draft {
    Rows(Box<Lowered>, Flops),
    Dot { out: Value, dims: Arc<DotDims>, factors: DType, views: Box<[View; 2]>, memory: [Memory; 2] },
    Attention { id: NodeId, dtypes: Box<[DType]>, views: Box<[View]>, memory: SmallVec<[Memory; 4]> },
    Copy { out: Value, view: Box<View>, memory: Memory },
    Kernel { id: NodeId, memory: SmallVec<[Memory; 4]> },
    Control { id: NodeId, memory: SmallVec<[Memory; 4]>, blocks: Blocks },
}

/// The blocks of a loop or a branch.
pub(super) enum Blocks {
    While { cond: Box<Form>, body: Box<Form> },
    Case(Vec<Form>),
}

/// A program for all sizes with the same facts.
pub(super) struct Form {
    /// The simplified program, of the sizes that were compiled.
    pub graph: Graph,
    pub drafts: Vec<Draft>,
    /// The number of each node's first result.
    numbers: Vec<Number>,
    pub request: Request,
    /// The values in memory.
    bytes: Vec<(Value, Size)>,
    pub constants: Placed,
    results: Vec<(Type, Source)>,
    checks: Vec<Memory>,
    names: Arc<[KernelName]>,
    isa: Isa,
}

impl Form {
    /// Compiles a program from outside, or that of a block. Blocks nest at most 64 deep, so this recursion ends soon.
    pub fn new(source: &Graph, options: CompileOptions, isa: Isa, inside: bool) -> Result<Self> {
        let simplified = simplify::simplify(source);
        let graph = &simplified.graph;
        let kinds: Vec<Kind> = (0..graph.nodes.len()).map(|id| rules::classify(graph, NodeId(id as u32))).collect();
        graph.nodes.iter().try_for_each(|node| supports(&node.op))?;
        let mut fusion = fuse::fuse(graph, &kinds);
        recompute::recompute(graph, &kinds, &mut fusion);
        let context = Context { graph, fusion: &fusion, kinds: &kinds, isa, strict_rounding: options.strict_rounding };
        let numbers = numbers(graph);
        let mut compiler = Compiler { context: &context, constants: Constants::default(), source, numbers: &numbers };
        let readers = compiler.readers();
        let units = fusion.units.iter().enumerate();
        let drafts: Vec<Draft> = units
            .map(|(index, unit)| {
                let needed = |value: Value| match readers[number(&numbers, value) as usize] {
                    Readers::None => false,
                    readers => readers != Readers::One(index),
                };
                compiler.draft(unit, &needed)
            })
            .collect::<Result<_>>()?;
        let main = &graph.blocks[0];
        let wanted = |compiler: &mut Compiler<'_>, value: Value| {
            let view = fusion.result(graph, value);
            compiler.root(&view)
        };
        let results: Vec<Memory> = main.results.iter().map(|&value| wanted(&mut compiler, value)).collect();
        let checks: Vec<Memory> = graph.checks.iter().map(|check| wanted(&mut compiler, check.value)).collect();
        let constants = compiler.constants.placed();
        let in_memory = |list: &[Memory]| values(list).map(|value| number(&numbers, value)).collect::<Vec<_>>();
        let uses: Vec<Use> = drafts.iter().map(|draft| uses(graph, draft, &numbers)).collect();
        let written = drafts.iter().flat_map(|draft| draft.writes(graph));
        let arguments = main.parameters.iter().map(|&node| Value::from(node));
        let bytes = written.chain(arguments.clone()).map(|value| (value, size::bytes(graph.ty(value)))).collect();
        let names = drafts.iter().zip(&uses).map(|(draft, uses)| describe::name(graph, draft, uses)).collect();
        let argument_of: HashMap<Value, usize> = arguments.clone().zip(0..).collect();
        let count = numbers.last().map_or(0, |&last| last as usize);
        let arguments = arguments.map(|value| number(&numbers, value)).collect();
        let request = Request::new(count, uses, arguments, &in_memory(&results), &in_memory(&checks), !inside);
        let sources = main.results.iter().zip(results).map(|(&value, memory)| {
            let source = match memory {
                Memory::Constant(offset) => Source::Constant(offset),
                Memory::Value(root) => match (argument_of.get(&root), request.slot_of(number(&numbers, root))) {
                    (Some(&argument), _) => Source::Argument(argument),
                    (None, Some(slot)) => Source::Slot(slot),
                    (None, None) => return Err(fault("a result that nothing computes")),
                },
            };
            Ok((graph.ty(value).clone(), source))
        });
        let results = sources.collect::<Result<_>>()?;
        Ok(Self { drafts, request, bytes, constants, results, checks, names, isa, numbers, graph: simplified.graph })
    }

    /// The number of a value.
    pub fn number(&self, value: Value) -> Number {
        number(&self.numbers, value)
    }

    /// The names of the kernels.
    pub fn names(&self) -> &[KernelName] {
        &self.names
    }

    /// The program for one vector of sizes; `described`: with its description. Errors with `OutOfMemory` when a value has
    /// more bytes than there are addresses.
    pub fn at(&self, values: &Values, described: bool) -> Result<Program> {
        let graph = &self.graph;
        let mut bytes = vec![0; self.request.values()];
        for &(value, size) in &self.bytes {
            let size = values.of(size);
            if size > rules::MOST_BYTES {
                bytes_of(&values.ty(graph.ty(value)))?;
            }
            bytes[self.number(value) as usize] = size;
        }
        let mut scratch = Vec::with_capacity(self.drafts.len());
        let mut steps = Vec::with_capacity(self.drafts.len());
        for draft in &self.drafts {
            let (step, bytes) = self.step(draft, values)?;
            scratch.push(bytes);
            steps.push(step);
        }
        let plan = memory::plan(&self.request, &bytes, &scratch)?;
        for ((draft, step), &scratch) in self.drafts.iter().zip(&mut steps).zip(&plan.scratch) {
            self.place(draft, step, scratch, &plan);
        }
        let work: Vec<Work> = self
            .drafts
            .iter()
            .zip(&steps)
            .zip(self.request.steps())
            .map(|((draft, step), uses)| {
                let touched = uses.reads.iter().chain(&uses.writes);
                let bytes = touched.map(|&value| bytes[value as usize] as f64).sum();
                Work { bytes, flops: describe::flops(draft, step, values) }
            })
            .collect();
        let inner = steps.iter().map(|step| match step {
            Step::Control(step) => step.control.programs().map(|program| program.peak_bytes).max().unwrap_or(0),
            _ => 0,
        });
        let inner = inner.max().unwrap_or(0);
        let last_check = self.request.last_check;
        let check_end = if graph.checks.is_empty() { None } else { Some(last_check.map_or(0, |step| step + 1)) };
        let parameters = &graph.blocks[0].parameters;
        let first = check_end.unwrap_or(0);
        let batches = batch::batches(&steps, self.request.steps(), &plan, &bytes, &scratch, parameters.len(), first);
        let description = if described { self.describe(&steps, &plan, &bytes, values) } else { Json::Null };
        Ok(Program {
            batches,
            constants: self.constants.at(values),
            parameters: parameters.iter().map(|&node| values.ty(&graph[node].types[0])).collect(),
            arena_bytes: plan.arena_bytes,
            results: self.results.iter().map(|(ty, source)| (values.ty(ty), *source)).collect(),
            checks: self.checks.iter().map(|&memory| self.locate(&plan, memory)).collect(),
            check_end,
            names: self.names.clone(),
            flops: work.iter().map(|work| work.flops).sum(),
            bytes: work.iter().map(|work| work.bytes).sum(),
            work,
            peak_bytes: plan.peak_bytes.saturating_add(inner),
            slots: plan.slots,
            steps,
            description,
        })
    }

    fn locate(&self, plan: &Plan, memory: Memory) -> Location {
        match memory {
            Memory::Value(value) => plan.locations[self.number(value) as usize].unwrap_or(NOWHERE),
            Memory::Constant(offset) => Location { base: CONSTANTS, offset },
        }
    }

    /// The step of a draft with its places still to be given, and the bytes of its scratch memory.
    fn step(&self, draft: &Draft, values: &Values) -> Result<(Step, usize)> {
        let graph = &self.graph;
        Ok(match draft {
            Draft::Rows(lowered, _) => {
                let program = lowered.at(values);
                let scratch = program.scratch_bytes;
                (Step::Rows(Box::new(program), 0), scratch)
            }
            Draft::Dot { dims, factors, views, .. } => {
                let dot = dot::dot(dims, *factors, views, self.isa, values);
                (Step::Dot(Box::new(dot.ok_or_else(|| fault("an operand without strides"))?)), 0)
            }
            Draft::Attention { id, dtypes, views, .. } => {
                let attention = attention::attention(&graph[*id], dtypes, views, self.isa, values);
                (Step::Attention(Box::new(attention.ok_or_else(|| fault("an attention that is none"))?)), 0)
            }
            Draft::Copy { out, view, .. } => {
                let bytes = graph.ty(*out).dtype.bits() as usize / 8;
                let axes = StridedCopy::axes(&values.all(&view.sizes), &values.all(&view.strides));
                let src_offset = values.of(view.offset) * bytes;
                (Step::Copy(StridedCopy { src_base: 0, src_offset, dst_base: 0, dst_offset: 0, bytes, axes }), 0)
            }
            Draft::Kernel { id, .. } => {
                let (operands, results) = self.located(*id, values);
                let op = values.op(&graph[*id].op);
                let scratch = results.first().map_or(0, |(result, _)| {
                    let operands: SmallVec<[&Type; 4]> = operands.iter().map(|(ty, _)| ty).collect();
                    kernels::planned_bytes(&op, &operands, result)
                });
                let step = Box::new(KernelStep { op, operands, results, scratch: (0, scratch) });
                let step = match step.op {
                    Op::AllReduce { .. }
                    | Op::AllGather { .. }
                    | Op::ReduceScatter { .. }
                    | Op::AllToAll { .. }
                    | Op::CollectivePermute { .. }
                    | Op::ReplicaId
                    | Op::PartitionId => Step::Collective(step),
                    _ => Step::Kernel(step),
                };
                (step, scratch)
            }
            Draft::Control { id, blocks, .. } => {
                let (operands, results) = self.located(*id, values);
                let program = |form: &Form| form.at(values, false);
                let control = match blocks {
                    Blocks::While { cond, body } => {
                        let (cond, mut body) = (Box::new(program(cond)?), Box::new(program(body)?));
                        body.find_laid();
                        Control::While { cond, body }
                    }
                    Blocks::Case(branches) => {
                        Control::Case { branches: branches.iter().map(program).collect::<Result<_>>()? }
                    }
                };
                (Step::Control(Box::new(ControlStep { control, operands, results })), 0)
            }
        })
    }

    /// Types of a node's operands and results.
    fn located(&self, id: NodeId, values: &Values) -> (Located, Located) {
        let node = &self.graph[id];
        let operands = node.operands.iter().map(|&value| (values.ty(self.graph.ty(value)), NOWHERE));
        (operands.collect(), node.types.iter().map(|ty| (values.ty(ty), NOWHERE)).collect())
    }

    /// Gives a step its places.
    fn place(&self, draft: &Draft, step: &mut Step, scratch: usize, plan: &Plan) {
        let at = |memory: Memory| self.locate(plan, memory);
        let located = |operands: &mut Located, results: &mut Located, id: NodeId, memory: &[Memory]| {
            operands.iter_mut().zip(memory).for_each(|((_, place), &memory)| *place = at(memory));
            let values = results_of(&self.graph, id);
            results.iter_mut().zip(values).for_each(|((_, place), value)| *place = at(Memory::Value(value)));
        };
        match (draft, step) {
            (Draft::Rows(lowered, _), Step::Rows(program, offset)) => {
                *offset = scratch;
                program.for_each_place(|base, offset, unit| {
                    if *base == FRAME || *base == SCRATCH {
                        return;
                    }
                    let location = at(lowered.buffers[(*base - FIRST_BUFFER) as usize]);
                    *base = location.base;
                    *offset += location.offset / unit;
                });
            }
            (Draft::Dot { out, memory, .. }, Step::Dot(dot)) => {
                let (lhs, rhs, out) = (at(memory[0]), at(memory[1]), at(Memory::Value(*out)));
                (dot.lhs.base, dot.rhs.base, dot.out_base) = (lhs.base, rhs.base, out.base);
                dot.lhs.offset += lhs.offset;
                dot.rhs.offset += rhs.offset;
                dot.out_offset = out.offset;
            }
            (Draft::Attention { id, memory, .. }, Step::Attention(attention)) => {
                let operands: SmallVec<[Location; 8]> = memory.iter().map(|&memory| at(memory)).collect();
                let results: SmallVec<[Location; 3]> =
                    results_of(&self.graph, *id).map(|value| at(Memory::Value(value))).collect();
                attention::place(attention, &operands, &results);
            }
            (Draft::Copy { out, memory, .. }, Step::Copy(copy)) => {
                let (src, dst) = (at(*memory), at(Memory::Value(*out)));
                (copy.src_base, copy.dst_base, copy.dst_offset) = (src.base, dst.base, dst.offset);
                copy.src_offset += src.offset;
            }
            (Draft::Kernel { id, memory }, Step::Kernel(step) | Step::Collective(step)) => {
                step.scratch.0 = scratch;
                located(&mut step.operands, &mut step.results, *id, memory);
            }
            (Draft::Control { id, memory, .. }, Step::Control(step)) => {
                located(&mut step.operands, &mut step.results, *id, memory);
            }
            // Each draft has made its own kind of step.
            _ => {}
        }
    }
}

/// A place that is not known yet.
const NOWHERE: Location = Location { base: memory::ARENA, offset: 0 };

/// The number of each node's first result, and of all values.
fn numbers(graph: &Graph) -> Vec<Number> {
    let mut next = 0;
    let mut numbers: Vec<Number> = Vec::with_capacity(graph.nodes.len() + 1);
    for node in &graph.nodes {
        numbers.push(next);
        next += node.types.len() as Number;
    }
    numbers.push(next);
    numbers
}

fn number(numbers: &[Number], value: Value) -> Number {
    numbers[value.node.0 as usize] + value.result
}

/// Units that read a root: the only one, or more than one; results count as more.
#[derive(Clone, Copy, PartialEq)]
enum Readers {
    None,
    One(usize),
    Many,
}

struct Compiler<'a> {
    context: &'a Context<'a>,
    constants: Constants,
    /// What has the blocks.
    source: &'a Graph,
    numbers: &'a [Number],
}

impl Compiler<'_> {
    /// Which units read each root.
    fn readers(&self) -> Vec<Readers> {
        let (graph, fusion) = (self.context.graph, self.context.fusion);
        let mut readers = vec![Readers::None; self.numbers.last().map_or(0, |&last| last as usize)];
        let mut read = |view: &View, unit: usize, own: &[NodeId]| {
            if let Root::Value(root) = view.root
                && own.binary_search(&root.node).is_err()
            {
                let entry = &mut readers[number(self.numbers, root) as usize];
                *entry = match *entry {
                    Readers::None if unit != usize::MAX => Readers::One(unit),
                    Readers::One(other) if other == unit => Readers::One(unit),
                    _ => Readers::Many,
                };
            }
        };
        for (index, unit) in fusion.units.iter().enumerate() {
            // A group reads its own values where they are computed.
            let (nodes, own): (&[NodeId], &[NodeId]) = match unit {
                Unit::Group(group) => (&group.nodes[..], &group.nodes[..]),
                Unit::Dot(id) | Unit::Attention(id) | Unit::Kernel(id) => (std::slice::from_ref(id), &[]),
                Unit::Copy(_, view) => {
                    read(view, index, &[]);
                    continue;
                }
            };
            nodes.iter().flat_map(|&id| fusion.reads(id)).for_each(|view| read(view, index, own));
        }
        let wanted = graph.blocks[0].results.iter().chain(graph.checks.iter().map(|check| &check.value));
        for &value in wanted {
            read(&fusion.result(graph, value), usize::MAX, &[]);
        }
        readers
    }

    fn draft(&mut self, unit: &Unit, needed: &dyn Fn(Value) -> bool) -> Result<Draft> {
        let (graph, fusion) = (self.context.graph, self.context.fusion);
        Ok(match unit {
            Unit::Group(group) => {
                let lowered = lower::lower(self.context, &mut self.constants, group, needed);
                Draft::Rows(Box::new(lowered), Flops::of(graph, &group.nodes))
            }
            Unit::Dot(id) => {
                let node = &graph[*id];
                let Op::DotGeneral(dims) = &node.op else { return Err(fault("a product that is none")) };
                let [lhs, rhs] = fusion.reads(*id) else { return Err(fault("a product of one operand")) };
                let memory = [self.root(lhs), self.root(rhs)];
                let (out, dims, views) = (Value::from(*id), dims.clone(), Box::new([lhs.clone(), rhs.clone()]));
                Draft::Dot { out, dims, factors: graph.ty(node.operands[0]).dtype, views, memory }
            }
            Unit::Attention(id) => {
                let dtypes = graph[*id].operands.iter().map(|&value| graph.ty(value).dtype).collect();
                Draft::Attention { id: *id, dtypes, views: fusion.reads(*id).into(), memory: self.roots(*id) }
            }
            Unit::Kernel(id) => {
                let (id, memory) = (*id, self.roots(*id));
                match &graph[id].op {
                    Op::While { cond, body } => {
                        let (cond, body) = (Box::new(self.block(*cond)?), Box::new(self.block(*body)?));
                        Draft::Control { id, memory, blocks: Blocks::While { cond, body } }
                    }
                    Op::Case { branches } => {
                        let branches = branches.iter().map(|&branch| self.block(branch)).collect::<Result<_>>()?;
                        Draft::Control { id, memory, blocks: Blocks::Case(branches) }
                    }
                    _ => Draft::Kernel { id, memory },
                }
            }
            Unit::Copy(value, view) if matches!(view.root, Root::Iota(_)) => {
                let lowered = lower::lower_view(self.context, &mut self.constants, *value, view);
                Draft::Rows(Box::new(lowered), Flops::default())
            }
            Unit::Copy(value, view) => {
                let memory = self.root(view);
                Draft::Copy { out: *value, view: Box::new(view.clone()), memory }
            }
        })
    }

    /// A block as a program.
    fn block(&self, block: BlockId) -> Result<Form> {
        let options = CompileOptions { strict_rounding: self.context.strict_rounding };
        Form::new(&self.source.program_of(block), options, self.context.isa, true)
    }

    fn root(&mut self, view: &View) -> Memory {
        match &view.root {
            Root::Value(root) => Memory::Value(*root),
            Root::Constant(literal) => Memory::Constant(self.constants.place(literal)),
            Root::Iota(_) => Memory::Constant(0),
        }
    }

    fn roots(&mut self, id: NodeId) -> SmallVec<[Memory; 4]> {
        self.context.fusion.reads(id).iter().map(|view| self.root(view)).collect()
    }
}

fn values(memory: &[Memory]) -> impl Iterator<Item = Value> {
    memory.iter().filter_map(|memory| match memory {
        Memory::Value(value) => Some(*value),
        Memory::Constant(_) => None,
    })
}

fn results_of(graph: &Graph, node: NodeId) -> impl Iterator<Item = Value> {
    (0..graph[node].types.len() as u32).map(move |result| Value { node, result })
}

impl Draft {
    /// What it reads from memory.
    fn memory(&self) -> &[Memory] {
        match self {
            Self::Rows(lowered, _) => &lowered.buffers,
            Self::Dot { memory, .. } => memory,
            Self::Copy { memory, .. } => std::slice::from_ref(memory),
            Self::Attention { memory, .. } | Self::Kernel { memory, .. } | Self::Control { memory, .. } => memory,
        }
    }

    /// The values that it writes.
    fn writes(&self, graph: &Graph) -> SmallVec<[Value; 4]> {
        match self {
            Self::Rows(lowered, _) => lowered.outputs.iter().copied().collect(),
            Self::Dot { out, .. } | Self::Copy { out, .. } => SmallVec::from_slice(&[*out]),
            Self::Attention { id, .. } | Self::Kernel { id, .. } | Self::Control { id, .. } => {
                results_of(graph, *id).collect()
            }
        }
    }
}

/// What a draft does with memory.
fn uses(graph: &Graph, draft: &Draft, numbers: &[Number]) -> Use {
    let number = |value: Value| number(numbers, value);
    let written = draft.writes(graph);
    let reads = values(draft.memory()).filter(|value| !written.contains(value)).map(number).collect();
    let uses = Use { reads, writes: written.iter().map(|&value| number(value)).collect(), ..Use::default() };
    let in_place: Vec<(Value, Value)> = match draft {
        Draft::Rows(lowered, _) => lowered.in_place.clone(),
        Draft::Kernel { id, memory } => {
            takes_over(*id, memory, kernels::in_place(&graph[*id].op).into_iter().map(|operand| (0, operand)))
        }
        // A loop's values start where its results are.
        Draft::Control { id, memory, blocks: Blocks::While { .. } } => {
            takes_over(*id, memory, (0..memory.len()).map(|at| (at as u32, at)))
        }
        Draft::Control { .. } | Draft::Dot { .. } | Draft::Attention { .. } | Draft::Copy { .. } => Vec::new(),
    };
    let fallible = match draft {
        Draft::Kernel { id, .. } => kernels::can_fail(&graph[*id].op),
        Draft::Control { .. } => true,
        _ => false,
    };
    Use {
        in_place: in_place.into_iter().map(|(written, read)| (number(written), number(read))).collect(),
        copies: matches!(draft, Draft::Kernel { .. } | Draft::Control { .. }),
        fallible,
        ..uses
    }
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
