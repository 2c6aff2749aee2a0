//! Google's TPU compiler takes every operation, or it is refused by name.
#![allow(clippy::print_stderr, reason = "a test that does not run says so")]

mod pjrt;

use std::collections::HashSet;
use std::sync::OnceLock;
use tpu_core::DType;
use tpu_core::ir::verify::verify;
use tpu_core::ir::{BlockId, Check, Graph, NodeId, Op, Value, samples, text};
use tpu_core::plan::{Compiler, Program, Target};

fn compiler() -> Option<&'static Compiler> {
    static COMPILER: OnceLock<Option<Compiler>> = OnceLock::new();
    let open = || pjrt::plugin(pjrt::TPU).map(|path| Compiler::open(path).unwrap());
    COMPILER.get_or_init(open).as_ref()
}

/// One program that does what all of these do, side by side.
fn side_by_side<'a>(programs: impl IntoIterator<Item = &'a Graph>) -> Graph {
    let mut all = Graph::new();
    for program in programs {
        let (nodes, blocks) = (all.nodes.len() as u32, all.blocks.len() as u32 - 1);
        // Its main block becomes part of the main block, the others follow.
        let block = |BlockId(id): BlockId| BlockId(if id == 0 { 0 } else { id + blocks });
        let node = |NodeId(id): NodeId| NodeId(id + nodes);
        let value = |at: Value| Value { node: node(at.node), ..at };
        for original in &program.nodes {
            let mut copy = original.clone();
            copy.op.map_blocks(block);
            copy.operands.iter_mut().for_each(|operand| *operand = value(*operand));
            all.nodes.push(copy);
        }
        for (at, original) in program.blocks.iter().enumerate() {
            if at > 0 {
                all.blocks.push(Default::default());
            }
            let into = &mut all.blocks[block(BlockId(at as u32)).0 as usize];
            into.parameters.extend(original.parameters.iter().map(|&id| node(id)));
            into.nodes.extend(original.nodes.iter().map(|&id| node(id)));
            into.results.extend(original.results.iter().map(|&at| value(at)));
        }
        for (index, id) in all.blocks[0].parameters.iter().enumerate() {
            if let Op::Parameter { index: known, .. } = &mut all.nodes[id.0 as usize].op {
                *known = index;
            }
        }
        let check = |check: &Check| Check { value: value(check.value), guards: node(check.guards) };
        all.checks.extend(program.checks.iter().map(check));
    }
    all
}

/// Samples of every operation: each row in the first of these dtypes that it takes, and what shows attributes and sizes. All
/// dtypes with TPU_TEST_FULL=1. 64-bit numbers are pairs on a TPU: to divide two of them takes its compiler minutes.
fn every_op() -> Vec<(String, Graph)> {
    let suffix = |dtype: DType| format!(" {dtype}");
    let (rows, special): (Vec<_>, Vec<_>) = samples::every_op()
        .into_iter()
        .filter(|(name, _)| !is_refused(name))
        .partition(|(name, _)| DType::ALL.iter().any(|&dtype| name.ends_with(&suffix(dtype))));
    let full = std::env::var_os("TPU_TEST_FULL").is_some();
    let (mut seen, mut chosen) = (HashSet::new(), special);
    for dtype in [DType::F32, DType::I32, DType::Bool, DType::Complex64].into_iter().chain(DType::ALL) {
        for (name, graph) in rows.iter().filter(|(name, _)| name.ends_with(&suffix(dtype))) {
            let row = name.strip_suffix(&suffix(dtype)).unwrap().to_string();
            if seen.insert(if full { name.clone() } else { row }) {
                chosen.push((name.clone(), graph.clone()));
            }
        }
    }
    chosen
}

/// What is not compiled, by what the names of its samples begin with, and what the refusal says.
const REFUSED: &[(&str, &str)] = &[
    // A program is planned for one device, unless it says for how many: `plan_devices.rs` has these.
    ("all_gather", "requires one device"),
    ("all_reduce", "requires one device"),
    ("all_to_all", "requires one device"),
    ("collective_permute", "requires one device"),
    ("reduce_scatter", "requires one device"),
    // Nobody has registered a kernel of the sample's name.
    ("custom_call", "Custom emitter for"),
    // Values of 2⁶² and 2⁴¹ bytes: the program is right, the chip too small.
    ("broadcast of 2^60", "Ran out of memory"),
    ("constant equal", "Ran out of memory"),
];

fn is_refused(name: &str) -> bool {
    REFUSED.iter().any(|(refused, _)| name.starts_with(refused))
}

fn program(graph: &Graph) -> Program {
    Program::from_text(text::print(verify(graph).unwrap()))
}

/// Why the target's compiler does not take the program.
fn refusal(target: &Target, graph: &Graph) -> Option<String> {
    let plan = target.plan(&program(graph), &mut |_| {}).unwrap();
    plan.outcome.err().map(|refusal| refusal.error.to_string())
}

/// Compiles modules of so many programs each, and those of a refused module one by one to find who it was.
fn all_compile(target: &str) {
    const IN_A_MODULE: usize = 48;
    let Some(compiler) = compiler() else { return };
    let target = compiler.target(target).unwrap();
    let all = every_op();
    assert!(all.len() > 200, "{}", all.len());
    let mut bad = Vec::new();
    for programs in all.chunks(IN_A_MODULE) {
        if refusal(&target, &side_by_side(programs.iter().map(|(_, graph)| graph))).is_some() {
            let one = |(name, graph): &(String, Graph)| Some(format!("{name}: {}", refusal(&target, graph)?));
            bad.extend(programs.iter().filter_map(one));
            assert!(!bad.is_empty(), "programs compile one by one and not together");
        }
    }
    assert!(bad.is_empty(), "{} does not compile:\n{}", target.name(), bad.join("\n"));
}

#[test]
fn every_op_compiles_for_v5e() {
    all_compile("v5e:1x1");
}

#[test]
fn every_op_compiles_for_v6e() {
    all_compile("v6e:1x1");
}

#[test]
fn every_op_compiles_for_tpu7x() {
    all_compile("tpu7x:1x1x1");
}

#[test]
fn what_is_not_compiled_is_refused_by_name() {
    let Some(compiler) = compiler() else { return };
    let target = compiler.target("v5e:1x1").unwrap();
    let all = samples::every_op();
    for &(refused, why) in REFUSED {
        let (_, graph) =
            all.iter().find(|(name, _)| name.starts_with(refused)).unwrap_or_else(|| panic!("no sample {refused}"));
        let message = refusal(&target, graph).unwrap_or_else(|| panic!("{refused} compiles"));
        assert!(message.contains(why), "{refused}: {message}");
    }
}
