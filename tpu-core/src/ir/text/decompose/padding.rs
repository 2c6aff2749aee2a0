//! Convolutions and windows whose padding XLA for CPU gets wrong.

use super::super::regions::identity;
use super::Builder;
use crate::Shape;
use crate::ir::{Axes, ConvDims, Op, Signed, Type, Value};
use smallvec::smallvec;
use std::sync::Arc;

/// What negative padding takes away is taken away before: where an axis has it at the start and zeros at the end, XLA for CPU reads
/// other memory in place of the zeros.
pub(super) fn cut_before(build: &mut Builder, op: &Op, operands: &[Value]) -> Vec<Value> {
    let Op::Convolution(dims) = op else { return Vec::new() };
    let Type { dtype, shape } = build.ty(operands[0]);
    let mut rest = ConvDims::clone(dims);
    let (mut low, mut high) = (Signed::from_elem(0, shape.rank()), Signed::from_elem(0, shape.rank()));
    let mut interior = Axes::from_elem(0, shape.rank());
    for (at, &axis) in dims.input_spatial.iter().enumerate() {
        let (before, after) = dims.padding[at];
        (low[axis], high[axis], interior[axis]) = (before.min(0), after.min(0), dims.input_dilation[at] - 1);
        (rest.padding[at], rest.input_dilation[at]) = ((before.max(0), after.max(0)), 1);
    }
    let zero = build.filled(dtype, &Shape::scalar(), 0);
    let x = build.push(Op::Pad { low, high, interior }, &[operands[0], zero]);
    vec![build.push(Op::Convolution(Arc::new(rest)), &[x, operands[1]])]
}

/// Windows of one element are that element, or the identity where there is padding.
pub(super) fn windows_of_one(build: &mut Builder, op: &Op, operands: &[Value]) -> Vec<Value> {
    let Op::ReduceWindow { kind, window } = op else { return Vec::new() };
    let identity = identity(*kind, build.ty(operands[0]).dtype);
    let identity = build.graph.constant(build.block, identity);
    let (low, high) = window.padding.iter().copied().unzip();
    let interior = window.base_dilations.iter().map(|dilation| dilation - 1).collect();
    let padded = build.push(Op::Pad { low, high, interior }, &[operands[0], identity]);
    let limit = build.ty(padded).shape.sizes().into();
    let start = smallvec![0; window.sizes.len()];
    vec![build.push(Op::Slice { start, limit, strides: window.strides.clone() }, &[padded])]
}
