//! PyTorch's training runs in `fixtures`, repeated step by step.

use examples::cnn::{self, Cnn};
use examples::gpt::{self, Gpt};
use examples::images::Labelled;
use examples::lstm::{self, ByteLstm};
use examples::resnet::{self, ResNet};
use examples::train::{Learner, Trainer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tpu_autograd::file::Checkpoint;
use tpu_core::lazy::{self, Statistics};
use tpu_core::{DType, Result, Tensor};
use tpu_ops::Generator;

/// A recorded run.
pub struct Recorded {
    name: &'static str,
    curve: Value,
    /// PyTorch's loss of each step.
    pub losses: Vec<f64>,
}

/// What came of it here.
pub struct Repeated {
    /// The loss of each step.
    pub losses: Vec<f32>,
    /// What the scheduler did from the third step on.
    pub done: Statistics,
    /// Buffers after the last step.
    pub buffers: BTreeMap<String, Vec<f64>>,
}

impl Recorded {
    /// The run of `gpt`, `cnn`, `lstm` or `resnet`.
    pub fn load(name: &'static str) -> Self {
        let mut run = Self { name, curve: Value::Null, losses: Vec::new() };
        let text = std::fs::read_to_string(run.fixture("curve.json")).expect("the fixture is there");
        run.curve = serde_json::from_str(&text).expect("the fixture is JSON");
        run.losses = numbers(&run.curve["loss"]);
        run
    }

    fn fixture(&self, file: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/{}_curve", self.name)).join(file)
    }

    fn size(&self, name: &str) -> usize {
        self.curve["config"][name].as_u64().expect("a size") as usize
    }

    /// PyTorch's running statistics after the last step, and the count of batches.
    pub fn buffers(&self) -> BTreeMap<String, Vec<f64>> {
        let buffers = self.curve["buffers"].as_object();
        buffers.into_iter().flatten().map(|(name, values)| (name.clone(), numbers(values))).collect()
    }

    /// The same steps on the current device.
    pub fn repeat(&self) -> Result<Repeated> {
        let (size, generator) = (|name: &str| self.size(name), &Generator::new(0));
        match self.name {
            "gpt" => {
                let config = gpt::Config {
                    layers: size("layers"),
                    width: size("width"),
                    heads: size("heads"),
                    context: size("context"),
                };
                self.train(Gpt::new(config, generator)?, self.parts("tokens")?)
            }
            "lstm" => {
                let (layers, width, hidden) = (size("layers"), size("width"), size("hidden"));
                let config = lstm::Config { layers, width, hidden, dropout: 0.0 };
                self.train(ByteLstm::new(config, generator)?, self.parts("tokens")?)
            }
            "cnn" => {
                let config = cnn::Config { side: size("side"), channels: size("channels"), hidden: size("hidden") };
                self.train(Cnn::new(config, generator)?, self.images()?)
            }
            _ => {
                let config = resnet::Config { inputs: 1, width: size("width"), blocks: size("blocks") };
                self.train(ResNet::new(config, generator)?, self.images()?)
            }
        }
    }

    /// Of a recorded tensor what belongs to each step.
    fn parts(&self, name: &str) -> Result<Vec<Tensor>> {
        let file = Checkpoint::load(self.fixture("batches.safetensors"))?;
        let tensor = &file.tensors[name];
        let all = tensor.to_vec::<u8>()?;
        let chunks = all.chunks(all.len() / self.losses.len());
        chunks.map(|chunk| Tensor::from_vec(chunk.to_vec(), &tensor.sizes()[1..])).collect()
    }

    fn images(&self) -> Result<Vec<Labelled>> {
        let (images, labels) = (self.parts("images")?, self.parts("labels")?);
        Ok(images.into_iter().zip(labels).map(|(images, labels)| Labelled { images, labels }).collect())
    }

    fn train<M: Learner>(&self, model: M, batches: Vec<M::Batch>) -> Result<Repeated> {
        Checkpoint::load(self.fixture("init.safetensors"))?.restore(&model, None)?;
        let rate = self.curve["optimizer"]["lr"].as_f64().expect("a rate");
        let mut trainer = Trainer::new(model, DType::F32)?;
        let (mut losses, mut before) = (Vec::new(), lazy::statistics());
        for (step, batch) in batches.iter().enumerate() {
            if step == 2 {
                // Waits, so that what the first two steps compile is counted before.
                losses.iter().try_for_each(|loss: &Tensor| loss.item::<f32>().map(drop))?;
                before = lazy::statistics();
            }
            losses.push(trainer.step(batch, rate)?);
        }
        let losses = losses.iter().map(Tensor::item).collect::<Result<_>>()?;
        let done = lazy::statistics().since(&before);
        let mut buffers = BTreeMap::new();
        for (name, buffer) in trainer.model.named_buffers() {
            buffers.insert(name, buffer.value().to_dtype(DType::F64)?.to_vec()?);
        }
        Ok(Repeated { losses, done, buffers })
    }
}

fn numbers(values: &Value) -> Vec<f64> {
    values.as_array().expect("numbers").iter().map(|value| value.as_f64().expect("a number")).collect()
}

/// Fails unless every loss is within the bound of what another program gave.
pub fn assert_close(losses: &[f32], expected: &[f64], of: &str) {
    assert_eq!(losses.len(), expected.len());
    for (step, (got, want)) in losses.iter().zip(expected).enumerate() {
        assert!((*got as f64 - want).abs() <= 2e-3, "step {step}: {got} here, {want} {of}");
    }
}

/// Fails unless the buffers are those of PyTorch, as far as losses may be apart, relative to statistics of up to 100.
pub fn assert_same_buffers(here: &Repeated, run: &Recorded) {
    let buffers = run.buffers();
    assert!(buffers.keys().eq(here.buffers.keys()));
    for (name, expected) in &buffers {
        for (found, expected) in here.buffers[name].iter().zip(expected) {
            assert!((found - expected).abs() <= 2e-3 * expected.abs().max(1.0), "{name}: {found}, PyTorch {expected}");
        }
    }
}
