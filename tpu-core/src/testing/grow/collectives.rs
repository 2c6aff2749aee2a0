//! Nodes at which devices meet.

use super::{Choices, Grower};
use crate::DType;
use crate::ir::{Op, Reducer, ReplicaGroups, Value};
use std::sync::Arc;

/// All devices in groups of one size, in any order.
fn groups(grower: &Grower<'_>, choices: &mut Choices<'_>) -> Arc<ReplicaGroups> {
    let replicas = grower.replicas();
    let order: Vec<u32> = choices.permutation(replicas).into_iter().map(|device| device as u32).collect();
    let sizes: Vec<usize> = (1..=replicas).rev().filter(|&size| replicas.is_multiple_of(size)).collect();
    let size = *choices.pick(&sizes);
    let groups = order.chunks(size).map(|group| group.iter().copied().collect()).collect();
    Arc::new(ReplicaGroups { groups, channel: channel(grower, choices) })
}

/// None, or one that no other op of the program has.
fn channel(grower: &Grower<'_>, choices: &mut Choices<'_>) -> u64 {
    if choices.one_in(4) { 1 + grower.graph.nodes.len() as u64 } else { 0 }
}

/// An axis whose size is a multiple of the groups', if there is one.
fn divided(grower: &Grower<'_>, choices: &mut Choices<'_>, x: Value, groups: &ReplicaGroups) -> Option<usize> {
    let sizes = grower.ty(x).shape.sizes();
    let size = groups.groups[0].len();
    let axes: Vec<usize> = (0..sizes.len()).filter(|&axis| sizes[axis].is_multiple_of(size)).collect();
    (!axes.is_empty()).then(|| *choices.pick(&axes))
}

pub fn all_reduce(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let op = Op::AllReduce { kind: *choices.pick(Reducer::ALL), groups: groups(grower, choices) };
    let x = grower.operand(choices, &op)?;
    grower.push(op, &[x])
}

pub fn reduce_scatter(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let (kind, groups) = (*choices.pick(Reducer::ALL), groups(grower, choices));
    let x = grower.operand(choices, &Op::ReduceScatter { kind, axis: 0, groups: groups.clone() })?;
    let axis = divided(grower, choices, x, &groups)?;
    grower.push(Op::ReduceScatter { kind, axis, groups }, &[x])
}

pub fn all_gather(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let (x, groups) = (grower.any(choices)?, groups(grower, choices));
    let axis = choices.below(grower.ty(x).shape.rank());
    grower.push(Op::AllGather { axis, groups }, &[x])
}

pub fn all_to_all(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let (x, groups) = (grower.any(choices)?, groups(grower, choices));
    let split_axis = divided(grower, choices, x, &groups)?;
    let concat_axis = choices.below(grower.ty(x).shape.rank());
    grower.push(Op::AllToAll { split_axis, concat_axis, groups }, &[x])
}

/// Some devices send to others, each to one.
pub fn permute(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let x = grower.any(choices)?;
    let replicas = grower.replicas();
    let (from, to) = (choices.permutation(replicas), choices.permutation(replicas));
    let count = choices.below(replicas + 1);
    let pairs = from.into_iter().zip(to).take(count).map(|(from, to)| (from as u32, to as u32)).collect();
    grower.push(Op::CollectivePermute { pairs, channel: channel(grower, choices) }, &[x])
}

/// Which device this is.
pub fn number(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    if !grower.config.dtypes.contains(&DType::U32) {
        return None;
    }
    grower.push(if choices.one_in(3) { Op::PartitionId } else { Op::ReplicaId }, &[])
}
