//! Any PJRT plugin as a backend: a TPU's `libtpu.so`, XLA for CPU, others. Our own thin layer over the C API, see
//! `docs/decisions/001-own-pjrt-layer.md`.
//!
//! A program goes to the plugin as StableHLO text (`ir::text`), with composites as they are: a plugin that has no kernel
//! for the name takes their decomposition. Checks are extra results. Inputs whose memory a result can take are compiled
//! as donors (`donation`), and a run says which of them it keeps. Scalars go to the device with each run.
//!
//! The layers, from the bottom: `sys` declares C's structs and table, `api` loads the library and makes calls that give
//! our errors, `event`, `client`, `buffer` and `loaded` own one kind of object each and free it when dropped. `lowered`
//! is a program as it is given to a plugin, `executable` runs it, `find` looks for plugins and TPUs.
//!
//! A plugin works behind our back, so whatever it may still read or write is owned by the event that says when it is done:
//! results and arguments of a run, memory of the host in a transfer. A wait that is [too long](PjrtOptions::timeout) or
//! that is not waited for leaves them there. `unsafe` stands where an object is declared shareable between threads and where a plugin's answer is read.
//!
//! Compiled programs can be kept for other processes, see [`Cache`]; `identity` says what they depend on. What was compiled
//! ahead of time, `ahead`, is found in the same folder, by what it was compiled for.
//!
//! # Which plugin
//!
//! 1. The path given to [`Device::pjrt`](crate::Device::pjrt) or [`Pjrt::open`].
//! 2. With `TPU_BACKEND=pjrt`, or if that is not set and a [TPU is attached](has_tpu): the first of the
//!    [candidates], which are two environment variables and the Python package `libtpu`.
//!
//! Nothing is loaded otherwise. [`devices`](crate::devices) says what there is and why something is not used;
//! [`Device::current`](crate::Device::current) has the whole order.

mod ahead;
pub(crate) mod aot;
pub(crate) mod api;
mod attribute;
mod buffer;
mod client;
mod compile_options;
mod cost;
pub(crate) mod donation;
mod event;
mod executable;
mod find;
pub(crate) mod guard;
pub(crate) mod hlo;
mod identity;
mod loaded;
mod lowered;
mod options;
pub(crate) mod parallel;
mod sys;
pub(crate) mod topology;

pub use attribute::Attribute;
pub use executable::PjrtExecutable;
pub use find::{Candidate, candidates, has_tpu};
pub use lowered::{Lowered, ProgramOptions};
pub use options::OptionValue;

pub(crate) use find::Machine;

use self::api::Api;
use self::buffer::PjrtBuffer;
use self::client::Client;
use self::identity::Target;
use crate::ir::{Graph, Op, Type};
use crate::runtime::cache::{self, Cache};
use crate::runtime::{Backend, Buffer, CompileOptions, Executable, HostMemory, MemoryStats};
use crate::{DType, Error, ErrorKind, Result, ensure};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How a [`Pjrt`] is opened.
#[derive(Clone, Default, Debug)]
pub struct PjrtOptions {
    /// Options of the plugin's client by name, such as `cpu_device_count`. Values that make a plugin end the process are
    /// refused before it sees them.
    pub client: Vec<(String, OptionValue)>,
    /// How long the plugin may take for one run or transfer before it fails with
    /// [`ErrorKind::TimedOut`]. What the plugin may still be using then stays allocated until it is done with it, and its
    /// client is never closed. [`Duration::MAX`] is no limit; `None` is what `TPU_PJRT_TIMEOUT` says in seconds (0: no
    /// limit), else an hour. Calls that do not come back, such as a compilation, cannot be ended.
    pub timeout: Option<Duration>,
    /// Options of the plugin's compiler for all programs, see [`ProgramOptions::overrides`].
    pub overrides: Vec<(String, String)>,
    /// Where compiled programs are kept for other processes; `None`: the [process's default](Cache::default_of_process).
    pub cache: Option<Cache>,
}

/// What an event may take where nobody says.
const TIMEOUT: Duration = Duration::from_secs(3600);

