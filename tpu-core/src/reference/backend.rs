//! The interpreter as a backend, so that what runs on a backend can be tested on a second one.

use super::{Array, run};
use crate::ir::verify::verify;
use crate::ir::{Graph, Op, Type};
use crate::runtime::{Argument, Backend, Buffer, CompileOptions, Cost, Executable, KernelInfo, MemoryStats, Outcome};
use crate::{Result, bail, ensure};
use std::any::Any;
use std::sync::Arc;

/// One device that interprets programs. Donated arguments are used up as the interface says, but nothing is reused.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceBackend;

impl Backend for ReferenceBackend {
    fn name(&self) -> &str {
        "reference"
    }

    fn device_count(&self) -> usize {
        1
    }

    fn generic_in_sizes(&self) -> bool {
        false
    }

    fn supports(&self, op: &Op, _operands: &[&Type]) -> Result<()> {
        match op {
            Op::CustomCall(call) => bail!(Unsupported, op.name(), "of {} is not supported on reference", call.target),
            _ => Ok(()),
        }
    }

    fn compile(&self, graph: &Graph, _options: CompileOptions) -> Result<Arc<dyn Executable>> {
        verify(graph)?;
        Ok(Arc::new(Program(graph.clone())))
    }

    fn upload(&self, device: usize, ty: &Type, bytes: &[u8]) -> Result<Arc<dyn Buffer>> {
        ensure!(device == 0, Device, "upload", "requires device 0 on reference, got {device}");
        Ok(Arc::new(Array::from_bytes(ty.clone(), bytes.to_vec())?))
    }

    fn memory(&self, _device: usize) -> MemoryStats {
        MemoryStats::default()
    }

    fn reset_peak_memory(&self, _device: usize) {}
}

impl Buffer for Array {
    fn ty(&self) -> &Type {
        self.ty()
    }

    fn read(&self, target: &mut [u8]) -> Result<()> {
        let (want, got) = (self.bytes().len(), target.len());
        ensure!(want == got, Shape, "read", "requires {want} bytes for {}, got {got}", self.ty());
        target.copy_from_slice(self.bytes());
        Ok(())
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// A program as it was given.
#[derive(Debug)]
struct Program(Graph);

impl Program {
    fn argument(&self, index: usize, argument: &Argument) -> Result<Array> {
        match argument {
            Argument::Shared(buffer) | Argument::Donated(buffer) => {
                match buffer.clone().into_any().downcast::<Array>() {
                    Ok(array) => Ok(array.as_ref().clone()),
                    Err(_) => bail!(Device, "reference", "requires its own buffers, argument {index} is another's"),
                }
            }
            Argument::Scalar(scalar) => {
                let types = &mut self.0.parameter_types(self.0.main());
                let Some(ty) = types.nth(index) else {
                    bail!(Internal, "reference", "has no parameter number {index}");
                };
                Array::from_bytes(ty.clone(), scalar.as_slice().to_vec())
            }
            Argument::Taken => bail!(Internal, "reference", "requires an argument {index}, which was taken"),
        }
    }
}

impl Executable for Program {
    fn run(&self, _device: usize, arguments: &mut [Argument]) -> Result<Outcome> {
        let values = arguments.iter().enumerate().map(|(i, x)| self.argument(i, x)).collect::<Result<Vec<_>>>()?;
        let outcome = run::evaluate(&self.0, &values)?;
        if outcome.checks.iter().all(|&check| check == -1) {
            arguments.iter_mut().filter(|x| matches!(x, Argument::Donated(_))).for_each(|x| *x = Argument::Taken);
        }
        let results = outcome.results.into_iter().map(|x| Arc::new(x) as Arc<dyn Buffer>).collect();
        Ok(Outcome { results, checks: outcome.checks })
    }

    fn cost(&self) -> Cost {
        Cost::default()
    }

    fn kernels(&self) -> Vec<KernelInfo> {
        let kernel = |node: &crate::ir::Node| KernelInfo {
            kind: "interpreted".into(),
            ops: vec![node.op.name().into()],
            reads: node.operands.len(),
            writes: node.types.len(),
            ..KernelInfo::default()
        };
        self.0[self.0.main()].nodes.iter().map(|&node| kernel(&self.0[node])).collect()
    }
}
