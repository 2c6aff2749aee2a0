//! A byte-level LSTM: a table of vectors, layers of LSTM, a linear layer. `benches/peers/lstm.py` is the same model in PyTorch,
//! with the same names.

use crate::gpt::{VOCABULARY, next_byte_loss};
use crate::train::Learner;
use tpu_autograd::nn::{Embedding, Linear, Lstm, Module, RecurrentOptions, Visitor, call, evaluating};
use tpu_autograd::no_grad;
use tpu_core::{DType, Result, Tensor, lazy};
use tpu_ops::Generator;

/// The sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Layers.
    pub layers: usize,
    /// Numbers per byte before the first layer.
    pub width: usize,
    /// Hidden numbers of each layer.
    pub hidden: usize,
    /// Dropped between layers in training.
    pub dropout: f64,
}

/// The model: bytes `[batch, time]` to logits `[batch, time, 256]`.
pub struct ByteLstm {
    wte: Embedding,
    lstm: Lstm,
    head: Linear,
}

impl ByteLstm {
    /// With PyTorch's first values.
    pub fn new(config: Config, generator: &Generator) -> Result<Self> {
        let Config { layers, width, hidden, dropout } = config;
        let options = RecurrentOptions { layers, dropout, batch_first: true, ..RecurrentOptions::default() };
        let model = Self {
            wte: Embedding::new(VOCABULARY, width, DType::F32, generator)?,
            lstm: Lstm::new(width, hidden, options, DType::F32, generator)?,
            head: Linear::new(hidden, VOCABULARY, true, DType::F32, generator)?,
        };
        // The weights are a program of their own, so that the first step is like all others.
        lazy::mark_step();
        Ok(model)
    }

    /// The logits of the byte after each of `bytes`, which follow what led to the state, and the state after them.
    pub fn advance(&self, bytes: &Tensor, state: Option<&[Tensor]>) -> Result<(Tensor, Vec<Tensor>)> {
        let (x, state) = self.lstm.run(&call("wte", &self.wte, bytes)?, state)?;
        Ok((call("head", &self.head, &x)?, state))
    }

    /// `count` bytes after `prompt`, drawn one by one. A temperature below 1 prefers what is likely. Each byte costs one step,
    /// whatever went before it.
    pub fn sample(&self, prompt: &[u8], count: usize, temperature: f32, seed: u64) -> Result<Vec<u8>> {
        let one = |byte: u8| Tensor::from_vec(vec![byte], [1, 1]);
        let advance = |byte: u8, state: Option<&[Tensor]>| {
            let (logits, state) = evaluating(|| no_grad(|| self.advance(&one(byte)?, state)))?;
            Ok::<_, tpu_core::Error>((logits.to_dtype(DType::F32)?.to_vec::<f32>()?, state))
        };
        let (first, rest) = prompt.split_first().unwrap_or((&b'\n', &[]));
        let (mut logits, mut state) = advance(*first, None)?;
        for &byte in rest {
            (logits, state) = advance(byte, Some(&state))?;
        }
        let mut text = Vec::with_capacity(count);
        for at in 0..count {
            let byte = crate::sample::drawn(&logits, temperature, seed, at);
            text.push(byte);
            (logits, state) = advance(byte, Some(&state))?;
        }
        Ok(text)
    }
}

impl Module for ByteLstm {
    fn forward(&self, bytes: &Tensor) -> Result<Tensor> {
        Ok(self.advance(bytes, None)?.0)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.module("wte", &self.wte);
        visitor.module("lstm", &self.lstm);
        visitor.module("head", &self.head);
    }
}

impl Learner for ByteLstm {
    type Batch = Tensor;

    fn loss(&self, bytes: &Tensor, dtype: DType) -> Result<Tensor> {
        next_byte_loss(self, bytes, dtype)
    }
}
