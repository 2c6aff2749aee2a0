//! Mixed precision: loss scaling decided on the device, parameters in float32.

#[path = "pytorch/scaler.rs"]
mod table;

use tpu_autograd::amp::{LossScaler, LossScalerOptions, autocast};
use tpu_autograd::nn::{Embedding, LayerNorm, Linear, Module};
use tpu_autograd::optim::{AdamW, AdamWOptions, Optimizer, Sgd, SgdOptions};
use tpu_autograd::{Backward, Param};
use tpu_core::{DType, Result, Tensor};
use tpu_ops::Generator;

#[test]
fn the_scale_backs_off_and_grows_as_pytorchs_and_bad_steps_change_nothing() -> Result<()> {
    for &(options, factors, expected) in table::RUNS {
        let [scale, growth, backoff, interval] = options[..] else { panic!("four options") };
        let w = Param::new(Tensor::scalar(1f32)?);
        let options = SgdOptions { lr: 0.125, ..SgdOptions::default() };
        let mut optimizer = Sgd::new(vec![("w".into(), w.clone())], options)?;
        let scaler = LossScaler::new(LossScalerOptions { scale, growth, backoff, interval: interval as u32 })?;
        for (step, (&factor, expected)) in factors.iter().zip(expected).enumerate() {
            optimizer.zero_grad();
            let loss = w.value().square()?.mul(0.5)?.mul(&Tensor::scalar(factor as f32)?)?;
            scaler.scale(&loss)?.backward()?;
            scaler.step(&mut optimizer)?;
            let good = scaler.state()["good"].item::<f32>()?;
            let found = [scaler.current().item::<f32>()?, good, w.value().item::<f32>()?].map(f64::from);
            assert_eq!(found[..2], expected[..2], "step {step} of {factors:?}");
            // Unscaling multiplies by the inverse, of powers of two exactly; a step rounds twice, 6e-8 each.
            assert!((found[2] - expected[2]).abs() < 1e-6, "step {step} of {factors:?}: {found:?}, {expected:?}");
        }
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
