//! The cases in candle.

use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::rnn::{LSTM, LSTMConfig, RNN};
use candle_nn::{AdamW, BatchNorm, Conv2d, Conv2dConfig, Module, Optimizer, ParamsAdamW, VarBuilder};
use candle_nn::{loss::cross_entropy, ops, rotary_emb::rope_slow};
use peers::measure::{self, Parameters, Work, numbers};
use peers::{BATCHES, CLASSES, Gpt, Lstm, ResNet, VOCABULARY, Weights};
use std::collections::HashMap;
use std::io::{stdin, stdout};

const CPU: Device = Device::Cpu;

fn main() -> std::io::Result<()> {
    measure::serve(set_up, stdin().lock(), stdout().lock())
}

fn set_up(kind: &str, parameters: &Parameters) -> measure::Result<Work> {
    let mut run = match kind {
        "matmul" => matmul(parameters)?,
        "mlp" => mlp(parameters)?,
        "gpt" => gpt(parameters)?,
        "resnet" => resnet(parameters)?,
        "lstm" => lstm(parameters)?,
        other => return Err(format!("requires a known kind, got `{other}`")),
    };
    Ok(Box::new(move |read| {
        let result = run().map_err(text)?;
        if !read {
            return Ok(Vec::new());
        }
        let values = result.flatten_all().and_then(|all| all.to_dtype(DType::F32)?.to_vec1()).map_err(text)?;
        Ok(vec![values])
    }))
}

fn text(error: candle_core::Error) -> String {
    error.to_string()
}

type Run = Box<dyn FnMut() -> Result<Tensor>>;

fn matmul(parameters: &Parameters) -> measure::Result<Run> {
    let [m, k, n] = parameters.sizes(["m", "k", "n"])?;
    let (left, right) = parameters.transposed()?;
    let batch = parameters.size_or("batch", 1)?;
    let operand = |rows: usize, columns: usize, transposed: bool, salt| {
        let lies = if transposed { [columns, rows] } else { [rows, columns] };
        let shape: Vec<usize> = (batch > 1).then_some(batch).into_iter().chain(lies).collect();
        let all = numbers(batch * rows * columns, salt).collect::<Vec<f32>>();
        let lies = Tensor::from_vec(all, shape, &CPU)?;
        if transposed { lies.t() } else { Ok(lies) }
    };
    let (a, b) = (operand(m, k, left, 1).map_err(text)?, operand(k, n, right, 2).map_err(text)?);
    Ok(Box::new(move || a.matmul(&b)))
}

/// Variables of a model in the order of their making.
#[derive(Default)]
struct Model {
    weights: Weights,
    vars: Vec<Var>,
}

impl Model {
    fn matrix(&mut self, outputs: usize, inputs: usize) -> Result<Tensor> {
        let values = self.weights.matrix(outputs, inputs);
        self.add(Var::from_vec(values, (outputs, inputs), &CPU)?)
    }

    fn conv(&mut self, inputs: usize, outputs: usize, size: usize, stride: usize) -> Result<Conv2d> {
        let values = self.weights.matrix(outputs, inputs * size * size);
        let weight = self.add(Var::from_vec(values, (outputs, inputs, size, size), &CPU)?)?;
        Ok(Conv2d::new(weight, None, Conv2dConfig { padding: size / 2, stride, ..Conv2dConfig::default() }))
    }

    fn batch_norm(&mut self, size: usize) -> Result<BatchNorm> {
        let constant = |value: f32| Tensor::full(value, size, &CPU);
        let (weight, bias) = (self.constant(size, 1.0)?, self.constant(size, 0.0)?);
        BatchNorm::new(size, constant(0.0)?, constant(1.0)?, weight, bias, 1e-5)
    }

    fn constant(&mut self, size: usize, value: f32) -> Result<Tensor> {
        self.weights.skip();
        self.add(Var::from_vec(vec![value; size], size, &CPU)?)
    }

    fn add(&mut self, var: Var) -> Result<Tensor> {
        self.vars.push(var.clone());
        Ok(var.as_tensor().clone())
    }

    fn linear(&mut self, inputs: usize, outputs: usize) -> Result<Linear> {
        Ok(Linear { weight: self.matrix(outputs, inputs)?, bias: Some(self.constant(outputs, 0.0)?) })
    }

    fn norm(&mut self, width: usize) -> Result<Norm> {
        Ok(Norm { weight: self.constant(width, 1.0)?, bias: self.constant(width, 0.0)? })
    }

    /// A function that makes one step, given the loss of the batch with a number.
    fn steps(self, betas: (f64, f64), loss: impl Fn(usize) -> Result<Tensor> + 'static) -> Result<Run> {
        let settings = ParamsAdamW { beta1: betas.0, beta2: betas.1, ..ParamsAdamW::default() };
        let mut adamw = AdamW::new(self.vars, settings)?;
        let mut count = 0;
        Ok(Box::new(move || {
            let loss = loss(count % BATCHES)?;
            count += 1;
            adamw.backward_step(&loss)?;
            loss.detach().reshape(1)
        }))
    }
}

struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// As `candle_nn::Linear`, which makes one product of all leading axes too.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (width, weight) = (x.dim(D::Minus1)?, self.weight.t()?);
        let mut shape = x.dims().to_vec();
        shape[x.rank() - 1] = self.weight.dim(0)?;
        let y = x.reshape(((), width))?.matmul(&weight)?.reshape(shape)?;
        match &self.bias {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }
}

struct Norm {
    weight: Tensor,
    bias: Tensor,
}

impl Norm {
    /// `candle_nn::LayerNorm` has no derivative.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::layer_norm_slow(x, &self.weight, &self.bias, 1e-5)
    }
}

fn labels(values: &[i64]) -> Result<Tensor> {
    Tensor::from_vec(values.iter().map(|&value| value as u32).collect(), values.len(), &CPU)
}

fn mlp(parameters: &Parameters) -> measure::Result<Run> {
    let [inputs, width, outputs, batch] = parameters.sizes(["inputs", "width", "outputs", "batch"])?;
    let make = || -> Result<Run> {
        let mut model = Model::default();
        let layers = [model.linear(inputs, width)?, model.linear(width, width)?, model.linear(width, outputs)?];
        let batches = peers::examples(batch, inputs, outputs);
        let batches = batches
            .into_iter()
            .map(|examples| Ok((Tensor::from_vec(examples.x, (batch, inputs), &CPU)?, labels(&examples.labels)?)));
        let batches = batches.collect::<Result<Vec<_>>>()?;
        model.steps((0.9, 0.999), move |at| {
            let (x, labels) = &batches[at];
            let hidden = layers[1].forward(&layers[0].forward(x)?.relu()?)?.relu()?;
            cross_entropy(&layers[2].forward(&hidden)?, labels)
        })
    };
    make().map_err(text)
}

struct Block {
    ln_1: Norm,
    qkv: Linear,
    attn_proj: Linear,
    ln_2: Norm,
    fc: Linear,
    proj: Linear,
}

impl Block {
    fn new(model: &mut Model, width: usize) -> Result<Self> {
        Ok(Self {
            ln_1: model.norm(width)?,
            qkv: model.linear(width, 3 * width)?,
            attn_proj: model.linear(width, width)?,
            ln_2: model.norm(width)?,
            fc: model.linear(width, 4 * width)?,
            proj: model.linear(4 * width, width)?,
        })
    }

    fn forward(&self, x: &Tensor, heads: usize, (cos, sin): &(Tensor, Tensor), mask: &Tensor) -> Result<Tensor> {
        let (batch, context, width) = x.dims3()?;
        let qkv = self.qkv.forward(&self.ln_1.forward(x)?)?.reshape((batch, context, 3, heads, width / heads))?;
        let part = |at: usize| qkv.narrow(2, at, 1)?.squeeze(2)?.transpose(1, 2)?.contiguous();
        let (q, k, v) = (rope_slow(&part(0)?, cos, sin)?, rope_slow(&part(1)?, cos, sin)?, part(2)?);
        let scores = (q.matmul(&k.t()?)? * (1.0 / ((width / heads) as f64).sqrt()))?.broadcast_add(mask)?;
        let y = ops::softmax(&scores, D::Minus1)?.matmul(&v)?;
        let x = (x + self.attn_proj.forward(&y.transpose(1, 2)?.reshape((batch, context, width))?)?)?;
        let y = self.proj.forward(&self.fc.forward(&self.ln_2.forward(&x)?)?.gelu()?)?;
        x + y
    }
}

fn gpt(parameters: &Parameters) -> measure::Result<Run> {
    let sizes = Gpt::read(parameters)?;
    let Gpt { layers, width, heads, context, batch } = sizes;
    let make = || -> Result<Run> {
        let mut model = Model::default();
        let wte = model.matrix(VOCABULARY, width)?;
        let blocks = (0..layers).map(|_| Block::new(&mut model, width)).collect::<Result<Vec<_>>>()?;
        let ln_f = model.norm(width)?;
        let head = Linear { weight: model.matrix(VOCABULARY, width)?, bias: None };
        let (cos, sin) = sizes.angles();
        let half = width / heads / 2;
        let angles = (Tensor::from_vec(cos, (context, half), &CPU)?, Tensor::from_vec(sin, (context, half), &CPU)?);
        let seen = |at: usize| if at % context <= at / context { 0.0 } else { f32::NEG_INFINITY };
        let mask = Tensor::from_vec((0..context * context).map(seen).collect::<Vec<_>>(), (context, context), &CPU)?;
        let batches = peers::windows(batch, context);
        let batches = batches.iter().map(|(seen, next)| Ok((labels(seen)?, labels(next)?)));
        let batches = batches.collect::<Result<Vec<_>>>()?;
        model.steps((0.9, 0.95), move |at| {
            let (seen, next) = &batches[at];
            let mut x = wte.index_select(seen, 0)?.reshape((batch, context, width))?;
            for block in &blocks {
                x = block.forward(&x, heads, &angles, &mask)?;
            }
            let logits = head.forward(&ln_f.forward(&x)?)?;
            cross_entropy(&logits.reshape((batch * context, VOCABULARY))?, next)
        })
    };
    make().map_err(text)
}

