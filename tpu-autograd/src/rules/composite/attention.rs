//! Attention: the weights, queries times keys in size, are computed again instead of being kept.

use super::super::layout::narrow_to;
use super::super::{Context, Gradients, constant, scaled};
use super::{accumulator, widened};
use crate::recompute::behind_barrier;
use smallvec::SmallVec;
use tpu_core::ir::{Attributes, Axes, DotDims, Precision};
use tpu_core::{DType, Result, Shape, Tensor};

/// With scores S = scale · q kᵀ + mask, logarithms of their sums L = log Σ eˢ, weights P = e^(S − L) and out = P v:
///
/// ```text
/// v̄ = Pᵀ ḡ,  S̄ = P ∘ (ḡ vᵀ − c),  q̄ = scale · S̄ k,  k̄ = scale · S̄ᵀ q,  with c = Σ ḡ ∘ out − L̄
/// ```
///
/// These are the composite `tpu.attention_backward` of q, k, v, ḡ, L, c and the mask if there is one, with the attributes
/// of the attention; its three results are f32 for 16-bit floats, as sums are. The gradient of a mask has the size of
/// the scores, which are then computed op by op.
pub(super) fn gradients(cx: &Context<'_>, attributes: &Attributes) -> Result<Gradients> {
    let g = cx.grad_or_zeros(0)?;
    let mut common = widened(&g)?.mul(&widened(cx.output(0)?)?)?.sum([-1], false)?;
    if let Some(of_sums) = cx.grad_of(1) {
        common = common.sub(of_sums)?;
    }
    // Otherwise a backend would find the forward pass's scores equal to those computed again, and keep them until then.
    let held = behind_barrier(&[cx.input(0)?, cx.input(1)?], &[Some(g.clone())])?;
    let masked = cx.operands.len() > 3;
    let mut operands: SmallVec<[Tensor; 7]> = held[..2].iter().cloned().collect();
    operands.extend([cx.input(2)?, g, cx.output(1)?.clone(), common]);
    if masked {
        operands.push(cx.input(3)?);
    }
    let mut gradients = cx.none();
    if (0..3).any(|at| cx.needs(at)) {
        let operands: SmallVec<[&Tensor; 7]> = operands.iter().collect();
        let results = Tensor::composite("tpu.attention_backward", attributes.clone(), &operands, |operands| {
            let parts = Parts::new(operands, attributes);
            let (weights, of_scores) = parts.slopes()?;
            parts.gradients(&weights, &of_scores)
        })?;
        for (at, result) in results.into_iter().enumerate().filter(|&(at, _)| cx.needs(at)) {
            gradients[at] = Some(result.to_dtype(cx.operands[at].dtype)?);
        }
    }
    if masked && cx.needs(3) {
        let parts = Parts::new(&operands, attributes);
        let of_scores = parts.heads.by_query(&parts.slopes()?.1)?;
        let mask = &cx.operands[3];
        let lead = of_scores.rank() - mask.shape.rank();
        let axes: Axes = (lead..of_scores.rank()).collect();
        gradients[3] = Some(narrow_to(&of_scores, &mask.shape, &axes)?.to_dtype(mask.dtype)?);
    }
    Ok(gradients)
}

/// The operands of the derivative.
struct Parts<'a> {
    q: &'a Tensor,
    k: &'a Tensor,
    v: &'a Tensor,
    g: &'a Tensor,
    log_sum: &'a Tensor,
    common: &'a Tensor,
    mask: Option<&'a Tensor>,
    heads: Heads,
    scale: f64,
    causal: bool,
}

impl<'a> Parts<'a> {
    fn new(operands: &'a [Tensor], attributes: &Attributes) -> Self {
        let (q, k) = (&operands[0], &operands[1]);
        Self {
            q,
            k,
            v: &operands[2],
            g: &operands[3],
            log_sum: &operands[4],
            common: &operands[5],
            mask: operands.get(6),
            heads: Heads::new(q, k, attributes),
            scale: attributes.float("scale").unwrap_or(1.0),
            causal: attributes.flag("causal"),
        }
    }

