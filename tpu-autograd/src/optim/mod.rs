//! Optimizers: rules that turn gradients into new values of parameters.
//!
//! Forward pass, backward pass and update are one program, which [`Optimizer::step`] ends. Learning rates and other
//! numbers are inputs of that program: changing them compiles nothing.
//!
//! ```
//! use tpu_autograd::Backward;
//! use tpu_autograd::nn::{Linear, Module};
//! use tpu_autograd::optim::{AdamW, AdamWOptions, CosineWithWarmup, Optimizer};
//! use tpu_core::{DType, Tensor};
//! let model = Linear::new(2, 1, true, DType::F32, &tpu_ops::Generator::new(0))?;
//! let mut optimizer = AdamW::new(model.named_parameters(), AdamWOptions::default())?;
//! let rate = CosineWithWarmup { peak: 0.1, floor: 0.01, warmup: 5, total: 100 };
//! let (x, y) = (Tensor::ones([4, 2], DType::F32)?, Tensor::full([4, 1], 3.0, DType::F32)?);
//! let mut losses = Vec::new();
//! for step in 0..100 {
//!     optimizer.set_lr(rate.at(step))?;
//!     optimizer.zero_grad();
//!     let loss = tpu_ops::mse_loss(&model.forward(&x)?, &y, tpu_ops::Reduction::Mean)?;
//!     loss.backward()?;
//!     optimizer.step()?;
//!     losses.push(loss);
//! }
//! assert!(losses[99].item::<f32>()? < 0.1 * losses[0].item::<f32>()?);
//! # Ok::<(), tpu_core::Error>(())
//! ```

mod adadelta;
mod adagrad;
mod adam;
mod adamax;
mod adamw;
mod correction;
mod descent;
mod lion;
mod made;
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
    ///
    /// A step that fails while running, for an index out of range say, is reported by the second step after it, which costs no
    /// wait, unless a read, such as that of the loss, or a save has told of it before. The error is the first one, with the
    /// place where the operation that failed was recorded. The failed step and those after it, whose values have failed with it,
    /// are undone: parameters and state are what they were before it, and training can go on. The step that reports does
    /// nothing else, but that it forgets the gradients, which came from values that failed.
    ///
    /// ```
    /// use tpu_autograd::optim::{Optimizer, Sgd, SgdOptions};
    /// use tpu_autograd::{Backward, Param};
    /// use tpu_core::{ErrorKind, Tensor};
    /// let table = Param::new(Tensor::from_slice(&[1.0f32, 2.0])?);
    /// let mut optimizer = Sgd::new(vec![("table".into(), table.clone())], SgdOptions { lr: 1.0, ..Default::default() })?;
    /// let mut step = |index: i64| {
    ///     optimizer.zero_grad();
    ///     table.value().take(&Tensor::from_slice(&[index])?, 0)?.sum_all()?.backward()?;
    ///     optimizer.step()
    /// };
    /// step(0)?;
    /// step(9)?; // There is no row 9, which the device finds out later.
    /// step(0)?;
    /// assert_eq!(step(0).unwrap_err().kind(), ErrorKind::Index);
    /// step(1)?;
    /// assert_eq!(table.value().to_vec::<f32>()?, [0.0, 1.0]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    fn step(&mut self) -> Result<()> {
        self.update(None)?;
        lazy::mark_step();
        Ok(())
    }

    /// Records the update. With `skip`, a scalar bool, everything stays as it is where that is true; nothing is read. Errors
    /// if an earlier update failed, as [`step`](Self::step) says.
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
