//! Convolution of images.

use super::{Module, Visitor, init};
use crate::{Param, amp};
use smallvec::SmallVec;
use tpu_core::ir::{Axes, ConvDims, Precision};
use tpu_core::{DType, Result, Tensor, ensure};
use tpu_ops::Generator;

/// Settings of [`Conv2d`]; the default is PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2dOptions {
    /// Step per axis.
    pub stride: [usize; 2],
    /// Zeros on both sides of each axis.
    pub padding: [usize; 2],
    /// Distance of the kernel's taps.
    pub dilation: [usize; 2],
    /// Groups of channels that see only themselves.
    pub groups: usize,
    /// Whether there is a bias.
    pub bias: bool,
}

impl Default for Conv2dOptions {
    fn default() -> Self {
        Self { stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1, bias: true }
    }
}

/// `[batch, in, height, width]` to `[batch, out, …]`. PyTorch's `nn.Conv2d`.
#[derive(Clone, Debug)]
pub struct Conv2d {
    /// `[out, in / groups, height, width]`
    pub weight: Param,
    /// `[out]`
    pub bias: Option<Param>,
    /// Steps and groups.
    pub options: Conv2dOptions,
}

impl Conv2d {
    /// Weight and bias uniform in ±1/√(in / groups · height · width), PyTorch's default. Errors unless the groups divide
    /// both channel counts.
    pub fn new(
        inputs: usize,
        outputs: usize,
        kernel: [usize; 2],
        options: Conv2dOptions,
        dtype: DType,
        generator: &Generator,
    ) -> Result<Self> {
        let groups = options.groups;
        ensure!(
            groups > 0 && inputs.is_multiple_of(groups) && outputs.is_multiple_of(groups),
            Value,
            "conv2d",
            "requires groups that divide the channels, got {groups} groups for {inputs} and {outputs} channels"
        );
        let shape = [outputs, inputs / groups, kernel[0], kernel[1]];
        let (weight, bias) = init::layer(&shape, options.bias, dtype, generator)?;
        Ok(Self { weight: Param::new(weight), bias: bias.map(Param::new), options })
    }
}

impl Module for Conv2d {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ensure!(
            x.rank() == 4,
            Shape,
            "conv2d",
            "requires an input [batch, channels, height, width], got {}",
            x.shape()
        );
        let (x, options) = (amp::cast(x)?, &self.options);
        let spatial: Axes = SmallVec::from_slice(&[2, 3]);
        let dims = ConvDims {
            input_batch: 0,
            input_feature: 1,
            input_spatial: spatial.clone(),
            kernel_input_feature: 1,
            kernel_output_feature: 0,
            kernel_spatial: spatial.clone(),
            output_batch: 0,
            output_feature: 1,
            output_spatial: spatial,
            strides: SmallVec::from_slice(&options.stride),
            padding: options.padding.iter().map(|&padding| (padding as i64, padding as i64)).collect(),
            input_dilation: SmallVec::from_slice(&[1, 1]),
            kernel_dilation: SmallVec::from_slice(&options.dilation),
            reversal: SmallVec::from_slice(&[false, false]),
            feature_groups: options.groups,
            batch_groups: 1,
            precision: Precision::current(),
            result: x.dtype(),
        };
        let product = x.convolution(&amp::value(&self.weight)?, dims)?;
        match &self.bias {
            Some(bias) => {
                let bias = amp::value(bias)?;
                product.add(&bias.reshape([bias.elements(), 1, 1])?)
            }
            None => Ok(product),
        }
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.param("weight", &self.weight);
        if let Some(bias) = &self.bias {
            visitor.param("bias", bias);
        }
    }
}
