//! What a compiled program is, for people and tools: the work of each kernel, its ops, and where values are in memory.

use super::form::{Blocks, Draft, Form};
use super::memory::{ARENA, CONSTANTS, FIRST_ARGUMENT, Location, Plan, Use};
use super::size::{self, Size, Values};
use crate::ir::{Graph, NodeId, Op, Type, Value};
use crate::runtime::host::program::{KernelName, KernelStep, Step};
use crate::runtime::host::row::program::{Phase, RowProgram};
use serde_json::{Value as Json, json};
use smallvec::SmallVec;

/// Values of a program that are listed at most.
const VALUES: usize = 4096;

/// The kernel of a draft, for tests and tools.
pub(super) fn name(graph: &Graph, draft: &Draft, uses: &Use) -> KernelName {
    let name = |id: NodeId| graph[id].op.name().to_owned();
    let (kind, ops) = match draft {
        Draft::Rows(lowered, _) => ("row_program".to_owned(), lowered.nodes.iter().map(|&id| name(id)).collect()),
        Draft::Dot { out, .. } => ("dot_general".to_owned(), vec![name(out.node)]),
        Draft::Copy { out, .. } => ("copy".to_owned(), vec![name(out.node)]),
        Draft::Attention { id, .. } => {
            let kind = match &graph[*id].op {
                Op::Composite { name, .. } => name.trim_start_matches("tpu.").to_owned(),
                _ => name(*id),
            };
            (kind, vec![name(*id)])
        }
        Draft::Kernel { id, .. } => (name(*id), vec![name(*id)]),
        Draft::Control { id, blocks, .. } => {
            let forms: Vec<&Form> = match blocks {
                Blocks::While { cond, body } => vec![cond, body],
                Blocks::Case(branches) => branches.iter().collect(),
            };
            let inner = forms.into_iter().flat_map(Form::names).flat_map(|kernel| kernel.ops.clone());
            (name(*id), std::iter::once(name(*id)).chain(inner).collect())
        }
    };
    KernelName { kind, ops, reads: uses.reads.len(), writes: uses.writes.len() }
}

/// Operations on numbers of a group: so many times the elements of something.
#[derive(Default)]
pub(super) struct Flops(SmallVec<[(f64, Size); 2]>);

impl Flops {
    /// Those of the members of a group.
    pub fn of(graph: &Graph, nodes: &[NodeId]) -> Self {
        let mut flops = Self::default();
        for &id in nodes {
            let counted = match &graph[id].op {
                Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Clamp => Value::from(id),
                Op::Reduce { .. } => graph[id].operands[0],
                _ => continue,
            };
            let elements = size::elements(graph.ty(counted));
            match flops.0.iter_mut().find(|(_, known)| known.is_same_formula(elements)) {
                Some(known) => known.0 += 1.0,
                None => flops.0.push((1.0, elements)),
            }
        }
        flops
    }
}

/// Operations on numbers of a step, a multiplication and an addition counted as two, a function as one.
pub(super) fn flops(draft: &Draft, step: &Step, values: &Values) -> f64 {
    match (draft, step) {
        (Draft::Rows(_, flops), _) => flops.0.iter().map(|&(times, size)| times * values.of(size) as f64).sum(),
        (_, Step::Dot(dot)) => dot.flops(),
        (_, Step::Attention(attention)) => attention.flops(),
        (_, Step::Kernel(step)) => flops_of(step),
        (_, Step::Control(step)) => step.control.programs().map(|program| program.flops).sum(),
        _ => 0.0,
    }
}

fn flops_of(step: &KernelStep) -> f64 {
    let elements = |ty: &Type| ty.shape.elements().map_or(f64::INFINITY, |n| n as f64);
    let result = step.results.first().map_or(0.0, |(ty, _)| elements(ty));
    let operand = |at: usize| &step.operands[at].0;
    match &step.op {
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Clamp => result,
        Op::Reduce { .. } | Op::ArgReduce { .. } | Op::Cumulative { .. } => elements(operand(0)),
        Op::ReduceWindow { window, .. } => result * window.sizes.iter().product::<usize>() as f64,
        Op::DotGeneral(dims) => {
            let lhs = &operand(0).shape;
            2.0 * result * dims.lhs_contract.iter().map(|&axis| lhs.size(axis) as f64).product::<f64>()
        }
        Op::Convolution(dims) => {
            let kernel = &operand(1).shape;
            2.0 * result * elements(operand(1)) / kernel.size(dims.kernel_output_feature).max(1) as f64
        }
        _ => 0.0,
    }
}

