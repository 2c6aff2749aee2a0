//! Convolutions of one to three spatial axes.

mod transposed;

pub use transposed::{
    ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, conv_transpose1d, conv_transpose2d,
    conv_transpose3d,
};

use crate::require;
use smallvec::SmallVec;
use tpu_core::ir::{Axes, ConvDims, Precision};
use tpu_core::{Result, Tensor, ensure};

/// Zeros around the spatial axes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Padding<const N: usize> {
    /// That many on both sides of each.
    Explicit([usize; N]),
    /// As many as keep the size, the odd one behind; strides must be 1. PyTorch's `padding="same"`.
    Same,
}

/// Steps of a convolution over N spatial axes; the default is PyTorch's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conv<const N: usize> {
    /// Step per axis.
    pub stride: [usize; N],
    /// Zeros around the input.
    pub padding: Padding<N>,
    /// Distance of the kernel's elements.
    pub dilation: [usize; N],
    /// Groups of channels; each sees its own inputs only.
    pub groups: usize,
}

/// Steps of [`conv1d`].
pub type Conv1d = Conv<1>;
/// Steps of [`conv2d`].
pub type Conv2d = Conv<2>;
/// Steps of [`conv3d`].
pub type Conv3d = Conv<3>;

impl<const N: usize> Default for Conv<N> {
    fn default() -> Self {
        Self { stride: [1; N], padding: Padding::Explicit([0; N]), dilation: [1; N], groups: 1 }
    }
}

/// Cross-correlation of sequences with kernels. PyTorch's `conv1d`.
///
/// `x`: `[batch, in, length]` or without the batch; `weight`: `[out, in / groups, kernel]`. Result, bias, dtypes and errors are
/// those of [`conv2d`], with one spatial axis.
///
/// ```
/// use tpu_core::{DType, Tensor};
/// use tpu_ops::{Conv1d, conv1d};
/// let x = Tensor::from_vec(vec![1.0f32, 2.0, 4.0], [1, 1, 3])?;
/// let y = conv1d(&x, &Tensor::ones([1, 1, 2], DType::F32)?, None, Conv1d::default())?;
/// assert_eq!(y.to_vec::<f32>()?, [3.0, 6.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn conv1d(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, options: Conv1d) -> Result<Tensor> {
    convolve("conv1d", x, weight, bias, &options)
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
    convolve("conv2d", x, weight, bias, &options)
}

/// Cross-correlation of volumes with kernels. PyTorch's `conv3d`.
///
/// `x`: `[batch, in, depth, height, width]` or without the batch; `weight`: `[out, in / groups, …]` with three sizes of the
/// kernel. Result, bias, dtypes and errors are those of [`conv2d`], with three spatial axes.
///
/// ```
/// use tpu_core::{DType, Tensor};
/// use tpu_ops::{Conv3d, conv3d};
/// let x = Tensor::ones([1, 1, 2, 2, 2], DType::F32)?;
/// assert_eq!(conv3d(&x, &x, None, Conv3d::default())?.to_vec::<f32>()?, [8.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn conv3d(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, options: Conv3d) -> Result<Tensor> {
    convolve("conv3d", x, weight, bias, &options)
}

#[track_caller]
fn convolve<const N: usize>(
    op: &'static str,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &Conv<N>,
) -> Result<Tensor> {
    let padding = Tensor::checked(|| {
        let Conv { stride, dilation, groups, .. } = *options;
        operands::<N>(op, x, weight)?;
        numbers(op, &[("strides", &stride), ("dilations", &dilation), ("groups", &[groups])])?;
        let (channels, features) = (x.shape().size(x.rank() - 1 - N), weight.shape().size(0));
        ensure!(
            weight.shape().size(1).checked_mul(groups) == Some(channels) && features.is_multiple_of(groups),
            Shape,
            op,
            "requires a weight of channels / groups inputs and a multiple of the groups of outputs, got weight {}, input {} and \
             {groups} groups",
            weight.shape(),
            x.shape()
        );
        check_bias(op, x, bias, features)?;
        padding(op, x, weight, options)
    })?;
    let dims = ConvDims {
        strides: Axes::from_slice(&options.stride),
        padding,
        kernel_dilation: Axes::from_slice(&options.dilation),
        feature_groups: options.groups,
        ..plain::<N>(x)
    };
    apply::<N>(x, weight, bias, dims)
}

