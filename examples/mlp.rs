//! Two spirals told apart by a small network: modules, an optimizer, a learning rate that falls.

#![expect(clippy::print_stdout, reason = "an example")]

use clap::Parser;
use std::f32::consts::PI;
use tpu_autograd::nn::{Function, Linear, Module, Sequential};
use tpu_autograd::optim::{AdamW, AdamWOptions, CosineWithWarmup, Optimizer};
use tpu_autograd::{Backward, no_grad};
use tpu_core::{DType, Result, Tensor};
use tpu_ops::{Generator, cross_entropy, relu};

#[derive(Parser)]
struct Options {
    /// Steps of training
    #[arg(long, default_value_t = 400)]
    steps: u64,
    /// Of the first weights
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Points per spiral.
const POINTS: usize = 200;

/// Points `[2 · POINTS, 2]` on two spirals, and which of them each is on.
fn spirals() -> Result<(Tensor, Tensor)> {
    let mut points = Vec::new();
    let mut labels = Vec::new();
    for at in 0..POINTS {
        let radius = (at as f32 + 1.0) / POINTS as f32;
        for label in 0..2i64 {
            let angle = radius * 3.0 * PI + label as f32 * PI;
            points.extend([radius * angle.cos(), radius * angle.sin()]);
            labels.push(label);
        }
    }
    Ok((Tensor::from_vec(points, [2 * POINTS, 2])?, Tensor::from_slice(&labels)?))
}

fn main() -> Result<()> {
    let options = Options::parse();
    let (points, labels) = spirals()?;
    let generator = Generator::new(options.seed);
    let model = Sequential::new()
        .push(Linear::new(2, 64, true, DType::F32, &generator)?)
        .push(Function(relu))
        .push(Linear::new(64, 64, true, DType::F32, &generator)?)
        .push(Function(relu))
        .push(Linear::new(64, 2, true, DType::F32, &generator)?);
    let mut optimizer = AdamW::new(model.named_parameters(), AdamWOptions::default())?;
    let rate = CosineWithWarmup { peak: 1e-2, floor: 1e-4, warmup: 10, total: options.steps };

    for step in 0..options.steps {
        optimizer.set_lr(rate.at(step))?;
        optimizer.zero_grad();
        let loss = cross_entropy(&model.forward(&points)?, &labels, Default::default())?;
        loss.backward()?;
        optimizer.step()?;
        if step % 50 == 0 || step + 1 == options.steps {
            println!("step {step:3}: loss {:.4}", loss.item::<f32>()?);
        }
    }
    let right = no_grad(|| model.forward(&points)?.argmax(-1, false)?.eq(&labels)?.to_dtype(DType::F32)?.mean_all())?;
    println!("{:.1} % of the points are told apart", right.item::<f32>()? * 100.0);
    Ok(())
}
