//! Gaussian elimination with partial pivoting.

use super::super::super::scratch::Memory;
use super::super::{Operand, Target, split};
use super::{Field, Solved, count, matrix, with_solved};
use crate::Result;
use crate::ir::Op;

/// Both factors in one matrix, the row that each step exchanges its own with, and the order of rows that this makes.
pub(in super::super) fn lu(
    op: &Op,
    x: &Operand<'_>,
    [factors, pivots, permutation]: &mut [Target<'_>; 3],
    memory: Memory<'_>,
) -> Result<()> {
    let (m, n) = matrix(x, op)?;
    with_solved!("lu", x.ty.dtype, T => {
        let cells = x.cells::<T>()?;
        let cost = 0.7 * (m * n * m.min(n)) as f64;
        let targets = (factors.cells::<T>()?, pivots.cells::<i32>()?, permutation.cells::<i32>()?);
        split::matrices(count(x), targets, cost, &|number, (factors, pivots, permutation)| {
            let mut work = memory.filled(m * n, <T as Solved>::In::default())?;
            work.iter_mut().zip(&cells[number * m * n..]).for_each(|(a, x)| *a = x.up());
            permutation.iter_mut().zip(0..).for_each(|(row, number)| *row = number);
            for (step, pivot) in pivots.iter_mut().enumerate() {
                let row = eliminate(n, step, &mut work);
                permutation.swap(step, row);
                *pivot = row as i32;
            }
            factors.iter_mut().zip(work.iter()).for_each(|(y, &a)| *y = T::down(a));
            Ok(())
        })
    })
}

/// One step: exchanges row `step` of rows of `n` with the one of the largest element, and clears the column below. A column of
/// zeros is left as it is.
fn eliminate<F: Field>(n: usize, step: usize, a: &mut [F]) -> usize {
    let rows = a.len() / n;
    let mut pivot = step;
    for row in step + 1..rows {
        if a[row * n + step].size() > a[pivot * n + step].size() {
            pivot = row;
        }
    }
    if pivot != step {
        let (above, below) = a.split_at_mut(pivot * n);
        above[step * n..][..n].swap_with_slice(&mut below[..n]);
    }
    let (above, below) = a.split_at_mut((step + 1) * n);
    let own = &above[step * n + step..];
    let divisor = own[0];
    if divisor != F::default() {
        split::parts(below, n, 0.7 * (n - step) as f64 / n as f64, |_, part| {
            for row in part.chunks_exact_mut(n) {
                let factor = row[step] / divisor;
                row[step] = factor;
                row[step + 1..].iter_mut().zip(&own[1..]).for_each(|(x, &y)| *x -= factor * y);
            }
        });
    }
    pivot
}
