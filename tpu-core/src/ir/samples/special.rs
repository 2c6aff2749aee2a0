//! Programs for attributes and sizes that change what an op does.

use super::rows::{batched_dot, conv2d, pairs_of_four, row_gather, row_scatter};
use super::{identity, program, reversed};
use crate::ir::{
    Attribute, Attributes, Axes, BinaryOp, Check, ConvDims, CustomCall, DotDims, Extreme, GatherDims, Graph, Op,
    Precision, Reducer, ScatterDims, TransposeKind, Type, UnaryOp, Value, Window,
};
use crate::{DType, Literal, Shape};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Named programs, one per attribute value or size that the rows do not show.
pub fn special() -> Vec<(String, Graph)> {
    let mut all = Samples(Vec::new());
    constants(&mut all);
    shapes(&mut all);
    reductions(&mut all);
    contractions(&mut all);
    indexing(&mut all);
    linalg(&mut all);
    collectives(&mut all);
    calls(&mut all);
    structure(&mut all);
    all.0
}

struct Samples(Vec<(String, Graph)>);

impl Samples {
    fn add(&mut self, name: &str, types: &[Type], op: Op) {
        let graph = program(types, op).unwrap_or_else(|error| panic!("{name}: {error}"));
        self.0.push((name.to_string(), graph));
    }
}

fn f32s(sizes: &[usize]) -> Type {
    Type::new(DType::F32, sizes)
}

fn constants(all: &mut Samples) {
    let mut constant = |name: &str, literal: Literal| all.add(name, &[], Op::Constant(Arc::new(literal)));
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::MIN_POSITIVE / 4.0, f32::from_bits(0x7fa0_0001)];
    constant("constant not finite", Literal::new([6], &odd).expect("6 numbers"));
    let long: Vec<f64> = (0..70).map(|i| 1.0 / i as f64).collect();
    constant("constant long", Literal::new([7, 10], &long).expect("70 numbers"));
    constant("constant long bool", Literal::new([40], &[true, false].repeat(20)).expect("40 flags"));
    constant("constant equal", Literal::splat(DType::BF16, [1 << 20, 1 << 20], 0.1));
    constant("constant scalar", Literal::splat(DType::U64, Shape::scalar(), u64::MAX));
    constant("constant least", Literal::splat(DType::I64, Shape::scalar(), i64::MIN));
    constant("constant complex", Literal::splat(DType::Complex64, [2], crate::Complex64::new(0.5, f32::NAN)));
    constant("constant empty", Literal::splat(DType::F32, [0, 3], 1));
}

fn shapes(all: &mut Samples) {
    all.add("iota first", &[], Op::Iota { axis: 0, dtype: DType::I64, shape: [3, 2].into() });
    all.add("bitcast wider", &[Type::new(DType::U8, [3, 4])], Op::BitcastConvert(DType::F32));
    all.add("bitcast same width", &[f32s(&[3])], Op::BitcastConvert(DType::I32));
    let huge = Op::BroadcastInDim { shape: [1 << 30, 1 << 30].into(), axes: smallvec![] };
    all.add("broadcast of 2^60", &[f32s(&[])], huge);
    all.add("reshape to scalar", &[f32s(&[1, 1])], Op::Reshape(Shape::scalar()));
    all.add("reshape empty", &[f32s(&[0, 3])], Op::Reshape([7, 0].into()));
    all.add("transpose scalar", &[f32s(&[])], Op::Transpose(Axes::new()));
    let none = Op::Slice { start: smallvec![2], limit: smallvec![2], strides: smallvec![3] };
    all.add("slice empty", &[f32s(&[4])], none);
    all.add("dynamic_slice scalar", &[f32s(&[])], Op::DynamicSlice { sizes: Axes::new() });
    let cut = Op::Pad { low: smallvec![-2], high: smallvec![-1], interior: smallvec![1] };
    all.add("pad cuts", &[f32s(&[4]), f32s(&[])], cut);
    all.add("concatenate one", &[f32s(&[2, 3])], Op::Concatenate { axis: 0 });
    all.add("reverse nothing", &[f32s(&[2, 3])], Op::Reverse(Axes::new()));
    all.add("add scalar", &[f32s(&[]), f32s(&[])], Op::Binary(BinaryOp::Add));
    all.add("exponential empty", &[f32s(&[0])], Op::Unary(UnaryOp::Exp));
    let words = [Type::new(DType::U64, ()), Type::new(DType::U64, ())];
    all.add("rng_bits scalar", &words, Op::RngBits(Shape::scalar()));
    all.add("rng_bits empty", &words, Op::RngBits([2, 0].into()));
}

