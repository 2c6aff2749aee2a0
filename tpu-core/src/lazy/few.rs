//! A list that nearly always has one or two elements.

use std::ops::{Deref, DerefMut};

/// Operands, results. Made at once and never grown, so it needs none of `SmallVec`'s tests at each push and drop, which
/// add up where every recorded operation has several lists.
pub(crate) enum Few<T> {
    One([T; 1]),
    Two([T; 2]),
    Many(Box<[T]>),
}

impl<T> Few<T> {
    /// What `f` makes of each element, in order.
    #[inline]
    pub fn map<U>(from: &[U], mut f: impl FnMut(&U) -> T) -> Self {
        match from {
            [a] => Self::One([f(a)]),
            [a, b] => Self::Two([f(a), f(b)]),
            _ => Self::Many(from.iter().map(f).collect()),
        }
    }

    /// The first element.
    #[inline]
    pub fn into_first(self) -> Option<T> {
        match self {
            Self::One([first]) | Self::Two([first, _]) => Some(first),
            Self::Many(all) => all.into_iter().next(),
        }
    }

    /// All elements.
    pub fn into_vec(self) -> Vec<T> {
        match self {
            Self::One(all) => all.into(),
            Self::Two(all) => all.into(),
            Self::Many(all) => all.into(),
        }
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::One(all) => all,
            Self::Two(all) => all,
            Self::Many(all) => all,
        }
    }
}

impl<T> DerefMut for Few<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::One(all) => all,
            Self::Two(all) => all,
            Self::Many(all) => all,
        }
    }
}
