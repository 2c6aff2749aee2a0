//! What our layer adds to a call of a PJRT plugin.
//!
//! One program, `x + y` of `f32[4]`, on XLA for CPU in four ways, alternating in batches in one process: the plugin's own
//! functions called as a C program would, an executable of `runtime::pjrt`, recorded tensors with the wait for the value,
//! and the first again, which shows how much the measurement is worth. Printed are medians of a call, and what each
//! takes beyond the first. Needs `cargo xtask plugins`.
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]

#[allow(dead_code, reason = "the declarations of the crate, not all of which are needed here")]
#[allow(missing_docs, reason = "as above")]
#[path = "../../tpu-core/src/runtime/pjrt/sys.rs"]
mod sys;

use libloading::Library;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use sys::{Args, Call, Head, Raw};
use tpu_core::ir::{BinaryOp, Graph, Op, Type};
use tpu_core::runtime::pjrt::{Pjrt, PjrtOptions, ProgramOptions};
use tpu_core::runtime::{Argument, Backend, CompileOptions};
use tpu_core::{DType, Device, Mode, Tensor};

const BATCHES: usize = 300;
const CALLS: usize = 200;
const VALUES: [f32; 4] = [1.0, 2.0, 3.0, 4.0];

type Function = unsafe extern "C" fn(Raw) -> Raw;

/// The plugin's functions, called without a layer.
struct Bare {
    table: *const Head,
    client: Raw,
    executable: Raw,
    device: Raw,
    inputs: [Raw; 2],
}

impl Bare {
    fn call<T: Call>(table: *const Head, body: T) -> T {
        let mut args = Args::new(body);
        // SAFETY: the plugin is one that has all functions used here, and takes the structs that `sys` declares.
        let error = unsafe {
            let function = table.add(1).cast::<Function>().add(T::INDEX).read();
            function((&raw mut args).cast())
        };
        assert!(error.is_null(), "PJRT_{} failed", T::NAME);
        args.body
    }

    fn open(path: &Path, text: &str, options: &[u8]) -> Self {
        // SAFETY: the plugin is what the tests run on.
        let library = unsafe { Library::new(path) }.expect("the plugin loads");
        // SAFETY: the type is the header's.
        let table = unsafe { library.get::<extern "C" fn() -> *const Head>(b"GetPjrtApi\0").expect("a plugin")() };
        std::mem::forget(library);
        let client = Self::call(table, sys::ClientCreate::default()).client;
        let devices = Self::call(table, sys::ClientAddressableDevices { client, ..Default::default() });
        // SAFETY: a client has a device.
        let device = unsafe { *devices.addressable_devices };
        let program = Args::new(sys::Program {
            code: text.as_ptr().cast(),
            code_size: text.len(),
            format: c"mlir".as_ptr(),
            format_size: 4,
        });
        let compile = sys::ClientCompile {
            client,
            program: &raw const program,
            compile_options: options.as_ptr().cast(),
            compile_options_size: options.len(),
            ..Default::default()
        };
        let executable = Self::call(table, compile).executable;
        let input = || {
            let upload = sys::ClientBufferFromHostBuffer {
                client,
                data: VALUES.as_ptr().cast(),
                r#type: sys::BUFFER_TYPES.iter().position(|&name| name == "F32").expect("a type") as i32,
                dims: DIMS.as_ptr(),
                num_dims: 1,
                device,
                ..Default::default()
            };
            let given = Self::call(table, upload);
            Self::call(table, sys::EventAwait { event: given.done_with_host_buffer });
            Self::call(table, sys::EventDestroy { event: given.done_with_host_buffer });
            given.buffer
        };
        Self { table, client, executable, device, inputs: [input(), input()] }
    }

