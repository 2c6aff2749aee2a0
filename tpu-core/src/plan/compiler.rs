//! The compiler and what it compiles for.

use super::chip::{CHIPS, Chip};
use super::{Figures, Plan, Program, Refusal, estimate};
use crate::runtime::pjrt::aot::Compiled;
use crate::runtime::pjrt::api::Api;
use crate::runtime::pjrt::topology::Topology;
use crate::runtime::pjrt::{candidates, has_tpu, hlo};
use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Google's TPU compiler, loaded from `libtpu.so`. Cheap to clone.
#[derive(Clone)]
pub struct Compiler(Arc<Api>);

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Compilers that were loaded, by path: loading one a second time would initialise it twice.
static LOADED: Mutex<Vec<(PathBuf, Compiler)>> = Mutex::new(Vec::new());

/// Without these, libtpu asks the metadata service of Google's cloud for minutes, lets only one process load it, and
/// writes log files. The others keep it from complaining that it does not know where it runs.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("TPU_SKIP_MDS_QUERY", "1"),
    ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
    ("TPU_LOG_DIR", "disabled"),
    ("TPU_ACCELERATOR_TYPE", "v5litepod-4"),
    ("TPU_WORKER_HOSTNAMES", "localhost"),
    ("TPU_WORKER_ID", "0"),
];

impl Compiler {
    /// Loads the compiler at `path`, the first time that it is asked for. Sets the environment variables that libtpu needs
    /// where there is no TPU, such as `TPU_SKIP_MDS_QUERY=1`, unless they are set.
    ///
    /// Errors with [`ErrorKind::Io`] when the library cannot be loaded, with [`ErrorKind::Unsupported`] when it is not a
    /// plugin or too old.
    ///
    /// ```
    /// use tpu_core::ErrorKind;
    /// use tpu_core::plan::Compiler;
    /// assert_eq!(Compiler::open("no/such/libtpu.so").unwrap_err().kind(), ErrorKind::Io);
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        // What is only a name is looked up by the loader.
        let path = path.canonicalize().unwrap_or_else(|_| path.into());
        let mut loaded = LOADED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((_, known)) = loaded.iter().find(|(known, _)| *known == path) {
            return Ok(known.clone());
        }
        set_environment();
        let compiler = Self(Api::load(&path)?);
        loaded.push((path, compiler.clone()));
        Ok(compiler)
    }

    /// Loads the compiler that `TPU_LIBRARY_PATH` names, if that is a `libtpu`, else the one that `cargo xtask plugins` fetched, beside the folder of
    /// the running program, else that of the Python package `libtpu`.
    ///
    /// Errors with [`ErrorKind::Device`] if there is none, else as [`open`](Self::open).
    pub fn find() -> Result<Self> {
        let of = |source: &str| candidates().into_iter().find(|known| known.source == source)?.path;
        let program = std::env::current_exe().unwrap_or_default();
        let fetched = || {
            let paths = program.ancestors().skip(1).map(|folder| folder.join("plugins/libtpu/libtpu/libtpu.so"));
            paths.into_iter().find(|path| path.is_file())
        };
        // The variable may name another plugin, which has no TPUs to compile for.
        let is_libtpu = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains("libtpu"));
        match of("TPU_LIBRARY_PATH").filter(is_libtpu).or_else(fetched).or_else(|| of("libtpu of Python")) {
            Some(path) => Self::open(path),
            None => {
                let message = "requires the TPU compiler: run `cargo xtask plugins`, or name a libtpu.so in \
                               TPU_LIBRARY_PATH, or `pip install libtpu`";
                Err(Error::new(ErrorKind::Device, "plan", message))
            }
        }
    }

    /// What a topology's name means: generation and chips, `v5e:2x2`, `v6e:1x1`, `v4:2x2x1`, `tpu7x:1x1x1`.
    ///
    /// Errors with [`ErrorKind::Value`] for a name that the compiler does not know.
    pub fn target(&self, name: &str) -> Result<Target> {
        let wrong = |why: &str| {
            let known: Vec<&str> = CHIPS.iter().map(|chip| chip.topology).collect();
            let message = format!(
                "requires a topology such as {}, a generation and its chips along each axis; got {name:?}{why}",
                known.join(", ")
            );
            Error::new(ErrorKind::Value, "a target", message)
        };
        // Of less than that libtpu makes something: no name at all is a TPU v2.
        if name.split_once(':').is_none_or(|(generation, chips)| generation.is_empty() || chips.is_empty()) {
            return Err(wrong(""));
        }
        Topology::new(&self.0, name).map(Target).map_err(|error| match error.kind() {
            ErrorKind::Value => {
                let said = error.message().lines().next().unwrap_or_default();
                wrong(&format!(", of which the compiler says: {said}"))
            }
            _ => error,
        })
    }
}

