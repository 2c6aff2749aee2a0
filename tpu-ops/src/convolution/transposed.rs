//! Transposed convolutions: the derivative of a convolution with respect to its input, as a function of its own.

use super::{apply, check_bias, numbers, operands, plain, signed};
use smallvec::{SmallVec, smallvec};
use tpu_core::ir::{Axes, ConvDims};
use tpu_core::{Result, Tensor, ensure};

/// Steps of a transposed convolution over N spatial axes; the default is PyTorch's. They are those of the convolution that it
/// reverses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConvTranspose<const N: usize> {
    /// Distance of the input's elements in the result.
    pub stride: [usize; N],
    /// Elements that the result lacks on both sides of each axis.
    pub padding: [usize; N],
    /// Elements added behind each axis of the result; below the stride or the dilation.
    pub output_padding: [usize; N],
    /// Groups of channels; each sees its own inputs only.
    pub groups: usize,
    /// Distance of the kernel's elements.
    pub dilation: [usize; N],
}

/// Steps of [`conv_transpose1d`].
pub type ConvTranspose1d = ConvTranspose<1>;
/// Steps of [`conv_transpose2d`].
pub type ConvTranspose2d = ConvTranspose<2>;
/// Steps of [`conv_transpose3d`].
pub type ConvTranspose3d = ConvTranspose<3>;

impl<const N: usize> Default for ConvTranspose<N> {
    fn default() -> Self {
        Self { stride: [1; N], padding: [0; N], output_padding: [0; N], groups: 1, dilation: [1; N] }
    }
}

/// [`conv_transpose2d`] with one spatial axis. PyTorch's `conv_transpose1d`.
///
/// ```
/// use tpu_core::{DType, Tensor};
/// use tpu_ops::{ConvTranspose1d, conv_transpose1d};
/// let x = Tensor::from_vec(vec![1.0f32, 2.0], [1, 1, 2])?;
/// let options = ConvTranspose1d { stride: [2], ..Default::default() };
/// let y = conv_transpose1d(&x, &Tensor::ones([1, 1, 2], DType::F32)?, None, options)?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn conv_transpose1d(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: ConvTranspose1d,
) -> Result<Tensor> {
    transposed("conv_transpose1d", x, weight, bias, &options)
}

/// Each element of the input spreads a kernel over the result, where they add up. PyTorch's `conv_transpose2d`.
///
/// `x`: `[batch, in, height, width]` or without the batch; `weight`: `[in, out / groups, kernel height, kernel width]`; `bias`:
/// `[out]`; one float dtype. Result `[batch, out, …]` with `(size − 1)·stride − 2·padding + dilation·(kernel − 1) +
/// output_padding + 1` elements along height and width.
///
/// Errors on other shapes or dtypes, on zero strides, dilations or groups, on groups that do not divide both channels, on an output
/// padding that is below neither the stride nor the dilation, and if the result would have no elements.
///
/// ```
/// use tpu_core::{DType, Tensor};
/// use tpu_ops::{ConvTranspose2d, conv_transpose2d};
/// let x = Tensor::ones([1, 1, 2, 2], DType::F32)?;
/// let y = conv_transpose2d(&x, &x, None, ConvTranspose2d::default())?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn conv_transpose2d(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: ConvTranspose2d,
) -> Result<Tensor> {
    transposed("conv_transpose2d", x, weight, bias, &options)
}

/// [`conv_transpose2d`] with three spatial axes. PyTorch's `conv_transpose3d`.
///
/// ```
/// use tpu_core::{DType, Tensor};
/// use tpu_ops::{ConvTranspose3d, conv_transpose3d};
/// let x = Tensor::ones([1, 1, 1, 1, 1], DType::F32)?;
/// let y = conv_transpose3d(&x, &Tensor::ones([1, 2, 1, 2, 1], DType::F32)?, None, ConvTranspose3d::default())?;
/// assert_eq!(y.sizes(), [1, 2, 1, 2, 1]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn conv_transpose3d(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: ConvTranspose3d,
) -> Result<Tensor> {
    transposed("conv_transpose3d", x, weight, bias, &options)
}

#[track_caller]
fn transposed<const N: usize>(
    op: &'static str,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &ConvTranspose<N>,
) -> Result<Tensor> {
    let padding = Tensor::checked(|| check(op, x, weight, bias, options))?;
    let dims = ConvDims {
        kernel_input_feature: 0,
        kernel_output_feature: 1,
        padding,
        input_dilation: Axes::from_slice(&options.stride),
        kernel_dilation: Axes::from_slice(&options.dilation),
        reversal: SmallVec::from_elem(true, N),
        feature_groups: options.groups,
        ..plain::<N>(x)
    };
    apply::<N>(x, &of_groups(weight, options.groups)?, bias, dims)
}

/// `[in, out / groups, …]` as `[in / groups, out, …]`, where a group's outputs follow each other.
#[track_caller]
fn of_groups(weight: &Tensor, groups: usize) -> Result<Tensor> {
    if groups == 1 {
        return Ok(weight.clone());
    }
    let (inputs, outputs) = (weight.sizes()[0] / groups, weight.sizes()[1]);
    let kernel = &weight.sizes()[2..];
    let apart = weight.reshape([&[groups, inputs, outputs], kernel].concat())?.transpose(0, 1)?;
    apart.reshape([&[inputs, groups * outputs], kernel].concat())
}

/// Checks the operands; gives the zeros before and behind each spatial axis, whose elements the stride holds apart.
fn check<const N: usize>(
    op: &'static str,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &ConvTranspose<N>,
) -> Result<SmallVec<[(i64, i64); 4]>> {
    let ConvTranspose { stride, padding, output_padding, groups, dilation } = *options;
    operands::<N>(op, x, weight)?;
    numbers(op, &[("strides", &stride), ("dilations", &dilation), ("groups", &[groups])])?;
    let channels = x.shape().size(x.rank() - 1 - N);
    ensure!(
        weight.shape().size(0) == channels && channels.is_multiple_of(groups),
        Shape,
        op,
        "requires a weight of as many inputs as the input has channels, a multiple of the groups, got weight {}, input {} and \
         {groups} groups",
        weight.shape(),
        x.shape()
    );
    check_bias(op, x, bias, weight.shape().size(1).saturating_mul(groups))?;
    let mut around = smallvec![];
    for axis in 0..N {
        let (size, kernel) = (x.shape().size(x.rank() - N + axis), weight.shape().size(2 + axis));
        ensure!(kernel > 0, Shape, op, "requires a kernel of at least one element, got weight {}", weight.shape());
        let extra = output_padding[axis];
        ensure!(
            extra < stride[axis] || extra < dilation[axis],
            Value,
            op,
            "requires output padding below the stride or the dilation, got {output_padding:?}, {stride:?} and {dilation:?}"
        );
        let reach = signed(dilation[axis].saturating_mul(kernel - 1));
        let low = reach.saturating_sub(signed(padding[axis]));
        let high = low.saturating_add(signed(extra));
        let spread = signed(size.saturating_sub(1).saturating_mul(stride[axis]).saturating_add(usize::from(size > 0)));
        let result = spread.saturating_add(low).saturating_add(high).saturating_sub(reach);
        ensure!(
            size > 0 && result > 0,
            Shape,
            op,
            "requires a result of at least one element, got {result} along axis {axis} of the image from {}",
            x.shape()
        );
        around.push((low, high));
    }
    Ok(around)
}