fn reductions(all: &mut Samples) {
    all.add("reduce all", &[f32s(&[2, 3])], Op::Reduce { kind: Reducer::Sum, axes: smallvec![0, 1] });
    all.add("reduce nothing", &[f32s(&[2, 3])], Op::Reduce { kind: Reducer::Max, axes: smallvec![] });
    all.add("reduce empty axis", &[f32s(&[2, 0])], Op::Reduce { kind: Reducer::Max, axes: smallvec![1] });
    all.add("arg_reduce smallest", &[f32s(&[5, 2])], Op::ArgReduce { kind: Extreme::Min, axis: 0 });
    for reverse in [false, true] {
        for &kind in &[Reducer::Sum, Reducer::Max] {
            let name =
                format!("cumulative {} first axis {}", kind.name(), if reverse { "reversed" } else { "forward" });
            all.add(&name, &[f32s(&[5, 2])], Op::Cumulative { kind, axis: 0, reverse });
        }
    }
    let window = Window {
        sizes: smallvec![],
        strides: smallvec![],
        base_dilations: smallvec![],
        window_dilations: smallvec![],
        padding: smallvec![],
    };
    let scalar = Op::SelectAndScatter { select: Extreme::Max, window: Arc::new(window) };
    all.add("select_and_scatter scalar", &[f32s(&[]), f32s(&[])], scalar);
    all.add("cumulative empty", &[f32s(&[0])], Op::Cumulative { kind: Reducer::Sum, axis: 0, reverse: true });
    let sliding = Window {
        sizes: smallvec![3],
        strides: smallvec![1],
        base_dilations: smallvec![1],
        window_dilations: smallvec![1],
        padding: smallvec![(2, 0)],
    };
    // The same windows as those of a running sum, which is another op.
    let window = Arc::new(sliding);
    all.add("reduce_window running", &[f32s(&[3])], Op::ReduceWindow { kind: Reducer::Sum, window });
    let select = Window {
        sizes: smallvec![1, 1, 3, 2],
        strides: smallvec![1, 1, 2, 2],
        base_dilations: smallvec![1; 4],
        window_dilations: smallvec![1; 4],
        padding: smallvec![(0, 0); 4],
    };
    let op = Op::SelectAndScatter { select: Extreme::Min, window: Arc::new(select) };
    all.add("select_and_scatter smallest", &[f32s(&[1, 2, 5, 4]), f32s(&[1, 2, 2, 2])], op);
}

