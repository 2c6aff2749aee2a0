//! Ops that move elements without looking at them.

use super::array::{Array, check_size};
use super::index::{for_each, offset};
use crate::Result;
use crate::ir::Type;

/// The value of type `ty` whose element at `index` is element number `source(index)` of `x`, or `fill` where there is none.
pub fn rearranged(
    x: &Array,
    ty: &Type,
    fill: &[u8],
    mut source: impl FnMut(&[usize]) -> Option<usize>,
) -> Result<Array> {
    let width = x.width();
    let mut bytes = Vec::with_capacity(check_size(ty)? * width);
    for_each(ty.shape.sizes(), |_, index| match source(index) {
        Some(number) => bytes.extend_from_slice(&x.bytes()[number * width..][..width]),
        None => bytes.extend_from_slice(fill),
    });
    Array::from_bytes(ty.clone(), bytes)
}

/// `broadcast_in_dim(x)`.
pub fn broadcast(x: &Array, axes: &[usize], ty: &Type) -> Result<Array> {
    rearranged(x, ty, &[], |index| {
        let source: Vec<_> = x.sizes().iter().zip(axes).map(|(&size, &axis)| index[axis].min(size - 1)).collect();
        Some(offset(x.sizes(), &source))
    })
}

/// `transpose(x)`.
pub fn transpose(x: &Array, permutation: &[usize], ty: &Type) -> Result<Array> {
    let mut source = vec![0; permutation.len()];
    rearranged(x, ty, &[], |index| {
        for (&i, &axis) in index.iter().zip(permutation) {
            source[axis] = i;
        }
        Some(offset(x.sizes(), &source))
    })
}

/// The elements at `start + i · stride`.
pub fn slice(x: &Array, start: &[usize], strides: &[usize], ty: &Type) -> Result<Array> {
    rearranged(x, ty, &[], |index| {
        let source: Vec<_> = index.iter().enumerate().map(|(axis, i)| start[axis] + i * strides[axis]).collect();
        Some(offset(x.sizes(), &source))
    })
}

/// Start indices from scalar operands, clamped so that a window of `sizes` lies inside `x`.
pub fn clamped_start(x: &Array, sizes: &[usize], starts: &[&Array]) -> Vec<usize> {
    let wanted = starts.iter().map(|start| integers(start)[0]);
    wanted.zip(x.sizes().iter().zip(sizes)).map(|(start, (&size, &window))| clamp_start(start, size, window)).collect()
}

/// The start nearest to `start` of a window that lies inside an axis.
pub fn clamp_start(start: i128, size: usize, window: usize) -> usize {
    start.clamp(0, (size - window) as i128) as usize
}

/// The elements of an integer array.
pub fn integers(x: &Array) -> Vec<i128> {
    if x.dtype() == crate::DType::U64 {
        return x.cast_vec::<u64>().into_iter().map(i128::from).collect();
    }
    x.cast_vec::<i64>().into_iter().map(i128::from).collect()
}

/// `dynamic_slice(x, start …)`.
pub fn dynamic_slice(x: &Array, starts: &[&Array], ty: &Type) -> Result<Array> {
    let start = clamped_start(x, ty.shape.sizes(), starts);
    slice(x, &start, &vec![1; start.len()], ty)
}

/// `dynamic_update_slice(x, update, start …)`.
pub fn dynamic_update_slice(x: &Array, update: &Array, starts: &[&Array], ty: &Type) -> Result<Array> {
    let start = clamped_start(x, update.sizes(), starts);
    let (width, mut bytes) = (x.width(), x.bytes().to_vec());
    for_each(update.sizes(), |number, index| {
        let target: Vec<_> = index.iter().zip(&start).map(|(i, start)| i + start).collect();
        let at = offset(x.sizes(), &target) * width;
        bytes[at..at + width].copy_from_slice(&update.bytes()[number * width..][..width]);
    });
    Array::from_bytes(ty.clone(), bytes)
}

