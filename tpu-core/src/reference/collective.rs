//! Ops between devices, evaluated for all devices at once.

use super::array::Array;
use super::movement::{concatenate, slice};
use super::reduce::Accumulator;
use crate::ir::{Op, Reducer, ReplicaGroups, Type};
use crate::{Result, ensure, with_element};

/// One device's operand.
pub struct Arrival<'a> {
    /// The device.
    pub device: u32,
    /// Its operand.
    pub operand: &'a Array,
}

/// The results of a collective on the devices that arrived at it, in their order. Errors when a device of a group is missing.
pub fn collective(op: &Op, arrivals: &[Arrival<'_>], ty: &Type) -> Result<Vec<Array>> {
    match op {
        Op::AllReduce { kind, groups } => by_group(op, arrivals, groups, |parts, _| all_reduce(*kind, parts)),
        Op::AllGather { axis, groups } => by_group(op, arrivals, groups, |parts, _| concatenate(parts, *axis, ty)),
        Op::ReduceScatter { kind, axis, groups } => {
            by_group(op, arrivals, groups, |parts, rank| part(&all_reduce(*kind, parts)?, *axis, rank, parts.len()))
        }
        Op::AllToAll { split_axis, concat_axis, groups } => by_group(op, arrivals, groups, |parts, rank| {
            let pieces = parts.iter().map(|x| part(x, *split_axis, rank, parts.len())).collect::<Result<Vec<_>>>()?;
            concatenate(&pieces.iter().collect::<Vec<_>>(), *concat_axis, ty)
        }),
        Op::CollectivePermute { pairs, .. } => arrivals
            .iter()
            .map(|arrival| match pairs.iter().find(|pair| pair.1 == arrival.device) {
                Some(&(from, _)) => Ok(find(op, arrivals, from)?.clone()),
                None => Array::from_bytes(ty.clone(), vec![0; arrival.operand.bytes().len()]),
            })
            .collect(),
        _ => crate::bail!(Internal, op.name(), "is not a collective"),
    }
}

/// The operand of a device.
fn find<'a>(op: &Op, arrivals: &[Arrival<'a>], device: u32) -> Result<&'a Array> {
    let arrival = arrivals.iter().find(|arrival| arrival.device == device);
    let found = arrival.map(|arrival| arrival.operand);
    found.ok_or_else(|| {
        let message = format!("requires device {device}, which did not arrive: {} did", arrivals.len());
        crate::Error::new(crate::ErrorKind::Device, op.name(), message)
    })
}

/// Calls `combine(operands of the group, place in it)` for each device. No groups means one of all devices.
fn by_group(
    op: &Op,
    arrivals: &[Arrival<'_>],
    groups: &ReplicaGroups,
    combine: impl Fn(&[&Array], usize) -> Result<Array>,
) -> Result<Vec<Array>> {
    let everyone: Vec<u32> = arrivals.iter().map(|arrival| arrival.device).collect();
    let result = |arrival: &Arrival<'_>| {
        let group = match groups.groups.iter().find(|group| group.contains(&arrival.device)) {
            Some(group) => group,
            None => {
                ensure!(groups.groups.is_empty(), Device, op.name(), "has no group with device {}", arrival.device);
                &everyone[..]
            }
        };
        let parts = group.iter().map(|&device| find(op, arrivals, device)).collect::<Result<Vec<_>>>()?;
        let place = group.iter().position(|&device| device == arrival.device).unwrap_or(0);
        combine(&parts, place)
    };
    arrivals.iter().map(result).collect()
}

/// The reduction of all parts, element by element.
fn all_reduce(kind: Reducer, parts: &[&Array]) -> Result<Array> {
    with_element!(parts[0].dtype(), T => {
        let columns = parts.iter().map(|part| part.to_vec::<T>()).collect::<Result<Vec<_>>>()?;
        let reduced = (0..parts[0].elements()).map(|i| {
            let mut state = Accumulator::<T>::from(kind, columns[0][i]);
            columns[1..].iter().try_for_each(|column| state.add(column[i]))?;
            Ok(state.value())
        });
        Array::new(&parts[0].ty().shape, &reduced.collect::<Result<Vec<T>>>()?)
    })
}

/// Part number `part` of `x` cut into `parts` equal parts along `axis`.
fn part(x: &Array, axis: usize, part: usize, parts: usize) -> Result<Array> {
    let mut sizes = x.sizes().to_vec();
    sizes[axis] /= parts;
    let mut start = vec![0; sizes.len()];
    start[axis] = part * sizes[axis];
    let strides = vec![1; sizes.len()];
    slice(x, &start, &strides, &Type::new(x.dtype(), sizes))
}
