//! Every op and dtype on XLA for CPU, against the interpreter.
#![allow(clippy::print_stderr, reason = "a test that does not run says so, and what it covered")]

mod pjrt;

use smallvec::smallvec;
use std::collections::BTreeMap;
use std::sync::Mutex;
use tpu_core::ir::{ConvDims, Graph, Op, Reducer, ScatterDims, Type, UnaryOp, samples, support};
use tpu_core::reference::{Array, evaluate};
use tpu_core::runtime::pjrt::{OptionValue, Pjrt, PjrtOptions};
use tpu_core::runtime::{Backend, CompileOptions};
use tpu_core::testing::batch::{self, Case};
use tpu_core::testing::compare::run;
use tpu_core::testing::{arguments, xla};
use tpu_core::{DType, dtype::convert::cast, with_element};

/// The ops of the program besides its parameters.
fn ops(graph: &Graph) -> Vec<&Op> {
    let nodes = graph[graph.main()].nodes.iter().map(|&id| &graph[id].op);
    nodes.filter(|op| !matches!(op, Op::Parameter { .. })).collect()
}

/// Whether special values are compared: sums and products with them depend on their order.
fn takes_special_values(op: &Op) -> bool {
    use Reducer::{Product, Sum};
    !matches!(
        op,
        Op::Reduce { kind: Sum | Product, .. }
            | Op::ReduceWindow { kind: Sum | Product, .. }
            | Op::Cumulative { kind: Sum | Product, .. }
            | Op::SelectAndScatter { .. }
            | Op::DotGeneral(_)
            | Op::Convolution(_)
            | Op::Fft { .. }
            | Op::Scatter(_)
            | Op::Cholesky { .. }
            | Op::TriangularSolve { .. }
            | Op::Qr
            | Op::Eigh
            | Op::Lu
    )
}

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
    let style = if ops.iter().all(|op| takes_special_values(op)) { style } else { Style::Ordinary };
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

/// With one device.
fn plugin(file: &str) -> Option<Pjrt> {
    let client = vec![("cpu_device_count".to_string(), OptionValue::Int(1))];
    pjrt::plugin(file).map(|path| Pjrt::open(path, &PjrtOptions { client, ..PjrtOptions::default() }).unwrap())
}

fn agrees(plugin: &str, known: &[(&str, &str)]) {
    let Some(backend) = self::plugin(plugin) else { return };
    let (mut cases, mut unsupported) = (Vec::new(), BTreeMap::<&str, usize>::new());
    for (name, graph) in samples::every_op() {
        let large = graph.nodes.iter().any(|node| node.types.iter().any(|ty| ty.bytes().is_none_or(|n| n > 1 << 20)));
        if large || graph.nodes.iter().any(|node| matches!(node.op, Op::CustomCall(_))) {
            continue;
        }
        match graph.nodes.iter().find(|node| backend.supports(&node.op).is_err()) {
            Some(node) => *unsupported.entry(node.op.name()).or_default() += 1,
            None => {
                let graph = widened(graph);
                let runs = (0..).zip(RUNS).map(|(run, style)| inputs(&graph, 100 * run, style)).collect();
                cases.push(Case { name, graph, runs });
            }
        }
    }
    let outcome = batch::run(&backend, &cases, 32, &xla::judge);
    eprintln!(
        "of {} samples in {} programs {} differ; not supported: {unsupported:?}",
        cases.len(),
        outcome.programs,
        outcome.wrong.len()
    );
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

/// Functions of many numbers: how far XLA is from the exact result, in steps of the type.
#[test]
fn functions_are_within_their_bounds_for_many_numbers() {
    let Some(backend) = plugin(pjrt::CPU) else { return };
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
                cases.push(Case { name, graph: samples::program(&[ty], op).unwrap(), runs });
            }
        }
    }
    let measured = Mutex::new(BTreeMap::<String, (u64, String)>::new());
    let outcome = batch::run(&backend, &cases, 32, &|case, inputs, got| {
        let expected = evaluate(&case.graph, inputs).unwrap().results;
        let (steps, at) = xla::most_steps(inputs, &expected[0], &got[0]);
        let of = inputs[0].cast_vec::<f64>()[at];
        let mut measured = measured.lock().unwrap();
        let most = measured.entry(case.name.clone()).or_default();
        *most = most.clone().max((steps, format!("of {of:e}")));
        xla::judge(case, inputs, got)
    });
    for (name, (steps, at)) in measured.into_inner().unwrap() {
        eprintln!("{name}: {steps} steps {at}");
    }
    let wrong: Vec<String> =
        outcome.wrong.iter().map(|(number, message)| format!("{}: {message}", cases[*number].name)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Of a window of two by two the second and the third element are the largest.
#[test]
fn xla_selects_another_of_equal_elements() {
    let Some(backend) = plugin(pjrt::CPU) else { return };
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
    let Some(backend) = plugin(pjrt::CPU) else { return };
    let both = |graph: &Graph, inputs: &[Array]| {
        let expected = evaluate(graph, inputs).unwrap().results[0].to_vec::<f32>().unwrap();
        let got = run(&backend, graph, inputs, CompileOptions::default()).unwrap()[0].to_vec::<f32>().unwrap();
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
