//! The plugin backend with XLA for CPU.
#![allow(clippy::print_stderr, reason = "a test that does not run says so")]

mod pjrt;

use std::sync::{Arc, Mutex, OnceLock};
use tpu_core::ir::{BinaryOp, Check, Graph, Op, Type, samples};
use tpu_core::reference::Array;
use tpu_core::runtime::pjrt::{OptionValue, Pjrt, PjrtOptions};
use tpu_core::runtime::{Argument, Backend, Buffer, CompileOptions, Executable};
use tpu_core::testing::arguments;
use tpu_core::{DType, Device, ErrorKind, Scalar, Tensor, lazy};

/// The backend with two devices, one client for all tests.
fn cpu() -> Option<Pjrt> {
    static CPU: OnceLock<Option<Pjrt>> = OnceLock::new();
    let open = || {
        let client = vec![("cpu_device_count".to_string(), OptionValue::Int(2))];
        pjrt::plugin(pjrt::CPU).map(|path| Pjrt::open(path, &PjrtOptions { client, ..Default::default() }).unwrap())
    };
    CPU.get_or_init(open).clone()
}

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

#[test]
fn the_plugin_says_what_it_is() {
    let Some(cpu) = cpu() else { return };
    assert_eq!((cpu.name(), cpu.device_count(), cpu.generic_in_sizes()), ("cpu", 2, false));
    assert!(cpu.api_version() >= (0, 81));
    assert_eq!(cpu.device_kind(1).unwrap(), "cpu");
    assert_eq!(cpu.device_kind(2).unwrap_err().kind(), ErrorKind::Device);
}

#[test]
fn elements_of_every_dtype_go_there_and_back() {
    let Some(cpu) = cpu() else { return };
    for dtype in DType::ALL {
        for sizes in [&[][..], &[3], &[2, 3, 4], &[2, 0, 3], &[1, 1]] {
            let x = arguments::random(&Type::new(dtype, sizes), 7, true);
            let buffer = upload(&cpu, 1, &x);
            assert_eq!(read(&buffer).bytes(), x.bytes(), "{dtype} {sizes:?}");
        }
    }
}

/// As PyTorch reads them, see `bool_bytes.rs`.
#[test]
fn bytes_of_a_bool_other_than_0_are_1_on_the_device() {
    let Some(cpu) = cpu() else { return };
    let buffer = cpu.upload(0, &Type::new(DType::Bool, [5]), &[0, 1, 2, 0x80, 0xff]).unwrap();
    assert_eq!(read(&buffer).bytes(), [0, 1, 1, 1, 1]);
}

#[test]
fn bytes_that_do_not_fit_the_type_are_refused() {
    let Some(cpu) = cpu() else { return };
    let ty = Type::new(DType::F32, [3]);
    assert_eq!(cpu.upload(0, &ty, &[0; 11]).unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(cpu.upload(2, &ty, &[0; 12]).unwrap_err().kind(), ErrorKind::Device);
    let buffer = cpu.upload(0, &ty, &[0; 12]).unwrap();
    assert_eq!(buffer.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::Shape);
}

#[test]
fn a_program_runs_on_the_device_that_the_run_names() {
    let Some(cpu) = cpu() else { return };
    let program = compile(&cpu, &sum(2));
    let x = f32s(&[1.0, 2.0]);
    for device in 0..2 {
        let mut arguments = [0, 1].map(|_| Argument::Shared(upload(&cpu, device, &x)));
        let outcome = program.run(device, &mut arguments).unwrap();
        assert_eq!(read(&outcome.results[0]), f32s(&[2.0, 4.0]));
        let error = program.run(1 - device, &mut arguments).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device, "{error}");
    }
}

#[test]
fn shared_arguments_stay_and_donated_ones_are_taken() {
    let Some(cpu) = cpu() else { return };
    let program = compile(&cpu, &sum(3));
    let (x, y) = (f32s(&[1.0, 2.0, 3.0]), f32s(&[10.0, 20.0, 30.0]));
    let kept = upload(&cpu, 0, &y);
    // Whatever the pattern, one compiled program serves it.
    for (donate_x, donate_y) in [(false, false), (true, false), (true, true)] {
        let y_buffer = if donate_y { upload(&cpu, 0, &y) } else { kept.clone() };
        let argument = |donate: bool, buffer| if donate { Argument::Donated(buffer) } else { Argument::Shared(buffer) };
        let mut arguments = [argument(donate_x, upload(&cpu, 0, &x)), argument(donate_y, y_buffer)];
        let outcome = program.run(0, &mut arguments).unwrap();
        assert_eq!(read(&outcome.results[0]), f32s(&[11.0, 22.0, 33.0]));
        assert_eq!(read(&kept), y);
        let taken = arguments.each_ref().map(|argument| matches!(argument, Argument::Taken));
        assert_eq!(taken, [donate_x, donate_y]);
    }
    // A donated buffer that somebody else holds is not given away.
    let mut arguments = [Argument::Donated(kept.clone()), Argument::Shared(upload(&cpu, 0, &x))];
    program.run(0, &mut arguments).unwrap();
    assert_eq!(read(&kept), y);
}

