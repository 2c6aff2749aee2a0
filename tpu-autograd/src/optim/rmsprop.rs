//! RMSprop (Hinton: *Neural networks for machine learning*, lecture 6, 2012).

use super::correction::decayed;
use super::settings::from_zero;
use super::{Count, Descent, Rule};
use smallvec::{SmallVec, smallvec};
use tpu_core::{Result, Tensor};

/// Settings of [`RmsProp`]; the default is PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsPropOptions {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the average of the squared gradient.
    pub alpha: f64,
    /// Added to the root of that average.
    pub eps: f64,
    /// Added to the gradient, times the parameter.
    pub weight_decay: f64,
    /// Part of the last direction that stays.
    pub momentum: f64,
    /// Divide by the deviation of the gradient instead of its root mean square.
    pub centered: bool,
}

impl Default for RmsPropOptions {
    fn default() -> Self {
        Self { lr: 1e-2, alpha: 0.99, eps: 1e-8, weight_decay: 0.0, momentum: 0.0, centered: false }
    }
}

/// PyTorch's `optim.RMSprop`:
///
/// ```text
/// g ← g + weight_decay · p
/// s ← α s + (1 − α) g²
/// a ← a + (1 − α) (g − a)                    (centered: s − a² takes the place of s below)
/// b ← momentum · b + g / (√s + eps)
/// p ← p − lr · b
/// ```
pub type RmsProp = Descent<RmsPropOptions>;

impl Rule for RmsPropOptions {
    const NAME: &'static str = "rmsprop";
    const COUNTS: bool = false;

    type Prepared = ();

    fn kept(&self) -> &'static [&'static str] {
        match (self.momentum == 0.0, self.centered) {
            (true, false) => &["square_avg"],
            (true, true) => &["square_avg", "grad_avg"],
            (false, false) => &["square_avg", "momentum_buffer"],
            (false, true) => &["square_avg", "grad_avg", "momentum_buffer"],
        }
    }

    fn check(&self) -> Result<()> {
        let Self { lr, alpha, eps, weight_decay, momentum, centered: _ } = *self;
        from_zero(Self::NAME, &[("lr", lr), ("alpha", alpha), ("eps", eps)])?;
        from_zero(Self::NAME, &[("weight_decay", weight_decay), ("momentum", momentum)])
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
        let Self { lr, alpha, eps, weight_decay, momentum, centered } = *self;
        let grad = decayed(grad, value, weight_decay)?;
        let mut last = match kept {
            Some(kept) => kept.iter().cloned().collect(),
            None => self.initial(&grad)?,
        }
        .into_iter();
        let mut next = || last.next().map_or_else(|| grad.zeros_like(), Ok);
        let square = next()?.mul(alpha)?.add(&grad.mul(1.0 - alpha)?.mul(&grad)?)?;
        let mut keep = smallvec![square.clone()];
        let spread = if centered {
            let average = next()?;
            let average = average.add(&grad.sub(&average)?.mul(1.0 - alpha)?)?;
            let spread = square.sub(&average.square()?)?.sqrt()?;
            keep.push(average);
            spread
        } else {
            square.sqrt()?
        };
        let mut direction = grad.div(&spread.add(eps)?)?;
        if momentum != 0.0 {
            direction = next()?.mul(momentum)?.add(&direction)?;
            keep.push(direction.clone());
        }
        Ok((value.sub(&direction.mul(lr)?)?, keep))
    }
}
