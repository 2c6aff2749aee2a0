//! PyTorch's training run in `fixtures/gpt_curve`, repeated step by step.

use examples::gpt::{Config, Gpt};
use examples::train::Trainer;
use serde_json::Value;
use std::path::PathBuf;
use tpu_autograd::file::Checkpoint;
use tpu_core::{DType, Result, Tensor};
use tpu_ops::Generator;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpt_curve").join(name)
}

#[test]
fn the_loss_of_every_step_is_that_of_pytorch() {
    let text = std::fs::read_to_string(fixture("curve.json")).expect("the fixture is there");
    let curve: Value = serde_json::from_str(&text).expect("the fixture is JSON");
    let size = |name: &str| curve["config"][name].as_u64().expect("a size") as usize;
    let config =
        Config { layers: size("layers"), width: size("width"), heads: size("heads"), context: size("context") };
    let rate = curve["optimizer"]["lr"].as_f64().expect("a rate");
    let expected: Vec<f64> =
        curve["loss"].as_array().expect("losses").iter().map(|loss| loss.as_f64().expect("a number")).collect();

    let losses = repeat(config, rate, expected.len()).expect("training runs");

    assert!(expected[0] - expected[expected.len() - 1] >= 1.0, "PyTorch's loss falls by at least a nat");
    for (step, (got, want)) in losses.iter().zip(&expected).enumerate() {
        assert!((*got as f64 - want).abs() <= 2e-3, "step {step}: {got} here, {want} in PyTorch");
    }
}

fn repeat(config: Config, rate: f64, steps: usize) -> Result<Vec<f32>> {
    let model = Gpt::new(config, &Generator::new(0))?;
    Checkpoint::load(fixture("init.safetensors"))?.restore(&model, None)?;
    let tokens = Checkpoint::load(fixture("batches.safetensors"))?.tensors["tokens"].to_vec::<u8>()?;
    let mut trainer = Trainer::new(model, DType::F32)?;
    let each = tokens.len() / steps;
    let mut losses = Vec::new();
    for batch in tokens.chunks(each) {
        let bytes = Tensor::from_vec(batch.to_vec(), [each / (config.context + 1), config.context + 1])?;
        losses.push(trainer.step(&bytes, rate)?);
    }
    losses.iter().map(Tensor::item).collect()
}
