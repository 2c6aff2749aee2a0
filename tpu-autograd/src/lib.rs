//! Reverse-mode automatic differentiation for tpu-core tensors: gradients, parameters, modules, optimisers, mixed
//! precision and checkpoints.
//!
//! A tensor whose computation started at a [`Param`] carries a history. [`Backward::backward`] walks it from the last
//! operation to the first; each operation's rule (one per core operation, in `rules`) turns the gradient of its result
//! into those of its operands, by recording tensor operations. So forward pass, backward pass and update are one
//! program, and gradients can be differentiated again.

pub mod amp;
mod backward;
mod clip;
pub mod data;
pub mod file;
mod history;
mod mode;
pub mod nn;
pub mod optim;
mod param;
mod recompute;
mod rules;
mod tape;

pub use backward::{Backward, GradOptions, grad, grad_from, value_and_grad};
pub use clip::{clip_grad_norm, clip_grad_value};
pub use mode::{enable_grad, is_grad_enabled, no_grad};
pub use param::{Param, requires_grad};
pub use recompute::checkpoint;
