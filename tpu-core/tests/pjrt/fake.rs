//! A PJRT plugin that fails as it is told, for `pjrt_fake.rs`, which compiles this file into a library of its own.
//!
//! Its programs give their first argument as every result, and −1 as every check. Runs and transfers to the host happen late, on threads. It counts the objects
//! that it made and nobody freed.
#![allow(dead_code, reason = "the declarations of the crate, not all of which are needed here")]
#![allow(clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks, reason = "each object is what the caller got")]

#[path = "../../src/runtime/pjrt/sys.rs"]
mod sys;

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use sys::{Args, Call, Head, Raw};

include!("modes.rs");

static MODE: AtomicU32 = AtomicU32::new(0);
static LIVE: AtomicI64 = AtomicI64::new(0);
static KEPT: AtomicU64 = AtomicU64::new(0);
static RUNNING: AtomicI64 = AtomicI64::new(0);
static COMPILES: AtomicI64 = AtomicI64::new(0);

/// Chooses how it fails from now on.
#[unsafe(no_mangle)]
pub extern "C" fn fake_fail(mode: u32) {
    MODE.store(mode, SeqCst);
}

/// Objects that were made and not freed.
#[unsafe(no_mangle)]
pub extern "C" fn fake_live() -> i64 {
    LIVE.load(SeqCst)
}

/// A bit for each input that the last run said to keep.
#[unsafe(no_mangle)]
pub extern "C" fn fake_kept() -> u64 {
    KEPT.load(SeqCst)
}

/// Runs that are not over.
#[unsafe(no_mangle)]
pub extern "C" fn fake_running() -> i64 {
    RUNNING.load(SeqCst)
}

/// Programs that were compiled.
#[unsafe(no_mangle)]
pub extern "C" fn fake_compiles() -> i64 {
    COMPILES.load(SeqCst)
}

fn failing(mode: u32) -> bool {
    MODE.load(SeqCst) & !FLAGS == mode
}

fn has(flag: u32) -> bool {
    MODE.load(SeqCst) & flag != 0
}

/// An object that the caller frees.
fn give<T>(object: T) -> Raw {
    LIVE.fetch_add(1, SeqCst);
    Box::into_raw(Box::new(object)).cast()
}

unsafe fn free<T>(object: Raw) {
    LIVE.fetch_sub(1, SeqCst);
    drop(unsafe { Box::from_raw(object.cast::<T>()) });
}

/// The arguments, whatever size the caller says they have.
unsafe fn body<'a, T>(args: Raw) -> &'a mut T {
    &mut unsafe { &mut *args.cast::<Args<T>>() }.body
}

struct Failure {
    code: i32,
    text: Vec<u8>,
}

fn error(code: i32, text: &str) -> Raw {
    let mut text = text.as_bytes().to_vec();
    if failing(EXECUTE_FAILS) {
        text.push(0xFF);
    }
    give(Failure { code, text })
}

unsafe extern "C" fn error_destroy(args: Raw) -> Raw {
    unsafe { free::<Failure>(body::<sys::ErrorDestroy>(args).error) };
    null_mut()
}

unsafe extern "C" fn error_message(args: Raw) -> Raw {
    let args = unsafe { body::<sys::ErrorMessage>(args) };
    let failure = unsafe { &*args.error.cast::<Failure>() };
    (args.message, args.message_size) = (failure.text.as_ptr().cast(), failure.text.len());
    null_mut()
}

unsafe extern "C" fn error_get_code(args: Raw) -> Raw {
    let args = unsafe { body::<sys::ErrorGetCode>(args) };
    args.code = unsafe { &*args.error.cast::<Failure>() }.code;
    null_mut()
}

unsafe extern "C" fn plugin_initialize(_: Raw) -> Raw {
    if failing(INITIALIZE_FAILS) { error(13, "no licence") } else { null_mut() }
}

/// Something that a thread does later, and has then failed or not.
struct FakeEvent {
    shared: Arc<Shared>,
    fails: bool,
}

