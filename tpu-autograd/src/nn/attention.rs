//! Attention of a sequence to its past.

use super::{Dropout, Linear, Module, Visitor, call};
use tpu_core::{DType, Result, Tensor, ensure};
use tpu_ops::{Attention, Generator, scaled_dot_product_attention};

/// Causal self-attention of several heads: `[batch, time, width]` to the same shape. Its layers are
/// `qkv` gives queries, keys and values in this order, `proj` mixes the heads.
#[derive(Clone, Debug)]
pub struct CausalSelfAttention {
    /// Queries, keys and values.
    pub qkv: Linear,
    /// What mixes the heads.
    pub proj: Linear,
    /// Of the result.
    pub dropout: Dropout,
    heads: usize,
}

impl CausalSelfAttention {
    /// Errors unless the heads divide the width.
    pub fn new(width: usize, heads: usize, bias: bool, p: f64, dtype: DType, generator: &Generator) -> Result<Self> {
        ensure!(
            heads > 0 && width.is_multiple_of(heads),
            Value,
            "attention",
            "requires heads that divide the width, got {heads} heads for a width of {width}"
        );
        let qkv = Linear::new(width, 3 * width, bias, dtype, generator)?;
        let proj = Linear::new(width, width, bias, dtype, generator)?;
        Ok(Self { qkv, proj, dropout: Dropout::new(p), heads })
    }
}

impl Module for CausalSelfAttention {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ensure!(x.rank() == 3, Shape, "attention", "requires an input [batch, time, width], got {}", x.shape());
        let [batch, time, width] = [x.sizes()[0], x.sizes()[1], x.sizes()[2]];
        let each = width / self.heads;
        let all = call("qkv", &self.qkv, x)?.reshape([batch, time, 3, self.heads, each])?;
        let part = |at: usize| all.narrow(2, at, 1)?.squeeze(2)?.transpose(1, 2);
        let options = Attention { causal: true, ..Attention::default() };
        let mixed = scaled_dot_product_attention(&part(0)?, &part(1)?, &part(2)?, options)?;
        let joined = mixed.transpose(1, 2)?.reshape([batch, time, width])?;
        self.dropout.forward(&call("proj", &self.proj, &joined)?)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.module("qkv", &self.qkv);
        visitor.module("proj", &self.proj);
    }
}