impl Form {
    /// The whole program: each kernel's ops with what they read, and the memory plan.
    pub(super) fn describe(&self, steps: &[Step], plan: &Plan, bytes: &[usize], sizes: &Values) -> Json {
        let kernels: Vec<Json> =
            self.drafts.iter().zip(steps).map(|(draft, step)| self.kernel(draft, step, sizes)).collect();
        let mut times: Vec<Option<(usize, usize)>> = vec![None; plan.locations.len()];
        for (step, uses) in self.request.steps().iter().enumerate() {
            for &value in uses.reads.iter().chain(&uses.writes) {
                times[value as usize].get_or_insert((step, step)).1 = step;
            }
        }
        let all = (0..self.graph.nodes.len() as u32).flat_map(|node| {
            (0..self.graph.nodes[node as usize].types.len() as u32)
                .map(move |result| Value { node: NodeId(node), result })
        });
        let located = |value: Value| plan.locations[self.number(value) as usize].map(|at| (value, at));
        let values: Vec<(Value, Location)> = all.filter_map(located).collect();
        let listed = values.iter().take(VALUES).map(|&(value, at)| {
            let number = self.number(value) as usize;
            let (first, last) = times[number].map_or((Json::Null, Json::Null), |t| (t.0.into(), t.1.into()));
            json!({
                "value": self.name(value), "bytes": bytes[number], "place": self.place_name(at), "offset": at.offset,
                "first_kernel": first, "last_kernel": last,
            })
        });
        let listed: Vec<Json> = listed.collect();
        let results: Vec<Json> =
            plan.slots.iter().map(|slot| json!({ "bytes": slot.bytes, "takes_argument": slot.donor })).collect();
        json!({
            "kernels": kernels,
            "memory": {
                "temporaries_bytes": plan.arena_bytes, "constants_bytes": self.constants.len,
                "peak_bytes": plan.peak_bytes, "results": results, "values": listed,
                "values_are_cut": values.len() > VALUES,
            },
        })
    }

    fn name(&self, value: Value) -> String {
        match value.result {
            0 => format!("%{}", value.node.0),
            result => format!("%{}#{result}", value.node.0),
        }
    }

    fn place_name(&self, at: Location) -> String {
        let arguments = self.graph.blocks[0].parameters.len() as u32;
        match at.base {
            ARENA => "temporaries".to_owned(),
            CONSTANTS => "constants".to_owned(),
            base if base < FIRST_ARGUMENT + arguments => format!("argument {}", base - FIRST_ARGUMENT),
            base => format!("result {}", base - FIRST_ARGUMENT - arguments),
        }
    }

    /// How a kernel runs.
    fn kernel(&self, draft: &Draft, step: &Step, sizes: &Values) -> Json {
        let graph = &self.graph;
        let op = |&id: &NodeId| {
            let node = &graph[id];
            let operands: Vec<String> = node.operands.iter().map(|&value| self.name(value)).collect();
            let types: Vec<String> = node.types.iter().map(|ty| sizes.ty(ty).to_string()).collect();
            let (name, result) = (node.op.name(), self.name(id.into()));
            format!("{result} = {name}({}): {}", operands.join(", "), types.join(", "))
        };
        match (draft, step) {
            (Draft::Rows(lowered, _), Step::Rows(program, _)) => {
                let ops: Vec<String> = lowered.nodes.iter().map(op).collect();
                json!({ "ops": ops, "rows": rows(program) })
            }
            (Draft::Dot { out, .. }, Step::Dot(dot)) => {
                let matrix = |m: &crate::runtime::host::dot::Matrix| json!({ "row": m.row, "column": m.col });
                json!({
                    "ops": [op(&out.node)], "batch": dot.batch.to_vec(), "m": dot.m, "n": dot.n, "k": dot.k,
                    "strides": [matrix(&dot.lhs), matrix(&dot.rhs)],
                })
            }
            (Draft::Copy { out, .. }, Step::Copy(copy)) => {
                json!({ "ops": [op(&out.node)], "sizes_and_strides": copy.axes.to_vec() })
            }
            (Draft::Kernel { id, .. }, Step::Kernel(step) | Step::Collective(step)) => {
                json!({ "ops": [op(id)], "scratch_bytes": step.scratch.1 })
            }
            (Draft::Attention { id, .. } | Draft::Control { id, .. }, _) => json!({ "ops": [op(id)] }),
            _ => Json::Null,
        }
    }
}

fn rows(program: &RowProgram) -> Json {
    let phase = |phase: &Phase| json!({ "per_row": phase.head.len(), "per_element": phase.body.len(), "row_reductions": phase.folds.len() });
    json!({
        "rows": program.rows, "columns": program.cols, "rows_of_a_tile": program.tile_rows,
        "cut": format!("{:?}", program.cut), "instructions": program.phases.iter().map(phase).collect::<Vec<_>>(),
        "column_reductions": program.columns.len(), "rows_of_a_column_reduction": program.fold_rows,
        "frame_bytes": program.frame_bytes, "scratch_bytes": program.scratch_bytes,
        "estimated_nanoseconds": program.nanoseconds,
    })
}
