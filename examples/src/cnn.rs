//! A small convolutional network for digits. `benches/peers/cnn.py` is the same model in PyTorch, with the same names.

use crate::images::{CLASSES, Labelled, class_loss};
use crate::train::Learner;
use tpu_autograd::nn::{BatchNorm2d, Conv2d, Conv2dOptions, Linear, Module, Visitor, call};
use tpu_core::{DType, Result, Tensor, lazy};
use tpu_ops::{Generator, MaxPool2d, max_pool2d, relu};

/// The sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Pixels of height and width; a multiple of 4.
    pub side: usize,
    /// Channels after the first convolution; the second doubles them.
    pub channels: usize,
    /// Numbers before the classes.
    pub hidden: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { side: 28, channels: 32, hidden: 128 }
    }
}

/// Images `[batch, 1, side, side]` to logits `[batch, 10]`: twice a convolution of 3 by 3, batch norm, relu and the maxima of 2 by
/// 2, then two linear layers.
pub struct Cnn {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    conv2: Conv2d,
    bn2: BatchNorm2d,
    fc1: Linear,
    fc2: Linear,
}

impl Cnn {
    /// With PyTorch's first values.
    pub fn new(config: Config, generator: &Generator) -> Result<Self> {
        let Config { side, channels, hidden } = config;
        let options = Conv2dOptions { padding: [1, 1], bias: false, ..Conv2dOptions::default() };
        let field = (side / 4) * (side / 4);
        let model = Self {
            conv1: Conv2d::new(1, channels, [3, 3], options, DType::F32, generator)?,
            bn1: BatchNorm2d::new(channels, DType::F32)?,
            conv2: Conv2d::new(channels, 2 * channels, [3, 3], options, DType::F32, generator)?,
            bn2: BatchNorm2d::new(2 * channels, DType::F32)?,
            fc1: Linear::new(2 * channels * field, hidden, true, DType::F32, generator)?,
            fc2: Linear::new(hidden, CLASSES, true, DType::F32, generator)?,
        };
        // The weights are a program of their own, so that the first step is like all others.
        lazy::mark_step();
        Ok(model)
    }
}

impl Module for Cnn {
    fn forward(&self, images: &Tensor) -> Result<Tensor> {
        let halved = |x: &Tensor| max_pool2d(x, [2, 2], MaxPool2d::default());
        let x = halved(&relu(&call("bn1", &self.bn1, &call("conv1", &self.conv1, images)?)?)?)?;
        let x = halved(&relu(&call("bn2", &self.bn2, &call("conv2", &self.conv2, &x)?)?)?)?;
        call("fc2", &self.fc2, &relu(&call("fc1", &self.fc1, &x.flatten(1, -1)?)?)?)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.module("conv1", &self.conv1);
        visitor.module("bn1", &self.bn1);
        visitor.module("conv2", &self.conv2);
        visitor.module("bn2", &self.bn2);
        visitor.module("fc1", &self.fc1);
        visitor.module("fc2", &self.fc2);
    }
}

impl Learner for Cnn {
    type Batch = Labelled;

    fn loss(&self, batch: &Labelled, dtype: DType) -> Result<Tensor> {
        class_loss(self, batch, dtype)
    }
}
