//! The cases in burn, on its Flex backend.

use burn::module::Param;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{BatchNorm, BatchNormConfig, Embedding, EmbeddingConfig, GateController, LayerNorm, LayerNormConfig};
use burn::nn::{Linear, LstmConfig, PaddingConfig2d};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::activation::{gelu_approximate, relu};
use burn::tensor::module::{adaptive_avg_pool2d, attention};
use burn::tensor::ops::AttentionModuleOptions;
use peers::measure::{self, Parameters, Work, numbers};
use peers::{BATCHES, CLASSES, Gpt, Lstm, ResNet, VOCABULARY, Weights};
use std::io::{stdin, stdout};

fn main() -> std::io::Result<()> {
    measure::serve(set_up, stdin().lock(), stdout().lock())
}

fn set_up(kind: &str, parameters: &Parameters) -> measure::Result<Work> {
    match kind {
        "matmul" => matmul(parameters),
        "mlp" => mlp(parameters),
        "gpt" => gpt(parameters),
        "resnet" => resnet(parameters),
        "lstm" => lstm(parameters),
        other => Err(format!("requires a known kind, got `{other}`")),
    }
}

/// The elements of a tensor, where they are asked for. Flex has computed them by then in any case.
fn finish<const D: usize>(result: Tensor<D>, read: bool) -> measure::Result<Vec<Vec<f32>>> {
    if !read {
        return Ok(Vec::new());
    }
    result.into_data().try_to_vec::<f32>().map(|values| vec![values]).map_err(|error| format!("{error:?}"))
}

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn indices(values: Vec<i64>, device: &Device) -> Tensor<1, Int> {
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), device)
}

fn matmul(parameters: &Parameters) -> measure::Result<Work> {
    let [m, k, n] = parameters.sizes(["m", "k", "n"])?;
    let (left, right) = parameters.transposed()?;
    let batch = parameters.size_or("batch", 1)?;
    let device = Device::default();
    let operand = |rows: usize, columns: usize, transposed: bool, salt| {
        let shape = if transposed { [batch, columns, rows] } else { [batch, rows, columns] };
        let lies = tensor(numbers(batch * rows * columns, salt).collect(), shape, &device);
        if transposed { lies.swap_dims(1, 2) } else { lies }
    };
    let (a, b) = (operand(m, k, left, 1), operand(k, n, right, 2));
    if batch > 1 {
        return Ok(Box::new(move |read| finish(a.clone().matmul(b.clone()), read)));
    }
    let (a, b) = (a.squeeze_dim::<2>(0), b.squeeze_dim::<2>(0));
    Ok(Box::new(move |read| finish(a.clone().matmul(b.clone()), read)))
}

/// Makes parameters in PyTorch's order, on a device that records for the backward pass.
struct Maker {
    weights: Weights,
    device: Device,
}

impl Maker {
    fn new() -> Self {
        Self { weights: Weights::default(), device: Device::default().autodiff() }
    }

    /// burn's matrices are `[in, out]`; the values are of `[out, in]`.
    fn turned(&self, values: &[f32], inputs: usize) -> Param<Tensor<2>> {
        let outputs = values.len() / inputs;
        let turned = (0..values.len()).map(|at| values[at % outputs * inputs + at / outputs]).collect();
        Param::from_tensor(tensor(turned, [inputs, outputs], &self.device))
    }

    fn zeros(&self, size: usize) -> Param<Tensor<1>> {
        Param::from_tensor(Tensor::zeros([size], &self.device))
    }

    fn linear(&mut self, inputs: usize, outputs: usize, bias: bool) -> Linear {
        let values = self.weights.matrix(outputs, inputs);
        let bias = bias.then(|| {
            self.weights.skip();
            self.zeros(outputs)
        });
        Linear { weight: self.turned(&values, inputs), bias }
    }