    /// Runs, waits, and drops the result.
    fn run(&self) {
        let mut options = Args::new(sys::ExecuteOptions {
            non_donatable_input_indices: KEPT.as_ptr(),
            num_non_donatable_input_indices: 2,
            ..Default::default()
        });
        let (mut output, mut done): (Raw, Raw) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (inputs, outputs) = (self.inputs.as_ptr(), &raw mut output);
        let execute = sys::LoadedExecutableExecute {
            executable: self.executable,
            options: &raw mut options,
            argument_lists: &raw const inputs,
            num_devices: 1,
            num_args: 2,
            output_lists: &raw const outputs,
            device_complete_events: &raw mut done,
            execute_device: self.device,
        };
        Self::call(self.table, execute);
        Self::call(self.table, sys::EventAwait { event: done });
        Self::call(self.table, sys::EventDestroy { event: done });
        Self::call(self.table, sys::BufferDestroy { buffer: output });
    }
}

static DIMS: [i64; 1] = [4];
static KEPT: [i64; 2] = [0, 1];

impl Drop for Bare {
    fn drop(&mut self) {
        for buffer in self.inputs {
            Self::call(self.table, sys::BufferDestroy { buffer });
        }
        Self::call(self.table, sys::LoadedExecutableDestroy { executable: self.executable });
        Self::call(self.table, sys::ClientDestroy { client: self.client });
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    if filter.is_some_and(|filter| !"pjrt".contains(&filter)) {
        return;
    }
    let file = "../target/plugins/lammps-jax-pjrt-cpu/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so";
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if !path.is_file() {
        println!("pjrt: skipped, {} is not there: run `cargo xtask plugins`", path.display());
        return;
    }
    let ty = Type::new(DType::F32, [4]);
    let mut graph = Graph::new();
    let main = graph.main();
    let operands = [graph.parameter(main, ty.clone()), graph.parameter(main, ty.clone())];
    let sum = graph.push(main, Op::Binary(BinaryOp::Add), &operands).expect("the types fit");
    graph.set_results(main, vec![sum.into()]);
    let backend = Pjrt::open(&path, &PjrtOptions::default()).expect("the plugin opens");
    let lowered = backend.lower(&graph, &ProgramOptions::default()).expect("the program lowers");
    let bare = Bare::open(&path, lowered.text(), lowered.options());

    let program = backend.compile(&graph, CompileOptions::default()).expect("the program compiles");
    let bytes: Vec<u8> = VALUES.iter().flat_map(|value| value.to_le_bytes()).collect();
    let buffers = [0, 1].map(|_| backend.upload(0, &ty, &bytes).expect("the value fits"));
    let mut arguments = buffers.map(Argument::Shared);

    let device = Device::open(Arc::new(backend)).swap_remove(0);
    let (x, y) = device.scope(|| (Tensor::from_slice(&VALUES), Tensor::from_slice(&VALUES)));
    let (x, y) = (x.expect("the value fits"), y.expect("the value fits"));

    let mut ways: [(&str, &mut dyn FnMut()); 4] = [
        ("the plugin's functions", &mut || bare.run()),
        ("an executable of runtime::pjrt", &mut || drop(program.run(0, &mut arguments).expect("the program runs"))),
        ("recorded, cut, run, waited for", &mut || {
            Mode::DeferNever.scope(|| x.add(&y).and_then(|sum| sum.wait()).expect("the tensor has a value"));
        }),
        ("the plugin's functions again", &mut || bare.run()),
    ];
    let mut times = [const { Vec::new() }; 4];
    for batch in 0..BATCHES + 10 {
        for ((_, run), times) in ways.iter_mut().zip(&mut times) {
            let start = Instant::now();
            (0..CALLS).for_each(|_| run());
            if batch >= 10 {
                times.push(start.elapsed().as_secs_f64() * 1e6 / CALLS as f64);
            }
        }
    }
    let medians = times.map(|mut times| median(&mut times));
    println!("pjrt: x + y of f32[4], µs per call, medians of {BATCHES} alternating batches of {CALLS}");
    for ((name, _), time) in ways.iter().zip(medians) {
        println!("  {name:<32} {time:6.2}   {:+.2}", time - medians[0]);
    }
}
