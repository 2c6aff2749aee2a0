//! Which numbers optimizers take: the ranges of PyTorch's constructors. NaN is in none of them.

use tpu_core::{Result, ensure};

/// From 0 on.
pub(super) fn from_zero(op: &'static str, settings: &[(&str, f64)]) -> Result<()> {
    for &(name, value) in settings {
        ensure!(value >= 0.0, Value, op, "requires {name} from 0 on, got {value}");
    }
    Ok(())
}

/// From 0 on and below 1.
pub(super) fn betas(op: &'static str, betas: (f64, f64)) -> Result<()> {
    for (at, beta) in [betas.0, betas.1].into_iter().enumerate() {
        ensure!((0.0..1.0).contains(&beta), Value, op, "requires betas.{at} from 0 on and below 1, got {beta}");
    }
    Ok(())
}
