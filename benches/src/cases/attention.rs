//! Attention, forward and backward.

use super::{Result, Run, tensor};
use crate::measure::Parameters;
use tpu_autograd::{GradOptions, grad_from, requires_grad};
use tpu_core::DType;
use tpu_ops::{Attention, scaled_dot_product_attention};

/// Scaled dot-product attention of `[batch, heads, time, width]`, causal unless `causal=0`, and the gradients of query, key and
/// value.
pub(super) fn attention(parameters: &Parameters) -> Result<Run> {
    let shape = parameters.sizes(["batch", "heads", "time", "width"])?;
    let causal = parameters.size_or("causal", 1)? != 0;
    let make = |salt| tensor(shape, salt, 1.7, DType::F32);
    let [q, k, v, gradient] = [make(1)?, make(2)?, make(3)?, make(4)?];
    let [q, k, v] = [requires_grad(&q)?, requires_grad(&k)?, requires_grad(&v)?];
    Ok(Box::new(move || {
        let y = scaled_dot_product_attention(&q, &k, &v, Attention { causal, ..Attention::default() })?;
        let gradients = grad_from(&[&y], &[&gradient], &[&q, &k, &v], GradOptions::default())?;
        Ok([y.detach()].into_iter().chain(gradients).collect())
    }))
}
