//! What runs programs: backends, their buffers and executables.
//!
//! The lazy layer hands a backend a [`Graph`] and gets an [`Executable`]; it calls [`Executable::run`] from the
//! device's executor, one program at a time, in order. A backend knows nothing of recording, cuts or caches.

mod cache;
pub mod host;
mod memory;
pub mod pjrt;

pub use cache::Cache;
pub(crate) use memory::LaterRead;
pub use memory::{HostMemory, Reading};

use crate::ir::{Graph, Op, Type};
use crate::literal::ScalarBytes;
use crate::{Error, ErrorKind, Location, Result, bail};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// A device family and the compiler for it.
pub trait Backend: Send + Sync + Debug {
    /// A short lower-case name, `host` or that of a plugin.
    fn name(&self) -> &str;

    /// How many devices it has.
    fn device_count(&self) -> usize;

    /// Whether an executable serves other sizes of the same program structure through [`Executable::resize`].
    fn generic_in_sizes(&self) -> bool;

    /// Errors with [`ErrorKind::Unsupported`] when the backend does not have the op for operands of these types. Asked when
    /// the op is recorded, so that the error comes at the caller's line.
    fn supports(&self, op: &Op, operands: &[&Type]) -> Result<()>;

    /// Compiles a program that `verify` accepts. Errors with [`ErrorKind::Unsupported`] when it holds an op that the
    /// backend does not have.
    fn compile(&self, graph: &Graph, options: CompileOptions) -> Result<Arc<dyn Executable>>;

    /// Compiles a program for so many replicas, number `i` on device `i`, to be run by [`Executable::run_replicas`]. Its
    /// collectives name replicas.
    ///
    /// Errors as [`compile`](Self::compile); with [`ErrorKind::Device`] if there are not so many devices, with
    /// [`ErrorKind::Value`] if a collective names a replica that there is not.
    fn compile_replicas(&self, graph: &Graph, options: CompileOptions, replicas: usize) -> Result<Arc<dyn Executable>> {
        let _ = (graph, options);
        let message = format!("has no programs on several devices, asked for one on {replicas}");
        Err(Error::new(ErrorKind::Unsupported, self.name().to_string(), message))
    }

    /// Whether it compiles programs [with locations](Self::compile_located).
    fn keeps_locations(&self) -> bool {
        false
    }

    /// [`compile`](Self::compile), told where each node of the program was recorded by whoever recorded it first. Asked
    /// instead of `compile` of backends that [keep locations](Self::keeps_locations), for one program in each cache entry.
    fn compile_located(
        &self,
        graph: &Graph,
        locations: &[Location],
        options: CompileOptions,
    ) -> Result<Arc<dyn Executable>> {
        let _ = locations;
        self.compile(graph, options)
    }

    /// Copies row-major little-endian elements to a device. Of a `bool`, any byte but 0 is true and arrives as 1.
    fn upload(&self, device: usize, ty: &Type, bytes: &[u8]) -> Result<Arc<dyn Buffer>>;

    /// As [`upload`](Self::upload), of memory that the device may keep: the transfer need not be over when this returns, and
    /// a device that can use the memory as it is does so. It is freed when nothing uses it any more.
    fn upload_owned(&self, device: usize, ty: &Type, memory: HostMemory) -> Result<Arc<dyn Buffer>> {
        self.upload(device, ty, memory.bytes())
    }

    /// Memory of one device.
    fn memory(&self, device: usize) -> MemoryStats;

    /// Starts the peak of [`memory`](Self::memory) anew from what is in use.
    fn reset_peak_memory(&self, device: usize);
}

/// The largest number of a replica that an op names.
pub(crate) fn largest_replica(op: &Op) -> Option<u32> {
    match op {
        Op::AllReduce { groups, .. }
        | Op::AllGather { groups, .. }
        | Op::ReduceScatter { groups, .. }
        | Op::AllToAll { groups, .. } => groups.groups.iter().flatten().copied().max(),
        Op::CollectivePermute { pairs, .. } => pairs.iter().flat_map(|&(from, to)| [from, to]).max(),
        _ => None,
    }
}

/// Errors with `Value` if an op names a replica that there is not.
pub(crate) fn check_replicas(op: &Op, replicas: usize) -> Result<()> {
    match largest_replica(op) {
        Some(number) if number as usize >= replicas => {
            bail!(Value, op.name(), "requires replicas from 0 to {}, got {number}", replicas - 1)
        }
        _ => Ok(()),
    }
}

/// How a program is compiled. Part of the cache key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct CompileOptions {
    /// Round bf16 and f16 values after every op, also inside fused groups.
    pub strict_rounding: bool,
}

/// Memory of a device, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryStats {
    /// Held by buffers that are alive.
    pub in_use: usize,
    /// The most `in_use` has been, temporaries of running programs included.
    pub peak: usize,
    /// Kept by the pool for reuse.
    pub pooled: usize,
    /// What an allocation must not exceed in sum with `in_use`, if there is a limit.
    pub limit: Option<usize>,
}