struct Shared {
    state: Mutex<State>,
    over: Condvar,
}

impl Shared {
    fn finish(&self) {
        let mut state = self.state.lock().unwrap();
        state.over = true;
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        self.over.notify_all();
        for (callback, user_arg, fails) in callbacks {
            unsafe { callback(if fails { lost() } else { null_mut() }, user_arg as Raw) };
        }
    }
}

#[derive(Default)]
struct State {
    over: bool,
    /// Whom to call, with what, and whether it failed.
    callbacks: Vec<(sys::OnReady, usize, bool)>,
}

fn died() -> Raw {
    error(14, "no connection")
}

fn lost() -> Raw {
    error(15, "lost on the way")
}

/// An event that is over a little later; where it hangs, not before the mode is WORKS.
fn event(fails: u32, hangs: u32, work: impl FnOnce() + Send + 'static) -> Raw {
    let shared = Arc::new(Shared { state: Mutex::default(), over: Condvar::new() });
    let (hangs, on_thread) = (failing(hangs), shared.clone());
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(10));
        while hangs && !failing(WORKS) {
            std::thread::sleep(Duration::from_millis(1));
        }
        work();
        on_thread.finish();
    });
    give(FakeEvent { shared, fails: failing(fails) })
}

unsafe extern "C" fn event_destroy(args: Raw) -> Raw {
    unsafe { free::<FakeEvent>(body::<sys::EventDestroy>(args).event) };
    null_mut()
}

unsafe extern "C" fn event_is_ready(args: Raw) -> Raw {
    let args = unsafe { body::<sys::EventIsReady>(args) };
    args.is_ready = unsafe { &*args.event.cast::<FakeEvent>() }.shared.state.lock().unwrap().over;
    null_mut()
}

unsafe extern "C" fn event_await(args: Raw) -> Raw {
    let event = unsafe { &*body::<sys::EventAwait>(args).event.cast::<FakeEvent>() };
    let shared = &event.shared;
    drop(shared.over.wait_while(shared.state.lock().unwrap(), |state| !state.over).unwrap());
    if event.fails { lost() } else { null_mut() }
}

unsafe extern "C" fn event_on_ready(args: Raw) -> Raw {
    if has(ON_READY_FAILS) {
        return error(13, "no thread to call from");
    }
    let args = unsafe { body::<sys::EventOnReady>(args) };
    let event = unsafe { &*args.event.cast::<FakeEvent>() };
    let callback = args.callback.expect("a function");
    let mut state = event.shared.state.lock().unwrap();
    if state.over {
        drop(state);
        unsafe { callback(if event.fails { lost() } else { null_mut() }, args.user_arg) };
    } else {
        state.callbacks.push((callback, args.user_arg as usize, event.fails));
    }
    null_mut()
}

unsafe extern "C" fn client_create(args: Raw) -> Raw {
    if failing(CLIENT_FAILS) {
        return error(5, "no such hardware");
    }
    // Two devices: any two different pointers.
    unsafe { body::<sys::ClientCreate>(args) }.client = give([8 as Raw, 16 as Raw]);
    null_mut()
}

unsafe extern "C" fn client_destroy(args: Raw) -> Raw {
    unsafe { free::<[Raw; 2]>(body::<sys::ClientDestroy>(args).client) };
    null_mut()
}

unsafe extern "C" fn client_platform_name(args: Raw) -> Raw {
    let args = unsafe { body::<sys::ClientPlatformName>(args) };
    (args.platform_name, args.platform_name_size) = (c"FAKE".as_ptr(), 4);
    null_mut()
}

unsafe extern "C" fn client_platform_version(args: Raw) -> Raw {
    let args = unsafe { body::<sys::ClientPlatformVersion>(args) };
    (args.platform_version, args.platform_version_size) = (null(), 0);
    null_mut()
}

unsafe extern "C" fn client_addressable_devices(args: Raw) -> Raw {
    let args = unsafe { body::<sys::ClientAddressableDevices>(args) };
    args.addressable_devices = args.client.cast_const().cast();
    args.num_addressable_devices = if failing(NO_DEVICES) { 0 } else { 2 };
    null_mut()
}

