//! Eigenvalues of Hermitian matrices by Jacobi's rotations.

use super::{Matrix, Wide, all_elements, gathered, matrices};
use crate::Result;
use crate::ir::Type;
use crate::reference::Array;

/// `eigh(x)`: ascending eigenvalues, and eigenvectors in columns.
pub fn eigh(x: &Array, types: &[Type]) -> Result<Vec<Array>> {
    let (values, vectors): (Vec<_>, Vec<_>) = matrices(x).into_iter().map(|x| decompose(&x)).unzip();
    Ok(vec![gathered(&types[0], values.iter().flatten())?, gathered(&types[1], all_elements(&vectors))?])
}

/// More sweeps than any matrix needs: convergence is quadratic, ten are usual.
const SWEEPS: usize = 60;

fn decompose(x: &Matrix) -> (Vec<Wide>, Matrix) {
    let n = x.rows;
    // The lower triangle says it all; imaginary parts of the diagonal are not read.
    let mut a = Matrix::from_fn(n, n, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Greater => x[(i, j)],
        std::cmp::Ordering::Equal => x[(i, i)].re.into(),
        std::cmp::Ordering::Less => x[(j, i)].conj(),
    });
    if !a.elements.iter().all(|x| x.re.is_finite() && x.im.is_finite()) {
        let nan = Wide::new(f64::NAN, f64::NAN);
        return (vec![nan; n], Matrix::from_fn(n, n, |_, _| nan));
    }
    let mut v = Matrix::identity(n, n);
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for p in 0..n {
            for q in p + 1..n {
                rotated |= rotate(&mut a, &mut v, p, q);
            }
        }
        if !rotated {
            break;
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[(i, i)].re.total_cmp(&a[(j, j)].re));
    let values = order.iter().map(|&i| a[(i, i)]).collect();
    (values, Matrix::from_fn(n, n, |i, j| v[(i, order[j])]))
}

/// Makes element (p, q) zero. False when it is too small to matter beside the diagonal.
fn rotate(a: &mut Matrix, v: &mut Matrix, p: usize, q: usize) -> bool {
    let (off, low, high) = (a[(p, q)], a[(p, p)].re, a[(q, q)].re);
    let size = off.norm();
    if size <= f64::EPSILON / 4.0 * (low * high).abs().sqrt() || size < f64::MIN_POSITIVE {
        a[(p, q)] = Wide::ZERO;
        a[(q, p)] = Wide::ZERO;
        return false;
    }
    // First a phase that makes the element real, then a plane rotation by the smaller of the two angles.
    let phase = off.conj() / size;
    let theta = (high - low) / (2.0 * size);
    let tangent = 1f64.copysign(theta) / (theta.abs() + theta.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    let sine = tangent * cosine;
    for matrix in [&mut *a, v] {
        for i in 0..matrix.rows {
            let (x, y) = (matrix[(i, p)], matrix[(i, q)] * phase);
            matrix[(i, p)] = x * cosine - y * sine;
            matrix[(i, q)] = x * sine + y * cosine;
        }
    }
    for j in 0..a.columns {
        let (x, y) = (a[(p, j)], a[(q, j)] * phase.conj());
        a[(p, j)] = x * cosine - y * sine;
        a[(q, j)] = x * sine + y * cosine;
    }
    a[(p, q)] = Wide::ZERO;
    a[(q, p)] = Wide::ZERO;
    a[(p, p)].im = 0.0;
    a[(q, q)].im = 0.0;
    true
}
