//! Convolutions of one to three dimensions.

use super::{Result, Run, tensor};
use crate::measure::Parameters;
use tpu_autograd::{GradOptions, grad_from, requires_grad};
use tpu_core::DType;
use tpu_core::ir::{Axes, ConvDims, Precision};

/// `[batch, in, size…]` with a kernel `[out, in / groups, kernel…]`, padded by half the kernel; `pass` is `forward`,
/// `gradients`: those of input and kernel, or `input` or `weights`: one of them.
pub(super) fn convolution(parameters: &Parameters) -> Result<Run> {
    let dims = parameters.size("dims")?;
    let [batch, inputs, outputs] = parameters.sizes(["batch", "in", "out"])?;
    let [size, kernel] = parameters.sizes(["size", "kernel"])?;
    let [stride, dilation, groups] =
        [parameters.size_or("stride", 1)?, parameters.size_or("dilation", 1)?, parameters.size_or("groups", 1)?];
    let shape = |lead: [usize; 2], size| lead.into_iter().chain(std::iter::repeat_n(size, dims)).collect::<Vec<_>>();
    let x = tensor(shape([batch, inputs], size), 1, 1.0, DType::F32)?;
    let weight = tensor(shape([outputs, inputs / groups], kernel), 2, 1.0, DType::F32)?;
    let steps = geometry(dims, stride, dilation, kernel / 2 * dilation, groups);
    match parameters.text("pass")? {
        "forward" => Ok(Box::new(move || Ok(vec![x.convolution(&weight, steps.clone())?]))),
        pass @ ("gradients" | "input" | "weights") => {
            let (x, weight) = (requires_grad(&x)?, requires_grad(&weight)?);
            let y = x.convolution(&weight, steps)?;
            let gradient = tensor(y.sizes().to_vec(), 3, 1.0, DType::F32)?;
            // What is measured is the backward pass alone: the history stays, the forward pass is done.
            y.wait()?;
            let retain = GradOptions { retain_graph: true, ..GradOptions::default() };
            let wanted = match pass {
                "input" => vec![x],
                "weights" => vec![weight],
                _ => vec![x, weight],
            };
            Ok(Box::new(move || grad_from(&[&y], &[&gradient], &wanted.iter().collect::<Vec<_>>(), retain)))
        }
        other => Err(format!("requires pass forward, gradients, input or weights, got `{other}`").into()),
    }
}

/// PyTorch's layout, with the same step and padding along each dimension.
fn geometry(dims: usize, stride: usize, dilation: usize, padding: usize, groups: usize) -> ConvDims {
    let all = |value: usize| -> Axes { std::iter::repeat_n(value, dims).collect() };
    let spatial: Axes = (2..2 + dims).collect();
    ConvDims {
        input_batch: 0,
        input_feature: 1,
        input_spatial: spatial.clone(),
        kernel_input_feature: 1,
        kernel_output_feature: 0,
        kernel_spatial: spatial.clone(),
        output_batch: 0,
        output_feature: 1,
        output_spatial: spatial,
        strides: all(stride),
        padding: std::iter::repeat_n((padding as i64, padding as i64), dims).collect(),
        input_dilation: all(1),
        kernel_dilation: all(dilation),
        reversal: std::iter::repeat_n(false, dims).collect(),
        feature_groups: groups,
        batch_groups: 1,
        precision: Precision::Highest,
        result: DType::F32,
    }
}
