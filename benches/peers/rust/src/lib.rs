//! candle's and burn's side of `cargo xtask bench host`, measured by the same code as ours.

#[path = "../../../src/measure/mod.rs"]
pub mod measure;

use measure::{Parameters, Result, integers, numbers};

/// Batches that a training case goes through in turn.
pub const BATCHES: usize = 4;

/// The first weights of a model, parameter by parameter in PyTorch's order.
#[derive(Debug, Default)]
pub struct Weights(u32);

impl Weights {
    /// A matrix of so many outputs and inputs, or a kernel whose inputs are the elements of an output: numbers within ±1/√inputs,
    /// by the place of the parameter.
    pub fn matrix(&mut self, outputs: usize, inputs: usize) -> Vec<f32> {
        let scale = 1.0 / (inputs as f32).sqrt();
        self.0 += 1;
        numbers(outputs * inputs, self.0 - 1).map(|number| number * scale).collect()
    }

    /// A parameter of one dimension, which is made of ones or zeros: it only takes its place.
    pub fn skip(&mut self) {
        self.0 += 1;
    }
}

/// Inputs and labels of a classifier, a row per example.
pub struct Examples {
    /// `[batch, inputs]`
    pub x: Vec<f32>,
    /// `[batch]`
    pub labels: Vec<i64>,
}

/// The batches of a classifier.
pub fn examples(batch: usize, inputs: usize, classes: usize) -> Vec<Examples> {
    let make = |at: u32| Examples {
        x: numbers(batch * inputs, 1000 + at).collect(),
        labels: integers(batch, at, classes as u32).map(i64::from).collect(),
    };
    (0..BATCHES as u32).map(make).collect()
}

/// Different tokens.
pub const VOCABULARY: usize = 256;

/// The tokens that are seen and those that follow, each `[batch, context]`, of every batch.
pub fn windows(batch: usize, context: usize) -> Vec<(Vec<i64>, Vec<i64>)> {
    let make = |at: u32| {
        let all: Vec<i64> = integers(batch * (context + 1), at, VOCABULARY as u32).map(i64::from).collect();
        let rows = || all.chunks(context + 1);
        let seen = rows().flat_map(|row| &row[..context]).copied().collect();
        (seen, rows().flat_map(|row| &row[1..]).copied().collect())
    };
    (0..BATCHES as u32).map(make).collect()
}

/// The sizes of the GPT.
#[derive(Clone, Copy, Debug)]
pub struct Gpt {
    /// Number of blocks.
    pub layers: usize,
    /// Numbers per token between blocks.
    pub width: usize,
    /// Attention heads per block.
    pub heads: usize,
    /// Tokens per sequence.
    pub context: usize,
    /// Sequences.
    pub batch: usize,
}

impl Gpt {
    /// Reads them.
    ///
    /// # Errors
    /// When one is missing.
    pub fn read(parameters: &Parameters) -> Result<Self> {
        let [layers, width, heads] = parameters.sizes(["layers", "width", "heads"])?;
        let [context, batch] = parameters.sizes(["context", "batch"])?;
        Ok(Self { layers, width, heads, context, batch })
    }

    /// Cosines and sines of the rotary positions, each `[context, width of a head / 2]`.
    pub fn angles(&self) -> (Vec<f32>, Vec<f32>) {
        let half = self.width / self.heads / 2;
        let angles = (0..self.context * half).map(|at| {
            let (position, pair) = ((at / half) as f32, (at % half) as f32);
            position * (pair * (-(10_000f32.ln()) / half as f32)).exp()
        });
        angles.map(|angle| (angle.cos(), angle.sin())).unzip()
    }
}

/// Classes of the ResNet.
pub const CLASSES: usize = 10;

/// The sizes of the ResNet.
#[derive(Clone, Copy, Debug)]
pub struct ResNet {
    /// Of an image.
    pub channels: usize,
    /// Of an image, both ways.
    pub size: usize,
    /// Channels of the first stage.
    pub width: usize,
    /// Blocks of each stage.
    pub blocks: usize,
    /// Images.
    pub batch: usize,
}

impl ResNet {
    /// Reads them.
    ///
    /// # Errors
    /// When one is missing.
    pub fn read(parameters: &Parameters) -> Result<Self> {
        let [channels, size, batch] = parameters.sizes(["channels", "size", "batch"])?;
        let [width, blocks] = parameters.sizes(["width", "blocks"])?;
        Ok(Self { channels, size, width, blocks, batch })
    }

    /// Channels in and out and stride of each block.
    pub fn layout(&self) -> Vec<(usize, usize, usize)> {
        let mut layout = Vec::new();
        let mut inputs = self.width;
        for stage in 0..4 {
            for block in 0..self.blocks {
                let outputs = self.width << stage;
                layout.push((inputs, outputs, if stage > 0 && block == 0 { 2 } else { 1 }));
                inputs = outputs;
            }
        }
        layout
    }

    /// The batches.
    pub fn examples(&self) -> Vec<Examples> {
        examples(self.batch, self.channels * self.size * self.size, CLASSES)
    }
}

/// The sizes of the LSTM.
#[derive(Clone, Copy, Debug)]
pub struct Lstm {
    /// Layers.
    pub layers: usize,
    /// Numbers per token before the first layer.
    pub width: usize,
    /// Hidden numbers of each layer.
    pub hidden: usize,
    /// Tokens per sequence.
    pub context: usize,
    /// Sequences.
    pub batch: usize,
}

impl Lstm {
    /// Reads them.
    ///
    /// # Errors
    /// When one is missing.
    pub fn read(parameters: &Parameters) -> Result<Self> {
        let [layers, width, hidden] = parameters.sizes(["layers", "width", "hidden"])?;
        let [context, batch] = parameters.sizes(["context", "batch"])?;
        Ok(Self { layers, width, hidden, context, batch })
    }
}
