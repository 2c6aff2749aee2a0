//! Optimizers: rules that turn gradients into new values of parameters.
//!
//! Forward pass, backward pass and update are one program, which [`Optimizer::step`] ends. Learning rates and other
//! numbers are inputs of that program: changing them compiles nothing.

mod adamw;
mod schedule;
mod sgd;

pub use adamw::{AdamW, AdamWOptions};
pub use schedule::CosineWithWarmup;
pub use sgd::{Sgd, SgdOptions};

use crate::Param;
use std::collections::BTreeMap;
use tpu_core::{DType, Error, ErrorKind, Result, Tensor, ensure, lazy};

/// A rule that updates parameters from their gradients.
pub trait Optimizer {
    /// Updates all parameters that have a gradient and ends the step: its program is queued, not waited for.
    fn step(&mut self) -> Result<()> {
        self.update(None)?;
        lazy::mark_step();
        Ok(())
    }

    /// Records the update. With `skip`, a scalar bool, everything stays as it is where that is true; nothing is read.
    fn update(&mut self, skip: Option<&Tensor>) -> Result<()>;

    /// The parameters with their names.
    fn params(&self) -> &[(String, Param)];

    /// The learning rate.
    fn lr(&self) -> f64;

    /// Changes the learning rate, from the next update on.
    fn set_lr(&mut self, lr: f64);

    /// Everything besides the parameters that the next update depends on, by name, for a checkpoint.
    fn state(&self) -> Result<BTreeMap<String, Tensor>>;

    /// Goes on from what [`state`](Self::state) gave. Errors, and changes nothing, if it is not of these parameters.
    fn load_state(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()>;

    /// Forgets all gradients.
    fn zero_grad(&self) {
        self.params().iter().for_each(|(_, param)| param.zero_grad());
    }
}

/// `new`, or `old` where the scalar bool `skip` is true.
fn unless(skip: Option<&Tensor>, old: &Tensor, new: Tensor) -> Result<Tensor> {
    match skip {
        Some(skip) => skip.select(old, &new),
        None => Ok(new),
    }
}

/// Errors unless all parameters are of real floats.
fn real(op: &'static str, params: &[(String, Param)]) -> Result<()> {
    for (name, param) in params {
        let dtype = param.dtype();
        ensure!(dtype.is_float(), DType, op, "requires parameters of float dtype, got {dtype} for {name}");
    }
    Ok(())
}

/// A tensor of a saved state, of the given type.
fn saved<'a>(
    op: &'static str,
    state: &'a BTreeMap<String, Tensor>,
    name: &str,
    sizes: &[usize],
    dtype: DType,
) -> Result<&'a Tensor> {
    let tensor = state
        .get(name)
        .ok_or_else(|| Error::new(ErrorKind::Format, op, format!("requires a state that has {name}, got none")))?;
    ensure!(
        tensor.sizes() == sizes && tensor.dtype() == dtype,
        Format,
        op,
        "requires {name} to be of {dtype} and sizes {sizes:?}, got {}",
        tensor.ty()
    );
    Ok(tensor)
}

/// The number of steps in a saved state.
fn saved_step(op: &'static str, state: &BTreeMap<String, Tensor>) -> Result<u64> {
    let step = saved(op, state, "step", &[], DType::I64)?.item::<i64>()?;
    u64::try_from(step)
        .map_err(|_| Error::new(ErrorKind::Format, op, format!("requires a step count from 0 on, got {step}")))
}
