//! Matrix products and convolutions.

use super::{Choices, Grower};
use crate::DType;
use crate::ir::{ConvDims, DotDims, Op, Precision, Type, Value, support};
use std::sync::Arc;

/// A dtype that a contraction of `dtype` may give.
fn result_dtype(grower: &Grower<'_>, choices: &mut Choices<'_>, dtype: DType) -> Option<DType> {
    if support::widens(dtype, dtype) && !choices.one_in(4) {
        return Some(dtype);
    }
    let wider: Vec<DType> =
        grower.config.dtypes.iter().copied().filter(|&result| support::widens(dtype, result)).collect();
    (!wider.is_empty()).then(|| *choices.pick(&wider))
}

pub fn dot(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let mut dims = DotDims {
        lhs_batch: Default::default(),
        rhs_batch: Default::default(),
        lhs_contract: Default::default(),
        rhs_contract: Default::default(),
        precision: Precision::Highest,
        result: DType::F32,
    };
    let lhs = grower.operand(choices, &Op::DotGeneral(Arc::new(dims.clone())))?;
    let ty = grower.ty(lhs).clone();
    dims.result = result_dtype(grower, choices, ty.dtype)?;
    // Each lhs axis is batch, contracted or free; rhs has the first two kinds and free ones of its own, in any order.
    let mut rhs_axes: Vec<(usize, Option<(bool, usize)>)> = Vec::new();
    for (axis, &size) in ty.shape.sizes().iter().enumerate() {
        match choices.below(4) {
            0 | 1 => rhs_axes.push((size, Some((false, axis)))),
            2 => rhs_axes.push((size, Some((true, axis)))),
            _ => {}
        }
    }
    for _ in 0..choices.below(3) {
        rhs_axes.push((*choices.pick(&[4, 1, 3, 17]), None));
    }
    let order = choices.permutation(rhs_axes.len());
    let sizes: Vec<usize> = order.iter().map(|&i| rhs_axes[i].0).collect();
    for (axis, &i) in order.iter().enumerate() {
        match rhs_axes[i].1 {
            Some((true, lhs_axis)) => {
                dims.lhs_batch.push(lhs_axis);
                dims.rhs_batch.push(axis);
            }
            Some((false, lhs_axis)) => {
                dims.lhs_contract.push(lhs_axis);
                dims.rhs_contract.push(axis);
            }
            None => {}
        }
    }
    let rhs = Type::new(ty.dtype, sizes);
    if rhs.shape.elements()? > grower.config.elements {
        return None;
    }
    let rhs = grower.like(choices, &rhs);
    grower.push(Op::DotGeneral(Arc::new(dims)), &[lhs, rhs])
}

/// A convolution over one or two axes with everything that a convolution can have.
pub fn convolution(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let dtypes: Vec<DType> = grower
        .config
        .dtypes
        .iter()
        .copied()
        .filter(|d| d.is_integer() || (d.is_float() && d.bits() > 8) || d.is_complex())
        .collect();
    if dtypes.is_empty() {
        return None;
    }
    let dtype = *choices.pick(&dtypes);
    let spatial = 1 + choices.below(2);
    let (feature_groups, batch_groups) = *choices.pick(&[(1, 1), (2, 1), (1, 2)]);
    let (channels, features) = (1 + choices.below(3), feature_groups * batch_groups * (1 + choices.below(3)));
    // Axis roles in canonical order, then moved about.
    let [input_order, kernel_order, output_order] = [(); 3].map(|()| choices.permutation(spatial + 2));
    let mut input = vec![0; spatial + 2];
    let mut kernel = vec![0; spatial + 2];
    input[input_order[0]] = batch_groups * (1 + choices.below(2));
    input[input_order[1]] = feature_groups * channels;
    kernel[kernel_order[0]] = channels;
    kernel[kernel_order[1]] = features;
    let mut dims = ConvDims {
        input_batch: input_order[0],
        input_feature: input_order[1],
        input_spatial: input_order[2..].iter().copied().collect(),
        kernel_input_feature: kernel_order[0],
        kernel_output_feature: kernel_order[1],
        kernel_spatial: kernel_order[2..].iter().copied().collect(),
        output_batch: output_order[0],
        output_feature: output_order[1],
        output_spatial: output_order[2..].iter().copied().collect(),
        strides: Default::default(),
        padding: Default::default(),
        input_dilation: Default::default(),
        kernel_dilation: Default::default(),
        reversal: Default::default(),
        feature_groups,
        batch_groups,
        precision: Precision::Highest,
        result: result_dtype(grower, choices, dtype)?,
    };
    for axis in 0..spatial {
        input[input_order[2 + axis]] = 1 + choices.below(7);
        kernel[kernel_order[2 + axis]] = 1 + choices.below(3);
        dims.strides.push(*choices.pick(&[1, 2, 3]));
        dims.padding.push((*choices.pick(&[0, 1, -1, 2]), *choices.pick(&[0, 1, 2])));
        dims.input_dilation.push(*choices.pick(&[1, 1, 2]));
        dims.kernel_dilation.push(*choices.pick(&[1, 1, 2]));
        dims.reversal.push(choices.one_in(4));
    }
    let x = grower.like(choices, &Type::new(dtype, input));
    let k = grower.like(choices, &Type::new(dtype, kernel));
    grower.push(Op::Convolution(Arc::new(dims)), &[x, k])
}
