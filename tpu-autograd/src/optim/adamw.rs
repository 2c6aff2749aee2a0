//! Adam with decoupled weight decay (Loshchilov and Hutter: *Decoupled weight decay regularization*, ICLR 2019).

use super::correction::Correction;
use super::settings::{betas, from_zero};
use super::{Count, Descent, Rule};
use smallvec::{SmallVec, smallvec};
use tpu_core::{Result, Tensor};

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
pub type AdamW = Descent<AdamWOptions>;

impl Rule for AdamWOptions {
    const NAME: &'static str = "adamw";
    const COUNTS: bool = true;

    /// Step size and the root of the second bias correction.
    type Prepared = (Correction, Correction);

    fn kept(&self) -> &'static [&'static str] {
        &["exp_avg", "exp_avg_sq"]
    }

    fn check(&self) -> Result<()> {
        betas(Self::NAME, self.betas)?;
        from_zero(Self::NAME, &[("lr", self.lr), ("eps", self.eps), ("weight_decay", self.weight_decay)])
    }

    fn lr(&self) -> f64 {
        self.lr
    }

    fn set_lr(&mut self, lr: f64) {
        self.lr = lr;
    }

    fn prepare(&self, count: &Count) -> Result<(Correction, Correction)> {
        corrections(count, self.lr, self.betas)
    }

    fn apply(
        &self,
        (size, root): &(Correction, Correction),
        value: &Tensor,
        grad: &Tensor,
        kept: Option<&[Tensor]>,
    ) -> Result<(Tensor, SmallVec<[Tensor; 2]>)> {
        let Self { lr, betas, eps, weight_decay } = *self;
        let (m, v) = averages(grad, kept, betas)?;
        let spread = root.divide(&v.sqrt()?)?.add(eps)?;
        let next = value.mul(1.0 - lr * weight_decay)?.sub(&size.multiply(&m)?.div(&spread)?)?;
        Ok((next, smallvec![m, v]))
    }
}

/// Of the step size and, under the root, of the second average.
pub(super) fn corrections(count: &Count, lr: f64, betas: (f64, f64)) -> Result<(Correction, Correction)> {
    let (size, root) = (Correction::bias(count, betas.0)?, Correction::bias(count, betas.1)?);
    Ok((size.map(|one| lr / one, |one| one.recip()?.mul(lr))?, root.map(f64::sqrt, Tensor::sqrt)?))
}

/// The next averages of the gradient and of its square.
pub(super) fn averages(grad: &Tensor, kept: Option<&[Tensor]>, betas: (f64, f64)) -> Result<(Tensor, Tensor)> {
    let (m, v) = match kept {
        Some([m, v, ..]) => (m.clone(), v.clone()),
        _ => (grad.zeros_like()?, grad.zeros_like()?),
    };
    let m = m.add(&grad.sub(&m)?.mul(1.0 - betas.0)?)?;
    let v = v.mul(betas.1)?.add(&grad.mul(1.0 - betas.1)?.mul(grad)?)?;
    Ok((m, v))
}
