//! Factorisations and triangular systems, over the last two axes.
//!
//! Matrices that an operation takes as symmetric have symmetric gradients, as in PyTorch, although one triangle is read.

use super::{Context, Gradients, conjugate, constant, record, scaled};
use smallvec::SmallVec;
use tpu_core::ir::{Op, TransposeKind};
use tpu_core::{DType, Result, Shape, Tensor};

/// The conjugate transpose.
fn adjoint(x: &Tensor) -> Result<Tensor> {
    conjugate(&x.t()?)
}

/// Half of the sum with the conjugate transpose.
fn symmetric(x: &Tensor) -> Result<Tensor> {
    half(&x.add(&adjoint(x)?)?)
}

fn half(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() { x.mul(&constant(x, 0.5)?) } else { scaled(x, 0.5) }
}

/// The elements on the diagonal `k` and to one side of it; zero elsewhere.
fn triangle(x: &Tensor, lower: bool, k: i64) -> Result<Tensor> {
    if lower { x.tril(k) } else { x.triu(k) }
}

/// The diagonal; zero elsewhere.
fn diagonal_only(x: &Tensor) -> Result<Tensor> {
    x.tril(0)?.triu(0)
}

/// Solves `op(a) x = b`, or `x op(a) = b`.
fn solve(a: &Tensor, b: &Tensor, left: bool, lower: bool, unit: bool, transpose: TransposeKind) -> Result<Tensor> {
    record(Op::TriangularSolve { left, lower, unit_diagonal: unit, transpose }, &[a, b])
}

/// With X = L Lᴴ: `L⁻ᴴ Φ(Lᴴ Ḡ) L⁻¹`, Φ the lower triangle with half of its diagonal; symmetrised.
pub(super) fn cholesky(cx: &Context<'_>, lower: bool) -> Result<Gradients> {
    cx.one(|g| {
        let factor = cx.output(0)?;
        let (l, g) = if lower { (factor.clone(), g.clone()) } else { (adjoint(factor)?, adjoint(g)?) };
        let inner = adjoint(&l)?.matmul(&g.tril(0)?)?.tril(0)?;
        let inner = inner.sub(&half(&diagonal_only(&inner)?)?)?;
        let left = solve(&l, &symmetric(&inner)?, true, true, false, TransposeKind::Adjoint)?;
        solve(&l, &left, false, true, false, TransposeKind::None)
    })
}

pub(super) fn triangular_solve(
    cx: &Context<'_>,
    left: bool,
    lower: bool,
    unit: bool,
    transpose: TransposeKind,
) -> Result<Gradients> {
    let (g, a) = (cx.grad()?, cx.input(0)?);
    // The system with the conjugate transpose of op(a).
    let (matrix, back) = match transpose {
        TransposeKind::None => (a, TransposeKind::Adjoint),
        TransposeKind::Transpose => (conjugate(&a)?, TransposeKind::None),
        TransposeKind::Adjoint => (a, TransposeKind::None),
    };
    let b = solve(&matrix, g, left, lower, unit, back)?;
    let matrix = match cx.needs(0) {
        true => {
            let x = adjoint(cx.output(0)?)?;
            let of_op = if left { b.matmul(&x)?.neg()? } else { x.matmul(&b)?.neg()? };
            let whole = match transpose {
                TransposeKind::None => of_op,
                TransposeKind::Transpose => of_op.t()?,
                TransposeKind::Adjoint => adjoint(&of_op)?,
            };
            let off = if unit { 1 } else { 0 };
            Some(triangle(&whole, lower, if lower { -off } else { off })?)
        }
        false => None,
    };
    Ok(SmallVec::from_iter([matrix, Some(b)]))
}

/// Of A = Q R with at least as many rows as columns: `(Q̄ + Q sym(M)) R⁻ᴴ`, M = R R̄ᴴ − Q̄ᴴ Q, sym taking the lower triangle
/// for both. The columns beyond a square part follow from Q.
pub(super) fn qr(cx: &Context<'_>) -> Result<Gradients> {
    let (q, r) = (cx.output(0)?, cx.output(1)?);
    let (mut gq, gr) = (cx.grad_or_zeros(0)?, cx.grad_or_zeros(1)?);
    let (k, n) = (r.shape().size(r.rank() - 2), r.shape().size(r.rank() - 1));
    let split = |x: &Tensor| Ok::<_, tpu_core::Error>((x.narrow(-1, 0, k)?, x.narrow(-1, k, n - k)?));
    let (square, rest) = split(r)?;
    let (gsquare, grest) = split(&gr)?;
    if n > k {
        gq = gq.add(&q.matmul(&rest)?.matmul(&adjoint(&grest)?)?)?;
    }
    let m = square.matmul(&adjoint(&gsquare.triu(0)?)?)?.sub(&adjoint(&gq)?.matmul(q)?)?;
    let below = m.tril(-1)?;
    let both = below.add(&adjoint(&below)?)?.add(&diagonal_only(&m)?)?;
    let inner = gq.add(&q.matmul(&both)?)?;
    let mut gradient = solve(&square, &inner, false, false, false, TransposeKind::Adjoint)?;
    if n > k {
        gradient = Tensor::concat(&[&gradient, &q.matmul(&grest)?], -1)?;
    }
    Ok(SmallVec::from_iter([Some(gradient)]))
}

