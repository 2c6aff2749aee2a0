//! Every op and dtype on XLA for CPU, against the interpreter.
#![allow(clippy::print_stderr, reason = "a test that does not run says so, and what it covered")]

mod pjrt;

use smallvec::smallvec;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tpu_core::ir::{
    BinaryOp, ConvDims, Graph, Op, Reducer, ScatterDims, TransposeKind, Type, UnaryOp, Window, samples, support,
};
use tpu_core::reference::{Array, evaluate};
use tpu_core::runtime::host::Host;
use tpu_core::runtime::pjrt::{OptionValue, Pjrt, PjrtOptions};
use tpu_core::runtime::{Backend, CompileOptions};
use tpu_core::testing::batch::{self, Case};
use tpu_core::testing::compare::run;
use tpu_core::testing::{arguments, xla};
use tpu_core::{Complex64, DType, Literal, Precision, dtype::convert::cast, with_element};

/// The ops of the program besides its parameters.
fn ops(graph: &Graph) -> Vec<&Op> {
    let nodes = graph[graph.main()].nodes.iter().map(|&id| &graph[id].op);
    nodes.filter(|op| !matches!(op, Op::Parameter { .. })).collect()
}

/// Whether devices meet at an op.
fn is_collective(op: &Op) -> bool {
    matches!(
        op,
        Op::AllReduce { .. }
            | Op::AllGather { .. }
            | Op::ReduceScatter { .. }
            | Op::AllToAll { .. }
            | Op::CollectivePermute { .. }
    )
}

/// Devices that the samples of collectives speak of.
const DEVICES: usize = 4;

/// An elementwise op on more elements than the sample has, so that a run meets what is rare.
fn widened(graph: Graph) -> Graph {
    let types: Vec<Type> = graph.parameter_types(graph.main()).cloned().collect();
    let of_elements = |op: &&Op| {
        matches!(
            op,
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Clamp | Op::Complex | Op::Convert(_)
        ) || matches!(op, Op::ReducePrecision { .. })
    };
    match xla::only_op(&graph).filter(of_elements) {
        Some(op) if types.iter().all(|ty| ty.shape.sizes() == [2, 3]) => {
            let wide: Vec<Type> = types.iter().map(|ty| Type::new(ty.dtype, [37, 9])).collect();
            samples::program(&wide, op.clone()).expect("an elementwise op of any shape")
        }
        _ => graph,
    }
}

/// How the arguments of a run are chosen.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    Ordinary,
    Special,
    Edges,
}

const RUNS: [Style; 4] = [Style::Ordinary, Style::Special, Style::Ordinary, Style::Edges];

/// Arguments of a sample: indices in and just out of range, or as promised.
fn inputs(graph: &Graph, seed: u64, style: Style) -> Vec<Array> {
    let ops = ops(graph);
    let only = xla::only_op(graph);
    let types: Vec<Type> = graph.parameter_types(graph.main()).cloned().collect();
    let argument = |(number, ty): (usize, &Type)| {
        let seed = seed + number as u64;
        match only {
            Some(Op::Scatter(dims)) if number == 1 && promises(dims) => counting(ty),
            Some(Op::Gather(dims)) if number == 1 && dims.indices_are_sorted => counting(ty),
            Some(Op::Gather(_) | Op::Scatter(_)) if number == 1 => arguments::indices(ty, 5, seed),
            Some(Op::DynamicSlice { .. }) if number >= 1 => arguments::indices(ty, 3, seed),
            Some(Op::DynamicUpdateSlice) if number >= 2 => arguments::indices(ty, 3, seed),
            Some(Op::Cholesky { .. } | Op::TriangularSolve { .. }) if number == 0 => arguments::dominant(ty, seed),
            _ if matches!(ops[..], [Op::Case { .. }]) && number == 0 => arguments::indices(ty, 2, seed),
            _ if matches!(ops[..], [Op::While { .. }]) && number == 1 => Array::scalar(ty.dtype, 0),
            _ if style == Style::Edges => arguments::edges(ty, seed),
            _ => arguments::random(ty, seed, style == Style::Special),
        }
    };
    types.iter().enumerate().map(argument).collect()
}

fn promises(dims: &ScatterDims) -> bool {
    dims.indices_are_sorted || dims.unique_indices
}