unsafe extern "C" fn device_get_description(args: Raw) -> Raw {
    let args = unsafe { body::<sys::DeviceGetDescription>(args) };
    args.device_description = args.device;
    null_mut()
}

unsafe extern "C" fn device_description_kind(args: Raw) -> Raw {
    let args = unsafe { body::<sys::DeviceDescriptionKind>(args) };
    (args.device_kind, args.device_kind_size) = (c"fake kind".as_ptr(), 9);
    null_mut()
}

unsafe extern "C" fn device_memory_stats(args: Raw) -> Raw {
    let args = unsafe { body::<sys::DeviceMemoryStats>(args) };
    (args.bytes_in_use, args.bytes_limit, args.bytes_limit_is_set) = (100, 1000, true);
    (args.peak_bytes_in_use, args.peak_bytes_in_use_is_set) = (200, true);
    null_mut()
}

unsafe extern "C" fn client_compile(args: Raw) -> Raw {
    if failing(DIED) {
        return died();
    }
    if failing(COMPILE_FAILS) {
        return error(8, "24.00G exceeds available memory");
    }
    COMPILES.fetch_add(1, SeqCst);
    let args = unsafe { body::<sys::ClientCompile>(args) };
    let program = unsafe { &(*args.program).body };
    let text = unsafe { std::slice::from_raw_parts(program.code.cast::<u8>(), program.code_size) };
    args.executable = give(Program { client: args.client, text: text.to_vec() });
    null_mut()
}

/// A compiled program.
#[derive(Clone)]
struct Program {
    client: Raw,
    text: Vec<u8>,
}

impl Program {
    /// For each result whether it is a check: a scalar i32.
    fn outputs(&self) -> Vec<bool> {
        let text = std::str::from_utf8(&self.text).unwrap();
        let main = text.lines().find(|line| line.contains("@main")).unwrap();
        let results = main.split_once("->").unwrap().1;
        results.split("tensor<").skip(1).map(|ty| ty.starts_with("i32>")).collect()
    }
}

const SERIALIZED: &[u8] = b"FAKE";

unsafe extern "C" fn executable_serialize(args: Raw) -> Raw {
    let args = unsafe { body::<sys::ExecutableSerialize>(args) };
    let program = unsafe { &*args.executable.cast::<Program>() };
    let bytes = Box::new([SERIALIZED, &program.text].concat());
    (args.serialized_bytes, args.serialized_bytes_size) = (bytes.as_ptr().cast(), bytes.len());
    args.serialized_executable = give(bytes);
    args.serialized_executable_deleter = Some(delete_serialized);
    null_mut()
}

unsafe extern "C" fn delete_serialized(bytes: Raw) {
    unsafe { free::<Box<Vec<u8>>>(bytes) };
}

unsafe extern "C" fn executable_deserialize_and_load(args: Raw) -> Raw {
    let args = unsafe { body::<sys::ExecutableDeserializeAndLoad>(args) };
    let (start, len) = (args.serialized_executable.cast::<u8>(), args.serialized_executable_size);
    let Some(text) = unsafe { std::slice::from_raw_parts(start, len) }.strip_prefix(SERIALIZED) else {
        return error(3, "not an executable of this plugin");
    };
    args.loaded_executable = give(Program { client: args.client, text: text.to_vec() });
    null_mut()
}

unsafe extern "C" fn loaded_executable_addressable_devices(args: Raw) -> Raw {
    let args = unsafe { body::<sys::LoadedExecutableAddressableDevices>(args) };
    args.addressable_devices = unsafe { &*args.executable.cast::<Program>() }.client.cast_const().cast();
    args.num_addressable_devices = 2;
    null_mut()
}

unsafe extern "C" fn client_topology_description(args: Raw) -> Raw {
    let args = unsafe { body::<sys::ClientTopologyDescription>(args) };
    args.topology = args.client;
    null_mut()
}

