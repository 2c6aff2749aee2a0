//! Maxima and means of windows over one to three axes.

mod adaptive;

pub use adaptive::{
    adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_max_pool1d, adaptive_max_pool2d,
    adaptive_max_pool3d,
};

use crate::composite::widened;
use crate::place::beside;
use crate::require;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use tpu_core::ir::{Axes, Op, Reducer, Window};
use tpu_core::{DType, Result, Tensor, ensure};

/// Steps of the maxima of windows over N axes; the default is PyTorch's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxPool<const N: usize> {
    /// Step per axis; that of the window if absent.
    pub stride: Option<[usize; N]>,
    /// What never wins on both sides of each axis, at most half the window.
    pub padding: [usize; N],
    /// Distance of the window's elements.
    pub dilation: [usize; N],
    /// Count a last window that is not full, if it starts inside the input or the padding before it.
    pub ceil_mode: bool,
}

/// Steps of [`max_pool1d`].
pub type MaxPool1d = MaxPool<1>;
/// Steps of [`max_pool2d`].
pub type MaxPool2d = MaxPool<2>;
/// Steps of [`max_pool3d`].
pub type MaxPool3d = MaxPool<3>;

impl<const N: usize> Default for MaxPool<N> {
    fn default() -> Self {
        Self { stride: None, padding: [0; N], dilation: [1; N], ceil_mode: false }
    }
}

/// [`max_pool2d`] over one axis: `x` is `[batch, channels, length]` or without the batch. PyTorch's `max_pool1d`.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{MaxPool1d, max_pool1d};
/// let x = Tensor::from_vec(vec![1.0f32, 2.0, 4.0, 3.0], [1, 1, 4])?;
/// assert_eq!(max_pool1d(&x, [2], MaxPool1d::default())?.to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn max_pool1d(x: &Tensor, window: [usize; 1], options: MaxPool1d) -> Result<Tensor> {
    max_pool("max_pool1d", x, window, options)
}

/// The largest element of each window, NaN if there is one. PyTorch's `max_pool2d`.
///
/// `x`: `[batch, channels, height, width]` or without the batch, float or integer. The result has
/// `(size + 2·padding − dilation·(window − 1) − 1) / stride + 1` elements along height and width, rounded as `ceil_mode` says.
///
/// Errors on other ranks or dtypes, zero windows, strides or dilations, padding of more than half the window, or a window larger
/// than the padded input.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{MaxPool2d, max_pool2d};
/// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [1, 1, 2, 2])?;
/// assert_eq!(max_pool2d(&x, [2, 2], MaxPool2d::default())?.to_vec::<f32>()?, [4.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn max_pool2d(x: &Tensor, window: [usize; 2], options: MaxPool2d) -> Result<Tensor> {
    max_pool("max_pool2d", x, window, options)
}

/// [`max_pool2d`] over three axes: `x` is `[batch, channels, depth, height, width]` or without the batch. PyTorch's `max_pool3d`.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{MaxPool3d, max_pool3d};
/// let x = Tensor::from_vec(vec![1.0f32, 2.0, 4.0, 3.0], [1, 2, 2, 1])?;
/// assert_eq!(max_pool3d(&x, [2, 2, 1], MaxPool3d::default())?.to_vec::<f32>()?, [4.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn max_pool3d(x: &Tensor, window: [usize; 3], options: MaxPool3d) -> Result<Tensor> {
    max_pool("max_pool3d", x, window, options)
}

#[track_caller]
fn max_pool<const N: usize>(op: &'static str, x: &Tensor, window: [usize; N], options: MaxPool<N>) -> Result<Tensor> {
    let stride = options.stride.unwrap_or(window);
    let along = Tensor::checked(|| {
        let number = x.dtype().is_integer() || require::float(op, "an input", x).is_ok();
        ensure!(number, DType, op, "requires an input of floats or integers, got {}", x.dtype());
        geometry(op, x, window, stride, options.padding, options.dilation, options.ceil_mode)
    })?;
    reduce(x, Reducer::Max, &along)
}

/// Steps of the means of windows over N axes; the default is PyTorch's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AvgPool<const N: usize> {
    /// Step per axis; that of the window if absent.
    pub stride: Option<[usize; N]>,
    /// Zeros on both sides of each axis, at most half the window.
    pub padding: [usize; N],
    /// Count a last window that is not full, if it starts inside the input or the padding before it.
    pub ceil_mode: bool,
    /// Divide by the size of the window with the padding in it; else by the number of input elements in it.
    pub count_include_pad: bool,
    /// Divide by this instead.
    pub divisor_override: Option<usize>,
}

