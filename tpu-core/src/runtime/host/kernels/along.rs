//! Ops that go along one axis in order: arg-reductions and running reductions.

use super::super::scratch::Memory;
use super::cell::{Cell, with_number, with_ordered};
use super::elementwise::refused;
use super::wide::Wide;
use super::{Operand, Target, split};
use crate::ir::{Extreme, Reducer};
use crate::{DType, Result, ensure};

/// Sizes before, of and after an axis.
pub(super) fn around(sizes: &[usize], axis: usize) -> (usize, usize, usize) {
    (sizes[..axis].iter().product(), sizes[axis], sizes[axis + 1..].iter().product())
}

/// Whether `x` beats the best so far: the first NaN wins, then the first of equals. Without a branch, so that loops have vectors.
#[inline(always)]
pub(super) fn beats<W: Wide + PartialOrd>(kind: Extreme, x: W, best: W) -> bool {
    let further = match kind {
        Extreme::Max => x > best,
        Extreme::Min => x < best,
    };
    further | (x.is_nan() & !best.is_nan())
}

/// Whether element `x` is selected rather than the best so far.
fn is_better<T: Cell<Wide: PartialOrd>>(kind: Extreme, x: T, best: T) -> bool {
    beats(kind, x.widen(), best.widen())
}

/// Extreme along `axis` and where it is.
pub(super) fn arg_reduce(kind: Extreme, axis: usize, x: &Operand<'_>, out: &mut [Target<'_>; 2]) -> Result<()> {
    let dtype = x.ty.dtype;
    with_ordered!(dtype, T => arg_reduce_cells::<T>(kind, axis, x, out), Err(refused("arg_reduce", dtype)))
}

fn arg_reduce_cells<T: Cell<Wide: PartialOrd>>(
    kind: Extreme,
    axis: usize,
    x: &Operand<'_>,
    [value, index]: &mut [Target<'_>; 2],
) -> Result<()> {
    let (_, n, after) = around(x.sizes(), axis);
    let (x, index) = (x.cells::<T>()?, index.cells::<i64>()?);
    ensure!(n > 0 || index.is_empty(), Value, "arg_reduce", "requires at least one element along the axis, got none");
    // A part is whole rows of the elements after the axis, or one place when there are none.
    split::parts(index, after, n as f64, |first, part| {
        for (row, line) in part.chunks_exact_mut(after.max(1)).enumerate() {
            let slab = &x[(first / after.max(1) + row) * n * after..][..n * after];
            if after == 1 {
                let (mut best, mut at) = (slab[0].widen(), 0);
                for (i, x) in slab.iter().enumerate().skip(1) {
                    let x = x.widen();
                    if beats(kind, x, best) {
                        (best, at) = (x, i);
                    }
                }
                line[0] = at as i64;
                continue;
            }
            line.fill(0);
            for i in 1..n {
                for (c, at) in line.iter_mut().enumerate() {
                    if is_better(kind, slab[i * after + c], slab[*at as usize * after + c]) {
                        *at = i as i64;
                    }
                }
            }
        }
    });
    split::parts(value.cells::<T>()?, 1, 2.0, |first, part| {
        for (i, y) in part.iter_mut().enumerate() {
            let at = first + i;
            *y = x[(at / after * n + index[at] as usize) * after + at % after];
        }
    });
    Ok(())
}

/// Running reduction along `axis`. `f32` sums and products run in double precision, as PyTorch's do.
pub(super) fn cumulative(
    kind: Reducer,
    axis: usize,
    reverse: bool,
    x: &Operand<'_>,
    [y]: &mut [Target<'_>; 1],
    memory: Memory<'_>,
) -> Result<()> {
    let dtype = x.ty.dtype;
    let shape = around(x.sizes(), axis);
    match (dtype, kind) {
        (DType::F32, Reducer::Sum) => {
            running(x.cells::<f32>()?, y.cells()?, shape, reverse, memory, 0f64, f64::from, |a, b| a + b, |a| a as f32)
        }
        (DType::F32, Reducer::Product) => {
            running(x.cells::<f32>()?, y.cells()?, shape, reverse, memory, 1f64, f64::from, |a, b| a * b, |a| a as f32)
        }
        _ => with_number!(dtype, T => {
            let combine = <T as Cell>::Wide::reducer::<T>(kind).ok_or_else(|| refused("cumulative", dtype))?;
            let (x, y) = (x.cells::<T>()?, y.cells::<T>()?);
            running(x, y, shape, reverse, memory, combine.identity, T::widen, combine.apply, T::narrow)
        }, Err(refused("cumulative", dtype))),
    }
}

fn running<T: Cell, A: Copy + Send + Sync>(
    x: &[T],
    y: &mut [T],
    (_, n, after): (usize, usize, usize),
    reverse: bool,
    memory: Memory<'_>,
    identity: A,
    widen: fn(T) -> A,
    apply: fn(A, A) -> A,
    narrow: fn(A) -> T,
) -> Result<()> {
    let slab = n * after;
    if slab == 0 {
        return Ok(());
    }
    split::try_parts(y, slab, 2.0, |first, part| {
        let mut acc = memory.filled(after, identity)?;
        for (y, x) in part.chunks_exact_mut(slab).zip(x[first..].chunks_exact(slab)) {
            acc.fill(identity);
            for step in 0..n {
                let at = if reverse { n - 1 - step } else { step } * after;
                for ((acc, x), y) in acc.iter_mut().zip(&x[at..at + after]).zip(&mut y[at..at + after]) {
                    *acc = apply(*acc, widen(*x));
                    *y = narrow(*acc);
                }
            }
        }
        Ok(())
    })
}
