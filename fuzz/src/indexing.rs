//! Indexing against plain Rust: `i`, slices, permutations, take, gather, scatter and put, chained, with indices out of
//! range at times.

use crate::bytes::Bytes;
use crate::driver::Target;
use crate::plain::Array;
use crate::{Outcome, check};
use tpu_core::ir::Reducer;
use tpu_core::tensor::IndexItem;
use tpu_core::{DType, ErrorKind, Mode, Tensor, lazy};

/// The target.
pub const TARGET: Target = Target { name: "indexing", longest: 160, run };

fn run(mut bytes: Bytes<'_>) -> Outcome {
    let mode = *bytes.pick(&[Mode::DeferAndFuse, Mode::DeferAndFuse, Mode::DeferNever]);
    mode.scope(|| {
        let shape: Vec<usize> = (0..bytes.below(5)).map(|_| bytes.below(5)).collect();
        let mut start = bytes.between(-3, 3);
        let plain = Array::build(&shape, |_| {
            start += 1;
            start
        });
        let mut pair = Pair { tensor: upload(&plain, DType::I64)?, plain };
        while !bytes.is_empty() {
            match step(&mut bytes, &pair)? {
                Some(next) => pair = next,
                // The value has failed as it should.
                None => return Ok(()),
            }
            if bytes.one_in(3) {
                pair.compare()?;
            }
        }
        pair.compare()
    })
}

/// A tensor and what it must be.
struct Pair {
    tensor: Tensor,
    plain: Array,
}

impl Pair {
    fn compare(&self) -> Outcome {
        check!(
            self.tensor.sizes() == self.plain.shape,
            "must have sizes {:?}, has {:?}",
            self.plain.shape,
            self.tensor.sizes()
        );
        let values = self.tensor.to_vec::<i64>().map_err(|error| error.to_string())?;
        check!(values == self.plain.data, "must be {:?}, is {values:?}", self.plain.data);
        Ok(())
    }
}

fn upload(plain: &Array, dtype: DType) -> Result<Tensor, String> {
    Tensor::from_vec(plain.data.clone(), &plain.shape[..])
        .and_then(|tensor| tensor.to_dtype(dtype))
        .map_err(|error| error.to_string())
}

/// One operation on both. `None` if it failed, as it had to.
fn step(bytes: &mut Bytes<'_>, pair: &Pair) -> Result<Option<Pair>, String> {
    match bytes.below(8) {
        0..3 => basic(bytes, pair),
        3 => slice(bytes, pair),
        4 => permute(bytes, pair),
        5 => take(bytes, pair),
        6 => gather(bytes, pair),
        _ => scatter(bytes, pair),
    }
}

/// What both sides make of a call that is checked when it is recorded.
fn at_the_call(
    what: &str,
    pair: &Pair,
    tensor: tpu_core::Result<Tensor>,
    plain: Option<Array>,
) -> Result<Option<Pair>, String> {
    match (tensor, plain) {
        (Ok(tensor), Some(plain)) => Ok(Some(Pair { tensor, plain })),
        // An error leaves the tensor as it was.
        (Err(_), None) => Ok(Some(Pair { tensor: pair.tensor.clone(), plain: pair.plain.clone() })),
        (Ok(tensor), None) => Err(format!("{what} of {:?} must fail, gives {:?}", pair.plain.shape, tensor.sizes())),
        (Err(error), Some(_)) => Err(format!("{what} of {:?} must not fail: {error}", pair.plain.shape)),
    }
}

/// `i(…)` by Python's rules for slices.
fn basic(bytes: &mut Bytes<'_>, pair: &Pair) -> Result<Option<Pair>, String> {
    let bound = |bytes: &mut Bytes<'_>| (!bytes.one_in(3)).then(|| bytes.between(-6, 6) as isize);
    let items: Vec<IndexItem> = (0..bytes.below(6))
        .map(|_| match bytes.below(8) {
            0 | 1 => IndexItem::At(bytes.between(-3, 3) as isize),
            2..6 => IndexItem::Range { start: bound(bytes), end: bound(bytes), step: bytes.below(8) },
            6 => IndexItem::NewAxis,
            _ => IndexItem::Rest,
        })
        .collect();
    let tensor = pair.tensor.i(&items[..]);
    at_the_call(&format!("{items:?}"), pair, tensor, index(&pair.plain, &items))
}

