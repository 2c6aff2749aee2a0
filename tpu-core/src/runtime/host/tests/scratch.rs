//! What kernels need beside operands and results counts against the limit and shows in the peak.

use super::*;
use crate::ErrorKind;
use crate::ir::{
    Axes, ConvDims, DotDims, Extreme, GatherDims, Precision, Reducer, ScatterDims, TransposeKind, Window, samples,
};
use smallvec::smallvec;

fn ty(dtype: DType, sizes: &[usize]) -> Type {
    Type::new(dtype, sizes)
}

fn f32s(sizes: &[usize]) -> Type {
    ty(DType::F32, sizes)
}

/// One axis, a kernel of three, channels last.
fn convolution(result: DType) -> Op {
    Op::Convolution(Arc::new(ConvDims {
        input_batch: 0,
        input_feature: 2,
        input_spatial: smallvec![1],
        kernel_input_feature: 1,
        kernel_output_feature: 2,
        kernel_spatial: smallvec![0],
        output_batch: 0,
        output_feature: 2,
        output_spatial: smallvec![1],
        strides: smallvec![1],
        padding: smallvec![(1, 1)],
        input_dilation: smallvec![1],
        kernel_dilation: smallvec![1],
        reversal: smallvec![false],
        feature_groups: 1,
        batch_groups: 1,
        precision: Precision::Highest,
        result,
    }))
}

fn product(result: DType) -> Op {
    Op::DotGeneral(Arc::new(DotDims {
        lhs_batch: smallvec![],
        rhs_batch: smallvec![],
        lhs_contract: smallvec![0],
        rhs_contract: smallvec![0],
        precision: Precision::Highest,
        result,
    }))
}

/// Columns of a table by numbers, the columns' elements outside the numbers: not as slices lie in memory.
fn columns() -> Op {
    Op::Gather(Arc::new(GatherDims {
        offset_dims: smallvec![0],
        collapsed_slice_dims: smallvec![1],
        operand_batching_dims: Axes::new(),
        start_indices_batching_dims: Axes::new(),
        start_index_map: smallvec![1],
        index_vector_dim: 1,
        slice_sizes: smallvec![100, 1],
        indices_are_sorted: false,
    }))
}

/// Updates of columns by numbers, which lie apart in the updates.
fn scatter() -> Op {
    Op::Scatter(Arc::new(ScatterDims {
        update_window_dims: smallvec![0],
        inserted_window_dims: smallvec![1],
        input_batching_dims: Axes::new(),
        scatter_indices_batching_dims: Axes::new(),
        scatter_dims_to_operand_dims: smallvec![1],
        index_vector_dim: 1,
        indices_are_sorted: false,
        unique_indices: false,
        combiner: Some(Reducer::Sum),
    }))
}

fn pooling() -> Op {
    let window = Window {
        sizes: smallvec![4],
        strides: smallvec![4],
        base_dilations: smallvec![1],
        window_dilations: smallvec![1],
        padding: smallvec![(0, 0)],
    };
    Op::SelectAndScatter { select: Extreme::Max, window: Arc::new(window) }
}

/// Op, operands, and the bytes that it certainly needs beside them and its results.
fn greedy() -> Vec<(&'static str, Op, Vec<Type>, usize)> {
    let solve = Op::TriangularSolve { left: true, lower: true, unit_diagonal: true, transpose: TransposeKind::None };
    vec![
        // The result in another order of axes; for bf16 that and all three values in f32.
        ("convolution", convolution(DType::F32), vec![f32s(&[1, 5000, 2]), f32s(&[3, 2, 8])], 4 * 5000 * 8),
        (
            "convolution of bf16",
            convolution(DType::BF16),
            vec![ty(DType::BF16, &[1, 5000, 2]), ty(DType::BF16, &[3, 2, 8])],
            4 * (2 * 5000 * 8 + 5000 * 2),
        ),
        // Both operands in i32.
        (
            "dot_general",
            product(DType::I32),
            vec![ty(DType::I8, &[300, 40]), ty(DType::I8, &[300, 50])],
            4 * 300 * (40 + 50),
        ),
        // A permutation, and keys with their places.
        ("sort", Op::Sort { axis: 0, descending: false, stable: true }, vec![f32s(&[9000])], (4 + 8) * 9000),
        // A block of entries, and what is kept of four and of the next one: no whole row.
        ("top_k", Op::TopK { k: 3, largest: true }, vec![f32s(&[2, 9000])], 8 * 6 * 1024),
        // Where slices start, if they are not gone through one after the other.
        ("gather", columns(), vec![f32s(&[100, 7]), ty(DType::I32, &[60])], 8 * 60),
        ("scatter", scatter(), vec![f32s(&[2, 10]), ty(DType::I32, &[5000]), f32s(&[2, 5000])], 8 * 5000),
        // A row of partial sums in f64.
        (
            "cumulative",
            Op::Cumulative { kind: Reducer::Sum, axis: 0, reverse: false },
            vec![f32s(&[2, 9000])],
            8 * 9000,
        ),
        // Sums of 16-bit floats.
        ("select_and_scatter", pooling(), vec![ty(DType::BF16, &[8000]), ty(DType::BF16, &[2000])], 4 * 8000),
        // In double precision.
        ("cholesky", Op::Cholesky { lower: true }, vec![f32s(&[80, 80])], 8 * 80 * 80),
        ("triangular_solve", solve, vec![f32s(&[80, 80]), f32s(&[80, 90])], 8 * 80 * 90),
    ]
}

