//! Convolutions over one to three axes.

use super::{Module, Visitor, init};
use crate::{Param, amp};
use tpu_core::{DType, Result, Tensor, ensure};
use tpu_ops::{Generator, Padding};

/// Settings of [`Conv`]; the default is PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvOptions<const N: usize> {
    /// Step per axis.
    pub stride: [usize; N],
    /// Zeros on both sides of each axis.
    pub padding: [usize; N],
    /// Distance of the kernel's taps.
    pub dilation: [usize; N],
    /// Groups of channels that see only themselves.
    pub groups: usize,
    /// Whether there is a bias.
    pub bias: bool,
}

/// Settings of [`Conv1d`].
pub type Conv1dOptions = ConvOptions<1>;
/// Settings of [`Conv2d`].
pub type Conv2dOptions = ConvOptions<2>;
/// Settings of [`Conv3d`].
pub type Conv3dOptions = ConvOptions<3>;

impl<const N: usize> Default for ConvOptions<N> {
    fn default() -> Self {
        Self { stride: [1; N], padding: [0; N], dilation: [1; N], groups: 1, bias: true }
    }
}

/// `[batch, in, …]` to `[batch, out, …]` over N axes, or both without the batch.
#[derive(Clone, Debug)]
pub struct Conv<const N: usize> {
    /// `[out, in / groups, …]` with the sizes of the kernel.
    pub weight: Param,
    /// `[out]`
    pub bias: Option<Param>,
    /// Steps and groups.
    pub options: ConvOptions<N>,
}

/// PyTorch's `nn.Conv1d`.
pub type Conv1d = Conv<1>;
/// PyTorch's `nn.Conv2d`.
pub type Conv2d = Conv<2>;
/// PyTorch's `nn.Conv3d`.
pub type Conv3d = Conv<3>;

impl<const N: usize> Conv<N> {
    /// Weight and bias uniform in ±1/√(in / groups · elements of the kernel), PyTorch's default. Errors unless the groups divide
    /// both channel counts.
    pub fn new(
        inputs: usize,
        outputs: usize,
        kernel: [usize; N],
        options: ConvOptions<N>,
        dtype: DType,
        generator: &Generator,
    ) -> Result<Self> {
        let shape = [&[outputs, divided("conv", inputs, outputs, options.groups)?], &kernel[..]].concat();
        let (weight, bias) = init::layer(&shape, options.bias, dtype, generator)?;
        Ok(Self { weight: Param::new(weight), bias: bias.map(Param::new), options })
    }
}

/// Inputs of a group.
fn divided(op: &'static str, inputs: usize, outputs: usize, groups: usize) -> Result<usize> {
    ensure!(
        groups > 0 && inputs.is_multiple_of(groups) && outputs.is_multiple_of(groups),
        Value,
        op,
        "requires groups that divide the channels, got {groups} groups for {inputs} and {outputs} channels"
    );
    Ok(inputs / groups)
}

macro_rules! forward {
    ($($axes:literal: $conv:ident, $transposed:ident;)*) => {$(
        impl Module for Conv<$axes> {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                let ConvOptions { stride, padding, dilation, groups, .. } = self.options;
                let options = tpu_ops::Conv { stride, padding: Padding::Explicit(padding), dilation, groups };
                let (weight, bias) = (amp::value(&self.weight)?, amp::optional(self.bias.as_ref())?);
                tpu_ops::$conv(&amp::cast(x)?, &weight, bias.as_ref(), options)
            }

            fn visit(&self, visitor: &mut Visitor<'_>) {
                visitor.param("weight", &self.weight);
                visitor.optional("bias", self.bias.as_ref());
            }
        }

        impl Module for ConvTranspose<$axes> {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                let ConvTransposeOptions { stride, padding, output_padding, groups, dilation, .. } = self.options;
                let options = tpu_ops::ConvTranspose { stride, padding, output_padding, groups, dilation };
                let (weight, bias) = (amp::value(&self.weight)?, amp::optional(self.bias.as_ref())?);
                tpu_ops::$transposed(&amp::cast(x)?, &weight, bias.as_ref(), options)
            }

            fn visit(&self, visitor: &mut Visitor<'_>) {
                visitor.param("weight", &self.weight);
                visitor.optional("bias", self.bias.as_ref());
            }
        }
    )*};
}

forward! {
    1: conv1d, conv_transpose1d;
    2: conv2d, conv_transpose2d;
    3: conv3d, conv_transpose3d;
}

/// Settings of [`ConvTranspose`]; the default is PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvTransposeOptions<const N: usize> {
    /// Distance of the input's elements in the result.
    pub stride: [usize; N],
    /// Elements that the result lacks on both sides of each axis.
    pub padding: [usize; N],
    /// Elements added behind each axis of the result.
    pub output_padding: [usize; N],
    /// Groups of channels that see only themselves.
    pub groups: usize,
    /// Distance of the kernel's taps.
    pub dilation: [usize; N],
    /// Whether there is a bias.
    pub bias: bool,
}

impl<const N: usize> Default for ConvTransposeOptions<N> {
    fn default() -> Self {
        Self { stride: [1; N], padding: [0; N], output_padding: [0; N], groups: 1, dilation: [1; N], bias: true }
    }
}

/// `[batch, in, …]` to `[batch, out, …]` over N axes, each element spreading a kernel.
#[derive(Clone, Debug)]
pub struct ConvTranspose<const N: usize> {
    /// `[in, out / groups, …]` with the sizes of the kernel.
    pub weight: Param,
    /// `[out]`
    pub bias: Option<Param>,
    /// Steps and groups.
    pub options: ConvTransposeOptions<N>,
}

/// PyTorch's `nn.ConvTranspose1d`.
pub type ConvTranspose1d = ConvTranspose<1>;
/// PyTorch's `nn.ConvTranspose2d`.
pub type ConvTranspose2d = ConvTranspose<2>;
/// PyTorch's `nn.ConvTranspose3d`.
pub type ConvTranspose3d = ConvTranspose<3>;

impl<const N: usize> ConvTranspose<N> {
    /// Weight and bias uniform in ±1/√(out / groups · elements of the kernel), PyTorch's default. Errors unless the groups divide
    /// both channel counts.
    pub fn new(
        inputs: usize,
        outputs: usize,
        kernel: [usize; N],
        options: ConvTransposeOptions<N>,
        dtype: DType,
        generator: &Generator,
    ) -> Result<Self> {
        let each = divided("conv_transpose", outputs, inputs, options.groups)?;
        let shape = [&[inputs, each], &kernel[..]].concat();
        let (weight, _) = init::layer(&shape, false, dtype, generator)?;
        let bias = if options.bias { Some(init::bias(outputs, &shape, dtype, generator)?) } else { None };
        Ok(Self { weight: Param::new(weight), bias: bias.map(Param::new), options })
    }
}
