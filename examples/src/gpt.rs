//! A small byte-level GPT: pre-norm blocks, causal attention with rotary positions, tanh-form gelu, an output layer of its
//! own without bias. `benches/peers/gpt.py` is the same model in PyTorch, with the same parameter names.
//!
//! Positions are rotary because learned ones have to find out for each place which is the one before it: on Shakespeare
//! a run of five minutes was over before attention had begun to help.

use crate::train::Learner;
use tpu_autograd::amp;
use tpu_autograd::nn::{CausalSelfAttention, Embedding, LayerNorm, Linear, Module, Visitor, call};
use tpu_core::{DType, Result, Tensor, lazy};
use tpu_ops::{Gelu, Generator, cross_entropy, gelu, normal};

/// Number of different bytes.
pub const VOCABULARY: usize = 256;

/// The sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of blocks.
    pub layers: usize,
    /// Numbers per byte between blocks.
    pub width: usize,
    /// Attention heads per block; they divide the width.
    pub heads: usize,
    /// Most bytes that a prediction sees.
    pub context: usize,
}

/// The model: bytes `[batch, time]` to logits `[batch, time, 256]`.
pub struct Gpt {
    /// Its sizes.
    pub config: Config,
    wte: Embedding,
    blocks: Vec<Block>,
    ln_f: LayerNorm,
    head: Linear,
}

impl Gpt {
    /// A model with its first weights: normal with deviation 0.02, those that end in the residual stream smaller by
    /// √(2 layers), biases 0, norms 1.
    pub fn new(config: Config, generator: &Generator) -> Result<Self> {
        let Config { layers, width, .. } = config;
        let model = Self {
            config,
            wte: Embedding::new(VOCABULARY, width, DType::F32, generator)?,
            blocks: (0..layers).map(|_| Block::new(config, generator)).collect::<Result<_>>()?,
            ln_f: LayerNorm::new(width, DType::F32)?,
            head: Linear::new(width, VOCABULARY, false, DType::F32, generator)?,
        };
        for (name, param) in model.named_parameters() {
            if name.ends_with("bias") {
                param.set(Tensor::zeros(param.shape(), DType::F32)?)?;
            } else if !name.contains("ln_") {
                let residual = name.ends_with("proj.weight");
                let std = if residual { 0.02 / (2.0 * layers as f64).sqrt() } else { 0.02 };
                param.set(normal(param.shape(), 0.0, std, DType::F32, Some(generator))?)?;
            }
        }
        // The weights are a program of their own, so that the first step is like all others.
        lazy::mark_step();
        Ok(model)
    }
}

impl Learner for Gpt {
    type Batch = Tensor;

    fn loss(&self, bytes: &Tensor, dtype: DType) -> Result<Tensor> {
        next_byte_loss(self, bytes, dtype)
    }
}

/// Mean cross entropy, in nats per byte, of bytes `[batch, time + 1]`: each is predicted from those before it by a model of bytes
/// `[batch, time]` to logits `[batch, time, 256]`.
pub fn next_byte_loss(model: &impl Module, bytes: &Tensor, dtype: DType) -> Result<Tensor> {
    let (seen, next) = (bytes.i((.., ..-1isize))?, bytes.i((.., 1..))?);
    let logits = amp::autocast(dtype, || model.forward(&seen))?.to_dtype(DType::F32)?;
    cross_entropy(&logits.flatten(0, 1)?, &next.flatten(0, 1)?, Default::default())
}

impl Module for Gpt {
    fn forward(&self, bytes: &Tensor) -> Result<Tensor> {
        let mut x = call("wte", &self.wte, bytes)?;
        for (at, block) in self.blocks.iter().enumerate() {
            x = call(&format!("blocks.{at}"), block, &x)?;
        }
        call("head", &self.head, &call("ln_f", &self.ln_f, &x)?)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.module("wte", &self.wte);
        for (at, block) in self.blocks.iter().enumerate() {
            visitor.module(&format!("blocks.{at}"), block);
        }
        visitor.module("ln_f", &self.ln_f);
        visitor.module("head", &self.head);
    }
}

/// Attention, then a two-layer network, each added to what it reads.
struct Block {
    ln_1: LayerNorm,
    attn: CausalSelfAttention,
    ln_2: LayerNorm,
    mlp: Mlp,
}

impl Block {
    fn new(config: Config, generator: &Generator) -> Result<Self> {
        let Config { width, heads, .. } = config;
        Ok(Self {
            ln_1: LayerNorm::new(width, DType::F32)?,
            attn: CausalSelfAttention::new(width, heads, true, 0.0, DType::F32, generator)?.with_rotary(10_000.0),
            ln_2: LayerNorm::new(width, DType::F32)?,
            mlp: Mlp {
                fc: Linear::new(width, 4 * width, true, DType::F32, generator)?,
                proj: Linear::new(4 * width, width, true, DType::F32, generator)?,
            },
        })
    }
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = x.add(&call("attn", &self.attn, &call("ln_1", &self.ln_1, x)?)?)?;
        x.add(&call("mlp", &self.mlp, &call("ln_2", &self.ln_2, &x)?)?)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.module("ln_1", &self.ln_1);
        visitor.module("attn", &self.attn);
        visitor.module("ln_2", &self.ln_2);
        visitor.module("mlp", &self.mlp);
    }
}

struct Mlp {
    fc: Linear,
    proj: Linear,
}

impl Module for Mlp {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        call("proj", &self.proj, &gelu(&call("fc", &self.fc, x)?, Gelu::Tanh)?)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.module("fc", &self.fc);
        visitor.module("proj", &self.proj);
    }
}
