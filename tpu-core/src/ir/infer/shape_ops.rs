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
