//! Values that are another value read differently: broadcasts, slices, transposes and reshapes cost nothing as long as
//! whoever reads them can follow strides.

use super::size::{self, Size, Values};
use crate::ir::{Op, Type, Value};
use crate::{DType, Literal};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Sizes or strides, one per axis.
pub(super) type Axes = SmallVec<[Size; 4]>;

/// What a view reads.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Root {
    /// A value in memory, dense and row-major, or computed by a fusion group.
    Value(Value),
    /// A constant; one element when all are equal.
    Constant(Arc<Literal>),
    /// The numbers 0, 1, …: an element is its own index.
    Iota(DType),
}

/// A value as a strided window on a root: element `(i₀, i₁, …)` is the root's element `offset + Σ iₖ strides[k]`.
/// Axes of size one have stride 0.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct View {
    pub root: Root,
    pub offset: Size,
    pub sizes: Axes,
    pub strides: Axes,
}

/// Strides of a dense row-major value.
pub(super) fn dense_strides(sizes: &[Size]) -> Axes {
    let mut strides = zeros(sizes.len());
    let mut step = ONE;
    for axis in (0..sizes.len()).rev() {
        if sizes[axis] != 1 {
            strides[axis] = step;
            step *= sizes[axis];
        }
    }
    strides
}

const ZERO: Size = Size::number(0);
const ONE: Size = Size::number(1);

/// Strides of as many axes, all 0.
pub(super) fn zeros(axes: usize) -> Axes {
    smallvec![ZERO; axes]
}

impl View {
    /// The whole of a value, as it is.
    pub fn dense(value: Value, ty: &Type) -> Self {
        let sizes = size::of(ty);
        Self { root: Root::Value(value), offset: ZERO, strides: dense_strides(&sizes), sizes }
    }

    /// A constant.
    pub fn constant(literal: &Arc<Literal>, ty: &Type) -> Self {
        let sizes = size::of(ty);
        let strides = if literal.is_splat() { zeros(sizes.len()) } else { dense_strides(&sizes) };
        Self { root: Root::Constant(literal.clone()), offset: ZERO, sizes, strides }
    }

    /// Numbers along one axis.
    pub fn iota(axis: usize, ty: &Type) -> Self {
        let sizes = size::of(ty);
        let mut strides = zeros(sizes.len());
        strides[axis] = if sizes[axis] == 1 { ZERO } else { ONE };
        Self { root: Root::Iota(ty.dtype), offset: ZERO, sizes, strides }
    }

    /// The view for one vector of sizes, in numbers.
    pub fn at(&self, values: &Values) -> Self {
        let all = |list: &[Size]| list.iter().map(|&size| Size::number(values.of(size))).collect();
        let offset = Size::number(values.of(self.offset));
        Self { root: self.root.clone(), offset, sizes: all(&self.sizes), strides: all(&self.strides) }
    }

    /// Whether every element is the root's element of the same row-major index, from 0 on.
    pub fn is_dense(&self) -> bool {
        self.offset == 0 && self.strides == dense_strides(&self.sizes)
    }

    /// Whether all elements are one element.
    pub fn is_single(&self) -> bool {
        self.strides.iter().all(|&s| s == 0)
    }

    /// What `op`, whose result is a `ty`, makes of this view, if that is a view again. `op` has one operand.
    pub fn apply(&self, op: &Op, ty: &Type) -> Option<Self> {
        let to = |offset, sizes, strides| Some(Self { root: self.root.clone(), offset, sizes, strides });
        let sizes = size::of(ty);
        match op {
            Op::BroadcastInDim { axes, .. } => {
                let mut strides = zeros(sizes.len());
                for (&axis, (&size, &stride)) in axes.iter().zip(self.sizes.iter().zip(&self.strides)) {
                    strides[axis] = if size == 1 { ZERO } else { stride };
                }
                to(self.offset, sizes, strides)
            }
            Op::Transpose(permutation) => {
                to(self.offset, sizes, permutation.iter().map(|&axis| self.strides[axis]).collect())
            }
            Op::Slice { start, strides: steps, .. } => {
                let number = |attribute: usize| Size::attribute(attribute as i64);
                let mut offset = self.offset;
                for (&start, &stride) in start.iter().zip(&self.strides) {
                    offset += number(start) * stride;
                }
                let step = |i: usize| if sizes[i] == 1 { ZERO } else { self.strides[i] * number(steps[i]) };
                let strides = (0..steps.len()).map(step).collect();
                to(offset, sizes, strides)
            }
            Op::Reshape(_) => self.reshape(sizes),
            _ => None,
        }
    }

    /// The view in another shape of as many elements, if strides can express it.
    pub fn reshape(&self, sizes: Axes) -> Option<Self> {
        let to = |sizes, strides| Some(Self { root: self.root.clone(), offset: self.offset, sizes, strides });
        if self.is_single() {
            let strides = zeros(sizes.len());
            return to(sizes, strides);
        }
        // Runs of old axes that one stride describes, innermost last.
        let mut runs: SmallVec<[(Size, Size); 4]> = SmallVec::new();
        for (&size, &stride) in self.sizes.iter().zip(&self.strides) {
            if size == 1 {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.1 == stride * size => *run = (run.0 * size, stride),
                _ => runs.push((size, stride)),
            }
        }
        let mut strides = zeros(sizes.len());
        let mut left = runs.pop()?;
        let mut step = left.1;
        for axis in (0..sizes.len()).rev() {
            let size = sizes[axis];
            if size == 1 {
                continue;
            }
            if left.0 == 1 {
                left = runs.pop()?;
                step = left.1;
            }
            if !left.0.is_multiple_of(size) {
                return None;
            }
            strides[axis] = step;
            step *= size;
            left.0 /= size;
        }
        to(sizes, strides)
    }
}

