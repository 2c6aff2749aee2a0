//! QR by Householder reflections.

use super::{Matrix, Wide, all_elements, gathered, matrices, quotient};
use crate::Result;
use crate::ir::Type;
use crate::reference::Array;

/// `qr(x)`: q and r.
pub fn qr(x: &Array, types: &[Type]) -> Result<Vec<Array>> {
    let (q, r): (Vec<_>, Vec<_>) = matrices(x).into_iter().map(factors).unzip();
    Ok(vec![gathered(&types[0], all_elements(&q))?, gathered(&types[1], all_elements(&r))?])
}

/// The reflection `1 − tau v vᴴ` whose adjoint takes a column to `(beta, 0, …)`; LAPACK's `larfg`.
struct Reflection {
    tau: Wide,
    /// From the row of the diagonal on, where it is 1.
    v: Vec<Wide>,
}

impl Reflection {
    /// For the part of a column from the diagonal on. `beta` is real, its sign opposite to the first entry's real part.
    fn of(column: &[Wide]) -> Self {
        let (alpha, rest) = (column[0], &column[1..]);
        let mut v = vec![Wide::ZERO; column.len()];
        v[0] = 1.0.into();
        if rest.iter().all(|x| x.norm_sqr() == 0.0) && alpha.im == 0.0 {
            return Self { tau: Wide::ZERO, v };
        }
        let norm = column.iter().map(|x| x.norm_sqr()).sum::<f64>().sqrt();
        let beta = -norm.copysign(alpha.re);
        for (v, x) in v[1..].iter_mut().zip(rest) {
            *v = quotient(*x, alpha - beta);
        }
        Self { tau: (Wide::from(beta) - alpha) / beta, v }
    }

    /// Applies the reflection, or with the conjugate of tau its adjoint, to the rows of `x` from `first` on.
    fn apply(&self, tau: Wide, x: &mut Matrix, first: usize) {
        for j in 0..x.columns {
            let projection: Wide = self.v.iter().enumerate().map(|(i, v)| v.conj() * x[(first + i, j)]).sum();
            for (i, v) in self.v.iter().enumerate() {
                x[(first + i, j)] -= tau * projection * v;
            }
        }
    }
}

fn factors(mut x: Matrix) -> (Matrix, Matrix) {
    let k = x.rows.min(x.columns);
    let mut reflections = Vec::new();
    for step in 0..k {
        let column: Vec<Wide> = (step..x.rows).map(|i| x[(i, step)]).collect();
        let reflection = Reflection::of(&column);
        reflection.apply(reflection.tau.conj(), &mut x, step);
        (step + 1..x.rows).for_each(|i| x[(i, step)] = Wide::ZERO);
        reflections.push(reflection);
    }
    let mut q = Matrix::identity(x.rows, k);
    for (step, reflection) in reflections.iter().enumerate().rev() {
        reflection.apply(reflection.tau, &mut q, step);
    }
    let r = Matrix::from_fn(k, x.columns, |i, j| x[(i, j)]);
    (q, r)
}
