//! Adam with decoupled weight decay (Loshchilov and Hutter: *Decoupled weight decay regularization*, ICLR 2019).

use super::{Optimizer, real, saved, saved_step, unless};
use crate::{Param, no_grad};
use std::collections::BTreeMap;
use tpu_core::{DType, Result, Tensor};

/// Settings of [`AdamW`]; the default is PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWOptions {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the averages of the gradient and of its square.
    pub betas: (f64, f64),
    /// Added to the root of the second average.
    pub eps: f64,
    /// Part of each parameter taken away per step, times the learning rate.
    pub weight_decay: f64,
}

impl Default for AdamWOptions {
    fn default() -> Self {
        Self { lr: 1e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 1e-2 }
    }
}

/// PyTorch's `optim.AdamW`:
///
/// ```text
/// p ← p · (1 − lr · weight_decay)
/// m ← m + (1 − β₁) (g − m)
/// v ← β₂ v + (1 − β₂) g²
/// p ← p − lr / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + eps)
/// ```
///
/// ```
/// use tpu_autograd::optim::{AdamW, AdamWOptions, Optimizer};
/// use tpu_autograd::{Backward, Param};
/// use tpu_core::Tensor;
/// let w = Param::new(Tensor::from_slice(&[1.0f32])?);
/// let mut optimizer = AdamW::new(vec![("w".into(), w.clone())], AdamWOptions { lr: 0.1, ..Default::default() })?;
/// for _ in 0..100 {
///     let loss = w.value().sub(3.0)?.square()?.sum_all()?;
///     optimizer.zero_grad();
///     loss.backward()?;
///     optimizer.step()?;
/// }
/// assert!((w.value().to_vec::<f32>()?[0] - 3.0).abs() < 0.1);
/// # Ok::<(), tpu_core::Error>(())
/// ```
pub struct AdamW {
    params: Vec<(String, Param)>,
    options: AdamWOptions,
    /// For each parameter the averages of its gradient and of the square, from its first update on.
    averages: Vec<Option<(Param, Param)>>,
    step: u64,
    /// How many of the steps were skipped: a scalar float32, once a step could have been.
    skipped: Option<Param>,
}

impl AdamW {
    /// An optimizer of named parameters, as [`named_parameters`](crate::nn::Module::named_parameters) gives them. Errors
    /// unless they are of float dtype.
    pub fn new(params: Vec<(String, Param)>, options: AdamWOptions) -> Result<Self> {
        real("adamw", &params)?;
        let averages = params.iter().map(|_| None).collect();
        Ok(Self { params, options, averages, step: 0, skipped: None })
    }

    /// Number of steps, skipped ones included.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Step size and the root of the second bias correction.
    fn corrections(&self) -> Result<(Correction, Correction)> {
        let AdamWOptions { lr, betas, .. } = self.options;
        let Some(skipped) = &self.skipped else {
            let one = |beta: f64| 1.0 - beta.powi(i32::try_from(self.step).unwrap_or(i32::MAX));
            return Ok((Correction::Number(lr / one(betas.0)), Correction::Number(one(betas.1).sqrt())));
        };
        // How many steps count is not known here: 1 − βᵗ = −expm1(t ln β) on the device.
        let counted = skipped.value().neg()?.add(self.step as f64)?;
        let one = |beta: f64| counted.mul(beta.ln())?.expm1()?.neg();
        Ok((Correction::Tensor(one(betas.0)?.recip()?.mul(lr)?), Correction::Tensor(one(betas.1)?.sqrt()?)))
    }
}

/// A number known when recording, or only on the device.
enum Correction {
    Number(f64),
    Tensor(Tensor),
}

impl Correction {
    fn multiply(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Number(number) => x.mul(*number),
            Self::Tensor(tensor) => x.mul(&tensor.to_dtype(x.dtype())?),
        }
    }

    fn divide(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Number(number) => x.div(*number),
            Self::Tensor(tensor) => x.div(&tensor.to_dtype(x.dtype())?),
        }
    }
}

impl Optimizer for AdamW {
    fn update(&mut self, skip: Option<&Tensor>) -> Result<()> {
        no_grad(|| {
            self.step += 1;
            if let Some(skip) = skip {
                let one = skip.to_dtype(DType::F32)?;
                match &self.skipped {
                    Some(skipped) => skipped.set(skipped.value().add(&one)?)?,
                    None => self.skipped = Some(Param::new(one)),
                }
            }
            let (size, root) = self.corrections()?;
            let AdamWOptions { lr, betas, eps, weight_decay } = self.options;
            for ((_, param), averages) in self.params.iter().zip(&mut self.averages) {
                let Some(grad) = param.grad() else { continue };
                let value = param.value();
                let (first, second) = match averages {
                    Some(averages) => &*averages,
                    None => averages.insert((Param::new(grad.zeros_like()?), Param::new(grad.zeros_like()?))),
                };
                let (m, v) = (first.value(), second.value());
                let next_m = m.add(&grad.sub(&m)?.mul(1.0 - betas.0)?)?;
                let next_v = v.mul(betas.1)?.add(&grad.mul(1.0 - betas.1)?.mul(&grad)?)?;
                let spread = root.divide(&next_v.sqrt()?)?.add(eps)?;
                let next = value.mul(1.0 - lr * weight_decay)?.sub(&size.multiply(&next_m)?.div(&spread)?)?;
                first.set(unless(skip, &m, next_m)?)?;
                second.set(unless(skip, &v, next_v)?)?;
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
        if let Some(skipped) = &self.skipped {
            state.insert("skipped".into(), skipped.value().detach());
        }
        for ((name, _), averages) in self.params.iter().zip(&self.averages) {
            if let Some((first, second)) = averages {
                state.insert(format!("{name}.exp_avg"), first.value().detach());
                state.insert(format!("{name}.exp_avg_sq"), second.value().detach());
            }
        }
        Ok(state)
    }

    fn load_state(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        let step = saved_step("adamw", state)?;
        let skipped = match state.contains_key("skipped") {
            true => Some(Param::new(saved("adamw", state, "skipped", &[], DType::F32)?.clone())),
            false => None,
        };
        let mut averages = Vec::with_capacity(self.params.len());
        for (name, param) in &self.params {
            let named = |suffix: &str| format!("{name}.{suffix}");
            let (first, second) = (named("exp_avg"), named("exp_avg_sq"));
            averages.push(match state.contains_key(&first) || state.contains_key(&second) {
                true => {
                    let (shape, dtype) = (param.shape(), param.dtype());
                    let find = |name: &str| saved("adamw", state, name, shape.sizes(), dtype).cloned().map(Param::new);
                    Some((find(&first)?, find(&second)?))
                }
                false => None,
            });
        }
        (self.step, self.skipped, self.averages) = (step, skipped, averages);
        Ok(())
    }
}