impl PjrtOptions {
    /// The time-out that counts; `None`: no limit.
    fn limit(&self) -> Result<Option<Duration>> {
        let timeout = match (self.timeout, std::env::var("TPU_PJRT_TIMEOUT")) {
            (Some(timeout), _) => timeout,
            (None, Err(_)) => TIMEOUT,
            (None, Ok(text)) => seconds(&text)?,
        };
        Ok((timeout < Duration::MAX).then_some(timeout))
    }
}

/// What `TPU_PJRT_TIMEOUT` says.
fn seconds(text: &str) -> Result<Duration> {
    match text.parse::<u64>() {
        Ok(0) => Ok(Duration::MAX),
        Ok(number) => Ok(Duration::from_secs(number)),
        Err(_) => {
            let message = format!("requires whole seconds in TPU_PJRT_TIMEOUT, got {text:?}");
            Err(Error::new(ErrorKind::Value, "pjrt", message))
        }
    }
}

/// A plugin's client as a backend. Cheap to clone: clones are the same devices.
#[derive(Clone)]
pub struct Pjrt {
    client: Arc<Client>,
    /// Of every program.
    overrides: Arc<[(String, String)]>,
    cache: Option<Arc<Kept>>,
}

/// Where compiled programs are kept, and what is part of their keys.
struct Kept {
    cache: Cache,
    /// The [identity](Pjrt::identity) and what else the plugin's compiler obeys.
    settings: String,
    target: Target,
}

impl fmt::Debug for Pjrt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}

impl Pjrt {
    /// Loads the plugin at `path` and starts a client.
    ///
    /// Errors with [`ErrorKind::Io`] when the library cannot be loaded, [`ErrorKind::Unsupported`] when it is not a
    /// plugin or its C API is older than 0.81, [`ErrorKind::Value`] for a wrong option or time-out, else with the plugin's own error.
    ///
    /// ```
    /// use tpu_core::ErrorKind;
    /// use tpu_core::runtime::pjrt::{Pjrt, PjrtOptions};
    /// let error = Pjrt::open("no/such/plugin.so", &PjrtOptions::default()).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Io);
    /// ```
    pub fn open(path: impl AsRef<Path>, options: &PjrtOptions) -> Result<Self> {
        let path = path.as_ref();
        for (name, value) in &options.client {
            options::check(name, value)?;
        }
        refuse_to_search_for_a_tpu(path)?;
        let timeout = options.limit()?;
        let cache = match &options.cache {
            Some(cache) => Some(cache.clone()),
            None => Cache::default_of_process()?,
        };
        let client = Client::new(Api::load(path)?, &options.client, timeout)?;
        let cache = cache.and_then(|cache| Kept::new(cache, &client, options)).map(Arc::new);
        Ok(Self { client, overrides: options.overrides.clone().into(), cache })
    }

    /// Where the plugin was loaded from.
    pub fn path(&self) -> &Path {
        self.client.api.path()
    }

    /// Major and minor version of the plugin's C API.
    pub fn api_version(&self) -> (i32, i32) {
        self.client.api.version()
    }

    /// What the plugin says of its platform's version.
    pub fn platform_version(&self) -> &str {
        &self.client.platform_version
    }

    /// What the plugin says of itself by name: versions of XLA and StableHLO, and others. None if it says nothing.
    pub fn attributes(&self) -> Vec<(String, Attribute)> {
        self.client.attributes()
    }

    /// What the plugin says of a device by name, such as its coordinates. Errors with [`ErrorKind::Device`] if there is
    /// none of that number.
    pub fn device_attributes(&self, device: usize) -> Result<Vec<(String, Attribute)>> {
        self.client.device_attributes(device)
    }

    /// What an executable of this plugin depends on beside its program: text that is equal in two processes only if one can
    /// [load](Self::load) what the other has [serialized](PjrtExecutable::serialize). Versions, the plugin's file, the
    /// kinds of devices; for a CPU its model and instruction sets. One for several devices depends on their
    /// [placement](Self::placement) too.
    ///
    /// Errors with [`ErrorKind::Io`] if the plugin's file is no longer there: without it one build cannot be told from another.
    pub fn identity(&self) -> Result<String> {
        self.client.identity()
    }

