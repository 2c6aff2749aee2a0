//! The error paths of the plugin backend, with a plugin that fails as it is told.

#[path = "pjrt/fakes.rs"]
mod fakes;

use fakes::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tpu_core::ir::{BinaryOp, Check, Graph, Op, Type};
use tpu_core::runtime::pjrt::{OptionValue, Pjrt, PjrtOptions, ProgramOptions};
use tpu_core::runtime::{Argument, Backend, CompileOptions, HostMemory};
use tpu_core::{DType, Device, ErrorKind, Scalar, Tensor};

/// The system's allocator, which remembers when watched addresses are freed.
struct Watching;

/// Watched addresses; 1: was freed; 0: not in use.
static WATCHED: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];

#[global_allocator]
static ALLOCATOR: Watching = Watching;

// SAFETY: all is done by the system's allocator.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        for watched in &WATCHED {
            let _ = watched.compare_exchange(at as usize, 1, SeqCst, SeqCst);
        }
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Whether some memory has been freed.
struct Watch(&'static AtomicUsize);

impl Watch {
    fn new(memory: &HostMemory) -> Self {
        let at = memory.bytes().as_ptr() as usize;
        let free = |place: &&AtomicUsize| place.compare_exchange(0, at, SeqCst, SeqCst).is_ok();
        Self(WATCHED.iter().find(free).expect("a place for another watch"))
    }

    fn is_freed(&self) -> bool {
        self.0.load(SeqCst) == 1
    }

    #[track_caller]
    fn assert_freed_soon(&self) {
        let start = Instant::now();
        while !self.is_freed() {
            assert!(start.elapsed() < Duration::from_secs(60), "the memory is not freed");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.store(0, SeqCst);
    }
}

#[test]
fn a_plugin_that_works_works_and_everything_is_freed() {
    let fake = Fake::new(WORKS);
    let backend = fake.open().unwrap();
    assert_eq!((backend.name(), backend.device_count(), backend.api_version()), ("fake", 2, (0, 500)));
    assert_eq!(backend.device_kind(0).unwrap(), "fake kind");
    for _ in 0..3 {
        assert_eq!(round(&backend).unwrap(), BYTES);
    }
    drop(backend);
    assert_eq!(fake.live(), 0);
}

#[test]
fn memory_is_what_the_plugin_says() {
    let backend = Fake::new(WORKS).open().unwrap();
    let memory = backend.memory(1);
    assert_eq!((memory.in_use, memory.peak, memory.limit), (100, 200, Some(1000)));
}

#[test]
fn libraries_that_are_no_usable_plugin_are_refused() {
    let cases = [
        (OLD_VERSION, "has C API 0.80, requires 0.81 or a later 0"),
        (NEXT_MAJOR, "has C API 1.500"),
        (NO_TABLE, "gives no function table"),
        (TINY_TABLE, "a function table of 8 bytes"),
    ];
    for (mode, text) in cases {
        assert_error(Fake::new(mode).open().unwrap_err(), ErrorKind::Unsupported, text);
    }
    let text_file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let error = Pjrt::open(text_file, &PjrtOptions::default()).unwrap_err();
    assert_error(error, ErrorKind::Io, "could not load");
    // The reason is the loader's.
    let error = Pjrt::open("no/such/plugin.so", &PjrtOptions::default()).unwrap_err();
    assert_error(error, ErrorKind::Io, "No such file");
}

#[test]
fn a_function_that_the_plugin_lacks_is_an_error_that_names_it() {
    for mode in [SHORT_TABLE, NULL_ENTRY] {
        let fake = Fake::new(mode);
        let backend = fake.open();
        // The short table ends before the functions on devices.
        let error = backend.and_then(|backend| compile(&backend)).unwrap_err();
        let name = if mode == SHORT_TABLE { "PJRT_Device_GetDescription" } else { "PJRT_Client_Compile" };
        assert_error(error, ErrorKind::Unsupported, &format!("{name} is not implemented by"));
    }
}

#[test]
fn a_client_that_does_not_start_is_an_error() {
    let error = |mode| {
        let fake = Fake::new(mode);
        let error = fake.open().unwrap_err();
        assert_eq!(fake.live(), 0, "{error}");
        error
    };
    assert_error(error(INITIALIZE_FAILS), ErrorKind::Execution, "PJRT_Plugin_Initialize failed: no licence (code 13)");
    assert_error(error(CLIENT_FAILS), ErrorKind::Device, "PJRT_Client_Create failed: no such hardware");
    assert_error(error(NO_DEVICES), ErrorKind::Device, "has no devices");
}

#[test]
fn a_wrong_option_never_reaches_the_plugin() {
    // The library is not even loaded.
    let client = vec![("cpu_device_count".to_string(), OptionValue::Int(-1))];
    let error = Pjrt::open("no/such/plugin.so", &PjrtOptions { client, ..Default::default() }).unwrap_err();
    assert_error(error, ErrorKind::Value, "a number from 1 to 64");
}

#[test]
fn failures_of_a_working_client_are_errors_and_leak_nothing() {
    let cases = [
        (COMPILE_FAILS, ErrorKind::OutOfMemory, "PJRT_Client_Compile failed: 24.00G exceeds"),
        (WRONG_OUTPUTS, ErrorKind::Execution, "requires 1 results, got a program of 7"),
        (UPLOAD_FAILS, ErrorKind::OutOfMemory, "PJRT_Client_BufferFromHostBuffer failed: full"),
        (UPLOAD_EVENT_FAILS, ErrorKind::Execution, "lost on the way"),
        (EXECUTE_FAILS, ErrorKind::Execution, "a core melted \u{FFFD}"),
        (EXECUTE_EVENT_FAILS, ErrorKind::Execution, "lost on the way"),
        (NO_BUFFER, ErrorKind::Execution, "gave no buffer"),
        (READ_FAILS, ErrorKind::Value, "PJRT_Buffer_ToHostBuffer failed: deleted"),
        (READ_EVENT_FAILS, ErrorKind::Execution, "lost on the way"),
    ];
    for (mode, kind, text) in cases {
        let fake = Fake::new(WORKS);
        let backend = fake.open().unwrap();
        fake.fail(mode);
        assert_error(round(&backend).unwrap_err(), kind, text);
        // It is not the end: what comes next works.
        fake.fail(WORKS);
        assert_eq!(round(&backend).unwrap(), BYTES, "{text}");
        drop(backend);
        assert_eq!(fake.live(), 0, "{text}");
    }
}

#[test]
fn what_hangs_times_out_and_stays_allocated_until_the_plugin_is_done_with_it() {
    // Beside the client and the event: the buffer; results, both arguments and the program; the program's result, as a
    // read only writes to memory of the host (which `cargo xtask valgrind` looks after).
    let cases =
        [(UPLOAD_HANGS, "an upload", 3), (EXECUTE_HANGS, "a run", 6), (READ_HANGS, "a transfer to the host", 2)];
    for (mode, text, objects) in cases {
        let fake = Fake::new(WORKS);
        let backend = impatient(&fake);
        assert_eq!(round(&backend).unwrap(), BYTES);
        fake.fail(mode);
        assert_error(round(&backend).unwrap_err(), ErrorKind::TimedOut, text);
        drop(backend);
        assert_eq!(fake.live(), objects, "{text}");
        fake.fail(WORKS);
        // A client that had something hanging is never closed.
        assert_live_soon(&fake, 1);
    }
}

/// Two pages of f32, which is enough to be lent instead of copied.
fn large() -> Type {
    Type::new(DType::F32, [8192])
}

fn numbered(mut memory: HostMemory) -> HostMemory {
    memory.bytes_mut().iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
    memory
}

#[test]
fn memory_that_a_device_uses_lives_until_it_is_done_with_it() {
    let bytes = large().bytes().unwrap();
    let fake = Fake::new(WORKS);
    let backend = fake.open().unwrap();
    // Aligned memory is used as it is, until the buffer is gone and the device says so.
    let aligned = numbered(HostMemory::aligned(bytes).unwrap());
    let (want, watch) = (aligned.bytes().to_vec(), Watch::new(&aligned));
    let buffer = backend.upload_owned(0, &large(), aligned).unwrap();
    let mut got = vec![0; bytes];
    buffer.read(&mut got).unwrap();
    assert!(got == want && !watch.is_freed());
    drop(buffer);
    watch.assert_freed_soon();
    // Other memory is copied later.
    let other = numbered(misaligned(bytes));
    let watch = Watch::new(&other);
    fake.fail(UPLOAD_HANGS);
    let buffer = backend.upload_owned(0, &large(), other).unwrap();
    std::thread::sleep(Duration::from_millis(30));
    assert!(!watch.is_freed());
    fake.fail(WORKS);
    watch.assert_freed_soon();
    buffer.read(&mut got).unwrap();
    assert!(got == want);
    // What is too small to be lent, or not of the value's size.
    let small = HostMemory::from(BYTES.to_vec());
    let watch = Watch::new(&small);
    backend.upload_owned(0, &vector(), small).unwrap();
    assert!(watch.is_freed());
    let error = backend.upload_owned(0, &vector(), HostMemory::from(vec![0])).unwrap_err();
    assert_error(error, ErrorKind::Shape, "requires the 8 bytes of float32[2], got 1");
    drop((buffer, backend));
    assert_live_soon(&fake, 0);
}

#[test]
fn a_read_that_hangs_or_that_nobody_waits_for_keeps_its_memory() {
    let fake = Fake::new(WORKS);
    let backend = impatient(&fake);
    let buffer = upload(&backend).unwrap();
    for wait in [true, false] {
        fake.fail(READ_HANGS);
        let target = HostMemory::from(vec![0; 8]);
        let watch = Watch::new(&target);
        let reading = buffer.start_read(target).unwrap();
        match wait {
            true => assert_error(reading.wait().unwrap_err(), ErrorKind::TimedOut, "a transfer to the host"),
            false => drop(reading),
        }
        assert!(!watch.is_freed());
        fake.fail(WORKS);
        watch.assert_freed_soon();
    }
}

#[test]
fn late_failures_are_the_plugins_and_not_time_outs() {
    for mode in [UPLOAD_EVENT_FAILS, EXECUTE_EVENT_FAILS, READ_EVENT_FAILS] {
        let fake = Fake::new(WORKS);
        let backend = impatient(&fake);
        fake.fail(mode);
        assert_error(round(&backend).unwrap_err(), ErrorKind::Execution, "lost on the way");
        drop(backend);
        assert_live_soon(&fake, 0);
    }
}

#[test]
fn a_plugin_that_cannot_call_is_asked() {
    // It lacks the function, or the function fails.
    for mode in [NO_ON_READY, WORKS | ON_READY_FAILS] {
        let fake = Fake::new(mode);
        let backend = impatient(&fake);
        fake.fail(mode);
        assert_eq!(round(&backend).unwrap(), BYTES);
        let program = compile(&backend).unwrap();
        let mut arguments = [Argument::Shared(upload(&backend).unwrap()), Argument::Shared(upload(&backend).unwrap())];
        fake.fail(EXECUTE_HANGS | mode & FLAGS);
        assert_error(program.run(0, &mut arguments).unwrap_err(), ErrorKind::TimedOut, "a run");
        fake.fail(WORKS);
        drop((arguments, program, backend));
        // Nobody knows when the run is over: the client, the event, the result, both arguments and the program stay.
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(fake.live(), 6);
    }
}

#[test]
fn memory_of_which_nobody_says_that_it_is_free_again_is_never_freed() {
    let bytes = large().bytes().unwrap();
    let cases = [(NO_UPLOAD_EVENT, "the plugin gave none"), (WORKS | ON_READY_FAILS, "no thread to call from")];
    for (mode, text) in cases {
        let fake = Fake::new(WORKS);
        let backend = fake.open().unwrap();
        fake.fail(mode);
        for memory in [HostMemory::aligned(bytes).unwrap(), misaligned(bytes)] {
            let watch = Watch::new(&memory);
            assert_error(backend.upload_owned(0, &large(), memory).unwrap_err(), ErrorKind::Execution, text);
            // The device writes to it until its buffer is gone, and says nothing.
            std::thread::sleep(Duration::from_millis(50));
            assert!(!watch.is_freed());
        }
        // Bytes that are read during the call need no event.
        fake.fail(WORKS);
        assert_eq!(round(&backend).unwrap(), BYTES);
        drop(backend);
        assert_live_soon(&fake, 0);
    }
}

/// Memory that no device can use as it is. That it is not aligned is up to the system's allocator, so it is made sure of.
fn misaligned(bytes: usize) -> HostMemory {
    let many: Vec<HostMemory> = std::iter::repeat_with(|| HostMemory::from(vec![0; bytes])).take(64).collect();
    many.into_iter().find(|memory| !(memory.bytes().as_ptr() as usize).is_multiple_of(64)).unwrap()
}

#[test]
fn others_stay_readable_while_a_run_hangs() {
    let fake = Fake::new(WORKS);
    let device = Device::open(Arc::new(impatient(&fake))).swap_remove(0);
    device.scope(|| {
        let x = Tensor::from_slice(&[1.0f32, 2.0]).unwrap();
        let y = x.add(&x).unwrap();
        y.wait().unwrap();
        fake.fail(EXECUTE_HANGS);
        let z = x.mul(&x).unwrap();
        assert_error(z.to_vec::<f32>().unwrap_err(), ErrorKind::TimedOut, "a run");
        assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0]);
        assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 2.0]);
        fake.fail(WORKS);
        assert_eq!(x.mul(&x).unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0]);
    });
}

