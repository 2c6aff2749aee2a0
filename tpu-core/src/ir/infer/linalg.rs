//! Rules of Fourier transforms and of linear algebra over the last two axes.

use super::{Types, exactly, same_dtype, single, takes};
use crate::ir::{FftKind, Op, Type};
use crate::{DType, Result, Shape, ensure};
use smallvec::SmallVec;

pub(super) fn fft(op: &Op, operands: &[&Type], kind: FftKind, lengths: &[usize]) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    let count = lengths.len();
    ensure!((1..=3).contains(&count), Value, op.name(), "requires 1 to 3 lengths, got {lengths:?}");
    let rank = x.shape.rank();
    ensure!(rank >= count, Shape, op.name(), "requires an axis per length of {lengths:?}, got operand {x}");
    let last = lengths[count - 1];
    // A real signal of n has a spectrum of n/2 + 1; the rest follows by symmetry.
    let half = if last == 0 { 0 } else { last / 2 + 1 };
    let (before, after, dtype) = match kind {
        FftKind::Fft | FftKind::Ifft => (last, last, DType::Complex64),
        FftKind::Rfft => (last, half, DType::Complex64),
        FftKind::Irfft => (half, last, DType::F32),
    };
    let (batch, transformed) = x.shape.sizes().split_at(rank - count);
    let fits = transformed[..count - 1] == lengths[..count - 1] && transformed[count - 1] == before;
    ensure!(
        fits,
        Shape,
        op.name(),
        "requires last axes of the lengths {lengths:?}, of {before} along the last for {}, got operand {x}",
        kind.name()
    );
    let shape: Shape = batch.iter().chain(&lengths[..count - 1]).copied().chain([after]).collect();
    super::representable(op, &shape)?;
    single(Type { dtype, shape })
}

/// Batch sizes, rows and columns.
fn matrix<'a>(op: &Op, name: &str, x: &'a Type) -> Result<(&'a [usize], usize, usize)> {
    match x.shape.sizes() {
        [batch @ .., rows, columns] => Ok((batch, *rows, *columns)),
        _ => crate::bail!(Shape, op.name(), "requires {name} of at least 2 axes, got {x}"),
    }
}

fn square(op: &Op, name: &str, x: &Type) -> Result<usize> {
    let (_, rows, columns) = matrix(op, name, x)?;
    ensure!(rows == columns, Shape, op.name(), "requires square matrices, got {name} {x}");
    Ok(rows)
}

fn stacked(batch: &[usize], sizes: &[usize]) -> Shape {
    batch.iter().chain(sizes).copied().collect()
}

pub(super) fn cholesky(op: &Op, operands: &[&Type]) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    square(op, "operand", x)?;
    single(x.clone())
}

pub(super) fn triangular_solve(op: &Op, operands: &[&Type], left: bool) -> Result<Types> {
    let [a, b] = exactly(op, operands)?;
    takes(op, "a", a)?;
    same_dtype(op, ("a", a), ("b", b))?;
    let n = square(op, "a", a)?;
    let (b_batch, rows, columns) = matrix(op, "b", b)?;
    let (a_batch, ..) = matrix(op, "a", a)?;
    ensure!(a_batch == b_batch, Shape, op.name(), "requires equal batch axes, got a {a} and b {b}");
    let (side, name) = if left { (rows, "rows") } else { (columns, "columns") };
    ensure!(side == n, Shape, op.name(), "requires b with {n} {name}, as many as a has, got a {a} and b {b}");
    single(b.clone())
}

pub(super) fn qr(op: &Op, operands: &[&Type]) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    let (batch, m, n) = matrix(op, "operand", x)?;
    let k = m.min(n);
    let q = Type { dtype: x.dtype, shape: stacked(batch, &[m, k]) };
    let r = Type { dtype: x.dtype, shape: stacked(batch, &[k, n]) };
    Ok(SmallVec::from_iter([q, r]))
}

pub(super) fn eigh(op: &Op, operands: &[&Type]) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    let n = square(op, "operand", x)?;
    let (batch, ..) = matrix(op, "operand", x)?;
    let real = if x.dtype == DType::Complex64 { DType::F32 } else { x.dtype };
    let values = Type { dtype: real, shape: stacked(batch, &[n]) };
    Ok(SmallVec::from_iter([values, x.clone()]))
}

pub(super) fn lu(op: &Op, operands: &[&Type]) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    let (batch, m, n) = matrix(op, "operand", x)?;
    ensure!(m <= 1 << 31, Shape, op.name(), "requires at most 2^31 rows, for i32 pivots, got operand {x}");
    let pivots = Type { dtype: DType::I32, shape: stacked(batch, &[m.min(n)]) };
    let permutation = Type { dtype: DType::I32, shape: stacked(batch, &[m]) };
    Ok(SmallVec::from_iter([x.clone(), pivots, permutation]))
}