    /// A convolution without bias that keeps the size, divided by the stride.
    fn conv(&mut self, inputs: usize, outputs: usize, size: usize, stride: usize) -> Conv2d {
        let values = self.weights.matrix(outputs, inputs * size * size);
        let half = size / 2;
        let config = Conv2dConfig::new([inputs, outputs], [size; 2]).with_stride([stride; 2]).with_bias(false);
        let mut conv = config.with_padding(PaddingConfig2d::Explicit(half, half, half, half)).init(&self.device);
        conv.weight = Param::from_tensor(tensor(values, [outputs, inputs, size, size], &self.device));
        conv
    }

    fn batch_norm(&mut self, size: usize) -> BatchNorm {
        self.weights.skip();
        self.weights.skip();
        BatchNormConfig::new(size).with_epsilon(1e-5).init(&self.device)
    }

    /// A layer whose gates are the quarters of PyTorch's matrices.
    fn lstm(&mut self, inputs: usize, hidden: usize) -> burn::nn::Lstm {
        let (from_inputs, from_hidden) = (self.weights.matrix(4 * hidden, inputs), self.weights.matrix(4 * hidden, hidden));
        self.weights.skip();
        self.weights.skip();
        let linear = |values: &[f32], quarter: usize, inputs: usize| {
            let own = &values[quarter * hidden * inputs..(quarter + 1) * hidden * inputs];
            Linear { weight: self.turned(own, inputs), bias: Some(self.zeros(hidden)) }
        };
        let gate = |quarter| GateController {
            input_transform: linear(&from_inputs, quarter, inputs),
            hidden_transform: linear(&from_hidden, quarter, hidden),
        };
        let mut layer = LstmConfig::new(inputs, hidden, true).init(&self.device);
        (layer.input_gate, layer.forget_gate) = (gate(0), Some(gate(1)));
        (layer.cell_gate, layer.output_gate) = (gate(2), gate(3));
        layer
    }

    fn embedding(&mut self, width: usize) -> Embedding {
        let table = tensor(self.weights.matrix(VOCABULARY, width), [VOCABULARY, width], &self.device);
        let mut embedding = EmbeddingConfig::new(VOCABULARY, width).init(&self.device);
        embedding.weight = Param::from_tensor(table);
        embedding
    }

    fn norm(&mut self, width: usize) -> LayerNorm {
        self.weights.skip();
        self.weights.skip();
        LayerNormConfig::new(width).with_epsilon(1e-5).init(&self.device)
    }
}

/// Tokens that are seen, `[batch, context]`, and those that follow, of every batch.
fn windows(batch: usize, context: usize, device: &Device) -> Vec<(Tensor<2, Int>, Tensor<1, Int>)> {
    let windows = peers::windows(batch, context).into_iter();
    windows.map(|(seen, next)| (indices(seen, device).reshape([batch, context]), indices(next, device))).collect()
}

/// A function that makes one step of training, given the loss of a model on the batch with a number.
fn steps<M: Module + 'static>(
    model: M,
    betas: (f32, f32),
    loss: impl Fn(&M, usize) -> Tensor<1> + 'static,
) -> measure::Result<Work> {
    let settings = AdamWConfig::new().with_beta_1(betas.0).with_beta_2(betas.1);
    let mut adamw = settings.with_epsilon(1e-8).with_weight_decay(0.01).init();
    let (mut model, mut count) = (Some(model), 0);
    Ok(Box::new(move |read| {
        let current = model.take().ok_or("an earlier step failed")?;
        let value = loss(&current, count % BATCHES);
        count += 1;
        let gradients = GradientsParams::from_grads(value.backward(), &current);
        model = Some(adamw.step(1e-3, current, gradients));
        finish(value, read)
    }))
}

#[derive(Module, Debug)]
struct Mlp {
    layers: Vec<Linear>,
}