/// 0, 1, 2, …
fn counting(ty: &Type) -> Array {
    with_element!(ty.dtype, T => {
        let elements: Vec<T> = (0..ty.shape.elements().unwrap() as i64).map(cast).collect();
        Array::new(&ty.shape, &elements).unwrap()
    })
}

/// What a sample is known to differ in, and why, by the start of its name. Each must differ: what comes to agree goes.
const KNOWN: &[(&str, &str)] = &[];

/// The same for the oldest plugin, whose functions are less exact.
const KNOWN_OF_THE_OLDEST: &[(&str, &str)] = &[
    ("log_plus_one float64", "22 steps at −0.375, where 1 + x loses nothing: ln 0.625 = −0.4700036292457356"),
    ("cbrt float32", "a power of 1/3, whose error grows with the logarithm: 8 steps at −6.2e-33"),
    ("cbrt float64", "a power of 1/3, whose error grows with the logarithm: 34 steps at 6.1e-115"),
    ("erf_inv float64", "18 steps at 0.64"),
];

#[test]
fn every_op_of_every_dtype_agrees_on_the_oldest_plugin_too() {
    agrees(pjrt::OLD_CPU, KNOWN_OF_THE_OLDEST);
}

#[test]
fn every_op_of_every_dtype_agrees_with_the_interpreter_or_is_known_not_to() {
    agrees(pjrt::CPU, KNOWN);
}

/// With so many devices.
fn plugin(file: &str, devices: usize) -> Option<Pjrt> {
    let client = vec![("cpu_device_count".to_string(), OptionValue::Int(devices as i64))];
    pjrt::plugin(file).map(|path| Pjrt::open(path, &PjrtOptions { client, ..PjrtOptions::default() }).unwrap())
}

/// The samples that a plugin can have: not those of values that fill a memory, nor of a kernel that nobody registered.
fn samples_of(collectives: bool) -> Vec<(String, Graph)> {
    let mut all = samples::every_op();
    all.retain(|(_, graph)| {
        let large = graph.nodes.iter().any(|node| node.types.iter().any(|ty| ty.bytes().is_none_or(|n| n > 1 << 20)));
        let called = graph.nodes.iter().any(|node| matches!(node.op, Op::CustomCall(_)));
        !large && !called && graph.nodes.iter().any(|node| is_collective(&node.op)) == collectives
    });
    all
}

fn agrees(plugin: &str, known: &[(&str, &str)]) {
    let Some(backend) = self::plugin(plugin, 1) else { return };
    let case = |(name, graph): (String, Graph)| {
        let graph = widened(graph);
        let runs = (0..).zip(RUNS).map(|(run, style)| inputs(&graph, 100 * run, style)).collect();
        Case::alone(name, graph, runs)
    };
    let cases: Vec<Case> = samples_of(false).into_iter().map(case).collect();
    judged(&backend, &cases, known);
}

/// Each collective on as many devices as it names.
fn collectives_agree(plugin: &str) {
    let Some(backend) = self::plugin(plugin, DEVICES) else { return };
    let case = |(name, graph): (String, Graph)| {
        let row = |run: u64, style| {
            (0..DEVICES as u64).map(|device| inputs(&graph, 100 * run + 10 * device, style)).collect::<Vec<_>>()
        };
        let runs = (0..).zip(RUNS).map(|(run, style)| row(run, style)).collect();
        Case { name, graph, runs }
    };
    let cases: Vec<Case> = samples_of(true).into_iter().map(case).collect();
    assert!(cases.len() > 200, "{}", cases.len());
    judged(&backend, &cases, &[]);
}

#[test]
fn collectives_of_every_dtype_agree_on_the_oldest_plugin_too() {
    collectives_agree(pjrt::OLD_CPU);
}

#[test]
fn collectives_of_every_dtype_agree_with_the_interpreter() {
    collectives_agree(pjrt::CPU);
}

