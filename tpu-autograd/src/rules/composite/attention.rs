//! Attention: the weights, queries times keys in size, are computed again instead of being kept.

use super::super::layout::narrow_to;
use super::super::{Context, Gradients, constant, scaled};
use super::{accumulator, widened};
use crate::recompute::behind_barrier;
use smallvec::SmallVec;
use tpu_core::ir::{Attributes, Axes, DotDims, Precision};
use tpu_core::{DType, Result, Shape, Tensor};

/// With weights P = softmax(S), S = scale · q kᵀ + mask, and out = P v:
///
/// ```text
/// v̄ = Pᵀ ḡ,  S̄ = P ∘ (ḡ vᵀ − Σ ḡ ∘ out),  q̄ = scale · S̄ k,  k̄ = scale · S̄ᵀ q
/// ```
pub(super) fn gradients(cx: &Context<'_>, attributes: &Attributes) -> Result<Gradients> {
    let (g, v) = (cx.grad()?, cx.input(2)?);
    // Otherwise a backend would find the forward pass's scores equal to those computed again, and keep them until then.
    let held = behind_barrier(&[cx.input(0)?, cx.input(1)?], &[Some(g.clone())])?;
    let (q, k) = (held[0].clone(), held[1].clone());
    let heads = Heads::new(&q, &k, attributes);
    let dtype = q.dtype();
    let wide = accumulator(dtype);
    let weights = weights(cx, &heads, &q, &k, attributes)?;
    let mut gradients = cx.none();
    let grouped_g = heads.group(g)?;
    if cx.needs(2) {
        gradients[2] = Some(heads.product(&heads.group(&weights.to_dtype(dtype)?)?, &grouped_g, (1, 1), dtype)?);
    }
    if (0..cx.operands.len()).all(|at| at == 2 || !cx.needs(at)) {
        return Ok(gradients);
    }
    let of_weights = heads.ungroup(&heads.product(&grouped_g, &v, (0, 0), wide)?)?;
    let along = widened(g)?.mul(&widened(cx.output(0)?)?)?.sum([-1], true)?;
    let of_scores = weights.mul(&of_weights.sub(&along)?)?;
    if cx.operands.len() > 3 && cx.needs(3) {
        let mask = &cx.operands[3];
        let lead = of_scores.rank() - mask.shape.rank();
        let axes: Axes = (lead..of_scores.rank()).collect();
        gradients[3] = Some(narrow_to(&of_scores, &mask.shape, &axes)?.to_dtype(mask.dtype)?);
    }
    let scaled = scaled(&of_scores, attributes.float("scale").unwrap_or(1.0))?.to_dtype(dtype)?;
    let grouped = heads.group(&scaled)?;
    if cx.needs(0) {
        gradients[0] = Some(heads.ungroup(&heads.product(&grouped, &k, (0, 1), dtype)?)?);
    }
    if cx.needs(1) {
        gradients[1] = Some(heads.product(&grouped, &heads.group(&q)?, (1, 1), dtype)?);
    }
    Ok(gradients)
}

/// Softmax of the masked scores, as in the body, in the dtype that accumulates.
fn weights(cx: &Context<'_>, heads: &Heads, q: &Tensor, k: &Tensor, attributes: &Attributes) -> Result<Tensor> {
    let wide = accumulator(q.dtype());
    let product = heads.ungroup(&heads.product(&heads.group(q)?, k, (0, 0), wide)?)?;
    let mut scores = scaled(&product, attributes.float("scale").unwrap_or(1.0))?;
    let lowest = constant(&scores, f64::NEG_INFINITY)?;
    if attributes.flag("causal") {
        let position = |back: usize| Tensor::iota(scores.shape(), scores.rank() - back, DType::I32);
        scores = position(1)?.le(&position(2)?)?.select(&scores, &lowest)?;
    }
    let masked = cx.operands.len() > 3;
    if masked {
        let mask = cx.input(3)?;
        scores = match mask.dtype() {
            DType::Bool => mask.select(&scores, &lowest)?,
            _ => scores.add(&mask.to_dtype(wide)?)?,
        };
    }
    // The result does not depend on what is subtracted.
    let mut most = scores.max([-1], true)?.detach();
    if masked {
        most = most.eq(&constant(&most, f64::NEG_INFINITY)?)?.select(&constant(&most, 0)?, &most)?;
    }
    let exp = scores.sub(&most)?.exp()?;
    let mut sum = exp.sum([-1], true)?;
    if masked {
        sum = sum.eq(&constant(&sum, 0)?)?.select(&constant(&sum, 1)?, &sum)?;
    }
    exp.div(&sum)
}

/// Query heads that share keys and values are more queries of one head.
struct Heads {
    /// All axes of the queries but the last.
    queries: Shape,
    /// The same with one head per key head.
    grouped: Shape,
    /// Of the products, as in the body.
    precision: Precision,
}

impl Heads {
    fn new(q: &Tensor, k: &Tensor, attributes: &Attributes) -> Self {
        let rank = q.rank();
        let lead = &k.sizes()[..rank - 2];
        let each = if rank > 2 { q.sizes()[rank - 3] / lead[rank - 3].max(1) } else { 1 };
        let rows = each * q.sizes()[rank - 2];
        let named = |precision: &&Precision| attributes.text("precision") == Some(precision.name());
        Self {
            queries: q.sizes()[..rank - 1].into(),
            grouped: lead.iter().copied().chain([rows]).collect(),
            precision: Precision::ALL.iter().copied().find(|precision| named(&precision)).unwrap_or(Precision::Highest),
        }
    }

    fn with_last(x: &Tensor, lead: &Shape) -> Result<Tensor> {
        let last = x.sizes()[x.rank() - 1];
        x.reshape(lead.sizes().iter().copied().chain([last]).collect::<Shape>())
    }

    fn group(&self, x: &Tensor) -> Result<Tensor> {
        Self::with_last(x, &self.grouped)
    }

    fn ungroup(&self, x: &Tensor) -> Result<Tensor> {
        Self::with_last(x, &self.queries)
    }

    /// The product over the batch axes; `contract` counts the contracted axes: 0 is the last, 1 the one before.
    fn product(&self, a: &Tensor, b: &Tensor, contract: (usize, usize), result: DType) -> Result<Tensor> {
        let rank = a.rank();
        let dims = DotDims {
            lhs_batch: (0..rank - 2).collect(),
            rhs_batch: (0..rank - 2).collect(),
            lhs_contract: SmallVec::from_slice(&[rank - 1 - contract.0]),
            rhs_contract: SmallVec::from_slice(&[rank - 1 - contract.1]),
            precision: self.precision,
            result,
        };
        a.dot_general(b, dims)
    }
}
