//! Values that are another value read differently: broadcasts, slices, transposes and reshapes cost nothing as long as
//! whoever reads them can follow strides.

use crate::ir::{Op, Type, Value};
use crate::{DType, Literal};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Sizes or strides, one per axis.
pub(super) type Axes = SmallVec<[usize; 4]>;

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
    pub offset: usize,
    pub sizes: Axes,
    pub strides: Axes,
}

/// Strides of a dense row-major value.
pub(super) fn dense_strides(sizes: &[usize]) -> Axes {
    let mut strides: Axes = smallvec![0; sizes.len()];
    let mut step = 1usize;
    for axis in (0..sizes.len()).rev() {
        strides[axis] = if sizes[axis] == 1 { 0 } else { step };
        step = step.saturating_mul(sizes[axis]);
    }
    strides
}

impl View {
    /// The whole of a value, as it is.
    pub fn dense(value: Value, ty: &Type) -> Self {
        let sizes = Axes::from_slice(ty.shape.sizes());
        Self { root: Root::Value(value), offset: 0, strides: dense_strides(&sizes), sizes }
    }

    /// A constant.
    pub fn constant(literal: &Arc<Literal>) -> Self {
        let sizes = Axes::from_slice(literal.shape().sizes());
        let strides = if literal.is_splat() { smallvec![0; sizes.len()] } else { dense_strides(&sizes) };
        Self { root: Root::Constant(literal.clone()), offset: 0, sizes, strides }
    }

    /// Numbers along one axis.
    pub fn iota(axis: usize, dtype: DType, sizes: &[usize]) -> Self {
        let mut strides: Axes = smallvec![0; sizes.len()];
        strides[axis] = if sizes[axis] == 1 { 0 } else { 1 };
        Self { root: Root::Iota(dtype), offset: 0, sizes: Axes::from_slice(sizes), strides }
    }

    /// Whether every element is the root's element of the same row-major index, from 0 on.
    pub fn is_dense(&self) -> bool {
        self.offset == 0 && self.strides == dense_strides(&self.sizes)
    }

    /// Whether all elements are one element.
    pub fn is_single(&self) -> bool {
        self.strides.iter().all(|&s| s == 0)
    }

    /// What `op` makes of this view, if that is a view again. `op` has one operand.
    pub fn apply(&self, op: &Op) -> Option<Self> {
        match op {
            Op::BroadcastInDim { shape, axes } => {
                let sizes = Axes::from_slice(shape.sizes());
                let mut strides: Axes = smallvec![0; sizes.len()];
                for (&axis, (&size, &stride)) in axes.iter().zip(self.sizes.iter().zip(&self.strides)) {
                    strides[axis] = if size == 1 { 0 } else { stride };
                }
                Some(Self { root: self.root.clone(), offset: self.offset, sizes, strides })
            }
            Op::Transpose(permutation) => Some(Self {
                root: self.root.clone(),
                offset: self.offset,
                sizes: permutation.iter().map(|&axis| self.sizes[axis]).collect(),
                strides: permutation.iter().map(|&axis| self.strides[axis]).collect(),
            }),
            Op::Slice { start, limit, strides: steps } => {
                let sizes: Axes = (0..start.len()).map(|i| (limit[i] - start[i]).div_ceil(steps[i])).collect();
                let offset = (0..start.len()).map(|i| start[i] * self.strides[i]).sum::<usize>() + self.offset;
                let strides =
                    (0..start.len()).map(|i| if sizes[i] == 1 { 0 } else { self.strides[i] * steps[i] }).collect();
                Some(Self { root: self.root.clone(), offset, sizes, strides })
            }
            Op::Reshape(shape) => self.reshape(shape.sizes()),
            _ => None,
        }
    }