#[test]
fn a_run_that_does_not_begin_takes_nothing_and_one_that_does_takes_what_is_donated() {
    for (mode, begins) in
        [(EXECUTE_FAILS, false), (EXECUTE_OUT_OF_MEMORY, false), (EXECUTE_EVENT_FAILS, true), (NO_BUFFER, true)]
    {
        let fake = Fake::new(WORKS);
        let backend = fake.open().unwrap();
        let program = compile(&backend).unwrap();
        let mut arguments = [Argument::Donated(upload(&backend).unwrap()), Argument::Shared(upload(&backend).unwrap())];
        fake.fail(mode);
        program.run(0, &mut arguments).unwrap_err();
        fake.fail(WORKS);
        let readable = |argument: &Argument| match argument {
            Argument::Donated(buffer) | Argument::Shared(buffer) => {
                let mut bytes = [0; 8];
                buffer.read(&mut bytes).unwrap();
                bytes == BYTES
            }
            _ => false,
        };
        // The plugin may have written over what it took before it failed.
        assert_eq!(arguments.each_ref().map(readable), [!begins, true], "{mode}");
        assert!(!begins || matches!(arguments[0], Argument::Taken));
    }
}

#[test]
fn a_result_that_is_missing_is_judged_when_the_run_is_over() {
    let fake = Fake::new(WORKS);
    let backend = fake.open().unwrap();
    let program = compile(&backend).unwrap();
    let mut arguments = [Argument::Shared(upload(&backend).unwrap()), Argument::Shared(upload(&backend).unwrap())];
    fake.fail(NO_BUFFER);
    assert_error(program.run(0, &mut arguments).unwrap_err(), ErrorKind::Execution, "gave no buffer");
    assert_eq!(fake.running(), 0);
}

