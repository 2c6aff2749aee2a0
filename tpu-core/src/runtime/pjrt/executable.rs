//! Runs of programs that a plugin compiled.

use super::buffer::{PjrtBuffer, no_buffer};
use super::client::Client;
use super::event::Event;
use super::loaded::Loaded;
use super::lowered::{Lowered, Signature};
use super::sys::{self, Args, ExecuteOptions, Raw};
use crate::runtime::{Argument, Buffer, Cost, Executable, HostMemory, KernelInfo, Outcome, Reading};
use crate::{Error, ErrorKind, Result, bail, ensure};
use smallvec::SmallVec;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A program that a plugin compiled or loaded.
pub struct PjrtExecutable {
    loaded: Arc<Loaded>,
    signature: Arc<Signature>,
    from_cache: bool,
}

impl fmt::Debug for PjrtExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PjrtExecutable({:?} on {})", self.signature.kernel.ops, self.client().platform)
    }
}

type Inputs = SmallVec<[Arc<PjrtBuffer>; 16]>;

/// A run that was started: per device, its results, which may not be there yet, and the event that says when or why not.
/// A result that the plugin did not give is `None`.
struct Started {
    results: SmallVec<[Vec<Option<PjrtBuffer>>; 1]>,
    done: SmallVec<[Option<Event>; 1]>,
}

impl PjrtExecutable {
    /// Has the plugin compile a program.
    pub(super) fn compile(client: &Arc<Client>, lowered: &Lowered) -> Result<Self> {
        Self::new(Loaded::compile(client, lowered.text(), lowered.options())?, lowered)
    }

    /// Has the plugin load a program from what [`serialize`](Self::serialize) gave.
    pub(super) fn load(client: &Arc<Client>, lowered: &Lowered, bytes: &[u8]) -> Result<Self> {
        Self::new(Loaded::deserialize(client, bytes)?, lowered)
    }

    fn new(loaded: Loaded, lowered: &Lowered) -> Result<Self> {
        let signature = lowered.signature.clone();
        let (count, want) = (loaded.outputs()?, signature.outputs.len());
        ensure!(count == want, Execution, "pjrt", "requires {want} results, got a program of {count}");
        if signature.replicas > 1 {
            let (devices, replicas) = (loaded.devices()?, signature.replicas);
            let in_order = devices.iter().copied().eq(0..replicas);
            ensure!(in_order, Execution, "pjrt", "requires devices 0 to {}, got {devices:?}", replicas - 1);
        }
        Ok(Self { loaded: Arc::new(loaded), signature, from_cache: false })
    }

    /// The same, known to have been loaded instead of compiled.
    pub(super) fn marked_as_loaded(self) -> Self {
        Self { from_cache: true, ..self }
    }

    fn client(&self) -> &Arc<Client> {
        self.loaded.client()
    }