fn index(plain: &Array, items: &[IndexItem]) -> Option<Array> {
    let rank = plain.shape.len();
    let named = items.iter().filter(|item| !matches!(item, IndexItem::NewAxis | IndexItem::Rest)).count();
    let rests = items.iter().filter(|item| **item == IndexItem::Rest).count();
    if named > rank || rests > 1 {
        return None;
    }
    // The elements kept of each axis, and the result's sizes.
    let (mut kept, mut shape): (Vec<Vec<usize>>, Vec<usize>) = Default::default();
    let whole = |kept: &mut Vec<Vec<usize>>, shape: &mut Vec<usize>, until: usize| {
        while kept.len() < until {
            shape.push(plain.shape[kept.len()]);
            kept.push((0..plain.shape[kept.len()]).collect());
        }
    };
    for item in items {
        let size = plain.shape.get(kept.len()).copied().unwrap_or(0) as isize;
        match *item {
            IndexItem::NewAxis => shape.push(1),
            IndexItem::Rest => {
                let until = kept.len() + rank - named;
                whole(&mut kept, &mut shape, until);
            }
            IndexItem::At(at) => {
                let plain = if at < 0 { at + size } else { at };
                kept.push(vec![(0..size).contains(&plain).then_some(plain as usize)?]);
            }
            IndexItem::Range { start, end, step } => {
                let cut = |bound: isize| if bound < 0 { (bound + size).max(0) } else { bound.min(size) };
                let (start, end) = (start.map_or(0, cut), end.map_or(size, cut));
                let all: Vec<usize> = (step > 0).then(|| (start..end).step_by(step).map(|at| at as usize).collect())?;
                shape.push(all.len());
                kept.push(all);
            }
        }
    }
    whole(&mut kept, &mut shape, rank);
    Some(Array { shape, data: plain.select(&kept).data })
}

fn slice(bytes: &mut Bytes<'_>, pair: &Pair) -> Result<Option<Pair>, String> {
    let rank = pair.plain.shape.len();
    let axis = bytes.between(-1, rank as i64) as isize;
    let (start, end, step) = (bytes.below(5), bytes.below(6), bytes.below(4));
    let at = if axis < 0 { axis + rank as isize } else { axis };
    let size = pair.plain.shape.get(at as usize);
    let plain = size.filter(|&&size| start <= end && end <= size && step > 0).map(|_| {
        let mut kept: Vec<Vec<usize>> = pair.plain.shape.iter().map(|&size| (0..size).collect()).collect();
        kept[at as usize] = (start..end).step_by(step).collect();
        pair.plain.select(&kept)
    });
    at_the_call(
        &format!("slice {axis} {start}..{end} by {step}"),
        pair,
        pair.tensor.slice(axis, start, end, step),
        plain,
    )
}

fn permute(bytes: &mut Bytes<'_>, pair: &Pair) -> Result<Option<Pair>, String> {
    let rank = pair.plain.shape.len();
    let mut axes: Vec<usize> = (0..rank).collect();
    (1..rank).rev().for_each(|at| axes.swap(at, bytes.below(at + 1)));
    let mut named: Vec<isize> =
        axes.iter().map(|&axis| axis as isize - if bytes.one_in(4) { rank as isize } else { 0 }).collect();
    let mut plain = Some(pair.plain.permute(&axes));
    if rank > 0 && bytes.one_in(8) {
        named[0] = rank as isize;
        plain = None;
    }
    at_the_call(&format!("permute {named:?}"), pair, pair.tensor.permute(named.iter().copied()), plain)
}

/// Indices for an axis of this size: mostly in range.
fn indices(bytes: &mut Bytes<'_>, shape: &[usize], size: usize) -> (Array, DType) {
    let dtype = *bytes.pick(&[DType::I64, DType::I32, DType::U8]);
    let wild = bytes.one_in(4);
    let plain = Array::build(shape, |_| match wild && bytes.one_in(3) {
        true => bytes.between(if dtype == DType::U8 { 0 } else { -2 }, size as i64 + 2),
        false => bytes.below(size.max(1)) as i64,
    });
    (plain, dtype)
}

/// What both sides make of indices that are checked when the value is computed. Unchecked, they are `fallback`.
fn at_the_read(
    what: &str,
    tensor: impl Fn() -> tpu_core::Result<Tensor>,
    checked: Option<Array>,
    unchecked: impl FnOnce() -> Option<Array>,
    bytes: &mut Bytes<'_>,
) -> Result<Option<Pair>, String> {
    let is_checked = !bytes.one_in(3);
    let plain = if is_checked { checked } else { unchecked() };
    let tensor = if is_checked { tensor() } else { lazy::unchecked_indices(&tensor) };
    let tensor = tensor.map_err(|error| format!("{what}: {error}"))?;
    let Some(plain) = plain else {
        return match tensor.to_vec::<i64>() {
            Err(error) if error.kind() == ErrorKind::Index => Ok(None),
            Err(error) => Err(format!("{what}: must be an index error, is: {error}")),
            Ok(values) => Err(format!("{what}: must be an index error, gives {values:?}")),
        };
    };
    Ok(Some(Pair { tensor, plain }))
}

/// An axis that has elements, if there is one.
fn filled_axis(bytes: &mut Bytes<'_>, plain: &Array) -> Option<usize> {
    let axes: Vec<usize> = (0..plain.shape.len()).filter(|&axis| plain.shape[axis] > 0).collect();
    (!axes.is_empty()).then(|| *bytes.pick(&axes))
}

