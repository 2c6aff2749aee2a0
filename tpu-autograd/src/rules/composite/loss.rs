//! Losses whose derivative is not that of their formula.

use super::super::{Context, Gradients, constant};
use tpu_core::Result;

/// PyTorch's: (x − t) / max(x (1 − x), 1e-12), which has a value where the logarithm has none; of the target ln(1 − x) − ln x.
pub(super) fn binary_cross_entropy(cx: &Context<'_>) -> Result<Gradients> {
    let (x, t) = (cx.input(0)?, cx.input(1)?);
    cx.two(
        |g| {
            let spread = constant(&x, 1)?.sub(&x)?.mul(&x)?.maximum(&constant(&x, 1e-12)?)?;
            g.mul(&x.sub(&t)?)?.div(&spread)
        },
        |g| {
            let least = constant(&x, -100)?;
            g.mul(&x.neg()?.log1p()?.maximum(&least)?.sub(&x.log()?.maximum(&least)?)?)
        },
    )
}
