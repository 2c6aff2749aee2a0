//! Elementwise functions of one operand.

use super::{Context, Gradients, Saves, complexed, conjugate, constant, scaled};
use std::f64::consts::PI;
use tpu_core::ir::UnaryOp;
use tpu_core::{Result, Tensor};

pub(super) fn saves(kind: UnaryOp) -> Saves {
    use UnaryOp::*;
    match kind {
        Abs | Log | Log1p | Sin | Cos | Erf => Saves::input(0),
        Exp | Expm1 | Logistic | Tanh | Tan | Sqrt | Rsqrt | Cbrt | ErfInv => Saves::output(0),
        // Only the complex sign has a derivative that is not zero.
        Sign => Saves::input(0),
        Neg | Floor | Ceil | RoundNearestEven | RoundNearestAfz | IsFinite | Not | PopulationCount
        | CountLeadingZeros | Real | Imag => Saves::NOTHING,
    }
}

pub(super) fn gradients(cx: &Context<'_>, kind: UnaryOp) -> Result<Gradients> {
    use UnaryOp::*;
    let x = || cx.input(0);
    let y = || cx.output(0);
    // The gradient times the conjugate of a holomorphic derivative.
    let times = |g: &Tensor, derivative: Tensor| g.mul(&conjugate(&derivative)?);
    cx.one(|g| match kind {
        Abs if cx.operands[0].dtype.is_complex() => complexed(g)?.mul(&x()?.sign()?),
        Abs => {
            // Not times the sign, which would be NaN where x is; PyTorch has 0 there.
            let (x, zero) = (x()?, constant(g, 0)?);
            let none = constant(&x, 0)?;
            x.gt(&none)?.select(g, &x.lt(&none)?.select(&g.neg()?, &zero)?)
        }
        Neg => g.neg(),
        Sign if g.dtype().is_complex() => complex_sign(g, &x()?),
        Sign | Floor | Ceil | RoundNearestEven | RoundNearestAfz => constant(g, 0),
        Exp => times(g, y()?.clone()),
        Expm1 => times(g, y()?.add(&constant(y()?, 1)?)?),
        Log => g.div(&conjugate(&x()?)?),
        Log1p => g.div(&conjugate(&x()?.add(&constant(&x()?, 1)?)?)?),
        Logistic => times(g, y()?.mul(&constant(y()?, 1)?.sub(y()?)?)?),
        Tanh => times(g, constant(y()?, 1)?.sub(&y()?.square()?)?),
        Sin => times(g, x()?.cos()?),
        Cos => times(&g.neg()?, x()?.sin()?),
        Tan => times(g, y()?.square()?.add(&constant(y()?, 1)?)?),
        Sqrt => g.div(&conjugate(&scaled(y()?, 2.0)?)?),
        Rsqrt => times(&scaled(g, -0.5)?, y()?.square()?.mul(y()?)?),
        Cbrt => g.div(&scaled(&y()?.square()?, 3.0)?),
        Erf => scaled(g, 2.0 / PI.sqrt())?.mul(&x()?.square()?.neg()?.exp()?),
        ErfInv => scaled(g, PI.sqrt() / 2.0)?.mul(&y()?.square()?.exp()?),
        Real => complexed(g),
        Imag => constant(g, 0)?.complex(g),
        IsFinite | Not | PopulationCount | CountLeadingZeros => cx.no_derivative(""),
    })
}

/// Of z / |z|: the part of the gradient across z, divided by |z|; zero at 0.
fn complex_sign(g: &Tensor, x: &Tensor) -> Result<Tensor> {
    let (sign, size) = (x.sign()?, x.abs()?);
    let along = g.mul(&conjugate(&sign)?)?.real()?;
    let across = g.sub(&complexed(&along)?.mul(&sign)?)?;
    let at_zero = size.eq(&constant(&size, 0)?)?;
    let safe = at_zero.select(&constant(&size, 1)?, &size)?;
    at_zero.select(&constant(g, 0)?, &across.div(&complexed(&safe)?)?)
}
