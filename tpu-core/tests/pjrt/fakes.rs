//! The fake plugin as tests use it.
#![allow(dead_code, reason = "each test program uses some of it")]

use libloading::Library;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tpu_core::ir::{Graph, Type};
use tpu_core::runtime::pjrt::{Pjrt, PjrtOptions};
use tpu_core::runtime::{Argument, Backend, Buffer, CompileOptions, Executable};
use tpu_core::{DType, Error, ErrorKind, Result};

include!("modes.rs");

/// A fake plugin of its own, with its own mode and counters.
pub struct Fake {
    library: Library,
    pub path: PathBuf,
}

/// The compiled fake, once per process.
fn compiled() -> &'static Path {
    static COMPILED: OnceLock<PathBuf> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fake_plugin.{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("fake.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pjrt/fake.rs");
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.args(["--edition=2024", "--crate-type=cdylib", "--crate-name=fake_plugin", "-o"]).arg(&path).arg(source);
        let output = rustc.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        path
    })
}

impl Fake {
    /// Another copy of the library, which has its own statics, set to fail in this way.
    pub fn new(mode: u32) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let path = compiled().with_file_name(format!("fake-{}.so", COUNT.fetch_add(1, SeqCst)));
        std::fs::copy(compiled(), &path).unwrap();
        // SAFETY: the library is ours; it does nothing when it is loaded.
        let library = unsafe { Library::new(&path) }.unwrap();
        let fake = Self { library, path };
        fake.fail(mode);
        fake
    }

    pub fn fail(&self, mode: u32) {
        // SAFETY: the type is the function's.
        unsafe { self.library.get::<extern "C" fn(u32)>(b"fake_fail\0").unwrap()(mode) };
    }

    /// Objects that nobody freed.
    pub fn live(&self) -> i64 {
        // SAFETY: the type is the function's.
        unsafe { self.library.get::<extern "C" fn() -> i64>(b"fake_live\0").unwrap()() }
    }

    /// Bits of the inputs that the last run kept.
    pub fn kept(&self) -> u64 {
        // SAFETY: the type is the function's.
        unsafe { self.library.get::<extern "C" fn() -> u64>(b"fake_kept\0").unwrap()() }
    }

    /// Runs that are not over.
    pub fn running(&self) -> i64 {
        // SAFETY: the type is the function's.
        unsafe { self.library.get::<extern "C" fn() -> i64>(b"fake_running\0").unwrap()() }
    }

    /// Programs that were compiled.
    pub fn compiles(&self) -> i64 {
        // SAFETY: the type is the function's.
        unsafe { self.library.get::<extern "C" fn() -> i64>(b"fake_compiles\0").unwrap()() }
    }

    pub fn open(&self) -> Result<Pjrt> {
        Pjrt::open(&self.path, &PjrtOptions::default())
    }
}

pub fn vector() -> Type {
    Type::new(DType::F32, [2])
}

/// The first of two parameters, which is what every program of the fake gives.
pub fn first() -> Graph {
    let mut graph = Graph::new();
    let main = graph.main();
    let x = graph.parameter(main, vector());
    graph.parameter(main, vector());
    graph.set_results(main, vec![x]);
    graph
}

pub const BYTES: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

pub fn upload(backend: &Pjrt) -> Result<Arc<dyn Buffer>> {
    backend.upload(0, &vector(), &BYTES)
}

pub fn compile(backend: &Pjrt) -> Result<Arc<dyn Executable>> {
    backend.compile(&first(), CompileOptions::default())
}

/// Uploads, runs and reads.
pub fn round(backend: &Pjrt) -> Result<Vec<u8>> {
    let program = compile(backend)?;
    let mut arguments = [Argument::Shared(upload(backend)?), Argument::Shared(upload(backend)?)];
    let outcome = program.run(0, &mut arguments)?;
    let mut bytes = vec![0; 8];
    outcome.results[0].read(&mut bytes)?;
    Ok(bytes)
}

#[track_caller]
pub fn assert_error(error: Error, kind: ErrorKind, text: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

/// With a time-out that is far more than the fake takes when nothing hangs.
pub fn impatient(fake: &Fake) -> Pjrt {
    let options = PjrtOptions { timeout: Some(Duration::from_millis(300)), ..Default::default() };
    Pjrt::open(&fake.path, &options).unwrap()
}

/// Waits until the fake has only so many objects left.
#[track_caller]
pub fn assert_live_soon(fake: &Fake, want: i64) {
    let start = Instant::now();
    while fake.live() != want {
        assert!(start.elapsed() < Duration::from_secs(60), "{} objects instead of {want}", fake.live());
        std::thread::sleep(Duration::from_millis(1));
    }
}
