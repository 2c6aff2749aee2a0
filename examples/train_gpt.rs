//! Trains a small GPT on bytes of text, by default on the sources of this workspace.
//!
//!     cargo run --release --example train_gpt
//!     cargo run --release --example train_gpt -- --data shakespeare --minutes 5
//!     cargo run --release --example train_gpt -- --plan v5e:2x2,v6e:1x1,tpu7x:1x1x1
//!
//! It ends with a sample of what the model writes, a picture of the loss and a checkpoint; so it does after Ctrl-C.

#![expect(clippy::print_stdout, reason = "a program that reports to its user")]

use clap::{Parser, ValueEnum};
use examples::data::{self, Corpus};
use examples::driver::{self, Run, say, stop_on_ctrl_c};
use examples::gpt::{Config, Gpt};
use examples::planning::{self, Waiting};
use examples::sample::sample;
use examples::train::{Learner, Schedule};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tpu_autograd::file::Checkpoint;
use tpu_core::plan::{Compiler, table};
use tpu_core::{DType, Error, ErrorKind, Result, Tensor};
use tpu_ops::Generator;

#[derive(Parser)]
struct Options {
    /// Steps of this run; when resumed, on top of those of the checkpoint [default: 1000, with --minutes no end]
    #[arg(long)]
    steps: Option<u64>,
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
    /// Learn this file
    #[arg(long, conflicts_with = "data")]
    text: Option<PathBuf>,
    /// Learn this text
    #[arg(long, value_enum, default_value_t = Data::Sources)]
    data: Data,
    /// Steps between looks at the held-out text; 0: only at the end
    #[arg(long, default_value_t = 250)]
    eval_every: u64,
    /// Batches of such a look, evenly spaced over the text; 0: all of it
    #[arg(long, default_value_t = 16)]
    eval_batches: usize,
    /// Bytes to write at the end
    #[arg(long, default_value_t = 300)]
    sample: usize,
    #[command(flatten)]
    common: driver::Options,
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

fn main() -> ExitCode {
    let options = Options::parse();
    driver::exit(&options.common, || if options.plan.is_empty() { run(&options) } else { plan(&options) })
}

fn run(options: &Options) -> Result<()> {
    let Options { batch, context, .. } = *options;
    let corpus = Corpus::new(text(options)?, context)?;
    let model = Gpt::new(config(options), &Generator::new(options.common.seed))?;
    if let Some(path) = &options.weights_from {
        Checkpoint::load(path)?.restore(&model, None)?;
    }
    let (mut trainer, seed) = options.common.trainer("train_gpt", model)?;
    let (train, held_out) = corpus.sizes();
    say(&format!("{} parameters, {train} bytes to learn, {held_out} held out", trainer.model.size()));
    let held_out = corpus.held_out(options.eval_batches, batch, context)?;
    let given = options.batches.as_deref().map(batches).transpose()?;
    let time = options.common.time();
    let run = Run {
        name: "train_gpt",
        options: &options.common,
        steps: options.steps.or(if time.is_some() { None } else { Some(1000) }),
        schedule: Schedule::new(options.lr, options.warmup, options.decay_steps, time),
        eval_every: options.eval_every,
        per_step: ("tokens", (batch * context) as u64),
        unit: "nats per byte",
    };
    let next = |step: u64| match &given {
        Some(given) => Ok(given[step as usize % given.len()].clone()),
        None => corpus.batch(seed, step, batch, context),
    };
    run.train(&mut trainer, seed, next, |trainer| {
        let loss = trainer.evaluate(&held_out)?;
        Ok((loss, format!("{loss:.4} nats per byte")))
    })?;
    let written = sample(&trainer.model, b"\n", options.sample, 0.8, seed)?;
    println!("{}", String::from_utf8_lossy(&written));
    Ok(())
}

/// What a step would take on each target.
fn plan(options: &Options) -> Result<()> {
    let compiler = Compiler::find()?;
    // All names first: a typo in the last must not cost the minutes that the others take.
    let targets = options.plan.iter().map(|name| compiler.target(name)).collect::<Result<Vec<_>>>()?;
    let (config, dtype) = (config(options), options.common.dtype());
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