/// [`first`] whose result is guarded by a check that is its third argument.
fn checked() -> Graph {
    let mut graph = first();
    let main = graph.main();
    let bad = graph.parameter(main, Type::new(DType::I32, ()));
    let x = graph[main].results[0];
    let doubled = graph.push(main, Op::Binary(BinaryOp::Add), &[x, x]).unwrap();
    graph.set_results(main, vec![doubled.into()]);
    graph.checks.push(Check { value: bad, guards: doubled });
    graph
}

#[test]
fn a_program_with_checks_gives_away_and_gets_back_when_one_fails() {
    let fake = Fake::new(WORKS);
    let backend = fake.open().unwrap();
    let program = backend.compile(&checked(), CompileOptions::default()).unwrap();
    for (mode, check) in [(WORKS, -1), (BAD_INDEX, 3)] {
        let number = Argument::Scalar(Scalar::Int(0).to_bytes(DType::I32));
        let shared = Argument::Shared(upload(&backend).unwrap());
        let mut arguments = [Argument::Donated(upload(&backend).unwrap()), shared, number];
        fake.fail(mode);
        let outcome = program.run(0, &mut arguments).unwrap();
        fake.fail(WORKS);
        assert_eq!(outcome.checks, [check]);
        // Not the first argument: the second one has no result that it could become.
        assert_eq!(fake.kept() & 0b11, 0b10);
        match (mode, &arguments[0]) {
            (WORKS, Argument::Taken) => {}
            // The result, in which the program leaves the old value.
            (BAD_INDEX, Argument::Donated(buffer)) => assert!(Arc::ptr_eq(buffer, &outcome.results[0])),
            (_, argument) => panic!("{argument:?}"),
        }
    }
}

