//! Programs compiled ahead of time, for devices that need not be there, and what the compiler says of them.

use super::attribute;
use super::identity::Target;
use super::parallel::Parallel;
use super::sys::{self, Args, Raw};
use super::topology::Topology;
use super::{ahead, api, compile_options, guard, loaded};
use crate::runtime::{Cache, CompileOptions};
use crate::{Result, ensure};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// What a client of the compiler's plugin calls itself.
const PLATFORM: &str = "tpu";
/// The version of the C API from which on memory statistics have the fields behind the peak.
const MORE_MEMORY_STATISTICS: (i32, i32) = (0, 104);
/// The most bytes that are taken of a program a plugin gives: a corrupt length must not become an allocation.
const LARGEST_PROGRAM: usize = 4 << 30;

/// An executable that was compiled ahead of time.
pub struct Compiled {
    topology: Arc<Topology>,
    raw: Raw,
    /// Under which a runtime looks for it.
    key: Vec<u8>,
    devices: usize,
}

// SAFETY: the functions on executables may be called from any thread; the object is freed once, by `drop`.
unsafe impl Send for Compiled {}
// SAFETY: as above.
unsafe impl Sync for Compiled {}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a program for {}", self.topology.name)
    }
}

/// Bytes of one device's memory that a program takes, as the compiler laid it out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Memory {
    /// What it is given.
    pub arguments: u64,
    /// What it gives.
    pub outputs: u64,
    /// Of the outputs, what lies in memory of arguments.
    pub aliased: u64,
    /// What lives only while it runs.
    pub temporaries: u64,
    /// The program itself.
    pub code: u64,
    /// The most that is taken at one time, arguments and outputs included.
    pub peak: u64,
    /// All allocations together; of plugins with C API 0.104 or later.
    pub allocated: Option<u64>,
}

impl Compiled {
    /// Compiles StableHLO text for as many devices as `parallel` says.
    ///
    /// Errors with [`OutOfMemory`](crate::ErrorKind::OutOfMemory) if the compiler finds that the program does not fit the device's memory,
    /// with [`Unsupported`](crate::ErrorKind::Unsupported) for a program that would end the process, see [`guard`], else with the compiler's
    /// own error.
    pub fn new(topology: &Arc<Topology>, text: &str, options: CompileOptions, parallel: Parallel) -> Result<Self> {
        guard::check(text, parallel)?;
        let (devices, given) = (parallel.devices(), topology.devices);
        ensure!(devices <= given, Device, "a program", "requires {devices} devices, {} has {given}", topology.name);
        let options = compile_options::encode_ahead(PLATFORM, options, parallel);
        let program = loaded::program(text);
        // Text, options and program outlive the call, which is as long as the plugin needs them.
        let mut args = Args::new(sys::Compile {
            topology: topology.raw(),
            program: &raw const program,
            compile_options: options.as_ptr().cast(),
            compile_options_size: options.len(),
            ..Default::default()
        });
        topology.api.call(&mut args)?;
        let raw = args.body.executable;
        ensure!(!raw.is_null(), Execution, "PJRT_Compile", "gave no executable");
        // From here on `drop` frees the executable.
        let mut compiled = Self { topology: topology.clone(), raw, key: Vec::new(), devices };
        let target = Target::new(PLATFORM, &topology.device_kind, &topology.platform_version);
        compiled.key = ahead::key(&target, &options, &ahead::without_locations(text));
        Ok(compiled)
    }

    /// What the compiler's cost analysis says, by name.
    pub fn cost(&self) -> Result<Vec<(String, f64)>> {
        let mut args = Args::new(sys::ExecutableGetCostAnalysis { executable: self.raw, ..Default::default() });
        self.topology.api.call(&mut args)?;
        // SAFETY: the properties live as long as the executable.
        let properties = unsafe { attribute::attributes_of(args.body.properties, args.body.num_properties) };
        Ok(properties.into_iter().filter_map(|(name, value)| Some((name, value.number()?))).collect())
    }

    /// The memory that the program takes.
    pub fn memory(&self) -> Result<Memory> {
        let mut args = Args::new(sys::ExecutableGetCompiledMemoryStats { executable: self.raw, ..Default::default() });
        self.topology.api.call(&mut args)?;
        let bytes = |size: i64| u64::try_from(size).unwrap_or(0);
        let body = &args.body;
        // Behind the peak: total_size_in_bytes, total_allocation_bytes, indefinite_allocations, peak_unpadded_heap_bytes.
        let more = self.topology.api.version() >= MORE_MEMORY_STATISTICS;
        Ok(Memory {
            arguments: bytes(body.argument_size_in_bytes),
            outputs: bytes(body.output_size_in_bytes),
            aliased: bytes(body.alias_size_in_bytes),
            temporaries: bytes(body.temp_size_in_bytes),
            code: bytes(body.generated_code_size_in_bytes),
            peak: bytes(body.peak_memory_in_bytes),
            allocated: more.then(|| bytes(args.later(1) as i64)),
        })
    }

    /// The executable's bytes, for a runtime of the same plugin.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        loaded::serialize(&self.topology.api, self.raw)
    }

    /// Stores the executable where a runtime looks for it, and says in which file. Errors with
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for a program of several devices: which ones they are is part of such
    /// an executable, and only the runtime knows.
    pub fn store(&self, cache: &Cache) -> Result<PathBuf> {
        ahead::one_device(self.devices)?;
        cache.try_store(&self.key, &self.serialize()?)
    }

    /// The program after the compiler's optimisations, as a protobuf `HloModuleProtoWithConfig`.
    pub fn optimized(&self) -> Result<Vec<u8>> {
        let mut program = Args::new(sys::Program::default());
        let mut args = Args::new(sys::ExecutableOptimizedProgram { executable: self.raw, program: &raw mut program });
        // The first call says how many bytes the second one writes.
        self.topology.api.call(&mut args)?;
        // SAFETY: the format's name is the plugin's own and lives as long as the executable.
        let format = unsafe { api::text_of(program.body.format, program.body.format_size) };
        ensure!(
            format == "hlo_with_config",
            Unsupported,
            "pjrt",
            "requires an optimized program as hlo_with_config, got {format:?}"
        );
        let size = program.body.code_size;
        ensure!(
            size <= LARGEST_PROGRAM,
            Format,
            "pjrt",
            "requires at most {LARGEST_PROGRAM} bytes of program, got {size}"
        );
        let mut bytes: Vec<u8> = vec![0; size];
        program.body.code = bytes.as_mut_ptr().cast();
        args.body.program = &raw mut program;
        self.topology.api.call(&mut args)?;
        Ok(bytes)
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        self.topology.api.free(sys::ExecutableDestroy { executable: self.raw });
    }
}