/// PyTorch's order of axes, no padding, all steps 1.
fn plain<const N: usize>(x: &Tensor) -> ConvDims {
    let spatial: Axes = (2..2 + N).collect();
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
        strides: SmallVec::from_elem(1, N),
        padding: SmallVec::from_elem((0, 0), N),
        input_dilation: SmallVec::from_elem(1, N),
        kernel_dilation: SmallVec::from_elem(1, N),
        reversal: SmallVec::from_elem(false, N),
        feature_groups: 1,
        batch_groups: 1,
        precision: Precision::current(),
        result: x.dtype(),
    }
}

/// The convolution and the bias, with a batch for the time of it.
#[track_caller]
fn apply<const N: usize>(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, dims: ConvDims) -> Result<Tensor> {
    let batched = x.rank() == 2 + N;
    let images = if batched { x.clone() } else { x.unsqueeze(0)? };
    let y = images.convolution(weight, dims)?;
    let y = match bias {
        Some(bias) => {
            let mut sizes = [1; 4];
            sizes[0] = bias.elements();
            y.add(&bias.reshape(&sizes[..=N])?)?
        }
        None => y,
    };
    if batched { Ok(y) } else { y.squeeze(0) }
}

/// Checks dtypes and ranks.
fn operands<const N: usize>(op: &'static str, x: &Tensor, weight: &Tensor) -> Result<()> {
    require::float(op, "an input", x)?;
    require::same_dtype(op, ("input", x), ("weight", weight))?;
    let ranks = [N + 1, N + 2];
    ensure!(
        ranks.contains(&x.rank()),
        Shape,
        op,
        "requires an input of {} or {} axes, got {}",
        ranks[0],
        ranks[1],
        x.shape()
    );
    require::rank(op, "a weight", weight, N + 2)
}

fn numbers(op: &'static str, named: &[(&str, &[usize])]) -> Result<()> {
    for &(name, numbers) in named {
        ensure!(!numbers.contains(&0), Value, op, "requires {name} of at least 1, got {numbers:?}");
    }
    Ok(())
}

fn check_bias(op: &'static str, x: &Tensor, bias: Option<&Tensor>, features: usize) -> Result<()> {
    let Some(bias) = bias else { return Ok(()) };
    require::sizes(op, "a bias", bias, &[features])?;
    require::same_dtype(op, ("input", x), ("bias", bias))
}

/// Zeros before and behind each spatial axis.
fn padding<const N: usize>(
    op: &'static str,
    x: &Tensor,
    weight: &Tensor,
    options: &Conv<N>,
) -> Result<SmallVec<[(i64, i64); 4]>> {
    let mut padding = SmallVec::new();
    for axis in 0..N {
        let (size, kernel) = (x.shape().size(x.rank() - N + axis), weight.shape().size(2 + axis));
        ensure!(kernel > 0, Shape, op, "requires a kernel of at least one element, got weight {}", weight.shape());
        let reach = options.dilation[axis].saturating_mul(kernel - 1);
        let (low, high) = match options.padding {
            Padding::Explicit(around) => (around[axis], around[axis]),
            Padding::Same => {
                let stride = options.stride;
                ensure!(stride == [1; N], Value, op, "requires strides of 1 with padding Same, got {stride:?}");
                (reach / 2, reach - reach / 2)
            }
        };
        let padded = size.saturating_add(low).saturating_add(high);
        ensure!(
            reach < padded,
            Shape,
            op,
            "requires a kernel no larger than the padded input, got {} of {padded} along axis {axis} of the image",
            reach.saturating_add(1)
        );
        padding.push((signed(low), signed(high)));
    }
    Ok(padding)
}

fn signed(amount: usize) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