/// Of A = V Λ Vᴴ: `V (Λ̄ + F ∘ Vᴴ V̄) Vᴴ`, F_ij = 1 / (λ_j − λ_i) off the diagonal; infinite for equal eigenvalues.
pub(super) fn eigh(cx: &Context<'_>) -> Result<Gradients> {
    let (values, vectors) = (cx.output(0)?, cx.output(1)?);
    let n = values.shape().size(values.rank() - 1);
    let matrix: Shape = values.sizes().iter().copied().chain([n]).collect();
    let wide = |x: Tensor| if vectors.dtype().is_complex() { super::complexed(&x) } else { Ok(x) };
    let is_diagonal = Tensor::iota([n, n], 0, DType::I64)?.eq(&Tensor::iota([n, n], 1, DType::I64)?)?;
    let is_diagonal = is_diagonal.broadcast_to(&matrix)?;
    let mut inner = match cx.grad_of(0) {
        Some(g) => {
            let spread = g.unsqueeze(-1)?.broadcast_to(&matrix)?;
            Some(wide(is_diagonal.select(&spread, &constant(&spread, 0)?)?)?)
        }
        None => None,
    };
    if let Some(g) = cx.grad_of(1) {
        let gap = values.unsqueeze(-2)?.sub(&values.unsqueeze(-1)?)?;
        let safe = is_diagonal.select(&constant(&gap, 1)?, &gap)?;
        let product = adjoint(vectors)?.matmul(g)?.div(&wide(safe)?)?;
        let turned = is_diagonal.select(&constant(&product, 0)?, &product)?;
        inner = Some(match inner {
            Some(inner) => inner.add(&turned)?,
            None => turned,
        });
    }
    match inner {
        Some(inner) => {
            let gradient = vectors.matmul(&inner)?.matmul(&adjoint(vectors)?)?;
            Ok(SmallVec::from_iter([Some(symmetric(&gradient)?)]))
        }
        None => Ok(cx.none()),
    }
}

/// Of A = Pᵀ L U, both factors made square with ones on the diagonal: `Pᵀ L⁻ᴴ (tril(Lᴴ Ḡ, −1) + triu(Ḡ Uᴴ)) U⁻ᴴ`, Ḡ the
/// gradient of L and U in one matrix.
pub(super) fn lu(cx: &Context<'_>) -> Result<Gradients> {
    let Some(g) = cx.grad_of(0) else { return Ok(cx.none()) };
    let lu = cx.output(0)?;
    let rank = lu.rank();
    let (m, n) = (lu.shape().size(rank - 2), lu.shape().size(rank - 1));
    let like = |rows: usize, columns: usize| -> Shape {
        lu.sizes()[..rank - 2].iter().copied().chain([rows, columns]).collect()
    };
    let lower = match m > n {
        true => Tensor::concat(&[lu, &Tensor::zeros(like(m, m - n), lu.dtype())?], -1)?,
        false => lu.narrow(-1, 0, m)?,
    };
    let lower = lower.tril(-1)?.add(&Tensor::eye(m, lu.dtype())?)?;
    let upper = match n > m {
        true => {
            let ones = Tensor::eye(n, lu.dtype())?.narrow(0, m, n - m)?.broadcast_to(like(n - m, n))?;
            Tensor::concat(&[lu, &ones], -2)?
        }
        false => lu.narrow(-2, 0, n)?,
    };
    let upper = upper.triu(0)?;
    let of_lower = adjoint(&lower)?.matmul(g)?.tril(-1)?;
    let of_upper = g.matmul(&adjoint(&upper)?)?.triu(0)?;
    let left = solve(&lower, &of_lower.add(&of_upper)?, true, true, true, TransposeKind::Adjoint)?;
    let rows = solve(&upper, &left, false, false, false, TransposeKind::Adjoint)?;
    // Row i of the factors came from row permutation[i].
    let from = cx.output(2)?.unsqueeze(-1)?.broadcast_to(lu.shape())?;
    Ok(SmallVec::from_iter([Some(super::indexing::scatter_along(&rows, &from, rank - 2, lu.shape(), false)?)]))
}
