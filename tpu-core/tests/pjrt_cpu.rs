//! The plugin backend with XLA for CPU, the newest and the oldest plugin that must work.
#![allow(clippy::print_stderr, reason = "a test that does not run says so")]

mod pjrt;

use smallvec::smallvec;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tpu_core::ir::{BinaryOp, Check, Graph, Op, Reducer, ReplicaGroups, Type, UnaryOp, samples};
use tpu_core::reference::{Array, evaluate_spmd};
use tpu_core::runtime::pjrt::{Attribute, OptionValue, Pjrt, PjrtOptions, ProgramOptions};
use tpu_core::runtime::{Argument, Backend, Buffer, CompileOptions, Executable, HostMemory};
use tpu_core::testing::arguments;
use tpu_core::{DType, Device, ErrorKind, Scalar, Tensor, lazy};

/// The backend on a plugin with two devices, one client for all tests.
fn cpu(file: &'static str) -> Option<Pjrt> {
    static CPUS: Mutex<BTreeMap<&str, Option<Pjrt>>> = Mutex::new(BTreeMap::new());
    CPUS.lock().unwrap().entry(file).or_insert_with(|| pjrt::plugin(file).map(|path| with_devices(&path, 2))).clone()
}

/// A client of its own.
fn with_devices(path: &Path, devices: i64) -> Pjrt {
    let client = vec![("cpu_device_count".to_string(), OptionValue::Int(devices))];
    Pjrt::open(path, &PjrtOptions { client, ..Default::default() }).unwrap()
}

/// Tests that pass on the newest plugin and on the oldest.
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        mod newest {
            $(#[test]
            fn $test() {
                if let Some(cpu) = super::cpu(super::pjrt::CPU) {
                    super::$test(&cpu);
                }
            })*
        }
        mod oldest {
            $(#[test]
            fn $test() {
                if let Some(cpu) = super::cpu(super::pjrt::OLD_CPU) {
                    super::$test(&cpu);
                }
            })*
        }
    };
}

on_both![
    the_plugin_says_what_it_is,
    elements_of_every_dtype_go_there_and_back,
    bytes_of_a_bool_other_than_0_are_1_on_the_device,
    aligned_memory_is_used_as_it_is_and_other_memory_is_copied,
    bytes_that_do_not_fit_the_type_are_refused,
    a_program_runs_on_the_device_that_the_run_names,
    shared_arguments_stay_and_donated_ones_are_taken,
    a_donated_buffer_gives_its_memory_to_the_result,
    scalars_are_arguments_of_a_run,
    checks_are_results_and_one_that_fails_gives_back_what_was_donated,
    a_result_is_right_whatever_fails_that_it_does_not_depend_on,
    what_cannot_be_compiled_says_so,
    threads_share_a_program,
    eight_threads_record_and_run_on_one_client,
    an_executable_is_serialized_and_loaded,
    a_program_has_options_of_its_own,
    collectives_agree_with_the_interpreter_on_1_to_8_devices,
    a_program_for_several_devices_is_checked_before_the_plugin_sees_it,
    a_training_step_is_one_program_and_learns_what_the_host_learns,
];

fn upload(backend: &Pjrt, device: usize, x: &Array) -> Arc<dyn Buffer> {
    backend.upload(device, x.ty(), x.bytes()).unwrap()
}

fn read(buffer: &Arc<dyn Buffer>) -> Array {
    let mut bytes = vec![0; buffer.ty().bytes().unwrap()];
    buffer.read(&mut bytes).unwrap();
    Array::from_bytes(buffer.ty().clone(), bytes).unwrap()
}

fn f32s(values: &[f32]) -> Array {
    Array::new(values.len(), values).unwrap()
}

/// `x + y` of vectors.
fn sum(size: usize) -> Graph {
    let x = Type::new(DType::F32, [size]);
    samples::program(&[x.clone(), x], Op::Binary(BinaryOp::Add)).unwrap()
}

fn compile(backend: &Pjrt, graph: &Graph) -> Arc<dyn Executable> {
    backend.compile(graph, CompileOptions::default()).unwrap()
}