    /// Which devices a program for so many replicas runs on: their numbers, processes and attributes, such as coordinates.
    pub fn placement(&self, replicas: usize) -> String {
        self.client.placement(replicas)
    }

    /// What the plugin is given for a program.
    ///
    /// Errors if the program is not valid, with [`ErrorKind::Unsupported`] for an op that the plugin is known not to have,
    /// with [`ErrorKind::Device`] if it has less devices than there are replicas, with [`ErrorKind::Value`] if a
    /// collective names a replica that there is not.
    pub fn lower(&self, graph: &Graph, options: &ProgramOptions) -> Result<Lowered> {
        let (devices, replicas) = (self.client.devices.len(), options.replicas);
        ensure!((1..=devices).contains(&replicas), Device, "pjrt", "has {devices} devices, got {replicas} replicas");
        let overrides = self.overrides.iter().chain(&options.overrides).cloned().collect();
        Lowered::new(&self.client.platform, graph, &ProgramOptions { overrides, ..options.clone() })
    }

    /// Has the plugin compile a program. Errors with the plugin's own error.
    ///
    /// ```no_run
    /// use tpu_core::ir::{Graph, Type};
    /// use tpu_core::runtime::pjrt::{Pjrt, PjrtOptions, ProgramOptions};
    /// use tpu_core::DType;
    /// let mut graph = Graph::new();
    /// let main = graph.main();
    /// let x = graph.parameter(main, Type::new(DType::F32, [2]));
    /// graph.set_results(main, vec![x]);
    /// let plugin = Pjrt::open("libtpu.so", &PjrtOptions::default())?;
    /// let lowered = plugin.lower(&graph, &ProgramOptions::default())?;
    /// let bytes = plugin.compile_lowered(&lowered)?.serialize()?;
    /// // In another process, with the same program and a plugin of the same `identity`:
    /// let executable = plugin.load(&lowered, &bytes)?;
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    pub fn compile_lowered(&self, lowered: &Lowered) -> Result<PjrtExecutable> {
        PjrtExecutable::compile(&self.client, lowered)
    }

    /// Has the plugin load the executable of a program from what [`PjrtExecutable::serialize`] gave. Errors with the
    /// plugin's own error; bytes that are damaged may end the process, so whoever stores them checks them.
    pub fn load(&self, lowered: &Lowered, bytes: &[u8]) -> Result<PjrtExecutable> {
        PjrtExecutable::load(&self.client, lowered, bytes)
    }

    /// Has the plugin compile a program for one device and stores it for other machines that have the same plugin and such a
    /// device; says in which file. A runtime whose cache has this folder loads it, and so does [`load_file`](Self::load_file).
    ///
    /// Errors with the plugin's own error, [`ErrorKind::Unsupported`] if it cannot serialize executables; also if the
    /// program is for several devices, or if the file cannot be written.
    pub fn emit(&self, lowered: &Lowered, cache: &Cache) -> Result<PathBuf> {
        let key = self.ahead_key(lowered)?;
        cache.try_store(&key, &self.compile_lowered(lowered)?.serialize()?)
    }

    /// Loads a program that was compiled ahead of time, by [`emit`](Self::emit),
    /// [`Figures::store`](crate::plan::Figures::store) or `tpu-plan --emit`.
    ///
    /// Errors with [`ErrorKind::Io`] or [`ErrorKind::Format`] if the file cannot be read or is damaged, with
    /// [`ErrorKind::Device`] if it is for other devices or another build of the compiler, with [`ErrorKind::Value`] if it is another program or
    /// was compiled with other options, else with the plugin's own error.
    pub fn load_file(&self, lowered: &Lowered, path: impl AsRef<Path>) -> Result<PjrtExecutable> {
        let bytes = ahead::read(path.as_ref(), &self.ahead_key(lowered)?)?;
        Ok(self.load(lowered, &bytes)?.marked_as_loaded())
    }

    fn ahead_key(&self, lowered: &Lowered) -> Result<Vec<u8>> {
        ahead::one_device(lowered.signature.replicas)?;
        Ok(ahead::key(&self.client.target(), lowered.options(), lowered.text()))
    }

