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

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::ir::*;
    use std::sync::Arc;

    fn groups(rows: &[&[u32]], channel: u64) -> Arc<ReplicaGroups> {
        Arc::new(ReplicaGroups { groups: rows.iter().map(|&row| row.into()).collect(), channel })
    }

    #[test]
    fn sizes_grow_and_shrink_by_the_size_of_a_group() {
        let two = || groups(&[&[0, 1], &[2, 3]], 0);
        let x = || [f32s(&[4, 6])];
        assert_eq!(shown(Op::AllReduce { kind: Reducer::Sum, groups: two() }, &x()), "float32[4, 6]");
        assert_eq!(shown(Op::AllGather { axis: 1, groups: two() }, &x()), "float32[4, 12]");
        let scatter = |axis, groups| Op::ReduceScatter { kind: Reducer::Sum, axis, groups };
        assert_eq!(shown(scatter(0, two()), &x()), "float32[2, 6]");
        let exchange = |split_axis, concat_axis| Op::AllToAll { split_axis, concat_axis, groups: two() };
        assert_eq!(shown(exchange(0, 1), &x()), "float32[2, 12]");
        assert_eq!(shown(exchange(1, 1), &x()), "float32[4, 6]");
        assert_eq!(
            shown(scatter(1, groups(&[&[0, 1, 2, 3]], 0)), &x()),
            "Shape: reduce_scatter requires a size divisible by the 4 devices of a group, got 6 along axis 1 of operand \
             float32[4, 6]"
        );
        assert_eq!(
            shown(exchange(2, 0), &x()),
            "Axis: all_to_all requires split axis below the rank 2 of float32[4, 6], got 2"
        );
    }

    #[test]
    fn groups_are_disjoint_and_of_one_size() {
        for (rows, message) in [
            (&[][..], "requires at least one device, got no group of any"),
            (&[&[][..]], "requires at least one device, got no group of any"),
            (&[&[0, 1], &[2]], "requires groups of one size, got 2 and 1 devices"),
            (&[&[0, 1], &[1, 2]], "requires each device in one group, got 1 twice"),
        ] {
            let got = shown(Op::AllGather { axis: 0, groups: groups(rows, 0) }, &[f32s(&[4])]);
            assert_eq!(got, format!("Value: all_gather {message}"));
        }
        assert_eq!(
            shown(Op::AllGather { axis: 0, groups: groups(&[&[0]], 1 << 63) }, &[f32s(&[4])]),
            "Value: all_gather requires a channel below 2^63, got 9223372036854775808"
        );
    }

    #[test]
    fn a_permutation_sends_and_receives_once() {
        let permute =
            |pairs: &[(u32, u32)]| shown(Op::CollectivePermute { pairs: pairs.into(), channel: 0 }, &[f32s(&[4])]);
        assert_eq!(permute(&[(0, 1), (1, 0)]), "float32[4]");
        assert_eq!(permute(&[]), "float32[4]");
        assert_eq!(
            permute(&[(0, 1), (0, 2)]),
            "Value: collective_permute requires each device to send once, got 0 twice"
        );
        assert_eq!(
            permute(&[(0, 1), (2, 1)]),
            "Value: collective_permute requires each device to receive once, got 1 twice"
        );
    }
}
