//! Rules of operations among several devices.

use super::{Types, exactly, has_axis, single, size, takes};
use crate::ir::{Op, ReplicaGroups, Type};
use crate::{Error, ErrorKind, Result, ensure};
use std::collections::HashSet;

/// The size of the groups: all of one size, no device in two.
fn group_size(op: &Op, groups: &ReplicaGroups) -> Result<usize> {
    channel(op, groups.channel)?;
    let length = match groups.groups.first() {
        Some(first) if !first.is_empty() => first.len(),
        _ => return Err(Error::new(ErrorKind::Value, op.name(), "requires at least one device, got no group of any")),
    };
    let mut seen = HashSet::new();
    for group in &groups.groups {
        let got = group.len();
        ensure!(got == length, Value, op.name(), "requires groups of one size, got {length} and {got} devices");
        for &device in group {
            ensure!(seen.insert(device), Value, op.name(), "requires each device in one group, got {device} twice");
        }
    }
    Ok(length)
}

fn channel(op: &Op, channel: u64) -> Result<()> {
    ensure!(i64::try_from(channel).is_ok(), Value, op.name(), "requires a channel below 2^63, got {channel}");
    Ok(())
}

/// `x` with another size along one axis.
fn resized(x: &Type, axis: usize, size: usize) -> Type {
    let sizes = x.shape.sizes().iter().enumerate().map(|(i, &old)| if i == axis { size } else { old });
    Type { dtype: x.dtype, shape: sizes.collect() }
}

/// The part of an axis that each device of a group gets.
fn part(op: &Op, x: &Type, axis: usize, devices: usize) -> Result<usize> {
    let whole = x.shape.size(axis);
    ensure!(
        whole.is_multiple_of(devices),
        Shape,
        op.name(),
        "requires a size divisible by the {devices} devices of a group, got {whole} along axis {axis} of operand {x}"
    );
    Ok(whole / devices)
}

pub(super) fn all_reduce(op: &Op, operands: &[&Type], groups: &ReplicaGroups) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    group_size(op, groups)?;
    single(x.clone())
}

pub(super) fn all_gather(op: &Op, operands: &[&Type], axis: usize, groups: &ReplicaGroups) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    has_axis(op, "axis", axis, x)?;
    let devices = group_size(op, groups)?;
    let whole = size(op, axis, x.shape.size(axis) as i128 * devices as i128)?;
    single(resized(x, axis, whole))
}

pub(super) fn reduce_scatter(op: &Op, operands: &[&Type], axis: usize, groups: &ReplicaGroups) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    has_axis(op, "axis", axis, x)?;
    let devices = group_size(op, groups)?;
    single(resized(x, axis, part(op, x, axis, devices)?))
}

pub(super) fn all_to_all(
    op: &Op,
    operands: &[&Type],
    split_axis: usize,
    concat_axis: usize,
    groups: &ReplicaGroups,
) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    has_axis(op, "split axis", split_axis, x)?;
    has_axis(op, "concat axis", concat_axis, x)?;
    let devices = group_size(op, groups)?;
    let split = resized(x, split_axis, part(op, x, split_axis, devices)?);
    let whole = size(op, concat_axis, split.shape.size(concat_axis) as i128 * devices as i128)?;
    single(resized(&split, concat_axis, whole))
}

pub(super) fn collective_permute(
    op: &Op,
    operands: &[&Type],
    pairs: &[(u32, u32)],
    channel_number: u64,
) -> Result<Types> {
    let [x] = exactly(op, operands)?;
    channel(op, channel_number)?;
    let (mut senders, mut receivers) = (HashSet::new(), HashSet::new());
    for &(from, to) in pairs {
        ensure!(senders.insert(from), Value, op.name(), "requires each device to send once, got {from} twice");
        ensure!(receivers.insert(to), Value, op.name(), "requires each device to receive once, got {to} twice");
    }
    single(x.clone())
}
