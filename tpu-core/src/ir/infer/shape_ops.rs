//! Rules of operations that make, move, repeat or drop elements without computing.

use super::{
    Types, at_least_one, axis_set, exactly, has_axis, per_axis, representable, same_dtype, single, size, takes,
};
use crate::ir::support;
use crate::ir::{Op, Type};
use crate::{DType, Result, Shape, ensure};

pub(super) fn iota(op: &Op, operands: &[&Type], axis: usize, dtype: DType, shape: &Shape) -> Result<Types> {
    let [] = exactly(op, operands)?;
    representable(op, shape)?;
    let ty = Type { dtype, shape: shape.clone() };
    let dtypes = support::dtypes(op);
    ensure!(dtypes.contains(dtype), DType, op.name(), "requires a result of {dtypes} dtype, got {ty}");
    has_axis(op, "axis", axis, &ty)?;
    single(ty)
}

pub(super) fn rng_bits(op: &Op, operands: &[&Type], shape: &Shape) -> Result<Types> {
    let [seed, offset] = exactly(op, operands)?;
    for (name, ty) in [("seed", seed), ("offset", offset)] {
        takes(op, name, ty)?;
        ensure!(ty.shape.rank() == 0, Shape, op.name(), "requires a scalar {name}, got {ty}");
    }
    representable(op, shape)?;
    // Elements are numbered, also by targets that number in signed 64-bit integers.
    let numbered = shape.elements().is_some_and(|n| n <= 1 << 60);
    ensure!(numbered, Shape, op.name(), "requires at most 2^60 elements, got the shape {shape}");
    single(Type { dtype: DType::U32, shape: shape.clone() })
}

pub(super) fn broadcast_in_dim(op: &Op, operands: &[&Type], shape: &Shape, axes: &[usize]) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    representable(op, shape)?;
    per_axis(op, "axes", axes, x.shape.rank())?;
    axis_set(op, "axes", axes, shape.rank())?;
    for (axis, (&small, &target)) in x.shape.sizes().iter().zip(axes).enumerate() {
        let wide = shape.size(target);
        ensure!(
            small == 1 || small == wide,
            Shape,
            op.name(),
            "requires operand axis {axis} to have size 1 or that of result axis {target}, got operand {x} and result \
             shape {shape}"
        );
    }
    single(Type { dtype: x.dtype, shape: shape.clone() })
}

pub(super) fn reshape(op: &Op, operands: &[&Type], shape: &Shape) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    representable(op, shape)?;
    ensure!(
        same_count(&x.shape, shape),
        Shape,
        op.name(),
        "requires as many elements as before, got operand {x} and result shape {shape}"
    );
    single(Type { dtype: x.dtype, shape: shape.clone() })
}

/// Whether two shapes have equally many elements, however many that is.
fn same_count(a: &Shape, b: &Shape) -> bool {
    match (a.elements(), b.elements()) {
        (Some(a), Some(b)) => a == b,
        (None, None) => {
            // Cancel common factors pair by pair: the products are equal when nothing is left.
            let (mut left, mut right) = (a.sizes().to_vec(), b.sizes().to_vec());
            for l in &mut left {
                for r in &mut right {
                    let common = gcd(*l, *r);
                    (*l, *r) = (*l / common, *r / common);
                }
            }
            left.iter().chain(&right).all(|&factor| factor == 1)
        }
        _ => false,
    }
}

fn gcd(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

pub(super) fn transpose(op: &Op, operands: &[&Type], permutation: &[usize]) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    let rank = x.shape.rank();
    per_axis(op, "axes", permutation, rank)?;
    axis_set(op, "axes", permutation, rank)?;
    single(Type { dtype: x.dtype, shape: permutation.iter().map(|&axis| x.shape.size(axis)).collect() })
}

