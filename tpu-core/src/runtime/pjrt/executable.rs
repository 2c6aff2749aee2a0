//! Programs compiled by a plugin, and their runs.

use super::buffer::PjrtBuffer;
use super::client::Client;
use super::event::Event;
use super::sys::{self, Args, ExecuteOptions, Raw};
use super::{compile_options, cost};
use crate::ir::verify::verify;
use crate::ir::{Graph, Type, text};
use crate::runtime::{Argument, Buffer, CompileOptions, Cost, Executable, KernelInfo, Outcome};
use crate::{Error, ErrorKind, Result, bail, ensure};
use smallvec::SmallVec;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// An executable of the plugin, freed when dropped.
struct Loaded {
    client: Arc<Client>,
    raw: Raw,
}

// SAFETY: the functions on executables may be called from any thread; the object is freed once, by `drop`.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.client.api.free(sys::LoadedExecutableDestroy { executable: self.raw });
    }
}

impl Loaded {
    fn outputs(&self) -> Result<usize> {
        let api = &self.client.api;
        let mut args =
            Args::new(sys::LoadedExecutableGetExecutable { loaded_executable: self.raw, ..Default::default() });
        api.call(&mut args)?;
        let executable = args.body.executable;
        let mut args = Args::new(sys::ExecutableNumOutputs { executable, ..Default::default() });
        let outcome = api.call(&mut args);
        api.free(sys::ExecutableDestroy { executable });
        outcome.map(|()| args.body.num_outputs)
    }
}

/// A compiled program.
pub struct PjrtExecutable {
    loaded: Arc<Loaded>,
    parameters: Vec<Type>,
    /// Types of the results, then of the checks.
    outputs: Vec<Type>,
    results: usize,
    /// Parameters that the program may overwrite when a run donates them.
    donors: Vec<bool>,
    cost: Cost,
    kernel: KernelInfo,
}

impl fmt::Debug for PjrtExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PjrtExecutable({:?} on {})", self.kernel.ops, self.loaded.client.platform)
    }
}

/// The parameters whose memory a result can take: those that have the type of one. None if the program has checks: when
/// one fails, what was donated must still be there, and a plugin cannot be asked to check first.
fn donors(graph: &Graph) -> Vec<bool> {
    let results: Vec<&Type> = graph.result_types(graph.main()).collect();
    let may = |ty: &Type| graph.checks.is_empty() && ty.shape.rank() > 0 && results.contains(&ty);
    graph.parameter_types(graph.main()).map(may).collect()
}

impl PjrtExecutable {
    /// Compiles a program for every device of the client.
    pub fn compile(client: &Arc<Client>, graph: &Graph, options: CompileOptions) -> Result<Self> {
        let program = verify(graph)?;
        if let Some(ty) = graph.nodes.iter().flat_map(|node| &node.types).find(|ty| ty.bytes().is_none()) {
            // XLA does not tell this from a number of bytes that wraps around.
            let message = format!("of a value of {ty} is impossible: it has more bytes than there are addresses");
            return Err(Error::new(ErrorKind::OutOfMemory, "an allocation", message));
        }
        let donors = donors(graph);
        let text = text::print_with_donors(program, &donors);
        let loaded = load(client, &text, options)?;
        let checks = graph.checks.iter().map(|check| graph.ty(check.value));
        let outputs: Vec<Type> = graph.result_types(graph.main()).chain(checks).cloned().collect();
        let count = loaded.outputs()?;
        ensure!(
            count == outputs.len(),
            Execution,
            "pjrt",
            "requires {} results, got a program of {count}",
            outputs.len()
        );
        let ops = graph.nodes.iter().map(|node| node.op.name().to_string()).collect();
        let parameters: Vec<Type> = graph.parameter_types(graph.main()).cloned().collect();
        let (reads, writes) = (parameters.len(), outputs.len());
        Ok(Self {
            loaded: Arc::new(loaded),
            results: outputs.len() - graph.checks.len(),
            parameters,
            outputs,
            donors,
            cost: cost::estimate(graph),
            kernel: KernelInfo { kind: "program".into(), ops, reads, writes },
        })
    }

    fn client(&self) -> &Arc<Client> {
        &self.loaded.client
    }

    /// The buffer of an argument; a scalar becomes one on the device.
    fn argument(&self, device: usize, index: usize, argument: &Argument) -> Result<Arc<PjrtBuffer>> {
        let ty = &self.parameters[index];
        match argument {
            Argument::Shared(buffer) | Argument::Donated(buffer) => {
                let any: Arc<dyn Any + Send + Sync> = buffer.clone().into_any();
                let Ok(buffer) = any.downcast::<PjrtBuffer>() else {
                    bail!(Device, "pjrt", "requires a buffer of its own as argument {index}, got {buffer:?}");
                };
                let here = buffer.is_of(self.client()) && buffer.device() == device;
                let platform = &self.client().platform;
                ensure!(here, Device, "pjrt", "requires argument {index} on {platform}:{device}, got {buffer:?}");
                ensure!(buffer.ty() == ty, Internal, "pjrt", "requires {ty} as argument {index}, got {}", buffer.ty());
                Ok(buffer)
            }
            Argument::Scalar(bytes) => Ok(Arc::new(PjrtBuffer::upload(self.client(), device, ty, bytes.as_slice())?)),
            Argument::Taken => bail!(Internal, "pjrt", "requires an argument {index}, which an earlier run took"),
        }
    }

