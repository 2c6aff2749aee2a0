//! One test for each law of the table: what the program becomes, what stays as it is, and that no bit changes.

use super::simplify;
use crate::ir::{Axes, BinaryOp, BlockId, DotDims, Graph, Op, Precision, Reducer, Type, UnaryOp, Value};
use crate::runtime::host::tests::{arguments, run, run_plain};
use crate::{DType, Literal, Shape};
use smallvec::smallvec;
use std::sync::Arc;

/// A program of parameters of these types and what `body` makes of them.
fn program(types: &[Type], body: impl FnOnce(&mut Graph, &[Value]) -> Vec<Value>) -> Graph {
    let mut graph = Graph::new();
    let main = graph.main();
    let parameters: Vec<Value> = types.iter().map(|ty| graph.parameter(main, ty.clone())).collect();
    let results = body(&mut graph, &parameters);
    graph.set_results(main, results);
    graph
}

fn push(graph: &mut Graph, op: Op, operands: &[Value]) -> Value {
    let main = graph.main();
    graph.push(main, op, operands).unwrap().into()
}

fn f32s(sizes: &[usize]) -> Type {
    Type::new(DType::F32, sizes)
}

/// The ops of the simplified program but its parameters, in order. Asserts that it gives the bits that its ops give one by one.
fn ops(graph: &Graph) -> Vec<Op> {
    let simplified = simplify(graph).graph;
    assert!(crate::ir::verify::verify(&simplified).is_ok(), "{simplified:#?}");
    let arguments = arguments(graph, 9);
    let (whole, again) = (run(graph, &arguments), run(&simplified, &arguments));
    assert!(whole == again, "{graph:#?} simplified to {simplified:#?}");
    let ops = simplified.nodes.into_iter().map(|node| node.op);
    ops.filter(|op| !matches!(op, Op::Parameter { .. })).collect()
}

fn names(graph: &Graph) -> Vec<&'static str> {
    ops(graph).iter().map(Op::name).collect()
}

/// The names for one op on one operand.
fn alone(ty: &Type, op: Op) -> Vec<&'static str> {
    names(&program(std::slice::from_ref(ty), |graph, x| vec![push(graph, op, x)]))
}

fn broadcast(sizes: &[usize], axes: &[usize]) -> Op {
    Op::BroadcastInDim { shape: sizes.into(), axes: axes.into() }
}

fn slice(start: &[usize], limit: &[usize]) -> Op {
    Op::Slice { start: start.into(), limit: limit.into(), strides: smallvec![1; start.len()] }
}

#[test]
fn movement_that_moves_nothing_is_its_operand() {
    let x = f32s(&[3, 3]);
    for nothing in [
        Op::Convert(DType::F32),
        Op::Transpose(smallvec![0, 1]),
        Op::Reshape([3, 3].into()),
        broadcast(&[3, 3], &[0, 1]),
        slice(&[0, 0], &[3, 3]),
    ] {
        assert!(alone(&x, nothing.clone()).is_empty(), "{nothing:?}");
    }
    for something in [
        Op::Convert(DType::F64),
        Op::Transpose(smallvec![1, 0]),
        Op::Reshape([9].into()),
        broadcast(&[3, 3], &[1, 0]),
        slice(&[0, 1], &[3, 3]),
    ] {
        assert_eq!(alone(&x, something.clone()), [something.name()]);
    }
}

#[test]
fn a_reshape_of_a_reshape_is_the_outer_one() {
    let twice = |last: Shape| {
        program(&[f32s(&[6, 4])], |graph, x| {
            let flat = push(graph, Op::Reshape([24].into()), x);
            vec![push(graph, Op::Reshape(last), &[flat])]
        })
    };
    assert_eq!(ops(&twice([3, 8].into())), [Op::Reshape([3, 8].into())]);
    assert!(ops(&twice([6, 4].into())).is_empty());
}

fn sum(ty: Type, axes: &[usize]) -> Graph {
    program(&[ty], |graph, x| vec![push(graph, Op::Reduce { kind: Reducer::Sum, axes: axes.into() }, x)])
}

/// The axes of the reductions, in order.
fn reduced(graph: &Graph) -> Vec<Axes> {
    let axes = |op| match op {
        Op::Reduce { axes, .. } => Some(axes),
        _ => None,
    };
    ops(graph).into_iter().filter_map(axes).collect()
}

#[test]
fn a_reduction_over_axes_of_size_one_is_a_reshape() {
    assert_eq!(names(&sum(Type::new(DType::I32, [4, 1, 5, 1]), &[1, 3])), ["reshape"]);
    // The sum of −0 is 0.
    assert_eq!(names(&sum(f32s(&[4, 1, 5, 1]), &[1, 3])), ["reshape", "constant", "add"]);
    // Next to others they only go.
    assert_eq!(reduced(&sum(f32s(&[4, 1, 5, 1]), &[1, 2])), [Axes::from_slice(&[2])]);
    // A sum of nothing is not its operand.
    assert_eq!(names(&sum(f32s(&[0, 1]), &[0])), ["reduce"]);
}

