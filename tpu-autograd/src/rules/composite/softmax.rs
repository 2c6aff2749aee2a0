//! Softmax and its logarithms.

use super::super::{Context, Gradients};
use super::widened;
use tpu_core::Result;
use tpu_core::ir::Attributes;

fn axis(attributes: &Attributes) -> isize {
    attributes.int("axis").unwrap_or(-1) as isize
}

/// `y · (g − Σ g y)`
pub(super) fn softmax(cx: &Context<'_>, attributes: &Attributes) -> Result<Gradients> {
    cx.one(|g| {
        let (g, y) = (widened(g)?, widened(cx.output(0)?)?);
        let along = g.mul(&y)?.sum([axis(attributes)], true)?;
        y.mul(&g.sub(&along)?)?.to_dtype(cx.operands[0].dtype)
    })
}

/// `g − eʸ Σ g`
pub(super) fn log_softmax(cx: &Context<'_>, attributes: &Attributes) -> Result<Gradients> {
    cx.one(|g| {
        let (g, y) = (widened(g)?, widened(cx.output(0)?)?);
        g.sub(&y.exp()?.mul(&g.sum([axis(attributes)], true)?)?)?.to_dtype(cx.operands[0].dtype)
    })
}

/// `g · e^(x − y)`, zero where all of x is −∞.
pub(super) fn logsumexp(cx: &Context<'_>, attributes: &Attributes) -> Result<Gradients> {
    cx.one(|g| {
        let (mut g, mut y) = (widened(g)?, widened(cx.output(0)?)?);
        if !attributes.flag("keep") {
            (g, y) = (g.unsqueeze(axis(attributes))?, y.unsqueeze(axis(attributes))?);
        }
        let lowest = super::super::constant(&y, f64::NEG_INFINITY)?;
        let y = y.eq(&lowest)?.select(&super::super::constant(&y, 0)?, &y)?;
        widened(&cx.input(0)?)?.sub(&y)?.exp()?.mul(&g)?.to_dtype(cx.operands[0].dtype)
    })
}