fn contractions(all: &mut Samples) {
    for (from, to) in [
        (DType::I8, DType::I32),
        (DType::U8, DType::I32),
        (DType::BF16, DType::F32),
        (DType::F16, DType::F32),
        (DType::F8E4M3FN, DType::BF16),
        (DType::F8E5M2, DType::F16),
    ] {
        let types = [Type::new(from, [2, 3, 4]), Type::new(from, [2, 4, 5])];
        all.add(&format!("dot_general {from} to {to}"), &types, batched_dot(to, Precision::Default));
    }
    let dot = |lhs: &[usize], rhs: &[usize], precision| {
        let (lhs_contract, rhs_contract) = (Axes::from_slice(lhs), Axes::from_slice(rhs));
        let (lhs_batch, rhs_batch) = (Axes::new(), Axes::new());
        let result = DType::F32;
        Op::DotGeneral(Arc::new(DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract, precision, result }))
    };
    all.add("dot_general vectors", &[f32s(&[4]), f32s(&[4])], dot(&[0], &[0], Precision::High));
    all.add("dot_general outer", &[f32s(&[2]), f32s(&[3])], dot(&[], &[], Precision::Default));
    all.add("dot_general two axes", &[f32s(&[4, 2, 3]), f32s(&[3, 4])], dot(&[2, 0], &[0, 1], Precision::Highest));
    all.add("dot_general empty", &[f32s(&[2, 0]), f32s(&[0, 3])], dot(&[1], &[0], Precision::Highest));

    let mut conv = |name: &str, input: &[usize], kernel: &[usize], dims: ConvDims| {
        all.add(name, &[f32s(input), f32s(kernel)], Op::Convolution(Arc::new(dims)));
    };
    let nhwc = || conv2d(DType::F32);
    conv("convolution grouped", &[1, 5, 5, 4], &[3, 3, 2, 6], ConvDims { feature_groups: 2, ..nhwc() });
    conv("convolution batch groups", &[4, 5, 5, 2], &[3, 3, 2, 6], ConvDims { batch_groups: 2, ..nhwc() });
    conv("convolution reversed", &[1, 5, 5, 2], &[3, 2, 2, 1], ConvDims { reversal: smallvec![true, false], ..nhwc() });
    let dilated = ConvDims { input_dilation: smallvec![2, 1], kernel_dilation: smallvec![1, 2], ..nhwc() };
    conv("convolution dilated", &[1, 5, 6, 2], &[3, 3, 2, 1], dilated);
    conv("convolution cut", &[1, 5, 5, 1], &[2, 2, 1, 1], ConvDims { padding: smallvec![(-1, 0), (0, -2)], ..nhwc() });
    let nchw = ConvDims {
        input_feature: 1,
        input_spatial: smallvec![2, 3],
        kernel_input_feature: 1,
        kernel_output_feature: 0,
        kernel_spatial: smallvec![2, 3],
        output_feature: 1,
        output_spatial: smallvec![2, 3],
        precision: Precision::Default,
        ..nhwc()
    };
    conv("convolution nchw", &[2, 3, 5, 6], &[4, 3, 3, 3], nchw);
    let line = ConvDims {
        input_feature: 2,
        input_spatial: smallvec![1],
        kernel_input_feature: 1,
        kernel_output_feature: 2,
        kernel_spatial: smallvec![0],
        output_feature: 2,
        output_spatial: smallvec![1],
        strides: smallvec![3],
        padding: smallvec![(0, 0)],
        input_dilation: smallvec![1],
        kernel_dilation: smallvec![1],
        reversal: smallvec![false],
        ..nhwc()
    };
    conv("convolution 1d", &[2, 9, 3], &[2, 3, 4], line);
}

