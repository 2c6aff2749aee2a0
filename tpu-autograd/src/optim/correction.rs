//! Numbers that depend on how many steps count.

use super::Count;
use tpu_core::{Result, Tensor};

/// A number known when recording, or, after a step that may have been skipped, only on the device.
pub enum Correction {
    /// Known.
    Number(f64),
    /// A scalar float32.
    Tensor(Tensor),
}

impl Correction {
    /// The number of steps that count, the current one included.
    pub fn steps(count: &Count) -> Result<Self> {
        Ok(match &count.skipped {
            None => Self::Number(count.steps as f64),
            Some(skipped) => Self::Tensor(skipped.value().neg()?.add(count.steps as f64)?),
        })
    }

    /// 1 − βᵗ after t steps, on the device as −expm1(t ln β).
    pub fn bias(count: &Count, beta: f64) -> Result<Self> {
        let power = |steps: f64| beta.powi(if steps < f64::from(i32::MAX) { steps as i32 } else { i32::MAX });
        Self::steps(count)?.map(|steps| 1.0 - power(steps), |steps| steps.mul(beta.ln())?.expm1()?.neg())
    }

    /// A function of it, of which there are two forms.
    pub fn map(self, number: impl Fn(f64) -> f64, tensor: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Self> {
        Ok(match self {
            Self::Number(known) => Self::Number(number(known)),
            Self::Tensor(known) => Self::Tensor(tensor(&known)?),
        })
    }

    /// It times a tensor.
    pub fn multiply(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Number(number) => x.mul(*number),
            Self::Tensor(tensor) => x.mul(&tensor.to_dtype(x.dtype())?),
        }
    }

    /// A tensor divided by it.
    pub fn divide(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Number(number) => x.div(*number),
            Self::Tensor(tensor) => x.div(&tensor.to_dtype(x.dtype())?),
        }
    }
}

/// `grad + decay · value`: weight decay as part of the gradient.
pub(super) fn decayed(grad: &Tensor, value: &Tensor, decay: f64) -> Result<Tensor> {
    if decay == 0.0 { Ok(grad.clone()) } else { grad.add(&value.mul(decay)?) }
}
