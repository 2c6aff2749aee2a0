//! Stochastic gradient descent with momentum.

use super::settings::from_zero;
use super::{Count, Descent, Rule};
use smallvec::{SmallVec, smallvec};
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
///
/// Nesterov's momentum without momentum or with dampening is an error. A skipped first step counts as one whose gradient was
/// zero, so that the dampening applies to the next.
pub type Sgd = Descent<SgdOptions>;

impl Rule for SgdOptions {
    const NAME: &'static str = "sgd";
    const COUNTS: bool = false;

    type Prepared = ();

    fn kept(&self) -> &'static [&'static str] {
        if self.momentum == 0.0 { &[] } else { &["momentum_buffer"] }
    }

    fn check(&self) -> Result<()> {
        let Self { lr, momentum, weight_decay, dampening, nesterov: _ } = *self;
        from_zero(Self::NAME, &[("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)])?;
        ensure!(!dampening.is_nan(), Value, Self::NAME, "requires a number as dampening, got {dampening}");
        ensure!(
            !self.nesterov || (self.momentum > 0.0 && self.dampening == 0.0),
            Value,
            Self::NAME,
            "requires momentum and no dampening for Nesterov's, got momentum {} and dampening {}",
            self.momentum,
            self.dampening
        );
        Ok(())
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
        let Self { lr, momentum, dampening, weight_decay, nesterov } = *self;
        let grad = if weight_decay == 0.0 { grad.clone() } else { grad.add(&value.mul(weight_decay)?)? };
        if momentum == 0.0 {
            return Ok((value.sub(&grad.mul(lr)?)?, SmallVec::new()));
        }
        let buffer = match kept {
            Some([last, ..]) => {
                let taken = if dampening == 0.0 { grad.clone() } else { grad.mul(1.0 - dampening)? };
                last.mul(momentum)?.add(&taken)?
            }
            _ => grad.clone(),
        };
        let direction = if nesterov { grad.add(&buffer.mul(momentum)?)? } else { buffer.clone() };
        Ok((value.sub(&direction.mul(lr)?)?, smallvec![buffer]))
    }
}