/// Steps of [`avg_pool1d`].
pub type AvgPool1d = AvgPool<1>;
/// Steps of [`avg_pool2d`].
pub type AvgPool2d = AvgPool<2>;
/// Steps of [`avg_pool3d`].
pub type AvgPool3d = AvgPool<3>;

impl<const N: usize> Default for AvgPool<N> {
    fn default() -> Self {
        Self { stride: None, padding: [0; N], ceil_mode: false, count_include_pad: true, divisor_override: None }
    }
}

/// [`avg_pool2d`] over one axis: `x` is `[batch, channels, length]` or without the batch. PyTorch's `avg_pool1d`.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{AvgPool1d, avg_pool1d};
/// let x = Tensor::from_vec(vec![1.0f32, 2.0, 4.0, 3.0], [1, 1, 4])?;
/// assert_eq!(avg_pool1d(&x, [2], AvgPool1d::default())?.to_vec::<f32>()?, [1.5, 3.5]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn avg_pool1d(x: &Tensor, window: [usize; 1], options: AvgPool1d) -> Result<Tensor> {
    avg_pool("avg_pool1d", x, window, options)
}

/// The mean of each window. PyTorch's `avg_pool2d`.
///
/// `x`: `[batch, channels, height, width]` or without the batch, float. Sizes and errors as of [`max_pool2d`], and a divisor
/// of 0. Sums of 16-bit floats are float32.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{AvgPool2d, avg_pool2d};
/// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [1, 1, 2, 2])?;
/// assert_eq!(avg_pool2d(&x, [2, 2], AvgPool2d::default())?.to_vec::<f32>()?, [2.5]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn avg_pool2d(x: &Tensor, window: [usize; 2], options: AvgPool2d) -> Result<Tensor> {
    avg_pool("avg_pool2d", x, window, options)
}

/// [`avg_pool2d`] over three axes: `x` is `[batch, channels, depth, height, width]` or without the batch. PyTorch's `avg_pool3d`.
///
/// ```
/// use tpu_core::Tensor;
/// use tpu_ops::{AvgPool3d, avg_pool3d};
/// let x = Tensor::from_vec(vec![1.0f32, 2.0, 4.0, 3.0], [1, 2, 2, 1])?;
/// assert_eq!(avg_pool3d(&x, [2, 2, 1], AvgPool3d::default())?.to_vec::<f32>()?, [2.5]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn avg_pool3d(x: &Tensor, window: [usize; 3], options: AvgPool3d) -> Result<Tensor> {
    avg_pool("avg_pool3d", x, window, options)
}

#[track_caller]
fn avg_pool<const N: usize>(op: &'static str, x: &Tensor, window: [usize; N], options: AvgPool<N>) -> Result<Tensor> {
    let stride = options.stride.unwrap_or(window);
    let along = Tensor::checked(|| {
        require::float(op, "an input", x)?;
        let divisor = options.divisor_override;
        ensure!(divisor != Some(0), Value, op, "requires a divisor of at least 1, got 0");
        geometry(op, x, window, stride, options.padding, [1; N], options.ceil_mode)
    })?;
    let sums = reduce(&widened(x)?, Reducer::Sum, &along)?;
    let dtype = sums.dtype();
    let mean = match options.divisor_override {
        Some(divisor) => sums.div(divisor as f64)?,
        None => {
            let full = along.iter().all(|axis| axis.always_full(options.count_include_pad));
            if full {
                sums.div(window.iter().map(|&size| size as f64).product::<f64>())?
            } else {
                // The product of the counts along the axes.
                let mut counts = along[0].counts(x, options.count_include_pad, dtype)?;
                for axis in &along[1..] {
                    counts = counts.unsqueeze(-1)?.mul(&axis.counts(x, options.count_include_pad, dtype)?)?;
                }
                sums.div(&counts)?
            }
        }
    };
    mean.to_dtype(x.dtype())
}

/// Windows along one axis.
#[derive(Clone, Copy)]
struct Along {
    /// Input elements.
    size: usize,
    window: usize,
    stride: usize,
    dilation: usize,
    padding: usize,
    /// Number of windows.
    windows: usize,
}

impl Along {
    /// Elements from a window's first to one past its last.
    fn extent(&self) -> usize {
        self.dilation * (self.window - 1) + 1
    }