fn the_plugin_says_what_it_is(cpu: &Pjrt) {
    assert_eq!((cpu.name(), cpu.device_count(), cpu.generic_in_sizes()), ("cpu", 2, false));
    assert!(cpu.api_version() >= (0, 81));
    assert!(cpu.device_attributes(1).is_ok());
    // Versions of StableHLO, which every plugin of OpenXLA tells.
    let attributes = cpu.attributes();
    let current = attributes.iter().find(|(name, _)| name == "stablehlo_current_version").map(|(_, value)| value);
    assert!(matches!(current, Some(Attribute::Ints(version)) if version.len() == 3), "{attributes:?}");
    assert_eq!(cpu.device_kind(1).unwrap(), "cpu");
    assert_eq!(cpu.device_kind(2).unwrap_err().kind(), ErrorKind::Device);
}

fn elements_of_every_dtype_go_there_and_back(cpu: &Pjrt) {
    for dtype in DType::ALL {
        for sizes in [&[][..], &[3], &[2, 3, 4], &[2, 0, 3], &[1, 1]] {
            let x = arguments::random(&Type::new(dtype, sizes), 7, true);
            let buffer = upload(cpu, 1, &x);
            assert_eq!(read(&buffer).bytes(), x.bytes(), "{dtype} {sizes:?}");
        }
    }
}

fn aligned_memory_is_used_as_it_is_and_other_memory_is_copied(cpu: &Pjrt) {
    let ty = Type::new(DType::U8, [1 << 16]);
    let program = |n: usize| samples::program(&[Type::new(DType::U8, [n])], Op::Unary(UnaryOp::Not)).unwrap();
    let not = compile(cpu, &program(1 << 16));
    for aligned in [true, false] {
        let mut memory = if aligned { HostMemory::aligned(1 << 16).unwrap() } else { misaligned(1 << 16) };
        memory.bytes_mut().fill(5);
        let at = memory.bytes_mut().as_mut_ptr();
        let buffer = cpu.upload_owned(0, &ty, memory).unwrap();
        assert_eq!(read(&buffer).bytes()[77], 5);
        if aligned {
            // SAFETY: the buffer holds the memory, and nothing reads it now.
            unsafe { at.add(77).write_volatile(6) };
            assert_eq!(read(&buffer).bytes()[77], 6);
        }
        let mut arguments = [Argument::Donated(buffer)];
        let outcome = not.run(0, &mut arguments).unwrap();
        drop(arguments);
        assert_eq!(read(&outcome.results[0]).bytes()[100], !5);
    }
    // Through tensors, in rounds, so that what is freed too early is written over.
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Device::pjrt(cpu.path()).unwrap().scope(|| {
        for round in 0..20u8 {
            let mut memory = HostMemory::aligned(1 << 16).unwrap();
            memory.bytes_mut().fill(round);
            let x = Tensor::from_memory(DType::U8, 1 << 16, memory).unwrap();
            let y = x.add(&x).unwrap();
            drop(x);
            assert!(y.to_vec::<u8>().unwrap().iter().all(|&byte| byte == 2 * round));
        }
    });
}

/// Memory that a device must copy.
fn misaligned(bytes: usize) -> HostMemory {
    let all: Vec<HostMemory> = (0..64).map(|_| HostMemory::from(vec![0; bytes])).collect();
    all.into_iter().find(|memory| !(memory.bytes().as_ptr() as usize).is_multiple_of(64)).unwrap()
}

/// As PyTorch reads them, see `bool_bytes.rs`.
fn bytes_of_a_bool_other_than_0_are_1_on_the_device(cpu: &Pjrt) {
    let buffer = cpu.upload(0, &Type::new(DType::Bool, [5]), &[0, 1, 2, 0x80, 0xff]).unwrap();
    assert_eq!(read(&buffer).bytes(), [0, 1, 1, 1, 1]);
}

