//! Our side of `benches/peers/bench_gpt.py`: a step of training the GPT of `examples/`, its loss read.

use benches::protocol::{Arguments, serve};
use benches::resident::Peak;
use clap::Parser;
use examples::gpt::{Config, Gpt, VOCABULARY};
use examples::train::Trainer;
use tpu_core::{DType, Result, Tensor};
use tpu_ops::Generator;

#[derive(Parser)]
struct Options {
    #[arg(long, default_value_t = 4)]
    layers: usize,
    #[arg(long, default_value_t = 256)]
    width: usize,
    /// Default: width / 64, at least 1.
    #[arg(long)]
    heads: Option<usize>,
    #[arg(long, default_value_t = 256)]
    context: usize,
    #[arg(long, default_value_t = 8)]
    batch: usize,
    #[command(flatten)]
    arguments: Arguments,
}

/// A function that makes one step, over eight batches of random bytes in turn.
fn training(config: Config, batch: usize) -> Result<impl FnMut() -> Result<()>> {
    let generator = Generator::new(1);
    let mut trainer = Trainer::new(Gpt::new(config, &generator)?, DType::F32)?;
    let shape = [batch, config.context + 1];
    let random = || tpu_ops::randint(0, VOCABULARY as i64, shape, DType::I64, Some(&generator))?.to_dtype(DType::U8);
    let batches = (0..8).map(|_| random()).collect::<Result<Vec<Tensor>>>()?;
    batches.iter().try_for_each(Tensor::wait)?;
    Ok(move || {
        let bytes = &batches[trainer.step as usize % batches.len()];
        trainer.step(bytes, 1e-3)?.item::<f32>().map(|_| ())
    })
}

fn main() -> Result<()> {
    let Options { layers, width, heads, context, batch, arguments } = Options::parse();
    let heads = heads.unwrap_or((width / 64).max(1));
    arguments.mode.scope(|| {
        training(Config { layers: 1, width: 64, heads: 1, context: 16 }, 2)?()?;
        let peak = Peak::start();
        serve(&arguments, &peak, training(Config { layers, width, heads, context }, batch)?)
    })
}
