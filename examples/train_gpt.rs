//! Trains a small GPT on bytes of text, by default on the sources of this workspace.
//!
//!     cargo run --release --example train_gpt
//!     cargo run --release --example train_gpt -- --data shakespeare --minutes 5
//!     cargo run --release --example train_gpt -- --plan v5e:2x2,v6e:1x1,tpu7x:1x1x1
//!
//! It ends with a sample of what the model writes, a picture of the loss and a checkpoint; so it does after Ctrl-C.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports to its user")]

use clap::{Parser, ValueEnum};
use examples::data::{self, Corpus};
use examples::gpt::{Config, Gpt};
use examples::picture::loss_curve;
use examples::planning::{self, Waiting};
use examples::progress::{Progress, Report};
use examples::sample::sample;
use examples::train::{Schedule, Trainer};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tpu_autograd::file::Checkpoint;
use tpu_core::plan::{Compiler, table};
use tpu_core::{DType, Device, Error, ErrorKind, Mode, Result, Tensor, lazy};
use tpu_ops::Generator;

#[derive(Parser)]
struct Options {
    /// Steps of this run; when resumed, on top of those of the checkpoint [default: 1000, with --minutes no end]
    #[arg(long)]
    steps: Option<u64>,
    /// Ends after so much time; the learning rate then falls by time instead of steps
    #[arg(long)]
    minutes: Option<f64>,
    /// Blocks
    #[arg(long, default_value_t = 4)]
    layers: usize,
    /// Numbers per byte between blocks
    #[arg(long, default_value_t = 256)]
    width: usize,
    /// Attention heads [default: one per 64 of width]
    #[arg(long)]
    heads: Option<usize>,
    /// Bytes that a prediction sees
    #[arg(long, default_value_t = 256)]
    context: usize,
    /// Windows of text per step
    #[arg(long, default_value_t = 8)]
    batch: usize,
    /// The highest learning rate
    #[arg(long, default_value_t = 1.5e-3)]
    lr: f64,
    /// Steps in which the learning rate rises
    #[arg(long, default_value_t = 50)]
    warmup: u64,
    /// The step at which the learning rate has fallen to a tenth
    #[arg(long, default_value_t = 1000)]
    decay_steps: u64,
    /// Of the first weights and the batches; when resumed that of the checkpoint
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Learn this file
    #[arg(long, conflicts_with = "data")]
    text: Option<PathBuf>,
    /// Learn this text
    #[arg(long, value_enum, default_value_t = Data::Sources)]
    data: Data,
    /// How much goes into one program: defer-and-fuse, defer-never or defer-never-and-launch-blocking
    #[arg(long, default_value = "defer-and-fuse")]
    mode: Mode,
    /// What is computed in; parameters are f32
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    dtype: Precision,
    /// Steps between looks at the held-out text; 0: only at the end
    #[arg(long, default_value_t = 250)]
    eval_every: u64,
    /// Batches of such a look, evenly spaced over the text; 0: all of it
    #[arg(long, default_value_t = 16)]
    eval_batches: usize,
    /// Bytes to write at the end
    #[arg(long, default_value_t = 300)]
    sample: usize,
    /// Folder of the picture and the checkpoint [default: target/train_gpt]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Where the checkpoint goes [default: checkpoint.safetensors in the folder above]
    #[arg(long)]
    checkpoint: Option<PathBuf>,
    /// Goes on from the checkpoint, or from this one
    #[arg(long, value_name = "FILE")]
    resume: Option<Option<PathBuf>>,
    /// First weights, as benches/peers/export_gpt.py writes them
    #[arg(long, value_name = "FILE")]
    weights_from: Option<PathBuf>,
    /// Batches to train on in turn, as benches/peers/export_gpt.py writes them
    #[arg(long, value_name = "FILE")]
    batches: Option<PathBuf>,
    /// Trains nothing; says what a step would take on these TPUs, such as v5e:2x2,v6e:1x1,tpu7x:1x1x1. Needs `cargo xtask
    /// plugins` and no TPU; takes a minute or two per target
    #[arg(long, value_name = "TARGETS", value_delimiter = ',')]
    plan: Vec<String>,
    /// With --plan: also looks for the largest batch that fits, which takes several programs; Ctrl-C ends the search with
    /// what it knows
    #[arg(long, requires = "plan")]
    largest_batch: bool,
    /// With --plan: JSON instead of text
    #[arg(long, requires = "plan")]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Data {
    /// All Rust and Markdown sources of the workspace
    Sources,
    /// Shakespeare's plays and poems
    Shakespeare,
}