fn bytes_that_do_not_fit_the_type_are_refused(cpu: &Pjrt) {
    let ty = Type::new(DType::F32, [3]);
    assert_eq!(cpu.upload(0, &ty, &[0; 11]).unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(cpu.upload(2, &ty, &[0; 12]).unwrap_err().kind(), ErrorKind::Device);
    let buffer = cpu.upload(0, &ty, &[0; 12]).unwrap();
    assert_eq!(buffer.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::Shape);
}

fn a_program_runs_on_the_device_that_the_run_names(cpu: &Pjrt) {
    let program = compile(cpu, &sum(2));
    let x = f32s(&[1.0, 2.0]);
    for device in 0..2 {
        let mut arguments = [0, 1].map(|_| Argument::Shared(upload(cpu, device, &x)));
        let outcome = program.run(device, &mut arguments).unwrap();
        assert_eq!(read(&outcome.results[0]), f32s(&[2.0, 4.0]));
        let error = program.run(1 - device, &mut arguments).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device, "{error}");
    }
}

fn shared_arguments_stay_and_donated_ones_are_taken(cpu: &Pjrt) {
    let program = compile(cpu, &sum(3));
    let (x, y) = (f32s(&[1.0, 2.0, 3.0]), f32s(&[10.0, 20.0, 30.0]));
    let kept = upload(cpu, 0, &y);
    // Whatever the pattern, one compiled program serves it.
    for (donate_x, donate_y) in [(false, false), (true, false), (true, true)] {
        let y_buffer = if donate_y { upload(cpu, 0, &y) } else { kept.clone() };
        let argument = |donate: bool, buffer| if donate { Argument::Donated(buffer) } else { Argument::Shared(buffer) };
        let mut arguments = [argument(donate_x, upload(cpu, 0, &x)), argument(donate_y, y_buffer)];
        let outcome = program.run(0, &mut arguments).unwrap();
        assert_eq!(read(&outcome.results[0]), f32s(&[11.0, 22.0, 33.0]));
        assert_eq!(read(&kept), y);
        let taken = arguments.each_ref().map(|argument| matches!(argument, Argument::Taken));
        assert_eq!(taken, [donate_x, donate_y]);
    }
    // A donated buffer that somebody else holds is not given away.
    let mut arguments = [Argument::Donated(kept.clone()), Argument::Shared(upload(cpu, 0, &x))];
    program.run(0, &mut arguments).unwrap();
    assert_eq!(read(&kept), y);
}

fn a_donated_buffer_gives_its_memory_to_the_result(cpu: &Pjrt) {
    // On a device of its own account: other tests use the others.
    let backend = with_devices(cpu.path(), 1);
    assert_eq!(backend.memory(0).in_use, 0);
    let x = f32s(&[1.0; 256]);
    let program = compile(&backend, &sum(256));
    let (a, b) = (upload(&backend, 0, &x), upload(&backend, 0, &x));
    assert_eq!(backend.memory(0).in_use, 2048);
    let mut arguments = [Argument::Donated(a), Argument::Shared(b)];
    let outcome = program.run(0, &mut arguments).unwrap();
    drop(arguments);
    assert_eq!(backend.memory(0).in_use, 1024);
    drop(outcome);
    assert_eq!(backend.memory(0).in_use, 0);
    backend.reset_peak_memory(0);
    assert_eq!(backend.memory(0).peak, 0);
}

fn scalars_are_arguments_of_a_run(cpu: &Pjrt) {
    let ty = Type::new(DType::BF16, ());
    let program = compile(cpu, &samples::program(&[ty.clone(), ty], Op::Binary(BinaryOp::Multiply)).unwrap());
    for (x, y) in [(2.0, 3.0), (-0.5, 8.0)] {
        let mut arguments = [x, y].map(|number| Argument::Scalar(Scalar::Float(number).to_bytes(DType::BF16)));
        let outcome = program.run(0, &mut arguments).unwrap();
        assert_eq!(read(&outcome.results[0]).cast_vec::<f64>(), [x * y]);
    }
}