#[test]
fn a_run_says_which_inputs_the_plugin_must_keep() {
    let fake = Fake::new(WORKS);
    let backend = fake.open().unwrap();
    let program = compile(&backend).unwrap();
    for (donated, kept) in [([false, false], 0b11), ([true, false], 0b10), ([false, true], 0b01), ([true, true], 0)] {
        let mut arguments = donated.map(|donated| {
            let buffer = upload(&backend).unwrap();
            if donated { Argument::Donated(buffer) } else { Argument::Shared(buffer) }
        });
        program.run(0, &mut arguments).unwrap();
        assert_eq!(fake.kept(), kept, "{donated:?}");
    }
}

#[test]
fn buffers_of_another_client_are_refused() {
    let (one, two) = (Fake::new(WORKS), Fake::new(WORKS));
    let (one, two) = (one.open().unwrap(), two.open().unwrap());
    let program = compile(&one).unwrap();
    let mut arguments = [Argument::Shared(upload(&one).unwrap()), Argument::Shared(upload(&two).unwrap())];
    assert_error(program.run(0, &mut arguments).unwrap_err(), ErrorKind::Device, "requires argument 1 on fake:0");
    let other = tpu_core::runtime::host::Host::from_env().unwrap().upload(0, &vector(), &BYTES).unwrap();
    arguments[1] = Argument::Shared(other);
    assert_error(program.run(0, &mut arguments).unwrap_err(), ErrorKind::Device, "requires a buffer of its own");
    assert_error(program.run(0, &mut []).unwrap_err(), ErrorKind::Internal, "requires 2 arguments, got 0");
}

