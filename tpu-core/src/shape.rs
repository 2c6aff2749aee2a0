//! Sizes of tensors.

use bytemuck::TransparentWrapper;
use smallvec::SmallVec;
use std::fmt;

/// The size of one axis. Opaque, so that sizes with only a known bound can come later.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, TransparentWrapper)]
#[repr(transparent)]
pub struct Dim(usize);

impl Dim {
    /// A known size.
    pub const fn new(size: usize) -> Self {
        Self(size)
    }

    /// The size.
    pub const fn size(self) -> usize {
        self.0
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The sizes of all axes of a tensor, outermost first. Rank 0 is a scalar.
///
/// ```
/// use tpu_core::Shape;
/// let shape = Shape::from([2, 3]);
/// assert_eq!(shape.rank(), 2);
/// assert_eq!(shape.elements(), Some(6));
/// assert_eq!(shape.to_string(), "[2, 3]");
/// ```
#[derive(Eq, Hash, Default)]
#[expect(clippy::derived_hash_with_manual_eq, reason = "equality is that of the sizes, as derived")]
pub struct Shape(SmallVec<[Dim; 4]>);

// A copy of the sizes: `SmallVec`'s own clone goes element by element, and every recorded operation clones shapes.
impl Clone for Shape {
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}

// Axis by axis: a call to compare memory costs more than the few sizes there are.
impl PartialEq for Shape {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.sizes(), other.sizes());
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b)
    }
}

impl Shape {
    /// The shape of a scalar: no axes.
    pub const fn scalar() -> Self {
        Self(SmallVec::new_const())
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The axes.
    pub fn dims(&self) -> &[Dim] {
        &self.0
    }

    /// The sizes as plain numbers.
    pub fn sizes(&self) -> &[usize] {
        Dim::peel_slice(&self.0)
    }

    /// The size of one axis. Panics when `axis` is not below [`rank`](Self::rank).
    pub fn size(&self, axis: usize) -> usize {
        self.0[axis].0
    }

    /// Number of elements, `None` when it exceeds `usize`. A shape with a zero size has 0, whatever the others are.
    pub fn elements(&self) -> Option<usize> {
        if self.sizes().contains(&0) {
            return Some(0);
        }
        self.sizes().iter().try_fold(1usize, |n, &d| n.checked_mul(d))
    }

    /// The shape that two shapes broadcast to: aligned at the last axis, a size of one stretches. `None` when some
    /// pair of sizes differs and neither is one.
    ///
    /// ```
    /// # use tpu_core::Shape;
    /// let wide = Shape::broadcast(&Shape::from([4, 1]), &Shape::from([3]));
    /// assert_eq!(wide, Some(Shape::from([4, 3])));
    /// ```
    pub fn broadcast(a: &Self, b: &Self) -> Option<Self> {
        let (long, short) = if a.rank() >= b.rank() { (a, b) } else { (b, a) };
        let mut out = long.clone();
        let lead = long.rank() - short.rank();
        for (axis, &small) in short.0.iter().enumerate() {
            let big = out.0[lead + axis];
            out.0[lead + axis] = match (big.0, small.0) {
                (x, y) if x == y => big,
                (1, _) => small,
                (_, 1) => big,
                _ => return None,
            };
        }
        Some(out)
    }
}

impl From<&[usize]> for Shape {
    fn from(sizes: &[usize]) -> Self {
        sizes.iter().copied().collect()
    }
}
impl From<Vec<usize>> for Shape {
    fn from(sizes: Vec<usize>) -> Self {
        sizes.into_iter().collect()
    }
}
impl<const N: usize> From<[usize; N]> for Shape {
    fn from(sizes: [usize; N]) -> Self {
        sizes.into_iter().collect()
    }
}
impl<const N: usize> From<&[usize; N]> for Shape {
    fn from(sizes: &[usize; N]) -> Self {
        sizes.iter().copied().collect()
    }
}
impl From<usize> for Shape {
    fn from(size: usize) -> Self {
        Self::from([size])
    }
}
impl From<()> for Shape {
    fn from((): ()) -> Self {
        Self::scalar()
    }
}
impl From<&Self> for Shape {
    fn from(shape: &Self) -> Self {
        shape.clone()
    }
}
impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(sizes: I) -> Self {
        Self(sizes.into_iter().map(Dim).collect())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.sizes())
    }
}
impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.sizes())
    }
}
