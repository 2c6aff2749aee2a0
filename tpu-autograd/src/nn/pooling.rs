//! Pooling layers.

use super::{Module, Visitor};
use tpu_core::{Result, Tensor};

/// The largest element of each window over N axes.
#[derive(Clone, Copy, Debug)]
pub struct MaxPool<const N: usize> {
    /// Sizes of the window.
    pub window: [usize; N],
    /// Steps.
    pub options: tpu_ops::MaxPool<N>,
}

/// The mean of each window over N axes.
#[derive(Clone, Copy, Debug)]
pub struct AvgPool<const N: usize> {
    /// Sizes of the window.
    pub window: [usize; N],
    /// Steps.
    pub options: tpu_ops::AvgPool<N>,
}

impl<const N: usize> MaxPool<N> {
    /// Windows side by side, PyTorch's default.
    pub fn new(window: [usize; N]) -> Self {
        Self { window, options: tpu_ops::MaxPool::default() }
    }
}

impl<const N: usize> AvgPool<N> {
    /// Windows side by side, PyTorch's default.
    pub fn new(window: [usize; N]) -> Self {
        Self { window, options: tpu_ops::AvgPool::default() }
    }
}

/// Means of as many windows as it says, `None` leaving an axis as it is.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveAvgPool<const N: usize>(pub [Option<usize>; N]);

/// Largest elements of as many windows as it says, `None` leaving an axis as it is.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveMaxPool<const N: usize>(pub [Option<usize>; N]);

macro_rules! pools {
    ($($axes:literal: $max:ident $max_of:ident, $avg:ident $avg_of:ident, $adaptive_avg:ident $adaptive_avg_of:ident,
        $adaptive_max:ident $adaptive_max_of:ident;)*) => {$(
        #[doc = concat!("PyTorch's `nn.", stringify!($max), "`.")]
        pub type $max = MaxPool<$axes>;
        #[doc = concat!("PyTorch's `nn.", stringify!($avg), "`.")]
        pub type $avg = AvgPool<$axes>;
        #[doc = concat!("PyTorch's `nn.", stringify!($adaptive_avg), "`.")]
        pub type $adaptive_avg = AdaptiveAvgPool<$axes>;
        #[doc = concat!("PyTorch's `nn.", stringify!($adaptive_max), "`.")]
        pub type $adaptive_max = AdaptiveMaxPool<$axes>;

        impl Module for MaxPool<$axes> {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                tpu_ops::$max_of(x, self.window, self.options)
            }

            fn visit(&self, _visitor: &mut Visitor<'_>) {}
        }

        impl Module for AvgPool<$axes> {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                tpu_ops::$avg_of(x, self.window, self.options)
            }

            fn visit(&self, _visitor: &mut Visitor<'_>) {}
        }

        impl Module for AdaptiveAvgPool<$axes> {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                tpu_ops::$adaptive_avg_of(x, self.0)
            }

            fn visit(&self, _visitor: &mut Visitor<'_>) {}
        }

        impl Module for AdaptiveMaxPool<$axes> {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                tpu_ops::$adaptive_max_of(x, self.0)
            }

            fn visit(&self, _visitor: &mut Visitor<'_>) {}
        }
    )*};
}

pools! {
    1: MaxPool1d max_pool1d, AvgPool1d avg_pool1d, AdaptiveAvgPool1d adaptive_avg_pool1d,
        AdaptiveMaxPool1d adaptive_max_pool1d;
    2: MaxPool2d max_pool2d, AvgPool2d avg_pool2d, AdaptiveAvgPool2d adaptive_avg_pool2d,
        AdaptiveMaxPool2d adaptive_max_pool2d;
    3: MaxPool3d max_pool3d, AvgPool3d avg_pool3d, AdaptiveAvgPool3d adaptive_avg_pool3d,
        AdaptiveMaxPool3d adaptive_max_pool3d;
}