fn judged(backend: &Pjrt, cases: &[Case], known: &[(&str, &str)]) {
    let outcome = batch::run(backend, cases, 32, &xla::judge);
    eprintln!("of {} samples in {} programs {} differ", cases.len(), outcome.programs, outcome.wrong.len());
    let why = |name: &str| known.iter().find(|(start, _)| name.starts_with(start)).map(|(_, why)| why);
    let mut wrong: Vec<String> = Vec::new();
    for (number, message) in &outcome.wrong {
        let name = &cases[*number].name;
        match why(name) {
            Some(why) => eprintln!("known: {name}: {why}"),
            None => wrong.push(format!("{name}: {message}")),
        }
    }
    for (start, _) in known {
        if !outcome.wrong.iter().any(|(number, _)| cases[*number].name.starts_with(start)) {
            wrong.push(format!("{start}: agrees, but is said to differ"));
        }
    }
    assert!(wrong.is_empty(), "{} samples:\n{}", wrong.len(), wrong.join("\n"));
}

/// `torch.pow` gives these. Found by the long sweep of random graphs: XLA's own power of 0 to 2 + 3i is NaN.
#[test]
fn powers_of_a_complex_zero_are_zero_where_they_have_a_limit() {
    let ty = Type::new(DType::Complex64, [4]);
    let graph = samples::program(&[ty.clone(), ty], Op::Binary(BinaryOp::Power)).unwrap();
    let numbers = |parts: [(f32, f32); 4]| Array::new([4], &parts.map(|(re, im)| Complex64::new(re, im))).unwrap();
    let (zeros, y) = (numbers([(0.0, 0.0); 4]), numbers([(2.0, 3.0), (0.5, -1.0), (2.0, 0.0), (0.0, 0.0)]));
    let expected = [(0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (1.0, 0.0)].map(|(re, im)| Complex64::new(re, im));
    let host = Host::from_env().unwrap();
    let plugin = plugin(pjrt::CPU, 1);
    let backends = std::iter::once(&host as &dyn Backend).chain(plugin.as_ref().map(|plugin| plugin as &dyn Backend));
    for backend in backends {
        let results = run(backend, &graph, &[zeros.clone(), y.clone()], CompileOptions::default()).unwrap();
        assert_eq!(results[0].to_vec::<Complex64>().unwrap(), expected, "{}", backend.name());
    }
}

/// Functions of many numbers: how far XLA is from the exact result, in steps of the type.
#[test]
fn functions_are_within_their_bounds_for_many_numbers() {
    let Some(backend) = plugin(pjrt::CPU, 1) else { return };
    let mut cases = Vec::new();
    for &op in UnaryOp::ALL {
        for dtype in DType::ALL {
            let op = Op::Unary(op);
            if dtype.is_float() && support::supported(&op, dtype) {
                let ty = Type::new(dtype, [1 << 11]);
                let runs = vec![
                    vec![arguments::random(&ty, 1, false)],
                    vec![arguments::random(&ty, 2, false)],
                    vec![arguments::random(&ty, 5, false)],
                    vec![arguments::edges(&ty, 3)],
                ];
                let name = format!("{} {dtype}", op.name());
                cases.push(Case::alone(name, samples::program(&[ty], op).unwrap(), runs));
            }
        }
    }
    let measured = Mutex::new(BTreeMap::<String, (u64, String)>::new());
    let outcome = batch::run(&backend, &cases, 32, &|case, rows, got| {
        let inputs = &rows[0];
        let expected = evaluate(&case.graph, inputs).unwrap().results;
        let (steps, at) = xla::most_steps(inputs, &expected[0], &got[0][0]);
        let of = inputs[0].cast_vec::<f64>()[at];
        let mut measured = measured.lock().unwrap();
        let most = measured.entry(case.name.clone()).or_default();
        *most = most.clone().max((steps, format!("of {of:e}")));
        xla::judge(case, rows, got)
    });
    for (name, (steps, at)) in measured.into_inner().unwrap() {
        eprintln!("{name}: {steps} steps {at}");
    }
    let wrong: Vec<String> =
        outcome.wrong.iter().map(|(number, message)| format!("{}: {message}", cases[*number].name)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// As in PyTorch: a sum is of zero and its terms, also of one.
#[test]
fn sums_of_negative_zeros_are_zero_on_the_host_and_on_xla() {
    let mut backends: Vec<Box<dyn Backend>> = vec![Box::new(Host::from_env().unwrap())];
    for file in [pjrt::CPU, pjrt::OLD_CPU] {
        backends.extend(plugin(file, 1).map(|plugin| Box::new(plugin) as Box<dyn Backend>));
    }
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16, DType::Complex64] {
        for count in [1, 2, 3, 33] {
            let ty = Type::new(dtype, [count, 2]);
            let zeros = with_element!(dtype, T => {
                Array::new(&ty.shape, &vec![cast::<_, T>(Complex64::new(-0.0, -0.0)); 2 * count]).unwrap()
            });
            let kind = Reducer::Sum;
            for op in [Op::Reduce { kind, axes: smallvec![0] }, Op::Cumulative { kind, axis: 0, reverse: false }] {
                let name = format!("{} of {count} {dtype}", op.name());
                let graph = samples::program(std::slice::from_ref(&ty), op).unwrap();
                cases.push(Case::alone(name, graph, vec![vec![zeros.clone()]]));
            }
        }
    }
    for backend in &backends {
        let outcome = batch::run(&**backend, &cases, cases.len(), &|_, _, got| {
            let bytes = got[0][0].bytes();
            bytes.iter().any(|&byte| byte != 0).then(|| format!("{:?}", got[0][0]))
        });
        let wrong = outcome.wrong.iter().map(|(number, message)| format!("{}: {message}", cases[*number].name));
        assert!(outcome.wrong.is_empty(), "{}: {}", backend.name(), wrong.collect::<Vec<_>>().join("\n"));
    }
}

/// What is not finite in a matrix shows in its factors, wherever it stands: rotations end at a NaN and leave the rest.
#[test]
fn factors_of_a_matrix_that_is_not_finite_are_not_finite_on_xla() {
    let Some(backend) = plugin(pjrt::CPU, 1) else { return };
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F64, DType::Complex64] {
        let ty = Type::new(dtype, [3, 3]);
        for (op, name) in
            [(Op::Qr, "qr"), (Op::Eigh, "eigh"), (Op::Lu, "lu"), (Op::Cholesky { lower: true }, "cholesky")]
        {
            let mut runs = Vec::new();
            // Of the lower triangle, which all of them read.
            for at in [0, 3, 4, 6, 7, 8] {
                for strange in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                    let mut x = arguments::dominant(&ty, 7).cast_vec::<f64>();
                    x[at] = strange;
                    runs.push(vec![with_element!(dtype, T => {
                        Array::new([3, 3], &x.iter().map(|&x| cast::<f64, T>(x)).collect::<Vec<_>>()).unwrap()
                    })]);
                }
            }
            cases.push(Case::alone(
                format!("{name} {dtype}"),
                samples::program(std::slice::from_ref(&ty), op).unwrap(),
                runs,
            ));
        }
    }
    let outcome = batch::run(&backend, &cases, cases.len(), &|_, rows, got| {
        // The eigenvalues, or the factor with the sizes of the rest.
        let factor = if got[0].len() == 2 && got[0][0].sizes() == [3, 3] { &got[0][1] } else { &got[0][0] };
        let finite = factor.cast_vec::<Complex64>().iter().all(|x| x.re.is_finite() && x.im.is_finite());
        finite.then(|| format!("{:?} of {:?}", factor.cast_vec::<Complex64>(), rows[0][0].cast_vec::<Complex64>()))
    });
    let wrong = outcome.wrong.iter().map(|(number, message)| format!("{}: {message}", cases[*number].name));
    assert!(outcome.wrong.is_empty(), "{}", wrong.collect::<Vec<_>>().join("\n"));
}