    /// The executable from the cache, if there is one that has it; else compiled, and stored there.
    fn executable(&self, lowered: &Lowered) -> Result<Arc<dyn Executable>> {
        let Some(kept) = &self.cache else { return Ok(Arc::new(self.compile_lowered(lowered)?)) };
        let (replicas, options, text) = (lowered.signature.replicas, lowered.options(), lowered.text());
        let placement = if replicas > 1 { self.placement(replicas) } else { String::new() };
        let key = cache::key(&[kept.settings.as_bytes(), placement.as_bytes(), options, text.as_bytes()]);
        let ahead = (replicas == 1).then(|| ahead::key(&kept.target, options, text));
        for key in [Some(&key), ahead.as_ref()].into_iter().flatten() {
            let Some(bytes) = kept.cache.load(key) else { continue };
            match self.load(lowered, &bytes) {
                Ok(executable) => return Ok(Arc::new(executable.marked_as_loaded())),
                Err(error) => {
                    tracing::warn!(%error, "the plugin does not take a cached program, which will be compiled anew");
                }
            }
        }
        let executable = self.compile_lowered(lowered)?;
        match executable.serialize() {
            Ok(bytes) => kept.cache.store(&key, &bytes),
            Err(error) => tracing::debug!(%error, "a compiled program cannot be cached"),
        }
        Ok(Arc::new(executable))
    }

    /// What the plugin calls the kind of a device. Errors with [`ErrorKind::Device`] if there is none of that number.
    pub fn device_kind(&self, device: usize) -> Result<&str> {
        Ok(&self.client.device(device)?.kind)
    }
}

impl Kept {
    /// `None` if the plugin cannot be told from others.
    fn new(cache: Cache, client: &Client, options: &PjrtOptions) -> Option<Self> {
        match client.identity() {
            Ok(identity) => {
                let settings = format!("{identity}{}\n{:?}\n", identity::variables(), options.client);
                Some(Self { cache, settings, target: client.target() })
            }
            Err(error) => {
                tracing::warn!(%error, "compiled programs are not cached");
                None
            }
        }
    }
}

/// Without a TPU, libtpu asks the metadata service of Google's cloud key by key, for minutes, before it gives up.
fn refuse_to_search_for_a_tpu(path: &Path) -> Result<()> {
    let is_libtpu = path.file_name().is_some_and(|name| name.to_string_lossy().contains("libtpu"));
    if !is_libtpu || has_tpu() || std::env::var_os("TPU_SKIP_MDS_QUERY").is_some() {
        return Ok(());
    }
    let message = format!(
        "requires a TPU for {}, got none on this machine; with TPU_SKIP_MDS_QUERY=1 it is loaded all the same",
        path.display()
    );
    Err(Error::new(ErrorKind::Device, "pjrt", message))
}

/// What a platform is known not to have, before it is asked to compile it.
fn lacks(platform: &str, op: &Op, operands: &[&Type]) -> Option<&'static str> {
    use DType::{F64, I64, U64};
    if platform != "tpu" {
        return None;
    }
    match (op, operands.first()?.dtype) {
        (Op::SelectAndScatter { window, .. }, _) if window.sizes.len() == 2 => {
            Some("XLA for TPU has no select_and_scatter of matrices")
        }
        // Numbers of 64 bits are pairs there, for which these have no code.
        (Op::SelectAndScatter { .. }, F64 | I64 | U64) => Some("XLA for TPU selects and scatters at most 32 bits"),
        (Op::Convolution(_), I64 | U64) => Some("XLA for TPU has no convolution of 64-bit integers"),
        (Op::ReducePrecision { .. }, F64) => Some("XLA for TPU has no reduce_precision of float64"),
        _ => None,
    }
}

/// Errors with [`ErrorKind::Unsupported`] for what a platform is known not to have.
fn check_has(platform: &str, op: &Op, operands: &[&Type]) -> Result<()> {
    lacks(platform, op, operands).map_or(Ok(()), |why| Err(unsupported(platform, op, why)))
}