struct ConvBlock {
    conv1: Conv2d,
    bn1: BatchNorm,
    conv2: Conv2d,
    bn2: BatchNorm,
    downsample: Option<(Conv2d, BatchNorm)>,
}

impl ConvBlock {
    fn new(model: &mut Model, (inputs, outputs, stride): (usize, usize, usize)) -> Result<Self> {
        Ok(Self {
            conv1: model.conv(inputs, outputs, 3, stride)?,
            bn1: model.batch_norm(outputs)?,
            conv2: model.conv(outputs, outputs, 3, 1)?,
            bn2: model.batch_norm(outputs)?,
            downsample: match stride != 1 || inputs != outputs {
                true => Some((model.conv(inputs, outputs, 1, stride)?, model.batch_norm(outputs)?)),
                false => None,
            },
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.bn1.forward_train(&self.conv1.forward(x)?)?.relu()?;
        let y = self.bn2.forward_train(&self.conv2.forward(&y)?)?;
        match &self.downsample {
            Some((conv, norm)) => (y + norm.forward_train(&conv.forward(x)?)?)?.relu(),
            None => (y + x)?.relu(),
        }
    }
}

fn resnet(parameters: &Parameters) -> measure::Result<Run> {
    let sizes = ResNet::read(parameters)?;
    let ResNet { channels, size, width, batch, .. } = sizes;
    let make = || -> Result<Run> {
        let mut model = Model::default();
        let (conv1, bn1) = (model.conv(channels, width, 3, 1)?, model.batch_norm(width)?);
        let blocks = sizes.layout().into_iter().map(|layout| ConvBlock::new(&mut model, layout));
        let blocks = blocks.collect::<Result<Vec<_>>>()?;
        let fc = model.linear(width << 3, CLASSES)?;
        let batches = sizes.examples().into_iter().map(|examples| {
            Ok((Tensor::from_vec(examples.x, (batch, channels, size, size), &CPU)?, labels(&examples.labels)?))
        });
        let batches = batches.collect::<Result<Vec<_>>>()?;
        model.steps((0.9, 0.999), move |at| {
            let (x, labels) = &batches[at];
            let mut x = bn1.forward_train(&conv1.forward(x)?)?.relu()?;
            for block in &blocks {
                x = block.forward(&x)?;
            }
            cross_entropy(&fc.forward(&x.mean((2, 3))?)?, labels)
        })
    };
    make().map_err(text)
}

/// A layer of candle's own, whose variables are ours.
fn lstm_layer(model: &mut Model, at: usize, inputs: usize, hidden: usize) -> Result<LSTM> {
    let variables = HashMap::from([
        (format!("weight_ih_l{at}"), model.matrix(4 * hidden, inputs)?),
        (format!("weight_hh_l{at}"), model.matrix(4 * hidden, hidden)?),
        (format!("bias_ih_l{at}"), model.constant(4 * hidden, 0.0)?),
        (format!("bias_hh_l{at}"), model.constant(4 * hidden, 0.0)?),
    ]);
    let config = LSTMConfig { layer_idx: at, ..LSTMConfig::default() };
    LSTM::new(inputs, hidden, config, VarBuilder::from_tensors(variables, DType::F32, &CPU))
}

fn lstm(parameters: &Parameters) -> measure::Result<Run> {
    let Lstm { layers, width, hidden, context, batch } = Lstm::read(parameters)?;
    let make = || -> Result<Run> {
        let mut model = Model::default();
        let wte = model.matrix(VOCABULARY, width)?;
        let layers = (0..layers).map(|at| lstm_layer(&mut model, at, if at == 0 { width } else { hidden }, hidden));
        let layers = layers.collect::<Result<Vec<_>>>()?;
        let head = model.linear(hidden, VOCABULARY)?;
        let batches = peers::windows(batch, context);
        let batches = batches.iter().map(|(seen, next)| Ok((labels(seen)?, labels(next)?)));
        let batches = batches.collect::<Result<Vec<_>>>()?;
        model.steps((0.9, 0.95), move |at| {
            let (seen, next) = &batches[at];
            let mut x = wte.index_select(seen, 0)?.reshape((batch, context, width))?;
            for layer in &layers {
                x = layer.states_to_tensor(&layer.seq(&x)?)?;
            }
            cross_entropy(&head.forward(&x)?.reshape((batch * context, VOCABULARY))?, next)
        })
    };
    make().map_err(text)
}