fn mlp(parameters: &Parameters) -> measure::Result<Work> {
    let [inputs, width, outputs, batch] = parameters.sizes(["inputs", "width", "outputs", "batch"])?;
    let mut maker = Maker::new();
    let sizes = [(inputs, width), (width, width), (width, outputs)];
    let model = Mlp { layers: sizes.into_iter().map(|(from, to)| maker.linear(from, to, true)).collect() };
    let device = maker.device;
    let batches = peers::examples(batch, inputs, outputs).into_iter();
    let batches: Vec<_> = batches
        .map(|examples| (tensor(examples.x, [batch, inputs], &device), indices(examples.labels, &device)))
        .collect();
    let criterion = CrossEntropyLossConfig::new().init(&device);
    steps(model, (0.9, 0.999), move |model, at| {
        let (x, labels) = batches[at].clone();
        let x = relu(model.layers[1].forward(relu(model.layers[0].forward(x))));
        criterion.forward(model.layers[2].forward(x), labels)
    })
}

#[derive(Module, Debug)]
struct Block {
    ln_1: LayerNorm,
    qkv: Linear,
    attn_proj: Linear,
    ln_2: LayerNorm,
    fc: Linear,
    proj: Linear,
}

#[derive(Module, Debug)]
struct Model {
    wte: Embedding,
    blocks: Vec<Block>,
    ln_f: LayerNorm,
    head: Linear,
}

impl Block {
    fn new(maker: &mut Maker, width: usize) -> Self {
        Self {
            ln_1: maker.norm(width),
            qkv: maker.linear(width, 3 * width, true),
            attn_proj: maker.linear(width, width, true),
            ln_2: maker.norm(width),
            fc: maker.linear(width, 4 * width, true),
            proj: maker.linear(4 * width, width, true),
        }
    }

    fn forward(&self, x: Tensor<3>, heads: usize, angles: &(Tensor<4>, Tensor<4>)) -> Tensor<3> {
        let [batch, context, width] = x.dims();
        let qkv = self.qkv.forward(self.ln_1.forward(x.clone()));
        let part = |at: usize| {
            let part = qkv.clone().narrow(2, at * width, width);
            part.reshape([batch, context, heads, width / heads]).swap_dims(1, 2)
        };
        let (q, k) = (rotated(part(0), angles), rotated(part(1), angles));
        let causal = AttentionModuleOptions { is_causal: true, ..AttentionModuleOptions::default() };
        let y = attention(q, k, part(2), None, None, causal);
        let x = x + self.attn_proj.forward(y.swap_dims(1, 2).reshape([batch, context, width]));
        x.clone() + self.proj.forward(gelu_approximate(self.fc.forward(self.ln_2.forward(x))))
    }
}

/// Elements i and i + width/2 of each head turned by the angle of their place.
fn rotated(x: Tensor<4>, (cos, sin): &(Tensor<4>, Tensor<4>)) -> Tensor<4> {
    let half = x.dims()[3] / 2;
    let (a, b) = (x.clone().narrow(3, 0, half), x.narrow(3, half, half));
    let first = a.clone() * cos.clone() - b.clone() * sin.clone();
    Tensor::cat(vec![first, b * cos.clone() + a * sin.clone()], 3)
}

fn gpt(parameters: &Parameters) -> measure::Result<Work> {
    let sizes = Gpt::read(parameters)?;
    let Gpt { layers, width, heads, context, batch } = sizes;
    let mut maker = Maker::new();
    let model = Model {
        wte: maker.embedding(width),
        blocks: (0..layers).map(|_| Block::new(&mut maker, width)).collect(),
        ln_f: maker.norm(width),
        head: maker.linear(width, VOCABULARY, false),
    };
    let device = maker.device;
    let (cos, sin) = sizes.angles();
    let shape = [1, 1, context, width / heads / 2];
    let angles = (tensor(cos, shape, &device), tensor(sin, shape, &device));
    let batches = windows(batch, context, &device);
    let criterion = CrossEntropyLossConfig::new().init(&device);
    steps(model, (0.9, 0.95), move |model, at| {
        let (seen, next) = batches[at].clone();
        let mut x = model.wte.forward(seen);
        for block in &model.blocks {
            x = block.forward(x, heads, &angles);
        }
        let logits = model.head.forward(model.ln_f.forward(x));
        criterion.forward(logits.reshape([batch * context, VOCABULARY]), next)
    })
}

