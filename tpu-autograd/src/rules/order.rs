//! Sorting and selection.

use super::indexing::scatter_along;
use super::{Context, Gradients};
use smallvec::SmallVec;
use tpu_core::ir::Op;
use tpu_core::{DType, Result, Tensor};

/// The gradient of each sorted value goes back to where the value came from.
pub(super) fn sort(cx: &Context<'_>, axis: usize, descending: bool) -> Result<Gradients> {
    let keys = cx.input(0)?.detach();
    let order = Tensor::iota(keys.shape(), axis, DType::I64)?;
    // Which one of equal elements comes first is not said by an unstable sort; a stable one is an answer of it.
    let sorted = Tensor::record(Op::Sort { axis, descending, stable: true }, &[(&keys).into(), (&order).into()])?;
    let mut gradients = Gradients::new();
    for at in 0..cx.operands.len() {
        let back = match cx.grad_of(at).filter(|_| cx.needs(at)) {
            Some(g) => Some(scatter_along(g, &sorted[1], axis, keys.shape(), false)?),
            None => None,
        };
        gradients.push(back);
    }
    Ok(gradients)
}

pub(super) fn top_k(cx: &Context<'_>) -> Result<Gradients> {
    let Some(g) = cx.grad_of(0) else { return Ok(cx.none()) };
    let shape = &cx.operands[0].shape;
    Ok(SmallVec::from_iter([Some(scatter_along(g, cx.output(1)?, shape.rank() - 1, shape, false)?)]))
}
