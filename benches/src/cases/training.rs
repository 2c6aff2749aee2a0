//! Steps of training: forward, backward and AdamW; each gives the loss before it.

use super::{Result, Run, tensor};
use crate::measure::{Parameters, integers};
use examples::gpt::{self, Gpt, VOCABULARY};
use examples::images::CLASSES;
use examples::lstm::{self, ByteLstm};
use examples::resnet::{self, ResNet};
use examples::train::{Learner, Trainer};
use tpu_autograd::nn::{Function, Linear, Module, Sequential};
use tpu_autograd::optim::{AdamW, AdamWOptions, Optimizer};
use tpu_autograd::{Backward, Param};
use tpu_core::{DType, Tensor, lazy};
use tpu_ops::{Generator, cross_entropy, relu};

/// Batches that a case goes through in turn.
const BATCHES: usize = 4;

/// First weights that every library can make: numbers within ±1/√(elements of an output), by the place of the parameter among
/// all; zeros for biases; the ones of norms stay.
fn weigh(parameters: &[(String, Param)]) -> Result<()> {
    for (at, (name, param)) in parameters.iter().enumerate() {
        let shape = param.shape();
        if shape.rank() > 1 {
            let inner: usize = (1..shape.rank()).map(|axis| shape.size(axis)).product();
            param.set(tensor(shape, at as u32, 1.0 / (inner as f32).sqrt(), DType::F32)?)?;
        } else if name.contains("bias") {
            param.set(Tensor::zeros(shape, DType::F32)?)?;
        }
    }
    // The weights are a program of their own, so that the first step is like all others.
    lazy::mark_step();
    Ok(())
}

/// The GPT of `examples/`, on bytes.
pub(super) fn gpt(parameters: &Parameters) -> Result<Run> {
    let [layers, width, heads] = parameters.sizes(["layers", "width", "heads"])?;
    let [context, batch] = parameters.sizes(["context", "batch"])?;
    let model = Gpt::new(gpt::Config { layers, width, heads, context }, &Generator::new(1))?;
    next_byte(model, batch, context)
}

/// The LSTM of `examples/`, on bytes.
pub(super) fn lstm(parameters: &Parameters) -> Result<Run> {
    let [layers, width, hidden] = parameters.sizes(["layers", "width", "hidden"])?;
    let [context, batch] = parameters.sizes(["context", "batch"])?;
    let model = ByteLstm::new(lstm::Config { layers, width, hidden, dropout: 0.0 }, &Generator::new(1))?;
    next_byte(model, batch, context)
}

/// Trains a model on windows of bytes.
fn next_byte(model: impl Learner<Batch = Tensor> + 'static, batch: usize, context: usize) -> Result<Run> {
    weigh(&model.named_parameters())?;
    let mut trainer = Trainer::new(model, DType::F32)?;
    let batches = (0..BATCHES as u32).map(|at| {
        let bytes = integers(batch * (context + 1), at, VOCABULARY as u32).map(|byte| byte as u8).collect();
        Tensor::from_vec(bytes, [batch, context + 1])
    });
    let batches = batches.collect::<tpu_core::Result<Vec<Tensor>>>()?;
    Ok(Box::new(move || {
        let bytes = &batches[trainer.step as usize % BATCHES];
        Ok(vec![trainer.step(bytes, 1e-3)?])
    }))
}

/// The ResNet of `examples/`, on images of any channels.
pub(super) fn resnet(parameters: &Parameters) -> Result<Run> {
    let [channels, size, batch] = parameters.sizes(["channels", "size", "batch"])?;
    let [width, blocks] = parameters.sizes(["width", "blocks"])?;
    let model = ResNet::new(resnet::Config { inputs: channels, width, blocks }, &Generator::new(1))?;
    let x = |salt| tensor([batch, channels, size, size], salt, 1.0, DType::F32);
    classifier(model, batch, CLASSES, x)
}

/// Three linear layers with relu between them, as many classes as outputs.
pub(super) fn mlp(parameters: &Parameters) -> Result<Run> {
    let [inputs, width] = parameters.sizes(["inputs", "width"])?;
    let [outputs, batch] = parameters.sizes(["outputs", "batch"])?;
    let generator = Generator::new(1);
    let linear = |from, to| Linear::new(from, to, true, DType::F32, &generator);
    let model = Sequential::new()
        .push(linear(inputs, width)?)
        .push(Function(relu))
        .push(linear(width, width)?)
        .push(Function(relu))
        .push(linear(width, outputs)?);
    let x = |salt| tensor([batch, inputs], salt, 1.0, DType::F32);
    classifier(model, batch, outputs, x)
}

/// Trains any model of `[batch, …]` to `[batch, classes]` on batches that `input` makes.
fn classifier(
    model: impl Module + 'static,
    batch: usize,
    classes: usize,
    input: impl Fn(u32) -> Result<Tensor>,
) -> Result<Run> {
    weigh(&model.named_parameters())?;
    let mut optimizer = AdamW::new(model.named_parameters(), AdamWOptions::default())?;
    let batches = (0..BATCHES as u32).map(|at| {
        let labels = integers(batch, at, classes as u32).map(i64::from).collect();
        Ok((input(1000 + at)?, Tensor::from_vec(labels, batch)?))
    });
    let batches = batches.collect::<Result<Vec<_>>>()?;
    let mut steps = 0;
    Ok(Box::new(move || {
        let (x, labels) = &batches[steps % BATCHES];
        steps += 1;
        optimizer.zero_grad();
        let loss = cross_entropy(&model.forward(x)?, labels, Default::default())?;
        loss.backward()?;
        // Forgotten before the step ends, gradients are no results of its program.
        optimizer.update(None)?;
        optimizer.zero_grad();
        lazy::mark_step();
        Ok(vec![loss.detach()])
    }))
}