/// Errors with [`ErrorKind::Unsupported`] for an op that speaks with other devices, of which a recorded program has none.
fn check_is_alone(platform: &str, op: &Op) -> Result<()> {
    match op {
        Op::AllReduce { .. }
        | Op::AllGather { .. }
        | Op::ReduceScatter { .. }
        | Op::AllToAll { .. }
        | Op::CollectivePermute { .. } => Err(unsupported(platform, op, "a recorded program is on one device")),
        _ => Ok(()),
    }
}

fn unsupported(platform: &str, op: &Op, why: &str) -> Error {
    Error::new(ErrorKind::Unsupported, op.name(), format!("is not supported on {platform}: {why}"))
}

impl Backend for Pjrt {
    fn name(&self) -> &str {
        &self.client.platform
    }

    fn device_count(&self) -> usize {
        self.client.devices.len()
    }

    fn generic_in_sizes(&self) -> bool {
        false
    }

    fn supports(&self, op: &Op, operands: &[&Type]) -> Result<()> {
        check_is_alone(&self.client.platform, op)?;
        check_has(&self.client.platform, op, operands)
    }

    fn compile(&self, graph: &Graph, common: CompileOptions) -> Result<Arc<dyn Executable>> {
        // What the platform lacks is found when the program is lowered.
        graph.nodes.iter().try_for_each(|node| check_is_alone(&self.client.platform, &node.op))?;
        let lowered = self.lower(graph, &ProgramOptions { common, ..ProgramOptions::default() })?;
        self.executable(&lowered)
    }

    fn compile_replicas(&self, graph: &Graph, common: CompileOptions, replicas: usize) -> Result<Arc<dyn Executable>> {
        let lowered = self.lower(graph, &ProgramOptions { common, replicas, ..ProgramOptions::default() })?;
        self.executable(&lowered)
    }

    fn upload(&self, device: usize, ty: &Type, bytes: &[u8]) -> Result<Arc<dyn Buffer>> {
        Ok(Arc::new(PjrtBuffer::upload(&self.client, device, ty, bytes)?))
    }

    fn upload_owned(&self, device: usize, ty: &Type, memory: HostMemory) -> Result<Arc<dyn Buffer>> {
        Ok(Arc::new(PjrtBuffer::upload_owned(&self.client, device, ty, memory)?))
    }

    /// As the plugin tells it; of one that keeps no account, the bytes of the buffers alive.
    fn memory(&self, device: usize) -> MemoryStats {
        self.client.memory(device)
    }

    /// Has no effect where the plugin keeps the peak.
    fn reset_peak_memory(&self, device: usize) {
        if let Ok(device) = self.client.device(device) {
            device.reset_peak();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::samples;

    /// The samples that `tests/aot.rs` shows the compiler itself to refuse.
    #[test]
    fn what_tpus_lack_is_known_before_they_are_asked() {
        let lacking = |platform: &str, graph: &Graph| {
            graph.nodes.iter().any(|node| lacks(platform, &node.op, &graph.operand_types(node)).is_some())
        };
        let all = samples::every_op();
        assert!(!all.iter().any(|(_, graph)| lacking("cpu", graph)));
        let mut names: Vec<&str> =
            all.iter().filter(|(_, graph)| lacking("tpu", graph)).map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let known = [
            "convolution int64",
            "convolution uint64",
            "reduce_precision float64",
            "select_and_scatter float64",
            "select_and_scatter int64",
            "select_and_scatter uint64",
        ];
        assert_eq!(names, known);
    }

    #[test]
    fn a_time_out_is_whole_seconds_and_0_is_none() {
        assert_eq!(seconds("90").unwrap(), Duration::from_secs(90));
        assert_eq!(seconds("0").unwrap(), Duration::MAX);
        for text in ["", "-1", "1.5", "1h"] {
            assert_eq!(seconds(text).unwrap_err().kind(), ErrorKind::Value, "{text}");
        }
        let of = |timeout| PjrtOptions { timeout: Some(timeout), ..PjrtOptions::default() }.limit().unwrap();
        assert_eq!(of(Duration::MAX), None);
        assert_eq!(of(Duration::from_millis(5)), Some(Duration::from_millis(5)));
    }
}
