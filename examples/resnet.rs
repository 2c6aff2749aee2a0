//! Trains ResNet-18 on images of 32 by 32 pixels: waves of ten kinds that it draws itself, or the digits of MNIST with an edge.
//!
//!     cargo run --release --example resnet
//!     cargo run --release --example resnet -- --data mnist --minutes 10
//!
//! It ends with a picture of the loss and a checkpoint; so it does after Ctrl-C.

use clap::{Parser, ValueEnum};
use examples::driver::{self, Run, say};
use examples::images::{Collate, Endless, Split, accuracy, collate, mnist, synthetic};
use examples::resnet::{Config, ResNet};
use examples::train::Schedule;
use std::process::ExitCode;
use tpu_autograd::data::{Dataset, Loader, LoaderOptions};
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
    let (mut trainer, seed) = options.common.trainer("resnet", model)?;
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
        name: "resnet",
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
