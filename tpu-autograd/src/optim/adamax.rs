//! Adamax: Adam with the infinity norm (Kingma and Ba: *Adam: a method for stochastic optimization*, ICLR 2015, section 7.1).

use super::correction::{Correction, decayed};
use super::settings::{betas, from_zero};
use super::{Count, Descent, Rule};
use smallvec::{SmallVec, smallvec};
use tpu_core::{Result, Tensor};

/// Settings of [`Adamax`]; the default is PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamaxOptions {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the average of the gradient and of its largest magnitude.
    pub betas: (f64, f64),
    /// Added to the magnitude of the gradient.
    pub eps: f64,
    /// Added to the gradient, times the parameter.
    pub weight_decay: f64,
}

impl Default for AdamaxOptions {
    fn default() -> Self {
        Self { lr: 2e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0 }
    }
}

/// PyTorch's `optim.Adamax`:
///
/// ```text
/// g ← g + weight_decay · p
/// m ← m + (1 − β₁) (g − m)
/// u ← max(β₂ u, |g| + eps)
/// p ← p − lr / (1 − β₁ᵗ) · m / u
/// ```
pub type Adamax = Descent<AdamaxOptions>;

impl Rule for AdamaxOptions {
    const NAME: &'static str = "adamax";
    const COUNTS: bool = true;

    type Prepared = Correction;

    fn kept(&self) -> &'static [&'static str] {
        &["exp_avg", "exp_inf"]
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

    fn prepare(&self, count: &Count) -> Result<Correction> {
        let lr = self.lr;
        Correction::bias(count, self.betas.0)?.map(|one| lr / one, |one| one.recip()?.mul(lr))
    }

    fn apply(
        &self,
        size: &Correction,
        value: &Tensor,
        grad: &Tensor,
        kept: Option<&[Tensor]>,
    ) -> Result<(Tensor, SmallVec<[Tensor; 2]>)> {
        let grad = decayed(grad, value, self.weight_decay)?;
        let (m, u) = match kept {
            Some([m, u]) => (m.clone(), u.clone()),
            _ => (grad.zeros_like()?, grad.zeros_like()?),
        };
        let m = m.add(&grad.sub(&m)?.mul(1.0 - self.betas.0)?)?;
        let u = u.mul(self.betas.1)?.maximum(&grad.abs()?.add(self.eps)?)?;
        Ok((value.sub(&size.multiply(&m)?.div(&u)?)?, smallvec![m, u]))
    }
}
