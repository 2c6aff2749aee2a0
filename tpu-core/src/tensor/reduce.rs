//! Reductions and running reductions.

use super::Tensor;
use super::layout::axes_of;
use crate::ir::{Axes, Extreme, Op, Reducer};
use crate::{DType, Result};
use smallvec::SmallVec;

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident, $all:ident = $kind:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// `axes` count from the end if negative; with `keep` they stay, with size one.
            #[track_caller]
            pub fn $name(&self, axes: impl IntoIterator<Item = isize>, keep: bool) -> Result<Self> {
                self.reduce(Reducer::$kind, axes, keep)
            }

            /// The same over all axes: a scalar.
            #[track_caller]
            pub fn $all(&self) -> Result<Self> {
                self.reduce(Reducer::$kind, 0..self.rank() as isize, false)
            }
        )*}
    };
}

reductions! {
    /// Sum; of no elements 0.
    sum, sum_all = Sum;
    /// Product; of no elements 1.
    prod, prod_all = Product;
    /// Largest element, NaN if one is; of no elements the lowest value of the dtype.
    max, max_all = Max;
    /// Smallest element, NaN if one is; of no elements the highest value of the dtype.
    min, min_all = Min;
    /// Bitwise and of integers; of bools whether all are true.
    all, all_all = And;
    /// Bitwise or of integers; of bools whether any is true.
    any, any_all = Or;
}

impl Tensor {
    /// A reduction over `axes`.
    #[track_caller]
    pub fn reduce(&self, kind: Reducer, axes: impl IntoIterator<Item = isize>, keep: bool) -> Result<Self> {
        let mut axes = Self::checked(|| axes_of(axes, self.rank(), "reduce"))?;
        axes.sort_unstable();
        if axes.is_empty() {
            return Ok(self.clone());
        }
        let kept = keep.then(|| self.kept_sizes(&axes));
        let reduced = Self::record_one(Op::Reduce { kind, axes }, &[self.into()])?;
        match kept {
            Some(sizes) => reduced.reshape(&sizes[..]),
            None => Ok(reduced),
        }
    }

    /// This tensor's sizes with those of `axes` set to one.
    fn kept_sizes(&self, axes: &Axes) -> SmallVec<[usize; 6]> {
        let sizes = self.sizes().iter().enumerate();
        sizes.map(|(axis, &size)| if axes.contains(&axis) { 1 } else { size }).collect()
    }

    /// Arithmetic mean over `axes`; NaN of no elements.
    #[track_caller]
    pub fn mean(&self, axes: impl IntoIterator<Item = isize>, keep: bool) -> Result<Self> {
        let axes = Self::checked(|| axes_of(axes, self.rank(), "mean"))?;
        let count: f64 = axes.iter().map(|&axis| self.shape().size(axis) as f64).product();
        let sum = self.sum(axes.iter().map(|&axis| axis as isize), keep)?;
        sum.div_constant(count)
    }

    /// Arithmetic mean of all elements: a scalar.
    #[track_caller]
    pub fn mean_all(&self) -> Result<Self> {
        self.mean(0..self.rank() as isize, false)
    }

    /// x / a number that follows from shapes: baked into the program, as it changes only with them.
    #[track_caller]
    fn div_constant(&self, number: f64) -> Result<Self> {
        let literal = crate::Literal::splat(self.dtype(), self.shape(), number);
        self.div(&Self::constant_on(self.device(), literal)?)
    }

    /// The largest element along an axis and its index (i64); the first of equals, NaN wins. Errors on an empty axis.
    #[track_caller]
    pub fn max_with_index(&self, axis: isize, keep: bool) -> Result<(Self, Self)> {
        self.arg_reduce(Extreme::Max, axis, keep)
    }

    /// The smallest element along an axis and its index (i64); the first of equals, NaN wins. Errors on an empty axis.
    #[track_caller]
    pub fn min_with_index(&self, axis: isize, keep: bool) -> Result<(Self, Self)> {
        self.arg_reduce(Extreme::Min, axis, keep)
    }

    /// Index (i64) of the largest element along an axis; the first of equals, NaN wins.
    #[track_caller]
    pub fn argmax(&self, axis: isize, keep: bool) -> Result<Self> {
        Ok(self.arg_reduce(Extreme::Max, axis, keep)?.1)
    }

    /// Index (i64) of the smallest element along an axis; the first of equals, NaN wins.
    #[track_caller]
    pub fn argmin(&self, axis: isize, keep: bool) -> Result<Self> {
        Ok(self.arg_reduce(Extreme::Min, axis, keep)?.1)
    }

    #[track_caller]
    fn arg_reduce(&self, kind: Extreme, axis: isize, keep: bool) -> Result<(Self, Self)> {
        let axis = Self::checked(|| self.axis(axis, "arg_reduce"))?;
        let mut results = Self::record(Op::ArgReduce { kind, axis }, &[self.into()])?;
        if keep {
            let sizes = self.kept_sizes(&SmallVec::from_slice(&[axis]));
            for result in &mut results {
                *result = result.reshape(&sizes[..])?;
            }
        }
        let indices = results.pop().expect("two results");
        let values = results.pop().expect("two results");
        Ok((values, indices))
    }

    /// Running sum along an axis.
    #[track_caller]
    pub fn cumsum(&self, axis: isize) -> Result<Self> {
        self.cumulative(Reducer::Sum, axis, false)
    }

    /// Running product along an axis.
    #[track_caller]
    pub fn cumprod(&self, axis: isize) -> Result<Self> {
        self.cumulative(Reducer::Product, axis, false)
    }

    /// A running reduction along an axis, inclusive; from the end with `reverse`.
    #[track_caller]
    pub fn cumulative(&self, kind: Reducer, axis: isize, reverse: bool) -> Result<Self> {
        let axis = Self::checked(|| self.axis(axis, "cumulative"))?;
        Self::record_one(Op::Cumulative { kind, axis, reverse }, &[self.into()])
    }

    /// Whether all elements of a bool tensor are true, or no element of another is zero: a bool scalar.
    #[track_caller]
    pub fn all_true(&self) -> Result<Self> {
        if self.dtype() == DType::Bool { self.all_all() } else { self.ne(0)?.all_all() }
    }
}
