//! QR by Householder reflections.

use super::super::super::scratch::Memory;
use super::super::{Operand, Target, split};
use super::reflection::{Reflection, apply};
use super::{Field, Solved, count, matrix, power_of_two, with_solved};
use crate::Result;
use crate::ir::Op;

/// `x = q r`: orthonormal columns, and an upper triangle with a real diagonal.
pub(in super::super) fn qr(op: &Op, x: &Operand<'_>, [q, r]: &mut [Target<'_>; 2], memory: Memory<'_>) -> Result<()> {
    let (m, n) = matrix(x, op)?;
    with_solved!("qr", x.ty.dtype, T => {
        let cells = x.cells::<T>()?;
        let cost = 2.0 * (m * n * m.min(n)) as f64;
        split::matrices(count(x), (q.cells::<T>()?, r.cells::<T>()?, &mut [] as &mut [u8]), cost, &|number, (q, r, _)| {
            factorise(m, n, &cells[number * m * n..][..m * n], q, r, memory)
        })
    })
}

/// One matrix. The factor of a column scales with it, so each column is divided by a power of two of its own.
fn factorise<T: Solved>(m: usize, n: usize, x: &[T], q: &mut [T], r: &mut [T], memory: Memory<'_>) -> Result<()> {
    let (zero, k) = (<T as Solved>::In::default(), m.min(n));
    if k == 0 {
        return Ok(());
    }
    let mut a = memory.filled(m * n, zero)?;
    let mut scales = memory.filled(n, 0f64)?;
    for row in x.chunks_exact(n) {
        scales.iter_mut().zip(row).for_each(|(scale, x)| *scale = scale.max(x.up().size()));
    }
    scales.iter_mut().for_each(|scale| *scale = power_of_two(*scale));
    for (i, a) in a.iter_mut().enumerate() {
        *a = x[i].up() / scales[i % n];
    }
    // Vector number `step` starts at `step * m + step`.
    let mut vectors = memory.filled(k * m, zero)?;
    let mut taus = memory.filled(k, zero)?;
    let mut sums = memory.filled(n.max(k), zero)?;
    for step in 0..k {
        let v = &mut vectors[step * m + step..(step + 1) * m];
        v.iter_mut().zip(a[step * n + step..].iter().step_by(n)).for_each(|(v, &x)| *v = x);
        let Reflection { tau, beta } = Reflection::of(v);
        apply(tau.conjugate(), v, &mut a[step * n..], n, step + 1, &mut sums);
        a[step * n + step] = Field::from_real(beta);
        taus[step] = tau;
    }
    for (i, r) in r.iter_mut().enumerate() {
        let (row, column) = (i / n, i % n);
        *r = T::down(if row > column { zero } else { a[i] * scales[column] });
    }
    let mut product = memory.filled(m * k, zero)?;
    for i in 0..k {
        product[i * k + i] = Field::from_real(1.0);
    }
    for step in (0..k).rev() {
        let v = &vectors[step * m + step..(step + 1) * m];
        apply(taus[step], v, &mut product[step * k..], k, step, &mut sums);
    }
    q.iter_mut().zip(product.iter()).for_each(|(q, &x)| *q = T::down(x));
    Ok(())
}