    /// The weights and the gradients of the scores, in the dtype that accumulates: `[…, kv heads, keys, each, queries]`, where
    /// `each` heads share keys.
    ///
    /// Queries come last because a TPU has the last axis along its lanes: what each query has one of then meets the scores
    /// without crossing lanes.
    fn slopes(&self) -> Result<(Tensor, Tensor)> {
        let (heads, wide) = (&self.heads, accumulator(self.q.dtype()));
        let product = heads.by_key(&heads.product(self.k, &heads.group(self.q)?, (0, 0), wide)?)?;
        let mut scores = scaled(&product, self.scale)?;
        let lowest = constant(&scores, f64::NEG_INFINITY)?;
        if self.causal {
            let position =
                |back: usize| scores.device().scope(|| Tensor::iota(scores.shape(), scores.rank() - back, DType::I32));
            scores = position(3)?.le(&position(1)?)?.select(&scores, &lowest)?;
        }
        let mut log_sum = heads.of_queries(self.log_sum)?;
        if let Some(mask) = self.mask {
            let mask = heads.mask_by_key(mask)?;
            scores = match mask.dtype() {
                DType::Bool => mask.select(&scores, &lowest)?,
                _ => scores.add(&mask.to_dtype(wide)?)?,
            };
            // Of a query that sees no key all weights are zero.
            let nothing = log_sum.eq(&constant(&log_sum, f64::NEG_INFINITY)?)?;
            log_sum = nothing.select(&constant(&log_sum, 0)?, &log_sum)?;
        }
        let weights = scores.sub(&log_sum)?.exp()?;
        let of_weights = heads.by_key(&heads.product(self.v, &heads.group(self.g)?, (0, 0), wide)?)?;
        let of_scores = weights.mul(&of_weights.sub(&heads.of_queries(self.common)?)?)?;
        Ok((weights, of_scores))
    }

    /// The gradients of query, key and value.
    fn gradients(&self, weights: &Tensor, of_scores: &Tensor) -> Result<Vec<Tensor>> {
        let (heads, dtype) = (&self.heads, self.q.dtype());
        let wide = accumulator(dtype);
        let of_products = heads.side_by_side(&scaled(of_scores, self.scale)?.to_dtype(dtype)?)?;
        let weights = heads.side_by_side(&weights.to_dtype(dtype)?)?;
        Ok(vec![
            heads.ungroup(&heads.product(&of_products, self.k, (1, 1), wide)?)?,
            heads.product(&of_products, &heads.group(self.q)?, (0, 1), wide)?,
            heads.product(&weights, &heads.group(self.g)?, (0, 1), wide)?,
        ])
    }
}

/// Query heads that share keys and values are more queries of one head.
struct Heads {
    /// All axes of the queries but the last.
    queries: Shape,
    /// The same with one head per key head.
    grouped: Shape,
    /// How many heads share keys, and the number of keys.
    each: usize,
    keys: usize,
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
            each,
            keys: k.sizes()[rank - 2],
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

    /// `[lead …, then …, queries]`, where lead are all axes in front of the keys.
    fn shape(&self, then: &[usize]) -> Shape {
        let (lead, queries) = (self.grouped.rank() - 1, self.queries.size(self.queries.rank() - 1));
        self.grouped.sizes()[..lead].iter().chain(then).copied().chain([queries]).collect()
    }

    /// `[…, keys, each · queries]` with the heads apart.
    fn by_key(&self, x: &Tensor) -> Result<Tensor> {
        x.reshape(self.shape(&[self.keys, self.each]))
    }

    /// And together again.
    fn side_by_side(&self, x: &Tensor) -> Result<Tensor> {
        let lead = self.grouped.rank() - 1;
        let sizes = self.grouped.sizes();
        x.reshape(sizes[..lead].iter().copied().chain([self.keys, sizes[lead]]).collect::<Shape>())
    }

    /// What each query has one of, `[…, heads, queries]`, where it meets the scores.
    fn of_queries(&self, x: &Tensor) -> Result<Tensor> {
        x.reshape(self.shape(&[1, self.each]))
    }

    /// A mask that stretches to `[…, heads, queries, keys]` as the scores lie.
    fn mask_by_key(&self, mask: &Tensor) -> Result<Tensor> {
        let all: Shape = self.queries.sizes().iter().copied().chain([self.keys]).collect();
        let apart: Shape = self.shape(&[self.each]).sizes().iter().copied().chain([self.keys]).collect();
        Self::turned(&mask.broadcast_to(all)?.reshape(apart)?, [2, 0, 1])
    }

    /// The last three axes in this order.
    fn turned(x: &Tensor, last: [usize; 3]) -> Result<Tensor> {
        let lead = x.rank() - 3;
        x.permute((0..lead).chain(last.map(|at| lead + at)).map(|axis| axis as isize))
    }

    /// What lies as the scores do, as `[…, heads, queries, keys]`.
    fn by_query(&self, x: &Tensor) -> Result<Tensor> {
        Self::turned(x, [1, 2, 0])?.reshape(self.queries.sizes().iter().copied().chain([self.keys]).collect::<Shape>())
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
