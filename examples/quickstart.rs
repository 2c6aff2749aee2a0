//! A line through noisy points by gradient descent: the shortest program that trains.

#![expect(clippy::print_stdout, reason = "an example")]

use tpu_autograd::{Backward, Param, no_grad};
use tpu_core::{DType, Tensor};

fn main() -> tpu_core::Result<()> {
    // Points of y = 3x − 1, and a little noise.
    let x = Tensor::arange(-1.0, 1.0, 0.02, DType::F32)?;
    let noise = x.mul(97.0)?.sin()? * 0.1;
    let y = &x * 3.0 - 1.0 + noise;

    let slope = Param::new(Tensor::scalar(0.0f32)?);
    let offset = Param::new(Tensor::scalar(0.0f32)?);
    for step in 0..=100 {
        let error = &x * slope.value() + offset.value() - &y;
        let loss = error.square()?.mean_all()?;
        loss.backward()?;
        for param in [&slope, &offset] {
            if let Some(grad) = param.take_grad() {
                param.set(no_grad(|| param.value().sub(&(grad * 0.3)))?)?;
            }
        }
        // Forward, backward and update become one program here, compiled once and found in a cache from then on.
        tpu_core::lazy::mark_step();
        if step % 20 == 0 {
            println!("step {step:3}: loss {:.5}", loss.item::<f32>()?);
        }
    }
    println!("y = {:.2} x + {:.2}", slope.value().item::<f32>()?, offset.value().item::<f32>()?);
    Ok(())
}
