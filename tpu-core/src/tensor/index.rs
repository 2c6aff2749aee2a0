//! Basic indexing: `t.i((0, 1..3, .., NewAxis))`.

use super::Tensor;
use crate::ir::{Axes, Op};
use crate::lazy::mode::locate;
use crate::{Error, ErrorKind, Result, Shape, ensure};
use smallvec::SmallVec;
use std::ops::{Bound, RangeBounds};

/// A new axis of size one, in [`Tensor::i`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAxis;

/// As many whole axes as are left, in [`Tensor::i`]: the ellipsis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest;

/// One part of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexItem {
    /// One element; the axis vanishes. Negative numbers count from the end.
    At(isize),
    /// Elements of a range, every `step`-th. Bounds count from the end if negative and are cut to the axis, as in PyTorch.
    Range {
        /// First element, the first of the axis if absent.
        start: Option<isize>,
        /// One past the last element, the end of the axis if absent.
        end: Option<isize>,
        /// At least 1.
        step: usize,
    },
    /// A new axis of size one.
    NewAxis,
    /// The axes that no other part names.
    Rest,
}

/// Every `step`-th element of a range, in [`Tensor::i`].
///
/// ```
/// use tpu_core::{DType, Tensor, tensor::step};
/// let x = Tensor::arange(0, 10, 1, DType::I64)?;
/// assert_eq!(x.i(step(1.., 4))?.to_vec::<i64>()?, [1, 5, 9]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
pub fn step(range: impl RangeBounds<isize>, step: usize) -> IndexItem {
    let start = match range.start_bound() {
        Bound::Included(&start) => Some(start),
        Bound::Excluded(&start) => Some(start + 1),
        Bound::Unbounded => None,
    };
    let end = match range.end_bound() {
        // Up to and including the last element, which is −1, is the whole rest.
        Bound::Included(-1) | Bound::Unbounded => None,
        Bound::Included(&end) => Some(end.saturating_add(1)),
        Bound::Excluded(&end) => Some(end),
    };
    IndexItem::Range { start, end, step }
}

impl From<NewAxis> for IndexItem {
    fn from(_: NewAxis) -> Self {
        Self::NewAxis
    }
}
impl From<Rest> for IndexItem {
    fn from(_: Rest) -> Self {
        Self::Rest
    }
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl From<$t> for IndexItem {
            fn from(at: $t) -> Self {
                // What does not fit is out of every range.
                Self::At(isize::try_from(at).unwrap_or(isize::MAX))
            }
        }
    )*};
}
integers!(isize usize i32 u32 i64 u64);

macro_rules! ranges {
    ($($t:ty)*) => {$(
        impl From<std::ops::Range<$t>> for IndexItem {
            fn from(range: std::ops::Range<$t>) -> Self {
                let clamp = |at: $t| isize::try_from(at).unwrap_or(isize::MAX);
                step(clamp(range.start)..clamp(range.end), 1)
            }
        }
        impl From<std::ops::RangeFrom<$t>> for IndexItem {
            fn from(range: std::ops::RangeFrom<$t>) -> Self {
                step(isize::try_from(range.start).unwrap_or(isize::MAX).., 1)
            }
        }
        impl From<std::ops::RangeTo<$t>> for IndexItem {
            fn from(range: std::ops::RangeTo<$t>) -> Self {
                step(..isize::try_from(range.end).unwrap_or(isize::MAX), 1)
            }
        }
        impl From<std::ops::RangeInclusive<$t>> for IndexItem {
            fn from(range: std::ops::RangeInclusive<$t>) -> Self {
                let clamp = |at: $t| isize::try_from(at).unwrap_or(isize::MAX);
                step(clamp(*range.start())..=clamp(*range.end()), 1)
            }
        }
    )*};
}
ranges!(isize usize i32);

impl From<std::ops::RangeFull> for IndexItem {
    fn from(_: std::ops::RangeFull) -> Self {
        step(.., 1)
    }
}

/// An index: one part, or a tuple, array or slice of parts.
pub trait Index {
    /// The parts.
    fn items(self) -> SmallVec<[IndexItem; 6]>;
}

