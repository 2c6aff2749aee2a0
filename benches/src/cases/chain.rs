//! Elementwise chains with and without a norm: memory traffic if every operation is a pass, one pass if they are fused.

use super::{Result, Run, tensor};
use crate::measure::Parameters;
use tpu_core::{DType, Tensor};
use tpu_ops::{Gelu, gelu, layer_norm, silu, softmax};

/// `x` and `r` of rows by columns, `w`, `b`, `gain` and `bias` of one row:
///
/// - `gelu`: gelu_tanh(x · w + b) + r
/// - `layer_norm`: layer_norm(gelu_tanh(x · w + b) + r) · gain + bias
/// - `softmax`: softmax(x · 0.125 + b) over the columns
/// - `swiglu`: silu(x · w) · r + x
pub(super) fn chain(parameters: &Parameters) -> Result<Run> {
    let [rows, columns] = parameters.sizes(["rows", "columns"])?;
    let f32 = |shape: &[usize], salt| tensor(shape.to_vec(), salt, 1.7, DType::F32);
    let (matrix, row) = (|salt| f32(&[rows, columns], salt), |salt| f32(&[columns], salt));
    let x = matrix(1)?;
    let (w, b) = (row(3)?, row(4)?);
    let inner = move |x: &Tensor, r: &Tensor, b: &Tensor| gelu(&x.mul(&w)?.add(b)?, Gelu::Tanh)?.add(r);
    Ok(match parameters.text("op")? {
        "gelu" => {
            let r = matrix(2)?;
            Box::new(move || Ok(vec![inner(&x, &r, &b)?]))
        }
        "layer_norm" => {
            let (r, gain, bias) = (matrix(2)?, row(5)?, row(6)?);
            Box::new(move || Ok(vec![layer_norm(&inner(&x, &r, &b)?, &[columns], Some(&gain), Some(&bias), 1e-5)?]))
        }
        "softmax" => Box::new(move || Ok(vec![softmax(&x.mul(0.125)?.add(&b)?, -1)?])),
        "swiglu" => {
            let (r, w) = (matrix(2)?, row(3)?);
            Box::new(move || Ok(vec![silu(&x.mul(&w)?)?.mul(&r)?.add(&x)?]))
        }
        other => return Err(format!("requires op gelu, layer_norm, softmax or swiglu, got `{other}`").into()),
    })
}
