//! Google's TPU compiler takes every op of every dtype, or it is refused by name.
#![allow(clippy::print_stderr, reason = "a test that does not run says so, and how long modules took")]

mod pjrt;

use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tpu_core::ErrorKind;
use tpu_core::ir::verify::verify;
use tpu_core::ir::{Graph, samples, text};
use tpu_core::plan::{Compiler, Program, Target};
use tpu_core::testing::batch::merged;

fn compiler() -> Option<&'static Compiler> {
    static COMPILER: OnceLock<Option<Compiler>> = OnceLock::new();
    let open = || pjrt::plugin(pjrt::TPU).map(|path| Compiler::open(path).unwrap());
    COMPILER.get_or_init(open).as_ref()
}

/// What is not compiled, by what the names of its samples begin with, and what the refusal says.
const REFUSED: &[(&str, ErrorKind, &str)] = &[
    // A program is planned for one device, unless it says for how many: `plan_devices.rs` has these.
    ("all_gather", ErrorKind::Unsupported, "requires one device"),
    ("all_reduce", ErrorKind::Unsupported, "requires one device"),
    ("all_to_all", ErrorKind::Unsupported, "requires one device"),
    ("collective_permute", ErrorKind::Unsupported, "requires one device"),
    ("reduce_scatter", ErrorKind::Unsupported, "requires one device"),
    // Nobody has registered a kernel of the sample's name.
    ("custom_call", ErrorKind::Value, "Custom emitter for"),
    // What XLA for TPU lacks, on v5e, v6e and tpu7x alike: 64-bit numbers are pairs there. The backend refuses these by name
    // when they are recorded. All other cells but the slow ones compile for each of the three in 23 to 26 s of one processor.
    ("convolution int64", ErrorKind::Unsupported, "%convolution"),
    ("convolution uint64", ErrorKind::Unsupported, "%convolution"),
    ("reduce_precision float64", ErrorKind::Unsupported, "%reduce-precision"),
    ("select_and_scatter float64", ErrorKind::Unsupported, "%select-and-scatter"),
    ("select_and_scatter int64", ErrorKind::Unsupported, "%select-and-scatter"),
    ("select_and_scatter uint64", ErrorKind::Unsupported, "%select-and-scatter"),
    // Values of 2⁶² and 2⁴¹ bytes: the program is right, the chip too small.
    ("broadcast of 2^60", ErrorKind::OutOfMemory, "Ran out of memory"),
    ("constant equal", ErrorKind::OutOfMemory, "Ran out of memory"),
];

fn is_refused(name: &str) -> bool {
    REFUSED.iter().any(|(refused, ..)| name.starts_with(refused))
}

/// What takes the compiler longest, compiled only with TPU_TEST_FULL=1: 64-bit numbers are pairs on a TPU. To divide two
/// integers takes it a minute, a function of f64 seconds.
fn is_slow(name: &str) -> bool {
    const FUNCTIONS: [&str; 17] = [
        "atan2",
        "cbrt",
        "cosine",
        "cholesky",
        "eigh",
        "erf",
        "exponential",
        "log",
        "logistic",
        "lu",
        "power",
        "qr",
        "remainder",
        "rsqrt",
        "sine",
        "tan",
        "triangular_solve",
    ];
    let (op, dtype) = name.rsplit_once(' ').unwrap_or((name, ""));
    match dtype {
        "float64" => FUNCTIONS.iter().any(|function| op.starts_with(function)),
        "int64" | "uint64" => ["divide", "remainder", "power"].contains(&op),
        _ => false,
    }
}

fn program(graph: &Graph) -> Program {
    Program::from_text(text::print(verify(graph).unwrap()))
}

/// Why the target's compiler does not take the program.
fn refusal(target: &Target, graph: &Graph) -> Option<tpu_core::Error> {
    let plan = target.plan(&program(graph), &mut |_| {}).unwrap();
    plan.outcome.err().map(|refusal| refusal.error)
}

/// Compiles modules of so many programs each, and those of a refused module one by one to find who it was.
fn all_compile(target: &str) {
    const IN_A_MODULE: usize = 48;
    let Some(compiler) = compiler() else { return };
    let target = compiler.target(target).unwrap();
    let full = std::env::var_os("TPU_TEST_FULL").is_some();
    let mut all = samples::every_op();
    all.retain(|(name, _)| !is_refused(name) && (full || !is_slow(name)));
    assert!(all.len() > 1200, "{}", all.len());
    let (mut bad, mut total) = (Vec::new(), Duration::ZERO);
    for programs in all.chunks(IN_A_MODULE) {
        let start = Instant::now();
        let graphs: Vec<&Graph> = programs.iter().map(|(_, graph)| graph).collect();
        if refusal(&target, &merged(&graphs)).is_some() {
            let one = |(name, graph): &(String, Graph)| Some(format!("{name}: {}", refusal(&target, graph)?));
            let before = bad.len();
            bad.extend(programs.iter().filter_map(one));
            assert!(bad.len() > before, "programs compile one by one and not together");
        }
        total += start.elapsed();
    }
    eprintln!("{}: {} programs in {:.1} s", target.name(), all.len(), total.as_secs_f64());
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
    for &(refused, kind, why) in REFUSED {
        let (_, graph) =
            all.iter().find(|(name, _)| name.starts_with(refused)).unwrap_or_else(|| panic!("no sample {refused}"));
        let error = refusal(&target, graph).unwrap_or_else(|| panic!("{refused} compiles"));
        assert!(error.kind() == kind && error.message().contains(why), "{refused}: {error:?}");
    }
}
