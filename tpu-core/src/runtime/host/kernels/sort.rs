//! Sorting and selection. The order of one lane is found as a permutation, by key and then by position, so equal keys
//! always keep their order; then every operand is moved by it.

use super::super::scratch::{Memory, Scratch};
use super::along::around;
use super::cell::{Cell, with_ordered};
use super::elementwise::refused;
use super::movement::with_width;
use super::wide::order;
use super::{Operand, Target, split};
use crate::{Error, ErrorKind, Result, bail, ensure};
use bytemuck::Pod;
use std::cmp::Ordering;

/// Nanoseconds of sorting, an element of a lane of `n`.
fn cost(n: usize) -> f64 {
    3.0 * (n.max(2) as f64).log2()
}

/// A key and where it was.
type Entry<W> = (W, u32);

/// Best first: by key, then by position.
fn compare<T: Cell<Wide: PartialOrd>>(descending: bool) -> impl Fn(&Entry<T::Wide>, &Entry<T::Wide>) -> Ordering {
    move |a, b| {
        let by_key = if descending { order(b.0, a.0) } else { order(a.0, b.0) };
        by_key.then(a.1.cmp(&b.1))
    }
}

fn position_limit(op: &'static str, n: usize) -> Result<()> {
    ensure!(i32::try_from(n).is_ok(), Value, op, "requires fewer than 2^31 elements along the axis, got {n}");
    Ok(())
}

/// All operands along `axis`, by the first.
pub(super) fn sort(
    axis: usize,
    descending: bool,
    inputs: &[Operand<'_>],
    outputs: &mut [Target<'_>],
    memory: Memory<'_>,
) -> Result<()> {
    let Some(keys) = inputs.first() else { bail!(Internal, "sort", "requires an operand") };
    let shape = around(keys.sizes(), axis);
    position_limit("sort", shape.1)?;
    let dtype = keys.ty.dtype;
    let permutation = with_ordered!(dtype, T => permutation::<T>(keys.cells()?, shape, descending, memory)?, {
        return Err(refused("sort", dtype))
    });
    for (x, y) in inputs.iter().zip(outputs) {
        with_width!(x.ty.dtype, T => permute::<T>(x.cells()?, &permutation, shape, y.cells()?));
    }
    Ok(())
}

/// For each lane (outer axes, then inner ones) the positions in sorted order.
fn permutation<'m, T: Cell<Wide: PartialOrd>>(
    keys: &[T],
    (before, n, after): (usize, usize, usize),
    descending: bool,
    memory: Memory<'m>,
) -> Result<Scratch<'m, u32>> {
    let mut permutation = memory.filled(before * n * after, 0u32)?;
    split::try_parts(&mut permutation, n, cost(n), |first, part| {
        let mut entries: Scratch<'_, Entry<T::Wide>> = memory.filled(n, (T::default().widen(), 0))?;
        for (lane, positions) in part.chunks_exact_mut(n.max(1)).enumerate() {
            let lane = first / n + lane;
            let start = lane / after * n * after + lane % after;
            for (i, entry) in entries.iter_mut().enumerate() {
                *entry = (keys[start + i * after].widen(), i as u32);
            }
            entries.sort_unstable_by(compare::<T>(descending));
            for (position, entry) in positions.iter_mut().zip(entries.iter()) {
                *position = entry.1;
            }
        }
        Ok(())
    })?;
    Ok(permutation)
}

fn permute<T: Pod + Send + Sync>(x: &[T], permutation: &[u32], (_, n, after): (usize, usize, usize), y: &mut [T]) {
    let slab = n * after;
    split::parts(y, 1, 2.0, |first, part| {
        for (i, y) in part.iter_mut().enumerate() {
            let (outer, inside) = ((first + i) / slab, (first + i) % slab);
            let (place, column) = (inside / after, inside % after);
            let from = permutation[(outer * after + column) * n + place] as usize;
            *y = x[outer * slab + from * after + column];
        }
    });
}

/// The `k` best elements along the last axis and where they are.
pub(super) fn top_k(
    k: usize,
    largest: bool,
    x: &Operand<'_>,
    out: &mut [Target<'_>; 2],
    memory: Memory<'_>,
) -> Result<()> {
    let (dtype, Some(&n)) = (x.ty.dtype, x.sizes().last()) else {
        return Err(Error::new(ErrorKind::Internal, "top_k", "requires an axis"));
    };
    position_limit("top_k", n)?;
    with_ordered!(dtype, T => top_k_cells::<T>(k, n, largest, x, out, memory), Err(refused("top_k", dtype)))
}

fn top_k_cells<T: Cell<Wide: PartialOrd>>(
    k: usize,
    n: usize,
    largest: bool,
    x: &Operand<'_>,
    [values, positions]: &mut [Target<'_>; 2],
    memory: Memory<'_>,
) -> Result<()> {
    let (x, positions) = (x.cells::<T>()?, positions.cells::<i32>()?);
    if k == 0 {
        return Ok(());
    }
    split::try_parts(positions, k, 3.0 * n as f64 / k as f64 + cost(k), |first, part| {
        let mut entries: Scratch<'_, Entry<T::Wide>> = memory.filled(n, (T::default().widen(), 0))?;
        for (row, positions) in part.chunks_exact_mut(k).enumerate() {
            let start = (first / k + row) * n;
            for (i, (entry, x)) in entries.iter_mut().zip(&x[start..start + n]).enumerate() {
                *entry = (x.widen(), i as u32);
            }
            if k < n {
                entries.select_nth_unstable_by(k - 1, compare::<T>(largest));
            }
            entries[..k].sort_unstable_by(compare::<T>(largest));
            for (position, entry) in positions.iter_mut().zip(entries.iter()) {
                *position = entry.1 as i32;
            }
        }
        Ok(())
    })?;
    split::parts(values.cells::<T>()?, 1, 1.0, |first, part| {
        for (i, value) in part.iter_mut().enumerate() {
            *value = x[(first + i) / k * n + positions[first + i] as usize];
        }
    });
    Ok(())
}
