//! Activation functions, from their operand alone.

use super::super::{Context, Gradients, constant, scaled};
use super::widened;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};
use tpu_core::Result;
use tpu_core::ir::{Attribute, Attributes};

pub(super) fn gelu(cx: &Context<'_>, attributes: &Attributes) -> Result<Gradients> {
    let by_tanh = matches!(attributes.get("approximate"), Some(Attribute::Text(text)) if text == "tanh");
    cx.one(|g| {
        let (g, x) = (widened(g)?, widened(&cx.input(0)?)?);
        let one = constant(&x, 1)?;
        let slope = if by_tanh {
            // With u = c (x + k x³), t = tanh u: ½ (1 + t) + ½ x (1 − t²) c (1 + 3 k x²). t is computed as in the body, so
            // that a program with both has it once.
            let (c, k) = (SQRT_2 * FRAC_2_SQRT_PI * 0.5, 0.044715);
            let square = x.square()?;
            let t = scaled(&scaled(&square.mul(&x)?, k)?.add(&x)?, c)?.tanh()?;
            let inner = scaled(&scaled(&square, 3.0 * k)?.add(&one)?, c)?;
            let rise = x.mul(&one.sub(&t.square()?)?)?.mul(&inner)?;
            scaled(&one.add(&t)?.add(&rise)?, 0.5)?
        } else {
            // Φ(x) + x φ(x), φ(x) = e^(−x²/2) / √(2π).
            let below = scaled(&scaled(&x, FRAC_1_SQRT_2)?.erf()?.add(&one)?, 0.5)?;
            let density = scaled(&scaled(&x.square()?, -0.5)?.exp()?, 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2)?;
            below.add(&x.mul(&density)?)?
        };
        g.mul(&slope)?.to_dtype(cx.operands[0].dtype)
    })
}

/// With s = σ(x): `s (1 + x (1 − s))`.
pub(super) fn silu(cx: &Context<'_>) -> Result<Gradients> {
    cx.one(|g| {
        let (g, x) = (widened(g)?, widened(&cx.input(0)?)?);
        let (s, one) = (x.sigmoid()?, constant(&x, 1)?);
        let slope = s.mul(&x.mul(&one.sub(&s)?)?.add(&one)?)?;
        g.mul(&slope)?.to_dtype(cx.operands[0].dtype)
    })
}
