//! What each op is to the host: a view, a member of fusion groups, a product, an attention, or a plain kernel.

use super::assemble::is_member;
use super::size;
use crate::DType;
use crate::ir::{Graph, NodeId, Op, UnaryOp};
use crate::runtime::host::row::functions::{self, Cell};
use crate::runtime::host::row::isa::Isa;

/// A value of more bytes is [never in memory](DType::bytes_for).
pub(super) const MOST_BYTES: usize = isize::MAX as usize / 8;

/// How a node is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A parameter of the program.
    Parameter,
    /// Another value read differently, at no cost.
    View,
    /// A member of a fusion group.
    Elementwise,
    /// A reduction over inner axes: a member of a group that ends a phase.
    RowFold,
    /// A reduction over outer axes: a member of a group that accumulates beside the rows.
    ColumnFold,
    /// A matrix product by strides.
    Dot,
    /// An attention composite.
    Attention,
    /// A plain kernel.
    Kernel,
}

/// How a node is run.
pub(super) fn classify(graph: &Graph, id: NodeId) -> Kind {
    let node = &graph[id];
    let types = node.operands.iter().map(|&v| graph.ty(v)).chain(&node.types);
    let empty = types.clone().any(|ty| ty.shape.sizes().contains(&0));
    let from = node.operands.first().map(|&v| graph.ty(v).dtype);
    let cell = from.and_then(Cell::of);
    let isa = Isa::Portable;
    match &node.op {
        Op::Parameter { .. } => Kind::Parameter,
        // Row programs count in the dtypes that they compute with.
        Op::Iota { dtype, .. } if Cell::of(*dtype).is_none() => Kind::Kernel,
        Op::Constant(_)
        | Op::Iota { .. }
        | Op::BroadcastInDim { .. }
        | Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Slice { .. }
        | Op::OptimizationBarrier => {
            if empty && !matches!(node.op, Op::OptimizationBarrier) {
                Kind::Kernel
            } else {
                Kind::View
            }
        }
        // Too many elements for addresses: only legal as long as nobody asks for them, so no member of a group.
        _ if empty || types.clone().any(|ty| size::bytes(ty) > MOST_BYTES) => Kind::Kernel,
        Op::Unary(op) => member(cell.and_then(|cell| functions::unary(isa, *op, cell)).is_some()),
        Op::Binary(op) => member(cell.and_then(|cell| functions::binary(isa, *op, cell, [false; 2])).is_some()),
        Op::Compare(_) => member(cell.is_some()),
        Op::Select => member(Cell::of(node.types[0].dtype).is_some()),
        Op::Clamp => member(matches!(from, Some(DType::F32 | DType::F64 | DType::BF16 | DType::F16))),
        Op::Convert(to) => {
            let cells = from.and_then(Cell::loaded).zip(Cell::of(*to));
            member(cells.is_some_and(|(from, to)| functions::convert(isa, from, to).is_some()))
        }
        Op::Pad { .. } | Op::Concatenate { .. } | Op::Reverse(_) => {
            member(is_member(&node.op, cell, node.operands.len()))
        }
        Op::Reduce { kind, axes } => {
            let folds = cell.and_then(|cell| functions::fold(isa, *kind, cell)).is_some();
            let sizes = graph.ty(node.operands[0]).shape.sizes();
            match (folds, axes.last()) {
                (false, _) | (_, None) => Kind::Kernel,
                (true, Some(&last)) if sizes[last + 1..].iter().all(|&size| size == 1) => Kind::RowFold,
                _ => Kind::ColumnFold,
            }
        }
        Op::DotGeneral(dims) => match (from, dims.result) {
            (Some(DType::F32), DType::F32)
            | (Some(DType::BF16), DType::BF16 | DType::F32)
            | (Some(DType::F16), DType::F16 | DType::F32)
            | (Some(DType::F64), DType::F64)
            | (Some(DType::Complex64), DType::Complex64) => Kind::Dot,
            _ => Kind::Kernel,
        },
        Op::Complex
        | Op::BitcastConvert(_)
        | Op::ReducePrecision { .. }
        | Op::DynamicSlice { .. }
        | Op::DynamicUpdateSlice
        | Op::ArgReduce { .. }
        | Op::ReduceWindow { .. }
        | Op::SelectAndScatter { .. }
        | Op::Cumulative { .. }
        | Op::Convolution(_)
        | Op::Gather(_)
        | Op::Scatter(_)
        | Op::Sort { .. }
        | Op::TopK { .. }
        | Op::RngBits(_)
        | Op::Fft { .. }
        | Op::Cholesky { .. }
        | Op::TriangularSolve { .. }
        | Op::Qr
        | Op::Eigh
        | Op::Lu
        | Op::While { .. }
        | Op::Case { .. }
        | Op::AllReduce { .. }
        | Op::AllGather { .. }
        | Op::ReduceScatter { .. }
        | Op::AllToAll { .. }
        | Op::CollectivePermute { .. }
        | Op::ReplicaId
        | Op::PartitionId
        | Op::CustomCall(_) => Kind::Kernel,
        // All others were inlined.
        Op::Composite { .. } => Kind::Attention,
    }
}

fn member(supported: bool) -> Kind {
    if supported { Kind::Elementwise } else { Kind::Kernel }
}

/// Whether an op looks at the value that is stored, so that a 16-bit float must be rounded before.
pub(super) fn needs_rounded(op: &Op) -> bool {
    matches!(op, Op::Unary(UnaryOp::IsFinite) | Op::Compare(_))
}
