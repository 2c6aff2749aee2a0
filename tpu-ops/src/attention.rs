//! Attention.

use crate::composite::{accumulator, attributes};
use crate::{Generator, dropout, require};
use smallvec::SmallVec;
use tpu_core::ir::{Attribute, Axes, DotDims, Precision};
use tpu_core::{DType, Result, Shape, Tensor, ensure, lazy};

/// How [`scaled_dot_product_attention`] weighs; the default is PyTorch's: no mask, scale 1 / √width.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attention<'a> {
    /// Broadcasts to `[…, heads, queries, keys]`. Bool: true takes part. Of the queries' dtype: added to the scores.
    pub mask: Option<&'a Tensor>,
    /// Query i sees keys 0 to i only. May be combined with a mask, unlike in PyTorch.
    pub causal: bool,
    /// Factor of the scores.
    pub scale: Option<f64>,
    /// Probability with which a weight is zero, the others divided by what remains. Not only in training: as in PyTorch, that
    /// is for the caller to say.
    pub dropout: f64,
    /// Where random numbers come from, if not from the [current](Generator::current) one.
    pub generator: Option<&'a Generator>,
}

/// softmax(scale · q kᵀ + mask) v. PyTorch's `scaled_dot_product_attention`, with `enable_gqa` where heads differ.
///
/// `query`: `[…, heads, queries, width]`; `key`: `[…, kv heads, keys, width]`; `value`: `[…, kv heads, keys, out]`; result
/// `[…, heads, queries, out]`. Heads are a multiple of kv heads, and share them in runs. Two axes (no heads) are enough. One
/// float dtype. A query that sees no key gives zeros, as in PyTorch. Scores and softmax of 16-bit floats are float32, and
/// so are the weights where a backend does not have to round them before they meet the values.
///
/// The composite `tpu.attention` of query, key, value and the mask if there is one, with the attributes `causal`, `scale`,
/// `mask` (flag) and `precision` (a [`Precision`]'s name). Its second result is the logarithm of each query's sum of
/// exponentials, `[…, heads, queries]`, −∞ where it sees no key: what the derivative needs to compute weights again. With
/// dropout it is recorded op by op.
///
/// Errors on other shapes or dtypes, or a dropout that is not from 0 to 1.
///
/// ```
/// use tpu_core::{DType, Tensor};
/// use tpu_ops::{Attention, scaled_dot_product_attention};
/// let q = Tensor::ones([1, 4, 3, 8], DType::F32)?;
/// let kv = Tensor::ones([1, 2, 3, 8], DType::F32)?;
/// let y = scaled_dot_product_attention(&q, &kv, &kv, Attention { causal: true, ..Default::default() })?;
/// assert_eq!(y.sizes(), [1, 4, 3, 8]);
/// assert_eq!(y.to_vec::<f32>()?[0], 1.0);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn scaled_dot_product_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    options: Attention<'_>,
) -> Result<Tensor> {
    Tensor::checked(|| check(query, key, value, &options))?;
    let width = query.shape().size(query.rank() - 1);
    let scale = options.scale.unwrap_or(1.0 / (width as f64).sqrt());
    if options.dropout > 0.0 {
        let thinned = |weights: Tensor| dropout(&weights, options.dropout, true, options.generator);
        let both = lazy::at_caller(|| body(query, key, value, options.mask, options.causal, scale, thinned));
        return Ok(both?.0);
    }
    let attributes = attributes([
        ("causal", Attribute::Bool(options.causal)),
        ("scale", Attribute::Float(scale)),
        ("mask", Attribute::Bool(options.mask.is_some())),
        ("precision", Attribute::Text(Precision::current().name().into())),
    ]);
    let operands: SmallVec<[&Tensor; 4]> =
        [Some(query), Some(key), Some(value), options.mask].into_iter().flatten().collect();
    let results = Tensor::composite("tpu.attention", attributes, &operands, |operands| {
        let (query, key, value) = (&operands[0], &operands[1], &operands[2]);
        let (out, log_sum) = body(query, key, value, operands.get(3), options.causal, scale, Ok)?;
        Ok(vec![out, log_sum])
    });
    Ok(results?.swap_remove(0))
}