#[test]
fn a_reduction_over_separate_runs_of_axes_is_one_after_the_other_from_the_inside() {
    let axes = |list: &[&[usize]]| list.iter().map(|&axes| Axes::from_slice(axes)).collect::<Vec<_>>();
    assert_eq!(reduced(&sum(f32s(&[4, 5, 6, 7]), &[0, 2])), axes(&[&[2], &[0]]));
    assert_eq!(reduced(&sum(f32s(&[4, 5, 6, 7]), &[0, 2, 3])), axes(&[&[2, 3], &[0]]));
    // Neighbours are one run, also with an axis of size one between them.
    assert_eq!(reduced(&sum(f32s(&[4, 5, 6, 7]), &[1, 2])), axes(&[&[1, 2]]));
    assert_eq!(reduced(&sum(f32s(&[4, 5, 1, 6]), &[1, 3])), axes(&[&[1, 3]]));
    // Integers wrap alike in any order.
    assert_eq!(reduced(&sum(Type::new(DType::I32, [4, 5, 6, 7]), &[0, 2])), axes(&[&[0, 2]]));
}

fn product(dtype: DType, result: DType, lhs: &[usize], contract: usize) -> Graph {
    let dims = DotDims {
        lhs_batch: smallvec![],
        rhs_batch: smallvec![],
        lhs_contract: smallvec![contract],
        rhs_contract: smallvec![0],
        precision: Precision::Highest,
        result,
    };
    let k = lhs[contract];
    program(&[Type::new(dtype, lhs), Type::new(dtype, [k, 3])], |graph, x| {
        vec![push(graph, Op::DotGeneral(Arc::new(dims)), x)]
    })
}

#[test]
fn sixteen_bit_floats_are_summed_in_f32_and_multiplied_as_they_are() {
    for dtype in [DType::BF16, DType::F16] {
        let there_and_back = [Op::Convert(DType::F32), Op::Convert(dtype)];
        let steps = ops(&sum(Type::new(dtype, [4, 5]), &[1]));
        assert_eq!([&steps[0], &steps[2]], [&there_and_back[0], &there_and_back[1]]);
        assert_eq!(steps[1].name(), "reduce");

        for result in [dtype, DType::F32] {
            let steps = ops(&product(dtype, result, &[4, 5], 1));
            assert!(matches!(&steps[..], [Op::DotGeneral(dims)] if dims.result == result));
        }
        // Into f64 it is a sum in f64, and there is nothing to round.
        let steps = ops(&product(dtype, DType::F64, &[4, 5], 1));
        assert_eq!(steps[..2], [Op::Convert(DType::F64), Op::Convert(DType::F64)]);
        assert!(matches!(&steps[2..], [Op::DotGeneral(dims)] if dims.result == DType::F64));
    }
}

#[test]
fn a_product_whose_contracted_axis_lies_between_free_ones_is_one_of_a_transpose() {
    let steps = ops(&product(DType::F32, DType::F32, &[4, 5, 6], 1));
    assert_eq!(steps[0], Op::Transpose(smallvec![0, 2, 1]));
    assert!(matches!(&steps[1..], [Op::DotGeneral(dims)] if dims.lhs_contract[..] == [2]));
    // At either end it can be read by strides.
    for (sizes, contract) in [([4, 5, 6], 0), ([4, 5, 6], 2)] {
        assert_eq!(names(&product(DType::F32, DType::F32, &sizes, contract)), ["dot_general"]);
    }
}

#[test]
fn values_equal_by_construction_are_one() {
    let two_sums = program(&[f32s(&[4]), f32s(&[4])], |graph, x| {
        let first = push(graph, Op::Binary(BinaryOp::Add), x);
        let second = push(graph, Op::Binary(BinaryOp::Add), x);
        vec![push(graph, Op::Binary(BinaryOp::Multiply), &[first, second])]
    });
    assert_eq!(names(&two_sums), ["add", "multiply"]);
    // Operands in another order are not the same construction.
    let swapped = program(&[f32s(&[4]), f32s(&[4])], |graph, x| {
        let first = push(graph, Op::Binary(BinaryOp::Subtract), x);
        let second = push(graph, Op::Binary(BinaryOp::Subtract), &[x[1], x[0]]);
        vec![push(graph, Op::Binary(BinaryOp::Multiply), &[first, second])]
    });
    assert_eq!(names(&swapped), ["subtract", "subtract", "multiply"]);
}

#[test]
fn constants_are_one_only_if_their_bits_are() {
    let constants = |a: f32, b: f32| {
        program(&[f32s(&[2])], |graph, x| {
            let main = graph.main();
            let literal = |value: f32| Literal::new([2], &[value, 1.0]).unwrap();
            let (a, b) = (graph.constant(main, literal(a)), graph.constant(main, literal(b)));
            let y = push(graph, Op::Binary(BinaryOp::Divide), &[x[0], a]);
            let z = push(graph, Op::Binary(BinaryOp::Divide), &[y, b]);
            vec![z]
        })
    };
    let count = |graph: &Graph| names(graph).into_iter().filter(|&name| name == "constant").count();
    assert_eq!(count(&constants(2.0, 2.0)), 1);
    // Division tells the zeros apart.
    assert_eq!(count(&constants(0.0, -0.0)), 2);
}