#[derive(Clone, Copy, ValueEnum)]
enum Precision {
    F32,
    Bf16,
    F16,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let work = || if options.plan.is_empty() { run(&options) } else { plan(&options) };
    match options.mode.scope(work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let corpus = Corpus::new(text(options)?, options.context)?;
    let out = options.out.clone().unwrap_or_else(|| data::workspace().join("target/train_gpt"));
    std::fs::create_dir_all(&out).map_err(|error| Error::io("create", &out, &error))?;
    let checkpoint = options.checkpoint.clone().unwrap_or_else(|| out.join("checkpoint.safetensors"));

    let (mut trainer, seed) = trainer(options, &checkpoint)?;
    let (train, held_out) = corpus.sizes();
    eprintln!("{} parameters, {train} bytes to learn, {held_out} held out", trainer.model.size());
    let stopped = stop_on_ctrl_c()?;
    let before = lazy::statistics();
    let held_out = corpus.held_out(options.eval_batches, options.batch, options.context)?;
    learn(options, &corpus, &held_out, seed, &mut trainer, &stopped)?;
    let statistics = lazy::statistics().since(&before);

    // First of all: whatever comes after cannot lose it. The last look at the held-out text is not in it, so that a run
    // in two parts ends with the same file as one in one part.
    trainer.save(&checkpoint, seed)?;
    let loss = trainer.evaluate(&held_out)?;
    trainer.held_out.push((trainer.step, loss));
    let picture = out.join("loss.svg");
    let svg = loss_curve(&trainer.losses, &trainer.held_out);
    std::fs::write(&picture, svg).map_err(|error| Error::io("write", &picture, &error))?;
    let written = sample(&trainer.model, b"\n", options.sample, 0.8, seed)?;
    println!("{}", String::from_utf8_lossy(&written));
    eprintln!("held out: {loss:.4} nats per byte after {} steps", trainer.step);
    eprintln!("checkpoint: {}\nloss curve: {}", checkpoint.display(), picture.display());
    eprintln!("{statistics}");
    Ok(())
}

/// What a step would take on each target.
fn plan(options: &Options) -> Result<()> {
    let compiler = Compiler::find()?;
    // All names first: a typo in the last must not cost the minutes that the others take.
    let targets = options.plan.iter().map(|name| compiler.target(name)).collect::<Result<Vec<_>>>()?;
    let (config, dtype) = (config(options), dtype(options));
    let program = planning::step(config, options.batch, dtype)?;
    let (mut plans, mut json) = (Vec::new(), Vec::new());
    // While a batch is looked for, Ctrl-C gives what is known of it, once the program at hand is compiled.
    let stopped = if options.largest_batch { stop_on_ctrl_c()? } else { Arc::default() };
    for target in targets.iter().take_while(|_| !stopped.load(Ordering::Relaxed)) {
        let waiting = Waiting::new();
        let plan = target.plan(&program, &mut |at| waiting.show(at))?;
        drop(waiting);
        if !options.json {
            println!("{plan}");
        }
        let known = (options.batch, &plan);
        let search = || planning::largest_batch(config, dtype, target, known, &stopped);
        let batch = options.largest_batch.then(search).transpose()?;
        if !options.json {
            batch.iter().for_each(|batch| println!("  {batch}\n"));
        }
        let mut object = plan.to_json();
        object["largest_batch"] = batch.map_or(Value::Null, |batch| batch.to_json());
        json.push(object);
        plans.push(plan);
    }
    if options.json {
        println!("{:#}", Value::Array(json));
    } else {
        println!("{}", table(&plans));
    }
    match plans.iter().find_map(|plan| plan.outcome.as_ref().err()) {
        Some(refusal) => Err(refusal.error.clone()),
        None => Ok(()),
    }
}

fn text(options: &Options) -> Result<Vec<u8>> {
    match (&options.text, options.data) {
        (Some(path), _) => data::file(path),
        (None, Data::Sources) => data::sources(),
        (None, Data::Shakespeare) => data::shakespeare(),
    }
}

fn config(options: &Options) -> Config {
    let Options { layers, width, context, .. } = *options;
    Config { layers, width, heads: options.heads.unwrap_or((width / 64).max(1)), context }
}

fn dtype(options: &Options) -> DType {
    match options.dtype {
        Precision::F32 => DType::F32,
        Precision::Bf16 => DType::BF16,
        Precision::F16 => DType::F16,
    }
}

/// The model with its first weights or those of a checkpoint, and the seed of the batches.
fn trainer(options: &Options, checkpoint: &Path) -> Result<(Trainer, u64)> {
    let model = Gpt::new(config(options), &Generator::new(options.seed))?;
    if let Some(path) = &options.weights_from {
        Checkpoint::load(path)?.restore(&model, None)?;
    }
    let mut trainer = Trainer::new(model, dtype(options))?;
    let seed = match &options.resume {
        Some(path) => trainer.resume(path.as_deref().unwrap_or(checkpoint))?,
        None => options.seed,
    };
    Ok((trainer, seed))
}

/// A flag that Ctrl-C sets; a second one ends the process at once.
fn stop_on_ctrl_c() -> Result<Arc<AtomicBool>> {
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

/// Trains until the steps or the time are used up, or `stopped` is set.
fn learn(
    options: &Options,
    corpus: &Corpus,
    held_out: &[Tensor],
    seed: u64,
    trainer: &mut Trainer,
    stopped: &AtomicBool,
) -> Result<()> {
    let Options { batch, context, .. } = *options;
    let given = options.batches.as_deref().map(batches).transpose()?;
    let time = options.minutes.map(|minutes| Duration::from_secs_f64(minutes.max(0.0) * 60.0));
    let schedule = Schedule::new(options.lr, options.warmup, options.decay_steps, time);
    let steps = options.steps.or(if time.is_some() { None } else { Some(1000) });
    let last = steps.map(|steps| trainer.step.saturating_add(steps));
    let device = Device::current()?;
    let mut progress = Progress::new(trainer.step, last, (batch * context) as u64);
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
            let bytes = match &given {
                Some(given) => given[trainer.step as usize % given.len()].clone(),
                None => corpus.batch(seed, trainer.step, batch, context)?,
            };
            let rate = schedule.rate(trainer.step, progress.elapsed());
            Some(trainer.step(&bytes, rate)?)
        } else {
            None
        };
        if let Some(loss) = std::mem::replace(&mut queued, next) {
            let loss = loss.item::<f32>()?;
            trainer.losses.push(loss);
            let step = trainer.losses.len() as u64;
            progress.report(Report { step, loss, peak_memory: device.memory().peak });
        }
        if more && options.eval_every > 0 && trainer.step.is_multiple_of(options.eval_every) {
            let loss = trainer.evaluate(held_out)?;
            trainer.held_out.push((trainer.step, loss));
            progress.line(&format!("step {}: {loss:.4} nats per byte held out", trainer.step));
        }
        if !more {
            progress.finish();
            return Ok(());
        }
    }
}

/// The batches in a file: `tokens`, u8 `[steps, batch, context + 1]`.
fn batches(path: &Path) -> Result<Vec<Tensor>> {
    let file = Checkpoint::load(path)?;
    let bad = || {
        let message = format!("requires uint8 tokens [steps, batch, context + 1] in {}", path.display());
        Error::new(ErrorKind::Format, "batches", message)
    };
    let tokens = file.tensors.get("tokens").filter(|t| t.dtype() == DType::U8 && t.rank() == 3).ok_or_else(bad)?;
    let all = tokens.to_vec::<u8>()?;
    let shape = [tokens.sizes()[1], tokens.sizes()[2]];
    let each = shape[0] * shape[1];
    if each == 0 || all.is_empty() {
        return Err(bad());
    }
    all.chunks(each).map(|bytes| Tensor::from_vec(bytes.to_vec(), shape)).collect()
}
