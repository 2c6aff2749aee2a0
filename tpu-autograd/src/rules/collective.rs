//! Operations across devices. The function that is differentiated is the sum of all replicas' results.

use super::{Context, Gradients, record};
use std::sync::Arc;
use tpu_core::Result;
use tpu_core::ir::{Op, Reducer, ReplicaGroups};

pub(super) fn all_reduce(cx: &Context<'_>, kind: Reducer) -> Result<Gradients> {
    only_sums(cx, kind)?;
    cx.one(|g| record(cx.op.clone(), &[g]))
}

pub(super) fn all_gather(cx: &Context<'_>, axis: usize, groups: &Arc<ReplicaGroups>) -> Result<Gradients> {
    let back = Op::ReduceScatter { kind: Reducer::Sum, axis, groups: groups.clone() };
    cx.one(|g| record(back, &[g]))
}

pub(super) fn reduce_scatter(
    cx: &Context<'_>,
    kind: Reducer,
    axis: usize,
    groups: &Arc<ReplicaGroups>,
) -> Result<Gradients> {
    only_sums(cx, kind)?;
    cx.one(|g| record(Op::AllGather { axis, groups: groups.clone() }, &[g]))
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

fn only_sums(cx: &Context<'_>, kind: Reducer) -> Result<()> {
    match kind {
        Reducer::Sum => Ok(()),
        other => cx.no_derivative(&format!(" with the reducer {}", other.name())),
    }
}
