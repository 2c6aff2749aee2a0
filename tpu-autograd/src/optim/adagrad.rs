//! Adagrad (Duchi, Hazan and Singer: *Adaptive subgradient methods*, JMLR 2011).

use super::correction::{Correction, decayed};
use super::settings::from_zero;
use super::{Count, Descent, Rule};
use smallvec::{SmallVec, smallvec};
use tpu_core::{Result, Tensor};

/// Settings of [`Adagrad`]; the default is PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdagradOptions {
    /// Learning rate.
    pub lr: f64,
    /// The learning rate of step t is lr / (1 + (t − 1) · lr_decay).
    pub lr_decay: f64,
    /// Added to the gradient, times the parameter.
    pub weight_decay: f64,
    /// What the sum of squares starts with.
    pub initial_accumulator_value: f64,
    /// Added to the root of the sum.
    pub eps: f64,
}

impl Default for AdagradOptions {
    fn default() -> Self {
        Self { lr: 1e-2, lr_decay: 0.0, weight_decay: 0.0, initial_accumulator_value: 0.0, eps: 1e-10 }
    }
}

/// PyTorch's `optim.Adagrad`:
///
/// ```text
/// g ← g + weight_decay · p
/// s ← s + g²
/// p ← p − lr / (1 + (t − 1) lr_decay) · g / (√s + eps)
/// ```
pub type Adagrad = Descent<AdagradOptions>;

impl Rule for AdagradOptions {
    const NAME: &'static str = "adagrad";
    const COUNTS: bool = true;

    type Prepared = Correction;

    fn kept(&self) -> &'static [&'static str] {
        &["sum"]
    }

    fn initial(&self, grad: &Tensor) -> Result<SmallVec<[Tensor; 2]>> {
        let start = self.initial_accumulator_value;
        Ok(smallvec![if start == 0.0 { grad.zeros_like()? } else { grad.ones_like()?.mul(start)? }])
    }

    fn check(&self) -> Result<()> {
        let Self { lr, lr_decay, weight_decay, initial_accumulator_value: start, eps } = *self;
        from_zero(Self::NAME, &[("lr", lr), ("lr_decay", lr_decay), ("weight_decay", weight_decay), ("eps", eps)])?;
        from_zero(Self::NAME, &[("initial_accumulator_value", start)])
    }

    fn lr(&self) -> f64 {
        self.lr
    }

    fn set_lr(&mut self, lr: f64) {
        self.lr = lr;
    }

    fn prepare(&self, count: &Count) -> Result<Correction> {
        let Self { lr, lr_decay, .. } = *self;
        let device = |steps: &Tensor| steps.sub(1.0)?.mul(lr_decay)?.add(1.0)?.recip()?.mul(lr);
        Correction::steps(count)?.map(|steps| lr / (1.0 + (steps - 1.0) * lr_decay), device)
    }

    fn apply(
        &self,
        size: &Correction,
        value: &Tensor,
        grad: &Tensor,
        kept: Option<&[Tensor]>,
    ) -> Result<(Tensor, SmallVec<[Tensor; 2]>)> {
        let grad = decayed(grad, value, self.weight_decay)?;
        let sum = match kept {
            Some([sum]) => sum.clone(),
            _ => self.initial(&grad)?.remove(0),
        };
        let sum = sum.add(&grad.square()?)?;
        let next = value.sub(&size.multiply(&grad)?.div(&sum.sqrt()?.add(self.eps)?)?)?;
        Ok((next, smallvec![sum]))
    }
}
