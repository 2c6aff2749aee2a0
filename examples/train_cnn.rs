//! Trains a convolutional network on the handwritten digits of MNIST, and says how many of the test digits it knows.
//!
//!     cargo xtask data mnist
//!     cargo run --release --example train_cnn
//!
//! It ends with a picture of the loss and a checkpoint; so it does after Ctrl-C.

use clap::{Parser, ValueEnum};
use examples::cnn::{Cnn, Config};
use examples::driver::{self, Run, say};
use examples::images::{Collate, Endless, accuracy, collate, mnist, synthetic};
use examples::train::Schedule;
use std::process::ExitCode;
use tpu_autograd::data::{Dataset, Loader, LoaderOptions};
use tpu_core::Result;
use tpu_ops::Generator;

#[derive(Parser)]
struct Options {
    /// Passes over the digits
    #[arg(long, default_value_t = 3)]
    epochs: u64,
    /// Steps of this run instead; when resumed, on top of those of the checkpoint
    #[arg(long)]
    steps: Option<u64>,
    /// Digits per step
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Channels after the first convolution
    #[arg(long, default_value_t = 32)]
    channels: usize,
    /// Numbers before the classes
    #[arg(long, default_value_t = 128)]
    hidden: usize,
    /// The highest learning rate
    #[arg(long, default_value_t = 2e-3)]
    lr: f64,
    /// Steps in which the learning rate rises
    #[arg(long, default_value_t = 100)]
    warmup: u64,
    /// Steps between looks at the test digits; 0: only at the end
    #[arg(long, default_value_t = 0)]
    eval_every: u64,
    /// What to learn
    #[arg(long, value_enum, default_value_t = Data::Mnist)]
    data: Data,
    #[command(flatten)]
    common: driver::Options,
}

#[derive(Clone, Copy, ValueEnum)]
enum Data {
    /// Handwritten digits
    Mnist,
    /// Waves of ten kinds, drawn here
    Synthetic,
}

fn main() -> ExitCode {
    let options = Options::parse();
    driver::exit(&options.common, || run(&options))
}

fn run(options: &Options) -> Result<()> {
    let data = match options.data {
        Data::Mnist => mnist()?,
        Data::Synthetic => synthetic(28, 1000, 1)?,
    };
    let config = Config { side: data.train.side, channels: options.channels, hidden: options.hidden };
    let model = Cnn::new(config, &Generator::new(options.common.seed))?;
    let (mut trainer, seed) = options.common.trainer("train_cnn", model)?;
    say(&format!(
        "{} parameters, {} images to learn, {} to test with",
        trainer.model.size(),
        data.train.len(),
        data.test.len()
    ));
    let test = data.test.batches(500)?;
    let batch = options.batch;
    let loader = LoaderOptions { batch, shuffle: Some(seed), drop_last: true, ..LoaderOptions::default() };
    let loader = Loader::new(data.train, collate as Collate, loader)?;
    let total = options.epochs * loader.batches() as u64;
    let time = options.common.time();
    let run = Run {
        name: "train_cnn",
        options: &options.common,
        steps: options.steps.or(if time.is_some() { None } else { Some(total.saturating_sub(trainer.step)) }),
        schedule: Schedule::new(options.lr, options.warmup, total, time),
        eval_every: options.eval_every,
        per_step: ("images", batch as u64),
        unit: "nats",
    };
    let mut batches = Endless::new(&loader, trainer.step)?;
    run.train(
        &mut trainer,
        seed,
        |_| batches.next_batch(),
        |trainer| {
            let (loss, right) = (trainer.evaluate(&test)?, accuracy(&trainer.model, &test)?);
            Ok((loss, format!("{:.2} % right, {loss:.4} nats", right * 100.0)))
        },
    )
}
