//! Programs compiled ahead of time: written by one compiler, loaded by another runtime, or refused by name.
#![allow(clippy::print_stderr, reason = "a test that does not run says so")]

#[path = "pjrt/fakes.rs"]
mod fakes;
mod pjrt;

use fakes::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tpu_core::ir::{BinaryOp, Graph, Op, Type, text};
use tpu_core::plan::{Compiler, Program};
use tpu_core::runtime::pjrt::{Lowered, Pjrt, PjrtOptions, ProgramOptions};
use tpu_core::runtime::{Argument, Backend, Cache, CompileOptions, Executable};
use tpu_core::{DType, Device, Error, ErrorKind, Tensor};

/// `x + x` of two numbers.
fn doubled() -> Graph {
    let mut graph = Graph::new();
    let main = graph.main();
    let x = graph.parameter(main, vector());
    let y = graph.push(main, Op::Binary(BinaryOp::Add), &[x, x]).unwrap();
    graph.set_results(main, vec![y.into()]);
    graph
}

fn lower(backend: &Pjrt, graph: &Graph) -> Lowered {
    backend.lower(graph, &ProgramOptions::default()).unwrap()
}

fn open(path: &Path, cache: &Cache) -> Pjrt {
    Pjrt::open(path, &PjrtOptions { cache: Some(cache.clone()), ..Default::default() }).unwrap()
}

fn entries(cache: &Cache) -> Vec<PathBuf> {
    std::fs::read_dir(cache.dir()).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn tensors_run_what_another_machine_compiled() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::persistent(dir.path()).unwrap();
    let here = Fake::new(WORKS | TELLS);
    let backend = here.open().unwrap();
    let path = backend.emit(&lower(&backend, &doubled()), &cache).unwrap();
    assert_eq!((here.compiles(), entries(&cache)), (1, vec![path.clone()]));
    // Another file of the same build, so what it compiles itself has another identity.
    let there = Fake::new(WORKS | TELLS);
    let run = |fake: &Fake, cache: &Cache| {
        let device = Device::open(Arc::new(open(&fake.path, cache))).swap_remove(0);
        device.scope(|| {
            let x = Tensor::from_slice(&[1.0f32, 2.0]).unwrap();
            // Programs of the fake give their first argument.
            assert_eq!(x.add(&x).unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0]);
        });
        fake.compiles()
    };
    assert_eq!(run(&there, &cache), 0);
    // Another build of the compiler, and a damaged file.
    assert_eq!(run(&Fake::new(WORKS | TELLS | OTHER_BUILD), &cache), 1);
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(run(&there, &cache), 1);
}

#[test]
fn a_file_is_loaded_or_the_error_says_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::persistent(dir.path()).unwrap();
    let here = Fake::new(WORKS | TELLS);
    let backend = here.open().unwrap();
    let lowered = lower(&backend, &doubled());
    let path = backend.emit(&lowered, &cache).unwrap();
    let loaded = backend.load_file(&lowered, &path).unwrap();
    assert_eq!(here.compiles(), 1);
    let mut arguments = [Argument::Shared(upload(&backend).unwrap())];
    assert!(loaded.is_from_cache() && loaded.run(0, &mut arguments).is_ok());
    let refused =
        |backend: &Pjrt, lowered: &Lowered, path: &Path| -> Error { backend.load_file(lowered, path).unwrap_err() };
    let error = refused(&backend, &lower(&backend, &first()), &path);
    assert_error(error, ErrorKind::Value, "a compiled program requires the program ");
    let common = CompileOptions { strict_rounding: true };
    let strict = backend.lower(&doubled(), &ProgramOptions { common, ..Default::default() }).unwrap();
    assert_error(refused(&backend, &strict, &path), ErrorKind::Value, "requires the compiler options ");
    let other = Fake::new(WORKS | TELLS | OTHER_BUILD).open().unwrap();
    let error = refused(&other, &lowered, &path);
    assert_error(error, ErrorKind::Device, "requires the compiler \"build 2\", got \"build 1\" in ");
    assert_error(refused(&backend, &lowered, &dir.path().join("none")), ErrorKind::Io, "could not use");
    // What the plugin refuses is its own error, and the file stays.
    let mine = dir.path().join("mine");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&mine, &whole[..whole.len() - 1]).unwrap();
    assert_error(refused(&backend, &lowered, &mine), ErrorKind::Format, "its length is not what its head says");
    // It cannot serialize.
    let plain = Fake::new(WORKS).open().unwrap();
    let error = plain.emit(&lower(&plain, &doubled()), &cache).unwrap_err();
    assert_error(error, ErrorKind::Unsupported, "PJRT_Executable_Serialize is not implemented");
    let both = backend.lower(&doubled(), &ProgramOptions { replicas: 2, ..Default::default() }).unwrap();
    assert_error(backend.emit(&both, &cache).unwrap_err(), ErrorKind::Unsupported, "requires a program for one device");
}

