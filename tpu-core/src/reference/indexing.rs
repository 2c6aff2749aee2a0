//! Ops whose operands say where elements are, and orders.

use super::array::{Array, check_size};
use super::index::{for_each, lines, offset};
use super::movement::{clamp_start, integers, rearranged};
use super::number::Number;
use super::reduce::Accumulator;
use crate::ir::{Comparison, GatherDims, ScatterDims, Type};
use crate::{Result, with_element};
use std::cmp::Ordering;

/// The index vector that belongs to batch index `batch`, of a gather or scatter.
fn index_vector(indices: &Array, values: &[i128], vector_dim: usize, batch: &[usize], length: usize) -> Vec<i128> {
    let component = |k: usize| {
        let mut at = batch.to_vec();
        if vector_dim < indices.sizes().len() {
            at.insert(vector_dim, k);
        }
        values[offset(indices.sizes(), &at)]
    };
    (0..length).map(component).collect()
}

/// The entry of a batch index that counts along axis `axis` of the indices: the axis of index vectors is not in it.
fn batch_entry(batch: &[usize], axis: usize, vector_dim: usize) -> usize {
    batch[if axis > vector_dim { axis - 1 } else { axis }]
}

/// Splits an index by whether its axes are listed.
fn split(index: &[usize], listed: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let (inside, outside): (Vec<_>, Vec<_>) = (0..index.len()).partition(|axis| listed.contains(axis));
    (inside.iter().map(|&axis| index[axis]).collect(), outside.iter().map(|&axis| index[axis]).collect())
}

/// Gives each operand axis that is in neither list the next entry of `window`, the others 0.
fn spread(rank: usize, window: &[usize], skipped: [&[usize]; 2]) -> Vec<usize> {
    let mut next = window.iter();
    let skip = |axis| skipped.iter().any(|list| list.contains(&axis));
    (0..rank).map(|axis| if skip(axis) { 0 } else { next.next().copied().unwrap_or(0) }).collect()
}

/// `gather(x, indices)`.
pub fn gather(x: &Array, indices: &Array, dims: &GatherDims, ty: &Type) -> Result<Array> {
    let values = integers(indices);
    rearranged(x, ty, &[], |index| {
        let (window, batch) = split(index, &dims.offset_dims);
        let start = index_vector(indices, &values, dims.index_vector_dim, &batch, dims.start_index_map.len());
        let mut source = spread(x.sizes().len(), &window, [&dims.collapsed_slice_dims, &dims.operand_batching_dims]);
        for (&axis, &start) in dims.start_index_map.iter().zip(&start) {
            source[axis] += clamp_start(start, x.sizes()[axis], dims.slice_sizes[axis]);
        }
        for (&axis, &from) in dims.operand_batching_dims.iter().zip(&dims.start_indices_batching_dims) {
            source[axis] += batch_entry(&batch, from, dims.index_vector_dim);
        }
        Some(offset(x.sizes(), &source))
    })
}

/// For each update element in row-major order the element of `x` that it goes to, `None` when its update does not fit.
fn scatter_targets(x: &Array, indices: &Array, updates: &Array, dims: &ScatterDims) -> Vec<Option<usize>> {
    let values = integers(indices);
    let skipped = [&dims.inserted_window_dims[..], &dims.input_batching_dims[..]];
    let (window_sizes, _) = split(updates.sizes(), &dims.update_window_dims);
    let mut window_sizes = spread(x.sizes().len(), &window_sizes, skipped);
    for &axis in skipped.into_iter().flatten() {
        window_sizes[axis] = 1;
    }
    let mut targets = Vec::new();
    for_each(updates.sizes(), |_, index| {
        let (window, batch) = split(index, &dims.update_window_dims);
        let length = dims.scatter_dims_to_operand_dims.len();
        let start = index_vector(indices, &values, dims.index_vector_dim, &batch, length);
        let mut target = spread(x.sizes().len(), &window, skipped);
        for (&axis, &start) in dims.scatter_dims_to_operand_dims.iter().zip(&start) {
            if start < 0 || start + window_sizes[axis] as i128 > x.sizes()[axis] as i128 {
                return targets.push(None);
            }
            target[axis] += start as usize;
        }
        for (&axis, &from) in dims.input_batching_dims.iter().zip(&dims.scatter_indices_batching_dims) {
            target[axis] += batch_entry(&batch, from, dims.index_vector_dim);
        }
        targets.push(Some(offset(x.sizes(), &target)));
    });
    targets
}

