//! Keeping gradients small. Nothing is read back by the host.

use crate::{Param, no_grad};
use tpu_core::{DType, Result, Tensor, ensure};

/// Scales the gradients down so that the norm of all of them together is at most `max_norm`; gives the norm before, a
/// scalar float32. PyTorch's `clip_grad_norm_` with the 2-norm.
///
/// ```
/// use tpu_autograd::{Param, clip_grad_norm};
/// use tpu_core::Tensor;
/// let w = Param::new(Tensor::from_slice(&[0.0f32, 0.0])?);
/// w.set_grad(Some(Tensor::from_slice(&[3.0f32, 4.0])?))?;
/// let norm = clip_grad_norm(&[w.clone()], 1.0)?;
/// assert_eq!(norm.item::<f32>()?, 5.0);
/// assert!((w.grad().unwrap().to_vec::<f32>()?[0] - 0.6).abs() < 1e-6);
/// # Ok::<(), tpu_core::Error>(())
/// ```
pub fn clip_grad_norm(params: &[Param], max_norm: f64) -> Result<Tensor> {
    ensure!(max_norm >= 0.0, Value, "clip_grad_norm", "requires a norm from 0 on, got {max_norm}");
    no_grad(|| {
        let mut total: Option<Tensor> = None;
        for param in params {
            let Some(grad) = param.grad() else { continue };
            let size = if grad.dtype().is_complex() { grad.abs()? } else { grad };
            let part = size.to_dtype(DType::F32)?.square()?.sum_all()?;
            total = Some(match total {
                Some(total) => total.add(&part)?,
                None => part,
            });
        }
        let Some(total) = total else { return Tensor::zeros((), DType::F32) };
        let norm = total.sqrt()?;
        let factor = norm.add(1e-6)?.recip()?.mul(max_norm)?.minimum(1.0)?;
        for param in params {
            if let Some(grad) = param.take_grad() {
                param.set_grad(Some(grad.mul(&factor.to_dtype(grad.dtype())?)?))?;
            }
        }
        Ok(norm)
    })
}

/// Limits each element of each gradient to `-limit` to `limit`. PyTorch's `clip_grad_value_`.
pub fn clip_grad_value(params: &[Param], limit: f64) -> Result<()> {
    ensure!(limit >= 0.0, Value, "clip_grad_value", "requires a limit from 0 on, got {limit}");
    no_grad(|| {
        for param in params {
            if let Some(grad) = param.take_grad() {
                param.set_grad(Some(grad.clamp(-limit, limit)?))?;
            }
        }
        Ok(())
    })
}
