//! Products of matrices.

use super::{Result, Run, dtype, tensor};
use crate::measure::Parameters;
use tpu_core::Shape;

/// `[batch, m, k] x [batch, k, n]`, or without a batch; operands lie as `layout` says.
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
    Ok(Box::new(move || {
        let a = if left { a.transpose(-1, -2)? } else { a.clone() };
        let b = if right { b.transpose(-1, -2)? } else { b.clone() };
        Ok(vec![a.matmul(&b)?])
    }))
}