/// `pad(x, value)`.
pub fn pad(x: &Array, value: &Array, low: &[i64], interior: &[usize], ty: &Type) -> Result<Array> {
    rearranged(x, ty, value.bytes(), |index| {
        let mut source = Vec::with_capacity(index.len());
        for (axis, &i) in index.iter().enumerate() {
            let (place, step) = (i as i64 - low[axis], interior[axis] as i64 + 1);
            if place < 0 || place % step != 0 || place / step >= x.sizes()[axis] as i64 {
                return None;
            }
            source.push((place / step) as usize);
        }
        Some(offset(x.sizes(), &source))
    })
}

/// `concatenate(x₀, x₁, …)`.
pub fn concatenate(parts: &[&Array], axis: usize, ty: &Type) -> Result<Array> {
    let width = ty.dtype.bits() as usize / 8;
    let mut bytes = Vec::with_capacity(check_size(ty)? * width);
    for_each(ty.shape.sizes(), |_, index| {
        let (mut source, mut part) = (index.to_vec(), 0);
        while source[axis] >= parts[part].sizes()[axis] {
            source[axis] -= parts[part].sizes()[axis];
            part += 1;
        }
        let at = offset(parts[part].sizes(), &source) * width;
        bytes.extend_from_slice(&parts[part].bytes()[at..at + width]);
    });
    Array::from_bytes(ty.clone(), bytes)
}

/// `reverse(x)`.
pub fn reverse(x: &Array, axes: &[usize], ty: &Type) -> Result<Array> {
    rearranged(x, ty, &[], |index| {
        let mut source = index.to_vec();
        for &axis in axes {
            source[axis] = x.sizes()[axis] - 1 - index[axis];
        }
        Some(offset(x.sizes(), &source))
    })
}

#[cfg(test)]
mod tests {
    use super::super::evaluate_op;
    use super::*;
    use crate::ir::Op;
    use smallvec::smallvec;

    fn run(op: Op, operands: &[Array]) -> (Vec<usize>, Vec<i32>) {
        let result = evaluate_op(&op, operands).unwrap().remove(0);
        (result.sizes().to_vec(), result.to_vec().unwrap())
    }

    fn counting(shape: &[usize]) -> Array {
        let n: usize = shape.iter().product();
        Array::new(shape, &(0..n as i32).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn padding_may_be_negative_and_interior() {
        // The example of StableHLO's specification, with a negative edge.
        let op = Op::Pad { low: smallvec![0, -1], high: smallvec![2, 0], interior: smallvec![1, 0] };
        let (shape, values) = run(op, &[counting(&[2, 3]), Array::scalar(crate::DType::I32, 9)]);
        assert_eq!(shape, [5, 2]);
        assert_eq!(values, [1, 2, 9, 9, 4, 5, 9, 9, 9, 9]);
    }

    #[test]
    fn dynamic_starts_are_clamped() {
        let start = |i: i32| Array::scalar(crate::DType::I32, i);
        let op = Op::DynamicSlice { sizes: smallvec![2, 2] };
        assert_eq!(run(op, &[counting(&[3, 3]), start(-5), start(7)]).1, [1, 2, 4, 5]);
        let update = Array::new([1, 2], &[-1, -2]).unwrap();
        let (_, values) = run(Op::DynamicUpdateSlice, &[counting(&[2, 3]), update, start(9), start(9)]);
        assert_eq!(values, [0, 1, 2, 3, -1, -2]);
    }

    #[test]
    fn elements_move_as_numpy_moves_them() {
        let x = counting(&[2, 3]);
        assert_eq!(run(Op::Transpose(smallvec![1, 0]), std::slice::from_ref(&x)).1, [0, 3, 1, 4, 2, 5]);
        assert_eq!(run(Op::Reverse(smallvec![1]), std::slice::from_ref(&x)).1, [2, 1, 0, 5, 4, 3]);
        let op = Op::Slice { start: smallvec![0, 0], limit: smallvec![2, 3], strides: smallvec![1, 2] };
        assert_eq!(run(op, std::slice::from_ref(&x)), (vec![2, 2], vec![0, 2, 3, 5]));
        assert_eq!(run(Op::Concatenate { axis: 1 }, &[x.clone(), x]).1, [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]);
        let op = Op::BroadcastInDim { shape: [2, 3].into(), axes: smallvec![1, 0] };
        assert_eq!(run(op, &[counting(&[1, 2])]).1, [0, 0, 0, 1, 1, 1]);
    }
}
