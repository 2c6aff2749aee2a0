//! The training loop's parts: a step, the learning rate, evaluation, checkpoints.

use crate::gpt::Gpt;
use std::path::Path;
use std::time::Duration;
use tpu_autograd::amp::{LossScaler, LossScalerOptions};
use tpu_autograd::file::Checkpoint;
use tpu_autograd::nn::evaluating;
use tpu_autograd::optim::{AdamW, AdamWOptions, CosineWithWarmup, Optimizer};
use tpu_autograd::{Backward, Param, nn::Module, no_grad};
use tpu_core::{DType, Error, ErrorKind, Result, Tensor, lazy};

/// A model that learns from batches.
pub trait Learner: Module {
    /// What it learns from in a step.
    type Batch;

    /// The loss of a batch, a scalar float32. Computed in `dtype`.
    fn loss(&self, batch: &Self::Batch, dtype: DType) -> Result<Tensor>;

    /// Number of trained numbers.
    fn size(&self) -> usize {
        self.parameters().iter().map(Param::elements).sum()
    }
}

/// A model in training, and how it went so far.
pub struct Trainer<M = Gpt> {
    /// The model.
    pub model: M,
    optimizer: AdamW,
    /// Of float16, whose gradients would vanish otherwise.
    scaler: Option<LossScaler>,
    /// What is computed in; parameters are float32.
    dtype: DType,
    /// Steps made, in earlier runs too.
    pub step: u64,
    /// The loss of each step.
    pub losses: Vec<f32>,
    /// Losses of the held-out data by step.
    pub held_out: Vec<(u64, f32)>,
}

impl<M: Learner> Trainer<M> {
    /// A trainer that has made no step.
    pub fn new(model: M, dtype: DType) -> Result<Self> {
        let options = AdamWOptions { betas: (0.9, 0.95), ..Default::default() };
        let optimizer = AdamW::new(model.named_parameters(), options)?;
        let scaler = match dtype {
            DType::F16 => Some(LossScaler::new(LossScalerOptions::default())?),
            _ => None,
        };
        Ok(Self { model, optimizer, scaler, dtype, step: 0, losses: Vec::new(), held_out: Vec::new() })
    }

    /// One step on a batch: forward, backward and update are one program, which is queued and not waited for. Gives the loss
    /// before the step; read it after the next step is queued, and the device never waits. Gradients are forgotten before the
    /// step ends, so that they are no results of its program.
    pub fn step(&mut self, batch: &M::Batch, lr: f64) -> Result<Tensor> {
        self.optimizer.set_lr(lr)?;
        self.optimizer.zero_grad();
        let loss = self.model.loss(batch, self.dtype)?;
        match &self.scaler {
            Some(scaler) => {
                scaler.scale(&loss)?.backward()?;
                scaler.step(&mut self.optimizer)?;
            }
            None => {
                loss.backward()?;
                self.optimizer.update(None)?;
                self.optimizer.zero_grad();
                lazy::mark_step();
            }
        }
        self.step += 1;
        Ok(loss.detach())
    }

    /// Mean loss over batches.
    pub fn evaluate(&self, batches: &[M::Batch]) -> Result<f32> {
        let mut sum = 0.0;
        for batch in batches {
            let loss = evaluating(|| no_grad(|| self.model.loss(batch, self.dtype)))?;
            sum += loss.item::<f32>()? as f64;
        }
        Ok((sum / batches.len().max(1) as f64) as f32)
    }