pub(super) fn slice(op: &Op, operands: &[&Type], start: &[usize], limit: &[usize], strides: &[usize]) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    let rank = x.shape.rank();
    per_axis(op, "start indices", start, rank)?;
    per_axis(op, "limit indices", limit, rank)?;
    per_axis(op, "strides", strides, rank)?;
    for axis in 0..rank {
        let (from, to, step, size) = (start[axis], limit[axis], strides[axis], x.shape.size(axis));
        ensure!(step >= 1, Value, op.name(), "requires strides of at least 1, got {step} along axis {axis}");
        ensure!(
            from <= to && to <= size,
            Index,
            op.name(),
            "requires 0 <= start <= limit <= {size} along axis {axis}, got {from} and {to} for operand {x}"
        );
    }
    let sizes = (0..rank).map(|axis| (limit[axis] - start[axis]).div_ceil(strides[axis]));
    single(Type { dtype: x.dtype, shape: sizes.collect() })
}

pub(super) fn pad(op: &Op, operands: &[&Type], low: &[i64], high: &[i64], interior: &[usize]) -> Result<Types> {
    let [x, value] = exactly(op, operands)?;
    same_dtype(op, ("operand", x), ("value", value))?;
    ensure!(value.shape.rank() == 0, Shape, op.name(), "requires a scalar value, got {value} for operand {x}");
    let rank = x.shape.rank();
    per_axis(op, "low paddings", low, rank)?;
    per_axis(op, "high paddings", high, rank)?;
    per_axis(op, "interior paddings", interior, rank)?;
    let sizes: Result<Shape> = (0..rank)
        .map(|axis| {
            let old = x.shape.size(axis) as i128;
            ensure!(
                i64::try_from(interior[axis]).is_ok(),
                Value,
                op.name(),
                "requires interior paddings below 2^63, got {interior:?}"
            );
            let holes = (old - 1).max(0) * interior[axis] as i128;
            size(op, axis, low[axis] as i128 + old + holes + high[axis] as i128)
        })
        .collect();
    single(Type { dtype: x.dtype, shape: sizes? })
}

pub(super) fn concatenate(op: &Op, operands: &[&Type], axis: usize) -> Result<Types> {
    let (first, rest) = at_least_one(op, operands)?;
    has_axis(op, "axis", axis, first)?;
    let mut sum = first.shape.size(axis) as i128;
    for (i, &ty) in rest.iter().enumerate() {
        let number = i + 1;
        let name = format_args!("operand {number}");
        ensure!(
            ty.dtype == first.dtype,
            DType,
            op.name(),
            "requires operands of one dtype, got operand 0 {first} and {name} {ty}"
        );
        let (a, b) = (first.shape.sizes(), ty.shape.sizes());
        let fits = a.len() == b.len() && (0..a.len()).all(|i| i == axis || a[i] == b[i]);
        ensure!(
            fits,
            Shape,
            op.name(),
            "requires operands that differ only along axis {axis}, got operand 0 {first} and {name} {ty}"
        );
        sum += b[axis] as i128;
    }
    let joined = size(op, axis, sum)?;
    let sizes = first.shape.sizes().iter().enumerate().map(|(i, &old)| if i == axis { joined } else { old });
    single(Type { dtype: first.dtype, shape: sizes.collect() })
}

