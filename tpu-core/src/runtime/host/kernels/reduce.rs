//! Reductions along axes.
//!
//! An operand is seen as rows of its last axes that are all kept or all reduced. Kept rows are added up row by row,
//! reduced rows are folded each by itself; rows combine in a balanced tree whose shape depends on sizes only. So sums
//! have small errors, large trees run on several threads, and the bits are those of one thread.

use super::cell::{Cell, with_number};
use super::elementwise::refused;
use super::strided::{self, Odometer, Strides};
use super::wide::{Combine, Wide};
use super::{Operand, Target, split};
use crate::Result;
use crate::ir::{Axes, Reducer};
use std::ops::Range;

/// `axes` of `x` removed.
pub(super) fn reduce(kind: Reducer, axes: &[usize], x: &Operand<'_>, [y]: &mut [Target<'_>; 1]) -> Result<()> {
    let dtype = x.ty.dtype;
    let plan = Plan::new(x.sizes(), axes);
    with_number!(dtype, T => {
        let combine = <T as Cell>::Wide::reducer::<T>(kind).ok_or_else(|| refused("reduce", dtype))?;
        plan.run(&combine, x.cells::<T>()?, y.cells::<T>()?);
    }, return Err(refused("reduce", dtype)));
    Ok(())
}

/// The axes of an operand, neighbours with the same fate joined.
#[derive(Default)]
struct Plan {
    /// Kept axes outside the rows.
    kept: (Axes, Strides),
    /// Reduced axes outside the rows.
    reduced: (Axes, Strides),
    /// Number of elements of a row.
    row: usize,
    /// Whether rows vanish.
    row_reduced: bool,
}

impl Plan {
    fn new(sizes: &[usize], axes: &[usize]) -> Self {
        let mut joined: Vec<(usize, bool)> = Vec::new();
        for (axis, &size) in sizes.iter().enumerate() {
            let vanishes = axes.contains(&axis);
            match joined.last_mut() {
                _ if size == 1 => {}
                Some((last, fate)) if *fate == vanishes => *last *= size,
                _ => joined.push((size, vanishes)),
            }
        }
        let (row, row_reduced) = joined.last().copied().unwrap_or((1, false));
        let strides = strided::dense(&joined.iter().map(|j| j.0).collect::<Axes>());
        let mut plan = Self { row, row_reduced, ..Self::default() };
        for (&(size, vanishes), &stride) in joined.iter().zip(&strides).take(joined.len().saturating_sub(1)) {
            let (sizes, strides) = if vanishes { &mut plan.reduced } else { &mut plan.kept };
            sizes.push(size);
            strides.push(stride);
        }
        plan
    }

    /// Number of rows that combine into one.
    fn rows(&self) -> usize {
        self.reduced.0.iter().product()
    }

    fn run<T: Cell>(&self, combine: &Combine<T>, x: &[T], y: &mut [T]) {
        if x.is_empty() {
            return y.fill(T::narrow(combine.identity));
        }
        let cost = (x.len() / y.len().max(1)) as f64 * 0.3;
        if self.row_reduced {
            split::parts(y, 1, cost, |first, part| {
                let mut start = Odometer::new(&self.kept.0, &self.kept.1, 0, first);
                for y in part {
                    *y = T::narrow(self.fold(combine, x, start.position, 0..self.rows()));
                    start.advance();
                }
            });
        } else {
            // Strips of columns that stay in the first-level cache while rows go by.
            let strip = self.row.min(1024);
            split::parts(y, strip, cost, |first, part| {
                let mut at = first;
                let mut part = part;
                while !part.is_empty() {
                    let column = at % self.row;
                    let width = strip.min(self.row - column).min(part.len());
                    let (head, rest) = part.split_at_mut(width);
                    let start = Odometer::new(&self.kept.0, &self.kept.1, column as isize, at / self.row).position;
                    let mut acc = vec![combine.identity; width];
                    self.fold_into(combine, x, start, 0..self.rows(), &mut acc);
                    for (y, acc) in head.iter_mut().zip(acc) {
                        *y = T::narrow(acc);
                    }
                    at += width;
                    part = rest;
                }
            });
        }
    }

    /// All elements of rows `range` from `start`.
    fn fold<T: Cell>(&self, combine: &Combine<T>, x: &[T], start: isize, range: Range<usize>) -> T::Wide {
        if range.len() == 1 {
            let row = Odometer::new(&self.reduced.0, &self.reduced.1, start, range.start).position as usize;
            return fold_row(combine, &x[row..row + self.row]);
        }
        if range.len() * self.row <= LEAF {
            let mut row = Odometer::new(&self.reduced.0, &self.reduced.1, start, range.start);
            let mut acc = combine.identity;
            for _ in range {
                let at = row.position as usize;
                acc = (combine.apply)(acc, (combine.fold)(&x[at..at + self.row]));
                row.advance();
            }
            return acc;
        }
        let (left, right) = halves(range);
        let large = left.len() * self.row >= LARGE;
        let (left, right) = join(large, || self.fold(combine, x, start, left), || self.fold(combine, x, start, right));
        (combine.apply)(left, right)
    }

    /// Rows `range` from `start`, column by column into `acc`.
    fn fold_into<T: Cell>(
        &self,
        combine: &Combine<T>,
        x: &[T],
        start: isize,
        range: Range<usize>,
        acc: &mut [T::Wide],
    ) {
        if range.len() <= 64 {
            let mut row = Odometer::new(&self.reduced.0, &self.reduced.1, start, range.start);
            for _ in range {
                let at = row.position as usize;
                (combine.fold_into)(acc, &x[at..at + acc.len()]);
                row.advance();
            }
            return;
        }
        let (left, right) = halves(range);
        let large = left.len() * acc.len() >= LARGE;
        let mut other = vec![combine.identity; acc.len()];
        join(
            large,
            || self.fold_into(combine, x, start, left, acc),
            || self.fold_into(combine, x, start, right, &mut other),
        );
        for (acc, other) in acc.iter_mut().zip(other) {
            *acc = (combine.apply)(*acc, other);
        }
    }
}

/// Elements below which rows are folded one after the other.
const LEAF: usize = 512;
/// Elements from which halves of a tree go to different threads.
const LARGE: usize = 1 << 17;

/// One row; long ones as a tree of their own.
fn fold_row<T: Cell>(combine: &Combine<T>, row: &[T]) -> T::Wide {
    if row.len() < 2 * LARGE {
        return (combine.fold)(row);
    }
    let (left, right) = row.split_at(row.len() / 2);
    let (left, right) = join(true, || fold_row(combine, left), || fold_row(combine, right));
    (combine.apply)(left, right)
}

fn halves(range: Range<usize>) -> (Range<usize>, Range<usize>) {
    let middle = range.start + range.len() / 2;
    (range.start..middle, middle..range.end)
}

/// Both, on two threads when that pays.
fn join<A: Send, B: Send>(large: bool, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    if !large {
        return (a(), b());
    }
    let (mut a, mut b) = (Some(a), Some(b));
    let (mut left, mut right) = (None, None);
    fork(&mut || left = a.take().map(|a| a()), &mut || right = b.take().map(|b| b()));
    (left.expect("fork calls both"), right.expect("fork calls both"))
}

/// Calls both, possibly at the same time. Compiled once, whatever they are.
fn fork(a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
    rayon::join(a, b);
}
