//! Whether a program compiles for a TPU, fits it, and how long it should take: asked of Google's TPU compiler on any
//! Linux machine, with no TPU.
//!
//! ```no_run
//! use tpu_core::plan::{Compiler, Program};
//! use tpu_core::{DType, ir::Type};
//!
//! let x = Type::new(DType::BF16, [8192, 8192]);
//! let program = Program::trace(&[x.clone(), x], |x| Ok(vec![x[0].matmul(&x[1])?.tanh()?]))?;
//! let compiler = Compiler::find()?;
//! for target in ["v5e:1x1", "v6e:1x1"] {
//!     let plan = compiler.target(target)?.plan(&program, &mut |_| {})?;
//!     println!("{plan}");
//! }
//! # Ok::<(), tpu_core::Error>(())
//! ```
//!
//! A [`Program`] is StableHLO text, a traced function or a recorded step of training. A [`Target`] is a topology such as
//! `v5e:2x2`; the program is planned for one of its devices, or for as many as it says
//! ([`Program::with_replicas`]). The [`Plan`] says whether it compiles and, if so, its
//! operations, memory and time. Memory is what the compiler laid out. Time is an [`Estimate`], and said to be one.
//! [`Target::largest_batch`] looks for the largest batch that fits.
//!
//! The compiler is `libtpu.so`, which `cargo xtask plugins` and the Python package `libtpu` bring along.

mod batch;
mod chip;
mod compiler;
mod estimate;
mod json;
mod program;
mod recorder;
mod refusal;
mod report;
mod rounds;

pub use batch::{Batch, Search};
pub use chip::Chip;
pub use compiler::{Compiler, Progress, Target};
pub use estimate::{Estimate, Operation, Place};
pub use program::Program;
pub use refusal::Refusal;
pub use report::table;

pub use crate::runtime::pjrt::aot::Memory;

use crate::Result;
use crate::runtime::Cache;
use crate::runtime::pjrt::aot::Compiled;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a target's compiler says of a program.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The topology's name.
    pub target: String,
    /// What the compiler calls its devices.
    pub device_kind: String,
    /// How many devices it has.
    pub devices: usize,
    /// On how many of them the program runs.
    pub used: usize,
    /// Bytes of a device's memory that programs may use, if the compiler says.
    pub device_memory: Option<u64>,
    /// The generation, if it is one that is known here.
    pub chip: Option<Chip>,
    /// How long compiling took.
    pub compile_time: Duration,
    /// What the program takes, or why it cannot be compiled.
    pub outcome: Result<Figures, Refusal>,
}

/// What a program takes on one device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Figures {
    /// Floating point operations, as the compiler counts them: once those of a loop whose rounds it did not note, even if
    /// [`estimate`](Self::estimate) knows them. One of float32 products takes several of the matrix unit's bf16
    /// operations.
    pub flops: f64,
    /// Bytes that operations read and write, on-chip memory included.
    pub bytes: f64,
    /// The device's memory.
    pub memory: Memory,
    /// The time.
    pub estimate: Estimate,
    executable: Arc<Compiled>,
}

impl Figures {
    /// What part of the chip's peak, in bf16 operations, the program reaches by its estimated time.
    pub fn share_of_peak(&self, chip: &Chip) -> Option<f64> {
        self.estimate.seconds.filter(|&seconds| seconds > 0.0).map(|s| self.flops / s / chip.flops_per_second)
    }

    /// The executable, for a runtime with the same compiler on a TPU of this kind.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        self.executable.serialize()
    }

    /// Stores the executable, and says in which file. A runtime whose cache has this folder, by `TPU_CACHE_DIR` or otherwise,
    /// loads it instead of compiling the program, if it is on a TPU of this kind with the same build of the compiler, and
    /// `XLA_FLAGS` and `LIBTPU_INIT_ARGS` are what they are now. [`Pjrt::load_file`](crate::runtime::pjrt::Pjrt::load_file)
    /// loads it too, and says why if it does not fit.
    ///
    /// Errors as [`serialize`](Self::serialize), with [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a
    /// program of several devices, and if the file cannot be written.
    pub fn store(&self, cache: &Cache) -> Result<PathBuf> {
        self.executable.store(cache)
    }

    /// The program after the compiler's optimisations, a protobuf `HloModuleProtoWithConfig` for XLA's tools.
    pub fn optimized(&self) -> Result<Vec<u8>> {
        self.executable.optimized()
    }
}