/// On a machine with a TPU the runtime knows better, and its own client may come later.
fn set_environment() {
    if has_tpu() {
        return;
    }
    for (name, value) in ENVIRONMENT {
        if std::env::var_os(name).is_none() {
            // SAFETY: Rust code reads and writes the environment under one lock. C code that reads it on another thread at
            // this very moment does not take that lock; libtpu, whose threads do read it, is not loaded yet, and the
            // documentation of `open` names the variables, so that a program with such code of its own can set them first.
            unsafe { std::env::set_var(name, value) };
        }
    }
}

/// How far planning is.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// For what.
    pub target: &'a str,
    /// Of a search, the batch that is being compiled.
    pub batch: Option<usize>,
    /// How long this program has been compiling. The compiler does not say how much is left.
    pub elapsed: Duration,
}

/// Devices that a program can be planned for. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Target(Arc<Topology>);

/// Between two reports of progress.
const TICK: Duration = Duration::from_millis(200);

impl Target {
    /// The topology's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The compiler's version, as it describes it.
    pub fn compiler_version(&self) -> &str {
        &self.0.platform_version
    }

    /// Bytes of a device's memory that programs may use, if the compiler says.
    pub fn device_memory(&self) -> Option<u64> {
        let bytes = self.0.attribute("device_memory_bytes_limit")?.number()?;
        Some(bytes as u64).filter(|&bytes| bytes > 0)
    }

    /// Compiles a program for its devices and asks what it takes on one of them. A large one takes minutes; `progress` is called a few
    /// times a second meanwhile, on this thread.
    ///
    /// A program that the compiler refuses is a plan too, see [`Plan::outcome`]. Errors if the compiler's answers cannot
    /// be read.
    pub fn plan(&self, program: &Program, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Plan> {
        let parallel = program.parallel()?;
        let start = Instant::now();
        let report = |elapsed| Progress { target: self.name(), batch: None, elapsed };
        let compiled = while_waiting(
            || Compiled::new(&self.0, program.text(), program.options(), parallel),
            || progress(report(start.elapsed())),
        );
        let compile_time = start.elapsed();
        let chip = Chip::of(self.name());
        let outcome = match compiled {
            Ok(compiled) => Ok(self.figures(compiled, chip, program.file())?),
            Err(error) => Err(Refusal::new(error)),
        };
        Ok(Plan {
            target: self.name().into(),
            device_kind: self.0.device_kind.clone(),
            devices: self.0.devices,
            used: parallel.devices(),
            device_memory: self.device_memory(),
            chip: chip.copied(),
            compile_time,
            outcome,
        })
    }

    fn figures(&self, compiled: Compiled, chip: Option<&Chip>, file: Option<&str>) -> Result<Figures> {
        let cost = compiled.cost()?;
        let number = |name: &str| cost.iter().find(|(known, _)| known == name).map_or(0.0, |&(_, value)| value);
        let module = hlo::read(&compiled.optimized()?)?;
        Ok(Figures {
            // An operation without a cost model counts −1 in each sum: nothing beside millions, but no less than none.
            flops: number("flops").max(0.0),
            bytes: number("bytes accessed").max(0.0),
            memory: compiled.memory()?,
            estimate: estimate::estimate(&module, chip, file),
            executable: Arc::new(compiled),
        })
    }
}

/// Runs `work` on a thread of its own and `tick` here now and then until it is done.
fn while_waiting<T: Send>(work: impl FnOnce() -> T + Send, mut tick: impl FnMut()) -> T {
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        let worker = scope.spawn(move || {
            let result = work();
            // Fails only when the receiver is gone, and then nobody waits.
            let _ = send.send(());
            result
        });
        while receive.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            tick();
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