fn limited(memory_limit: Option<usize>) -> Host {
    Host::new(HostOptions { threads: Some(1), memory_limit, ..HostOptions::default() }).unwrap()
}

#[test]
fn memory_that_grows_with_the_operands_counts() {
    for (name, op, types, scratch) in greedy() {
        let graph = samples::program(&types, op).unwrap();
        let values = arguments(&graph, 3);
        let free = limited(None);
        let want = run_with(&free, &graph, CompileOptions::default(), &values).unwrap().0;
        let peak = free.memory(0).peak;
        let own: usize = values.iter().chain(&want).map(Vec::len).sum();
        assert!(peak >= own + scratch, "{name}: a peak of {peak}, {own} of them operands and results");

        let enough = limited(Some(peak));
        assert!(run_with(&enough, &graph, CompileOptions::default(), &values).unwrap().0 == want, "{name}");
        let little = limited(Some(own + scratch - 1));
        let error = run_with(&little, &graph, CompileOptions::default(), &values).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{name}: {error}");
        // Nothing is kept, and smaller programs go on.
        assert_eq!(little.memory(0).in_use, 0, "{name}");
        let small = samples::program(&[f32s(&[4])], Op::Sort { axis: 0, descending: true, stable: true }).unwrap();
        let sorted = run_with(&little, &small, CompileOptions::default(), &arguments(&small, 1));
        assert!(sorted.is_ok(), "{name}: {sorted:?}");
    }
}

/// An update that donates its parameter, after a gather and a scatter: what these need is planned, so that they cannot fail once
/// the parameter is written.
#[test]
fn gathers_and_scatters_keep_no_update_from_donated_memory() {
    for op in [columns(), scatter()] {
        let types = match op {
            Op::Gather(_) => vec![f32s(&[100, 7]), ty(DType::I32, &[60])],
            _ => vec![f32s(&[2, 10]), ty(DType::I32, &[5000]), f32s(&[2, 5000])],
        };
        // The update stands first, so the kernel runs when the parameter is written.
        let mut graph = Graph::new();
        let main = graph.main();
        let operands: Vec<Value> = types.iter().map(|ty| graph.parameter(main, ty.clone())).collect();
        let p = graph.parameter(main, f32s(&[3000]));
        let twice = graph.push(main, Op::Binary(crate::ir::BinaryOp::Add), &[p, p]).unwrap();
        let moved = graph.push(main, op.clone(), &operands).unwrap();
        graph.set_results(main, vec![twice.into(), moved.into()]);
        let host = limited(None);
        let executable = host.compile(&graph, CompileOptions::default()).unwrap();
        let mut list: Vec<Argument> = graph
            .parameter_types(main)
            .zip(arguments(&graph, 2))
            .map(|(ty, bytes)| Argument::Donated(host.upload(0, ty, &bytes).unwrap()))
            .collect();
        executable.run(0, &mut list).unwrap();
        assert!(matches!(list[types.len()], Argument::Taken), "{}", op.name());
    }
}

#[test]
fn what_threads_need_is_refused_too() {
    // Lanes enough for several threads, each with keys of its own.
    let op = Op::Sort { axis: 1, descending: false, stable: true };
    let graph = samples::program(&[f32s(&[64, 4000])], op).unwrap();
    let values = arguments(&graph, 5);
    let own = 2 * 4 * 64 * 4000;
    let permutation = 4 * 64 * 4000;
    let options =
        HostOptions { threads: Some(3), memory_limit: Some(own + permutation + 100), ..HostOptions::default() };
    let host = Host::new(options).unwrap();
    let error = run_with(&host, &graph, CompileOptions::default(), &values).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert_eq!(host.memory(0).in_use, 0);
}