/// A dense row-major value on a device.
pub trait Buffer: Send + Sync + Debug + Any {
    /// Element type and sizes.
    fn ty(&self) -> &Type;

    /// Copies all elements, row-major and little-endian, into `target`, whose length must be the value's bytes.
    fn read(&self, target: &mut [u8]) -> Result<()>;

    /// As [`read`](Self::read), into memory that the transfer owns meanwhile, and without waiting for it.
    fn start_read(&self, mut target: HostMemory) -> Result<Reading> {
        self.read(target.bytes_mut())?;
        Ok(Reading::done(target))
    }

    /// The concrete buffer, for the backend that made it.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// One argument of a run.
#[derive(Debug)]
pub enum Argument {
    /// A buffer that stays as it is.
    Shared(Arc<dyn Buffer>),
    /// A buffer that the program may overwrite; the only reference to it.
    Donated(Arc<dyn Buffer>),
    /// A scalar.
    Scalar(ScalarBytes),
    /// What a run leaves in place of a donated buffer that it took.
    Taken,
}

/// Results of a run.
#[derive(Debug)]
pub struct Outcome {
    /// One buffer per result of the program.
    pub results: Vec<Arc<dyn Buffer>>,
    /// One number per check of the program: −1, or the first bad index.
    pub checks: Vec<i32>,
}

/// What a run is expected to take. Estimates, for choosing between inline and queued execution and for statistics.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cost {
    /// Floating point operations.
    pub flops: f64,
    /// Bytes read and written.
    pub bytes: f64,
    /// Seconds.
    pub seconds: f64,
    /// Most bytes of temporaries and results alive at one time, arguments not counted.
    pub peak_bytes: usize,
}

/// One kernel of an executable, for tests and tools that ask what was fused.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct KernelInfo {
    /// What kind of kernel: `row_program`, `dot_general`, ….
    pub kind: String,
    /// StableHLO names of the ops inside, in order.
    pub ops: Vec<String>,
    /// Buffers read.
    pub reads: usize,
    /// Buffers written.
    pub writes: usize,
    /// Bytes of these buffers.
    pub bytes: f64,
    /// Operations on numbers, as far as the backend knows.
    pub flops: f64,
    /// Seconds spent in it so far, if the backend measures that: the host with a [trace](host::HostOptions::trace).
    pub seconds: f64,
    /// Of a loop or a branch: the kernels of its blocks, block by block. Their work is counted once, their seconds are those of
    /// all rounds.
    pub inner: Vec<KernelInfo>,
}

/// What [`Executable::resize`] gives.
#[derive(Debug)]
pub struct Resized {
    /// The executable for the other sizes.
    pub executable: Arc<dyn Executable>,
    /// Why it was compiled from nothing, if it was: the fact about sizes that the one there was rests on, and that does not hold
    /// for the others.
    pub compiled: Option<String>,
}

/// A compiled program.
pub trait Executable: Send + Sync + Debug {
    /// Runs on one device and waits, as the only replica. Arguments are in the order of the program's parameters.
    ///
    /// If a check fails, every donated argument is still in `arguments` with its value, and the results that do not depend
    /// on what the check guards are right. If the run fails, the donated arguments that it may have written to by then are
    /// [`Taken`](Argument::Taken), and those that are still there are unchanged.
    fn run(&self, device: usize, arguments: &mut [Argument]) -> Result<Outcome>;

    /// Runs on devices 0, 1, … at the same time and waits, each with its own arguments; for a program that was compiled
    /// for as many [replicas](Backend::compile_replicas). A donated argument is taken if it is donated on every device.
    ///
    /// Errors as [`run`](Self::run), and with [`ErrorKind::Device`] if there are not as many rows as replicas. Replicas that
    /// belong together have to meet at a collective: on host it is an error of this kind too if one has taken another
    /// branch or left a loop before.
    fn run_replicas(&self, arguments: &mut [Vec<Argument>]) -> Result<Vec<Outcome>> {
        let _ = arguments;
        Err(Error::new(ErrorKind::Unsupported, "a program", "is not one for several devices"))
    }

    /// The same program structure for the sizes of `graph`: what was compiled is used again as far as it is right for these sizes
    /// too, and the result says whether it was. Only for backends that are [generic in sizes](Backend::generic_in_sizes).
    ///
    /// Errors as [`Backend::compile`].
    fn resize(&self, graph: &Graph) -> Result<Resized> {
        let _ = graph;
        Err(Error::new(ErrorKind::Internal, "resize", "is not available: the backend compiles each size by itself"))
    }

    /// Whether it came from a persistent [`Cache`] and was not compiled.
    fn is_from_cache(&self) -> bool {
        false
    }

    /// What a run is expected to take.
    fn cost(&self) -> Cost;

    /// The kernels, in the order they run.
    fn kernels(&self) -> Vec<KernelInfo>;
}
