//! Collectives that add up, as the reductions that they are.

use crate::Result;
use crate::ir::{Op, ReplicaGroups, Type};
use crate::reference::{Array, evaluate_op};
use smallvec::smallvec;

/// What one device gets of a collective, as an op of one device.
#[derive(Debug)]
pub struct Reduction {
    /// A reduction along the first axis.
    pub op: Op,
    /// What the members of the device's group give, one above the other.
    pub operand: Array,
    /// What the interpreter makes of it.
    pub result: Array,
}

/// The reduction that an op is on a device, none if it moves elements or computes without the others. Row `i` of the operands
/// is that of device `i`.
pub fn reduction(op: &Op, rows: &[Vec<Array>], device: usize) -> Result<Option<Reduction>> {
    let (kind, groups, axis) = match op {
        Op::AllReduce { kind, groups } => (*kind, groups, None),
        Op::ReduceScatter { kind, groups, axis } => (*kind, groups, Some(*axis)),
        _ => return Ok(None),
    };
    let Some((group, place)) = group_of(groups, device) else { return Ok(None) };
    let mut parts = Vec::new();
    for &member in group {
        let x = &rows[member as usize][0];
        parts.push(match axis {
            Some(axis) => part(x, axis, place, group.len())?,
            None => x.clone(),
        });
    }
    let sizes: Vec<usize> = [parts.len()].into_iter().chain(parts[0].sizes().iter().copied()).collect();
    let bytes = parts.iter().flat_map(Array::bytes).copied().collect();
    let operand = Array::from_bytes(Type::new(parts[0].dtype(), sizes), bytes)?;
    let op = Op::Reduce { kind, axes: smallvec![0] };
    let result = evaluate_op(&op, std::slice::from_ref(&operand))?.remove(0);
    Ok(Some(Reduction { op, operand, result }))
}

/// The group with a device, and its place there.
fn group_of(groups: &ReplicaGroups, device: usize) -> Option<(&[u32], usize)> {
    let place = |group: &[u32]| group.iter().position(|&member| member as usize == device);
    groups.groups.iter().find_map(|group| Some((&group[..], place(&group[..])?)))
}

/// Part number `place` of `x` cut into equal parts along an axis.
fn part(x: &Array, axis: usize, place: usize, parts: usize) -> Result<Array> {
    let size = x.sizes()[axis] / parts;
    let (mut start, mut limit) = (vec![0; x.sizes().len()], x.sizes().to_vec());
    (start[axis], limit[axis]) = (place * size, (place + 1) * size);
    let strides = start.iter().map(|_| 1).collect();
    let op = Op::Slice { start: start.into_iter().collect(), limit: limit.into_iter().collect(), strides };
    Ok(evaluate_op(&op, std::slice::from_ref(x))?.remove(0))
}
