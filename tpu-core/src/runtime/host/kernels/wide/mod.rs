//! Arithmetic of the widened elements: bools, integers, `f32`, `f64` and complex numbers.
//!
//! Each function of the op set becomes a loop over slices, chosen once per call. `None` means that the op does not
//! take the type.

mod complex;
mod flag;
mod float;
mod integer;

pub(in crate::runtime::host) use float::erf_inv;

use super::cell::{Cell, Flag};
use crate::ir::{BinaryOp, Comparison, Reducer, UnaryOp};

/// A loop over one operand.
pub(super) type Map<T> = fn(&[T], &mut [T]);
/// A loop over two operands.
pub(super) type Zip<T> = fn(&[T], &[T], &mut [T]);
/// A loop that compares two operands.
pub(super) type Test<T> = fn(&[T], &[T], &mut [Flag]);

/// What a cell computes as.
pub(super) trait Wide: Copy + Send + Sync + PartialEq + 'static {
    /// The loop of a unary op whose result has the operand's type.
    fn unary<T: Cell<Wide = Self>>(op: UnaryOp) -> Option<Map<T>>;

    /// The loop of a binary op.
    fn binary<T: Cell<Wide = Self>>(op: BinaryOp) -> Option<Zip<T>>;

    /// How a reducer combines.
    fn reducer<T: Cell<Wide = Self>>(kind: Reducer) -> Option<Combine<T>>;

    /// NaN, which no order places between numbers.
    fn is_nan(self) -> bool;

    /// The sum, as a reducer combines.
    fn plus(self, x: Self) -> Self;
}

/// A reducer for elements of type `T`.
pub(super) struct Combine<T: Cell> {
    /// What changes nothing.
    pub identity: T::Wide,
    /// Two partial results.
    pub apply: fn(T::Wide, T::Wide) -> T::Wide,
    /// All elements of a slice.
    pub fold: fn(&[T]) -> T::Wide,
    /// Elements of a row, each into its own partial result.
    pub fold_into: fn(&mut [T::Wide], &[T]),
    /// Elements of a row, each into its own element, rounded every time.
    pub merge: fn(&mut [T], &[T]),
    /// The same, each into the element at its place, less a number; those outside are left out.
    pub merge_at: fn(&mut [T], &[isize], isize, &[T]),
}

impl<T: Cell> Clone for Combine<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Cell> Copy for Combine<T> {}

/// The loop of a comparison.
pub(super) fn compare<T: Cell>(op: Comparison) -> Test<T>
where
    T::Wide: PartialOrd,
{
    macro_rules! test {
        ($op:tt) => {
            |x, y, out| {
                for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
                    *out = Flag::new(x.widen() $op y.widen());
                }
            }
        };
    }
    match op {
        Comparison::Eq => test!(==),
        Comparison::Ne => test!(!=),
        Comparison::Lt => test!(<),
        Comparison::Le => test!(<=),
        Comparison::Gt => test!(>),
        Comparison::Ge => test!(>=),
    }
}

/// A loop applying a function of widened elements.
macro_rules! map {
    (|$x:ident| $e:expr) => {
        |x, out| {
            for (out, x) in out.iter_mut().zip(x) {
                let $x = x.widen();
                *out = T::narrow($e);
            }
        }
    };
}
/// A loop applying a function of two widened elements.
macro_rules! zip {
    (|$x:ident, $y:ident| $e:expr) => {
        |x, y, out| {
            for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
                let ($x, $y) = (x.widen(), y.widen());
                *out = T::narrow($e);
            }
        }
    };
}
use {map, zip};

/// Lanes of a fold over a slice: enough for the widest registers, and the unit of pairwise summation.
const LANES: usize = 16;
/// Elements below which a fold just goes along the lanes.
const BLOCK: usize = 512;

/// A reducer from its identity and its function. Slices are folded in lanes, blocks pairwise, so that rounding errors
/// of a sum grow with the logarithm of the length.
#[inline(always)]
fn combine<T: Cell, F: Fn(T::Wide, T::Wide) -> T::Wide + Copy>(x: &[T], identity: T::Wide, apply: F) -> T::Wide {
    fold_pairwise(
        x,
        &|block| {
            let mut lanes = [identity; LANES];
            let chunks = block.chunks_exact(LANES);
            let rest = chunks.remainder();
            for chunk in chunks {
                for (lane, x) in lanes.iter_mut().zip(chunk) {
                    *lane = apply(*lane, x.widen());
                }
            }
            for (lane, x) in lanes.iter_mut().zip(rest) {
                *lane = apply(*lane, x.widen());
            }
            let mut width = LANES / 2;
            while width > 0 {
                for i in 0..width {
                    lanes[i] = apply(lanes[i], lanes[i + width]);
                }
                width /= 2;
            }
            lanes[0]
        },
        &apply,
    )
}

/// Halves until a block is left. Depth is at most the bits of an address.
fn fold_pairwise<T: Cell>(
    x: &[T],
    block: &impl Fn(&[T]) -> T::Wide,
    apply: &impl Fn(T::Wide, T::Wide) -> T::Wide,
) -> T::Wide {
    if x.len() <= BLOCK {
        return block(x);
    }
    let (left, right) = x.split_at((x.len() / 2).next_multiple_of(LANES));
    apply(fold_pairwise(left, block, apply), fold_pairwise(right, block, apply))
}

/// [`Combine`] from an identity and a function written once.
macro_rules! reducer {
    ($identity:expr, |$x:ident, $y:ident| $e:expr) => {
        Combine {
            identity: $identity,
            apply: |$x, $y| $e,
            fold: |x| combine::<T, _>(x, $identity, |$x: Self, $y: Self| $e),
            fold_into: |acc, x| {
                for (acc, x) in acc.iter_mut().zip(x) {
                    let ($x, $y) = (*acc, x.widen());
                    *acc = $e;
                }
            },
            merge: |acc, x| {
                for (acc, x) in acc.iter_mut().zip(x) {
                    let ($x, $y) = (acc.widen(), x.widen());
                    *acc = T::narrow($e);
                }
            },
            merge_at: |all, places, first, x| {
                for (place, x) in places.iter().zip(x) {
                    if let Some(acc) = all.get_mut((place - first) as usize) {
                        let ($x, $y) = (acc.widen(), x.widen());
                        *acc = T::narrow($e);
                    }
                }
            },
        }
    };
}
use reducer;