#[test]
fn what_the_plugin_cannot_tell_is_unsupported_or_nothing() {
    let fake = Fake::new(WORKS);
    let backend = fake.open().unwrap();
    let program = backend.lower(&first(), &ProgramOptions::default()).unwrap();
    let executable = backend.compile_lowered(&program).unwrap();
    assert_error(executable.serialize().unwrap_err(), ErrorKind::Unsupported, "PJRT_Executable_Serialize is not impl");
    assert_error(executable.fingerprint().unwrap_err(), ErrorKind::Unsupported, "PJRT_Executable_Fingerprint");
    assert_error(backend.load(&program, &[1]).unwrap_err(), ErrorKind::Unsupported, "PJRT_Executable_Deserialize");
    assert_error(backend.device_attributes(0).unwrap_err(), ErrorKind::Unsupported, "PJRT_DeviceDescription_Attr");
    assert_error(backend.device_attributes(2).unwrap_err(), ErrorKind::Device, "has devices 0 to 1, got 2");
    assert_eq!(backend.attributes(), []);
    drop((backend, executable));
    assert_eq!(fake.live(), 0);
}

#[test]
fn objects_may_outlive_what_made_them() {
    let fake = Fake::new(WORKS);
    let backend = fake.open().unwrap();
    let (program, buffer) = (compile(&backend).unwrap(), upload(&backend).unwrap());
    drop(backend);
    let mut bytes = [0; 8];
    buffer.read(&mut bytes).unwrap();
    assert_eq!(bytes, BYTES);
    drop(buffer);
    assert!(fake.live() > 0);
    drop(program);
    assert_eq!(fake.live(), 0);
}

#[test]
fn a_tensor_whose_program_failed_says_so_and_others_stay_readable() {
    let fake = Fake::new(WORKS);
    let device = Device::pjrt(&fake.path).unwrap();
    device.scope(|| {
        let x = Tensor::from_slice(&[1.0f32, 2.0]).unwrap();
        fake.fail(EXECUTE_FAILS);
        let y = x.add(&x).unwrap();
        assert_error(y.to_vec::<f32>().unwrap_err(), ErrorKind::Execution, "a core melted");
        fake.fail(WORKS);
        assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0]);
        // Every program of the fake gives its first argument.
        assert_eq!(x.add(&x).unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0]);
    });
}

/// For the test below, which starts it in a process of its own.
#[test]
#[ignore = "prints what a plugin is known by"]
#[allow(clippy::print_stdout, reason = "the other test reads it")]
fn print_the_identity() {
    let plugin = Pjrt::open("a_plugin_without_folder.so", &PjrtOptions::default()).unwrap();
    println!("identity: {}", plugin.identity().unwrap().replace('\n', " "));
}

