//! What a compiled program is, for people and tools: the work of each kernel, its ops, and where values are in memory.

use super::memory::{ARENA, CONSTANTS, FIRST_ARGUMENT, Location, Plan};
use super::{Compiler, Draft, Use, planned_bytes};
use crate::ir::{Graph, NodeId, Op, Value};
use crate::runtime::KernelInfo;
use crate::runtime::host::row::program::RowProgram;
use serde_json::{Value as Json, json};
use std::collections::HashMap;

/// Values of a program that are listed at most.
const VALUES: usize = 4096;

/// The kernel of a draft, for tests and tools.
pub(super) fn info(graph: &Graph, draft: &Draft, uses: &Use, bytes: &dyn Fn(Value) -> usize) -> KernelInfo {
    let name = |id: NodeId| graph[id].op.name().to_owned();
    let (kind, ops) = match draft {
        Draft::Rows(lowered) => ("row_program".to_owned(), lowered.nodes.iter().map(|&id| name(id)).collect()),
        Draft::Dot(_, _, out) => ("dot_general".to_owned(), vec![name(out.node)]),
        Draft::Attention(attention, _, id) => (attention.name().to_owned(), vec![name(*id)]),
        Draft::Copy(_, _, out) => ("copy".to_owned(), vec![name(out.node)]),
        Draft::Kernel(id, _) => (name(*id), vec![name(*id)]),
        Draft::Control(id, _, control) => {
            let inner = control.programs().flat_map(|program| &program.kernels).flat_map(|kernel| kernel.ops.clone());
            (name(*id), std::iter::once(name(*id)).chain(inner).collect())
        }
    };
    let flops = match draft {
        Draft::Rows(lowered) => lowered.nodes.iter().map(|&id| flops(graph, id)).sum(),
        Draft::Dot(dot, ..) => dot.flops(),
        Draft::Attention(attention, ..) => attention.flops(),
        Draft::Kernel(id, _) => flops(graph, *id),
        Draft::Control(_, _, control) => control.programs().map(|program| program.flops).sum(),
        Draft::Copy(..) => 0.0,
    };
    let moved = uses.reads.iter().chain(&uses.writes).map(|&value| bytes(value) as f64).sum();
    KernelInfo {
        kind,
        ops,
        reads: uses.reads.len(),
        writes: uses.writes.len(),
        bytes: moved,
        flops,
        ..KernelInfo::default()
    }
}

/// Operations on numbers that an op is, a multiplication and an addition counted as two, a function as one.
fn flops(graph: &Graph, id: NodeId) -> f64 {
    let node = &graph[id];
    let elements = |value: Value| graph.ty(value).shape.elements().map_or(f64::INFINITY, |n| n as f64);
    let result = elements(id.into());
    match &node.op {
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Clamp => result,
        Op::Reduce { .. } | Op::ArgReduce { .. } | Op::Cumulative { .. } => elements(node.operands[0]),
        Op::ReduceWindow { window, .. } => result * window.sizes.iter().product::<usize>() as f64,
        Op::DotGeneral(dims) => {
            let lhs = &graph.ty(node.operands[0]).shape;
            2.0 * result * dims.lhs_contract.iter().map(|&axis| lhs.size(axis) as f64).product::<f64>()
        }
        Op::Convolution(dims) => {
            let kernel = &graph.ty(node.operands[1]).shape;
            2.0 * result * elements(node.operands[1]) / kernel.size(dims.kernel_output_feature).max(1) as f64
        }
        _ => 0.0,
    }
}

