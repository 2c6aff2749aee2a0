//! Attention of several heads.

use super::init::{Distribution, xavier};
use super::{Dropout, Linear, Module, Visitor, call, is_training};
use crate::{Param, amp};
use tpu_core::{DType, Result, Tensor, ensure};
use tpu_ops::{Attention, Generator, Pairs, rotary, rotary_angles, scaled_dot_product_attention};

/// Causal self-attention of several heads: `[batch, time, width]` to the same shape. Of its layers `qkv` gives queries, keys
/// and values in this order, `proj` mixes the heads.
#[derive(Clone, Debug)]
pub struct CausalSelfAttention {
    /// Queries, keys and values.
    pub qkv: Linear,
    /// What mixes the heads.
    pub proj: Linear,
    /// Of the result.
    pub dropout: Dropout,
    rotary: Option<f64>,
    heads: usize,
}

impl CausalSelfAttention {
    /// Errors unless the heads divide the width.
    pub fn new(width: usize, heads: usize, bias: bool, p: f64, dtype: DType, generator: &Generator) -> Result<Self> {
        divides(heads, width)?;
        let qkv = Linear::new(width, 3 * width, bias, dtype, generator)?;
        let proj = Linear::new(width, width, bias, dtype, generator)?;
        Ok(Self { qkv, proj, dropout: Dropout::new(p), rotary: None, heads })
    }

    /// The same with queries and keys turned by their positions, so that weights depend on distances:
    /// [`tpu_ops::rotary()`] with pairs of halves and angles of this base, 10000 in the paper.
    pub fn with_rotary(self, base: f64) -> Self {
        Self { rotary: Some(base), ..self }
    }
}

impl Module for CausalSelfAttention {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ensure!(x.rank() == 3, Shape, "attention", "requires an input [batch, time, width], got {}", x.shape());
        let [batch, time, width] = [x.sizes()[0], x.sizes()[1], x.sizes()[2]];
        let each = width / self.heads;
        let all = call("qkv", &self.qkv, x)?.reshape([batch, time, 3, self.heads, each])?;
        let part = |of: &Tensor, at: usize| of.narrow(2, at, 1)?.squeeze(2)?.transpose(1, 2);
        let turned = match self.rotary {
            Some(base) => {
                let positions = x.device().scope(|| Tensor::iota([time, 1, 1], 0, DType::I32))?;
                let (cos, sin) = rotary_angles(&positions, each, base)?;
                // Queries and keys at once, where they are.
                &rotary(&all.narrow(2, 0, 2)?, &cos, &sin, Pairs::Halves)?
            }
            None => &all,
        };
        let options = Attention { causal: true, ..Attention::default() };
        let mixed = scaled_dot_product_attention(&part(turned, 0)?, &part(turned, 1)?, &part(&all, 2)?, options)?;
        let joined = mixed.transpose(1, 2)?.reshape([batch, time, width])?;
        self.dropout.forward(&call("proj", &self.proj, &joined)?)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.module("qkv", &self.qkv);
        visitor.module("proj", &self.proj);
    }
}

/// Attention of queries to keys and values by several heads: `[batch, queries, width]`, `[batch, keys, width]` and the same
/// again, to `[batch, queries, width]`. PyTorch's `nn.MultiheadAttention` with `batch_first=True`, whose weights it takes.
///
/// As a [`Module`] it is self-attention without a mask.
///
/// ```
/// use tpu_autograd::nn::MultiHeadAttention;
/// use tpu_core::{DType, Tensor};
/// use tpu_ops::{Attention, Generator};
/// let attention = MultiHeadAttention::new(8, 2, true, DType::F32, &Generator::new(0))?;
/// let (query, memory) = (Tensor::ones([1, 3, 8], DType::F32)?, Tensor::ones([1, 5, 8], DType::F32)?);
/// assert_eq!(attention.attend(&query, &memory, &memory, Attention::default())?.sizes(), [1, 3, 8]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MultiHeadAttention {
    /// `[3 · width, width]`: of queries, keys and values.
    pub in_proj_weight: Param,
    /// `[3 · width]`
    pub in_proj_bias: Option<Param>,
    /// What mixes the heads.
    pub out_proj: Linear,
    /// Probability with which a weight is dropped in training.
    pub dropout: f64,
    heads: usize,
}

impl MultiHeadAttention {
    /// Of PyTorch's first values: Xavier's uniform weights and no biases yet; no dropout. Errors unless the heads divide the
    /// width.
    pub fn new(width: usize, heads: usize, bias: bool, dtype: DType, generator: &Generator) -> Result<Self> {
        divides(heads, width)?;
        let in_proj_weight = Param::new(xavier([3 * width, width], 1.0, Distribution::Uniform, dtype, generator)?);
        let zeros = |count: usize| -> Result<Option<Param>> {
            if bias { Ok(Some(Param::new(Tensor::zeros([count], dtype)?))) } else { Ok(None) }
        };
        let out_proj = Linear { bias: zeros(width)?, ..Linear::new(width, width, false, dtype, generator)? };
        Ok(Self { in_proj_weight, in_proj_bias: zeros(3 * width)?, out_proj, dropout: 0.0, heads })
    }

    /// The attention. Of `options` the mask is as in [`scaled_dot_product_attention`], so true takes part, unlike in
    /// PyTorch's module; it broadcasts to `[batch, heads, queries, keys]`. The dropout is that of this module.
    ///
    /// Errors on operands that are not of three axes and this width.
    pub fn attend(&self, query: &Tensor, key: &Tensor, value: &Tensor, options: Attention<'_>) -> Result<Tensor> {
        let width = self.in_proj_weight.shape().size(1);
        for x in [query, key, value] {
            let fits = x.rank() == 3 && x.shape().size(2) == width;
            ensure!(fits, Shape, "attention", "requires operands [batch, time, {width}], got {}", x.shape());
        }
        let (weight, bias) = (amp::value(&self.in_proj_weight)?, amp::optional(self.in_proj_bias.as_ref())?);
        let heads = |at: usize, x: &Tensor| {
            let bias = bias.as_ref().map(|bias| bias.narrow(0, at * width, width)).transpose()?;
            let projected = tpu_ops::linear(&amp::cast(x)?, &weight.narrow(0, at * width, width)?, bias.as_ref())?;
            let (batch, time) = (x.sizes()[0], x.sizes()[1]);
            projected.reshape([batch, time, self.heads, width / self.heads])?.transpose(1, 2)
        };
        let dropout = if is_training() { self.dropout } else { 0.0 };
        let options = Attention { dropout, ..options };
        let mixed = scaled_dot_product_attention(&heads(0, query)?, &heads(1, key)?, &heads(2, value)?, options)?;
        call("out_proj", &self.out_proj, &mixed.transpose(1, 2)?.reshape(query.shape())?)
    }
}

impl Module for MultiHeadAttention {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.attend(x, x, x, Attention::default())
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.param("in_proj_weight", &self.in_proj_weight);
        if let Some(bias) = &self.in_proj_bias {
            visitor.param("in_proj_bias", bias);
        }
        visitor.module("out_proj", &self.out_proj);
    }
}

fn divides(heads: usize, width: usize) -> Result<()> {
    ensure!(
        heads > 0 && width.is_multiple_of(heads),
        Value,
        "attention",
        "requires heads that divide the width, got {heads} heads for a width of {width}"
    );
    Ok(())
}