#[test]
fn a_plugin_that_the_loader_finds_by_its_name_is_known_by_its_file() {
    let fake = Fake::new(WORKS);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a_plugin_without_folder.so");
    let mut identities = Vec::new();
    for extra in [0, 4096] {
        // The same code, and another size: bytes behind the end of a library are nothing to the loader.
        let content = [std::fs::read(&fake.path).unwrap(), vec![0; extra]].concat();
        std::fs::write(&file, &content).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--ignored", "--exact", "print_the_identity", "--nocapture"]).env("LD_LIBRARY_PATH", folder.path());
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let identity = text.lines().find_map(|line| Some(line.split_once("identity: ")?.1.to_string())).unwrap();
        assert!(identity.contains(&format!("{} bytes of Some(", content.len())), "{identity}");
        identities.push(identity);
    }
    assert_ne!(identities[0], identities[1]);
    // What took the place of the loaded file says nothing of it.
    let backend = fake.open().unwrap();
    assert!(backend.identity().is_ok());
    std::fs::remove_file(&fake.path).unwrap();
    std::fs::write(&fake.path, "another file").unwrap();
    assert_error(backend.identity().unwrap_err(), ErrorKind::Io, "requires the file of the plugin");
}

/// For the test below, which starts it in a process of its own.
#[test]
#[ignore = "prints what the environment chooses"]
#[allow(clippy::print_stdout, reason = "the other test reads it")]
fn print_the_choice() {
    println!("current: {:?}", Device::current());
    for found in tpu_core::devices() {
        println!("found: {found}");
    }
}

#[test]
fn the_environment_chooses_the_device_of_new_tensors() {
    let fake = Fake::new(WORKS);
    let path = fake.path.to_str().unwrap();
    let environment = tempfile::tempdir().unwrap();
    let package = environment.path().join("lib/python3.12/site-packages/libtpu");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::copy(&fake.path, package.join("libtpu.so")).unwrap();
    let environment = environment.path().to_str().unwrap();
    let choice = |variables: &[(&str, &str)]| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--ignored", "--exact", "print_the_choice", "--nocapture"]);
        for name in ["TPU_BACKEND", "TPU_LIBRARY_PATH", "PJRT_PLUGIN_LIBRARY_PATH", "TPU_SKIP_MDS_QUERY"] {
            child.env_remove(name);
        }
        // No Python of this machine.
        child.env("PATH", "").env("HOME", environment).env_remove("VIRTUAL_ENV").env_remove("CONDA_PREFIX");
        let output = child.envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let assert_has = |text: &str, wanted: &[&str]| {
        wanted.iter().for_each(|wanted| assert!(text.contains(wanted), "{wanted} in {text}"));
    };
    let text = choice(&[("PJRT_PLUGIN_LIBRARY_PATH", path), ("VIRTUAL_ENV", environment)]);
    // No TPU is attached where this test runs, or its plugin cannot be the fake one.
    assert_has(
        &text,
        &["current: Ok(host:0)", "found: host: [host:0]", "TPU_LIBRARY_PATH: not used: TPU_LIBRARY_PATH names no"],
    );
    assert_has(&text, &[&format!("PJRT_PLUGIN_LIBRARY_PATH ({path}): [fake:0, fake:1]")]);
    assert_has(&text, &["does not count, since PJRT_PLUGIN_LIBRARY_PATH names a plugin"]);
    let text = choice(&[("TPU_BACKEND", "pjrt"), ("TPU_LIBRARY_PATH", path), ("PJRT_PLUGIN_LIBRARY_PATH", "no.so")]);
    assert_has(&text, &["current: Ok(fake:0)", "(no.so): not used: ", "does not count, since TPU_LIBRARY_PATH"]);
    let text = choice(&[("TPU_BACKEND", "pjrt"), ("VIRTUAL_ENV", environment)]);
    assert_has(&text, &["current: Err(", "requires a TPU for", "libtpu of Python ("]);
    let text = choice(&[("TPU_BACKEND", "pjrt"), ("VIRTUAL_ENV", environment), ("TPU_SKIP_MDS_QUERY", "1")]);
    assert_has(&text, &["current: Ok(fake:0)", "libtpu.so): [fake:0, fake:1]"]);
}