impl Compiler<'_> {
    /// The whole program: each kernel's ops with what they read, and the memory plan.
    pub(super) fn describe(&self, drafts: &[Draft], uses: &[Use], plan: &Plan, bytes: &dyn Fn(Value) -> usize) -> Json {
        let kernels: Vec<Json> = drafts.iter().map(|draft| self.form(draft)).collect();
        let mut times: HashMap<Value, (usize, usize)> = HashMap::new();
        for (step, uses) in uses.iter().enumerate() {
            for &value in uses.reads.iter().chain(&uses.writes) {
                times.entry(value).or_insert((step, step)).1 = step;
            }
        }
        let mut values: Vec<_> = plan.locations.iter().map(|(&value, &at)| (value, at)).collect();
        values.sort_by_key(|(value, _)| (value.node, value.result));
        let listed = values.iter().take(VALUES).map(|&(value, at)| {
            let (first, last) = times.get(&value).map_or((Json::Null, Json::Null), |t| (t.0.into(), t.1.into()));
            json!({
                "value": self.name(value), "bytes": bytes(value), "place": self.place(at), "offset": at.offset,
                "first_kernel": first, "last_kernel": last,
            })
        });
        let listed: Vec<Json> = listed.collect();
        let results: Vec<Json> =
            plan.slots.iter().map(|slot| json!({ "bytes": slot.bytes, "takes_argument": slot.donor })).collect();
        json!({
            "kernels": kernels,
            "memory": {
                "temporaries_bytes": plan.arena_bytes, "constants_bytes": self.constants.bytes().len(),
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

    fn place(&self, at: Location) -> String {
        let arguments = self.context.graph.blocks[0].parameters.len() as u32;
        match at.base {
            ARENA => "temporaries".to_owned(),
            CONSTANTS => "constants".to_owned(),
            base if base < FIRST_ARGUMENT + arguments => format!("argument {}", base - FIRST_ARGUMENT),
            base => format!("result {}", base - FIRST_ARGUMENT - arguments),
        }
    }

    /// How a kernel runs.
    fn form(&self, draft: &Draft) -> Json {
        let graph = self.context.graph;
        let op = |&id: &NodeId| {
            let node = &graph[id];
            let operands: Vec<String> = node.operands.iter().map(|&value| self.name(value)).collect();
            let types: Vec<String> = node.types.iter().map(ToString::to_string).collect();
            let (name, result) = (node.op.name(), self.name(id.into()));
            format!("{result} = {name}({}): {}", operands.join(", "), types.join(", "))
        };
        match draft {
            Draft::Rows(lowered) => {
                let ops: Vec<String> = lowered.nodes.iter().map(op).collect();
                json!({ "ops": ops, "rows": rows(&lowered.program) })
            }
            Draft::Dot(dot, _, out) => {
                let matrix = |m: &crate::runtime::host::dot::Matrix| json!({ "row": m.row, "column": m.col });
                json!({
                    "ops": [op(&out.node)], "batch": dot.batch.to_vec(), "m": dot.m, "n": dot.n, "k": dot.k,
                    "strides": [matrix(&dot.lhs), matrix(&dot.rhs)],
                })
            }
            Draft::Copy(copy, _, out) => json!({ "ops": [op(&out.node)], "sizes_and_strides": copy.axes.to_vec() }),
            Draft::Kernel(id, _) => json!({ "ops": [op(id)], "scratch_bytes": planned_bytes(graph, *id) }),
            Draft::Attention(_, _, id) | Draft::Control(id, ..) => json!({ "ops": [op(id)] }),
        }
    }
}

fn rows(program: &RowProgram) -> Json {
    let phase = |phase: &crate::runtime::host::row::program::Phase| json!({ "per_row": phase.head.len(), "per_element": phase.body.len(), "row_reductions": phase.folds.len() });
    json!({
        "rows": program.rows, "columns": program.cols, "rows_of_a_tile": program.tile_rows,
        "cut": format!("{:?}", program.cut), "instructions": program.phases.iter().map(phase).collect::<Vec<_>>(),
        "column_reductions": program.columns.len(), "rows_of_a_column_reduction": program.fold_rows,
        "frame_bytes": program.frame_bytes, "scratch_bytes": program.scratch_bytes,
        "estimated_nanoseconds": program.nanoseconds,
    })
}
