//! Trains ResNet-18 on images of 32 by 32 pixels: waves of ten kinds that it draws itself, or the digits of MNIST with an edge.
//!
//!     cargo run --release --example resnet
//!     cargo run --release --example resnet -- --data mnist --minutes 10
//!
//! It ends with a picture of the loss and a checkpoint; so it does after Ctrl-C.

use clap::{Parser, ValueEnum};
use examples::classifier::Training;
use examples::driver;
use examples::images::{Split, mnist, synthetic};
use examples::resnet::{Config, ResNet};
use std::process::ExitCode;
use tpu_core::Result;
use tpu_ops::Generator;

#[derive(Parser)]
struct Options {
    /// Passes over the images
    #[arg(long, default_value_t = 2)]
    epochs: u64,
    /// Steps of this run instead; when resumed, on top of those of the checkpoint
    #[arg(long)]
    steps: Option<u64>,
    /// Images per step
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Channels of the first stage
    #[arg(long, default_value_t = 64)]
    width: usize,
    /// Blocks of each stage: two in ResNet-18
    #[arg(long, default_value_t = 2)]
    blocks: usize,
    /// The highest learning rate
    #[arg(long, default_value_t = 1e-3)]
    lr: f64,
    /// Steps in which the learning rate rises
    #[arg(long, default_value_t = 100)]
    warmup: u64,
    /// Steps between looks at the test images; 0: only at the end
    #[arg(long, default_value_t = 0)]
    eval_every: u64,
    /// What to learn
    #[arg(long, value_enum, default_value_t = Data::Synthetic)]
    data: Data,
    /// Waves to draw
    #[arg(long, default_value_t = 4000)]
    images: usize,
    #[command(flatten)]
    common: driver::Options,
}

#[derive(Clone, Copy, ValueEnum)]
enum Data {
    /// Waves of ten kinds, drawn here
    Synthetic,
    /// Handwritten digits
    Mnist,
}

fn main() -> ExitCode {
    let options = Options::parse();
    driver::exit(&options.common, || run(&options))
}

fn run(options: &Options) -> Result<()> {
    let data = match options.data {
        Data::Synthetic => synthetic(32, options.images, 1)?,
        Data::Mnist => {
            let Split { train, test } = mnist()?;
            Split { train: train.padded(2), test: test.padded(2) }
        }
    };
    let config = Config { inputs: 1, width: options.width, blocks: options.blocks };
    let model = ResNet::new(config, &Generator::new(options.common.seed))?;
    let training = Training {
        name: "resnet",
        options: &options.common,
        epochs: options.epochs,
        steps: options.steps,
        batch: options.batch,
        rate: (options.lr, options.warmup),
        eval_every: options.eval_every,
    };
    training.run(model, data)
}
