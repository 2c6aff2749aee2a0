//! Dropping elements at random.

use crate::place::beside;
use crate::random::{Generator, below};
use crate::require;
use tpu_core::{Result, Tensor, ensure};

/// Each element zero with probability `p`, else divided by 1 − p; `x` itself unless `training`. PyTorch's `dropout`.
///
/// `x`: any shape, float. `p`: 0 to 1, rounded to a multiple of 2⁻³². Random numbers come from `generator`, else from the
/// [current](Generator::current) one. Errors on another dtype or `p`.
///
/// ```
/// use tpu_core::{DType, Tensor};
/// let x = Tensor::ones([8], DType::F32)?;
/// let y = tpu_ops::dropout(&x, 0.5, true, None)?.to_vec::<f32>()?;
/// assert!(y.iter().all(|&v| v == 0.0 || v == 2.0));
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn dropout(x: &Tensor, p: f64, training: bool, generator: Option<&Generator>) -> Result<Tensor> {
    Tensor::checked(|| {
        require::float("dropout", "an input", x)?;
        ensure!((0.0..=1.0).contains(&p), Value, "dropout", "requires a probability from 0 to 1, got {p}");
        Ok(())
    })?;
    if !training || p == 0.0 {
        return Ok(x.clone());
    }
    let keep = beside(x, || below(x.shape(), 1.0 - p, generator))?;
    let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
    keep.select(&x.mul(scale)?, 0.0)
}
