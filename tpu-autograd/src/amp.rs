//! Mixed precision: compute in 16 bits, keep parameters and their updates in 32.

use crate::optim::Optimizer;
use crate::{Param, no_grad};
use std::cell::Cell;
use std::collections::BTreeMap;
use tpu_core::{DType, Error, ErrorKind, Result, Tensor, ensure, lazy};

thread_local! {
    static COMPUTE: Cell<Option<DType>> = const { Cell::new(None) };
}

/// Runs `f` with modules of this thread computing in `dtype`: they convert their parameters and inputs to it. Parameters
/// stay what they are, and so do their gradients, because conversions are differentiated. PyTorch's `autocast`.
///
/// Losses want more precision: convert what the model gives to float32 first.
///
/// ```
/// use tpu_autograd::nn::{Linear, Module};
/// use tpu_autograd::{Backward, amp};
/// use tpu_core::{DType, Tensor};
/// let layer = Linear::new(2, 1, true, DType::F32, &tpu_ops::Generator::new(0))?;
/// let y = amp::autocast(DType::BF16, || layer.forward(&Tensor::ones([4, 2], DType::F32)?))?;
/// assert_eq!(y.dtype(), DType::BF16);
/// y.to_dtype(DType::F32)?.mean_all()?.backward()?;
/// assert_eq!(layer.weight.grad().unwrap().dtype(), DType::F32);
/// # Ok::<(), tpu_core::Error>(())
/// ```
pub fn autocast<T>(dtype: DType, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<DType>);
    impl Drop for Restore {
        fn drop(&mut self) {
            COMPUTE.with(|compute| compute.set(self.0));
        }
    }
    let _restore = Restore(COMPUTE.with(|compute| compute.replace(Some(dtype))));
    f()
}

/// A float tensor in the dtype of the innermost [`autocast`]; any other as it is.
pub fn cast(x: &Tensor) -> Result<Tensor> {
    match COMPUTE.with(Cell::get) {
        Some(dtype) if x.dtype().is_float() => x.to_dtype(dtype),
        _ => Ok(x.clone()),
    }
}

/// A parameter's value as modules compute with it.
pub fn value(param: &Param) -> Result<Tensor> {
    cast(&param.value())
}

/// [`value`] of a parameter that may be missing.
pub(crate) fn optional(param: Option<&Param>) -> Result<Option<Tensor>> {
    param.map(value).transpose()
}

/// Settings of [`LossScaler`]; the default is PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScalerOptions {
    /// The first scale.
    pub scale: f64,
    /// What the scale is multiplied by after `interval` good steps.
    pub growth: f64,
    /// What the scale is multiplied by after a step with infinite gradients.
    pub backoff: f64,
    /// Number of good steps before the scale grows.
    pub interval: u32,
}

impl Default for LossScalerOptions {
    fn default() -> Self {
        Self { scale: 65536.0, growth: 2.0, backoff: 0.5, interval: 2000 }
    }
}

/// Multiplies the loss so that gradients do not vanish in float16, and skips steps whose gradients overflow. PyTorch's
/// `GradScaler`; but whether a step is skipped is decided on the device, so that a step stays one program.
///
/// ```
/// use tpu_autograd::amp::{LossScaler, LossScalerOptions};
/// use tpu_autograd::optim::{Optimizer, Sgd, SgdOptions};
/// use tpu_autograd::{Backward, Param};
/// use tpu_core::Tensor;
/// let w = Param::new(Tensor::from_slice(&[2.0f32])?);
/// let mut optimizer = Sgd::new(vec![("w".into(), w.clone())], SgdOptions { lr: 0.25, ..Default::default() })?;
/// let scaler = LossScaler::new(LossScalerOptions::default())?;
/// scaler.scale(&w.value().square()?.sum_all()?)?.backward()?;
/// scaler.step(&mut optimizer)?;
/// assert_eq!(w.value().to_vec::<f32>()?, [1.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
pub struct LossScaler {
    options: LossScalerOptions,
    /// Scalar float32.
    scale: Param,
    /// Good steps since the scale changed: scalar float32, exact up to 2²⁴.
    good: Param,
}

