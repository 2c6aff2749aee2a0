//! Several replicas of one program, interpreted in lock step: a backend whose buffers hold one value per replica. What is
//! uploaded is there on every replica, what is read is what replica 0 has.

use std::any::Any;
use std::sync::Arc;
use tpu_core::ir::{Graph, Op, Type};
use tpu_core::reference::{Array, evaluate_spmd};
use tpu_core::runtime::{
    Argument, Backend, Buffer, CompileOptions, Cost, Executable, KernelInfo, MemoryStats, Outcome,
};
use tpu_core::{Device, Error, ErrorKind, Result};

/// Runs a test on a device of that many replicas. Every operation can be recorded on it, `custom_call` too.
pub fn on_replicas(count: usize, test: impl FnOnce()) {
    Device::open(Arc::new(Replicas(count)))[0].scope(test);
}

#[derive(Debug)]
struct Replicas(usize);

#[derive(Debug)]
struct Program {
    graph: Graph,
    replicas: usize,
}

#[derive(Debug)]
struct Values(Vec<Array>);

impl Backend for Replicas {
    fn name(&self) -> &str {
        "replicas"
    }

    fn device_count(&self) -> usize {
        1
    }

    fn generic_in_sizes(&self) -> bool {
        false
    }

    fn supports(&self, _op: &Op, _operands: &[&Type]) -> Result<()> {
        Ok(())
    }

    fn compile(&self, graph: &Graph, _options: CompileOptions) -> Result<Arc<dyn Executable>> {
        Ok(Arc::new(Program { graph: graph.clone(), replicas: self.0 }))
    }

    fn upload(&self, _device: usize, ty: &Type, bytes: &[u8]) -> Result<Arc<dyn Buffer>> {
        let array = Array::from_bytes(ty.clone(), bytes.to_vec())?;
        Ok(Arc::new(Values(vec![array; self.0])))
    }

    fn memory(&self, _device: usize) -> MemoryStats {
        MemoryStats::default()
    }

    fn reset_peak_memory(&self, _device: usize) {}
}

impl Buffer for Values {
    fn ty(&self) -> &Type {
        self.0[0].ty()
    }

    fn read(&self, target: &mut [u8]) -> Result<()> {
        target.copy_from_slice(self.0[0].bytes());
        Ok(())
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl Executable for Program {
    fn run(&self, _device: usize, arguments: &mut [Argument]) -> Result<Outcome> {
        let mut values: Vec<Vec<Array>> = vec![Vec::new(); self.replicas];
        let types = self.graph.parameter_types(self.graph.main());
        for (argument, ty) in arguments.iter().zip(types) {
            let each = match argument {
                Argument::Shared(buffer) | Argument::Donated(buffer) => {
                    let values = buffer.clone().into_any().downcast::<Values>();
                    values.map_err(|_| Error::new(ErrorKind::Device, "run", "of another backend's buffer"))?.0.clone()
                }
                Argument::Scalar(number) => {
                    vec![Array::from_bytes(ty.clone(), number.as_slice().to_vec())?; self.replicas]
                }
                Argument::Taken => return Err(Error::new(ErrorKind::Internal, "run", "of a taken argument")),
            };
            values.iter_mut().zip(each).for_each(|(values, value)| values.push(value));
        }
        let outcomes = evaluate_spmd(&self.graph, &values)?;
        arguments.iter_mut().filter(|argument| matches!(argument, Argument::Donated(_))).for_each(|argument| {
            *argument = Argument::Taken;
        });
        let result = |at: usize| {
            let each = outcomes.iter().map(|outcome| outcome.results[at].clone()).collect();
            Arc::new(Values(each)) as Arc<dyn Buffer>
        };
        Ok(Outcome {
            results: (0..outcomes[0].results.len()).map(result).collect(),
            checks: outcomes[0].checks.clone(),
        })
    }

    fn cost(&self) -> Cost {
        Cost::default()
    }

    fn kernels(&self) -> Vec<KernelInfo> {
        Vec::new()
    }
}
