//! What the training programs have in common: their options, the loop with its progress, and what is left when they end.

use crate::data;
use crate::picture::loss_curve;
use crate::progress::{Progress, Report};
use crate::train::{Learner, Schedule, Trainer};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tpu_core::{DType, Device, Error, ErrorKind, Mode, Result, Tensor, lazy};

/// Options of every training program.
#[derive(Args, Debug)]
// The options of each program are called the same, and clap would make two groups of one name.
#[group(skip)]
pub struct Options {
    /// Ends after so much time; the learning rate then falls by time instead of steps
    #[arg(long)]
    pub minutes: Option<f64>,
    /// Of the first weights and the batches; when resumed that of the checkpoint
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How much goes into one program: defer-and-fuse, defer-never or defer-never-and-launch-blocking
    #[arg(long, default_value = "defer-and-fuse")]
    pub mode: Mode,
    /// What is computed in; parameters are f32
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    pub dtype: Precision,
    /// Folder of the picture and the checkpoint [default: target/ and the program's name]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Where the checkpoint goes [default: checkpoint.safetensors in the folder above]
    #[arg(long)]
    pub checkpoint: Option<PathBuf>,
    /// Goes on from the checkpoint, or from this one
    #[arg(long, value_name = "FILE")]
    pub resume: Option<Option<PathBuf>>,
}

/// What is computed in.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Precision {
    /// float32
    F32,
    /// bfloat16
    Bf16,
    /// float16
    F16,
}

impl Options {
    /// What is computed in.
    pub fn dtype(&self) -> DType {
        match self.dtype {
            Precision::F32 => DType::F32,
            Precision::Bf16 => DType::BF16,
            Precision::F16 => DType::F16,
        }
    }

    /// The time after which training ends, if it does.
    pub fn time(&self) -> Option<Duration> {
        self.minutes.map(|minutes| Duration::from_secs_f64(minutes.max(0.0) * 60.0))
    }

    /// A trainer of a model with the program's seed, or as a checkpoint has it, and the seed of its batches.
    pub fn trainer<M: Learner>(&self, name: &str, model: M) -> Result<(Trainer<M>, u64)> {
        let mut trainer = Trainer::new(model, self.dtype())?;
        let seed = match &self.resume {
            Some(Some(path)) => trainer.resume(path)?,
            Some(None) => trainer.resume(&self.checkpoint(name)?)?,
            None => self.seed,
        };
        Ok((trainer, seed))
    }

    /// The folder of what is left, which is made.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let out = self.out.clone().unwrap_or_else(|| data::workspace().join("target").join(name));
        std::fs::create_dir_all(&out).map_err(|error| Error::io("create", &out, &error))?;
        Ok(out)
    }

    fn checkpoint(&self, name: &str) -> Result<PathBuf> {
        match &self.checkpoint {
            Some(path) => Ok(path.clone()),
            None => Ok(self.folder(name)?.join("checkpoint.safetensors")),
        }
    }
}

/// A run of a training program.
pub struct Run<'a> {
    /// The program's name.
    pub name: &'static str,
    /// Options of every program.
    pub options: &'a Options,
    /// Steps of this run, unless something else ends it.
    pub steps: Option<u64>,
    /// The learning rate.
    pub schedule: Schedule,
    /// Steps between looks at the held-out data; 0: only at the end.
    pub eval_every: u64,
    /// What a step has many of, and how many.
    pub per_step: (&'static str, u64),
    /// What losses are.
    pub unit: &'static str,
}

/// What to say of a look at the held-out data: the loss, and in words.
pub type Look = (f32, String);

impl Run<'_> {
    /// Trains until the steps or the time are used up, or Ctrl-C; then writes checkpoint and picture. A look at the held-out data
    /// comes now and then and at the end.
    pub fn train<M: Learner>(
        &self,
        trainer: &mut Trainer<M>,
        seed: u64,
        mut batch: impl FnMut(u64) -> Result<M::Batch>,
        mut look: impl FnMut(&Trainer<M>) -> Result<Look>,
    ) -> Result<()> {
        let stopped = stop_on_ctrl_c()?;
        let (out, checkpoint) = (self.options.folder(self.name)?, self.options.checkpoint(self.name)?);
        let before = lazy::statistics();
        let elapsed = self.learn(trainer, seed, &mut batch, &mut look, &stopped)?;
        let statistics = lazy::statistics().since(&before);

        // First of all: whatever comes after cannot lose it. The last look at the held-out data is not in it, so that a run
        // in two parts ends with the same file as one in one part.
        trainer.save(&checkpoint, seed)?;
        let (loss, words) = look(trainer)?;
        trainer.held_out.push((trainer.step, loss));
        let picture = out.join("loss.svg");
        let svg = loss_curve(&trainer.losses, &trainer.held_out, self.unit);
        std::fs::write(&picture, svg).map_err(|error| Error::io("write", &picture, &error))?;
        say(&format!("held out: {words} after {} steps", trainer.step));
        say(&format!("trained for {:.1} s", elapsed.as_secs_f64()));
        say(&format!("checkpoint: {}\nloss curve: {}", checkpoint.display(), picture.display()));
        say(&statistics.to_string());
        Ok(())
    }

    fn learn<M: Learner>(
        &self,
        trainer: &mut Trainer<M>,
        seed: u64,
        batch: &mut impl FnMut(u64) -> Result<M::Batch>,
        look: &mut impl FnMut(&Trainer<M>) -> Result<Look>,
        stopped: &AtomicBool,
    ) -> Result<Duration> {
        let time = self.options.time();
        let last = self.steps.map(|steps| trainer.step.saturating_add(steps));
        let device = Device::current()?;
        let mut progress = Progress::new(trainer.step, last, self.per_step);
        if trainer.step > 0 {
            progress.line(&format!("goes on after step {} with seed {seed}", trainer.step));
        }
        // The loss of the step before, read when the next one is queued: the device always has work.
        let mut queued: Option<Tensor> = None;
        loop {
            let more = last.is_none_or(|last| trainer.step < last)
                && !stopped.load(Ordering::Relaxed)
                && time.is_none_or(|time| progress.elapsed() < time);
            let next = if more {
                let rate = self.schedule.rate(trainer.step, progress.elapsed());
                Some(trainer.step(&batch(trainer.step)?, rate)?)
            } else {
                None
            };
            if let Some(loss) = std::mem::replace(&mut queued, next) {
                let loss = loss.item::<f32>()?;
                trainer.losses.push(loss);
                let step = trainer.losses.len() as u64;
                progress.report(Report { step, loss, peak_memory: device.memory().peak });
            }
            if more && self.eval_every > 0 && trainer.step.is_multiple_of(self.eval_every) {
                let (loss, words) = look(trainer)?;
                trainer.held_out.push((trainer.step, loss));
                progress.line(&format!("step {}: {words} held out", trainer.step));
            }
            if !more {
                let elapsed = progress.elapsed();
                progress.finish();
                return Ok(elapsed);
            }
        }
    }
}

/// A flag that Ctrl-C sets; a second one ends the process at once.
pub fn stop_on_ctrl_c() -> Result<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = stopped.clone();
    let handler = move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Error::new(ErrorKind::Io, "ctrl-c", error.to_string()))?;
    Ok(stopped)
}

/// Says something beside the program's output.
#[expect(clippy::print_stderr, reason = "reports of an interactive program")]
pub fn say(text: &str) {
    eprintln!("{text}");
}

/// How a program ends, whose work runs in the mode of the options.
pub fn exit(options: &Options, work: impl FnOnce() -> Result<()>) -> ExitCode {
    match options.mode.scope(work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}
