//! Adam (Kingma and Ba: *Adam: a method for stochastic optimization*, ICLR 2015).

use super::adamw::{averages, corrections};
use super::correction::{Correction, decayed};
use super::settings::{betas, from_zero};
use super::{Count, Descent, Rule};
use smallvec::{SmallVec, smallvec};
use tpu_core::{Result, Tensor};

/// Settings of [`Adam`]; the default is PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamOptions {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the averages of the gradient and of its square.
    pub betas: (f64, f64),
    /// Added to the root of the second average.
    pub eps: f64,
    /// Added to the gradient, times the parameter; [`AdamW`](super::AdamW) decays apart from it.
    pub weight_decay: f64,
    /// Divide by the largest second average so far (Reddi et al.: *On the convergence of Adam and beyond*, ICLR 2018).
    pub amsgrad: bool,
}

impl Default for AdamOptions {
    fn default() -> Self {
        Self { lr: 1e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0, amsgrad: false }
    }
}

/// PyTorch's `optim.Adam`:
///
/// ```text
/// g ← g + weight_decay · p
/// m ← m + (1 − β₁) (g − m)
/// v ← β₂ v + (1 − β₂) g²                     (amsgrad: v̂ ← max(v̂, v), else v̂ = v)
/// p ← p − lr / (1 − β₁ᵗ) · m / (√v̂ / √(1 − β₂ᵗ) + eps)
/// ```
pub type Adam = Descent<AdamOptions>;

impl Rule for AdamOptions {
    const NAME: &'static str = "adam";
    const COUNTS: bool = true;

    type Prepared = (Correction, Correction);

    fn kept(&self) -> &'static [&'static str] {
        if self.amsgrad { &["exp_avg", "exp_avg_sq", "max_exp_avg_sq"] } else { &["exp_avg", "exp_avg_sq"] }
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
        let grad = decayed(grad, value, self.weight_decay)?;
        let (m, v) = averages(&grad, kept, self.betas)?;
        let largest = match (self.amsgrad, kept) {
            (true, Some([_, _, largest])) => largest.maximum(&v)?,
            _ => v.clone(),
        };
        let spread = root.divide(&largest.sqrt()?)?.add(self.eps)?;
        let next = value.sub(&size.multiply(&m)?.div(&spread)?)?;
        let mut kept = smallvec![m, v];
        if self.amsgrad {
            kept.push(largest);
        }
        Ok((next, kept))
    }
}
