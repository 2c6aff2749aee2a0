//! The embedded backend: pure Rust, always there.
//!
//! A program is compiled to a list of steps (`compile`): fused groups run as row programs in a tile interpreter (`row`),
//! matrix products by strides (`dot`), everything else by one plain kernel per op (`kernels`). Memory is planned at
//! compile time and comes from a pool (`pool`). Results have the same bits for any number of threads and any
//! instruction set, fused or not (16-bit floats: fused groups keep f32 between ops unless `strict_rounding`).

mod buffer;
mod compile;
mod copy;
mod dot;
mod gemm;
pub(crate) mod kernels;
mod pool;
mod program;
mod row;
mod scratch;
#[cfg(test)]
mod tests;

use self::buffer::HostBuffer;
use self::pool::Pool;
use self::program::Program;
use self::row::isa::Isa;
use crate::ir::{Graph, Op, Type};
use crate::runtime::{Argument, Backend, Buffer, CompileOptions, Cost, Executable, KernelInfo, MemoryStats, Outcome};
use crate::{Error, ErrorKind, Result};
use rayon::ThreadPool;
use std::fmt;
use std::sync::Arc;

/// How a [`Host`] is set up.
///
/// ```
/// use tpu_core::runtime::Backend;
/// use tpu_core::runtime::host::{Host, HostOptions};
/// let host = Host::new(HostOptions { devices: 2, ..HostOptions::default() }).unwrap();
/// assert_eq!(host.device_count(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Simulated devices, each with its own memory; at least one.
    pub devices: usize,
    /// Threads; `None` asks `TPU_HOST_THREADS`, then the machine.
    pub threads: Option<usize>,
    /// Most bytes of each device that may be in use.
    pub memory_limit: Option<usize>,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self { devices: 1, threads: None, memory_limit: None }
    }
}

/// The host backend. Cheap to clone: clones are the same devices.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    pools: Vec<Arc<Pool>>,
    threads: usize,
    /// `None` for one thread.
    workers: Option<ThreadPool>,
    isa: Isa,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({} devices, {} threads, {:?})", self.0.pools.len(), self.0.threads, self.0.isa)
    }
}

impl Host {
    /// The host as the environment sets it up: `TPU_HOST_DEVICES` simulated devices (one), `TPU_HOST_THREADS` threads (the
    /// machine's), `TPU_HOST_MEMORY_LIMIT` bytes per device (no limit). Errors when one of them is not a positive number.
    pub fn from_env() -> Result<Self> {
        let memory_limit = positive("TPU_HOST_MEMORY_LIMIT")?;
        Self::new(HostOptions { devices: positive("TPU_HOST_DEVICES")?.unwrap_or(1), threads: None, memory_limit })
    }

    /// A host with these options. Errors when a number is zero or threads cannot be started.
    pub fn new(options: HostOptions) -> Result<Self> {
        Self::with_isa(options, Isa::detect())
    }

    fn with_isa(options: HostOptions, isa: Isa) -> Result<Self> {
        let threads = match options.threads {
            Some(threads) => threads,
            None => match positive("TPU_HOST_THREADS")? {
                Some(threads) => threads,
                None => std::thread::available_parallelism().map_or(1, usize::from),
            },
        };
        if options.devices == 0 || threads == 0 {
            let message = format!("requires devices and threads, got {} and {threads}", options.devices);
            return Err(Error::new(ErrorKind::Value, "host", message));
        }
        let workers = (threads > 1).then(|| {
            let name = |index| format!("tpu-host-{index}");
            rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build()
        });
        let workers = workers.transpose().map_err(|error| {
            Error::new(ErrorKind::Execution, "host", format!("could not start {threads} threads: {error}"))
        })?;
        let pools = (0..options.devices).map(|_| Arc::new(Pool::new(options.memory_limit))).collect();
        Ok(Self(Arc::new(Inner { pools, threads, workers, isa })))
    }

    fn pool(&self, device: usize) -> Result<&Arc<Pool>> {
        self.0.pools.get(device).ok_or_else(|| {
            let message = format!("has devices 0 to {}, got {device}", self.0.pools.len() - 1);
            Error::new(ErrorKind::Device, "host", message)
        })
    }
}

/// A positive number from the environment, if it is set.
fn positive(variable: &str) -> Result<Option<usize>> {
    let Ok(text) = std::env::var(variable) else { return Ok(None) };
    match text.parse() {
        Ok(number) if number > 0 => Ok(Some(number)),
        _ => {
            let message = format!("requires a positive number in {variable}, got {text:?}");
            Err(Error::new(ErrorKind::Value, "host", message))
        }
    }
}

impl Backend for Host {
    fn name(&self) -> &str {
        "host"
    }

    fn device_count(&self) -> usize {
        self.0.pools.len()
    }

    fn generic_in_sizes(&self) -> bool {
        true
    }

    fn supports(&self, op: &Op) -> Result<()> {
        compile::supports(op)
    }

    fn compile(&self, graph: &Graph, options: CompileOptions) -> Result<Arc<dyn Executable>> {
        let program = compile::compile(graph, options, self.0.isa)?;
        Ok(Arc::new(HostExecutable { parallel: program.is_parallel(), program, options, host: self.clone() }))
    }

    fn upload(&self, device: usize, ty: &Type, bytes: &[u8]) -> Result<Arc<dyn Buffer>> {
        Ok(Arc::new(HostBuffer::upload(self.pool(device)?, ty, bytes)?))
    }

    fn memory(&self, device: usize) -> MemoryStats {
        self.0.pools.get(device).map(|pool| pool.stats()).unwrap_or_default()
    }

    fn reset_peak_memory(&self, device: usize) {
        if let Some(pool) = self.0.pools.get(device) {
            pool.reset_peak();
        }
    }
}

/// A compiled program of the host.
struct HostExecutable {
    program: Program,
    options: CompileOptions,
    host: Host,
    /// Whether some step is worth splitting.
    parallel: bool,
}

impl fmt::Debug for HostExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.program.kernels).finish()
    }
}

impl Executable for HostExecutable {
    fn run(&self, device: usize, arguments: &mut [Argument]) -> Result<Outcome> {
        let pool = self.host.pool(device)?;
        match &self.host.0.workers {
            Some(workers) if self.parallel => workers.install(|| self.program.run(pool, arguments, true)),
            _ => self.program.run(pool, arguments, false),
        }
    }

    fn resize(&self, graph: &Graph) -> Result<Arc<dyn Executable>> {
        self.host.compile(graph, self.options)
    }

    fn cost(&self) -> Cost {
        let serial = self.program.nanoseconds() * 1e-9;
        let threads = if self.parallel { self.host.0.threads } else { 1 };
        Cost {
            flops: self.program.flops,
            bytes: self.program.bytes,
            seconds: serial / threads as f64,
            peak_bytes: self.program.peak_bytes,
        }
    }

    fn kernels(&self) -> Vec<KernelInfo> {
        self.program.kernels.clone()
    }
}
