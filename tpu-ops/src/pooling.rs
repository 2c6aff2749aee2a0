//! Maxima and means of windows.

use crate::composite::widened;
use crate::place::beside;
use crate::require;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use tpu_core::ir::{Axes, Op, Reducer, Window};
use tpu_core::{DType, Result, Tensor, ensure};

/// Steps of [`max_pool2d`]; the default is PyTorch's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxPool2d {
    /// Step of height and width; that of the window if absent.
    pub stride: Option<[usize; 2]>,
    /// What never wins on both sides of height and width, at most half the window.
    pub padding: [usize; 2],
    /// Distance of the window's elements.
    pub dilation: [usize; 2],
    /// Count a last window that is not full, if it starts inside the input or the padding before it.
    pub ceil_mode: bool,
}

impl Default for MaxPool2d {
    fn default() -> Self {
        Self { stride: None, padding: [0, 0], dilation: [1, 1], ceil_mode: false }
    }
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
    let stride = options.stride.unwrap_or(window);
    let along = Tensor::checked(|| {
        let number = x.dtype().is_integer() || require::float("max_pool2d", "an input", x).is_ok();
        ensure!(number, DType, "max_pool2d", "requires an input of floats or integers, got {}", x.dtype());
        geometry("max_pool2d", x, window, stride, options.padding, options.dilation, options.ceil_mode)
    })?;
    reduce(x, Reducer::Max, &along)
}

/// Steps of [`avg_pool2d`]; the default is PyTorch's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AvgPool2d {
    /// Step of height and width; that of the window if absent.
    pub stride: Option<[usize; 2]>,
    /// Zeros on both sides of height and width, at most half the window.
    pub padding: [usize; 2],
    /// Count a last window that is not full, if it starts inside the input or the padding before it.
    pub ceil_mode: bool,
    /// Divide by the size of the window with the padding in it; else by the number of input elements in it.
    pub count_include_pad: bool,
    /// Divide by this instead.
    pub divisor_override: Option<usize>,
}

impl Default for AvgPool2d {
    fn default() -> Self {
        Self { stride: None, padding: [0, 0], ceil_mode: false, count_include_pad: true, divisor_override: None }
    }
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
    let stride = options.stride.unwrap_or(window);
    let along = Tensor::checked(|| {
        require::float("avg_pool2d", "an input", x)?;
        let divisor = options.divisor_override;
        ensure!(divisor != Some(0), Value, "avg_pool2d", "requires a divisor of at least 1, got 0");
        geometry("avg_pool2d", x, window, stride, options.padding, [1, 1], options.ceil_mode)
    })?;
    let sums = reduce(&widened(x)?, Reducer::Sum, &along)?;
    let dtype = sums.dtype();
    let mean = match options.divisor_override {
        Some(divisor) => sums.div(divisor as f64)?,
        None => {
            let full = along.iter().all(|axis| axis.always_full(options.count_include_pad));
            if full {
                sums.div(window[0] as f64 * window[1] as f64)?
            } else {
                let padded = options.count_include_pad;
                let (rows, columns) = (along[0].counts(x, padded, dtype)?, along[1].counts(x, padded, dtype)?);
                sums.div(&rows.unsqueeze(-1)?.mul(&columns)?)?
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

/// Checks the operands of a pooling; gives the windows along height and width.
fn geometry(
    op: &'static str,
    x: &Tensor,
    window: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    ceil: bool,
) -> Result<[Along; 2]> {
    ensure!(matches!(x.rank(), 3 | 4), Shape, op, "requires an input of 3 or 4 axes, got {}", x.shape());
    for (name, numbers) in [("windows", window), ("strides", stride), ("dilations", dilation)] {
        let range = 1..=i32::MAX as usize;
        let valid = numbers.iter().all(|number| range.contains(number));
        ensure!(valid, Value, op, "requires {name} from 1 to 2^31 - 1, got {numbers:?}");
    }
    let half = (0..2).all(|axis| padding[axis] <= window[axis] / 2);
    ensure!(half, Value, op, "requires padding of at most half the window, got {padding:?} of {window:?}");
    let one = |axis: usize| {
        let size = x.shape().size(x.rank() - 2 + axis);
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
    Ok([one(0)?, one(1)?])
}

/// The reduction of windows over the last two axes.
#[track_caller]
fn reduce(x: &Tensor, kind: Reducer, along: &[Along; 2]) -> Result<Tensor> {
    let lead = x.rank() - 2;
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