/// The single stride of some axes taken together, if there is one. No axes: 0.
pub(super) fn linear(sizes: &[Size], strides: &[Size]) -> Option<Size> {
    let mut inner: Option<(Size, Size)> = None;
    for (&size, &stride) in sizes.iter().zip(strides).rev() {
        if size == 1 {
            continue;
        }
        inner = match inner {
            None => Some((size, stride)),
            Some((n, step)) if stride == n * step => Some((n * size, step)),
            Some(_) => return None,
        };
    }
    Some(inner.map_or(ZERO, |(_, step)| step))
}

/// The coarsest shape that both shapes are made from by joining neighbouring axes; `None` when there is none. Axes of
/// size one vanish.
pub(super) fn refine(a: &[Size], b: &[Size]) -> Option<Axes> {
    let (mut i, mut j) = (a.len(), b.len());
    let (mut left_a, mut left_b) = (ONE, ONE);
    let mut out = Axes::new();
    loop {
        while left_a == 1 && i > 0 {
            i -= 1;
            left_a = a[i];
        }
        while left_b == 1 && j > 0 {
            j -= 1;
            left_b = b[j];
        }
        if left_a == 1 && left_b == 1 {
            out.reverse();
            return Some(out);
        }
        let (small, large) = if left_a < left_b { (left_a, left_b) } else { (left_b, left_a) };
        if small <= 1 || !large.is_multiple_of(small) {
            return None;
        }
        out.push(small);
        left_a /= small;
        left_b /= small;
    }
}

/// The strides of a view over the axes of `finer`, a refinement of its shape.
pub(super) fn refine_strides(view: &View, finer: &[Size]) -> Option<Axes> {
    let mut strides = zeros(finer.len());
    let mut axis = view.sizes.len();
    let (mut left, mut step) = (ONE, ZERO);
    for at in (0..finer.len()).rev() {
        if finer[at] == 1 {
            continue;
        }
        while left == 1 {
            axis = axis.checked_sub(1)?;
            left = view.sizes[axis];
            step = view.strides[axis];
        }
        if !left.is_multiple_of(finer[at]) {
            return None;
        }
        strides[at] = step;
        step *= finer[at];
        left /= finer[at];
    }
    Some(strides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::NodeId;

    fn ty(sizes: &[usize]) -> Type {
        Type::new(DType::F32, sizes)
    }

    fn dense(sizes: &[usize]) -> View {
        View::dense(NodeId(0).into(), &ty(sizes))
    }

    fn axes(sizes: &[usize]) -> Axes {
        sizes.iter().map(|&size| Size::number(size)).collect()
    }

    #[test]
    fn a_reshape_of_a_transposed_view_is_a_view_when_the_split_axes_stay_together() {
        let x = dense(&[2, 3, 4]).apply(&Op::Transpose(smallvec![1, 0, 2]), &ty(&[3, 2, 4])).unwrap();
        assert_eq!(x.strides.as_slice(), [4, 12, 1]);
        assert_eq!(x.reshape(axes(&[3, 2, 2, 2])).unwrap().strides.as_slice(), [4, 12, 2, 1]);
        assert_eq!(x.reshape(axes(&[6, 4])), None);
    }

    #[test]
    fn the_common_refinement_cuts_where_either_shape_cuts() {
        let refine = |a: &[usize], b: &[usize]| refine(&axes(a), &axes(b));
        assert_eq!(refine(&[6, 4], &[2, 3, 1, 4]).unwrap().as_slice(), [2, 3, 4]);
        assert_eq!(refine(&[6, 4], &[2, 12]).unwrap().as_slice(), [2, 3, 4]);
        assert_eq!(refine(&[6, 4], &[4, 6]), None);
        assert_eq!(refine(&[6], &[3]), None);
        assert!(refine(&[1, 1], &[]).unwrap().is_empty());
    }

    #[test]
    fn strides_of_a_slice_follow_a_refinement() {
        let slice = Op::Slice { start: smallvec![1, 0], limit: smallvec![5, 4], strides: smallvec![2, 1] };
        let x = dense(&[6, 4]).apply(&slice, &ty(&[2, 4])).unwrap();
        assert!(x.offset == 4);
        assert_eq!(x.strides.as_slice(), [8, 1]);
        assert_eq!(refine_strides(&x, &axes(&[2, 2, 2])).unwrap().as_slice(), [8, 2, 1]);
        let linear = |sizes: &[usize], strides: &[usize]| linear(&axes(sizes), &axes(strides));
        assert_eq!(linear(&[2, 4], &[4, 1]), Some(Size::number(1)));
        assert_eq!(linear(&[2, 4], &[8, 1]), None);
    }
}