/// The result, and the logarithms of the sums of exponentials.
fn body(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    mask: Option<&Tensor>,
    causal: bool,
    scale: f64,
    thinned: impl FnOnce(Tensor) -> Result<Tensor>,
) -> Result<(Tensor, Tensor)> {
    let rank = query.rank();
    let (queries, keys) = (query.shape().size(rank - 2), key.shape().size(rank - 2));
    // Heads that share keys and values are more queries of one head.
    let grouped = |tensor: &Tensor, last: usize| {
        let lead = &key.sizes()[..rank - 2];
        let group = if rank > 2 { query.shape().size(rank - 3) / lead[rank - 3].max(1) } else { 1 };
        let shape: Shape = lead.iter().copied().chain([group * queries, last]).collect();
        tensor.reshape(shape)
    };
    let by_head = |last: usize| -> Shape { query.sizes()[..rank - 1].iter().copied().chain([last]).collect() };
    let wide = accumulator(query.dtype());
    let product = grouped(query, query.shape().size(rank - 1))?.dot_general(key, batched(rank, rank - 1, wide))?;
    let mut scores = product.reshape(by_head(keys))?.mul(scale)?;
    if causal {
        let position = |axis| query.device().scope(|| Tensor::iota(scores.shape(), axis, DType::I32));
        scores = position(rank - 1)?.le(&position(rank - 2)?)?.select(&scores, f64::NEG_INFINITY)?;
    }
    if let Some(mask) = mask {
        scores = match mask.dtype() {
            DType::Bool => mask.select(&scores, f64::NEG_INFINITY)?,
            _ => scores.add(&mask.to_dtype(wide)?)?,
        };
    }
    let (weights, log_sum) = weights(&scores, mask.is_some())?;
    let weights = thinned(weights)?.to_dtype(query.dtype())?;
    let out = grouped(&weights, keys)?.dot_general(value, batched(rank, rank - 2, query.dtype()))?;
    Ok((out.reshape(by_head(value.shape().size(rank - 1)))?, log_sum))
}

/// Softmax of the last axis, and the logarithms of its sums; with `hidden`, rows of nothing but −∞ give zeros.
fn weights(scores: &Tensor, hidden: bool) -> Result<(Tensor, Tensor)> {
    let max = scores.max([-1], true)?.detach();
    let max = if hidden { max.eq(f64::NEG_INFINITY)?.select(0.0, &max)? } else { max };
    let exp = scores.sub(&max)?.exp()?;
    let sum = exp.sum([-1], true)?;
    let log_sum = sum.log()?.add(&max)?.squeeze(-1)?;
    let sum = if hidden { sum.eq(0.0)?.select(1.0, &sum)? } else { sum };
    Ok((exp.div(&sum)?, log_sum))
}

/// A product of `rank` axes, all but the last two of which are batch: the last of lhs with the given one of rhs.
fn batched(rank: usize, rhs_contract: usize, result: DType) -> DotDims {
    DotDims {
        lhs_batch: (0..rank - 2).collect(),
        rhs_batch: (0..rank - 2).collect(),
        lhs_contract: Axes::from_slice(&[rank - 1]),
        rhs_contract: Axes::from_slice(&[rhs_contract]),
        precision: Precision::current(),
        result,
    }
}

fn check(query: &Tensor, key: &Tensor, value: &Tensor, options: &Attention<'_>) -> Result<()> {
    const OP: &str = "scaled_dot_product_attention";
    require::float(OP, "a query", query)?;
    require::same_dtype(OP, ("query", query), ("key", key))?;
    require::same_dtype(OP, ("query", query), ("value", value))?;
    let shapes = || format!("query {}, key {} and value {}", query.shape(), key.shape(), value.shape());
    let rank = query.rank();
    let ranks = rank >= 2 && key.rank() == rank && value.rank() == rank;
    ensure!(ranks, Shape, OP, "requires operands of equally many axes, at least 2, got {}", shapes());
    let (q, k, v) = (query.sizes(), key.sizes(), value.sizes());
    ensure!(q[rank - 1] == k[rank - 1], Shape, OP, "requires query and key of one width, got {}", shapes());
    ensure!(k[..rank - 1] == v[..rank - 1], Shape, OP, "requires as many keys as values, got {}", shapes());
    if rank > 2 {
        let lead = rank - 3;
        ensure!(q[..lead] == k[..lead], Shape, OP, "requires equal batch axes, got {}", shapes());
        let shared = if k[lead] == 0 { q[lead] == 0 } else { q[lead].is_multiple_of(k[lead]) };
        ensure!(shared, Shape, OP, "requires heads that are a multiple of the key's heads, got {}", shapes());
    }
    let p = options.dropout;
    ensure!((0.0..=1.0).contains(&p), Value, OP, "requires a dropout from 0 to 1, got {p}");
    let Some(mask) = options.mask else { return Ok(()) };
    let fits = mask.dtype() == DType::Bool || mask.dtype() == query.dtype();
    ensure!(fits, DType, OP, "requires a mask of bool or {}, got {}", query.dtype(), mask.dtype());
    let scores: Shape = q[..rank - 1].iter().copied().chain([k[rank - 2]]).collect();
    ensure!(
        Shape::broadcast(mask.shape(), &scores).as_ref() == Some(&scores),
        Shape,
        OP,
        "requires a mask that stretches to {scores}, got {}",
        mask.shape()
    );
    Ok(())
}