    /// Saves all that later steps depend on; the batches depend on `seed` and the step only.
    pub fn save(&self, path: &Path, seed: u64) -> Result<()> {
        let mut checkpoint = Checkpoint::of(&self.model, Some(&self.optimizer))?;
        let mut add = |name: &str, tensor| checkpoint.tensors.insert(format!("{PROGRESS}{name}"), tensor);
        add("step", Tensor::scalar(self.step)?);
        add("seed", Tensor::scalar(seed)?);
        add("loss", Tensor::from_slice(&self.losses)?);
        let points = self.held_out.iter().flat_map(|&(step, loss)| [step as f32, loss]).collect();
        add("held_out", Tensor::from_vec(points, [self.held_out.len(), 2])?);
        for (name, tensor) in self.scaler.iter().flat_map(LossScaler::state) {
            add(&format!("scaler.{name}"), tensor);
        }
        checkpoint.save(path)
    }

    /// Goes on from a checkpoint; gives its seed. Errors if it is of another model.
    pub fn resume(&mut self, path: &Path) -> Result<u64> {
        let mut checkpoint = Checkpoint::load(path)?;
        let mut progress = std::collections::BTreeMap::new();
        checkpoint.tensors.retain(|name, tensor| match name.strip_prefix(PROGRESS) {
            Some(name) => {
                progress.insert(name.to_owned(), tensor.clone());
                false
            }
            None => true,
        });
        let part = |name: &str| progress.get(name).ok_or_else(|| damaged(path, &format!("none with {PROGRESS}{name}")));
        let (step, seed) = (part("step")?.item()?, part("seed")?.item()?);
        let losses = part("loss")?.to_vec()?;
        let held_out = part("held_out")?.to_vec::<f32>()?.chunks_exact(2).map(|at| (at[0] as u64, at[1])).collect();
        if let Some(scaler) = &self.scaler {
            let own = |(name, tensor): (&String, &Tensor)| Some((name.strip_prefix("scaler.")?.into(), tensor.clone()));
            scaler.load_state(&progress.iter().filter_map(own).collect())?;
        }
        checkpoint.restore(&self.model, Some(&mut self.optimizer))?;
        (self.step, self.losses, self.held_out) = (step, losses, held_out);
        Ok(seed)
    }
}

/// What the names start with of tensors that are neither the model's nor the optimizer's.
const PROGRESS: &str = "progress.";

fn damaged(path: &Path, what: &str) -> Error {
    let message = format!("requires a checkpoint of this program, got {what}: {}", path.display());
    Error::new(ErrorKind::Format, "resume", message)
}

/// The learning rate: up in a line, then down along a cosine to a tenth.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    cosine: CosineWithWarmup,
    /// How long training lasts, if time ends it and not a number of steps.
    time: Option<Duration>,
}

impl Schedule {
    /// Up over `warmup` steps, down until step `decay` or, if there is a `time`, until that is over.
    pub fn new(peak: f64, warmup: u64, decay: u64, time: Option<Duration>) -> Self {
        Self { cosine: CosineWithWarmup { peak, floor: peak / 10.0, warmup, total: decay.max(warmup + 1) }, time }
    }

    /// The rate of a step that is made after so much time of this run.
    pub fn rate(&self, step: u64, elapsed: Duration) -> f64 {
        let CosineWithWarmup { warmup, .. } = self.cosine;
        match self.time {
            Some(time) if step >= warmup => {
                // A fine scale of places on the cosine, instead of steps.
                const PLACES: u64 = 1 << 20;
                let part = (elapsed.as_secs_f64() / time.as_secs_f64()).min(1.0);
                let fine = CosineWithWarmup { warmup: 0, total: PLACES, ..self.cosine };
                fine.at((part * PLACES as f64) as u64)
            }
            _ => self.cosine.at(step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_and_falls_by_steps_or_by_time() {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        let steps = Schedule::new(1.0, 10, 110, None);
        let after = Duration::from_secs;
        assert!(close(steps.rate(4, after(0)), 0.5) && close(steps.rate(60, after(0)), 0.55));
        let time = Schedule::new(1.0, 10, 110, Some(after(100)));
        assert!(close(time.rate(4, after(99)), 0.5), "warm-up is by steps");
        assert!(close(time.rate(1000, after(50)), 0.55) && close(time.rate(1000, after(200)), 0.1));
    }
}