/// `scatter(x, indices, updates)`.
pub fn scatter(x: &Array, indices: &Array, updates: &Array, dims: &ScatterDims, ty: &Type) -> Result<Array> {
    let targets = scatter_targets(x, indices, updates, dims);
    with_element!(x.dtype(), T => {
        let (mut results, updates) = (x.to_vec::<T>()?, updates.to_vec::<T>()?);
        let mut states: Vec<Option<Accumulator<T>>> = results.iter().map(|_| None).collect();
        for (target, &update) in targets.into_iter().zip(&updates) {
            let Some(target) = target else { continue };
            match dims.combiner {
                None => results[target] = update,
                Some(kind) => {
                    states[target].get_or_insert_with(|| Accumulator::from(kind, results[target])).add(update)?;
                }
            }
        }
        for (result, state) in results.iter_mut().zip(&states) {
            if let Some(state) = state {
                *result = state.value();
            }
        }
        Array::new(&ty.shape, &results)
    })
}

/// NaN above all numbers, −0 equal to +0.
fn order<T: Number>(x: T, y: T) -> Ordering {
    let nan = |x: T| T::compare(Comparison::Ne, x, x);
    if T::compare(Comparison::Lt, x, y) {
        Ordering::Less
    } else if T::compare(Comparison::Gt, x, y) {
        Ordering::Greater
    } else {
        nan(x).cmp(&nan(y))
    }
}

/// For each line of `keys` along `axis`: its element numbers in order, equal ones as they stand.
fn sorted_lines(keys: &Array, axis: usize, descending: bool) -> Result<Vec<(Vec<usize>, Vec<usize>)>> {
    with_element!(keys.dtype(), T => {
        let values = keys.to_vec::<T>()?;
        let sorted = lines(keys.sizes(), axis).into_iter().map(|line| {
            let mut by_key = line.clone();
            by_key.sort_by(|&i, &j| {
                if descending { order(values[j], values[i]) } else { order(values[i], values[j]) }
            });
            (line, by_key)
        });
        Ok(sorted.collect())
    })
}

/// `sort(keys, values …)`; always stable.
pub fn sort(operands: &[&Array], axis: usize, descending: bool, types: &[Type]) -> Result<Vec<Array>> {
    let lines = sorted_lines(operands[0], axis, descending)?;
    let mut source = vec![0; operands[0].elements()];
    for (line, by_key) in lines {
        line.into_iter().zip(by_key).for_each(|(to, from)| source[to] = from);
    }
    operands.iter().zip(types).map(|(x, ty)| rearranged(x, ty, &[], |at| Some(source[offset(x.sizes(), at)]))).collect()
}

/// `top_k(x)`: values and indices.
pub fn top_k(x: &Array, k: usize, largest: bool, types: &[Type]) -> Result<Vec<Array>> {
    let axis = x.sizes().len() - 1;
    let best: Vec<(usize, usize)> = sorted_lines(x, axis, largest)?
        .into_iter()
        .flat_map(|(line, by_key)| by_key.into_iter().take(k).map(move |number| (number, number - line[0])))
        .collect();
    let mut next = best.iter();
    let values = rearranged(x, &types[0], &[], |_| next.next().map(|&(number, _)| number))?;
    Ok(vec![values, Array::from_fn(&types[1], |i| best[i].1 as i32)?])
}

/// `rng_bits(seed, offset)`.
pub fn rng_bits(seed: &Array, first: &Array, ty: &Type) -> Result<Array> {
    let (seed, first) = (seed.to_vec::<u64>()?[0], first.to_vec::<u64>()?[0]);
    check_size(ty)?;
    Array::from_fn(ty, |i| crate::random::random_group(seed, first, i as u64 / 4)[i % 4])
}

#[cfg(test)]
mod tests {
    use super::super::evaluate_op;
    use super::*;
    use crate::ir::{Op, Reducer, samples};
    use smallvec::smallvec;
    use std::sync::Arc;