    /// Padding behind the input that makes the windows as many as they are; negative if they leave elements out.
    fn padding_behind(&self) -> i64 {
        let end = (self.windows as i64 - 1) * self.stride as i64 + self.extent() as i64;
        end - self.size as i64 - self.padding as i64
    }

    /// Whether every window is counted in full.
    fn always_full(&self, include_padding: bool) -> bool {
        let behind = self.padding_behind();
        if include_padding { behind <= self.padding as i64 } else { self.padding == 0 && behind <= 0 }
    }

    /// How many elements each window counts, as `dtype`.
    #[track_caller]
    fn counts(&self, x: &Tensor, include_padding: bool, dtype: DType) -> Result<Tensor> {
        let index = beside(x, || Tensor::iota(self.windows, 0, DType::I64))?;
        // In coordinates that start with the padding.
        let start = index.mul(self.stride)?;
        let end = start.add(self.window)?;
        let counted = match include_padding {
            true => end.minimum(self.size + 2 * self.padding)?.sub(&start)?,
            false => end.minimum(self.size + self.padding)?.sub(&start.maximum(self.padding)?)?,
        };
        counted.to_dtype(dtype)
    }
}

/// Checks the operands of a pooling; gives the windows along each axis.
fn geometry<const N: usize>(
    op: &'static str,
    x: &Tensor,
    window: [usize; N],
    stride: [usize; N],
    padding: [usize; N],
    dilation: [usize; N],
    ceil: bool,
) -> Result<[Along; N]> {
    ranks::<N>(op, x)?;
    for (name, numbers) in [("windows", window), ("strides", stride), ("dilations", dilation)] {
        let range = 1..=i32::MAX as usize;
        let valid = numbers.iter().all(|number| range.contains(number));
        ensure!(valid, Value, op, "requires {name} from 1 to 2^31 - 1, got {numbers:?}");
    }
    let half = (0..N).all(|axis| padding[axis] <= window[axis] / 2);
    ensure!(half, Value, op, "requires padding of at most half the window, got {padding:?} of {window:?}");
    let one = |axis: usize| {
        let size = x.shape().size(x.rank() - N + axis);
        let (window, stride, padding) = (window[axis], stride[axis], padding[axis]);
        let mut along = Along { size, window, stride, dilation: dilation[axis], padding, windows: 0 };
        let padded = size.saturating_add(2 * padding);
        ensure!(
            size > 0 && along.extent() <= padded,
            Shape,
            op,
            "requires a window no larger than the padded input, got {} of {padded} along axis {axis} of {}",
            along.extent(),
            x.shape()
        );
        let room = padded - along.extent();
        along.windows = if ceil { room.div_ceil(stride) } else { room / stride } + 1;
        // A last window must not start in the padding behind the input.
        if ceil && (along.windows - 1).saturating_mul(stride) >= size.saturating_add(padding) {
            along.windows -= 1;
        }
        Ok(along)
    };
    let mut found = [Along { size: 0, window: 1, stride: 1, dilation: 1, padding: 0, windows: 0 }; N];
    for (axis, along) in found.iter_mut().enumerate() {
        *along = one(axis)?;
    }
    Ok(found)
}

/// Checks that there are N axes behind the channels.
fn ranks<const N: usize>(op: &'static str, x: &Tensor) -> Result<()> {
    let fits = [N + 1, N + 2].contains(&x.rank());
    ensure!(fits, Shape, op, "requires an input of {} or {} axes, got {}", N + 1, N + 2, x.shape());
    Ok(())
}

/// The reduction of windows over the last axes.
#[track_caller]
fn reduce(x: &Tensor, kind: Reducer, along: &[Along]) -> Result<Tensor> {
    let lead = x.rank() - along.len();
    let per_axis = |number: fn(&Along) -> usize| -> Axes {
        std::iter::repeat_n(1, lead).chain(along.iter().map(number)).collect()
    };
    let mut padding: SmallVec<[(i64, i64); 4]> = smallvec![(0, 0); lead];
    padding.extend(along.iter().map(|axis| (axis.padding as i64, axis.padding_behind())));
    let window = Window {
        sizes: per_axis(|axis| axis.window),
        strides: per_axis(|axis| axis.stride),
        base_dilations: per_axis(|_| 1),
        window_dilations: per_axis(|axis| axis.dilation),
        padding,
    };
    Ok(Tensor::record(Op::ReduceWindow { kind, window: Arc::new(window) }, &[x.into()])?.swap_remove(0))
}
