//! How long a case is in which kernels: products, and all others.
//!
//! A host that traces its programs says how long each of their kernels has taken, see
//! [`HostOptions::trace`](tpu_core::runtime::host::HostOptions::trace). What counts are the kernels of all programs that ran
//! between two moments; what is between kernels counts nowhere.

use crate::cases::set_up;
use crate::measure::{Parameters, Work};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tpu_core::ir::{Graph, Op, Type};
use tpu_core::runtime::host::{Host, HostOptions};
use tpu_core::runtime::{
    Argument, Backend, Buffer, CompileOptions, Cost, Executable, KernelInfo, MemoryStats, Outcome, Resized,
};
use tpu_core::{Device, Mode, Result};

/// Kinds of kernels that are products of matrices, or made of them.
const PRODUCTS: [&str; 4] = ["dot_general", "convolution", "attention", "attention_backward"];

/// A host times no more programs than this.
const PROGRAMS: usize = 512;

/// Seconds in kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// In those that are products.
    pub products: f64,
    /// In all others.
    pub other: f64,
}

impl Spent {
    /// Adds kernels; of a loop or a branch those of its blocks, and as other what it takes beyond them.
    fn add(&mut self, kernels: &[KernelInfo]) {
        for kernel in kernels {
            if PRODUCTS.contains(&kernel.kind.as_str()) {
                self.products += kernel.seconds;
            } else {
                self.add(&kernel.inner);
                self.other += kernel.seconds - kernel.inner.iter().map(|inner| inner.seconds).sum::<f64>();
            }
        }
    }
}

/// A case, set up in a mode on a host of its own.
pub struct Case {
    mode: Mode,
    device: Device,
    programs: Programs,
    work: Work,
}

impl Case {
    /// Sets a case up. What the host has to write goes to `folder`.
    ///
    /// # Errors
    /// On an unknown kind or wrong parameters, and when there is no memory.
    pub fn new(mode: Mode, kind: &str, parameters: &Parameters, folder: &Path) -> crate::measure::Result<Self> {
        let programs = Programs::default();
        let options = HostOptions { trace: Some(folder.into()), ..HostOptions::default() };
        let host = Host::new(options).map_err(|error| error.to_string())?;
        let device = Device::open(Arc::new(Noting { host, programs: programs.clone() })).swap_remove(0);
        let work = device.scope(|| mode.scope(|| set_up(kind, parameters)))?;
        Ok(Self { mode, device, programs, work })
    }

    /// One run: what it spent in kernels.
    ///
    /// # Errors
    /// When a program fails, and when there are more programs than the host has times of.
    pub fn run(&mut self) -> crate::measure::Result<Spent> {
        let before = self.programs.spent();
        self.device.scope(|| self.mode.scope(|| (self.work)(false)))?;
        let (after, count) = (self.programs.spent(), self.programs.count());
        if count > PROGRAMS {
            return Err(format!("requires at most {PROGRAMS} programs, got {count}"));
        }
        Ok(Spent { products: after.products - before.products, other: after.other - before.other })
    }
}

/// All programs that a host has compiled.
#[derive(Clone, Debug, Default)]
struct Programs(Arc<Mutex<Vec<Arc<dyn Executable>>>>);

impl Programs {
    fn note(&self, executable: Arc<dyn Executable>) -> Arc<dyn Executable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(executable.clone());
        Arc::new(Noted { executable, programs: self.clone() })
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn spent(&self) -> Spent {
        let mut spent = Spent::default();
        let programs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        programs.iter().for_each(|program| spent.add(&program.kernels()));
        spent
    }
}

/// A host that notes its programs.
#[derive(Debug)]
struct Noting {
    host: Host,
    programs: Programs,
}

impl Backend for Noting {
    fn name(&self) -> &str {
        self.host.name()
    }

    fn device_count(&self) -> usize {
        self.host.device_count()
    }

    fn generic_in_sizes(&self) -> bool {
        self.host.generic_in_sizes()
    }

    fn supports(&self, op: &Op, operands: &[&Type]) -> Result<()> {
        self.host.supports(op, operands)
    }

    fn compile(&self, graph: &Graph, options: CompileOptions) -> Result<Arc<dyn Executable>> {
        Ok(self.programs.note(self.host.compile(graph, options)?))
    }

    fn upload(&self, device: usize, ty: &Type, bytes: &[u8]) -> Result<Arc<dyn Buffer>> {
        self.host.upload(device, ty, bytes)
    }

    fn memory(&self, device: usize) -> MemoryStats {
        self.host.memory(device)
    }

    fn reset_peak_memory(&self, device: usize) {
        self.host.reset_peak_memory(device);
    }
}

/// A program that notes what is made of it.
#[derive(Debug)]
struct Noted {
    executable: Arc<dyn Executable>,
    programs: Programs,
}

impl Executable for Noted {
    fn run(&self, device: usize, arguments: &mut [Argument]) -> Result<Outcome> {
        self.executable.run(device, arguments)
    }

    fn resize(&self, graph: &Graph) -> Result<Resized> {
        let Resized { executable, compiled } = self.executable.resize(graph)?;
        Ok(Resized { executable: self.programs.note(executable), compiled })
    }

    fn cost(&self) -> Cost {
        self.executable.cost()
    }

    fn kernels(&self) -> Vec<KernelInfo> {
        self.executable.kernels()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(kind: &str, seconds: f64, inner: Vec<KernelInfo>) -> KernelInfo {
        KernelInfo { kind: kind.into(), seconds, inner, ..KernelInfo::default() }
    }

    #[test]
    fn products_inside_loops_are_products_and_the_rest_of_a_loop_is_not() {
        let body = vec![kernel("dot_general", 2.0, Vec::new()), kernel("row_program", 1.0, Vec::new())];
        let mut spent = Spent::default();
        spent.add(&[
            kernel("while", 3.5, body),
            kernel("convolution", 4.0, Vec::new()),
            kernel("copy", 8.0, Vec::new()),
        ]);
        assert_eq!(spent, Spent { products: 6.0, other: 9.5 });
    }

    #[test]
    fn both_modes_spend_time_in_products_and_in_other_kernels() {
        let folder = tempfile::tempdir().unwrap();
        let small = [
            ("mlp", "inputs=32 width=64 outputs=4 batch=16"),
            ("lstm", "layers=1 width=16 hidden=32 context=8 batch=4"),
        ];
        for mode in [Mode::DeferAndFuse, Mode::DeferNever] {
            for (kind, words) in small {
                let parameters = Parameters::parse(words).unwrap();
                let mut case = Case::new(mode, kind, &parameters, folder.path()).unwrap();
                for _ in 0..2 {
                    let spent = case.run().unwrap();
                    assert!(spent.products > 0.0 && spent.other > 0.0, "{mode:?} {kind} {spent:?}");
                }
            }
        }
    }
}