/// Bytes wrap around: 27 times 200 is 24. XLA, which computes with constants before the program runs, would give 127.
#[test]
fn a_convolution_of_constants_wraps_around_on_xla_too() {
    let Some(backend) = plugin(pjrt::CPU, 1) else { return };
    let name = "convolution int8";
    let sample = samples::every_op().into_iter().find(|(other, _)| other == name).expect("a sample").1;
    let types: Vec<Type> = sample.parameter_types(sample.main()).cloned().collect();
    let filled = |ty: &Type, number: i8| Literal::splat(DType::I8, ty.shape.clone(), number);
    let mut graph = Graph::new();
    let main = graph.main();
    let (x, kernel) = (graph.constant(main, filled(&types[0], 100)), graph.constant(main, filled(&types[1], 2)));
    let product = graph.push(main, ops(&sample)[0].clone(), &[x, kernel]).unwrap();
    graph.set_results(main, vec![product.into()]);
    let expected = evaluate(&graph, &[]).unwrap().results;
    assert_eq!(run(&backend, &graph, &[], CompileOptions::default()).unwrap(), expected);
    assert!(expected[0].to_vec::<i8>().unwrap().iter().all(|&x| x != 127));
}

/// `x₁ = 1`, `k x₁ + x₂ = k + 1`, `k x₂ + x₃ = k + 1`: all are one. The inverse has `k²` in its last row, where three terms
/// cancel, so that XLA's solution does not satisfy what one by substitution does (`testing/backward.rs`).
#[test]
fn xla_solves_by_an_inverse() {
    let Some(backend) = plugin(pjrt::CPU, 1) else { return };
    let k = 3001.3f32;
    let inputs = [
        Array::new([3, 3], &[1.0, 0.0, 0.0, k, 1.0, 0.0, 0.0, k, 1.0]).unwrap(),
        Array::new([3, 1], &[1.0, k + 1.0, k + 1.0]).unwrap(),
    ];
    let transpose = TransposeKind::None;
    let op = Op::TriangularSolve { left: true, lower: true, unit_diagonal: false, transpose };
    let graph = samples::program(&[inputs[0].ty().clone(), inputs[1].ty().clone()], op).unwrap();
    let satisfies = |x: &Array| {
        let (x, k, b) = (x.cast_vec::<f64>(), f64::from(k), f64::from(k + 1.0));
        let allowed = 2.0 * (3.0 + 4.0) * 2f64.powi(-24) * (k * x[1].abs() + x[2].abs() + b);
        (k * x[1] + x[2] - b).abs() <= allowed
    };
    for backend in [&Host::from_env().unwrap() as &dyn Backend, &backend] {
        let got = run(backend, &graph, &inputs, CompileOptions::default()).unwrap();
        assert_eq!(satisfies(&got[0]), backend.name() == "host", "{}: {:?}", backend.name(), got[0]);
    }
}

