//! Convolutions.

use crate::require;
use smallvec::{SmallVec, smallvec};
use tpu_core::ir::{Axes, ConvDims, Precision};
use tpu_core::{Result, Tensor, ensure};

/// Zeros around the height and width of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Padding {
    /// That many on both sides of height and width.
    Explicit([usize; 2]),
    /// As many as keep the size, the odd one behind; strides must be 1. PyTorch's `padding="same"`.
    Same,
}

/// Steps of [`conv2d`]; the default is PyTorch's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conv2d {
    /// Step of height and width.
    pub stride: [usize; 2],
    /// Zeros around the input.
    pub padding: Padding,
    /// Distance of the kernel's elements.
    pub dilation: [usize; 2],
    /// Groups of channels; each sees its own inputs only.
    pub groups: usize,
}

impl Default for Conv2d {
    fn default() -> Self {
        Self { stride: [1, 1], padding: Padding::Explicit([0, 0]), dilation: [1, 1], groups: 1 }
    }
}

/// Cross-correlation of images with kernels. PyTorch's `conv2d`.
///
/// `x`: `[batch, in, height, width]` or without the batch; `weight`: `[out, in / groups, kernel height, kernel width]`; `bias`:
/// `[out]`; one float dtype. Result `[batch, out, …]` with `(size + 2·padding − dilation·(kernel − 1) − 1) / stride + 1`,
/// rounded down, elements along height and width.
///
/// Errors on other shapes or dtypes, on zero strides, dilations or groups, on groups that do not divide both channels, and on a
/// kernel larger than the padded input.
///
/// ```
/// use tpu_core::{DType, Tensor};
/// use tpu_ops::{Conv2d, conv2d};
/// let image = Tensor::ones([1, 1, 3, 3], DType::F32)?;
/// let y = conv2d(&image, &Tensor::ones([1, 1, 2, 2], DType::F32)?, None, Conv2d::default())?;
/// assert_eq!(y.to_vec::<f32>()?, [4.0; 4]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn conv2d(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, options: Conv2d) -> Result<Tensor> {
    let padding = Tensor::checked(|| {
        check(x, weight, bias, &options)?;
        padding(x, weight, &options)
    })?;
    let batched = x.rank() == 4;
    let images = if batched { x.clone() } else { x.unsqueeze(0)? };
    let dims = ConvDims {
        input_batch: 0,
        input_feature: 1,
        input_spatial: Axes::from_slice(&[2, 3]),
        kernel_input_feature: 1,
        kernel_output_feature: 0,
        kernel_spatial: Axes::from_slice(&[2, 3]),
        output_batch: 0,
        output_feature: 1,
        output_spatial: Axes::from_slice(&[2, 3]),
        strides: Axes::from_slice(&options.stride),
        padding,
        input_dilation: Axes::from_slice(&[1, 1]),
        kernel_dilation: Axes::from_slice(&options.dilation),
        reversal: smallvec![false, false],
        feature_groups: options.groups,
        batch_groups: 1,
        precision: Precision::current(),
        result: x.dtype(),
    };
    let y = images.convolution(weight, dims)?;
    let y = match bias {
        Some(bias) => y.add(&bias.reshape([bias.elements(), 1, 1])?)?,
        None => y,
    };
    if batched { Ok(y) } else { y.squeeze(0) }
}

fn check(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, options: &Conv2d) -> Result<()> {
    const OP: &str = "conv2d";
    require::float(OP, "an input", x)?;
    require::same_dtype(OP, ("input", x), ("weight", weight))?;
    ensure!(matches!(x.rank(), 3 | 4), Shape, OP, "requires an input of 3 or 4 axes, got {}", x.shape());
    require::rank(OP, "a weight", weight, 4)?;
    let Conv2d { stride, dilation, groups, .. } = *options;
    for (name, numbers) in [("strides", &stride[..]), ("dilations", &dilation), ("groups", &[groups])] {
        ensure!(!numbers.contains(&0), Value, OP, "requires {name} of at least 1, got {numbers:?}");
    }
    let (channels, features) = (x.shape().size(x.rank() - 3), weight.shape().size(0));
    ensure!(
        weight.shape().size(1).checked_mul(groups) == Some(channels) && features.is_multiple_of(groups),
        Shape,
        OP,
        "requires a weight of channels / groups inputs and a multiple of the groups of outputs, got weight {}, input {} and \
         {groups} groups",
        weight.shape(),
        x.shape()
    );
    if let Some(bias) = bias {
        require::sizes(OP, "a bias", bias, &[features])?;
        require::same_dtype(OP, ("input", x), ("bias", bias))?;
    }
    Ok(())
}

/// Zeros before and behind height and width.
fn padding(x: &Tensor, weight: &Tensor, options: &Conv2d) -> Result<SmallVec<[(i64, i64); 4]>> {
    const OP: &str = "conv2d";
    let mut padding = SmallVec::new();
    for axis in 0..2 {
        let (size, kernel) = (x.shape().size(x.rank() - 2 + axis), weight.shape().size(2 + axis));
        ensure!(kernel > 0, Shape, OP, "requires a kernel of at least one element, got weight {}", weight.shape());
        let reach = options.dilation[axis].saturating_mul(kernel - 1);
        let (low, high) = match options.padding {
            Padding::Explicit(around) => (around[axis], around[axis]),
            Padding::Same => {
                let stride = options.stride;
                ensure!(stride == [1, 1], Value, OP, "requires strides of 1 with padding Same, got {stride:?}");
                (reach / 2, reach - reach / 2)
            }
        };
        let padded = size.saturating_add(low).saturating_add(high);
        ensure!(
            reach < padded,
            Shape,
            OP,
            "requires a kernel no larger than the padded input, got {} of {padded} along axis {axis} of the image",
            reach.saturating_add(1)
        );
        let signed = |amount: usize| i64::try_from(amount).unwrap_or(i64::MAX);
        padding.push((signed(low), signed(high)));
    }
    Ok(padding)
}
