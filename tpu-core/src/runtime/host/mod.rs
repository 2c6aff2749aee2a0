//! The embedded backend: pure Rust, always there.
//!
//! A program is compiled to a list of steps (`compile`): fused groups run as row programs in a tile interpreter (`row`),
//! matrix products by strides (`dot`), attention by blocks (`attention`), loops and branches as programs inside the program (`control`), ops among devices where
//! all of them meet (`collective`), everything else by one plain kernel per op (`kernels`). Memory is planned at compile
//! time and comes from a pool (`pool`). Results have the same bits for any number of threads and any
//! instruction set, fused or not (16-bit floats: fused groups keep f32 between ops unless `strict_rounding`).

mod arguments;
mod attention;
mod blocked;
mod buffer;
mod collective;
mod compile;
mod control;
mod copy;
mod dot;
mod gemm;
pub(crate) mod kernels;
mod panels;
mod placement;
mod pool;
mod program;
mod row;
mod scratch;
mod skinny;
#[cfg(test)]
mod tests;
mod thread_memory;
mod tile;
mod trace;
mod widen;

use self::arguments::FromOutside;
use self::buffer::HostBuffer;
use self::compile::Template;
use self::pool::Pool;
use self::program::{Call, Program};
use self::row::isa::Isa;
use self::trace::{Trace, Tracer};
use crate::ir::{Graph, Op, Type};
use crate::runtime::{
    Argument, Backend, Buffer, CompileOptions, Cost, Executable, KernelInfo, MemoryStats, Outcome, Resized,
    check_replicas,
};
use crate::{Error, ErrorKind, Result, ensure};
use rayon::ThreadPool;
use smallvec::SmallVec;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

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
    /// Folder to write programs to; made if it is not there.
    ///
    /// Each of the first 512 programs gets a file of JSON, written anew from time to time:
    ///
    /// | key | |
    /// |---|---|
    /// | `nodes`, `graph` | operations of the program as recorded, and its StableHLO text, at most 1 MiB of it |
    /// | `plan.kernels` | the fused form: ops of each kernel (numbered after simplification), rows, columns and instructions |
    /// | `plan.memory` | bytes of temporaries, constants and results, which argument's memory a result takes, place of each value and the kernels that use it first and last |
    /// | `kernels` | per kernel: kind, ops, bytes of the buffers that it reads and writes, operations on numbers, nanoseconds of all runs, GB/s and GFLOP/s; of a loop or a branch also `inner`, the runs and kernels of each block |
    /// | `runs`, `wall_nanoseconds` | runs so far, and what they took altogether |
    pub trace: Option<PathBuf>,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self { devices: 1, threads: None, memory_limit: None, trace: None }
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
    tracer: Option<Tracer>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({} devices, {} threads, {:?})", self.0.pools.len(), self.0.threads, self.0.isa)
    }
}

impl Host {
    /// The host as the environment sets it up.
    ///
    /// | variable | | unless set |
    /// |---|---|---|
    /// | `TPU_HOST_DEVICES` | simulated devices | 1 |
    /// | `TPU_HOST_THREADS` | threads that share the work of a program | the machine's |
    /// | `TPU_HOST_MEMORY_LIMIT` | bytes per device | no limit |
    /// | `TPU_HOST_ISA` | instruction set of the loops of fused programs: `portable`, `avx2` or `avx512` | the best |
    /// | `TPU_TRACE` | folder for [traces](HostOptions::trace) | none |
    ///
    /// Results have the same bits whatever the number of threads and the instruction set. As many threads as the process has
    /// processors stay on one each (on Linux, which else may leave a processor idle after a pause); more or fewer run anywhere.
    ///
    /// Errors with [`ErrorKind::Value`] when a number is not one or not positive, or the machine does not have the instruction
    /// set; with [`ErrorKind::Io`] when the folder cannot be made.
    pub fn from_env() -> Result<Self> {
        Self::new(HostOptions {
            devices: positive("TPU_HOST_DEVICES")?.unwrap_or(1),
            threads: None,
            memory_limit: positive("TPU_HOST_MEMORY_LIMIT")?,
            trace: std::env::var_os("TPU_TRACE").filter(|folder| !folder.is_empty()).map(PathBuf::from),
        })
    }

    /// A host with these options, the instruction set from the environment. Errors when a number is zero, threads cannot be
    /// started, the instruction set or the folder of traces cannot be had.
    pub fn new(options: HostOptions) -> Result<Self> {
        Self::with_isa(options, Isa::from_env()?)
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
            let mut workers = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(name);
            if let Some(processors) = placement::processors(threads) {
                workers = workers.start_handler(move |index| placement::stay_on(processors[index]));
            }
            workers.build()
        });
        let workers = workers.transpose().map_err(|error| {
            Error::new(ErrorKind::Execution, "host", format!("could not start {threads} threads: {error}"))
        })?;
        let pools = (0..options.devices).map(|_| Arc::new(Pool::new(options.memory_limit))).collect();
        let tracer = options.trace.map(Tracer::new).transpose()?;
        Ok(Self(Arc::new(Inner { pools, threads, workers, isa, tracer })))
    }

    fn executable(&self, graph: &Graph, mut program: Program, family: Arc<Family>) -> Arc<dyn Executable> {
        let plan = std::mem::take(&mut program.description);
        let trace = self.0.tracer.as_ref().and_then(|tracer| tracer.start(graph, plan, &program));
        let parallel = program.is_parallel();
        Arc::new(HostExecutable { program, family, host: self.clone(), parallel, trace })
    }

    fn pool(&self, device: usize) -> Result<&Arc<Pool>> {
        self.0.pools.get(device).ok_or_else(|| {
            let message = format!("has devices 0 to {}, got {device}", self.0.pools.len() - 1);
            Error::new(ErrorKind::Device, "host", message)
        })
    }
}