/// Of a window of two by two the second and the third element are the largest.
#[test]
fn xla_selects_another_of_equal_elements() {
    let Some(backend) = plugin(pjrt::CPU, 1) else { return };
    let name = "select_and_scatter float32";
    let graph = samples::every_op().into_iter().find(|(other, _)| other == name).expect("a sample").1;
    // Windows begin one to the left of the matrix: the second one of a row covers columns 1 and 2.
    let channel = |matrix: [f32; 16]| matrix.into_iter().flat_map(|x| [x, 0.0]).collect::<Vec<f32>>();
    let mut matrix = [-5.0; 16];
    (matrix[2], matrix[5]) = (2.0, 2.0);
    let x = Array::new([1, 4, 4, 2], &channel(matrix)).unwrap();
    let mut sources = [0f32; 12];
    sources[2] = 10.0;
    let source = Array::new([1, 2, 3, 2], &sources).unwrap();
    let place = |results: &[Array]| results[0].to_vec::<f32>().unwrap().iter().position(|&sum| sum == 10.0).unwrap();
    let expected = evaluate(&graph, &[x.clone(), source.clone()]).unwrap().results;
    assert_eq!(place(&expected), 2 * 2);
    let got = run(&backend, &graph, &[x, source], CompileOptions::default()).unwrap();
    assert_eq!(place(&got), 2 * 5);
}