fn checks_are_results_and_one_that_fails_gives_back_what_was_donated(cpu: &Pjrt) {
    let mut graph = sum(2);
    let main = graph.main();
    let position = graph.parameter(main, Type::new(DType::I32, ()));
    let guards = graph[main].results[0].node;
    graph.checks.push(Check { value: position, guards });
    // A result that no check guards.
    let y = graph[main].parameters[1].into();
    let other = graph.push(main, Op::Unary(UnaryOp::Neg), &[y]).unwrap().into();
    let results = [graph[main].results.clone(), vec![other]].concat();
    graph.set_results(main, results);
    let program = compile(cpu, &graph);
    let (x, y) = (f32s(&[1.0, 2.0]), f32s(&[10.0, 20.0]));
    for (number, donate) in [(-1, true), (5, true), (-1, false), (5, false)] {
        let position = Scalar::Int(number).to_bytes(DType::I32);
        let (x_buffer, y_buffer) = (upload(cpu, 0, &x), upload(cpu, 0, &y));
        let argument = |buffer: &Arc<dyn Buffer>| match donate {
            true => Argument::Donated(buffer.clone()),
            false => Argument::Shared(buffer.clone()),
        };
        let mut arguments = [argument(&x_buffer), argument(&y_buffer), Argument::Scalar(position)];
        if donate {
            drop((x_buffer, y_buffer));
        }
        let outcome = program.run(0, &mut arguments).unwrap();
        assert_eq!(outcome.checks, [number as i32]);
        assert_eq!(read(&outcome.results[1]), f32s(&[-10.0, -20.0]));
        match (&arguments[0], number) {
            (Argument::Taken, -1) => assert!(donate),
            (Argument::Shared(again), _) | (Argument::Donated(again), 5) => assert_eq!(read(again), x),
            (argument, _) => panic!("{argument:?}"),
        }
        if number == -1 {
            assert_eq!(read(&outcome.results[0]), f32s(&[11.0, 22.0]));
        }
        // Its only result of the same type is right whatever the check says, so it stays.
        let (Argument::Shared(again) | Argument::Donated(again)) = &arguments[1] else { panic!("{arguments:?}") };
        assert_eq!(read(again), y);
    }
}

fn a_result_is_right_whatever_fails_that_it_does_not_depend_on(cpu: &Pjrt) {
    let mut graph = sum(2);
    let main = graph.main();
    let bad = [(); 2].map(|()| graph.parameter(main, Type::new(DType::I32, ())));
    let total = graph[main].results[0];
    let other = graph.push(main, Op::Unary(UnaryOp::Neg), &[total]).unwrap();
    graph.set_results(main, vec![total, other.into()]);
    graph.checks.push(Check { value: bad[0], guards: total.node });
    graph.checks.push(Check { value: bad[1], guards: other });
    let program = compile(cpu, &graph);
    let (x, y) = (f32s(&[1.0, 2.0]), f32s(&[10.0, 20.0]));
    for (numbers, sum_is_right) in [([-1, -1], true), ([-1, 5], true), ([5, -1], false), ([5, 5], false)] {
        let [first, second] = numbers.map(|number| Argument::Scalar(Scalar::Int(number).to_bytes(DType::I32)));
        let [x_buffer, y_buffer] = [&x, &y].map(|value| Argument::Donated(upload(cpu, 0, value)));
        let mut arguments = [x_buffer, y_buffer, first, second];
        let outcome = program.run(0, &mut arguments).unwrap();
        assert_eq!(outcome.checks, numbers.map(|number| number as i32));
        for (argument, value) in arguments.iter().zip([&x, &y]) {
            match argument {
                Argument::Donated(again) => assert!(numbers != [-1, -1] && read(again) == *value),
                argument => assert!(numbers == [-1, -1] && matches!(argument, Argument::Taken), "{argument:?}"),
            }
        }
        if sum_is_right {
            assert_eq!(read(&outcome.results[0]), f32s(&[11.0, 22.0]), "{numbers:?}");
        }
    }
}

fn what_cannot_be_compiled_says_so(cpu: &Pjrt) {
    let kind = |graph: &Graph| cpu.compile(graph, CompileOptions::default()).unwrap_err().kind();
    for (name, graph) in samples::every_op() {
        if name.starts_with("all_reduce") || name.starts_with("collective_permute") {
            assert_eq!(kind(&graph), ErrorKind::Unsupported, "{name}");
        }
        if name == "broadcast of 2^60" || name == "constant equal" {
            // 2^62 and 2^41 bytes: the first cannot be, the second may be refused by the plugin only when it runs.
            assert!(name == "constant equal" || kind(&graph) == ErrorKind::OutOfMemory, "{name}");
        }
    }
    let call = samples::every_op().into_iter().find(|(name, _)| name == "custom_call source").unwrap().1;
    let error = cpu.compile(&call, CompileOptions::default()).unwrap_err();
    assert!(error.message().starts_with("failed: "), "{error}");
}