pub(super) fn reverse(op: &Op, operands: &[&Type], axes: &[usize]) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    axis_set(op, "axes", axes, x.shape.rank())?;
    single(x.clone())
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::DType::*;
    use crate::ir::*;
    use smallvec::smallvec;

    #[test]
    fn iota_counts_along_an_axis_that_exists() {
        let iota = |axis, dtype| Op::Iota { axis, dtype, shape: [2, 3].into() };
        assert_eq!(shown(iota(1, BF16), &[]), "bfloat16[2, 3]");
        assert_eq!(shown(iota(2, I32), &[]), "Axis: iota requires axis below the rank 2 of int32[2, 3], got 2");
        assert_eq!(
            shown(iota(0, Bool), &[]),
            "DType: iota requires a result of integer, float or complex dtype, got bool[2, 3]"
        );
        let huge = Op::Iota { axis: 0, dtype: I32, shape: [usize::MAX].into() };
        assert_eq!(shown(huge, &[]), format!("Shape: iota requires sizes below 2^63, got {}", usize::MAX));
        let deep = Op::Iota { axis: 0, dtype: I32, shape: vec![1; 65].into() };
        assert_eq!(shown(deep, &[]), "Shape: iota requires at most 64 axes, got 65");
    }

    #[test]
    fn rng_bits_takes_two_words() {
        assert_eq!(shown(Op::RngBits([5].into()), &[ty(U64, &[]), ty(U64, &[])]), "uint32[5]");
        assert_eq!(
            shown(Op::RngBits([5].into()), &[ty(U64, &[]), ty(U64, &[1])]),
            "Shape: rng_bits requires a scalar offset, got uint64[1]"
        );
        assert_eq!(
            shown(Op::RngBits([1 << 30, 1 << 31].into()), &[ty(U64, &[]), ty(U64, &[])]),
            "Shape: rng_bits requires at most 2^60 elements, got the shape [1073741824, 2147483648]"
        );
        assert_eq!(
            shown(Op::RngBits([5].into()), &[ty(I64, &[]), ty(U64, &[])]),
            "DType: rng_bits requires seed of uint64 dtype, got int64[]"
        );
    }

    #[test]
    fn broadcast_stretches_ones() {
        let to = |axes: &[usize]| Op::BroadcastInDim { shape: [2, 3].into(), axes: Axes::from_slice(axes) };
        assert_eq!(shown(to(&[]), &[f32s(&[])]), "float32[2, 3]");
        assert_eq!(shown(to(&[1, 0]), &[f32s(&[3, 1])]), "float32[2, 3]");
        assert_eq!(
            shown(to(&[0]), &[f32s(&[3])]),
            "Shape: broadcast_in_dim requires operand axis 0 to have size 1 or that of result axis 0, got operand \
             float32[3] and result shape [2, 3]"
        );
        assert_eq!(shown(to(&[2]), &[f32s(&[3])]), "Axis: broadcast_in_dim requires axes below the rank 2, got [2]");
        assert_eq!(shown(to(&[1, 1]), &[f32s(&[1, 1])]), "Axis: broadcast_in_dim requires distinct axes, got 1 twice");
        assert_eq!(shown(to(&[1]), &[f32s(&[])]), "Value: broadcast_in_dim requires 0 axes, one per axis, got [1]");
        let huge = Op::BroadcastInDim { shape: vec![1 << 40; 3].into(), axes: smallvec![] };
        assert_eq!(shown(huge, &[f32s(&[])]), "float32[1099511627776, 1099511627776, 1099511627776]");
    }

    #[test]
    fn reshape_keeps_the_number_of_elements_even_beyond_usize() {
        assert_eq!(shown(Op::Reshape([6].into()), &[f32s(&[2, 3])]), "float32[6]");
        assert_eq!(shown(Op::Reshape([].into()), &[f32s(&[1, 1])]), "float32[]");
        assert_eq!(shown(Op::Reshape([0, 9].into()), &[f32s(&[0])]), "float32[0, 9]");
        assert_eq!(
            shown(Op::Reshape([4].into()), &[f32s(&[2, 3])]),
            "Shape: reshape requires as many elements as before, got operand float32[2, 3] and result shape [4]"
        );
        let wide = |sizes: [usize; 3]| shown(Op::Reshape(sizes.into()), &[f32s(&[6 << 40, 1 << 40, 5])]);
        assert!(wide([2 << 40, 15, 1 << 40]).starts_with("float32"));
        assert!(wide([2 << 40, 16, 1 << 40]).starts_with("Shape: reshape requires as many elements"));
        assert!(wide([2, 3, 5]).starts_with("Shape: reshape requires as many elements"));
    }

    #[test]
    fn transpose_wants_a_permutation() {
        assert_eq!(shown(Op::Transpose(smallvec![2, 0, 1]), &[f32s(&[2, 3, 4])]), "float32[4, 2, 3]");
        assert_eq!(shown(Op::Transpose(smallvec![]), &[f32s(&[])]), "float32[]");
        assert_eq!(
            shown(Op::Transpose(smallvec![0, 0]), &[f32s(&[2, 3])]),
            "Axis: transpose requires distinct axes, got 0 twice"
        );
        assert_eq!(
            shown(Op::Transpose(smallvec![0]), &[f32s(&[2, 3])]),
            "Value: transpose requires 2 axes, one per axis, got [0]"
        );
    }

    #[test]
    fn slice_stays_inside() {
        let slice = |start, limit, stride| {
            let op = Op::Slice { start: smallvec![start], limit: smallvec![limit], strides: smallvec![stride] };
            shown(op, &[f32s(&[8])])
        };
        assert_eq!(slice(1, 8, 3), "float32[3]");
        assert_eq!(slice(8, 8, 1), "float32[0]");
        assert_eq!(
            slice(1, 9, 1),
            "Index: slice requires 0 <= start <= limit <= 8 along axis 0, got 1 and 9 for operand float32[8]"
        );
        assert_eq!(
            slice(3, 2, 1),
            "Index: slice requires 0 <= start <= limit <= 8 along axis 0, got 3 and 2 for operand float32[8]"
        );
        assert_eq!(slice(0, 8, 0), "Value: slice requires strides of at least 1, got 0 along axis 0");
    }

    #[test]
    fn pad_grows_or_cuts() {
        let pad = |size, low, high, interior| {
            let op = Op::Pad { low: smallvec![low], high: smallvec![high], interior: smallvec![interior] };
            shown(op, &[f32s(&[size]), f32s(&[])])
        };
        assert_eq!(pad(3, 1, 2, 1), "float32[8]");
        assert_eq!(pad(3, -1, -2, 0), "float32[0]");
        assert_eq!(pad(0, 2, 0, 5), "float32[2]");
        assert_eq!(pad(3, -4, 0, 0), "Shape: pad requires a size from 0 to 2^63 - 1 of result axis 0, got -1");
        assert_eq!(
            pad(3, i64::MAX, 0, 0),
            "Shape: pad requires a size from 0 to 2^63 - 1 of result axis 0, got 9223372036854775810"
        );
        let op = || Op::Pad { low: smallvec![0], high: smallvec![0], interior: smallvec![0] };
        assert_eq!(
            shown(op(), &[f32s(&[3]), ty(I32, &[])]),
            "DType: pad requires operands of one dtype, got operand float32[3] and value int32[]"
        );
        assert_eq!(
            shown(op(), &[f32s(&[3]), f32s(&[1])]),
            "Shape: pad requires a scalar value, got float32[1] for operand float32[3]"
        );
    }

    #[test]
    fn concatenate_joins_along_one_axis() {
        let op = |axis| Op::Concatenate { axis };
        assert_eq!(shown(op(1), &[f32s(&[2, 3]), f32s(&[2, 0]), f32s(&[2, 1])]), "float32[2, 4]");
        assert_eq!(
            shown(op(0), &[f32s(&[2, 3]), f32s(&[2, 1])]),
            "Shape: concatenate requires operands that differ only along axis 0, got operand 0 float32[2, 3] and \
             operand 1 float32[2, 1]"
        );
        assert_eq!(
            shown(op(0), &[f32s(&[2]), ty(F16, &[2])]),
            "DType: concatenate requires operands of one dtype, got operand 0 float32[2] and operand 1 float16[2]"
        );
        assert_eq!(shown(op(0), &[]), "Value: concatenate requires at least 1 operand, got 0");
        assert_eq!(shown(op(0), &[f32s(&[])]), "Axis: concatenate requires axis below the rank 0 of float32[], got 0");
        let half = f32s(&[1 << 62]);
        assert_eq!(
            shown(op(0), &[half.clone(), half]),
            "Shape: concatenate requires a size from 0 to 2^63 - 1 of result axis 0, got 9223372036854775808"
        );
    }

    #[test]
    fn reverse_wants_distinct_axes() {
        assert_eq!(shown(Op::Reverse(smallvec![1, 0]), &[f32s(&[2, 3])]), "float32[2, 3]");
        assert_eq!(
            shown(Op::Reverse(smallvec![1, 1]), &[f32s(&[2, 3])]),
            "Axis: reverse requires distinct axes, got 1 twice"
        );
    }
}