#[derive(Module, Debug)]
struct ConvBlock {
    conv1: Conv2d,
    bn1: BatchNorm,
    conv2: Conv2d,
    bn2: BatchNorm,
    downsample: Option<(Conv2d, BatchNorm)>,
}

impl ConvBlock {
    fn new(maker: &mut Maker, (inputs, outputs, stride): (usize, usize, usize)) -> Self {
        let (conv1, bn1) = (maker.conv(inputs, outputs, 3, stride), maker.batch_norm(outputs));
        let (conv2, bn2) = (maker.conv(outputs, outputs, 3, 1), maker.batch_norm(outputs));
        let changes = stride != 1 || inputs != outputs;
        let downsample = changes.then(|| (maker.conv(inputs, outputs, 1, stride), maker.batch_norm(outputs)));
        Self { conv1, bn1, conv2, bn2, downsample }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let y = relu(self.bn1.forward(self.conv1.forward(x.clone())));
        let y = self.bn2.forward(self.conv2.forward(y));
        let x = match &self.downsample {
            Some((conv, norm)) => norm.forward(conv.forward(x)),
            None => x,
        };
        relu(y + x)
    }
}

#[derive(Module, Debug)]
struct Images {
    conv1: Conv2d,
    bn1: BatchNorm,
    blocks: Vec<ConvBlock>,
    fc: Linear,
}

fn resnet(parameters: &Parameters) -> measure::Result<Work> {
    let sizes = ResNet::read(parameters)?;
    let ResNet { channels, size, width, batch, .. } = sizes;
    let mut maker = Maker::new();
    let model = Images {
        conv1: maker.conv(channels, width, 3, 1),
        bn1: maker.batch_norm(width),
        blocks: sizes.layout().into_iter().map(|layout| ConvBlock::new(&mut maker, layout)).collect(),
        fc: maker.linear(width << 3, CLASSES, true),
    };
    let device = maker.device;
    let shape = [batch, channels, size, size];
    let batches = sizes.examples().into_iter();
    let batches: Vec<_> =
        batches.map(|examples| (tensor(examples.x, shape, &device), indices(examples.labels, &device))).collect();
    let criterion = CrossEntropyLossConfig::new().init(&device);
    steps(model, (0.9, 0.999), move |model, at| {
        let (x, labels) = batches[at].clone();
        let mut x = relu(model.bn1.forward(model.conv1.forward(x)));
        for block in &model.blocks {
            x = block.forward(x);
        }
        let x = adaptive_avg_pool2d(x, [1, 1]).reshape([batch, width << 3]);
        criterion.forward(model.fc.forward(x), labels)
    })
}

#[derive(Module, Debug)]
struct Bytes {
    wte: Embedding,
    layers: Vec<burn::nn::Lstm>,
    head: Linear,
}

fn lstm(parameters: &Parameters) -> measure::Result<Work> {
    let Lstm { layers, width, hidden, context, batch } = Lstm::read(parameters)?;
    let mut maker = Maker::new();
    let model = Bytes {
        wte: maker.embedding(width),
        layers: (0..layers).map(|at| maker.lstm(if at == 0 { width } else { hidden }, hidden)).collect(),
        head: maker.linear(hidden, VOCABULARY, true),
    };
    let device = maker.device;
    let batches = windows(batch, context, &device);
    let criterion = CrossEntropyLossConfig::new().init(&device);
    steps(model, (0.9, 0.95), move |model, at| {
        let (seen, next) = batches[at].clone();
        let mut x = model.wte.forward(seen);
        for layer in &model.layers {
            x = layer.forward(x, None).0;
        }
        criterion.forward(model.head.forward(x).reshape([batch * context, VOCABULARY]), next)
    })
}
