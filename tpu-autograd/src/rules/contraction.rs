//! Matrix products.

use super::{Context, Gradients, conjugate};
use smallvec::SmallVec;
use tpu_core::ir::{Axes, DotDims};
use tpu_core::{Result, Tensor};

/// A name for each axis; axes of one name belong together.
type Names = SmallVec<[usize; 6]>;

pub(super) fn gradients(cx: &Context<'_>, dims: &DotDims) -> Result<Gradients> {
    let (lhs, rhs) = (&cx.operands[0], &cx.operands[1]);
    let (left, right, result) = names(dims, lhs.shape.rank(), rhs.shape.rank());
    // Gradients of products with a wider result are computed in its dtype, then narrowed.
    let wide = |other: usize| conjugate(&cx.input(other)?.to_dtype(dims.result)?);
    cx.two(
        |g| product((g, &result), (&wide(1)?, &right), &left, dims)?.to_dtype(lhs.dtype),
        |g| product((g, &result), (&wide(0)?, &left), &right, dims)?.to_dtype(rhs.dtype),
    )
}

/// Names of the axes of both operands and of the result.
fn names(dims: &DotDims, lhs: usize, rhs: usize) -> (Names, Names, Names) {
    let left: Names = (0..lhs).collect();
    let pairs = dims.lhs_batch.iter().zip(&dims.rhs_batch).chain(dims.lhs_contract.iter().zip(&dims.rhs_contract));
    let mut right: Names = (lhs..lhs + rhs).collect();
    for (&l, &r) in pairs {
        right[r] = l;
    }
    let free = |names: &Names, batch: &Axes, contract: &Axes| -> Names {
        let bound = |axis: &usize| batch.contains(axis) || contract.contains(axis);
        (0..names.len()).filter(|axis| !bound(axis)).map(|axis| names[axis]).collect()
    };
    let mut result: Names = dims.lhs_batch.iter().map(|&axis| left[axis]).collect();
    result.extend(free(&left, &dims.lhs_batch, &dims.lhs_contract));
    result.extend(free(&right, &dims.rhs_batch, &dims.rhs_contract));
    (left, right, result)
}

/// The product of `a` and `b` with axes in the order of `want`: names in all three are batch axes, names missing from
/// `want` are summed over.
fn product(a: (&Tensor, &Names), b: (&Tensor, &Names), want: &Names, like: &DotDims) -> Result<Tensor> {
    let (given, order) = plan(a.1, b.1, want);
    let (swapped, swapped_order) = plan(b.1, a.1, want);
    let is_plain = |order: &Names| order.iter().enumerate().all(|(at, &axis)| at == axis);
    // One of the two orders often needs no transposition afterwards.
    let (dims, order, a, b) = match is_plain(&swapped_order) && !is_plain(&order) {
        true => (swapped, swapped_order, b.0, a.0),
        false => (given, order, a.0, b.0),
    };
    let dims = DotDims { precision: like.precision, result: like.result, ..dims };
    a.dot_general(b, dims)?.permute(order.iter().map(|&axis| axis as isize))
}

/// Dimension numbers for a product of axes of these names, and how to order the result's axes.
fn plan(a: &Names, b: &Names, want: &Names) -> (DotDims, Names) {
    let mut dims = DotDims {
        lhs_batch: Axes::new(),
        rhs_batch: Axes::new(),
        lhs_contract: Axes::new(),
        rhs_contract: Axes::new(),
        precision: tpu_core::ir::Precision::Highest,
        result: tpu_core::DType::F32,
    };
    let mut result = Names::new();
    let place = |names: &Names, name: usize| names.iter().position(|&other| other == name);
    for (at, &name) in a.iter().enumerate() {
        match (place(b, name), want.contains(&name)) {
            (Some(other), true) => {
                dims.lhs_batch.push(at);
                dims.rhs_batch.push(other);
                result.push(name);
            }
            (Some(other), false) => {
                dims.lhs_contract.push(at);
                dims.rhs_contract.push(other);
            }
            (None, _) => {}
        }
    }
    result.extend(a.iter().copied().filter(|&name| place(b, name).is_none()));
    result.extend(b.iter().copied().filter(|&name| place(a, name).is_none()));
    let order = want.iter().filter_map(|&name| place(&result, name)).collect();
    (dims, order)
}
