//! Trains a byte-level LSTM on Shakespeare's plays and poems.
//!
//!     cargo xtask data shakespeare
//!     cargo run --release --example train_lstm -- --minutes 5
//!
//! It ends with a sample of what the model writes, a picture of the loss and a checkpoint; so it does after Ctrl-C.

#![expect(clippy::print_stdout, reason = "a program that reports to its user")]

use clap::Parser;
use examples::data::{self, Corpus};
use examples::driver::{self, Run, say};
use examples::lstm::{ByteLstm, Config};
use examples::train::{Learner, Schedule};
use std::path::PathBuf;
use std::process::ExitCode;
use tpu_core::Result;
use tpu_ops::Generator;

#[derive(Parser)]
struct Options {
    /// Steps of this run; when resumed, on top of those of the checkpoint [default: 1000, with --minutes no end]
    #[arg(long)]
    steps: Option<u64>,
    /// Layers
    #[arg(long, default_value_t = 1)]
    layers: usize,
    /// Numbers per byte before the first layer
    #[arg(long, default_value_t = 128)]
    width: usize,
    /// Hidden numbers of each layer
    #[arg(long, default_value_t = 512)]
    hidden: usize,
    /// Dropped between layers
    #[arg(long, default_value_t = 0.0)]
    dropout: f64,
    /// Bytes per window of text
    #[arg(long, default_value_t = 128)]
    context: usize,
    /// Windows of text per step
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// The highest learning rate
    #[arg(long, default_value_t = 3e-3)]
    lr: f64,
    /// Steps in which the learning rate rises
    #[arg(long, default_value_t = 50)]
    warmup: u64,
    /// The step at which the learning rate has fallen to a tenth
    #[arg(long, default_value_t = 1000)]
    decay_steps: u64,
    /// Learn this file instead of Shakespeare
    #[arg(long)]
    text: Option<PathBuf>,
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
}

fn main() -> ExitCode {
    let options = Options::parse();
    driver::exit(&options.common, || run(&options))
}

fn run(options: &Options) -> Result<()> {
    let Options { layers, width, hidden, dropout, context, batch, .. } = *options;
    let text = match &options.text {
        Some(path) => data::file(path)?,
        None => data::shakespeare()?,
    };
    let corpus = Corpus::new(text, context)?;
    let config = Config { layers, width, hidden, dropout };
    let model = ByteLstm::new(config, &Generator::new(options.common.seed))?;
    let (mut trainer, seed) = options.common.trainer("train_lstm", model)?;
    let (train, held_out) = corpus.sizes();
    say(&format!("{} parameters, {train} bytes to learn, {held_out} held out", trainer.model.size()));
    let held_out = corpus.held_out(options.eval_batches, batch, context)?;
    let time = options.common.time();
    let run = Run {
        name: "train_lstm",
        options: &options.common,
        steps: options.steps.or(if time.is_some() { None } else { Some(1000) }),
        schedule: Schedule::new(options.lr, options.warmup, options.decay_steps, time),
        eval_every: options.eval_every,
        per_step: ("bytes", (batch * context) as u64),
        unit: "nats per byte",
    };
    let next = |step| corpus.batch(seed, step, batch, context);
    run.train(&mut trainer, seed, next, |trainer| {
        let loss = trainer.evaluate(&held_out)?;
        Ok((loss, format!("{loss:.4} nats per byte")))
    })?;
    let written = trainer.model.sample(b"\n", options.sample, 0.8, seed)?;
    println!("{}", String::from_utf8_lossy(&written));
    Ok(())
}