    /// The executable's bytes, which the same plugin [loads](super::Pjrt::load) again on the same kind of device. Errors with
    /// [`ErrorKind::Unsupported`] if the plugin cannot.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        self.loaded.serialize()
    }

    /// Bytes that tell the executable from others of the plugin. Errors with [`ErrorKind::Unsupported`] if the plugin
    /// has none.
    pub fn fingerprint(&self) -> Result<Vec<u8>> {
        self.loaded.fingerprint()
    }

    /// The buffer of an argument; a scalar becomes one on the device.
    fn argument(&self, device: usize, index: usize, argument: &Argument) -> Result<Arc<PjrtBuffer>> {
        let ty = &self.signature.parameters[index];
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

    /// The buffers of a device's arguments.
    fn inputs(&self, device: usize, arguments: &[Argument]) -> Result<Inputs> {
        let (want, got) = (self.signature.parameters.len(), arguments.len());
        ensure!(want == got, Internal, "a program", "requires {want} arguments, got {got}");
        let mut inputs = Inputs::with_capacity(got);
        for (index, argument) in arguments.iter().enumerate() {
            inputs.push(self.argument(device, index, argument)?);
        }
        Ok(inputs)
    }

    /// After a failed check: what was given away is where the program put it, see [`donation`](super::donation). Gives whether
    /// that is in the place of a result that should be right.
    fn restore(&self, arguments: &mut [Argument], taken: &[bool], outcome: &Outcome) -> bool {
        let restores = &self.signature.restores;
        if restores.is_empty() || outcome.checks.iter().all(|&bad| bad < 0) {
            return false;
        }
        // There are no more checks than bits where there is something to restore.
        let failed = outcome.checks.iter().rev().fold(0u64, |bits, &bad| bits << 1 | u64::from(bad >= 0));
        let mut missing = false;
        for restore in restores.iter().filter(|restore| taken[restore.parameter]) {
            arguments[restore.parameter] = Argument::Donated(outcome.results[restore.result].clone());
            missing |= restore.lost_with & failed == 0;
        }
        missing
    }

    /// Runs the program as it was recorded, giving nothing away.
    fn run_plain(&self, device: usize, arguments: &mut [Argument]) -> Result<Outcome> {
        let Some((graph, options)) = &self.signature.plain else {
            bail!(Internal, "pjrt", "requires the program as it was recorded");
        };
        let lowered = Lowered::plain(&self.client().platform, graph, options)?;
        Self::compile(self.client(), &lowered)?.run(device, arguments)
    }

    /// Whether the program takes this argument. Asked before anything else refers to its buffer.
    fn takes(&self, index: usize, argument: &Argument) -> bool {
        let sole = matches!(argument, Argument::Donated(buffer) if Arc::strong_count(buffer) == 1);
        sole && self.signature.donors.get(index) == Some(&true)
    }

    /// Starts a run on devices `first`, `first + 1`, …, one for each list of inputs. If it starts, inputs that are `taken`
    /// belong to the plugin.
    fn start(&self, first: usize, inputs: &[Inputs], taken: &[bool]) -> Result<Started> {
        let (client, outputs, kept) = (self.client(), &self.signature.outputs, kept(taken));
        let parameters = self.signature.parameters.len();
        // One after the other. Elements are pushed here and below: collecting lists of lists moves each several times, which
        // a small program would take a tenth longer for.
        let mut raw: SmallVec<[Raw; 16]> = SmallVec::with_capacity(parameters * inputs.len());
        inputs.iter().flatten().for_each(|buffer| raw.push(buffer.raw()));
        let argument_lists: SmallVec<[sys::RawList; 1]> =
            (0..inputs.len()).map(|device| raw.as_ptr().wrapping_add(device * parameters)).collect();
        let mut options = Args::new(ExecuteOptions {
            non_donatable_input_indices: kept.as_ptr(),
            num_non_donatable_input_indices: kept.len(),
            ..Default::default()
        });
        let mut given: SmallVec<[Raw; 16]> = SmallVec::from_elem(std::ptr::null_mut(), outputs.len() * inputs.len());
        // Each device writes its own part; a program without results writes nothing.
        let start = given.as_mut_ptr();
        let output_lists: SmallVec<[*mut Raw; 1]> =
            (0..inputs.len()).map(|device| start.wrapping_add(device * outputs.len())).collect();
        let mut done: SmallVec<[Raw; 1]> = SmallVec::from_elem(std::ptr::null_mut(), inputs.len());
        // The executable says on which devices it runs, unless it runs on any one.
        let one = self.signature.replicas == 1;
        let execute_device = if one { client.device(first)?.raw } else { std::ptr::null_mut() };
        // The lists live through the call, which is as long as the plugin needs them.
        let mut args = Args::new(sys::LoadedExecutableExecute {
            executable: self.loaded.raw(),
            options: &raw mut options,
            argument_lists: argument_lists.as_ptr(),
            num_devices: inputs.len(),
            num_args: parameters,
            output_lists: output_lists.as_ptr(),
            device_complete_events: done.as_mut_ptr(),
            execute_device,
        });
        client.api.call(&mut args)?;
        let mut started = Started { results: SmallVec::new(), done: SmallVec::new() };
        done.into_iter().for_each(|raw| started.done.push(Event::new(client, raw)));
        let given_away = inputs.iter().flat_map(|list| list.iter().zip(taken)).filter(|(_, taken)| **taken);
        given_away.for_each(|(buffer, _)| buffer.give_away());
        let mut raws = given.into_iter();
        for device in first..first + inputs.len() {
            let mut results = Vec::with_capacity(outputs.len());
            for (ty, raw) in outputs.iter().zip(raws.by_ref()) {
                results.push(PjrtBuffer::new(client, raw, device, ty.clone()));
            }
            started.results.push(results);
        }
        Ok(started)
    }

    /// Waits for a run, and reads its checks.
    fn finish(&self, started: Started, inputs: impl IntoIterator<Item = Inputs>) -> Result<SmallVec<[Outcome; 1]>> {
        let Started { mut results, done } = started;
        // The first error is reported when no device uses anything any more, or it has timed out.
        let mut error = None;
        for ((results, done), inputs) in results.iter_mut().zip(done).zip(inputs) {
            let Some(done) = done else { continue };
            // All that the plugin reads, writes and executes until then.
            match done.wait("a run", (std::mem::take(results), inputs, self.loaded.clone())) {
                Ok((there, ..)) => *results = there,
                Err(failed) => error = error.or(Some(failed)),
            }
        }
        if let Some(error) = error {
            return Err(error);
        }
        let mut outcomes = SmallVec::new();
        for results in results {
            outcomes.push(self.outcome(results)?);
        }
        Ok(outcomes)
    }

    fn outcome(&self, results: Vec<Option<PjrtBuffer>>) -> Result<Outcome> {
        let Signature { outputs, results: count, .. } = &*self.signature;
        let mut buffers: Vec<Arc<dyn Buffer>> = Vec::with_capacity(*count);
        let mut checks = Vec::new();
        for (result, ty) in results.into_iter().zip(outputs) {
            let buffer = result.ok_or_else(|| no_buffer(ty))?;
            if buffers.len() < *count {
                buffers.push(Arc::new(buffer));
            } else {
                checks.push(buffer);
            }
        }
        // All transfers are on their way before the first is waited for.
        let read = |check: &PjrtBuffer| check.start_read(HostMemory::from(vec![0; 4]));
        let reads = checks.iter().map(read).collect::<Result<Vec<_>>>()?;
        let checks = reads.into_iter().map(number).collect::<Result<Vec<i32>>>()?;
        Ok(Outcome { results: buffers, checks })
    }
}

