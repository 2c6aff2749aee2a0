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
            let sum = |a: f64, x: f32| a + f64::from(x);
            running(x.cells::<f32>()?, y.cells()?, shape, reverse, memory, 0f64, sum, |a| a as f32)
        }
        (DType::F32, Reducer::Product) => {
            let product = |a: f64, x: f32| a * f64::from(x);
            running(x.cells::<f32>()?, y.cells()?, shape, reverse, memory, 1f64, product, |a| a as f32)
        }
        _ => with_number!(dtype, T => {
            let combine = <T as Cell>::Wide::reducer::<T>(kind).ok_or_else(|| refused("cumulative", dtype))?;
            let (x, y) = (x.cells::<T>()?, y.cells::<T>()?);
            let apply = |a, x: T| (combine.apply)(a, x.widen());
            running(x, y, shape, reverse, memory, combine.identity, apply, T::narrow)
        }, Err(refused("cumulative", dtype))),
    }
}

/// Lines that are gone through together: each result waits for the one before it in its own line only. Lines whose length is a
/// power of two share places of the cache, so they are few.
const TOGETHER: usize = 2;

fn running<T: Cell, A: Copy + Send + Sync>(
    x: &[T],
    y: &mut [T],
    (_, n, after): (usize, usize, usize),
    reverse: bool,
    memory: Memory<'_>,
    identity: A,
    apply: impl Fn(A, T) -> A + Sync,
    narrow: impl Fn(A) -> T + Sync,
) -> Result<()> {
    let slab = n * after;
    if slab == 0 {
        return Ok(());
    }
    split::try_parts(y, slab, 2.0, |first, part| {
        let x = &x[first..first + part.len()];
        if after == 1 {
            let whole = part.len() / (TOGETHER * n) * TOGETHER * n;
            let (together, rest) = part.split_at_mut(whole);
            for (y, x) in together.chunks_exact_mut(TOGETHER * n).zip(x.chunks_exact(TOGETHER * n)) {
                lines::<T, A, TOGETHER>(x, y, reverse, identity, &apply, &narrow);
            }
            for (y, x) in rest.chunks_exact_mut(n).zip(x[whole..].chunks_exact(n)) {
                lines::<T, A, 1>(x, y, reverse, identity, &apply, &narrow);
            }
            return Ok(());
        }
        let mut acc = memory.filled(after, identity)?;
        for (y, x) in part.chunks_exact_mut(slab).zip(x.chunks_exact(slab)) {
            acc.fill(identity);
            for step in 0..n {
                let at = if reverse { n - 1 - step } else { step } * after;
                for ((acc, x), y) in acc.iter_mut().zip(&x[at..at + after]).zip(&mut y[at..at + after]) {
                    *acc = apply(*acc, *x);
                    *y = narrow(*acc);
                }
            }
        }
        Ok(())
    })
}

/// `N` lines of adjacent elements.
#[inline(always)]
fn lines<T: Cell, A: Copy, const N: usize>(
    x: &[T],
    y: &mut [T],
    reverse: bool,
    identity: A,
    apply: &impl Fn(A, T) -> A,
    narrow: &impl Fn(A) -> T,
) {
    let n = x.len() / N;
    let from: [&[T]; N] = std::array::from_fn(|line| &x[line * n..][..n]);
    let mut lines = y.chunks_exact_mut(n);
    let to: [&mut [T]; N] = std::array::from_fn(|_| lines.next().unwrap_or_default());
    let mut acc = [identity; N];
    for step in 0..n {
        let at = if reverse { n - 1 - step } else { step };
        for line in 0..N {
            acc[line] = apply(acc[line], from[line][at]);
            to[line][at] = narrow(acc[line]);
        }
    }
}
