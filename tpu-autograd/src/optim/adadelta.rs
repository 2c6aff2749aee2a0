//! Adadelta (Zeiler: *ADADELTA: an adaptive learning rate method*, 2012).

use super::correction::decayed;
use super::settings::from_zero;
use super::{Count, Descent, Rule};
use smallvec::{SmallVec, smallvec};
use tpu_core::{Result, Tensor, ensure};

/// Settings of [`Adadelta`]; the default is PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdadeltaOptions {
    /// Learning rate.
    pub lr: f64,
    /// Decay of both averages.
    pub rho: f64,
    /// Added to both averages.
    pub eps: f64,
    /// Added to the gradient, times the parameter.
    pub weight_decay: f64,
}

impl Default for AdadeltaOptions {
    fn default() -> Self {
        Self { lr: 1.0, rho: 0.9, eps: 1e-6, weight_decay: 0.0 }
    }
}

/// PyTorch's `optim.Adadelta`:
///
/// ```text
/// g ← g + weight_decay · p
/// s ← ρ s + (1 − ρ) g²
/// d ← √(a + eps) / √(s + eps) · g
/// a ← ρ a + (1 − ρ) d²
/// p ← p − lr · d
/// ```
pub type Adadelta = Descent<AdadeltaOptions>;

impl Rule for AdadeltaOptions {
    const NAME: &'static str = "adadelta";
    const COUNTS: bool = false;

    type Prepared = ();

    fn kept(&self) -> &'static [&'static str] {
        &["square_avg", "acc_delta"]
    }

    fn check(&self) -> Result<()> {
        let Self { lr, rho, eps, weight_decay } = *self;
        ensure!((0.0..=1.0).contains(&rho), Value, Self::NAME, "requires rho from 0 to 1, got {rho}");
        from_zero(Self::NAME, &[("lr", lr), ("eps", eps), ("weight_decay", weight_decay)])
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
        let Self { lr, rho, eps, weight_decay } = *self;
        let grad = decayed(grad, value, weight_decay)?;
        let (square, steps) = match kept {
            Some([square, steps]) => (square.clone(), steps.clone()),
            _ => (grad.zeros_like()?, grad.zeros_like()?),
        };
        let square = square.mul(rho)?.add(&grad.mul(1.0 - rho)?.mul(&grad)?)?;
        let delta = steps.add(eps)?.sqrt()?.div(&square.add(eps)?.sqrt()?)?.mul(&grad)?;
        let steps = steps.mul(rho)?.add(&delta.mul(1.0 - rho)?.mul(&delta)?)?;
        Ok((value.sub(&delta.mul(lr)?)?, smallvec![square, steps]))
    }
}
