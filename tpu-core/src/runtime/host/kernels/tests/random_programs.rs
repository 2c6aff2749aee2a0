//! Random shapes and attributes, against the reference: a family of ops a test, every dtype that the op takes.

use super::{Random, assert_agrees, result_types};
use crate::DType;
use crate::ir::{
    Axes, ConvDims, DotDims, Extreme, GatherDims, Op, Precision, Reducer, ScatterDims, Signed, Type, Window, support,
};
use crate::reference::Array;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use smallvec::SmallVec;
use std::sync::Arc;

/// Runs `build` on many seeds, on more in a long sweep; what it makes must pass the shape rule and agree with the reference.
fn check(cases: u32, special: bool, build: impl Fn(&mut Random, DType) -> (Op, Vec<Type>)) {
    let config = Config { cases: crate::testing::cases(cases), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]));
    let result = runner.run(&(any::<u64>(), prop::sample::select(DType::ALL.to_vec())), |(seed, dtype)| {
        let mut random = Random(seed);
        let (op, types) = build(&mut random, dtype);
        if support::supported(&op, dtype) {
            let inputs = random.operands(&op, &types, special);
            let shapes: Vec<&Type> = inputs.iter().map(Array::ty).collect();
            let fits = result_types(&op, &inputs);
            prop_assert!(fits.is_ok(), "{op:?} of {shapes:?}: {fits:?}");
            assert_agrees("random", &op, &inputs);
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

impl Random {
    /// Sizes of `rank` axes, now and then zero or one.
    fn sizes(&mut self, rank: usize) -> Vec<usize> {
        (0..rank).map(|_| if self.below(25) == 0 { 0 } else { 1 + self.below(5) }).collect()
    }

    fn permutation(&mut self, n: usize) -> Axes {
        let mut axes: Axes = (0..n).collect();
        for i in (1..n).rev() {
            axes.swap(i, self.below(i + 1));
        }
        axes
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Some of the axes, in order.
    fn subset(&mut self, axes: usize) -> Axes {
        (0..axes).filter(|_| self.below(2) == 0).collect()
    }
}

fn ty(dtype: DType, sizes: &[usize]) -> Type {
    Type::new(dtype, sizes)
}

#[test]
fn permuting_cutting_and_padding() {
    check(400, true, |random, dtype| {
        let rank = random.below(5);
        let sizes = random.sizes(rank);
        let x = ty(dtype, &sizes);
        match random.below(5) {
            0 => (Op::Transpose(random.permutation(rank)), vec![x]),
            1 => (Op::Reverse(random.subset(rank)), vec![x]),
            2 => {
                let start: Axes = sizes.iter().map(|&n| random.below(n + 1)).collect();
                let limit = start.iter().zip(&sizes).map(|(&s, &n)| s + random.below(n - s + 1)).collect();
                let strides = (0..rank).map(|_| 1 + random.below(3)).collect();
                (Op::Slice { start, limit, strides }, vec![x])
            }
            3 => {
                let interior: Axes = (0..rank).map(|_| random.below(3)).collect();
                let (mut low, mut high) = (Signed::new(), Signed::new());
                for (&n, &holes) in sizes.iter().zip(&interior) {
                    let whole = (n + n.saturating_sub(1) * holes) as i64;
                    low.push(random.between(-whole / 2, 2));
                    high.push(random.between(-whole / 2, 2));
                }
                (Op::Pad { low, high, interior }, vec![x, ty(dtype, &[])])
            }
            _ => {
                let axis = random.below(rank + 1);
                let mut shape = sizes.clone();
                shape.insert(axis, random.below(4));
                let mut axes: Axes = (0..=rank).filter(|&a| a != axis).collect();
                axes.rotate_left(if rank > 1 && sizes[0] == sizes[1] { 1 } else { 0 });
                let sizes: Vec<usize> = axes.iter().map(|&a| if random.below(4) == 0 { 1 } else { shape[a] }).collect();
                (Op::BroadcastInDim { shape: shape.into(), axes }, vec![ty(dtype, &sizes)])
            }
        }
    });
}

#[test]
fn joining_and_windows_at_run_time() {
    check(200, true, |random, dtype| {
        let rank = 1 + random.below(3);
        let sizes = random.sizes(rank);
        let x = ty(dtype, &sizes);
        let window: Vec<usize> = sizes.iter().map(|&n| random.below(n + 1)).collect();
        let start = ty(random.pick(&[DType::I8, DType::I32, DType::I64, DType::U32]), &[]);
        match random.below(3) {
            0 => {
                let axis = random.below(rank);
                let mut types = vec![x];
                for _ in 0..random.below(3) {
                    let mut sizes = sizes.clone();
                    sizes[axis] = random.below(4);
                    types.push(ty(dtype, &sizes));
                }
                (Op::Concatenate { axis }, types)
            }
            1 => {
                let starts = (0..rank).map(|_| start.clone());
                (Op::DynamicSlice { sizes: window.as_slice().into() }, [x].into_iter().chain(starts).collect())
            }
            _ => {
                let starts = (0..rank).map(|_| start.clone());
                (Op::DynamicUpdateSlice, [x, ty(dtype, &window)].into_iter().chain(starts).collect())
            }
        }
    });
}

#[test]
fn reductions_over_any_axes() {
    check(400, false, |random, dtype| {
        let rank = random.below(5);
        let kind = random.pick(Reducer::ALL);
        (Op::Reduce { kind, axes: random.subset(rank) }, vec![ty(dtype, &random.sizes(rank))])
    });
}

#[test]
fn going_along_an_axis() {
    check(300, true, |random, dtype| {
        let rank = 1 + random.below(3);
        let (mut sizes, axis) = (random.sizes(rank), random.below(rank));
        sizes[axis] = 1 + random.below(9);
        let x = ty(dtype, &sizes);
        match random.below(4) {
            0 => (Op::ArgReduce { kind: random.pick(Extreme::ALL), axis }, vec![x]),
            1 => {
                let kind = random.pick(&[Reducer::Max, Reducer::Min, Reducer::And, Reducer::Or, Reducer::Xor]);
                (Op::Cumulative { kind, axis, reverse: random.below(2) == 0 }, vec![x])
            }
            2 => {
                let k = random.below(sizes[rank - 1] + 1);
                (Op::TopK { k, largest: random.below(2) == 0 }, vec![x])
            }
            _ => {
                let other = ty(random.pick(&DType::ALL), &sizes);
                let descending = random.below(2) == 0;
                (Op::Sort { axis, descending, stable: true }, vec![x, other])
            }
        }
    });
}

impl Random {
    /// A window over axes of these sizes that has at least one place along each.
    fn window(&mut self, sizes: &[usize], dilated: bool) -> Window {
        let mut window = Window {
            sizes: Axes::new(),
            strides: Axes::new(),
            base_dilations: Axes::new(),
            window_dilations: Axes::new(),
            padding: SmallVec::new(),
        };
        for &n in sizes {
            let (size, hole) = (1 + self.below(3), if dilated { 1 + self.below(2) } else { 1 });
            let base = if dilated { 1 + self.below(2) } else { 1 };
            let whole = if n == 0 { 0 } else { (n - 1) * base + 1 } as i64;
            let reach = ((size - 1) * hole + 1) as i64;
            let low = self.between(if whole > reach { -1 } else { 0 }, 2);
            let high = (reach - whole - low).max(self.between(0, 2));
            window.sizes.push(size);
            window.strides.push(1 + self.below(3));
            window.base_dilations.push(base);
            window.window_dilations.push(hole);
            window.padding.push((low, high));
        }
        window
    }
}

fn places(sizes: &[usize], window: &Window) -> Vec<usize> {
    (0..sizes.len())
        .map(|a| {
            let whole = sizes[a] as i64 + window.padding[a].0 + window.padding[a].1;
            (whole - window.sizes[a] as i64) as usize / window.strides[a] + 1
        })
        .collect()
}

#[test]
fn windows_of_any_kind() {
    check(400, false, |random, dtype| {
        let rank = 1 + random.below(3);
        let sizes: Vec<usize> = (0..rank).map(|_| 1 + random.below(5)).collect();
        if random.below(2) == 0 {
            let window = random.window(&sizes, true);
            let kind = random.pick(Reducer::ALL);
            return (Op::ReduceWindow { kind, window: Arc::new(window) }, vec![ty(dtype, &sizes)]);
        }
        let window = random.window(&sizes, false);
        let source = ty(dtype, &places(&sizes, &window));
        let select = random.pick(Extreme::ALL);
        (Op::SelectAndScatter { select, window: Arc::new(window) }, vec![ty(dtype, &sizes), source])
    });
}

#[test]
fn products_over_any_axes() {
    check(300, false, |random, dtype| {
        let (batch, contract) = (random.below(3), random.below(3));
        let common: Vec<usize> = random.sizes(batch + contract);
        let mut side = |free: usize| {
            let own = random.sizes(free);
            let rank = batch + contract + free;
            // Axis number `order[i]` has the i-th of the batch, contracted and free sizes.
            let order = random.permutation(rank);
            let mut sizes = vec![0; rank];
            for (&axis, &size) in order.iter().zip(common.iter().chain(&own)) {
                sizes[axis] = size;
            }
            (sizes, Axes::from_slice(&order[..batch]), Axes::from_slice(&order[batch..batch + contract]))
        };
        let (lhs, lhs_batch, lhs_contract) = side(1);
        let (rhs, rhs_batch, rhs_contract) = side(2);
        let wider: Vec<DType> = DType::ALL.into_iter().filter(|&result| support::widens(dtype, result)).collect();
        let result = if wider.is_empty() { dtype } else { random.pick(&wider) };
        let precision = Precision::Highest;
        let dims = DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract, precision, result };
        (Op::DotGeneral(Arc::new(dims)), vec![ty(dtype, &lhs), ty(dtype, &rhs)])
    });
}

#[test]
fn convolutions_of_any_layout() {
    check(300, false, |random, dtype| {
        let spatial = random.below(3);
        let axes = |random: &mut Random| {
            let order = random.permutation(spatial + 2);
            (order[0], order[1], Axes::from_slice(&order[2..]))
        };
        let (input_batch, input_feature, input_spatial) = axes(random);
        let (kernel_input_feature, kernel_output_feature, kernel_spatial) = axes(random);
        let (output_batch, output_feature, output_spatial) = axes(random);
        let groups = 1 + random.below(2);
        let (feature_groups, batch_groups) = if random.below(2) == 0 { (groups, 1) } else { (1, groups) };
        let window = random.window(&vec![4; spatial], true);
        let (inputs, outputs) = (1 + random.below(3), 1 + random.below(3));
        let (mut x, mut kernel) = (vec![4; spatial + 2], vec![0; spatial + 2]);
        x[input_batch] = batch_groups * (1 + random.below(5));
        x[input_feature] = inputs * feature_groups;
        kernel[kernel_input_feature] = inputs;
        kernel[kernel_output_feature] = outputs * groups;
        for (&axis, &size) in kernel_spatial.iter().zip(&window.sizes) {
            kernel[axis] = size;
        }
        let dims = ConvDims {
            input_batch,
            input_feature,
            input_spatial,
            kernel_input_feature,
            kernel_output_feature,
            kernel_spatial,
            output_batch,
            output_feature,
            output_spatial,
            strides: window.strides,
            padding: window.padding,
            input_dilation: window.base_dilations,
            kernel_dilation: window.window_dilations,
            reversal: (0..spatial).map(|_| random.below(2) == 0).collect(),
            feature_groups,
            batch_groups,
            precision: Precision::Highest,
            result: dtype,
        };
        (Op::Convolution(Arc::new(dims)), vec![ty(dtype, &x), ty(dtype, &kernel)])
    });
}

#[test]
fn the_best_of_long_rows() {
    // Rows of many blocks, with equal values and NaN among them; as many as are kept at a time, more and fewer.
    let mut random = Random(3);
    for k in [1, 50, 4096, 6000, 19_999, 20_000] {
        for (dtype, largest) in [(DType::F32, true), (DType::F32, false), (DType::I64, true), (DType::BF16, false)] {
            let op = Op::TopK { k, largest };
            let inputs = random.operands(&op, &[ty(dtype, &[2, 20_000])], true);
            assert_agrees("top_k", &op, &inputs);
        }
    }
}

/// What gather and scatter share: operand sizes, which axes are batching, indexed and dropped, window sizes, and the
/// sizes of the index array with its vector's place.
struct Indexing {
    operand: Vec<usize>,
    operand_batching: Axes,
    indices_batching: Axes,
    mapped: Axes,
    dropped: Axes,
    window: Axes,
    indices: Vec<usize>,
    vector: usize,
}

impl Random {
    fn indexing(&mut self) -> Indexing {
        let rank = 1 + self.below(3);
        let operand: Vec<usize> = (0..rank).map(|_| 1 + self.below(5)).collect();
        let batching = self.below(2).min(rank - 1);
        let operand_batching: Axes = if batching == 1 { [self.below(rank)].into_iter().collect() } else { Axes::new() };
        let mut mapped: Axes =
            self.permutation(rank).into_iter().filter(|axis| !operand_batching.contains(axis)).collect();
        mapped.truncate(1 + self.below(mapped.len()));
        let mut window: Axes = operand.iter().map(|&n| 1 + self.below(n)).collect();
        let mut dropped = Axes::new();
        for axis in 0..rank {
            if operand_batching.contains(&axis) {
                window[axis] = 1;
            } else if self.below(3) == 0 {
                window[axis] = 1;
                dropped.push(axis);
            }
        }
        let batch_rank = batching + self.below(3);
        let mut indices: Vec<usize> = (0..batch_rank).map(|_| 1 + self.below(4)).collect();
        let mut indices_batching: Axes =
            if batching == 1 { [self.below(batch_rank)].into_iter().collect() } else { Axes::new() };
        if batching == 1 {
            indices[indices_batching[0]] = operand[operand_batching[0]];
        }
        // The vector's axis may stand anywhere, and be absent for single components.
        let vector = self.below(batch_rank + 1);
        if mapped.len() > 1 || vector < batch_rank || self.below(2) == 0 {
            indices.insert(vector, mapped.len());
            indices_batching.iter_mut().filter(|axis| **axis >= vector).for_each(|axis| *axis += 1);
        }
        Indexing { operand, operand_batching, indices_batching, mapped, dropped, window, indices, vector }
    }

    /// Where the window's axes stand among `batch` others, increasing.
    fn offset_dims(&mut self, batch: usize, window: usize) -> Axes {
        if self.below(2) == 0 {
            return (batch..batch + window).collect();
        }
        let mut axes = Axes::from_slice(&self.permutation(batch + window)[..window]);
        axes.sort_unstable();
        axes
    }
}

impl Indexing {
    fn kept(&self) -> Vec<usize> {
        (0..self.operand.len())
            .filter(|axis| !self.dropped.contains(axis) && !self.operand_batching.contains(axis))
            .collect()
    }

    fn batch(&self) -> Vec<usize> {
        let sizes = self.indices.iter().enumerate();
        sizes.filter(|&(axis, _)| axis != self.vector).map(|(_, &size)| size).collect()
    }
}

#[test]
fn slices_at_any_index() {
    check(400, true, |random, dtype| {
        let plan = random.indexing();
        let offset_dims = random.offset_dims(plan.batch().len(), plan.kept().len());
        let indices = ty(random.pick(&[DType::I32, DType::I64, DType::U8]), &plan.indices);
        let dims = GatherDims {
            offset_dims,
            collapsed_slice_dims: plan.dropped,
            operand_batching_dims: plan.operand_batching,
            start_indices_batching_dims: plan.indices_batching,
            start_index_map: plan.mapped,
            index_vector_dim: plan.vector,
            slice_sizes: plan.window,
            indices_are_sorted: false,
        };
        (Op::Gather(Arc::new(dims)), vec![ty(dtype, &plan.operand), indices])
    });
}

#[test]
fn updates_at_any_index() {
    check(400, false, |random, dtype| {
        let plan = random.indexing();
        let (batch, kept) = (plan.batch(), plan.kept());
        let update_window_dims = random.offset_dims(batch.len(), kept.len());
        let mut updates = vec![0; batch.len() + kept.len()];
        let batch_axes = (0..updates.len()).filter(|axis| !update_window_dims.contains(axis)).collect::<Vec<_>>();
        for (&axis, &size) in batch_axes.iter().zip(&batch) {
            updates[axis] = size;
        }
        for (&axis, &operand_axis) in update_window_dims.iter().zip(&kept) {
            updates[axis] = plan.window[operand_axis];
        }
        let indices = ty(random.pick(&[DType::I32, DType::I64, DType::U8]), &plan.indices);
        let combiner = if random.below(3) == 0 { None } else { Some(random.pick(Reducer::ALL)) };
        let dims = ScatterDims {
            update_window_dims,
            inserted_window_dims: plan.dropped,
            input_batching_dims: plan.operand_batching,
            scatter_indices_batching_dims: plan.indices_batching,
            scatter_dims_to_operand_dims: plan.mapped,
            index_vector_dim: plan.vector,
            indices_are_sorted: false,
            unique_indices: false,
            combiner,
        };
        (Op::Scatter(Arc::new(dims)), vec![ty(dtype, &plan.operand), indices, ty(dtype, &updates)])
    });
}
