//! Householder reflections, with the signs of LAPACK's `larfg`.

use super::Field;

/// The reflection `1 − tau v vᴴ` whose adjoint takes a column to `(beta, 0, …)`.
pub(super) struct Reflection<F> {
    pub tau: F,
    pub beta: f64,
}

impl<F: Field> Reflection<F> {
    /// The reflection for the column in `v`, whose vector takes its place, 1 first. `beta` is real, of the sign that the first
    /// element does not have; a column that is real and zero below its first element stays as it is.
    pub fn of(v: &mut [F]) -> Self {
        let alpha = v[0];
        let below: f64 = v[1..].iter().map(|x| x.square()).sum();
        v[0] = F::from_real(1.0);
        if below == 0.0 && alpha == alpha.conjugate() {
            v[1..].fill(F::default());
            return Self { tau: F::default(), beta: alpha.real() };
        }
        let beta = -(alpha.square() + below).sqrt().copysign(alpha.real());
        let divisor = alpha - F::from_real(beta);
        v[1..].iter_mut().for_each(|x| *x = *x / divisor);
        Self { tau: (F::from_real(beta) - alpha) / beta, beta }
    }
}

/// Applies the reflection of `tau` and `v` to rows of `width` elements, from column `from` on, row by row. `sums` is memory for
/// a row.
pub(super) fn apply<F: Field>(tau: F, v: &[F], rows: &mut [F], width: usize, from: usize, sums: &mut [F]) {
    let sums = &mut sums[from..width];
    sums.fill(F::default());
    for (&v, row) in v.iter().zip(rows.chunks_exact(width)) {
        let factor = v.conjugate();
        sums.iter_mut().zip(&row[from..]).for_each(|(sum, &x)| *sum += factor * x);
    }
    for (&v, row) in v.iter().zip(rows.chunks_exact_mut(width)) {
        let factor = tau * v;
        row[from..].iter_mut().zip(&*sums).for_each(|(x, &sum)| *x -= factor * sum);
    }
}