#[test]
fn a_constant_of_one_value_in_another_shape_is_that_constant() {
    let moved = |value: Literal, op: Op| {
        program(&[], |graph, _| {
            let main = graph.main();
            let constant = graph.constant(main, value);
            vec![push(graph, op, &[constant])]
        })
    };
    let splat = Literal::splat(DType::F32, [2, 3], 0.5);
    for op in [broadcast(&[4, 2, 3], &[1, 2]), Op::Reshape([6].into()), slice(&[0, 1], &[2, 3])] {
        assert!(matches!(&ops(&moved(splat.clone(), op))[..], [Op::Constant(literal)] if literal.is_splat()));
    }
    // A conversion changes the value, and other constants have elements to move.
    assert_eq!(names(&moved(splat, Op::Convert(DType::F64))), ["constant", "convert"]);
    let numbers = Literal::new([2], &[1f32, 2.0]).unwrap();
    assert_eq!(names(&moved(numbers, Op::Reshape([2, 1].into()))), ["constant", "reshape"]);
}

/// A causal mask, twice: cheaper to make again than to keep.
#[test]
fn what_reads_constants_and_counters_only_is_not_merged() {
    let masks = |generated: bool| {
        program(&[Type::new(DType::I32, [4, 4])], |graph, x| {
            let iota = Op::Iota { axis: 0, dtype: DType::I32, shape: [4, 4].into() };
            let rows = push(graph, iota, &[]);
            let columns = if generated { push(graph, Op::Transpose(smallvec![1, 0]), &[rows]) } else { x[0] };
            (0..2).map(|_| push(graph, Op::Binary(BinaryOp::Subtract), &[rows, columns])).collect()
        })
    };
    let count = |graph: &Graph| names(graph).into_iter().filter(|&name| name == "subtract").count();
    assert_eq!(count(&masks(true)), 2);
    assert_eq!(count(&masks(false)), 1);
}

#[test]
fn nothing_is_merged_across_a_barrier_which_then_costs_nothing() {
    let graph = program(&[f32s(&[4]), f32s(&[4])], |graph, x| {
        let before = push(graph, Op::Binary(BinaryOp::Add), x);
        let held = push(graph, Op::OptimizationBarrier, x);
        let y = Value { node: held.node, result: 1 };
        vec![before, push(graph, Op::Binary(BinaryOp::Add), &[held, y])]
    });
    assert_eq!(names(&graph), ["add", "optimization_barrier", "add"]);
    let kernels =
        super::super::compile(&graph, Default::default(), super::super::Isa::available(), false).unwrap().1.listing();
    assert!(kernels.iter().all(|kernel| kernel.kind == "row_program"), "{kernels:#?}");
}

#[test]
fn composites_are_their_bodies_and_share_what_is_equal() {
    let graph = program(&[f32s(&[4])], |graph, x| {
        let body = |graph: &mut Graph| {
            let block = graph.block();
            let inner = graph.parameter(block, f32s(&[4]));
            let y = graph.push(block, Op::Unary(UnaryOp::Exp), &[inner]).unwrap();
            graph.set_results(block, vec![y.into()]);
            block
        };
        let call = |body: BlockId| Op::Composite { name: "test.exp".into(), attributes: Arc::default(), body };
        let (first, second) = (body(graph), body(graph));
        let (first, second) = (push(graph, call(first), x), push(graph, call(second), x));
        vec![push(graph, Op::Binary(BinaryOp::Add), &[first, second])]
    });
    assert_eq!(names(&graph), ["exponential", "add"]);
}

#[test]
fn what_nothing_reads_goes_and_parameters_stay() {
    let graph = program(&[f32s(&[4]), f32s(&[5])], |graph, x| {
        push(graph, Op::Unary(UnaryOp::Exp), &x[1..]);
        vec![push(graph, Op::Unary(UnaryOp::Log), &x[..1])]
    });
    assert_eq!(names(&graph), ["log"]);
    assert_eq!(simplify(&graph).graph.blocks[0].parameters.len(), 2);
}

/// Bits of the rewritten program against the plain kernels, op by op, for the rewrites that say what a reduction means.
#[test]
fn rewritten_reductions_and_products_are_what_the_plain_kernels_give() {
    let exact = [
        sum(Type::new(DType::I32, [4, 5, 6, 7]), &[0, 2]),
        sum(f32s(&[4, 1, 5, 1]), &[1, 3]),
        product(DType::BF16, DType::BF16, &[4, 5], 1),
        product(DType::F16, DType::F32, &[4, 5], 1),
    ];
    for graph in exact {
        let arguments = arguments(&graph, 4);
        assert_eq!(run(&graph, &arguments), run_plain(&graph, &arguments).unwrap(), "{graph:#?}");
    }
}