impl LossScaler {
    /// A scaler. Errors if the scale or a factor is not positive and finite, or the interval is 0.
    pub fn new(options: LossScalerOptions) -> Result<Self> {
        let factors = [options.scale, options.growth, options.backoff];
        let valid = factors.iter().all(|factor| factor.is_finite() && *factor > 0.0) && options.interval > 0;
        ensure!(valid, Value, "loss_scaler", "requires positive factors and an interval from 1 on, got {options:?}");
        let scale = Param::new(Tensor::scalar(options.scale as f32)?);
        Ok(Self { options, scale, good: Param::new(Tensor::scalar(0f32)?) })
    }

    /// The scaled loss, to go backwards from.
    pub fn scale(&self, loss: &Tensor) -> Result<Tensor> {
        loss.mul(&self.scale.value().detach().to_dtype(loss.dtype())?)
    }

    /// The scale now: a scalar float32.
    pub fn current(&self) -> Tensor {
        self.scale.value().detach()
    }

    /// Divides the gradients by the scale; gives a scalar bool, whether any is infinite or NaN.
    pub fn unscale(&self, params: &[(String, Param)]) -> Result<Tensor> {
        no_grad(|| {
            let inverse = self.scale.value().recip()?;
            let mut bad: Option<Tensor> = None;
            for (_, param) in params {
                let Some(grad) = param.take_grad() else { continue };
                let here = grad.is_finite()?.all_all()?.not()?;
                bad = Some(match bad {
                    Some(bad) => bad.bitwise_or(&here)?,
                    None => here,
                });
                param.set_grad(Some(grad.mul(&inverse.to_dtype(grad.dtype())?)?))?;
            }
            match bad {
                Some(bad) => Ok(bad),
                None => Tensor::zeros((), DType::Bool),
            }
        })
    }

    /// Unscales, updates the parameters unless a gradient overflowed, adapts the scale, and ends the step.
    pub fn step(&self, optimizer: &mut dyn Optimizer) -> Result<()> {
        let bad = self.unscale(optimizer.params())?;
        self.step_unscaled(optimizer, &bad)
    }

    /// The same after [`unscale`](Self::unscale), with what it gave, so that gradients can be clipped in between.
    pub fn step_unscaled(&self, optimizer: &mut dyn Optimizer, bad: &Tensor) -> Result<()> {
        optimizer.update(Some(bad))?;
        no_grad(|| {
            let (scale, good) = (self.scale.value(), self.good.value());
            let next = good.add(1.0)?;
            let due = next.ge(f64::from(self.options.interval))?;
            let grown = scale.mul(self.options.growth)?;
            // A scale that overflows would never come back.
            let grown = due.bitwise_and(&grown.is_finite()?)?.select(&grown, &scale)?;
            self.scale.set(bad.select(&scale.mul(self.options.backoff)?, &grown)?)?;
            self.good.set(bad.bitwise_or(&due)?.select(0.0, &next)?)
        })?;
        lazy::mark_step();
        Ok(())
    }

    /// What the next step depends on, for a checkpoint.
    pub fn state(&self) -> BTreeMap<String, Tensor> {
        BTreeMap::from([("scale".into(), self.current()), ("good".into(), self.good.value().detach())])
    }

    /// Goes on from what [`state`](Self::state) gave.
    pub fn load_state(&self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        let find = |name: &str| match state.get(name) {
            Some(tensor) if tensor.rank() == 0 && tensor.dtype() == DType::F32 => Ok(tensor.clone()),
            found => {
                let message = format!("requires a float32 scalar {name}, got {found:?}");
                Err(Error::new(ErrorKind::Format, "loss_scaler", message))
            }
        };
        let (scale, good) = (find("scale")?, find("good")?);
        self.scale.set(scale)?;
        self.good.set(good)
    }
}
