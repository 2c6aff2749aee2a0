//! The composites `tpu.attention` and `tpu.attention_backward`, for which there are kernels.
//!
//! `tpu.attention` of query, key, value and perhaps a mask gives the result and the logarithms of the sums of exponentials.
//! `tpu.attention_backward` of query, key, value, gradient, those logarithms, what the gradients of a query's weights have in
//! common, and perhaps the mask, gives the gradients of query, key and value. Attributes are `causal`, `scale` and `mask`.
//! Composites of other shapes, dtypes or attributes are inlined like any other.

use super::memory::Location;
use super::size::{Size, Values};
use super::view::View;
use crate::ir::{Graph, Node, NodeId, Op, Type};
use crate::runtime::host::attention::{Attention, Axes, Dense, Matrices, Pass, WIDEST};
use crate::runtime::host::row::isa::Isa;
use crate::{DType, Shape};
use smallvec::SmallVec;

/// Number of operands that are matrices or dense rows, without the mask.
const FORWARD: usize = 3;
const BACKWARD: usize = 6;
/// Operands of the derivative.
const GRADIENT: usize = 3;
const LOG_SUM: usize = 4;
const COMMON: usize = 5;

/// What a composite says.
struct Form {
    backward: bool,
    causal: bool,
    masked: bool,
    scale: f64,
}

/// Whether there is a kernel for this op.
pub(super) fn is_known(op: &Op, operands: &[&Type], results: &[Type]) -> bool {
    Form::of(op).is_some_and(|form| form.fits(operands, results))
}

impl Form {
    fn of(op: &Op) -> Option<Self> {
        let Op::Composite { name, attributes, .. } = op else { return None };
        let backward = match &**name {
            "tpu.attention" => false,
            "tpu.attention_backward" => true,
            _ => return None,
        };
        let (causal, masked) = (attributes.flag("causal"), attributes.flag("mask"));
        Some(Self { backward, causal, masked, scale: attributes.float("scale")? })
    }

    /// The operand that is the mask.
    fn mask(&self) -> usize {
        if self.backward { BACKWARD } else { FORWARD }
    }

    /// Whether the kernel takes operands and results of these types.
    fn fits(&self, operands: &[&Type], results: &[Type]) -> bool {
        if operands.len() != self.mask() + self.masked as usize {
            return false;
        }
        let [query, key, value] = [operands[0], operands[1], operands[2]];
        let known = matches!(query.dtype, DType::F32 | DType::BF16 | DType::F16);
        let (q, k, v) = (query.shape.sizes(), key.shape.sizes(), value.shape.sizes());
        let rank = q.len();
        let alike = [key, value].iter().all(|x| x.dtype == query.dtype && x.shape.rank() == rank);
        if !known || !alike || rank < 2 || q[rank - 1] != k[rank - 1] || k[..rank - 1] != v[..rank - 1] {
            return false;
        }
        if q.iter().chain(k).chain(v).any(|&size| size == 0) {
            return false;
        }
        if rank > 2 {
            let heads = rank - 3;
            if q[..heads] != k[..heads] || !Size::dim(q[heads]).is_multiple_of(Size::dim(k[heads])) {
                return false;
            }
        }
        if Size::dim(q[rank - 1]) > WIDEST || Size::dim(v[rank - 1]) > WIDEST {
            return false;
        }
        let with = |last: usize| -> Shape { q[..rank - 1].iter().copied().chain([last]).collect() };
        let rows = Type::new(DType::F32, &q[..rank - 1]);
        let out = Type::new(query.dtype, with(v[rank - 1]));
        if self.masked {
            let mask = operands[self.mask()];
            let wide = Shape::broadcast(&mask.shape, &with(k[rank - 2]));
            let fits = wide.is_some_and(|shape| shape == with(k[rank - 2]));
            if !fits || (mask.dtype != DType::Bool && mask.dtype != query.dtype) {
                return false;
            }
        }
        let wide = |ty: &Type| Type::new(DType::F32, &ty.shape);
        if !self.backward {
            return results == [out, rows];
        }
        let own = *operands[GRADIENT] == out && *operands[LOG_SUM] == rows && *operands[COMMON] == rows;
        own && results == [wide(query), wide(key), wide(value)]
    }
}