fn threads_share_a_program(cpu: &Pjrt) {
    let program = compile(cpu, &sum(64));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let program = &program;
            scope.spawn(move || {
                for round in 0..100 {
                    let x = f32s(&[(thread * 100 + round) as f32; 64]);
                    let device = thread % 2;
                    let mut arguments = [0, 1].map(|_| Argument::Donated(upload(cpu, device, &x)));
                    let outcome = program.run(device, &mut arguments).unwrap();
                    assert_eq!(read(&outcome.results[0]), f32s(&[(2 * (thread * 100 + round)) as f32; 64]));
                }
            });
        }
    });
}

fn eight_threads_record_and_run_on_one_client(cpu: &Pjrt) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let devices = Device::pjrts(cpu.path()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let device = &devices[thread % devices.len()];
            scope.spawn(move || {
                device.scope(|| {
                    // Whole numbers, so that sums are exact.
                    let step = Tensor::from_vec(vec![thread as f32 + 1.0; 64], 64).unwrap();
                    let mut x = step.clone();
                    for round in 1..=60 {
                        x = x.add(&step).unwrap();
                        if round % 7 == thread % 7 {
                            let want = (thread + 1) as f32 * (round + 1) as f32;
                            assert!(x.to_vec::<f32>().unwrap().iter().all(|&got| got == want), "{thread} {round}");
                        }
                    }
                });
            });
        }
    });
}

