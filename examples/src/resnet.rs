//! ResNet-18 for small images (He et al.: *Deep residual learning for image recognition*, 2015): a first convolution of 3 by 3
//! instead of 7 by 7 and no pooling after it. `benches/peers/resnet.py` is the same model in PyTorch; names are torchvision's.

use crate::images::{CLASSES, Labelled, class_loss};
use crate::train::Learner;
use tpu_autograd::nn::{BatchNorm2d, Conv2d, Conv2dOptions, Linear, Module, Visitor, call};
use tpu_core::{DType, Result, Tensor, lazy};
use tpu_ops::{Generator, adaptive_avg_pool2d, relu};

/// The sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Channels of an image.
    pub inputs: usize,
    /// Channels of the first stage; each of the three others doubles them.
    pub width: usize,
    /// Blocks of each stage: two in ResNet-18.
    pub blocks: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { inputs: 1, width: 64, blocks: 2 }
    }
}

/// Images `[batch, channels, side, side]` to logits `[batch, 10]`.
pub struct ResNet {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    layers: Vec<Vec<Block>>,
    fc: Linear,
}

/// A convolution of 3 by 3 that keeps the size, divided by the stride, or of 1 by 1.
fn conv(inputs: usize, outputs: usize, kernel: usize, stride: usize, generator: &Generator) -> Result<Conv2d> {
    let padding = [kernel / 2; 2];
    let options = Conv2dOptions { stride: [stride; 2], padding, bias: false, ..Conv2dOptions::default() };
    Conv2d::new(inputs, outputs, [kernel; 2], options, DType::F32, generator)
}

impl ResNet {
    /// With PyTorch's first values of the layers.
    pub fn new(config: Config, generator: &Generator) -> Result<Self> {
        let Config { inputs, width, blocks } = config;
        let mut layers = Vec::new();
        let mut channels = width;
        for stage in 0..4 {
            let outputs = width << stage;
            let mut layer = Vec::new();
            for block in 0..blocks {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                layer.push(Block::new(channels, outputs, stride, generator)?);
                channels = outputs;
            }
            layers.push(layer);
        }
        let model = Self {
            conv1: conv(inputs, width, 3, 1, generator)?,
            bn1: BatchNorm2d::new(width, DType::F32)?,
            layers,
            fc: Linear::new(channels, CLASSES, true, DType::F32, generator)?,
        };
        // The weights are a program of their own, so that the first step is like all others.
        lazy::mark_step();
        Ok(model)
    }
}

impl Module for ResNet {
    fn forward(&self, images: &Tensor) -> Result<Tensor> {
        let mut x = relu(&call("bn1", &self.bn1, &call("conv1", &self.conv1, images)?)?)?;
        for (stage, layer) in self.layers.iter().enumerate() {
            for (at, block) in layer.iter().enumerate() {
                x = call(&format!("layer{}.{at}", stage + 1), block, &x)?;
            }
        }
        call("fc", &self.fc, &adaptive_avg_pool2d(&x, [Some(1), Some(1)])?.flatten(1, -1)?)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.module("conv1", &self.conv1);
        visitor.module("bn1", &self.bn1);
        for (stage, layer) in self.layers.iter().enumerate() {
            for (at, block) in layer.iter().enumerate() {
                visitor.module(&format!("layer{}.{at}", stage + 1), block);
            }
        }
        visitor.module("fc", &self.fc);
    }
}

impl Learner for ResNet {
    type Batch = Labelled;

    fn loss(&self, batch: &Labelled, dtype: DType) -> Result<Tensor> {
        class_loss(self, batch, dtype)
    }
}

/// Two convolutions, added to what they read, which goes through a convolution of 1 by 1 where sizes change.
struct Block {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    conv2: Conv2d,
    bn2: BatchNorm2d,
    downsample: Option<(Conv2d, BatchNorm2d)>,
}

impl Block {
    fn new(inputs: usize, outputs: usize, stride: usize, generator: &Generator) -> Result<Self> {
        let norm = || BatchNorm2d::new(outputs, DType::F32);
        let downsample = match stride != 1 || inputs != outputs {
            true => Some((conv(inputs, outputs, 1, stride, generator)?, norm()?)),
            false => None,
        };
        Ok(Self {
            conv1: conv(inputs, outputs, 3, stride, generator)?,
            bn1: norm()?,
            conv2: conv(outputs, outputs, 3, 1, generator)?,
            bn2: norm()?,
            downsample,
        })
    }
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = relu(&call("bn1", &self.bn1, &call("conv1", &self.conv1, x)?)?)?;
        let y = call("bn2", &self.bn2, &call("conv2", &self.conv2, &y)?)?;
        match &self.downsample {
            Some((conv, norm)) => relu(&y.add(&call("downsample.1", norm, &call("downsample.0", conv, x)?)?)?),
            None => relu(&y.add(x)?),
        }
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.module("conv1", &self.conv1);
        visitor.module("bn1", &self.bn1);
        visitor.module("conv2", &self.conv2);
        visitor.module("bn2", &self.bn2);
        if let Some((conv, norm)) = &self.downsample {
            visitor.module("downsample.0", conv);
            visitor.module("downsample.1", norm);
        }
    }
}