unsafe extern "C" fn topology_description_platform_version(args: Raw) -> Raw {
    let args = unsafe { body::<sys::TopologyDescriptionPlatformVersion>(args) };
    let version = if has(OTHER_BUILD) { c"build 2" } else { c"build 1" };
    (args.platform_version, args.platform_version_size) = (version.as_ptr(), 7);
    null_mut()
}

/// Where a device lies.
struct Place([i64; 2], sys::NamedValue);
unsafe impl Sync for Place {}
unsafe impl Send for Place {}

unsafe extern "C" fn device_description_attributes(args: Raw) -> Raw {
    static PLACES: [std::sync::OnceLock<Box<Place>>; 2] = [const { std::sync::OnceLock::new() }; 2];
    let args = unsafe { body::<sys::DeviceDescriptionAttributes>(args) };
    let x = has(OTHER_COORDINATES) as usize;
    let place = PLACES[x].get_or_init(|| {
        let mut place = Box::new(Place([x as i64, 0], sys::NamedValue::default()));
        let (name, at) = (c"coords", place.0.as_ptr());
        place.1 = sys::NamedValue {
            struct_size: size_of::<sys::NamedValue>(),
            name: name.as_ptr(),
            name_size: 6,
            r#type: sys::named::INT64_LIST,
            value: at as u64,
            value_size: 2,
            ..Default::default()
        };
        place
    });
    (args.attributes, args.num_attributes) = (&raw const place.1, 1);
    null_mut()
}

unsafe extern "C" fn loaded_executable_get_executable(args: Raw) -> Raw {
    let args = unsafe { body::<sys::LoadedExecutableGetExecutable>(args) };
    args.executable = give(unsafe { &*args.loaded_executable.cast::<Program>() }.clone());
    null_mut()
}

unsafe extern "C" fn executable_num_outputs(args: Raw) -> Raw {
    let args = unsafe { body::<sys::ExecutableNumOutputs>(args) };
    let outputs = unsafe { &*args.executable.cast::<Program>() }.outputs();
    args.num_outputs = if failing(WRONG_OUTPUTS) { 7 } else { outputs.len() };
    null_mut()
}

unsafe extern "C" fn executable_destroy(args: Raw) -> Raw {
    unsafe { free::<Program>(body::<sys::ExecutableDestroy>(args).executable) };
    null_mut()
}

/// Bytes that are written late, wherever that is then.
struct Copy(Vec<u8>, *mut c_void);
unsafe impl Send for Copy {}
impl Copy {
    /// Aborts if what the caller promised to leave alone has changed.
    fn compare(self, bytes: &[u8]) {
        if !self.1.is_null() && unsafe { std::slice::from_raw_parts(self.1.cast::<u8>(), bytes.len()) } != bytes {
            std::process::abort();
        }
    }

    fn write(self) {
        if !self.1.is_null() {
            unsafe { std::ptr::copy_nonoverlapping(self.0.as_ptr(), self.1.cast(), self.0.len()) };
        }
    }
}

unsafe extern "C" fn loaded_executable_execute(args: Raw) -> Raw {
    let args = unsafe { body::<sys::LoadedExecutableExecute>(args) };
    if failing(DIED) {
        return died();
    }
    if failing(EXECUTE_FAILS) {
        return error(13, "a core melted ");
    }
    if failing(EXECUTE_OUT_OF_MEMORY) {
        return error(8, "3 GB of 2 GB");
    }
    let options = &unsafe { &*args.options }.body;
    let kept = (0..options.num_non_donatable_input_indices)
        .map(|i| 1 << unsafe { *options.non_donatable_input_indices.add(i) });
    KEPT.store(kept.sum(), SeqCst);
    let outputs = unsafe { &*args.executable.cast::<Program>() }.outputs();
    for device in 0..args.num_devices {
        let first = unsafe { **args.argument_lists.add(device) };
        let copy = unsafe { &*first.cast::<Buffer>() }.bytes().to_vec();
        let mut late = Vec::new();
        for (number, is_check) in outputs.iter().enumerate() {
            let check = if failing(BAD_INDEX) { 3i32 } else { -1 };
            let copy = if *is_check { check.to_le_bytes().to_vec() } else { copy.clone() };
            let mut bytes = vec![0u8; copy.len()];
            let at = bytes.as_mut_ptr().cast();
            let output = if failing(NO_BUFFER) { null_mut() } else { give(Buffer::Own(bytes)) };
            unsafe { *(*args.output_lists.add(device)).add(number) = output };
            late.push(Copy(copy, if output.is_null() { output } else { at }));
        }
        RUNNING.fetch_add(1, SeqCst);
        let work = move || {
            late.into_iter().for_each(Copy::write);
            RUNNING.fetch_sub(1, SeqCst);
        };
        unsafe { *args.device_complete_events.add(device) = event(EXECUTE_EVENT_FAILS, EXECUTE_HANGS, work) };
    }
    null_mut()
}