impl<T: Into<IndexItem>> Index for T {
    fn items(self) -> SmallVec<[IndexItem; 6]> {
        SmallVec::from_slice(&[self.into()])
    }
}
impl Index for &[IndexItem] {
    fn items(self) -> SmallVec<[IndexItem; 6]> {
        SmallVec::from_slice(self)
    }
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: Into<IndexItem>),+> Index for ($($name,)+) {
            #[allow(non_snake_case)]
            fn items(self) -> SmallVec<[IndexItem; 6]> {
                let ($($name,)+) = self;
                [$($name.into()),+].into_iter().collect()
            }
        }
    };
}
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);

impl Tensor {
    /// Basic indexing, as PyTorch's `t[…]` with numbers, ranges, new axes and the ellipsis ([`Rest`]). Parts left out at the
    /// end are whole axes.
    ///
    /// Errors if there are more parts than axes, more than one [`Rest`], or a number out of range.
    ///
    /// ```
    /// use tpu_core::tensor::{NewAxis, Rest};
    /// use tpu_core::{DType, Tensor};
    /// let x = Tensor::arange(0, 24, 1, DType::I64)?.reshape([2, 3, 4])?;
    /// assert_eq!(x.i(1)?.sizes(), [3, 4]);
    /// assert_eq!(x.i((.., 1..3, -1))?.to_vec::<i64>()?, [7, 11, 19, 23]);
    /// assert_eq!(x.i((Rest, NewAxis, 0))?.sizes(), [2, 3, 1]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn i(&self, index: impl Index) -> Result<Self> {
        let location = std::panic::Location::caller();
        let plan = Plan::new(self, &index.items()).map_err(|error| error.at(&locate(location)))?;
        let sliced = match plan.slices {
            Some((start, limit, strides)) => Self::record_one(Op::Slice { start, limit, strides }, &[self.into()])?,
            None => self.clone(),
        };
        sliced.reshape(plan.shape)
    }
}

/// An index as a slice and a reshape.
struct Plan {
    /// Starts, limits and strides; `None` if everything is taken.
    slices: Option<(Axes, Axes, Axes)>,
    shape: Shape,
}

impl Plan {
    fn new(tensor: &Tensor, items: &[IndexItem]) -> Result<Self> {
        let named = items.iter().filter(|item| matches!(item, IndexItem::At(_) | IndexItem::Range { .. })).count();
        let rank = tensor.rank();
        ensure!(named <= rank, Shape, "index", "requires at most {rank} parts for {}, got {named}", tensor.shape());
        let rests = items.iter().filter(|item| matches!(item, IndexItem::Rest)).count();
        ensure!(rests <= 1, Value, "index", "requires at most one Rest, got {rests}");
        let sizes = tensor.sizes();
        let (mut start, mut limit) = (Axes::from_elem(0, rank), Axes::from_slice(sizes));
        let mut strides = Axes::from_elem(1, rank);
        let mut shape: SmallVec<[usize; 6]> = SmallVec::new();
        let mut axis = 0;
        for item in items.iter().chain((rests == 0).then_some(&IndexItem::Rest)) {
            match *item {
                IndexItem::NewAxis => shape.push(1),
                IndexItem::Rest => {
                    let whole = rank - named;
                    shape.extend_from_slice(&sizes[axis..axis + whole]);
                    axis += whole;
                }
                IndexItem::At(at) => {
                    let size = sizes[axis];
                    let plain = if at < 0 { at.saturating_add_unsigned(size) } else { at };
                    if plain < 0 || plain as usize >= size {
                        let message = format!("requires an element of axis {axis} of {}, got {at}", tensor.shape());
                        return Err(Error::new(ErrorKind::Index, "index", message));
                    }
                    (start[axis], limit[axis]) = (plain as usize, plain as usize + 1);
                    axis += 1;
                }
                IndexItem::Range { start: from, end, step } => {
                    ensure!(step >= 1, Value, "index", "requires a step of at least 1, got 0");
                    let size = sizes[axis];
                    let cut = |bound: isize| {
                        let plain = if bound < 0 { bound.saturating_add_unsigned(size) } else { bound };
                        (plain.max(0) as usize).min(size)
                    };
                    let low = from.map_or(0, cut);
                    let high = end.map_or(size, cut).max(low);
                    (start[axis], limit[axis], strides[axis]) = (low, high, step);
                    shape.push((high - low).div_ceil(step));
                    axis += 1;
                }
            }
        }
        let everything = start.iter().all(|&s| s == 0) && limit[..] == *sizes && strides.iter().all(|&s| s == 1);
        Ok(Self { slices: (!everything).then_some((start, limit, strides)), shape: Shape::from(&shape[..]) })
    }
}
