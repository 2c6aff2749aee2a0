//! Elementwise functions of several operands.

use super::{Context, Gradients, Saves, conjugate, constant, scaled};
use smallvec::SmallVec;
use tpu_core::ir::BinaryOp;
use tpu_core::tensor::Operand;
use tpu_core::{Result, Scalar, Tensor};

pub(super) fn saves(kind: BinaryOp, needs: &[bool]) -> Saves {
    use BinaryOp::*;
    let (lhs, rhs) = (Saves::input(0), Saves::input(1));
    match kind {
        Add | Subtract => Saves::NOTHING,
        Multiply => rhs.when(needs[0]).and(lhs.when(needs[1])),
        Divide => rhs.and(Saves::output(0).when(needs[1])),
        Remainder => lhs.and(rhs).when(needs[1]),
        Power => lhs.and(rhs).and(Saves::output(0).when(needs[1])),
        Atan2 | Maximum | Minimum => lhs.and(rhs),
        And | Or | Xor | ShiftLeft | ShiftRightArithmetic | ShiftRightLogical => Saves::NOTHING,
    }
}

pub(super) fn gradients(cx: &Context<'_>, kind: BinaryOp) -> Result<Gradients> {
    use BinaryOp::*;
    match kind {
        Add => cx.two(|g| Ok(g.clone()), |g| Ok(g.clone())),
        Subtract => cx.two(|g| Ok(g.clone()), |g| g.neg()),
        Multiply => cx.two(|g| times(cx, g, 1), |g| times(cx, g, 0)),
        Divide => cx.two(|g| over(cx, g), |g| over(cx, g)?.mul(&conjugate(cx.output(0)?)?)?.neg()),
        Remainder => cx.two(|g| Ok(g.clone()), |g| g.mul(&truncated(&cx.input(0)?.div(cx.operand(1)?)?)?)?.neg()),
        Power => cx.two(|g| power_base(cx, g), |g| power_exponent(cx, g)),
        Atan2 => {
            let (y, x) = (cx.input(0)?, cx.input(1)?);
            let scale = |g: &Tensor| g.div(&x.square()?.add(&y.square()?)?);
            cx.two(|g| scale(g)?.mul(&x), |g| scale(g)?.mul(&y)?.neg())
        }
        Maximum => cx.two(|g| winner(g, cx.input(0)?, cx.input(1)?), |g| winner(g, cx.input(1)?, cx.input(0)?)),
        Minimum => {
            let negated = |at| cx.input(at)?.neg();
            cx.two(|g| winner(g, negated(0)?, negated(1)?), |g| winner(g, negated(1)?, negated(0)?))
        }
        And | Or | Xor | ShiftLeft | ShiftRightArithmetic | ShiftRightLogical => cx.no_derivative(""),
    }
}

/// The gradient times the other factor, conjugated.
fn times(cx: &Context<'_>, g: &Tensor, other: usize) -> Result<Tensor> {
    match cx.operand(other)? {
        Operand::Tensor(other) => g.mul(&conjugate(other)?),
        number if !g.dtype().is_complex() => g.mul(number),
        _ => g.mul(&conjugate(&cx.input(other)?)?),
    }
}

/// The gradient over the divisor, conjugated.
fn over(cx: &Context<'_>, g: &Tensor) -> Result<Tensor> {
    match cx.operand(1)? {
        Operand::Tensor(divisor) => g.div(&conjugate(divisor)?),
        number if !g.dtype().is_complex() => g.div(number),
        _ => g.div(&conjugate(&cx.input(1)?)?),
    }
}

/// Rounded towards zero.
fn truncated(x: &Tensor) -> Result<Tensor> {
    x.lt(&constant(x, 0)?)?.select(&x.ceil()?, &x.floor()?)
}

