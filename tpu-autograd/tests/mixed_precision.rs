//! Mixed precision: loss scaling decided on the device, parameters in float32.

use tpu_autograd::amp::{LossScaler, LossScalerOptions, autocast};
use tpu_autograd::nn::{Embedding, LayerNorm, Linear, Module};
use tpu_autograd::optim::{AdamW, AdamWOptions, Optimizer};
use tpu_autograd::{Backward, Param};
use tpu_core::{DType, Result, Tensor};
use tpu_ops::Generator;

#[test]
fn the_scale_backs_off_and_grows_as_pytorchs_and_bad_steps_change_nothing() -> Result<()> {
    let w = Param::new(Tensor::from_slice(&[1.0f32, -2.0])?);
    let mut optimizer = AdamW::new(vec![("w".into(), w.clone())], AdamWOptions::default())?;
    let options = LossScalerOptions { scale: 8.0, growth: 2.0, backoff: 0.25, interval: 2 };
    let scaler = LossScaler::new(options)?;
    // By torch.amp.GradScaler's rule: good, good (grows), bad (backs off), good, bad, good, good (grows).
    let rows = [(1.0, 8.0), (1.0, 16.0), (f32::INFINITY, 4.0), (1.0, 4.0), (f32::NAN, 1.0), (1.0, 1.0), (1.0, 2.0)];
    for (step, (factor, expected)) in rows.into_iter().enumerate() {
        let before = w.value().to_vec::<f32>()?;
        optimizer.zero_grad();
        let loss = w.value().square()?.sum_all()?.mul(&Tensor::scalar(factor)?)?;
        scaler.scale(&loss)?.backward()?;
        scaler.step(&mut optimizer)?;
        assert_eq!(scaler.current().item::<f32>()?, expected, "step {step}");
        assert_eq!(w.value().to_vec::<f32>()? == before, !factor.is_finite(), "step {step}");
    }
    Ok(())
}

#[test]
fn scaled_steps_are_those_without_a_scaler() -> Result<()> {
    let (a, b) = (Param::new(Tensor::from_slice(&[1.0f32, -2.0])?), Param::new(Tensor::from_slice(&[1.0f32, -2.0])?));
    let mut plain = AdamW::new(vec![("w".into(), a.clone())], AdamWOptions::default())?;
    let mut scaled = AdamW::new(vec![("w".into(), b.clone())], AdamWOptions::default())?;
    let scaler = LossScaler::new(LossScalerOptions::default())?;
    for _ in 0..4 {
        plain.zero_grad();
        a.value().square()?.sum_all()?.backward()?;
        plain.step()?;
        scaled.zero_grad();
        scaler.scale(&b.value().square()?.sum_all()?)?.backward()?;
        scaler.step(&mut scaled)?;
    }
    for (a, b) in a.value().to_vec::<f32>()?.iter().zip(b.value().to_vec::<f32>()?) {
        // A scale that is a power of two changes nothing; bias corrections are float32 here: 1e-7 of steps of 1e-3.
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }
    Ok(())
}

#[test]
fn modules_compute_in_the_cast_dtype_and_parameters_stay() -> Result<()> {
    for dtype in [DType::BF16, DType::F16] {
        let generator = Generator::new(1);
        let table = Embedding::new(5, 4, DType::F32, &generator)?;
        let norm = LayerNorm::new(4, DType::F32)?;
        let head = Linear::new(4, 3, true, DType::F32, &generator)?;
        let logits = autocast(dtype, || {
            let x = table.forward(&Tensor::from_slice(&[1i64, 3, 1])?)?;
            assert_eq!(x.dtype(), dtype);
            head.forward(&norm.forward(&x)?)
        })?;
        assert_eq!(logits.dtype(), dtype);
        logits.to_dtype(DType::F32)?.square()?.mean_all()?.backward()?;
        let modules: [&dyn Module; 3] = [&table, &norm, &head];
        for param in modules.iter().flat_map(|module| module.parameters()) {
            assert_eq!(param.grad().expect("takes part").dtype(), DType::F32);
            assert_eq!(param.dtype(), DType::F32);
        }
    }
    Ok(())
}
