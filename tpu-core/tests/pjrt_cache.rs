//! Programs that a plugin compiled, kept for the next process.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what children of the test say; a test that does not run"
)]

mod pjrt;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tpu_core::runtime::pjrt::{OptionValue, Pjrt, PjrtOptions, ProgramOptions};
use tpu_core::runtime::{Backend, Cache, CompileOptions};
use tpu_core::{Device, Tensor, lazy};

/// What a child does: three different programs, the same numbers whichever way they come about.
fn work() -> (Vec<f32>, u64, u64) {
    let before = lazy::statistics();
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let mut all = (&x * 2.0 + 1.0).to_vec::<f32>().unwrap();
    all.extend(x.sum_all().unwrap().to_vec::<f32>().unwrap());
    all.extend(x.i(1..3).unwrap().exp().unwrap().to_vec::<f32>().unwrap());
    let done = lazy::statistics().since(&before);
    (all, done.compiles, done.loads)
}

#[test]
fn child() {
    if std::env::var_os("TPU_TEST_CHILD").is_none() {
        return;
    }
    let (values, compiles, loads) = work();
    assert_eq!(values[..5], [3.0, 5.0, 7.0, 9.0, 10.0]);
    println!("\nresult: {compiles} compiled, {loads} loaded, {values:?}");
}

/// This test program again, with a plugin and a cache chosen by the environment.
fn start(plugin: &Path, cache: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("TPU_TEST_CHILD", "1")
        .env("TPU_BACKEND", "pjrt")
        .env("TPU_LIBRARY_PATH", plugin)
        .env("TPU_CACHE_DIR", cache)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn result(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text.lines().find_map(|line| line.strip_prefix("result: ")).expect("the child's result").to_string()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

#[test]
fn the_second_process_compiles_nothing() {
    for file in [pjrt::CPU, pjrt::OLD_CPU] {
        let Some(plugin) = pjrt::plugin(file) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let first = result(start(&plugin, dir.path()));
        let values = first.strip_prefix("3 compiled, 0 loaded, ").expect(&first);
        let second = result(start(&plugin, dir.path()));
        assert_eq!(second.strip_prefix("0 compiled, 3 loaded, "), Some(values), "{file}");
        assert_eq!(entries(dir.path()).len(), 3);

        // Damaged in the middle, cut short, and with another program's content: compiled anew, and mended.
        let files = entries(dir.path());
        let mut bytes = fs::read(&files[0]).unwrap();
        let middle = bytes.len() - 100;
        bytes[middle] ^= 1;
        fs::write(&files[0], bytes).unwrap();
        let whole = fs::read(&files[1]).unwrap();
        fs::write(&files[1], &whole[..whole.len() / 2]).unwrap();
        fs::write(&files[2], &whole).unwrap();
        let third = result(start(&plugin, dir.path()));
        assert_eq!(third.strip_prefix("3 compiled, 0 loaded, "), Some(values), "{file}");
        let fourth = result(start(&plugin, dir.path()));
        assert_eq!(fourth.strip_prefix("0 compiled, 3 loaded, "), Some(values), "{file}");
    }
}

#[test]
fn processes_that_write_at_the_same_time_leave_good_entries() {
    let Some(plugin) = pjrt::plugin(pjrt::CPU) else { return };
    let dir = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..3).map(|_| start(&plugin, dir.path())).collect();
    for child in children {
        result(child);
    }
    assert!(result(start(&plugin, dir.path())).starts_with("0 compiled, 3 loaded, "));
    assert_eq!(entries(dir.path()).len(), 3);
}

/// A backend whose cache is its own.
fn open(plugin: &Path, cache: &Cache, devices: i64) -> Pjrt {
    let client = vec![("cpu_device_count".to_string(), OptionValue::Int(devices))];
    Pjrt::open(plugin, &PjrtOptions { client, cache: Some(cache.clone()), ..Default::default() }).unwrap()
}

#[test]
fn what_a_program_depends_on_is_in_its_key() {
    let Some(plugin) = pjrt::plugin(pjrt::CPU) else { return };
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::persistent(dir.path()).unwrap();
    let graph = |n: usize| {
        let mut graph = tpu_core::ir::Graph::new();
        let main = graph.main();
        let x = graph.parameter(main, tpu_core::ir::Type::new(tpu_core::DType::F32, [n]));
        let y = graph.push(main, tpu_core::ir::Op::Unary(tpu_core::ir::UnaryOp::Exp), &[x]).unwrap();
        graph.set_results(main, vec![y.into()]);
        graph
    };
    let one = open(&plugin, &cache, 1);
    let compile = |backend: &Pjrt, n, strict_rounding| {
        backend.compile(&graph(n), CompileOptions { strict_rounding }).unwrap().is_from_cache()
    };
    assert!(!compile(&one, 4, false) && compile(&one, 4, false));
    // Another size, another option, another client: none is the same program.
    assert!(!compile(&one, 5, false));
    assert!(!compile(&one, 4, true));
    let two = open(&plugin, &cache, 2);
    assert!(!compile(&two, 4, false) && compile(&two, 4, false));
    let replicas = |backend: &Pjrt| backend.compile_replicas(&graph(4), CompileOptions::default(), 2).unwrap();
    assert!(!replicas(&two).is_from_cache() && replicas(&two).is_from_cache());

    // With the right head and a right sum, but bytes that the plugin did not write.
    let lowered = one.lower(&graph(4), &ProgramOptions::default()).unwrap();
    assert!(one.load(&lowered, b"no program at all").is_err());
}

#[test]
fn tensors_of_a_cached_program_are_right() {
    let Some(plugin) = pjrt::plugin(pjrt::CPU) else { return };
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::persistent(dir.path()).unwrap();
    for _ in 0..2 {
        let devices = Device::open(std::sync::Arc::new(open(&plugin, &cache, 2)));
        devices[1].scope(|| {
            let x = Tensor::from_slice(&[1.0f32, 2.0]).unwrap();
            // A scalar input, a check that passes and one that fails go through the same executable.
            let y = (&x * 3.0).to_vec::<f32>().unwrap();
            assert_eq!(y, [3.0, 6.0]);
            let at = |index: i64| x.index_select(0, &Tensor::from_slice(&[index]).unwrap())?.to_vec::<f32>();
            assert_eq!(at(1).unwrap(), [2.0]);
            let error = at(2).unwrap_err().to_string();
            assert!(error.contains("requires indices in range"), "{error}");
        });
    }
}