#[test]
fn a_program_for_several_devices_depends_on_where_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::persistent(dir.path()).unwrap();
    let fake = Fake::new(WORKS | TELLS);
    let compiled = |replicas: Option<usize>| {
        let (backend, options) = (open(&fake.path, &cache), CompileOptions::default());
        match replicas {
            Some(replicas) => backend.compile_replicas(&doubled(), options, replicas).map(|_| ()).unwrap(),
            None => drop(backend.compile(&doubled(), options).unwrap()),
        }
        fake.compiles()
    };
    assert_eq!([compiled(Some(2)), compiled(Some(2)), compiled(None), compiled(None)], [1, 1, 2, 2]);
    fake.fail(WORKS | TELLS | OTHER_COORDINATES);
    // On one device it is the same program wherever that is.
    assert_eq!([compiled(Some(2)), compiled(Some(2)), compiled(None)], [3, 3, 3]);
}

#[test]
fn xla_for_cpu_loads_what_it_compiled_ahead_of_time() {
    for file in [pjrt::CPU, pjrt::OLD_CPU] {
        let Some(path) = pjrt::plugin(file) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::persistent(dir.path()).unwrap();
        let cpu = Pjrt::open(&path, &PjrtOptions::default()).unwrap();
        let lowered = lower(&cpu, &doubled());
        let written = cpu.emit(&lowered, &cache).unwrap();
        assert_eq!(entries(&cache), std::slice::from_ref(&written));
        let backend = open(&path, &cache);
        let program = backend.compile(&doubled(), CompileOptions::default()).unwrap();
        assert!(program.is_from_cache(), "{file}");
        assert_eq!(entries(&cache).len(), 1, "what is there already is not stored again");
        let bytes: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let x = backend.upload(0, &vector(), &bytes).unwrap();
        let outcome = program.run(0, &mut [Argument::Shared(x)]).unwrap();
        let mut got = [0; 8];
        outcome.results[0].read(&mut got).unwrap();
        assert_eq!(got[..], [3.0f32, -4.0].map(f32::to_le_bytes).concat());
        backend.load_file(&lowered, &written).unwrap();
    }
}

/// A function of a vector, as the TPU compiler gets it, and as its graph.
fn traced() -> (Program, Graph) {
    let x = Type::new(DType::F32, [256]);
    let program = Program::trace(&[x], |x| Ok(vec![x[0].cumsum(0)?.tanh()?.sum_all()?])).unwrap();
    // Without places it is the text of the graph, which reads back.
    let plain: Vec<&str> = program.text().lines().map(|line| line.split(" loc(").next().unwrap()).collect();
    let graph = text::parse(&(plain.join("\n") + "\n")).unwrap();
    (program, graph)
}

#[test]
fn what_googles_compiler_wrote_is_refused_by_name_elsewhere() {
    let (Some(tpu), Some(path)) = (pjrt::plugin(pjrt::TPU), pjrt::plugin(pjrt::CPU)) else { return };
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::persistent(dir.path()).unwrap();
    let (program, graph) = traced();
    let target = Compiler::open(&tpu).unwrap().target("v5e:1x1").unwrap();
    let plan = target.plan(&program, &mut |_| {}).unwrap();
    let written = plan.outcome.as_ref().unwrap().store(&cache).unwrap();
    let cpu = open(&path, &cache);
    let error = cpu.load_file(&lower(&cpu, &graph), &written).unwrap_err();
    assert_error(error, ErrorKind::Device, "requires the platform \"cpu\", got \"tpu\" in ");
    // And it is not taken for a program of this plugin.
    assert!(!cpu.compile(&graph, CompileOptions::default()).unwrap().is_from_cache());
}

#[test]
fn the_command_writes_a_file_that_a_cache_finds() {
    let Some(tpu) = pjrt::plugin(pjrt::TPU) else { return };
    let dir = tempfile::tempdir().unwrap();
    let (file, emitted) = (dir.path().join("program.mlir"), dir.path().join("emitted"));
    let (program, _) = traced();
    std::fs::write(&file, program.text()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tpu-plan"));
    command.arg(&file).args(["--targets", "v5e:1x1", "--libtpu"]).arg(&tpu).arg("--emit").arg(&emitted);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut names: Vec<_> = std::fs::read_dir(&emitted).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().any(|name| name == "v5e_1x1.hlo.pb"));
    // The library writes the same program to the same place, places or not.
    let cache = Cache::persistent(dir.path().join("library")).unwrap();
    let target = Compiler::open(&tpu).unwrap().target("v5e:1x1").unwrap();
    let plan = target.plan(&program, &mut |_| {}).unwrap();
    let written = plan.outcome.as_ref().unwrap().store(&cache).unwrap();
    assert!(names.iter().any(|name| Some(&**name) == written.file_name()), "{names:?} {written:?}");
}