fn indexing(all: &mut Samples) {
    let mut gather = |name: &str, x: &[usize], indices: &[usize], dims: GatherDims| {
        all.add(name, &[f32s(x), Type::new(DType::I64, indices)], Op::Gather(Arc::new(dims)));
    };
    gather("gather vectors", &[5, 3], &[4, 1], row_gather());
    gather("gather sorted", &[5, 3], &[2], GatherDims { indices_are_sorted: true, ..row_gather() });
    let points = GatherDims {
        offset_dims: smallvec![],
        collapsed_slice_dims: smallvec![0, 1],
        start_index_map: smallvec![1, 0],
        index_vector_dim: 0,
        slice_sizes: smallvec![1, 1],
        ..row_gather()
    };
    gather("gather points", &[5, 3], &[2, 4, 3], points);
    let along = GatherDims {
        offset_dims: smallvec![],
        collapsed_slice_dims: smallvec![1],
        operand_batching_dims: smallvec![0],
        start_indices_batching_dims: smallvec![0],
        start_index_map: smallvec![1],
        index_vector_dim: 2,
        slice_sizes: smallvec![1, 1],
        ..row_gather()
    };
    gather("gather batching", &[2, 5], &[2, 3], along);
    let windows = GatherDims {
        offset_dims: smallvec![0, 2],
        collapsed_slice_dims: smallvec![],
        start_index_map: smallvec![1],
        slice_sizes: smallvec![2, 2],
        ..row_gather()
    };
    gather("gather windows", &[5, 3], &[4], windows);
    gather("gather from nothing", &[0, 3], &[0], GatherDims { slice_sizes: smallvec![0, 3], ..row_gather() });

    let mut scatter = |name: &str, x: &[usize], indices: &[usize], updates: &[usize], dims: ScatterDims| {
        let types = [f32s(x), Type::new(DType::I32, indices), f32s(updates)];
        all.add(name, &types, Op::Scatter(Arc::new(dims)));
    };
    let promises = ScatterDims { indices_are_sorted: true, unique_indices: true, ..row_scatter(Some(Reducer::Sum)) };
    scatter("scatter promises", &[5, 3], &[4, 1], &[4, 3], promises);
    scatter("scatter narrow window", &[5, 3], &[4], &[4, 2], row_scatter(Some(Reducer::Sum)));
    let points = ScatterDims {
        update_window_dims: smallvec![],
        inserted_window_dims: smallvec![0, 1],
        scatter_dims_to_operand_dims: smallvec![0, 1],
        ..row_scatter(None)
    };
    scatter("scatter points", &[5, 3], &[4, 2], &[4], points);
    let along = ScatterDims {
        update_window_dims: smallvec![],
        inserted_window_dims: smallvec![1],
        input_batching_dims: smallvec![0],
        scatter_indices_batching_dims: smallvec![0],
        scatter_dims_to_operand_dims: smallvec![1],
        index_vector_dim: 2,
        ..row_scatter(Some(Reducer::Max))
    };
    scatter("scatter batching", &[2, 5], &[2, 3], &[2, 3], along);
    for (name, combiner) in [("scatter scalar", None), ("scatter scalar add", Some(Reducer::Sum))] {
        let scalar = ScatterDims {
            update_window_dims: smallvec![],
            inserted_window_dims: smallvec![],
            scatter_dims_to_operand_dims: smallvec![],
            ..row_scatter(combiner)
        };
        scatter(name, &[], &[4, 0], &[4], scalar);
    }
    for (name, combiner) in [("scatter at zero", None), ("scatter at zero multiply", Some(Reducer::Product))] {
        let at_zero = ScatterDims {
            inserted_window_dims: smallvec![],
            scatter_dims_to_operand_dims: smallvec![],
            ..row_scatter(combiner)
        };
        scatter(name, &[3], &[4, 0], &[4, 2], at_zero);
    }
    scatter("scatter into nothing", &[0, 3], &[2], &[2, 3], row_scatter(None));

    let pair = [f32s(&[2, 5]), Type::new(DType::I64, [2, 5])];
    for (name, descending, stable) in
        [("sort pairs", false, false), ("sort pairs descending", true, true), ("sort pairs unstable", true, false)]
    {
        all.add(name, &pair, Op::Sort { axis: 1, descending, stable });
    }
    all.add("sort integers descending", &pair[1..], Op::Sort { axis: 0, descending: true, stable: true });
    all.add("top_k smallest", &[f32s(&[2, 5])], Op::TopK { k: 3, largest: false });
    all.add("top_k integers smallest", &[Type::new(DType::U8, [5])], Op::TopK { k: 5, largest: false });
    all.add("top_k none", &[f32s(&[5])], Op::TopK { k: 0, largest: true });
}

fn linalg(all: &mut Samples) {
    all.add("cholesky upper", &[f32s(&[3, 3])], Op::Cholesky { lower: false });
    for left in [true, false] {
        for lower in [true, false] {
            for unit_diagonal in [true, false] {
                for &transpose in TransposeKind::ALL {
                    let (side, triangle) = (if left { "left" } else { "right" }, if lower { "lower" } else { "upper" });
                    let diagonal = if unit_diagonal { "unit" } else { "general" };
                    let name = format!("triangular_solve {side} {triangle} {diagonal} {}", transpose.name());
                    let b = if left { f32s(&[3, 2]) } else { f32s(&[2, 3]) };
                    let op = Op::TriangularSolve { left, lower, unit_diagonal, transpose };
                    all.add(&name, &[f32s(&[3, 3]), b], op);
                }
            }
        }
    }
    all.add("qr wide", &[f32s(&[2, 4])], Op::Qr);
    all.add("lu wide", &[f32s(&[2, 4])], Op::Lu);
}

fn collectives(all: &mut Samples) {
    let groups = || pairs_of_four(7);
    let x = [f32s(&[4, 6])];
    all.add("all_reduce channel", &x, Op::AllReduce { kind: Reducer::Sum, groups: groups() });
    let nothing = [f32s(&[0, 3])];
    all.add("all_gather nothing", &nothing, Op::AllGather { axis: 0, groups: groups() });
    all.add("reduce_scatter nothing", &nothing, Op::ReduceScatter { kind: Reducer::Sum, axis: 0, groups: groups() });
    all.add("all_to_all nothing", &nothing, Op::AllToAll { split_axis: 0, concat_axis: 1, groups: groups() });
    all.add("all_gather channel", &x, Op::AllGather { axis: 0, groups: groups() });
    all.add("reduce_scatter channel", &x, Op::ReduceScatter { kind: Reducer::Max, axis: 1, groups: groups() });
    all.add("all_to_all channel", &x, Op::AllToAll { split_axis: 1, concat_axis: 1, groups: groups() });
    all.add("collective_permute channel", &x, Op::CollectivePermute { pairs: Arc::new([(0, 1)]), channel: 7 });
    all.add("collective_permute nobody", &x, Op::CollectivePermute { pairs: Arc::new([]), channel: 0 });
}