fn number(read: Reading) -> Result<i32> {
    let memory = read.wait()?;
    let bytes = memory.bytes().first_chunk().copied();
    Ok(i32::from_le_bytes(bytes.unwrap_or_default()))
}

impl Executable for PjrtExecutable {
    /// Runs and waits. What it is given for good is gone once the plugin has begun to run, also if the run fails later: the
    /// plugin may have written over it by then.
    fn run(&self, device: usize, arguments: &mut [Argument]) -> Result<Outcome> {
        let replicas = self.signature.replicas;
        ensure!(replicas == 1, Device, "a program", "requires {replicas} devices, got a run on one");
        let taken: SmallVec<[bool; 16]> = arguments.iter().enumerate().map(|(i, a)| self.takes(i, a)).collect();
        let inputs = [self.inputs(device, arguments)?];
        let started = self.start(device, &inputs, &taken)?;
        take(arguments, &taken);
        let mut outcomes = self.finish(started, inputs)?;
        let outcome = outcomes.pop();
        let outcome =
            outcome.ok_or_else(|| Error::new(ErrorKind::Internal, "pjrt", "requires the outcome of a run"))?;
        if self.restore(arguments, &taken, &outcome) {
            return self.run_plain(device, arguments);
        }
        Ok(outcome)
    }

    fn run_replicas(&self, arguments: &mut [Vec<Argument>]) -> Result<Vec<Outcome>> {
        let (replicas, got) = (self.signature.replicas, arguments.len());
        ensure!(got == replicas, Device, "a program", "requires arguments for {replicas} replicas, got {got}");
        // The plugin is told once for all devices, so an argument goes if it may on all.
        let all = |index: usize| {
            arguments.iter().all(|list| list.get(index).is_some_and(|argument| self.takes(index, argument)))
        };
        let taken: SmallVec<[bool; 16]> = (0..self.signature.parameters.len()).map(all).collect();
        let inputs = arguments.iter().enumerate().map(|(device, list)| self.inputs(device, list));
        let inputs = inputs.collect::<Result<SmallVec<[Inputs; 1]>>>()?;
        let started = self.start(0, &inputs, &taken)?;
        arguments.iter_mut().for_each(|list| take(list, &taken));
        let outcomes = self.finish(started, inputs)?.into_vec();
        arguments.iter_mut().zip(&outcomes).for_each(|(list, outcome)| _ = self.restore(list, &taken, outcome));
        Ok(outcomes)
    }

    fn is_from_cache(&self) -> bool {
        self.from_cache
    }

    fn cost(&self) -> Cost {
        self.signature.cost
    }

    fn kernels(&self) -> Vec<KernelInfo> {
        vec![self.signature.kernel.clone()]
    }
}

/// The places of the arguments that the plugin must leave alone.
fn kept(taken: &[bool]) -> SmallVec<[i64; 16]> {
    taken.iter().enumerate().filter(|(_, taken)| !**taken).map(|(index, _)| index as i64).collect()
}

/// Leaves nothing where the run takes the buffer.
fn take(arguments: &mut [Argument], taken: &[bool]) {
    for (argument, _) in arguments.iter_mut().zip(taken).filter(|(_, taken)| **taken) {
        *argument = Argument::Taken;
    }
}
