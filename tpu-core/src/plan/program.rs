//! What is planned: a program as StableHLO text.

use super::recorder::{self, Recorder};
use crate::ir::verify::verify;
use crate::ir::{Type, text};
use crate::lazy::Reason;
use crate::lazy::cell::Cell;
use crate::lazy::slot::Slot;
use crate::lazy::stream::Stream;
use crate::runtime::CompileOptions;
use crate::runtime::largest_replica;
use crate::runtime::pjrt::parallel::Parallel;
use crate::runtime::pjrt::{donation, guard};
use crate::{Device, Error, ErrorKind, Result, Tensor, ensure};
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

/// A program to plan.
#[derive(Clone, Debug)]
pub struct Program {
    text: String,
    /// Where the text came from.
    file: Option<String>,
    options: CompileOptions,
    /// `None`: what the text says of itself.
    replicas: Option<usize>,
}

/// Steps that [`Program::record`] makes at most until they repeat.
const STEPS: usize = 8;

thread_local! {
    /// One device per thread for all recordings: devices and their streams stay as long as their threads.
    static RECORDING: (Recorder, Device) = {
        let recorder = Recorder::default();
        let device = Device::open(Arc::new(recorder.clone())).remove(0);
        (recorder, device)
    };
}

impl Program {
    /// A module of StableHLO text, whose program is the function `main`. Whether it is right, each target's compiler says.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self { text: text.into(), file: None, options: CompileOptions::default(), replicas: None }
    }

    /// A module of StableHLO text in a file. Errors with [`ErrorKind::Io`] if it cannot be read, [`ErrorKind::Format`] if
    /// it is MLIR bytecode or HLO: nothing here could look into these before a compiler does, which might end the process.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| Error::io("plan", path, &error))?;
        let other = |what: &str| {
            let message = format!(
                "requires StableHLO as text in {}, got {what}; of JAX, jax.jit(f).lower(...).as_text() and \
                 exported.mlir_module() are text",
                path.display()
            );
            Error::new(ErrorKind::Format, "plan", message)
        };
        if bytes.starts_with(b"ML\xefR") {
            return Err(other("MLIR bytecode"));
        }
        let text = String::from_utf8(bytes).map_err(|_| other("bytes that are no text"))?;
        if text.trim_start().starts_with("HloModule") {
            return Err(other("HLO"));
        }
        Ok(Self { file: Some(path.display().to_string()), ..Self::from_text(text) })
    }

    /// The program that `f` records from arguments of the given types. Nothing is computed, and the arguments have no
    /// elements, so their sizes may be those of a machine that is not there.
    ///
    /// Errors with what `f` returns, and if `f` reads a value or uses a tensor of another device.
    ///
    /// ```
    /// use tpu_core::DType;
    /// use tpu_core::ir::Type;
    /// use tpu_core::plan::Program;
    /// let x = Type::new(DType::BF16, [65536, 65536]);
    /// let product = Program::trace(&[x.clone(), x], |x| Ok(vec![x[0].matmul(&x[1])?]))?;
    /// assert!(product.text().contains("stablehlo.dot_general"));
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    pub fn trace(types: &[Type], f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Self> {
        let (recorder, device) = RECORDING.with(Clone::clone);
        let mut programs = recording(&recorder, &device, |stream| {
            let given = |ty| Tensor::from_cell(Cell::given(stream.clone(), Slot::ready(recorder::phantom(ty))));
            let arguments: Vec<Tensor> = types.iter().map(given).collect();
            let results = f(&arguments)?;
            stream.cut_together(Reason::MarkStep);
            // What is computed of numbers only is pending until it is asked for.
            results.iter().try_for_each(Tensor::realize)?;
            device.queue().drain()?;
            recorder.take().iter().map(|cut| Self::of(cut, false)).collect::<Result<Vec<_>>>()
        })?;
        let found = programs.len();
        match programs.pop() {
            Some(program) if found == 1 => Ok(program),
            _ => {
                let message =
                    format!("requires a function that computes from its arguments in one program, got {found}");
                Err(Error::new(ErrorKind::Value, "plan", message))
            }
        }
    }

    /// The programs of one step of a loop, in the order in which they run, once steps have become alike: the first may
    /// still make the optimizer's state. Inside, the [current device](Device::current) is one on which nothing is
    /// computed; `make` makes what lives longer than a step, a model for example, and `step` makes a step with it.
    ///
    /// ```
    /// use tpu_core::plan::Program;
    /// use tpu_core::{DType, Tensor};
    /// let programs = Program::record(
    ///     || Tensor::zeros([1 << 20, 1 << 10], DType::F32),
    ///     |weights| {
    ///         *weights = (&*weights * 0.9).tanh()?;
    ///         Ok(())
    ///     },
    /// )?;
    /// assert_eq!(programs.len(), 1);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    ///
    /// Errors with what `make` and `step` return, and if they read a value.
    pub fn record<T>(
        make: impl FnOnce() -> Result<T>,
        mut step: impl FnMut(&mut T) -> Result<()>,
    ) -> Result<Vec<Self>> {
        let (recorder, device) = RECORDING.with(Clone::clone);
        recording(&recorder, &device, |stream| {
            let run = || {
                stream.cut_all(Reason::MarkStep);
                device.queue().drain().map(|()| recorder.take())
            };
            device.scope(|| {
                let mut state = make()?;
                run()?;
                let mut last = Vec::new();
                for _ in 0..STEPS {
                    step(&mut state)?;
                    let cuts = run()?;
                    let same = |(a, b): (&Arc<recorder::Cut>, &Arc<recorder::Cut>)| Arc::ptr_eq(a, b);
                    if cuts.len() == last.len() && cuts.iter().zip(&last).all(same) {
                        break;
                    }
                    last = cuts;
                }
                ensure!(!last.is_empty(), Value, "plan", "requires a step that computes something, got no program");
                last.iter().map(|cut| Self::of(cut, true)).collect()
            })
        })
    }

    /// As the PJRT backend would print it, and each operation's place. `donate`: arguments are given away where a result
    /// can take their memory.
    fn of(cut: &recorder::Cut, donate: bool) -> Result<Self> {
        let (graph, donors) = if donate {
            let donation = donation::donate(&cut.graph, 1)?;
            (donation.graph, donation.donors)
        } else {
            (Cow::Borrowed(&cut.graph), Vec::new())
        };
        let text = text::print_with_locations(verify(&graph)?, &donors, &cut.locations);
        // Groups name every replica.
        let replicas = cut.graph.nodes.iter().filter_map(|node| largest_replica(&node.op)).max();
        Ok(Self { text, file: None, options: cut.options, replicas: replicas.map(|number| number as usize + 1) })
    }

    /// The text that compilers get.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The program as one that so many devices run, each with values of its own, as `num_replicas` says in XLA. A program that
    /// was recorded runs on as many as its collectives name, one that was read on as many as its module's attributes
    /// `mhlo.num_replicas` and `mhlo.num_partitions` say.
    ///
    /// ```
    /// use tpu_core::plan::Program;
    /// let text = "module { func.func @main() -> tensor<ui32> {
    ///     %0 = stablehlo.replica_id : tensor<ui32>
    ///     return %0 : tensor<ui32> } }";
    /// let program = Program::from_text(text).with_replicas(4);
    /// assert_eq!(program.devices()?, 4);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    pub fn with_replicas(self, replicas: usize) -> Self {
        Self { replicas: Some(replicas), ..self }
    }

    /// How many devices run the program together.
    ///
    /// Errors with [`ErrorKind::Unsupported`] for no devices, for replicas of partitions, and if the text says what is no
    /// number of devices.
    pub fn devices(&self) -> Result<usize> {
        self.parallel().map(|parallel| parallel.devices())
    }

    pub(super) fn parallel(&self) -> Result<Parallel> {
        let said = Parallel::of_module(&guard::without_strings(&self.text))?;
        match self.replicas {
            Some(replicas) => Parallel::new(replicas, said.partitions, said.shardy),
            None => Ok(said),
        }
    }

    pub(super) fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    pub(super) fn options(&self) -> CompileOptions {
        self.options
    }
}

/// Runs `f` with this thread's recording stream, and leaves nothing of it behind.
fn recording<T>(recorder: &Recorder, device: &Device, f: impl FnOnce(&Arc<Stream>) -> Result<T>) -> Result<T> {
    let stream = Stream::current(device);
    let outcome = device.scope(|| f(&stream));
    // After an error there may be programs that nobody asked for.
    recorder.take();
    device.clear_program_cache();
    outcome
}
