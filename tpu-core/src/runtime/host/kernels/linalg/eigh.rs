//! Eigenvalues and eigenvectors of Hermitian matrices: Householder reflections to tridiagonal form, then implicit QL
//! iteration (Golub and Van Loan, *Matrix Computations*, section 8.3; EISPACK's `tred2` and `tql2`).

use super::super::super::scratch::Memory;
use super::super::{Operand, Target, split};
use super::reflection::{Reflection, apply};
use super::{Field, Solved, count, matrix, power_of_two, with_solved};
use crate::Result;
use crate::ir::Op;

/// Ascending eigenvalues, and eigenvectors in columns, from the lower triangle. What is not finite there makes all NaN.
pub(in super::super) fn eigh(
    op: &Op,
    x: &Operand<'_>,
    [values, vectors]: &mut [Target<'_>; 2],
    memory: Memory<'_>,
) -> Result<()> {
    let (n, _) = matrix(x, op)?;
    with_solved!("eigh", x.ty.dtype, T => {
        let cells = x.cells::<T>()?;
        let cost = 6.0 * (n * n * n) as f64;
        let targets = (values.cells::<<T as Solved>::Real>()?, vectors.cells::<T>()?, &mut [] as &mut [u8]);
        split::matrices(count(x), targets, cost, &|number, (values, vectors, _)| {
            let found = decompose(n, &cells[number * n * n..][..n * n], values, vectors, memory)?;
            if !found {
                values.fill(T::real_down(f64::NAN));
                vectors.fill(T::down(Field::from_real(f64::NAN)));
            }
            Ok(())
        })
    })
}

/// One matrix; false if it has no eigenvalues that can be found.
fn decompose<T: Solved>(
    n: usize,
    x: &[T],
    values: &mut [T::Real],
    vectors: &mut [T],
    memory: Memory<'_>,
) -> Result<bool> {
    let zero = <T as Solved>::In::default();
    let mut a = memory.filled(n * n, zero)?;
    let mut largest = 0f64;
    for row in 0..n {
        for column in 0..=row {
            let read = x[row * n + column].up();
            // Only the real part of the diagonal is read.
            let value = if row == column { Field::from_real(read.real()) } else { read };
            if !value.size().is_finite() {
                return Ok(false);
            }
            largest = largest.max(value.size());
            a[row * n + column] = value;
            a[column * n + row] = value.conjugate();
        }
    }
    let scale = power_of_two(largest);
    a.iter_mut().for_each(|a| *a = *a / scale);

    let mut q = memory.filled(n * n, zero)?;
    let mut diagonal = memory.filled(n, 0f64)?;
    let mut beside = memory.filled(n, 0f64)?;
    tridiagonalise(n, &mut a, &mut q, &mut diagonal, &mut beside, memory)?;
    // Vectors in rows from here on, so that a rotation of two of them goes along memory.
    for row in 0..n {
        for column in 0..n {
            a[column * n + row] = q[row * n + column];
        }
    }
    if !iterate(n, &mut diagonal, &mut beside, &mut a) {
        return Ok(false);
    }
    let mut order = memory.filled(n, 0usize)?;
    order.iter_mut().enumerate().for_each(|(i, at)| *at = i);
    order.sort_by(|&i, &j| diagonal[i].total_cmp(&diagonal[j]));
    for (i, &from) in order.iter().enumerate() {
        values[i] = T::real_down(diagonal[from] * scale);
        for row in 0..n {
            vectors[row * n + i] = T::down(a[from * n + row]);
        }
    }
    Ok(true)
}

/// The Hermitian matrix `a` as `q t qᴴ`, with a real tridiagonal `t`: its diagonal, and what stands beside it. Destroys `a`.
fn tridiagonalise<F: Field>(
    n: usize,
    a: &mut [F],
    q: &mut [F],
    diagonal: &mut [f64],
    beside: &mut [f64],
    memory: Memory<'_>,
) -> Result<()> {
    let mut taus = memory.filled(n, F::default())?;
    let mut w = memory.filled(n, F::default())?;
    for step in 0..n {
        diagonal[step] = a[step * n + step].real();
        let first = step + 1;
        if first == n {
            break;
        }
        // The column below the diagonal, the conjugate of the row beside it, in whose place its vector is kept.
        let (head, below) = a.split_at_mut(first * n);
        let v = &mut head[step * n + first..];
        v.iter_mut().for_each(|x| *x = x.conjugate());
        let Reflection { tau, beta } = Reflection::of(v);
        (taus[step], beside[step]) = (tau, beta);
        if tau == F::default() {
            continue;
        }
        // With x = tau B v and w = x − (x's part along v) / 2, the reflected block is B − w vᴴ − v wᴴ.
        let w = &mut w[first..];
        w.fill(F::default());
        for (&v, row) in v.iter().zip(below.chunks_exact(n)) {
            let factor = tau * v;
            // Columns of a Hermitian matrix are the conjugates of its rows.
            w.iter_mut().zip(&row[first..]).for_each(|(w, x)| *w += factor * x.conjugate());
        }
        let mut along = F::default();
        v.iter().zip(&*w).for_each(|(v, &w)| along += v.conjugate() * w);
        let half = (tau.conjugate() * along).real() / 2.0;
        w.iter_mut().zip(&*v).for_each(|(w, &v)| *w -= v * half);
        for (i, row) in below.chunks_exact_mut(n).enumerate() {
            let (left, right) = (w[i], v[i]);
            for ((x, &v), &w) in row[first..].iter_mut().zip(&*v).zip(&*w) {
                *x -= left * v.conjugate() + right * w.conjugate();
            }
        }
    }
    for i in 0..n {
        q[i * n + i] = F::from_real(1.0);
    }
    for step in (0..n.saturating_sub(1)).rev() {
        let first = step + 1;
        apply(taus[step], &a[step * n + first..first * n], &mut q[first * n..], n, first, &mut w);
    }
    Ok(())
}

/// Iterations for one eigenvalue: two are usual, and no finite matrix is known to need many more than ten.
const ITERATIONS: usize = 60;

/// Turns a tridiagonal matrix of order one into its eigenvalues, and the rows of `vectors` with it. False if that takes too long.
fn iterate<F: Field>(n: usize, diagonal: &mut [f64], beside: &mut [f64], vectors: &mut [F]) -> bool {
    // Beside numbers of order one nothing is lost below the square of the rounding unit, even where the diagonal is 0.
    let is_small = |beside: f64, diagonal: &[f64]| {
        beside.abs() <= f64::EPSILON * (diagonal[0].abs() + diagonal[1].abs() + f64::EPSILON)
    };
    for first in 0..n {
        let mut iterations = 0;
        loop {
            let last = (first..n - 1).find(|&i| is_small(beside[i], &diagonal[i..])).unwrap_or(n - 1);
            if last == first {
                break;
            }
            if iterations == ITERATIONS {
                return false;
            }
            iterations += 1;
            sweep(n, first, last, diagonal, beside, vectors);
        }
    }
    true
}

/// One step of implicit QL, with Wilkinson's shift, on the block from `first` to `last`.
fn sweep<F: Field>(n: usize, first: usize, last: usize, d: &mut [f64], e: &mut [f64], vectors: &mut [F]) {
    let theta = (d[first + 1] - d[first]) / (2.0 * e[first]);
    let mut g = d[last] - d[first] + e[first] / (theta + theta.hypot(1.0).copysign(theta));
    let (mut sine, mut cosine, mut shift) = (1.0, 1.0, 0.0);
    for i in (first..last).rev() {
        let (f, b) = (sine * e[i], cosine * e[i]);
        let r = f.hypot(g);
        e[i + 1] = r;
        if r == 0.0 {
            // The block falls in two.
            d[i + 1] -= shift;
            e[last] = 0.0;
            return;
        }
        (sine, cosine) = (f / r, g / r);
        g = d[i + 1] - shift;
        let change = (d[i] - g) * sine + 2.0 * cosine * b;
        shift = sine * change;
        d[i + 1] = g + shift;
        g = cosine * change - b;
        let (low, high) = vectors.split_at_mut((i + 1) * n);
        for (x, y) in low[i * n..].iter_mut().zip(&mut high[..n]) {
            let (low, high) = (*x, *y);
            *y = low * sine + high * cosine;
            *x = low * cosine - high * sine;
        }
    }
    d[first] -= shift;
    e[first] = g;
    e[last] = 0.0;
}