fn check_each(graph: &Graph, replicas: usize) -> Result<()> {
    graph.nodes.iter().try_for_each(|node| check_replicas(&node.op, replicas))
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

    fn supports(&self, op: &Op, _operands: &[&Type]) -> Result<()> {
        compile::supports(op)
    }

    fn compile(&self, graph: &Graph, options: CompileOptions) -> Result<Arc<dyn Executable>> {
        self.compile_replicas(graph, options, 1)
    }

    fn compile_replicas(&self, graph: &Graph, options: CompileOptions, replicas: usize) -> Result<Arc<dyn Executable>> {
        let devices = self.device_count();
        ensure!((1..=devices).contains(&replicas), Device, "host", "has {devices} devices, got {replicas} replicas");
        check_each(graph, replicas)?;
        let (template, program) = compile::compile(graph, options, self.0.isa, self.0.tracer.is_some())?;
        let family = Arc::new(Family { options, replicas, templates: Mutex::new(vec![Arc::new(template)]) });
        Ok(self.executable(graph, program, family))
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

/// Templates of one program that are kept at most, each for other facts about sizes.
const TEMPLATES: usize = 4;

/// What executables of one program for different sizes share.
struct Family {
    options: CompileOptions,
    replicas: usize,
    /// The latest last.
    templates: Mutex<Vec<Arc<Template>>>,
}

impl Family {
    fn templates(&self) -> MutexGuard<'_, Vec<Arc<Template>>> {
        self.templates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A compiled program of the host.
struct HostExecutable {
    program: Program,
    family: Arc<Family>,
    host: Host,
    /// Whether some step is worth splitting.
    parallel: bool,
    trace: Option<Trace>,
}

impl fmt::Debug for HostExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.program.listing()).finish()
    }
}

impl HostExecutable {
    /// Runs the program with each row of arguments on the memory beside it.
    fn run_on(&self, pools: &[&Arc<Pool>], rows: &mut [&mut [Argument]]) -> Result<Vec<Outcome>> {
        let (want, got) = (self.family.replicas, rows.len());
        ensure!(want == got, Device, "a program", "requires the arguments of {want} replicas, got those of {got}");
        let mut run = |threads| -> Result<Vec<Outcome>> {
            let mut arguments: SmallVec<[FromOutside<'_>; 1]> = SmallVec::new();
            rows.iter_mut().for_each(|row| arguments.push(FromOutside::new(row)));
            let calls = pools.iter().zip(&mut arguments).zip(0..);
            let mut calls: SmallVec<[Call<'_>; 1]> =
                calls.map(|((pool, arguments), replica)| Call { replica, pool, arguments, laid: &[] }).collect();
            let given = self.program.run(&mut calls, threads, self.trace.as_ref().map(|trace| &trace.times))?;
            let mut outcomes = Vec::with_capacity(given.len());
            for given in given {
                outcomes.push(self.program.outcome(given)?);
            }
            Ok(outcomes)
        };
        let start = self.trace.as_ref().map(|trace| (trace, Instant::now()));
        let outcomes = match &self.host.0.workers {
            Some(workers) if self.parallel => workers.install(|| run(true)),
            _ => run(false),
        };
        if let Some((trace, start)) = start {
            trace.ran(start.elapsed());
        }
        outcomes
    }
}

impl Executable for HostExecutable {
    fn run(&self, device: usize, arguments: &mut [Argument]) -> Result<Outcome> {
        let mut outcomes = self.run_on(&[self.host.pool(device)?], &mut [arguments])?;
        outcomes.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "a program", "gave nothing"))
    }

    fn run_replicas(&self, arguments: &mut [Vec<Argument>]) -> Result<Vec<Outcome>> {
        let pools = (0..arguments.len()).map(|device| self.host.pool(device)).collect::<Result<Vec<_>>>()?;
        self.run_on(&pools, &mut arguments.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>())
    }

    fn resize(&self, graph: &Graph) -> Result<Resized> {
        let (host, family) = (&self.host, &self.family);
        let described = host.0.tracer.is_some();
        let known = family.templates().clone();
        let mut compiled = None;
        for template in known.iter().rev() {
            match template.at(graph, described)? {
                Ok(program) => {
                    let executable = host.executable(graph, program, family.clone());
                    return Ok(Resized { executable, compiled: None });
                }
                Err(broken) => _ = compiled.get_or_insert_with(|| broken.to_string()),
            }
        }
        check_each(graph, family.replicas)?;
        let (template, program) = compile::compile(graph, family.options, host.0.isa, described)?;
        let mut templates = family.templates();
        if templates.len() == TEMPLATES {
            templates.remove(0);
        }
        templates.push(Arc::new(template));
        drop(templates);
        Ok(Resized { executable: host.executable(graph, program, family.clone()), compiled })
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
        let mut kernels = self.program.listing();
        if let Some(trace) = &self.trace {
            trace.times.note(&mut kernels);
        }
        kernels
    }
}