fn calls(all: &mut Samples) {
    let call = |config: &str, has_side_effect, results: Vec<Type>| {
        let (target, backend_config) = ("a\"b\\c".to_string(), config.to_string());
        Op::CustomCall(Arc::new(CustomCall { target, backend_config, has_side_effect, results }))
    };
    all.add("custom_call effect", &[f32s(&[2])], call("line 1\nline 2\tπ", true, vec![]));
    all.add("custom_call source", &[], call("", false, vec![f32s(&[2]), Type::new(DType::Bool, ())]));
    let attributes = Attributes(vec![
        ("flag".into(), Attribute::Bool(true)),
        ("count".into(), Attribute::Int(i64::MIN)),
        ("epsilon".into(), Attribute::Float(1e-5)),
        ("limit".into(), Attribute::Float(f64::NEG_INFINITY)),
        ("zero".into(), Attribute::Float(-0.0)),
        ("of two words".into(), Attribute::Text("say \"π\"\n".into())),
        ("axes".into(), Attribute::Ints(vec![-1, 2])),
        ("none".into(), Attribute::Ints(vec![])),
    ]);
    let body = crate::ir::BlockId(0);
    let op = Op::Composite { name: "tpu.all_attributes".into(), attributes: Arc::new(attributes), body };
    all.add("composite attributes", &[f32s(&[2]), f32s(&[])], op);
    all.add("optimization_barrier nothing", &[], Op::OptimizationBarrier);
}

/// Programs whose structure is the point: nesting, sharing, unused values, checks.
fn structure(all: &mut Samples) {
    let builders: [(&str, fn(&mut Graph) -> crate::Result<()>); 6] = [
        ("program empty", |_| Ok(())),
        ("program of several results", several_results),
        ("program nested", nested),
        ("program with checks", checked),
        ("program with one branch", one_branch),
        ("program with interleaved blocks", interleaved),
    ];
    for (name, build) in builders {
        let mut graph = Graph::new();
        build(&mut graph).unwrap_or_else(|error| panic!("{name}: {error}"));
        all.0.push((name.to_string(), graph));
    }
}

fn several_results(graph: &mut Graph) -> crate::Result<()> {
    let main = graph.main();
    let x = graph.parameter(main, f32s(&[2, 3]));
    let unused = graph.parameter(main, Type::new(DType::I8, [1]));
    let sorted = graph.push(main, Op::Sort { axis: 1, descending: false, stable: true }, &[x, x])?;
    graph.push(main, Op::Unary(UnaryOp::Neg), &[x])?;
    let second = Value { node: sorted, result: 1 };
    let sum = graph.push(main, Op::Binary(BinaryOp::Add), &[sorted.into(), second])?;
    graph.set_results(main, vec![sum.into(), second, x, sum.into(), unused]);
    Ok(())
}

