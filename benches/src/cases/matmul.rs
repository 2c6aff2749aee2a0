//! Products of matrices.

use super::{Result, Run, dtype, tensor};
use crate::measure::Parameters;
use tpu_core::Shape;
use tpu_ops::{Gelu, gelu, relu};

/// What follows a product.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Nothing,
    Bias,
    Gelu,
    Residual,
}

const THEN: &[(&str, Then)] = &[("bias", Then::Bias), ("gelu", Then::Gelu), ("residual", Then::Residual)];

/// `[batch, m, k] x [batch, k, n]`, or without a batch; operands lie as `layout` says. `then` is what becomes of the product:
/// nothing, `bias` and relu, `gelu` after a bias, or a `residual` added.
pub(super) fn matmul(parameters: &Parameters) -> Result<Run> {
    let [m, k, n] = parameters.sizes(["m", "k", "n"])?;
    let (left, right) = parameters.transposed()?;
    let (batch, dtype) = (parameters.size_or("batch", 1)?, dtype(parameters)?);
    let operand = |rows, columns, transposed, salt| {
        let lies = if transposed { [columns, rows] } else { [rows, columns] };
        let shape: Shape = (batch > 1).then_some(batch).into_iter().chain(lies).collect();
        tensor(shape, salt, 1.0, dtype)
    };
    let (a, b) = (operand(m, k, left, 1)?, operand(k, n, right, 2)?);
    let then = match parameters.text("then") {
        Ok(_) => parameters.choice("then", THEN)?,
        Err(_) => Then::Nothing,
    };
    let other = tensor(if then == Then::Residual { Shape::from([m, n]) } else { Shape::from([n]) }, 3, 1.0, dtype)?;
    Ok(Box::new(move || {
        let a = if left { a.transpose(-1, -2)? } else { a.clone() };
        let b = if right { b.transpose(-1, -2)? } else { b.clone() };
        let product = a.matmul(&b)?;
        Ok(vec![match then {
            Then::Nothing => product,
            Then::Bias => relu(&product.add(&other)?)?,
            Then::Gelu => gelu(&product.add(&other)?, Gelu::Tanh)?,
            Then::Residual => product.add(&other)?,
        }])
    }))
}