#[test]
fn a_donated_buffer_gives_its_memory_to_the_result() {
    let Some(cpu) = cpu() else { return };
    // On a device of its own account: other tests use the others.
    let client = vec![("cpu_device_count".to_string(), OptionValue::Int(1))];
    let backend = Pjrt::open(pjrt::plugin(pjrt::CPU).unwrap(), &PjrtOptions { client, ..Default::default() }).unwrap();
    drop(cpu);
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

#[test]
fn scalars_are_arguments_of_a_run() {
    let Some(cpu) = cpu() else { return };
    let ty = Type::new(DType::BF16, ());
    let program = compile(&cpu, &samples::program(&[ty.clone(), ty], Op::Binary(BinaryOp::Multiply)).unwrap());
    for (x, y) in [(2.0, 3.0), (-0.5, 8.0)] {
        let mut arguments = [x, y].map(|number| Argument::Scalar(Scalar::Float(number).to_bytes(DType::BF16)));
        let outcome = program.run(0, &mut arguments).unwrap();
        assert_eq!(read(&outcome.results[0]).cast_vec::<f64>(), [x * y]);
    }
}

#[test]
fn checks_are_results_and_a_program_with_checks_takes_nothing() {
    let Some(cpu) = cpu() else { return };
    let mut graph = sum(2);
    let main = graph.main();
    let position = graph.parameter(main, Type::new(DType::I32, ()));
    let guards = graph[main].results[0].node;
    graph.checks.push(Check { value: position, guards });
    let program = compile(&cpu, &graph);
    let x = f32s(&[1.0, 2.0]);
    for number in [-1, 5] {
        let position = Scalar::Int(number).to_bytes(DType::I32);
        let mut arguments =
            [Argument::Donated(upload(&cpu, 0, &x)), Argument::Shared(upload(&cpu, 0, &x)), Argument::Scalar(position)];
        let outcome = program.run(0, &mut arguments).unwrap();
        assert_eq!(outcome.checks, [number as i32]);
        assert_eq!((outcome.results.len(), read(&outcome.results[0])), (1, f32s(&[2.0, 4.0])));
        let Argument::Donated(x_again) = &arguments[0] else { panic!("{arguments:?}") };
        assert_eq!(read(x_again), x);
    }
}

#[test]
fn what_cannot_be_compiled_says_so() {
    let Some(cpu) = cpu() else { return };
    let kind = |graph: &Graph| cpu.compile(graph, CompileOptions::default()).unwrap_err().kind();
    for (name, graph) in samples::every_op() {
        if name.starts_with("all_reduce") || name.starts_with("lu ") || name.starts_with("collective_permute") {
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

#[test]
fn threads_share_a_program() {
    let Some(cpu) = cpu() else { return };
    let program = compile(&cpu, &sum(64));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (cpu, program) = (&cpu, &program);
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

#[test]
fn the_oldest_plugin_works_too() {
    let Some(path) = pjrt::plugin(pjrt::OLD_CPU) else { return };
    let old = Pjrt::open(path, &PjrtOptions::default()).unwrap();
    assert_eq!(old.api_version(), (0, 81));
    let program = compile(&old, &sum(2));
    let x = f32s(&[1.0, 2.0]);
    let mut arguments = [Argument::Donated(upload(&old, 0, &x)), Argument::Shared(upload(&old, 0, &x))];
    assert_eq!(read(&program.run(0, &mut arguments).unwrap().results[0]), f32s(&[2.0, 4.0]));
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

#[test]
fn a_training_step_is_one_program_and_learns_what_the_host_learns() {
    let Some(path) = pjrt::plugin(pjrt::CPU) else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (plugin, programs) = train(&Device::pjrt(path).unwrap());
    let (host, _) = train(&Device::host().unwrap());
    assert_eq!(programs, 10);
    assert!(plugin[19] < 0.9 * plugin[0], "{plugin:?}");
    for (plugin, host) in plugin.iter().zip(&host) {
        // Sums of at most 64 terms in f32 in another order, 20 steps: 64 · 20 · 2⁻²⁴ is 8e-5.
        assert!((plugin - host).abs() <= 1e-4 * host.abs(), "{plugin} {host}");
    }
}
