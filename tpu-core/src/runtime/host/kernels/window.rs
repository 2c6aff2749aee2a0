//! Reductions over windows, and the selection that undoes them.

use super::super::scratch::Memory;
use super::along::is_better;
use super::cell::{Cell, with_number, with_ordered};
use super::elementwise::refused;
use super::strided::{self, Odometer};
use super::wide::{Combine, Wide};
use super::{Operand, Target, split};
use crate::Result;
use crate::ir::{Extreme, Reducer, Window};
use smallvec::SmallVec;

/// For each window position along one axis the operand elements it meets, as distances in memory. Padding and the
/// holes of a dilated operand are not among them.
struct Taps {
    offsets: Vec<isize>,
    /// Where the offsets of each position start, and the end.
    starts: Vec<usize>,
}

impl Taps {
    fn new(window: &Window, axis: usize, size: usize, stride: isize, positions: usize) -> Self {
        let (base, hole) = (window.base_dilations[axis] as i64, window.window_dilations[axis] as i64);
        let (step, low) = (window.strides[axis] as i64, window.padding[axis].0);
        let (mut offsets, mut starts) = (Vec::new(), vec![0]);
        for position in 0..positions as i64 {
            for tap in 0..window.sizes[axis] as i64 {
                let place = position * step + tap * hole - low;
                if place >= 0 && place % base == 0 && place / base < size as i64 {
                    offsets.push((place / base) as isize * stride);
                }
            }
            starts.push(offsets.len());
        }
        Self { offsets, starts }
    }

    fn at(&self, position: usize) -> &[isize] {
        &self.offsets[self.starts[position]..self.starts[position + 1]]
    }
}

/// The taps of every axis for an operand and a result (or source) of the given sizes.
fn all_taps(window: &Window, x: &[usize], positions: &[usize]) -> Vec<Taps> {
    let strides = strided::dense(x);
    (0..x.len()).map(|axis| Taps::new(window, axis, x[axis], strides[axis], positions[axis])).collect()
}

/// Calls `body` with the position of each operand element in the window at `index`, in row-major order.
fn for_each_tap(taps: &[Taps], index: &[usize], mut body: impl FnMut(usize)) {
    let mut base = 0;
    let mut lists: SmallVec<[&[isize]; 6]> = SmallVec::new();
    for (taps, &position) in taps.iter().zip(index) {
        match taps.at(position) {
            [] => return,
            [one] => base += one,
            more => lists.push(more),
        }
    }
    let Some((inner, outer)) = lists.split_last() else { return body(base as usize) };
    let mut at: SmallVec<[usize; 6]> = SmallVec::from_elem(0, outer.len());
    loop {
        let start: isize = base + outer.iter().zip(&at).map(|(list, &i)| list[i]).sum::<isize>();
        inner.iter().for_each(|&offset| body((start + offset) as usize));
        let mut axis = outer.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            at[axis] += 1;
            if at[axis] < outer[axis].len() {
                break;
            }
            at[axis] = 0;
        }
    }
}

/// A reduction over each window; the identity where a window meets only padding.
pub(super) fn reduce_window(kind: Reducer, window: &Window, x: &Operand<'_>, [y]: &mut [Target<'_>; 1]) -> Result<()> {
    let dtype = x.ty.dtype;
    let sizes = y.ty.shape.sizes();
    let taps = all_taps(window, x.sizes(), sizes);
    with_number!(dtype, T => {
        let combine = <T as Cell>::Wide::reducer::<T>(kind).ok_or_else(|| refused("reduce_window", dtype))?;
        reduce_windows::<T>(&combine, &taps, window, sizes, x.cells()?, y.cells()?);
    }, return Err(refused("reduce_window", dtype)));
    Ok(())
}

fn reduce_windows<T: Cell>(
    combine: &Combine<T>,
    taps: &[Taps],
    window: &Window,
    sizes: &[usize],
    x: &[T],
    y: &mut [T],
) {
    let volume: usize = window.sizes.iter().product();
    split::parts(y, 1, 10.0 + 2.0 * volume as f64, |first, part| {
        let mut at = Odometer::new(sizes, &strided::dense(sizes), 0, first);
        for y in part {
            let mut acc = combine.identity;
            for_each_tap(taps, at.index(), |i| acc = (combine.apply)(acc, x[i].widen()));
            *y = T::narrow(acc);
            at.advance();
        }
    });
}

/// Each element of `source` added at the place of its window's first extreme in `x`.
pub(super) fn select_and_scatter(
    select: Extreme,
    window: &Window,
    [x, source]: &[Operand<'_>; 2],
    [y]: &mut [Target<'_>; 1],
    memory: Memory<'_>,
) -> Result<()> {
    let dtype = x.ty.dtype;
    let (sizes, places) = (x.sizes(), source.sizes());
    // Leading axes along which windows do not reach: their elements are independent of each other.
    let lead = (0..sizes.len())
        .take_while(|&axis| window.sizes[axis] == 1 && window.strides[axis] == 1 && window.padding[axis] == (0, 0))
        .count();
    let taps = all_taps(window, sizes, places);
    let name = "select_and_scatter";
    with_ordered!(dtype, T => {
        let add = <T as Cell>::Wide::reducer::<T>(Reducer::Sum).ok_or_else(|| refused(name, dtype))?;
        select_cells::<T>(select, &taps[lead..], &places[lead..], x.cells()?, source.cells()?, &add, y.cells()?, {
            sizes[lead..].iter().product()
        }, memory)
    }, Err(refused(name, dtype)))
}

fn select_cells<T: Cell<Wide: PartialOrd>>(
    select: Extreme,
    taps: &[Taps],
    places: &[usize],
    x: &[T],
    source: &[T],
    add: &Combine<T>,
    y: &mut [T],
    slab: usize,
    memory: Memory<'_>,
) -> Result<()> {
    if slab == 0 {
        return Ok(());
    }
    let per_slab: usize = places.iter().product();
    let strides = strided::dense(places);
    split::try_parts(y, slab, 10.0, |first, part| {
        let mut acc = memory.filled(slab, add.identity)?;
        for (number, y) in part.chunks_exact_mut(slab).enumerate() {
            let number = first / slab + number;
            let (x, source) = (&x[number * slab..][..slab], &source[number * per_slab..][..per_slab]);
            acc.fill(add.identity);
            let mut at = Odometer::new(places, &strides, 0, 0);
            for s in source {
                let mut best: Option<usize> = None;
                for_each_tap(taps, at.index(), |i| {
                    if best.is_none_or(|b| is_better(select, x[i], x[b])) {
                        best = Some(i);
                    }
                });
                if let Some(i) = best {
                    acc[i] = (add.apply)(acc[i], s.widen());
                }
                at.advance();
            }
            for (y, &acc) in y.iter_mut().zip(acc.iter()) {
                *y = T::narrow(acc);
            }
        }
        Ok(())
    })
}
