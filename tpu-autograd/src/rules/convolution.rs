//! Convolutions.

use super::{Context, Gradients, conjugate};
use smallvec::SmallVec;
use tpu_core::ir::ConvDims;
use tpu_core::{Result, Shape, Tensor};

pub(super) fn gradients(cx: &Context<'_>, dims: &ConvDims) -> Result<Gradients> {
    let (input, kernel) = (&cx.operands[0], &cx.operands[1]);
    // Gradients of convolutions with a wider result are computed in its dtype, then narrowed.
    let wide = |other: usize| conjugate(&cx.input(other)?.to_dtype(dims.result)?);
    cx.two(
        |g| input_gradient(g, &wide(1)?, &input.shape, dims)?.to_dtype(input.dtype),
        |g| kernel_gradient(g, &wide(0)?, &kernel.shape, dims)?.to_dtype(kernel.dtype),
    )
}

/// Length with `dilation − 1` holes between elements.
fn dilated(size: usize, dilation: usize) -> i64 {
    if size == 0 { 0 } else { (size as i64 - 1) * dilation as i64 + 1 }
}

/// A convolution of the gradient, holes of the stride between its elements, with the flipped kernel whose feature axes
/// have swapped roles.
fn input_gradient(g: &Tensor, kernel: &Tensor, input: &Shape, dims: &ConvDims) -> Result<Tensor> {
    if g.elements() == 0 || kernel.elements() == 0 {
        return Tensor::zeros(input, g.dtype());
    }
    let groups = dims.feature_groups.max(dims.batch_groups);
    // [in/g, g·out'] becomes [g·in/g, out'].
    let kernel = move_groups(kernel, dims.kernel_output_feature, dims.kernel_input_feature, groups)?;
    let padding = (0..dims.strides.len()).map(|i| {
        let reach = dilated(kernel.shape().size(dims.kernel_spatial[i]), dims.kernel_dilation[i]);
        let length = dilated(input.size(dims.input_spatial[i]), dims.input_dilation[i]);
        let given = dilated(g.shape().size(dims.output_spatial[i]), dims.strides[i]);
        let before = reach - dims.padding[i].0 - 1;
        (before, length + reach - 1 - given - before)
    });
    let back = ConvDims {
        input_batch: dims.output_batch,
        input_feature: dims.output_feature,
        input_spatial: dims.output_spatial.clone(),
        kernel_input_feature: dims.kernel_output_feature,
        kernel_output_feature: dims.kernel_input_feature,
        kernel_spatial: dims.kernel_spatial.clone(),
        output_batch: dims.input_batch,
        output_feature: dims.input_feature,
        output_spatial: dims.input_spatial.clone(),
        strides: dims.input_dilation.clone(),
        padding: padding.collect(),
        input_dilation: dims.strides.clone(),
        kernel_dilation: dims.kernel_dilation.clone(),
        reversal: dims.reversal.iter().map(|&reversed| !reversed).collect(),
        feature_groups: groups,
        batch_groups: 1,
        precision: dims.precision,
        result: dims.result,
    };
    let gradient = g.convolution(&kernel, back)?;
    // With batch groups, group g of the features belongs to part g of the batch.
    move_groups(&gradient, dims.input_feature, dims.input_batch, dims.batch_groups)
}

/// A convolution of the input with the gradient as kernel; batch and features swap roles.
fn kernel_gradient(g: &Tensor, input: &Tensor, kernel: &Shape, dims: &ConvDims) -> Result<Tensor> {
    if g.elements() == 0 || input.elements() == 0 {
        return Tensor::zeros(kernel, g.dtype());
    }
    let padding = (0..dims.strides.len()).map(|i| {
        let reach = dilated(kernel.size(dims.kernel_spatial[i]), dims.kernel_dilation[i]);
        let length = dilated(input.shape().size(dims.input_spatial[i]), dims.input_dilation[i]);
        let given = dilated(g.shape().size(dims.output_spatial[i]), dims.strides[i]);
        let before = dims.padding[i].0;
        (before, given - length + reach - before - 1)
    });
    let back = ConvDims {
        input_batch: dims.input_feature,
        input_feature: dims.input_batch,
        input_spatial: dims.input_spatial.clone(),
        kernel_input_feature: dims.output_batch,
        kernel_output_feature: dims.output_feature,
        kernel_spatial: dims.output_spatial.clone(),
        output_batch: dims.kernel_input_feature,
        output_feature: dims.kernel_output_feature,
        output_spatial: dims.kernel_spatial.clone(),
        strides: dims.kernel_dilation.clone(),
        padding: padding.collect(),
        input_dilation: dims.input_dilation.clone(),
        kernel_dilation: dims.strides.clone(),
        reversal: SmallVec::from_elem(false, dims.reversal.len()),
        feature_groups: dims.batch_groups,
        batch_groups: dims.feature_groups,
        precision: dims.precision,
        result: dims.result,
    };
    let gradient = input.convolution(g, back)?;
    let flipped: SmallVec<[isize; 4]> =
        (0..dims.reversal.len()).filter(|&i| dims.reversal[i]).map(|i| dims.kernel_spatial[i] as isize).collect();
    if flipped.is_empty() { Ok(gradient) } else { gradient.flip(flipped) }
}

/// Takes groups, the major part of axis `from`, to the major part of axis `to`.
fn move_groups(x: &Tensor, from: usize, to: usize, groups: usize) -> Result<Tensor> {
    if groups == 1 {
        return Ok(x.clone());
    }
    // The groups become an axis of their own in front of what is left of `from`.
    let mut sizes = x.sizes().to_vec();
    sizes[from] /= groups;
    sizes.insert(from, groups);
    let apart = x.reshape(&sizes[..])?;
    let mut order: Vec<usize> = (0..sizes.len()).filter(|&axis| axis != from).collect();
    let target = if to > from { to + 1 } else { to };
    let at = order.iter().position(|&axis| axis == target).unwrap_or(0);
    order.insert(at, from);
    let moved = apart.permute(order.iter().map(|&axis| axis as isize))?;
    let mut merged = moved.sizes().to_vec();
    let count = merged.remove(at);
    merged[at] *= count;
    moved.reshape(&merged[..])
}
