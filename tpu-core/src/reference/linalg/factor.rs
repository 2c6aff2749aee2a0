//! Cholesky and LU factors, and triangular systems.

use super::{Matrix, Wide, all_elements, gathered, matrices, quotient};
use crate::Result;
use crate::ir::{TransposeKind, Type};
use crate::reference::Array;

/// `cholesky(x)`.
pub fn cholesky(x: &Array, lower: bool, ty: &Type) -> Result<Array> {
    let factors: Vec<Matrix> = matrices(x)
        .into_iter()
        .map(|x| if lower { lower_cholesky(&x) } else { lower_cholesky(&x.adjoint()).adjoint() })
        .collect();
    gathered(ty, all_elements(&factors))
}

/// The lower factor, from the lower triangle. NaN in that triangle when some pivot is not positive.
fn lower_cholesky(x: &Matrix) -> Matrix {
    let n = x.rows;
    let mut factor = Matrix::from_fn(n, n, |_, _| Wide::ZERO);
    for j in 0..n {
        let pivot = x[(j, j)].re - (0..j).map(|k| factor[(j, k)].norm_sqr()).sum::<f64>();
        if pivot.is_nan() || pivot <= 0.0 {
            return Matrix::from_fn(n, n, |i, j| if i < j { Wide::ZERO } else { f64::NAN.into() });
        }
        factor[(j, j)] = pivot.sqrt().into();
        for i in j + 1..n {
            let known: Wide = (0..j).map(|k| factor[(i, k)] * factor[(j, k)].conj()).sum();
            factor[(i, j)] = (x[(i, j)] - known) / pivot.sqrt();
        }
    }
    factor
}

/// `triangular_solve(a, b)`.
pub fn triangular_solve(
    a: &Array,
    b: &Array,
    (left, lower, unit_diagonal): (bool, bool, bool),
    transpose: TransposeKind,
    ty: &Type,
) -> Result<Array> {
    let solve = |(a, b): (Matrix, Matrix)| {
        let read = Matrix::from_fn(a.rows, a.columns, |i, j| match (i == j, (i > j) == lower) {
            (true, _) if unit_diagonal => 1.0.into(),
            (true, _) | (false, true) => a[(i, j)],
            (false, false) => Wide::ZERO,
        });
        let (read, lower) = match transpose {
            TransposeKind::None => (read, lower),
            TransposeKind::Transpose => (read.transpose(), !lower),
            TransposeKind::Adjoint => (read.adjoint(), !lower),
        };
        // x M = b is Mᵀ xᵀ = bᵀ.
        if left {
            substitute(&read, lower, b)
        } else {
            substitute(&read.transpose(), !lower, b.transpose()).transpose()
        }
    };
    let solutions: Vec<Matrix> = matrices(a).into_iter().zip(matrices(b)).map(solve).collect();
    gathered(ty, all_elements(&solutions))
}

/// The solution of `m x = b` for a triangular `m`.
fn substitute(m: &Matrix, lower: bool, b: Matrix) -> Matrix {
    let n = m.rows;
    let mut x = b;
    for step in 0..n {
        let i = if lower { step } else { n - 1 - step };
        let known = if lower { 0..i } else { i + 1..n };
        for j in 0..x.columns {
            let sum: Wide = known.clone().map(|k| m[(i, k)] * x[(k, j)]).sum();
            x[(i, j)] = quotient(x[(i, j)] - sum, m[(i, i)]);
        }
    }
    x
}

/// `lu(x)`: both factors in one matrix, pivots, and the permutation of rows that they amount to.
pub fn lu(x: &Array, types: &[Type]) -> Result<Vec<Array>> {
    let (mut factors, mut pivots, mut permutations) = (Vec::new(), Vec::new(), Vec::new());
    for mut matrix in matrices(x) {
        let mut permutation: Vec<i32> = (0..matrix.rows as i32).collect();
        for step in 0..matrix.rows.min(matrix.columns) {
            let pivot = eliminate(&mut matrix, step);
            permutation.swap(step, pivot);
            pivots.push(pivot as i32);
        }
        permutations.extend(permutation);
        factors.push(matrix);
    }
    let pivots = Array::new(&types[1].shape, &pivots)?;
    let permutations = Array::new(&types[2].shape, &permutations)?;
    Ok(vec![gathered(&types[0], all_elements(&factors))?, pivots, permutations])
}

/// One step of elimination: exchanges row `step` with the one of the largest entry, in LAPACK's measure, and clears the column below.
fn eliminate(x: &mut Matrix, step: usize) -> usize {
    let size = |x: Wide| x.re.abs() + x.im.abs();
    let mut pivot = step;
    for i in step + 1..x.rows {
        if size(x[(i, step)]) > size(x[(pivot, step)]) {
            pivot = i;
        }
    }
    x.swap_rows(step, pivot);
    if x[(step, step)] != Wide::ZERO {
        for i in step + 1..x.rows {
            let factor = quotient(x[(i, step)], x[(step, step)]);
            x[(i, step)] = factor;
            for j in step + 1..x.columns {
                let change = factor * x[(step, j)];
                x[(i, j)] -= change;
            }
        }
    }
    pivot
}