fn an_executable_is_serialized_and_loaded(cpu: &Pjrt) {
    let lower = |size| cpu.lower(&sum(size), &ProgramOptions::default()).unwrap();
    let (program, other) = (lower(2), lower(3));
    assert_eq!((program.text(), program.options()), (lower(2).text(), lower(2).options()));
    assert_ne!(program.text(), other.text());
    let compiled = cpu.compile_lowered(&program).unwrap();
    let bytes = compiled.serialize().unwrap();
    let x = f32s(&[1.0, 2.0]);
    // In the same client, and in another one of the same plugin.
    let second = with_devices(cpu.path(), 2);
    assert_eq!(cpu.identity().unwrap(), second.identity().unwrap());
    for backend in [cpu, &second] {
        let loaded = backend.load(&program, &bytes).unwrap();
        let mut arguments = [Argument::Donated(upload(backend, 1, &x)), Argument::Shared(upload(backend, 1, &x))];
        assert_eq!(read(&loaded.run(1, &mut arguments).unwrap().results[0]), f32s(&[2.0, 4.0]));
        assert!(matches!(arguments[0], Argument::Taken));
    }
    // Of another program: what the plugin gives is not what was asked for.
    let checked = {
        let mut graph = sum(2);
        let x = graph[graph.main()].parameters[0];
        let main = graph.main();
        let results = graph[main].results.iter().copied().chain([x.into()]).collect();
        graph.set_results(main, results);
        cpu.lower(&graph, &ProgramOptions::default()).unwrap()
    };
    let error = cpu.load(&checked, &bytes).unwrap_err();
    assert!(error.message().contains("requires 2 results, got a program of 1"), "{error}");
    match compiled.fingerprint() {
        Ok(fingerprint) => {
            assert!(!fingerprint.is_empty());
            assert_eq!(fingerprint, cpu.compile_lowered(&lower(2)).unwrap().fingerprint().unwrap());
            assert_ne!(fingerprint, cpu.compile_lowered(&other).unwrap().fingerprint().unwrap());
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
    }
}

fn a_program_has_options_of_its_own(cpu: &Pjrt) {
    let folder = tempfile::tempdir().unwrap();
    let options = |name: &str, text: &str| ProgramOptions {
        overrides: vec![(name.into(), text.into())],
        ..ProgramOptions::default()
    };
    let dump = cpu.lower(&sum(5), &options("xla_dump_to", folder.path().to_str().unwrap())).unwrap();
    cpu.compile_lowered(&dump).unwrap();
    assert!(folder.path().read_dir().unwrap().count() > 0);
    let unknown = cpu.lower(&sum(5), &options("xla_no_such_option", "1")).unwrap();
    let error = cpu.compile_lowered(&unknown).unwrap_err();
    assert!(error.message().contains("xla_no_such_option"), "{error}");
    // Options of the backend are those of all its programs.
    let options = PjrtOptions { overrides: unknown_override(), ..Default::default() };
    let backend = Pjrt::open(cpu.path(), &options).unwrap();
    assert!(backend.compile(&sum(5), CompileOptions::default()).unwrap_err().message().contains("no_such"));
}

fn unknown_override() -> Vec<(String, String)> {
    vec![("xla_no_such_option".into(), "1".into())]
}

/// Programs of one collective each among `devices` replicas, in pairs of neighbours and all together.
fn collectives(devices: u32) -> Vec<(Graph, usize)> {
    let all = ReplicaGroups { groups: vec![(0..devices).collect()], channel: 0 };
    let pairs = ReplicaGroups { groups: (0..devices / 2).map(|i| smallvec![2 * i + 1, 2 * i]).collect(), channel: 0 };
    let mut ops = Vec::new();
    for groups in [all, pairs].map(Arc::new).into_iter().take(if devices.is_multiple_of(2) { 2 } else { 1 }) {
        let size = groups.groups[0].len();
        for kind in [Reducer::Sum, Reducer::Max, Reducer::Product] {
            ops.push((Op::AllReduce { kind, groups: groups.clone() }, 3));
            ops.push((Op::ReduceScatter { kind, axis: 0, groups: groups.clone() }, 2 * size));
        }
        ops.push((Op::AllGather { axis: 0, groups: groups.clone() }, 3));
        ops.push((Op::AllToAll { split_axis: 0, concat_axis: 0, groups }, 2 * size));
    }
    let around: Vec<(u32, u32)> = (0..devices).map(|i| (i, (i + 1) % devices)).collect();
    ops.push((Op::CollectivePermute { pairs: around.into(), channel: 0 }, 3));
    // Nobody sends to device 0.
    ops.push((Op::CollectivePermute { pairs: (1..devices).map(|i| (i - 1, i)).collect(), channel: 0 }, 3));
    ops.into_iter().map(|(op, size)| (samples::program(&[Type::new(DType::I32, [size])], op).unwrap(), size)).collect()
}

fn collectives_agree_with_the_interpreter_on_1_to_8_devices(cpu: &Pjrt) {
    for devices in [1, 2, 3, 8] {
        let backend = with_devices(cpu.path(), devices as i64);
        for (graph, size) in collectives(devices) {
            let value = |device: u32| -> Vec<i32> { (0..size as i32).map(|i| 10 * device as i32 + i + 1).collect() };
            let arrays: Vec<Vec<Array>> =
                (0..devices).map(|device| vec![Array::new([size], &value(device)).unwrap()]).collect();
            let want = evaluate_spmd(&graph, &arrays).unwrap();
            let program = backend.compile_replicas(&graph, CompileOptions::default(), devices as usize).unwrap();
            let argument =
                |(device, arrays): (usize, &Vec<Array>)| vec![Argument::Donated(upload(&backend, device, &arrays[0]))];
            let mut arguments: Vec<Vec<Argument>> = arrays.iter().enumerate().map(argument).collect();
            let outcomes = program.run_replicas(&mut arguments).unwrap();
            for (device, (outcome, want)) in outcomes.iter().zip(&want).enumerate() {
                assert_eq!(read(&outcome.results[0]), want.results[0], "device {device} of {devices}: {program:?}");
            }
        }
    }
}

fn a_program_for_several_devices_is_checked_before_the_plugin_sees_it(cpu: &Pjrt) {
    let (graph, size) = collectives(2).swap_remove(0);
    let compile = |replicas| cpu.compile_replicas(&graph, CompileOptions::default(), replicas);
    assert_eq!(compile(0).unwrap_err().kind(), ErrorKind::Device);
    assert_eq!(compile(3).unwrap_err().kind(), ErrorKind::Device);
    assert_eq!(compile(1).unwrap_err().kind(), ErrorKind::Value);
    let alone = cpu.compile(&graph, CompileOptions::default()).unwrap_err();
    assert_eq!(alone.kind(), ErrorKind::Unsupported);
    let far = Op::CollectivePermute { pairs: Arc::new([(0, 5)]), channel: 0 };
    let far = samples::program(&[Type::new(DType::I32, [size])], far).unwrap();
    let error = cpu.compile_replicas(&far, CompileOptions::default(), 2).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Value, "requires replicas from 0 to 1, got 5"));
    let program = compile(2).unwrap();
    let array = Array::new([size], &vec![1i32; size]).unwrap();
    let on = |device| vec![Argument::Shared(upload(cpu, device, &array))];
    assert_eq!(program.run(0, &mut on(0)).unwrap_err().kind(), ErrorKind::Device);
    assert_eq!(program.run_replicas(&mut [on(0)]).unwrap_err().kind(), ErrorKind::Device);
    assert_eq!(program.run_replicas(&mut [on(1), on(0)]).unwrap_err().kind(), ErrorKind::Device);
    // An argument goes if it is given on every device.
    let mut arguments = [on(0), vec![Argument::Donated(upload(cpu, 1, &array))]];
    program.run_replicas(&mut arguments).unwrap();
    assert!(matches!(arguments[1][0], Argument::Donated(_)), "{arguments:?}");
}