/// A value: of its own, or where the caller has it until `done`.
enum Buffer {
    Own(Vec<u8>),
    Host { start: *mut u8, len: usize, done: Arc<Shared> },
}

impl Buffer {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Host { start, len, .. } => unsafe { std::slice::from_raw_parts(*start, *len) },
        }
    }
}

unsafe extern "C" fn client_buffer_from_host_buffer(args: Raw) -> Raw {
    let args = unsafe { body::<sys::ClientBufferFromHostBuffer>(args) };
    if failing(DIED) {
        return died();
    }
    if failing(UPLOAD_FAILS) {
        return error(8, "full");
    }
    let dims = (0..args.num_dims).map(|i| unsafe { *args.dims.add(i) });
    // The tests upload f32.
    let len = 4 * dims.product::<i64>() as usize;
    if args.host_buffer_semantics == sys::semantics::MUTABLE_ZERO_COPY {
        let done = Arc::new(Shared { state: Mutex::default(), over: Condvar::new() });
        if !failing(NO_UPLOAD_EVENT) {
            args.done_with_host_buffer = give(FakeEvent { shared: done.clone(), fails: false });
        }
        args.buffer = give(Buffer::Host { start: args.data.cast_mut().cast(), len, done });
        return null_mut();
    }
    let bytes = unsafe { std::slice::from_raw_parts(args.data.cast::<u8>(), len) }.to_vec();
    // Under the longer promise, the caller's memory is read again when the transfer is late.
    let late = args.host_buffer_semantics == sys::semantics::IMMUTABLE_UNTIL_TRANSFER_COMPLETES;
    let again = Copy(Vec::new(), if late { args.data.cast_mut() } else { null_mut() });
    let compare = bytes.clone();
    args.buffer = give(Buffer::Own(bytes));
    if !failing(NO_UPLOAD_EVENT) {
        args.done_with_host_buffer = event(UPLOAD_EVENT_FAILS, UPLOAD_HANGS, move || again.compare(&compare));
    }
    null_mut()
}

unsafe extern "C" fn buffer_to_host_buffer(args: Raw) -> Raw {
    let args = unsafe { body::<sys::BufferToHostBuffer>(args) };
    if failing(DIED) {
        return died();
    }
    if failing(READ_FAILS) {
        return error(3, "deleted");
    }
    let copy = Copy(unsafe { &*args.src.cast::<Buffer>() }.bytes().to_vec(), args.dst);
    args.event = event(READ_EVENT_FAILS, READ_HANGS, move || copy.write());
    null_mut()
}

unsafe extern "C" fn buffer_destroy(args: Raw) -> Raw {
    let buffer = unsafe { body::<sys::BufferDestroy>(args) }.buffer;
    if let Buffer::Host { start, len, done } = unsafe { &*buffer.cast::<Buffer>() } {
        // A device that writes until the very end.
        let (late, done) = (Copy(vec![0xEE; *len], start.cast()), done.clone());
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            late.write();
            done.finish();
        });
    }
    unsafe { free::<Buffer>(buffer) };
    null_mut()
}