    /// The example of StableHLO's specification of `gather`, without batching axes.
    #[test]
    fn gather_clamps_and_orders_as_the_specification_says() {
        let x = Array::new([3, 4, 2], &(1..=24).collect::<Vec<i32>>()).unwrap();
        let indices = Array::new([2, 3, 2], &[0i64, 0, 1, 0, 2, 1, 0, 1, 1, 1, 0, 9]).unwrap();
        let dims = GatherDims {
            offset_dims: smallvec![2, 3],
            collapsed_slice_dims: smallvec![0],
            operand_batching_dims: smallvec![],
            start_indices_batching_dims: smallvec![],
            start_index_map: smallvec![1, 0],
            index_vector_dim: 2,
            slice_sizes: smallvec![1, 2, 2],
            indices_are_sorted: false,
        };
        let result = evaluate_op(&Op::Gather(Arc::new(dims)), &[x, indices]).unwrap().remove(0);
        assert_eq!(result.sizes(), [2, 3, 2, 2]);
        assert_eq!(
            result.to_vec::<i32>().unwrap(),
            [1, 2, 3, 4, 3, 4, 5, 6, 13, 14, 15, 16, 9, 10, 11, 12, 11, 12, 13, 14, 17, 18, 19, 20]
        );
    }

    fn scatter_op(combiner: Option<Reducer>) -> Op {
        Op::Scatter(Arc::new(samples::row_scatter(combiner)))
    }

    #[test]
    fn scatter_combines_in_order_and_drops_what_does_not_fit() {
        let x = Array::new([2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        let indices = Array::new([4], &[1i32, 1, -1, 2]).unwrap();
        let updates = Array::new([4, 2], &[10.0f32, 20.0, 30.0, 40.0, 5.0, 5.0, 6.0, 6.0]).unwrap();
        let run = |op: Op| {
            let result = evaluate_op(&op, &[x.clone(), indices.clone(), updates.clone()]).unwrap();
            result[0].to_vec::<f32>().unwrap()
        };
        assert_eq!(run(scatter_op(Some(Reducer::Sum))), [1.0, 2.0, 43.0, 64.0]);
        assert_eq!(run(scatter_op(None)), [1.0, 2.0, 30.0, 40.0]);
    }

    #[test]
    fn nan_sorts_last_and_zeros_keep_their_order() {
        let keys = Array::new([5], &[f32::NAN, 0.0, -1.0, -0.0, f32::INFINITY]).unwrap();
        let numbers = Array::new([5], &[0i32, 1, 2, 3, 4]).unwrap();
        let run = |descending| {
            let op = Op::Sort { axis: 0, descending, stable: true };
            evaluate_op(&op, &[keys.clone(), numbers.clone()]).unwrap()[1].to_vec::<i32>().unwrap()
        };
        assert_eq!((run(false), run(true)), (vec![2, 1, 3, 4, 0], vec![0, 4, 1, 3, 2]));
    }

    #[test]
    fn top_k_takes_the_first_of_equals_first() {
        let x = Array::new([2, 4], &[3i32, 1, 3, 2, 5, 5, 5, 9]).unwrap();
        let results = evaluate_op(&Op::TopK { k: 2, largest: true }, std::slice::from_ref(&x)).unwrap();
        assert_eq!(results[0].to_vec::<i32>().unwrap(), [3, 3, 9, 5]);
        assert_eq!(results[1].to_vec::<i32>().unwrap(), [0, 2, 3, 0]);
        let results = evaluate_op(&Op::TopK { k: 1, largest: false }, &[x]).unwrap();
        assert_eq!(results[1].to_vec::<i32>().unwrap(), [1, 0]);
    }

    #[test]
    fn random_bits_are_philox_lanes() {
        let scalar = |x: u64| Array::scalar(crate::DType::U64, x);
        let op = Op::RngBits([2, 3].into());
        let bits = evaluate_op(&op, &[scalar(0), scalar(0)]).unwrap()[0].to_vec::<u32>().unwrap();
        // Four lanes of counter 0 (published), then two of counter 1.
        assert_eq!(bits[..4], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(bits[4..], crate::random::philox4x32([1, 0, 0, 0], [0, 0])[..2]);
    }
}