#[test]
fn a_path_opens_the_same_devices_each_time() {
    let Some(path) = pjrt::plugin(pjrt::CPU) else { return };
    let (one, two) = (Device::pjrt(&path).unwrap(), Device::pjrt(&path).unwrap());
    assert_eq!(one, two);
    assert_eq!(one.to_string(), "cpu:0");
    assert!(Device::pjrts(&path).unwrap().contains(&one));
}

/// Statistics are those of the process, so what counts programs runs alone.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// One step of a network of two layers with its derivatives by hand: the loss, and the new weights.
fn step(weights: &[Tensor; 2], x: &Tensor, y: &Tensor, rate: f64) -> tpu_core::Result<(Tensor, [Tensor; 2])> {
    let hidden = x.matmul(&weights[0])?.tanh()?;
    let difference = hidden.matmul(&weights[1])?.sub(y)?;
    let loss = difference.square()?.mean_all()?;
    let out = &difference * (2.0 / y.elements() as f64);
    let second = hidden.transpose(0, 1)?.matmul(&out)?;
    let back = out.matmul(&weights[1].transpose(0, 1)?)? * (hidden.square()? * -1.0 + 1.0);
    let first = x.transpose(0, 1)?.matmul(&back)?;
    Ok((loss, [&weights[0] - first * rate, &weights[1] - second * rate]))
}

/// Losses of 20 steps on a device, and the programs that the last 10 took.
fn train(device: &Device) -> (Vec<f32>, u64) {
    device.scope(|| {
        let numbers = |count: usize, seed: usize| -> Vec<f32> {
            (0..count).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 101.0 - 0.5).collect()
        };
        let matrix =
            |rows: usize, columns: usize, seed| Tensor::from_vec(numbers(rows * columns, seed), [rows, columns]);
        let (x, y) = (matrix(16, 8, 1).unwrap(), matrix(16, 4, 2).unwrap());
        let mut weights = [matrix(8, 32, 3).unwrap(), matrix(32, 4, 4).unwrap()];
        let mut losses = Vec::new();
        let mut before = lazy::statistics();
        for round in 0..20 {
            if round == 10 {
                before = lazy::statistics();
            }
            let (loss, new) = step(&weights, &x, &y, 0.5 / (1.0 + round as f64)).unwrap();
            weights = new;
            lazy::mark_step();
            losses.push(loss.item().unwrap());
        }
        (losses, lazy::statistics().since(&before).programs as u64)
    })
}

fn a_training_step_is_one_program_and_learns_what_the_host_learns(cpu: &Pjrt) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (plugin, programs) = train(&Device::pjrt(cpu.path()).unwrap());
    let (host, _) = train(&Device::host().unwrap());
    assert_eq!(programs, 10);
    assert!(plugin[19] < 0.9 * plugin[0], "{plugin:?}");
    for (plugin, host) in plugin.iter().zip(&host) {
        // Sums of at most 64 terms in f32 in another order, 20 steps: 64 · 20 · 2⁻²⁴ is 8e-5.
        assert!((plugin - host).abs() <= 1e-4 * host.abs(), "{plugin} {host}");
    }
}