/// Of xᵖ by x: p·xᵖ⁻¹, zero where p is.
fn power_base(cx: &Context<'_>, g: &Tensor) -> Result<Tensor> {
    let x = cx.input(0)?;
    if let Operand::Number(number @ (Scalar::Int(_) | Scalar::UInt(_) | Scalar::Float(_))) = cx.operand(1)? {
        let p = match number {
            Scalar::Int(p) => p as f64,
            Scalar::UInt(p) => p as f64,
            Scalar::Float(p) => p,
            Scalar::Bool(_) | Scalar::Complex(..) => f64::NAN,
        };
        // The exponent is an input of the program, so the rule must not depend on what it is, but for the exponents
        // that nobody varies.
        if p == 0.0 {
            return constant(g, 0);
        }
        return g.mul(&conjugate(&x.pow(p - 1.0)?.mul(number)?)?);
    }
    let p = cx.input(1)?;
    let derivative = p.mul(&x.pow(&p.sub(&constant(&p, 1)?)?)?)?;
    let zero = p.eq(&constant(&p, 0)?)?;
    zero.select(&constant(g, 0)?, &g.mul(&conjugate(&derivative)?)?)
}

/// Of xᵖ by p: xᵖ·ln x, zero where x is zero and p is not negative, as in PyTorch.
fn power_exponent(cx: &Context<'_>, g: &Tensor) -> Result<Tensor> {
    let (x, p) = (cx.input(0)?, cx.input(1)?);
    let real = if p.dtype().is_complex() { p.real()? } else { p.clone() };
    let flat = x.eq(&constant(&x, 0)?)?.bitwise_and(&real.ge(&constant(&real, 0)?)?)?;
    let derivative = cx.output(0)?.mul(&x.log()?)?;
    flat.select(&constant(g, 0)?, &g.mul(&conjugate(&derivative)?)?)
}

/// The gradient where `mine` is larger, half of it where both are equal.
fn winner(g: &Tensor, mine: Tensor, other: Tensor) -> Result<Tensor> {
    let shared = mine.eq(&other)?.select(&scaled(g, 0.5)?, g)?;
    mine.lt(&other)?.select(&constant(g, 0)?, &shared)
}

pub(super) fn select(cx: &Context<'_>) -> Result<Gradients> {
    let (g, predicate) = (cx.grad()?, cx.input(0)?);
    let zero = constant(g, 0)?;
    let on_true = if cx.needs(1) { Some(predicate.select(g, &zero)?) } else { None };
    let on_false = if cx.needs(2) { Some(predicate.select(&zero, g)?) } else { None };
    Ok(SmallVec::from_iter([None, on_true, on_false]))
}

/// Inside the bounds the gradient goes to x, outside to the bound. At a bound that is a number it goes nowhere, at one that
/// is a tensor x and bound share it, as in PyTorch. The upper bound wins where they cross.
pub(super) fn clamp(cx: &Context<'_>) -> Result<Gradients> {
    let g = cx.grad()?;
    let (low, x, high) = (cx.operand(0)?, cx.input(1)?, cx.operand(2)?);
    let zero = constant(g, 0)?;
    if !matches!((low, high), (Operand::Tensor(_), _) | (_, Operand::Tensor(_))) {
        let inside = x.gt(low)?.bitwise_and(&x.lt(high)?)?;
        return Ok(SmallVec::from_iter([None, Some(inside.select(g, &zero)?), None]));
    }
    let (low, high, half) = (cx.input(0)?, cx.input(2)?, scaled(g, 0.5)?);
    let low_wins = x.lt(&low)?.bitwise_and(&low.le(&high)?)?;
    let high_wins = x.gt(&high)?.bitwise_or(&low.gt(&high)?)?;
    let apart = low.lt(&high)?;
    let at_low = x.eq(&low)?.bitwise_and(&apart)?;
    let at_high = x.eq(&high)?.bitwise_and(&apart)?;
    let share = |wins: &Tensor, tie: &Tensor, rest: &Tensor, all: &Tensor| wins.select(all, &tie.select(&half, rest)?);
    Ok(SmallVec::from_iter([
        if cx.needs(0) { Some(share(&low_wins, &at_low, &zero, g)?) } else { None },
        if cx.needs(1) {
            Some(share(&low_wins.bitwise_or(&high_wins)?, &at_low.bitwise_or(&at_high)?, g, &zero)?)
        } else {
            None
        },
        if cx.needs(2) { Some(share(&high_wins, &at_high, &zero, g)?) } else { None },
    ]))
}
