//! Trains a convolutional network on the handwritten digits of MNIST, and says how many of the test digits it knows.
//!
//!     cargo xtask data mnist
//!     cargo run --release --example train_cnn
//!
//! It ends with a picture of the loss and a checkpoint; so it does after Ctrl-C.

use clap::{Parser, ValueEnum};
use examples::classifier::Training;
use examples::cnn::{Cnn, Config};
use examples::driver;
use examples::images::{mnist, synthetic};
use std::process::ExitCode;
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
    let training = Training {
        name: "train_cnn",
        options: &options.common,
        epochs: options.epochs,
        steps: options.steps,
        batch: options.batch,
        rate: (options.lr, options.warmup),
        eval_every: options.eval_every,
    };
    training.run(model, data)
}
