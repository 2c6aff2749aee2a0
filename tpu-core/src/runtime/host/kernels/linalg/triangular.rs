//! Cholesky factors and triangular systems.

use super::super::super::scratch::Memory;
use super::super::{Operand, Target, split};
use super::{Field, Solved, matrix, with_solved};
use crate::Result;
use crate::ir::{Op, TransposeKind};

/// `x = L Lᴴ` or `Uᴴ U`.
pub(in super::super) fn cholesky(
    op: &Op,
    lower: bool,
    x: &Operand<'_>,
    [y]: &mut [Target<'_>; 1],
    memory: Memory<'_>,
) -> Result<()> {
    let (n, _) = matrix(x, op)?;
    with_solved!("cholesky", x.ty.dtype, T => {
        let x = x.cells::<T>()?;
        split::try_parts(y.cells::<T>()?, n * n, n as f64, |first, part| {
            let mut factor = memory.filled(n * n, <T as Solved>::In::default())?;
            for (i, y) in part.chunks_exact_mut((n * n).max(1)).enumerate() {
                factorise(n, lower, &x[first + i * n * n..][..n * n], &mut factor, y);
            }
            Ok(())
        })
    })
}

/// One matrix. An upper factor is the adjoint of the lower one of the same matrix read from its upper triangle.
/// `factor` is memory for the lower one.
fn factorise<T: Solved>(n: usize, lower: bool, x: &[T], factor: &mut [T::In], y: &mut [T]) {
    let read = |row: usize, column: usize| {
        if lower { x[row * n + column].up() } else { x[column * n + row].up().conjugate() }
    };
    let mut definite = true;
    for row in 0..n {
        for column in 0..=row {
            let (head, tail) = factor.split_at_mut(row * n);
            let above = if column < row { &head[column * n..][..column] } else { &[] };
            let mut sum = read(row, column);
            if column < row {
                for (&a, &b) in tail.iter().zip(above) {
                    sum -= a * b.conjugate();
                }
                tail[column] = sum / head[column * n + column];
            } else {
                for &a in &tail[..column] {
                    sum -= a * a.conjugate();
                }
                // The diagonal of a Hermitian matrix is real.
                let pivot = sum.real();
                definite &= pivot > 0.0;
                tail[column] = T::In::from_real(pivot.sqrt());
            }
        }
    }
    if !definite {
        factor.fill(T::In::from_real(f64::NAN));
    }
    for row in 0..n {
        for column in 0..n {
            y[row * n + column] = T::down(match (lower, row.cmp(&column)) {
                (true, std::cmp::Ordering::Less) | (false, std::cmp::Ordering::Greater) => T::In::default(),
                (true, _) => factor[row * n + column],
                (false, _) => factor[column * n + row].conjugate(),
            });
        }
    }
}

/// Which system is solved.
#[derive(Clone, Copy)]
pub(in super::super) struct Solve {
    /// The matrix stands on the left.
    pub left: bool,
    /// The lower triangle is read.
    pub lower: bool,
    /// The diagonal is taken as ones.
    pub unit_diagonal: bool,
    /// What is done to the matrix.
    pub transpose: TransposeKind,
}

/// Solves `op(a) x = b`, or `x op(a) = b`.
pub(in super::super) fn triangular_solve(
    op: &Op,
    solve: Solve,
    [a, b]: &[Operand<'_>; 2],
    [y]: &mut [Target<'_>; 1],
    memory: Memory<'_>,
) -> Result<()> {
    let ((n, _), (rows, columns)) = (matrix(a, op)?, matrix(b, op)?);
    with_solved!("triangular_solve", a.ty.dtype, T => {
        let (a, b) = (a.cells::<T>()?, b.cells::<T>()?);
        let size = rows * columns;
        split::try_parts(y.cells::<T>()?, size, n as f64, |first, part| {
            let mut unknowns = memory.filled(size, <T as Solved>::In::default())?;
            for (i, y) in part.chunks_exact_mut(size.max(1)).enumerate() {
                let number = first / size + i;
                let (a, b) = (&a[number * n * n..][..n * n], &b[number * size..][..size]);
                substitute(n, solve, a, b, &mut unknowns, y);
            }
            Ok(())
        })
    })
}

/// One system. A matrix on the right is the transposed one on the left of transposed vectors.
/// `x` is memory for the unknowns.
fn substitute<T: Solved>(n: usize, solve: Solve, a: &[T], b: &[T], x: &mut [T::In], y: &mut [T]) {
    if n == 0 {
        return;
    }
    let count = b.len() / n;
    let transposed = (solve.transpose != TransposeKind::None) == solve.left;
    let conjugated = solve.transpose == TransposeKind::Adjoint;
    let at = |row: usize, column: usize| {
        let value = if transposed { a[column * n + row] } else { a[row * n + column] }.up();
        if conjugated { value.conjugate() } else { value }
    };
    // Unknown i of vector v.
    let place = |i: usize, v: usize| if solve.left { i * count + v } else { v * n + i };
    let forward = solve.lower != transposed;
    for step in 0..n {
        let row = if forward { step } else { n - 1 - step };
        let known = if forward { 0..row } else { row + 1..n };
        let (before, rest) = x.split_at_mut(row * count);
        let (now, after) = rest.split_at_mut(count);
        for (v, now) in now.iter_mut().enumerate() {
            *now = b[place(row, v)].up();
        }
        for other in known {
            let factor = at(row, other);
            let values = if other < row { &before[other * count..] } else { &after[(other - row - 1) * count..] };
            for (now, &value) in now.iter_mut().zip(values) {
                *now -= factor * value;
            }
        }
        if !solve.unit_diagonal {
            let pivot = at(row, row);
            now.iter_mut().for_each(|now| *now = *now / pivot);
        }
    }
    for i in 0..n {
        for v in 0..count {
            y[place(i, v)] = T::down(x[i * count + v]);
        }
    }
}
