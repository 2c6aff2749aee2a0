//! Stochastic gradient descent with momentum.

use super::{Optimizer, real, saved, saved_step, unless};
use crate::{Param, no_grad};
use std::collections::BTreeMap;
use tpu_core::{Result, Tensor, ensure};

/// Settings of [`Sgd`]; the default is PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdOptions {
    /// Learning rate.
    pub lr: f64,
    /// Part of the last direction that stays.
    pub momentum: f64,
    /// Part of the gradient that the momentum does not take up.
    pub dampening: f64,
    /// Added to the gradient, times the parameter.
    pub weight_decay: f64,
    /// Looks ahead by one step of the momentum.
    pub nesterov: bool,
}

impl Default for SgdOptions {
    fn default() -> Self {
        Self { lr: 1e-3, momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false }
    }
}

/// PyTorch's `optim.SGD`:
///
/// ```text
/// g ← g + weight_decay · p
/// b ← momentum · b + (1 − dampening) g      (b ← g at first)
/// p ← p − lr · b                            (nesterov: p ← p − lr (g + momentum · b))
/// ```
pub struct Sgd {
    params: Vec<(String, Param)>,
    options: SgdOptions,
    /// For each parameter its direction, from its first update on.
    buffers: Vec<Option<Param>>,
    step: u64,
}

impl Sgd {
    /// An optimizer of named parameters. Errors unless they are of float dtype, or if Nesterov's momentum is asked for
    /// without momentum or with dampening.
    pub fn new(params: Vec<(String, Param)>, options: SgdOptions) -> Result<Self> {
        real("sgd", &params)?;
        ensure!(
            !options.nesterov || (options.momentum > 0.0 && options.dampening == 0.0),
            Value,
            "sgd",
            "requires momentum and no dampening for Nesterov's, got momentum {} and dampening {}",
            options.momentum,
            options.dampening
        );
        let buffers = params.iter().map(|_| None).collect();
        Ok(Self { params, options, buffers, step: 0 })
    }
}

impl Optimizer for Sgd {
    fn update(&mut self, skip: Option<&Tensor>) -> Result<()> {
        no_grad(|| {
            self.step += 1;
            let SgdOptions { lr, momentum, dampening, weight_decay, nesterov } = self.options;
            for ((_, param), buffer) in self.params.iter().zip(&mut self.buffers) {
                let Some(grad) = param.grad() else { continue };
                let value = param.value();
                let grad = if weight_decay == 0.0 { grad } else { grad.add(&value.mul(weight_decay)?)? };
                let direction = match buffer {
                    _ if momentum == 0.0 => grad,
                    None => {
                        // A skipped first step leaves a zero, which the next step turns into what PyTorch would have,
                        // but for the dampening.
                        let first = match skip {
                            Some(_) => unless(skip, &grad.zeros_like()?, grad.clone())?,
                            None => grad.clone(),
                        };
                        *buffer = Some(Param::new(first));
                        if nesterov { grad.add(&grad.mul(momentum)?)? } else { grad }
                    }
                    Some(buffer) => {
                        let last = buffer.value();
                        let kept = last.mul(momentum)?;
                        let taken = if dampening == 0.0 { grad.clone() } else { grad.mul(1.0 - dampening)? };
                        let next = kept.add(&taken)?;
                        buffer.set(unless(skip, &last, next.clone())?)?;
                        if nesterov { grad.add(&next.mul(momentum)?)? } else { next }
                    }
                };
                let next = value.sub(&direction.mul(lr)?)?;
                param.set(unless(skip, &value, next)?)?;
            }
            Ok(())
        })
    }

    fn params(&self) -> &[(String, Param)] {
        &self.params
    }

    fn lr(&self) -> f64 {
        self.options.lr
    }

    fn set_lr(&mut self, lr: f64) {
        self.options.lr = lr;
    }

    fn state(&self) -> Result<BTreeMap<String, Tensor>> {
        let mut state = BTreeMap::from([("step".to_owned(), Tensor::scalar(self.step as i64)?)]);
        for ((name, _), buffer) in self.params.iter().zip(&self.buffers) {
            if let Some(buffer) = buffer {
                state.insert(format!("{name}.momentum_buffer"), buffer.value().detach());
            }
        }
        Ok(state)
    }

    fn load_state(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        let step = saved_step("sgd", state)?;
        let mut buffers = Vec::with_capacity(self.params.len());
        for (name, param) in &self.params {
            let name = format!("{name}.momentum_buffer");
            buffers.push(match state.contains_key(&name) {
                true => {
                    let (shape, dtype) = (param.shape(), param.dtype());
                    Some(Param::new(saved("sgd", state, &name, shape.sizes(), dtype)?.clone()))
                }
                false => None,
            });
        }
        (self.step, self.buffers) = (step, buffers);
        Ok(())
    }
}