/// Whether an operand is read by strides rather than dense.
pub(super) fn is_strided(graph: &Graph, id: NodeId, operand: usize, view: &View) -> bool {
    let backward = graph[id].types.len() == 3;
    let mask = if backward { BACKWARD } else { FORWARD };
    if operand == mask {
        return true;
    }
    // Rows of a matrix lie one after the other.
    let adjacent = view.sizes.last().zip(view.strides.last()).is_some_and(|(&size, &step)| step == 1 || size == 1);
    !(backward && (operand == LOG_SUM || operand == COMMON)) && adjacent
}

/// The attention of a node that reads these views, with places still to be given.
pub(super) fn attention(node: &Node, dtypes: &[DType], views: &[View], isa: Isa, values: &Values) -> Option<Attention> {
    let form = Form::of(&node.op)?;
    let views: SmallVec<[(Axes, Axes, usize); 8]> =
        views.iter().map(|view| (values.all(&view.sizes), values.all(&view.strides), values.of(view.offset))).collect();
    let (q, k, v) = (&views[0].0, &views[1].0, &views[2].0);
    let rank = q.len();
    let matrices = |at: usize| {
        let (_, strides, offset) = &views[at];
        // A mask has fewer axes than the scores: it is repeated along those that it lacks.
        let steps = |back: usize| strides.len().checked_sub(back).map_or(0, |axis| strides[axis]);
        Matrices {
            base: 0,
            offset: offset * (dtypes[at].bits() as usize / 8),
            dtype: dtypes[at],
            lead: (0..rank - 2).map(|axis| steps(rank - axis)).collect(),
            row: steps(2),
            column: steps(1),
        }
    };
    let none = Dense::default();
    let pass = match form.backward {
        false => Pass::Forward { out: none, log_sum: none },
        true => {
            Pass::Backward { gradient: Box::new(matrices(GRADIENT)), log_sum: none, common: none, results: [none; 3] }
        }
    };
    Some(Attention {
        lead: q[..rank - 2].into(),
        group: if rank > 2 { q[rank - 3] / k[rank - 3] } else { 1 },
        queries: q[rank - 2],
        keys: k[rank - 2],
        width: q[rank - 1],
        out: v[rank - 1],
        scale: form.scale as f32,
        causal: form.causal,
        query: matrices(0),
        key: matrices(1),
        value: matrices(2),
        mask: form.masked.then(|| matrices(form.mask())),
        pass,
        isa,
    })
}

/// Gives operands and results their places.
pub(super) fn place(attention: &mut Attention, operands: &[Location], results: &[Location]) {
    let matrices = |matrices: &mut Matrices, at: Location| {
        matrices.base = at.base;
        matrices.offset += at.offset;
    };
    let dense = |at: Location| Dense { base: at.base, offset: at.offset };
    for (operand, &at) in [&mut attention.query, &mut attention.key, &mut attention.value].into_iter().zip(operands) {
        matrices(operand, at);
    }
    let mask = match &mut attention.pass {
        Pass::Forward { out, log_sum } => {
            (*out, *log_sum) = (dense(results[0]), dense(results[1]));
            FORWARD
        }
        Pass::Backward { gradient, log_sum, common, results: to } => {
            matrices(gradient, operands[GRADIENT]);
            (*log_sum, *common) = (dense(operands[LOG_SUM]), dense(operands[COMMON]));
            *to = [0, 1, 2].map(|at| dense(results[at]));
            BACKWARD
        }
    };
    if let Some(of) = &mut attention.mask {
        matrices(of, operands[mask]);
    }
}
