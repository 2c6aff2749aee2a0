//! PyTorch's training run in `fixtures/gpt_curve`, repeated step by step.

use examples::gpt::{Config, Gpt};
use examples::train::Trainer;
use serde_json::Value;
use std::path::PathBuf;
use tpu_autograd::file::Checkpoint;
use tpu_core::lazy::{self, Statistics};
use tpu_core::{DType, Result, Tensor};
use tpu_ops::Generator;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpt_curve").join(name)
}

/// The recorded run.
pub struct Recorded {
    config: Config,
    rate: f64,
    /// PyTorch's loss of each step.
    pub losses: Vec<f64>,
}

impl Recorded {
    pub fn load() -> Self {
        let text = std::fs::read_to_string(fixture("curve.json")).expect("the fixture is there");
        let curve: Value = serde_json::from_str(&text).expect("the fixture is JSON");
        let size = |name: &str| curve["config"][name].as_u64().expect("a size") as usize;
        let config =
            Config { layers: size("layers"), width: size("width"), heads: size("heads"), context: size("context") };
        let rate = curve["optimizer"]["lr"].as_f64().expect("a rate");
        let losses = curve["loss"].as_array().expect("losses").iter().map(|loss| loss.as_f64().expect("a number"));
        Self { config, rate, losses: losses.collect() }
    }

    /// The losses of the same steps on the current device, and what the scheduler did from the third step on.
    pub fn repeat(&self) -> Result<(Vec<f32>, Statistics)> {
        let model = Gpt::new(self.config, &Generator::new(0))?;
        Checkpoint::load(fixture("init.safetensors"))?.restore(&model, None)?;
        let tokens = Checkpoint::load(fixture("batches.safetensors"))?.tensors["tokens"].to_vec::<u8>()?;
        let mut trainer = Trainer::new(model, DType::F32)?;
        let each = tokens.len() / self.losses.len();
        let (mut losses, mut before) = (Vec::new(), lazy::statistics());
        for (step, batch) in tokens.chunks(each).enumerate() {
            if step == 2 {
                // Waits, so that what the first two steps compile is counted before.
                losses.iter().try_for_each(|loss: &Tensor| loss.item::<f32>().map(drop))?;
                before = lazy::statistics();
            }
            let width = self.config.context + 1;
            let bytes = Tensor::from_vec(batch.to_vec(), [each / width, width])?;
            losses.push(trainer.step(&bytes, self.rate)?);
        }
        let losses = losses.iter().map(Tensor::item).collect::<Result<_>>()?;
        Ok((losses, lazy::statistics().since(&before)))
    }
}

/// Fails unless every loss is within the bound of what another program gave.
pub fn assert_close(losses: &[f32], expected: &[f64], of: &str) {
    assert_eq!(losses.len(), expected.len());
    for (step, (got, want)) in losses.iter().zip(expected).enumerate() {
        assert!((*got as f64 - want).abs() <= 2e-3, "step {step}: {got} here, {want} {of}");
    }
}
