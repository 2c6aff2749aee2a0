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

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::DType::*;
    use crate::ir::*;
    use smallvec::smallvec;

    /// Shapes from torch.fft.rfft2 and irfft2.
    #[test]
    fn fft_halves_the_last_axis_of_real_signals() {
        let fft = |kind, lengths: &[usize], x| shown(Op::Fft { kind, lengths: Axes::from_slice(lengths) }, &[x]);
        assert_eq!(fft(FftKind::Fft, &[8], ty(Complex64, &[2, 8])), "complex64[2, 8]");
        assert_eq!(fft(FftKind::Rfft, &[4, 9], f32s(&[2, 4, 9])), "complex64[2, 4, 5]");
        assert_eq!(fft(FftKind::Irfft, &[4, 9], ty(Complex64, &[2, 4, 5])), "float32[2, 4, 9]");
        assert_eq!(fft(FftKind::Rfft, &[0], f32s(&[0])), "complex64[0]");
        assert_eq!(
            fft(FftKind::Irfft, &[9], ty(Complex64, &[9])),
            "Shape: fft requires last axes of the lengths [9], of 5 along the last for IRFFT, got operand complex64[9]"
        );
        assert_eq!(
            fft(FftKind::Fft, &[2; 4], ty(Complex64, &[2; 4])),
            "Value: fft requires 1 to 3 lengths, got [2, 2, 2, 2]"
        );
        assert_eq!(
            fft(FftKind::Fft, &[2, 2], ty(Complex64, &[2])),
            "Shape: fft requires an axis per length of [2, 2], got operand complex64[2]"
        );
        assert_eq!(fft(FftKind::Fft, &[2], f32s(&[2])), "DType: fft requires operand of complex dtype, got float32[2]");
    }

    #[test]
    fn factorisations_keep_batch_axes() {
        assert_eq!(shown(Op::Cholesky { lower: true }, &[f32s(&[5, 3, 3])]), "float32[5, 3, 3]");
        assert_eq!(shown(Op::Qr, &[f32s(&[5, 4, 3])]), "float32[5, 4, 3] float32[5, 3, 3]");
        assert_eq!(shown(Op::Qr, &[f32s(&[3, 4])]), "float32[3, 3] float32[3, 4]");
        assert_eq!(shown(Op::Eigh, &[ty(Complex64, &[5, 3, 3])]), "float32[5, 3] complex64[5, 3, 3]");
        assert_eq!(shown(Op::Lu, &[f32s(&[5, 4, 3])]), "float32[5, 4, 3] int32[5, 3] int32[5, 4]");
        assert_eq!(shown(Op::Lu, &[f32s(&[0, 3])]), "float32[0, 3] int32[0] int32[0]");
        assert_eq!(
            shown(Op::Cholesky { lower: true }, &[f32s(&[4, 3])]),
            "Shape: cholesky requires square matrices, got operand float32[4, 3]"
        );
        assert_eq!(
            shown(Op::Eigh, &[f32s(&[4, 3])]),
            "Shape: eigh requires square matrices, got operand float32[4, 3]"
        );
        assert_eq!(shown(Op::Qr, &[f32s(&[4])]), "Shape: qr requires operand of at least 2 axes, got float32[4]");
        assert_eq!(
            shown(Op::Lu, &[ty(F16, &[4, 4])]),
            "DType: lu requires operand of complex, float32 or float64 dtype, got float16[4, 4]"
        );
    }

    #[test]
    fn triangular_solve_wants_b_beside_a() {
        let solve = |left, a: &[usize], b: &[usize]| {
            let transpose = TransposeKind::None;
            let op = Op::TriangularSolve { left, lower: true, unit_diagonal: false, transpose };
            shown(op, &[f32s(a), f32s(b)])
        };
        assert_eq!(solve(true, &[5, 3, 3], &[5, 3, 2]), "float32[5, 3, 2]");
        assert_eq!(solve(false, &[3, 3], &[2, 3]), "float32[2, 3]");
        assert_eq!(
            solve(true, &[3, 3], &[2, 3]),
            "Shape: triangular_solve requires b with 3 rows, as many as a has, got a float32[3, 3] and b float32[2, 3]"
        );
        assert_eq!(
            solve(true, &[5, 3, 3], &[3, 3]),
            "Shape: triangular_solve requires equal batch axes, got a float32[5, 3, 3] and b float32[3, 3]"
        );
        assert_eq!(
            solve(true, &[2, 3], &[2, 3]),
            "Shape: triangular_solve requires square matrices, got a float32[2, 3]"
        );
    }

    #[test]
    fn lengths_are_those_of_the_operand() {
        let op = Op::Fft { kind: FftKind::Fft, lengths: smallvec![3, 8] };
        assert_eq!(
            shown(op, &[ty(Complex64, &[4, 8])]),
            "Shape: fft requires last axes of the lengths [3, 8], of 8 along the last for FFT, got operand complex64[4, 8]"
        );
    }
}
