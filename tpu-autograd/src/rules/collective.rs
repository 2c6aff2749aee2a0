//! Operations across devices. The function that is differentiated is the sum of all replicas' results.

use super::{Context, Gradients, record, reduction};
use smallvec::SmallVec;
use std::sync::Arc;
use tpu_core::Result;
use tpu_core::ir::{Axes, Op, Reducer, ReplicaGroups};

/// Other reductions than a sum are those of what the group's operands are, joined along a new axis.
pub(super) fn all_reduce(cx: &Context<'_>, kind: Reducer, groups: &Arc<ReplicaGroups>) -> Result<Gradients> {
    if kind == Reducer::Sum {
        return cx.one(|g| record(cx.op.clone(), &[g]));
    }
    let gather = Op::AllGather { axis: 0, groups: groups.clone() };
    let back = Op::ReduceScatter { kind: Reducer::Sum, axis: 0, groups: groups.clone() };
    across(cx, kind, gather, back)
}

pub(super) fn all_gather(cx: &Context<'_>, axis: usize, groups: &Arc<ReplicaGroups>) -> Result<Gradients> {
    let back = Op::ReduceScatter { kind: Reducer::Sum, axis, groups: groups.clone() };
    cx.one(|g| record(back, &[g]))
}

/// Other reductions than a sum are those of the parts that an exchange brings, joined along a new axis.
pub(super) fn reduce_scatter(
    cx: &Context<'_>,
    kind: Reducer,
    axis: usize,
    groups: &Arc<ReplicaGroups>,
) -> Result<Gradients> {
    if kind == Reducer::Sum {
        return cx.one(|g| record(Op::AllGather { axis, groups: groups.clone() }, &[g]));
    }
    let exchange = |split_axis, concat_axis| Op::AllToAll { split_axis, concat_axis, groups: groups.clone() };
    across(cx, kind, exchange(axis + 1, 0), exchange(0, axis + 1))
}

/// The gradient of a reduction over a new first axis, which `gather` fills from the replicas; `back` is its transpose.
fn across(cx: &Context<'_>, kind: Reducer, gather: Op, back: Op) -> Result<Gradients> {
    let first: Axes = SmallVec::from_slice(&[0]);
    cx.one(|g| {
        let all = record(gather, &[&cx.input(0)?.unsqueeze(0)?])?;
        let gradient = match kind {
            Reducer::Product => reduction::product(&all, g, &first)?,
            Reducer::Max | Reducer::Min => reduction::extreme(&all, cx.output(0)?, g, &first)?,
            Reducer::Sum | Reducer::And | Reducer::Or | Reducer::Xor => return cx.no_derivative(""),
        };
        record(back, &[&gradient])?.squeeze(0)
    })
}

pub(super) fn all_to_all(
    cx: &Context<'_>,
    split_axis: usize,
    concat_axis: usize,
    groups: &Arc<ReplicaGroups>,
) -> Result<Gradients> {
    let back = Op::AllToAll { split_axis: concat_axis, concat_axis: split_axis, groups: groups.clone() };
    cx.one(|g| record(back, &[g]))
}

pub(super) fn permute(cx: &Context<'_>, pairs: &[(u32, u32)], channel: u64) -> Result<Gradients> {
    let pairs = pairs.iter().map(|&(from, to)| (to, from)).collect();
    cx.one(|g| record(Op::CollectivePermute { pairs, channel }, &[g]))
}
