//! Lion (Chen et al.: *Symbolic discovery of optimization algorithms*, NeurIPS 2023, algorithm 2).

use super::settings::{betas, from_zero};
use super::{Count, Descent, Rule};
use smallvec::{SmallVec, smallvec};
use tpu_core::{Result, Tensor};

/// Settings of [`Lion`]; the default is that of the paper's code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LionOptions {
    /// Learning rate: a third to a tenth of what AdamW has.
    pub lr: f64,
    /// Parts of the average in the direction and in the next average.
    pub betas: (f64, f64),
    /// Part of each parameter taken away per step, times the learning rate: three to ten times of what AdamW has.
    pub weight_decay: f64,
}

impl Default for LionOptions {
    fn default() -> Self {
        Self { lr: 1e-4, betas: (0.9, 0.99), weight_decay: 0.0 }
    }
}

/// The sign of a blend of the average and the gradient:
///
/// ```text
/// p ← p − lr · (sign(β₁ m + (1 − β₁) g) + weight_decay · p)
/// m ← β₂ m + (1 − β₂) g
/// ```
pub type Lion = Descent<LionOptions>;

impl Rule for LionOptions {
    const NAME: &'static str = "lion";
    const COUNTS: bool = false;

    type Prepared = ();

    fn kept(&self) -> &'static [&'static str] {
        &["exp_avg"]
    }

    fn check(&self) -> Result<()> {
        betas(Self::NAME, self.betas)?;
        from_zero(Self::NAME, &[("lr", self.lr), ("weight_decay", self.weight_decay)])
    }

    fn lr(&self) -> f64 {
        self.lr
    }

    fn set_lr(&mut self, lr: f64) {
        self.lr = lr;
    }

    fn prepare(&self, _count: &Count) -> Result<()> {
        Ok(())
    }

    fn apply(
        &self,
        _prepared: &(),
        value: &Tensor,
        grad: &Tensor,
        kept: Option<&[Tensor]>,
    ) -> Result<(Tensor, SmallVec<[Tensor; 2]>)> {
        let Self { lr, betas, weight_decay } = *self;
        let average = match kept {
            Some([average]) => average.clone(),
            _ => grad.zeros_like()?,
        };
        let blend = |beta: f64| average.mul(beta)?.add(&grad.mul(1.0 - beta)?);
        let next = value.mul(1.0 - lr * weight_decay)?.sub(&blend(betas.0)?.sign()?.mul(lr)?)?;
        Ok((next, smallvec![blend(betas.1)?]))
    }
}
