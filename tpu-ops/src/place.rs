//! Where the tensors are that an operator makes by itself.

use tpu_core::{Tensor, lazy};

/// Runs `f` on the device of `x`, with this function's caller as the place of what it records.
#[track_caller]
pub fn beside<T>(x: &Tensor, f: impl FnOnce() -> T) -> T {
    lazy::at_caller(|| x.device().scope(f))
}