/// Where an infinite element of the kernel meets no element of the input but zeros: those of padding, which StableHLO's
/// specification has multiplied, and those that XLA puts in the place of what other groups have, which it has not.
#[test]
fn xla_multiplies_zeros_of_a_convolution_as_it_likes() {
    let Some(backend) = plugin(pjrt::CPU, 1) else { return };
    let both = |graph: &Graph, inputs: &[Array]| -> (Vec<f32>, Vec<f32>) {
        let expected = evaluate(graph, inputs).unwrap().results[0].to_vec().unwrap();
        let got = run(&backend, graph, inputs, CompileOptions::default()).unwrap()[0].to_vec().unwrap();
        (expected, got)
    };
    let name = "convolution batch groups";
    let graph = samples::every_op().into_iter().find(|(other, _)| other == name).expect("a sample").1;
    let mut kernel = [1f32; 3 * 3 * 2 * 6];
    // Of the last output feature, which is in the second group.
    kernel[5] = f32::INFINITY;
    let inputs = [Array::new([4, 5, 5, 2], &[1f32; 200]).unwrap(), Array::new([3, 3, 2, 6], &kernel).unwrap()];
    let (expected, got) = both(&graph, &inputs);
    // The third feature, in the first group: 12 ones, by arithmetic.
    assert!(expected[2] == 12.0 && got[2].is_nan(), "{expected:?}, {got:?}");

    let Op::Convolution(dims) = ops(&graph)[0] else { panic!("a convolution") };
    let mut graph = Graph::new();
    let main = graph.main();
    let x = graph.parameter(main, Type::new(DType::F32, [1, 1, 1, 1]));
    let y = graph.parameter(main, Type::new(DType::F32, [1, 1, 1, 1]));
    let padding = smallvec![(1, 0), (0, 0)];
    let dims = ConvDims { padding, strides: smallvec![1, 1], batch_groups: 1, ..ConvDims::clone(dims) };
    let z = graph.push(main, Op::Convolution(dims.into()), &[x, y]).unwrap();
    graph.set_results(main, vec![z.into()]);
    let one = |x: f32| Array::new([1, 1, 1, 1], &[x]).unwrap();
    let (expected, got) = both(&graph, &[one(1.0), one(f32::INFINITY)]);
    assert!(expected[0].is_nan() && expected[1] == f32::INFINITY, "{expected:?}");
    assert_eq!(got, [0.0, f32::INFINITY]);
}

/// A convolution along one axis and windows of one element, cut and padded at their ends, against the interpreter. Found by the long
/// sweep of random graphs: XLA for CPU read other memory where an axis was cut at the start and padded at the end, and ended the
/// process for windows of one element that were only cut.
#[test]
fn what_is_cut_and_padded_agrees_with_the_interpreter() {
    let paddings = [(-1, 1), (0, 1), (-1, 0), (1, -1), (-2, 2), (-1, -1)];
    let convolution = |dtype, padding, dilation, groups| {
        let dims = ConvDims {
            input_batch: 1,
            input_feature: 0,
            input_spatial: smallvec![2],
            kernel_input_feature: 2,
            kernel_output_feature: 1,
            kernel_spatial: smallvec![0],
            output_batch: 1,
            output_feature: 0,
            output_spatial: smallvec![2],
            strides: smallvec![1],
            padding: smallvec![padding],
            input_dilation: smallvec![dilation],
            kernel_dilation: smallvec![1],
            reversal: smallvec![false],
            feature_groups: groups,
            batch_groups: 1,
            precision: Precision::Highest,
            result: dtype,
        };
        let types = [Type::new(dtype, [4, 2, 6]), Type::new(dtype, [2, 2, 4 / groups])];
        samples::program(&types, Op::Convolution(Arc::new(dims))).unwrap()
    };
    let windows = |kind, padding, stride, dilation| {
        let window = Window {
            sizes: smallvec![1, 1],
            strides: smallvec![1, stride],
            base_dilations: smallvec![1, dilation],
            window_dilations: smallvec![1, 1],
            padding: smallvec![(0, 0), padding],
        };
        samples::program(&[Type::new(DType::I32, [1, 7])], Op::ReduceWindow { kind, window: Arc::new(window) }).unwrap()
    };
    let mut graphs = Vec::new();
    for padding in paddings {
        for (dilation, groups) in [(1, 1), (1, 2), (2, 1)] {
            graphs.extend(
                [DType::F32, DType::F16, DType::I32].map(|dtype| convolution(dtype, padding, dilation, groups)),
            );
            graphs.push(windows(Reducer::Sum, padding, groups, dilation));
            graphs.push(windows(Reducer::Max, padding, groups, dilation));
        }
    }
    let case = |(number, graph): (usize, Graph)| {
        let runs = (0..2).map(|run| inputs(&graph, run, Style::Ordinary)).collect();
        Case::alone(format!("{number}: {:?}", ops(&graph)[0]), graph, runs)
    };
    let cases: Vec<Case> = graphs.into_iter().enumerate().map(case).collect();
    for file in [pjrt::CPU, pjrt::OLD_CPU] {
        let Some(backend) = plugin(file, 1) else { continue };
        judged(&backend, &cases, &[]);
    }
}