type Function = unsafe extern "C" fn(Raw) -> Raw;

#[repr(C)]
struct Table {
    head: Head,
    functions: [Option<Function>; 118],
}

static TABLES: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The table as the mode says.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name that callers look for")]
pub extern "C" fn GetPjrtApi() -> *const Head {
    if failing(NO_TABLE) {
        return null();
    }
    let mut functions: [Option<Function>; 118] = [None; 118];
    let mut set = |index: usize, function: Function| functions[index] = Some(function);
    set(sys::ErrorDestroy::INDEX, error_destroy);
    set(sys::ErrorMessage::INDEX, error_message);
    set(sys::ErrorGetCode::INDEX, error_get_code);
    set(sys::PluginInitialize::INDEX, plugin_initialize);
    set(sys::EventDestroy::INDEX, event_destroy);
    set(sys::EventIsReady::INDEX, event_is_ready);
    set(sys::EventAwait::INDEX, event_await);
    set(sys::EventOnReady::INDEX, event_on_ready);
    set(sys::ClientCreate::INDEX, client_create);
    set(sys::ClientDestroy::INDEX, client_destroy);
    set(sys::ClientPlatformName::INDEX, client_platform_name);
    set(sys::ClientPlatformVersion::INDEX, client_platform_version);
    set(sys::ClientAddressableDevices::INDEX, client_addressable_devices);
    set(sys::ClientCompile::INDEX, client_compile);
    set(sys::ClientBufferFromHostBuffer::INDEX, client_buffer_from_host_buffer);
    set(sys::DeviceDescriptionKind::INDEX, device_description_kind);
    set(sys::DeviceGetDescription::INDEX, device_get_description);
    set(sys::DeviceMemoryStats::INDEX, device_memory_stats);
    set(sys::ExecutableDestroy::INDEX, executable_destroy);
    set(sys::ExecutableNumOutputs::INDEX, executable_num_outputs);
    set(sys::LoadedExecutableDestroy::INDEX, executable_destroy);
    set(sys::LoadedExecutableGetExecutable::INDEX, loaded_executable_get_executable);
    set(sys::LoadedExecutableExecute::INDEX, loaded_executable_execute);
    set(sys::BufferDestroy::INDEX, buffer_destroy);
    set(sys::BufferToHostBuffer::INDEX, buffer_to_host_buffer);
    if has(TELLS) {
        let mut set = |index: usize, function: Function| functions[index] = Some(function);
        set(sys::ExecutableSerialize::INDEX, executable_serialize);
        set(sys::ExecutableDeserializeAndLoad::INDEX, executable_deserialize_and_load);
        set(sys::LoadedExecutableAddressableDevices::INDEX, loaded_executable_addressable_devices);
        set(sys::ClientTopologyDescription::INDEX, client_topology_description);
        set(sys::TopologyDescriptionPlatformVersion::INDEX, topology_description_platform_version);
        set(sys::DeviceDescriptionAttributes::INDEX, device_description_attributes);
    }
    if failing(NO_ON_READY) {
        functions[sys::EventOnReady::INDEX] = None;
    }
    if failing(NULL_ENTRY) {
        functions[sys::ClientCompile::INDEX] = None;
    }
    let struct_size = match MODE.load(SeqCst) & !FLAGS {
        TINY_TABLE => 8,
        // What lies behind must not be read.
        SHORT_TABLE => size_of::<Head>() + 8 * sys::ClientCompile::INDEX,
        _ => size_of::<Table>(),
    };
    let head = Head {
        struct_size,
        extension_start: null_mut(),
        version_size: 24,
        version_extension_start: null_mut(),
        major: if failing(NEXT_MAJOR) { 1 } else { 0 },
        minor: if failing(OLD_VERSION) { 80 } else { 500 },
    };
    let table: &'static Table = Box::leak(Box::new(Table { head, functions }));
    // Never freed, as callers expect, and reachable, so that it does not count as lost.
    TABLES.lock().unwrap().push(table as *const Table as usize);
    table as *const Table as *const Head
}