fn clamped(indices: &Array, size: usize) -> Array {
    Array { data: indices.data.iter().map(|&index| index.clamp(0, size as i64 - 1)).collect(), ..indices.clone() }
}

fn take(bytes: &mut Bytes<'_>, pair: &Pair) -> Result<Option<Pair>, String> {
    let Some(axis) = filled_axis(bytes, &pair.plain) else { return basic(bytes, pair) };
    let size = pair.plain.shape[axis];
    let shape: Vec<usize> = (0..bytes.below(3)).map(|_| bytes.below(4)).collect();
    if pair.plain.shape.len() + shape.len() > 6 {
        return basic(bytes, pair);
    }
    let (plain, dtype) = indices(bytes, &shape, size);
    let tensor = upload(&plain, dtype)?;
    at_the_read(
        &format!("take {:?} on axis {axis} of {:?}", plain, pair.plain.shape),
        || pair.tensor.take(&tensor, axis as isize),
        pair.plain.take(axis, &plain),
        || pair.plain.take(axis, &clamped(&plain, size)),
        bytes,
    )
}

/// Sizes for indices along an axis: no larger elsewhere.
fn along(bytes: &mut Bytes<'_>, shape: &[usize], axis: usize) -> Vec<usize> {
    let whole = bytes.one_in(2);
    let size = |(at, &size): (usize, &usize)| match at == axis {
        true => bytes.below(5),
        false if whole => size,
        false => bytes.below(size + 1),
    };
    shape.iter().enumerate().map(size).collect()
}

fn gather(bytes: &mut Bytes<'_>, pair: &Pair) -> Result<Option<Pair>, String> {
    let Some(axis) = filled_axis(bytes, &pair.plain) else { return basic(bytes, pair) };
    let size = pair.plain.shape[axis];
    let shape = along(bytes, &pair.plain.shape, axis);
    let (plain, dtype) = indices(bytes, &shape, size);
    let tensor = upload(&plain, dtype)?;
    at_the_read(
        &format!("gather {:?} on axis {axis} of {:?}", plain, pair.plain.shape),
        || pair.tensor.gather(axis as isize, &tensor),
        pair.plain.gather(axis, &plain),
        || pair.plain.gather(axis, &clamped(&plain, size)),
        bytes,
    )
}

/// `scatter`, or `put` where the indices are of one axis.
fn scatter(bytes: &mut Bytes<'_>, pair: &Pair) -> Result<Option<Pair>, String> {
    let Some(axis) = filled_axis(bytes, &pair.plain) else { return basic(bytes, pair) };
    let size = pair.plain.shape[axis];
    let put = bytes.one_in(2);
    let shape = if put { vec![bytes.below(4)] } else { along(bytes, &pair.plain.shape, axis) };
    let (plain, dtype) = indices(bytes, &shape, size);
    let combiner = *bytes.pick(&[None, Some(Reducer::Sum), Some(Reducer::Max), Some(Reducer::Min)]);
    let combine = move |old: i64, new: i64| match combiner {
        None => new,
        Some(Reducer::Sum) => old.wrapping_add(new),
        Some(Reducer::Max) => old.max(new),
        _ => old.min(new),
    };
    // Which of several updates to one place wins is not said, so without a combiner all are equal.
    let mut value = bytes.between(-4, 4);
    let mut updates_shape = pair.plain.shape.clone();
    updates_shape[axis] = shape[0];
    let updates = Array::build(if put { &updates_shape } else { &shape }, |_| {
        value += combiner.is_some() as i64;
        value
    });
    let (index, source) = (upload(&plain, dtype)?, upload(&updates, DType::I64)?);
    let apply = |plain_indices: &Array, target: &Array| match put {
        true => target.put(axis, plain_indices, &updates, combine),
        false => target.scatter(axis, plain_indices, &updates, combine),
    };
    // Unchecked, updates out of range are dropped: they go to one more element, which is then cut off.
    let dropped = || {
        let mut wider = pair.plain.shape.clone();
        wider[axis] += 1;
        let wide = Array::build(&wider, |at| if at[axis] < size { pair.plain.get(at) } else { 0 });
        let out = |index: i64| index < 0 || index >= size as i64;
        let data = plain.data.iter().map(|&index| if out(index) { size as i64 } else { index }).collect();
        let all = apply(&Array { data, ..plain.clone() }, &wide)?;
        let kept: Vec<Vec<usize>> = pair.plain.shape.iter().map(|&size| (0..size).collect()).collect();
        Some(all.select(&kept))
    };
    at_the_read(
        &format!(
            "{combiner:?} scatter (put: {put}) of {updates:?} at {plain:?} on axis {axis} of {:?}",
            pair.plain.shape
        ),
        || match put {
            true => pair.tensor.put(&index, axis as isize, &source, combiner),
            false => pair.tensor.scatter(axis as isize, &index, &source, combiner),
        },
        apply(&plain, &pair.plain),
        dropped,
        bytes,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_indexing_agrees_with_plain_rust() {
        crate::driver::test(TARGET, 1, 400).unwrap();
    }
}