    /// Starts a run. The results may not be there yet; the event says when, or why not.
    fn start(&self, device: usize, inputs: &[Raw], kept: &[i64]) -> Result<(Vec<PjrtBuffer>, Option<Event>)> {
        let client = self.client();
        let mut options = Args::new(ExecuteOptions {
            non_donatable_input_indices: kept.as_ptr(),
            num_non_donatable_input_indices: kept.len(),
            ..Default::default()
        });
        let mut outputs: Vec<Raw> = vec![std::ptr::null_mut(); self.outputs.len()];
        let mut done: Raw = std::ptr::null_mut();
        let (input_list, output_list) = (inputs.as_ptr(), outputs.as_mut_ptr());
        // The lists live through the call, which is as long as the plugin needs them.
        let mut args = Args::new(sys::LoadedExecutableExecute {
            executable: self.loaded.raw,
            options: &raw mut options,
            argument_lists: &raw const input_list,
            num_devices: 1,
            num_args: inputs.len(),
            output_lists: &raw const output_list,
            device_complete_events: &raw mut done,
            execute_device: client.device(device)?.raw,
        });
        client.api.call(&mut args)?;
        let done = Event::new(client, done);
        // All are taken over before any is judged, so that none leaks.
        let buffers = outputs.iter().zip(&self.outputs);
        let buffers: Vec<_> = buffers.map(|(&raw, ty)| PjrtBuffer::new(client, raw, device, ty.clone())).collect();
        Ok((buffers.into_iter().collect::<Result<_>>()?, done))
    }
}

/// Has the plugin compile StableHLO text.
fn load(client: &Arc<Client>, text: &str, options: CompileOptions) -> Result<Loaded> {
    const FORMAT: &str = "mlir";
    let options = compile_options::encode(options);
    let program = Args::new(sys::Program {
        code: text.as_ptr().cast(),
        code_size: text.len(),
        format: FORMAT.as_ptr().cast(),
        format_size: FORMAT.len(),
    });
    // Text, options and program outlive the call, which is as long as the plugin needs them.
    let mut args = Args::new(sys::ClientCompile {
        client: client.raw(),
        program: &raw const program,
        compile_options: options.as_ptr().cast(),
        compile_options_size: options.len(),
        ..Default::default()
    });
    client.api.call(&mut args)?;
    let raw = args.body.executable;
    ensure!(!raw.is_null(), Execution, "PJRT_Client_Compile", "gave no executable");
    Ok(Loaded { client: client.clone(), raw })
}

impl Executable for PjrtExecutable {
    /// Runs and waits. If a run fails that was given donated buffers, the plugin may have used them up before it failed;
    /// reading such a buffer is then an error of the plugin.
    fn run(&self, device: usize, arguments: &mut [Argument]) -> Result<Outcome> {
        let (want, got) = (self.parameters.len(), arguments.len());
        ensure!(want == got, Internal, "a program", "requires {want} arguments, got {got}");
        let mut kept: SmallVec<[i64; 16]> = SmallVec::new();
        let mut inputs: SmallVec<[Arc<PjrtBuffer>; 16]> = SmallVec::with_capacity(got);
        for (index, argument) in arguments.iter().enumerate() {
            let sole = matches!(argument, Argument::Donated(buffer) if Arc::strong_count(buffer) == 1);
            if !(sole && self.donors[index]) {
                kept.push(index as i64);
            }
            inputs.push(self.argument(device, index, argument)?);
        }
        let raw: SmallVec<[Raw; 16]> = inputs.iter().map(|buffer| buffer.raw()).collect();
        let (mut results, done) = self.start(device, &raw, &kept)?;
        if let Some(done) = done {
            // All that the plugin reads, writes and executes until then.
            (results, ..) = done.wait("a run", (results, inputs, self.loaded.clone()))?;
        }
        let checks = results.split_off(self.results);
        let checks = checks.iter().map(read_check).collect::<Result<Vec<i32>>>()?;
        for (index, argument) in arguments.iter_mut().enumerate() {
            if kept.binary_search(&(index as i64)).is_err() {
                *argument = Argument::Taken;
            }
        }
        let results = results.into_iter().map(|buffer| Arc::new(buffer) as Arc<dyn Buffer>).collect();
        Ok(Outcome { results, checks })
    }

    fn cost(&self) -> Cost {
        self.cost
    }

    fn kernels(&self) -> Vec<KernelInfo> {
        vec![self.kernel.clone()]
    }
}

fn read_check(buffer: &PjrtBuffer) -> Result<i32> {
    let mut bytes = [0; 4];
    buffer.read(&mut bytes)?;
    Ok(i32::from_le_bytes(bytes))
}