    /// The view in another shape of as many elements, if strides can express it.
    pub fn reshape(&self, sizes: &[usize]) -> Option<Self> {
        let to = |strides| {
            Some(Self { root: self.root.clone(), offset: self.offset, sizes: Axes::from_slice(sizes), strides })
        };
        if self.is_single() {
            return to(smallvec![0; sizes.len()]);
        }
        // Runs of old axes that one stride describes, innermost last.
        let mut runs: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        for (&size, &stride) in self.sizes.iter().zip(&self.strides) {
            if size == 1 {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.1 == stride.saturating_mul(size) => *run = (run.0.saturating_mul(size), stride),
                _ => runs.push((size, stride)),
            }
        }
        let mut strides: Axes = smallvec![0; sizes.len()];
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
            step = step.saturating_mul(size);
            left.0 /= size;
        }
        to(strides)
    }
}

/// The single stride of some axes taken together, if there is one. No axes: 0.
pub(super) fn linear(sizes: &[usize], strides: &[usize]) -> Option<usize> {
    let mut inner: Option<(usize, usize)> = None;
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
    Some(inner.map_or(0, |(_, step)| step))
}

/// The coarsest shape that both shapes are made from by joining neighbouring axes; `None` when there is none. Axes of
/// size one vanish.
pub(super) fn refine(a: &[usize], b: &[usize]) -> Option<Axes> {
    let (mut i, mut j) = (a.len(), b.len());
    let (mut left_a, mut left_b) = (1, 1);
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
        if small <= 1 || large % small != 0 {
            return None;
        }
        out.push(small);
        left_a /= small;
        left_b /= small;
    }
}

/// The strides of a view over the axes of `finer`, a refinement of its shape.
pub(super) fn refine_strides(view: &View, finer: &[usize]) -> Option<Axes> {
    let mut strides: Axes = smallvec![0; finer.len()];
    let mut axis = view.sizes.len();
    let (mut left, mut step) = (1, 0);
    for at in (0..finer.len()).rev() {
        if finer[at] == 1 {
            continue;
        }
        while left == 1 {
            axis = axis.checked_sub(1)?;
            left = view.sizes[axis];
            step = view.strides[axis];
        }
        if left % finer[at] != 0 {
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

    fn dense(sizes: &[usize]) -> View {
        View::dense(NodeId(0).into(), &Type::new(DType::F32, sizes))
    }

    #[test]
    fn a_reshape_of_a_transposed_view_is_a_view_when_the_split_axes_stay_together() {
        let x = dense(&[2, 3, 4]).apply(&Op::Transpose(smallvec![1, 0, 2])).unwrap();
        assert_eq!(x.strides.as_slice(), [4, 12, 1]);
        assert_eq!(x.reshape(&[3, 2, 2, 2]).unwrap().strides.as_slice(), [4, 12, 2, 1]);
        assert_eq!(x.reshape(&[6, 4]), None);
    }

    #[test]
    fn the_common_refinement_cuts_where_either_shape_cuts() {
        assert_eq!(refine(&[6, 4], &[2, 3, 1, 4]).unwrap().as_slice(), [2, 3, 4]);
        assert_eq!(refine(&[6, 4], &[2, 12]).unwrap().as_slice(), [2, 3, 4]);
        assert_eq!(refine(&[6, 4], &[4, 6]), None);
        assert_eq!(refine(&[6], &[3]), None);
        assert!(refine(&[1, 1], &[]).unwrap().is_empty());
    }

    #[test]
    fn strides_of_a_slice_follow_a_refinement() {
        let x = dense(&[6, 4]).apply(&Op::Slice {
            start: smallvec![1, 0],
            limit: smallvec![5, 4],
            strides: smallvec![2, 1],
        });
        let x = x.unwrap();
        assert_eq!((x.offset, x.strides.as_slice()), (4, &[8, 1][..]));
        assert_eq!(refine_strides(&x, &[2, 2, 2]).unwrap().as_slice(), [8, 2, 1]);
        assert_eq!(linear(&[2, 4], &[4, 1]), Some(1));
        assert_eq!(linear(&[2, 4], &[8, 1]), None);
    }
}
