//! Optimizers: rules that turn gradients into new values of parameters.
//!
//! Forward pass, backward pass and update are one program, which [`Optimizer::step`] ends. Learning rates and other
//! numbers are inputs of that program: changing them compiles nothing.

mod adadelta;
mod adagrad;
mod adam;
mod adamax;
mod adamw;
mod correction;
mod descent;
mod lion;
mod plateau;
mod rmsprop;
mod schedule;
mod settings;
mod sgd;

pub use adadelta::{Adadelta, AdadeltaOptions};
pub use adagrad::{Adagrad, AdagradOptions};
pub use adam::{Adam, AdamOptions};
pub use adamax::{Adamax, AdamaxOptions};
pub use adamw::{AdamW, AdamWOptions};
pub use correction::Correction;
pub use descent::{Count, Descent, Group, Rule};
pub use lion::{Lion, LionOptions};
pub use plateau::{Better, Plateau, Threshold};
pub use rmsprop::{RmsProp, RmsPropOptions};
pub use schedule::{Anneal, CosineWithWarmup, Exponential, LinearWarmup, MultiStep, OneCycle, StepDecay};
pub use sgd::{Sgd, SgdOptions};

use crate::Param;
use std::collections::BTreeMap;
use tpu_core::{Result, Tensor, lazy};

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

    /// The parameters of all groups with their names.
    fn params(&self) -> &[(String, Param)];

    /// The learning rate of each group.
    fn lrs(&self) -> Vec<f64>;

    /// Changes the learning rate of each group, from the next update on. Errors, and changes nothing, unless there is one from 0
    /// on for each.
    #[track_caller]
    fn set_lrs(&mut self, lrs: &[f64]) -> Result<()>;

    /// The learning rate of the first group.
    fn lr(&self) -> f64 {
        self.lrs()[0]
    }

    /// Changes the learning rate of all groups, from the next update on. Errors, and changes nothing, if it is negative or NaN.
    #[track_caller]
    fn set_lr(&mut self, lr: f64) -> Result<()>;

    /// Everything besides the parameters that the next update depends on, by name, for a checkpoint.
    fn state(&self) -> Result<BTreeMap<String, Tensor>>;

    /// Goes on from what [`state`](Self::state) gave. Errors, and changes nothing, if it is not of these parameters.
    fn load_state(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()>;

    /// Forgets all gradients.
    fn zero_grad(&self) {
        self.params().iter().for_each(|(_, param)| param.zero_grad());
    }
}