/// A loop whose body has a case whose branches are a composite of a composite, and a loop.
fn nested(graph: &mut Graph) -> crate::Result<()> {
    let types = [f32s(&[2, 3]), Type::new(DType::I32, ())];
    let inner = program(&types, Op::While { cond: crate::ir::BlockId(0), body: crate::ir::BlockId(0) })?;

    let composite_block = graph.block();
    let values: Vec<Value> = types.iter().map(|ty| graph.parameter(composite_block, ty.clone())).collect();
    let deepest = reversed(graph, &types)?;
    let composite = |name: &str, body| Op::Composite { name: name.into(), attributes: Arc::default(), body };
    let innermost = graph.push(composite_block, composite("tpu.inner", deepest), &values)?;
    graph.set_results(composite_block, vec![innermost.into(), Value { node: innermost, result: 1 }]);

    let first = graph.block();
    let values: Vec<Value> = types.iter().map(|ty| graph.parameter(first, ty.clone())).collect();
    let called = graph.push(first, composite("tpu.outer", composite_block), &values)?;
    graph.set_results(first, vec![called.into(), Value { node: called, result: 1 }]);

    let second = graph.import(&inner);
    let body = graph.block();
    let values: Vec<Value> = types.iter().map(|ty| graph.parameter(body, ty.clone())).collect();
    let case = Op::Case { branches: smallvec![first, second] };
    let chosen = graph.push(body, case, &[values[1], values[0], values[1]])?;
    let one = graph.constant(body, Literal::splat(DType::I32, Shape::scalar(), 1));
    let next = graph.push(body, Op::Binary(BinaryOp::Add), &[Value { node: chosen, result: 1 }, one])?;
    graph.set_results(body, vec![chosen.into(), next.into()]);

    let cond = graph.block();
    let values: Vec<Value> = types.iter().map(|ty| graph.parameter(cond, ty.clone())).collect();
    let four = graph.constant(cond, Literal::splat(DType::I32, Shape::scalar(), 4));
    let below = graph.push(cond, Op::Compare(crate::ir::Comparison::Lt), &[values[1], four])?;
    graph.set_results(cond, vec![below.into()]);

    let main = graph.main();
    let values: Vec<Value> = types.iter().map(|ty| graph.parameter(main, ty.clone())).collect();
    let node = graph.push(main, Op::While { cond, body }, &values)?;
    graph.set_results(main, vec![node.into(), Value { node, result: 1 }]);
    Ok(())
}

/// A gather guarded by the check that its index is below the size.
fn checked(graph: &mut Graph) -> crate::Result<()> {
    let main = graph.main();
    let x = graph.parameter(main, f32s(&[5, 3]));
    let index = graph.parameter(main, Type::new(DType::I32, [1]));
    let rows = graph.push(main, Op::Gather(Arc::new(row_gather())), &[x, index])?;
    let size = graph.constant(main, Literal::splat(DType::I32, [1], 5));
    let bad = graph.push(main, Op::Compare(crate::ir::Comparison::Ge), &[index, size])?;
    let none = graph.constant(main, Literal::splat(DType::I32, [1], -1));
    let verdict = graph.push(main, Op::Select, &[bad.into(), index, none])?;
    let scalar = graph.push(main, Op::Reshape(Shape::scalar()), &[verdict.into()])?;
    graph.set_results(main, vec![rows.into()]);
    graph.checks.push(Check { value: scalar.into(), guards: rows });
    Ok(())
}

fn one_branch(graph: &mut Graph) -> crate::Result<()> {
    let main = graph.main();
    let index = graph.parameter(main, Type::new(DType::I32, ()));
    let branch = identity(graph, &[Type::new(DType::I32, ())]);
    let node = graph.push(main, Op::Case { branches: smallvec![branch] }, &[index, index])?;
    let empty = graph.block();
    let constant = graph.constant(empty, Literal::splat(DType::F32, [2], 1.5));
    graph.set_results(empty, vec![constant]);
    let without_arguments = graph.push(main, Op::Case { branches: smallvec![empty] }, &[index])?;
    graph.set_results(main, vec![node.into(), without_arguments.into()]);
    Ok(())
}

/// Blocks numbered and filled in another order than the one in which the program owns them, a late parameter.
fn interleaved(graph: &mut Graph) -> crate::Result<()> {
    let main = graph.main();
    let second = graph.block();
    let x = graph.parameter(main, f32s(&[2]));
    let b = graph.parameter(second, f32s(&[2]));
    let first = graph.block();
    let doubled = graph.push(main, Op::Binary(BinaryOp::Add), &[x, x])?;
    let a = graph.parameter(first, f32s(&[2]));
    let index = graph.parameter(main, Type::new(DType::I32, ()));
    let flipped = graph.push(second, Op::Reverse(smallvec![0]), &[b])?;
    let negated = graph.push(first, Op::Unary(UnaryOp::Neg), &[a])?;
    graph.set_results(first, vec![negated.into()]);
    graph.set_results(second, vec![flipped.into()]);
    let branches: SmallVec<[crate::ir::BlockId; 2]> = smallvec![first, second];
    let node = graph.push(main, Op::Case { branches }, &[index, doubled.into()])?;
    graph.set_results(main, vec![node.into()]);
    Ok(())
}
