//! A device that keeps the programs it is given instead of running them.

use crate::ir::{Graph, Op, Type};
use crate::runtime::{Argument, Backend, Buffer, CompileOptions, Cost, Executable, KernelInfo, MemoryStats, Outcome};
use crate::{Error, ErrorKind, Location, Result, ensure};
use std::any::Any;
use std::sync::{Arc, Mutex};

/// A program as it was cut, and where its nodes were recorded.
#[derive(Debug)]
pub(super) struct Cut {
    pub graph: Graph,
    pub locations: Vec<Location>,
    pub options: CompileOptions,
}

/// The backend. Its values have types and no elements.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder {
    /// Programs in the order in which they were to run.
    runs: Arc<Mutex<Vec<Arc<Cut>>>>,
}

impl Recorder {
    /// What was to run since this was last asked.
    pub fn take(&self) -> Vec<Arc<Cut>> {
        std::mem::take(&mut *self.runs.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

#[derive(Debug)]
struct Phantom(Type);

impl Buffer for Phantom {
    fn ty(&self) -> &Type {
        &self.0
    }

    fn read(&self, _: &mut [u8]) -> Result<()> {
        let message = "of a value is impossible while a program is planned: nothing is computed then";
        Err(Error::new(ErrorKind::Unsupported, "reading", message))
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

#[derive(Debug)]
struct Kept {
    cut: Arc<Cut>,
    runs: Arc<Mutex<Vec<Arc<Cut>>>>,
}

impl Executable for Kept {
    fn run(&self, _: usize, arguments: &mut [Argument]) -> Result<Outcome> {
        for argument in arguments {
            if matches!(argument, Argument::Donated(_)) {
                *argument = Argument::Taken;
            }
        }
        self.runs.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(self.cut.clone());
        let graph = &self.cut.graph;
        let phantom = |ty: &Type| Arc::new(Phantom(ty.clone())) as Arc<dyn Buffer>;
        let results = graph.result_types(graph.main()).map(phantom).collect();
        Ok(Outcome { results, checks: vec![-1; graph.checks.len()] })
    }

    fn cost(&self) -> Cost {
        Cost::default()
    }

    fn kernels(&self) -> Vec<KernelInfo> {
        Vec::new()
    }
}

impl Backend for Recorder {
    fn name(&self) -> &str {
        "plan"
    }

    fn device_count(&self) -> usize {
        1
    }

    fn generic_in_sizes(&self) -> bool {
        false
    }

    /// Whether a target has the op, its compiler says.
    fn supports(&self, _: &Op, _: &[&Type]) -> Result<()> {
        Ok(())
    }

    fn compile(&self, graph: &Graph, options: CompileOptions) -> Result<Arc<dyn Executable>> {
        self.compile_located(graph, &[], options)
    }

    fn keeps_locations(&self) -> bool {
        true
    }

    fn compile_located(
        &self,
        graph: &Graph,
        locations: &[Location],
        options: CompileOptions,
    ) -> Result<Arc<dyn Executable>> {
        let cut = Cut { graph: graph.clone(), locations: locations.to_vec(), options };
        Ok(Arc::new(Kept { cut: Arc::new(cut), runs: self.runs.clone() }))
    }

    fn upload(&self, _: usize, ty: &Type, bytes: &[u8]) -> Result<Arc<dyn Buffer>> {
        ensure!(ty.bytes() == Some(bytes.len()), Shape, "upload", "requires the bytes of {ty}, got {}", bytes.len());
        Ok(Arc::new(Phantom(ty.clone())))
    }

    fn memory(&self, _: usize) -> MemoryStats {
        MemoryStats::default()
    }

    fn reset_peak_memory(&self, _: usize) {}
}

/// A value without elements, for a function's argument.
pub(super) fn phantom(ty: &Type) -> Arc<dyn Buffer> {
    Arc::new(Phantom(ty.clone()))
}
