//! Loops and branches: what they compute, where their values are, and what is left when they fail.

use super::build::Build;
use super::*;
use crate::ir::samples::row_scatter;
use crate::ir::{BinaryOp, Comparison, Reducer};
use crate::reference::{Array, evaluate};
use crate::{ErrorKind, Literal, Shape};
use smallvec::smallvec;

/// A program of parameters of these types.
fn block(types: &[Type], build: impl FnOnce(&mut Build, &[Value]) -> Vec<Value>) -> Graph {
    let mut b = Build::new();
    let parameters: Vec<Value> = types.iter().map(|ty| b.0.parameter(b.0.main(), ty.clone())).collect();
    let results = build(&mut b, &parameters);
    b.done(&results)
}

fn integer(b: &mut Build, value: i64) -> Value {
    let main = b.0.main();
    b.0.constant(main, Literal::splat(DType::I32, Shape::scalar(), value))
}

/// Adds a loop whose last value counts the rounds, of which there are `rounds`; `body` gives the other values.
pub(super) fn counted(
    b: &mut Build,
    operands: &[Value],
    rounds: i64,
    body: impl FnOnce(&mut Build, &[Value]) -> Vec<Value>,
) -> Vec<Value> {
    let mut operands = operands.to_vec();
    operands.push(integer(b, 0));
    let types: Vec<Type> = operands.iter().map(|&value| b.0.ty(value).clone()).collect();
    let count = types.len();
    let cond = block(&types, |b, x| {
        let limit = integer(b, rounds);
        vec![b.op(Op::Compare(Comparison::Lt), &[x[count - 1], limit])]
    });
    let body = block(&types, |b, x| {
        let mut values = body(b, x);
        let one = integer(b, 1);
        values.push(b.op(Op::Binary(BinaryOp::Add), &[x[count - 1], one]));
        values
    });
    let (cond, body) = (b.0.import(&cond), b.0.import(&body));
    let node = b.op(Op::While { cond, body }, &operands).node;
    (0..count as u32).map(|result| Value { node, result }).collect()
}

/// The results of a program by the interpreter.
fn interpreted(graph: &Graph, arguments: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let types = graph.parameter_types(graph.main());
    let arrays = types.zip(arguments).map(|(ty, bytes)| Array::from_bytes(ty.clone(), bytes.clone()).unwrap());
    let outcome = evaluate(graph, &arrays.collect::<Vec<_>>()).unwrap();
    outcome.results.iter().map(|result| result.bytes().to_vec()).collect()
}

/// Elements whose sums and doubles are exact.
fn exact(graph: &Graph) -> Vec<Vec<u8>> {
    let fill = |ty: &Type| {
        let numbers = (0..ty.shape.elements().unwrap()).map(|i| crate::Scalar::Int((i % 13) as i64));
        numbers.flat_map(|number| number.to_bytes(ty.dtype).as_slice().to_vec()).collect()
    };
    graph.parameter_types(graph.main()).map(fill).collect()
}

#[track_caller]
fn assert_agrees(graph: &Graph) {
    let values = exact(graph);
    for threads in [1, 2] {
        let got = run_with(&host(threads, Isa::available()), graph, CompileOptions::default(), &values).unwrap().0;
        assert_eq!(got, interpreted(graph, &values));
    }
}

/// Writes a row of the table, whose number is the round.
fn write_row(b: &mut Build, table: Value, row: Value, round: Value) -> Value {
    let zero = integer(b, 0);
    b.op(Op::DynamicUpdateSlice, &[table, row, round, zero])
}

/// Adds a row of ones to two rows of the table.
fn add_rows(b: &mut Build, table: Value, round: Value) -> Value {
    let width = b.sizes(table)[1];
    let main = b.0.main();
    let ones = b.0.constant(main, Literal::splat(DType::F32, [2, width], 1.0));
    let pair = b.op(Op::BroadcastInDim { shape: [2].into(), axes: smallvec![] }, &[round]);
    let dims = row_scatter(Some(Reducer::Sum));
    b.op(Op::Scatter(Arc::new(dims)), &[table, pair, ones])
}

/// A loop that changes a part of a large value, one that changes all of it, and loops around such loops: beside argument and
/// result there is never a third copy.
#[test]
fn a_large_value_is_changed_where_it_is() {
    const ROWS: usize = 2048;
    const BYTES: usize = ROWS * 256 * 4;
    type Body = fn(&mut Build, &[Value]) -> Vec<Value>;
    let bodies: [(&str, Body); 5] = [
        ("rows written", |b, x| {
            let row = b.op(Op::DynamicSlice { sizes: smallvec![1, 256] }, &[x[0], x[1], x[1]]);
            let row = b.scale(row, 2.0);
            vec![write_row(b, x[0], row, x[1])]
        }),
        ("rows added", |b, x| vec![add_rows(b, x[0], x[1])]),
        ("doubled", |b, x| vec![b.scale(x[0], 2.0)]),
        ("a loop inside", |b, x| vec![counted(b, &x[..1], 3, |b, x| vec![add_rows(b, x[0], x[1])])[0]]),
        ("a kernel that may fail after the change", |b, x| {
            let table = add_rows(b, x[0], x[1]);
            let row = b.op(Op::DynamicSlice { sizes: smallvec![1, 256] }, &[table, x[1], x[1]]);
            let sorted = b.op(Op::Sort { axis: 1, descending: true, stable: true }, &[row]);
            vec![write_row(b, table, sorted, x[1])]
        }),
    ];
    for (name, body) in bodies {
        let mut b = Build::new();
        let table = b.input(DType::F32, &[ROWS, 256]);
        let values = counted(&mut b, &[table], 5, body);
        let graph = b.done(&values[..1]);
        let host = host(1, Isa::available());
        let arguments = exact(&graph);
        let got = run_with(&host, &graph, CompileOptions::default(), &arguments).unwrap().0;
        assert_eq!(got, interpreted(&graph, &arguments), "{name}");
        let peak = host.memory(0).peak;
        assert!(peak < 2 * BYTES + BYTES / 4, "{name}: {peak} bytes, of which {BYTES} are one copy");
    }
}

/// Two loops that start from zeros, as derivatives of recurrent layers do. What they go through is computed and is not needed
/// later: they read it, and build their results, where it is.
#[test]
fn values_of_a_loop_that_nothing_else_reads_are_in_memory_once() {
    const ROWS: usize = 2048;
    const BYTES: usize = ROWS * 256 * 4;
    let mut b = Build::new();
    let input = b.input(DType::F32, &[ROWS, 256]);
    let written = |b: &mut Build, from: Value, factor: f64| {
        let through = b.scale(from, factor);
        let main = b.0.main();
        let zeros = b.0.constant(main, Literal::splat(DType::F32, [ROWS, 256], 0));
        counted(b, &[through, zeros], 5, |b, x| {
            let row = b.op(Op::DynamicSlice { sizes: smallvec![1, 256] }, &[x[0], x[2], x[2]]);
            vec![x[0], write_row(b, x[1], row, x[2])]
        })[1]
    };
    let first = written(&mut b, input, 2.0);
    let second = written(&mut b, first, 3.0);
    let graph = b.done(&[second]);
    let (host, arguments) = (host(1, Isa::available()), exact(&graph));
    let got = run_with(&host, &graph, CompileOptions::default(), &arguments).unwrap().0;
    assert_eq!(got, interpreted(&graph, &arguments));
    // Argument and result, and what the first loop reads and writes.
    let peak = host.memory(0).peak;
    assert!(peak < 4 * BYTES + BYTES / 4, "{peak} bytes, of which {BYTES} are one value");
}

#[test]
fn an_update_outside_of_loops_writes_over_its_operand_too() {
    let mut b = Build::new();
    let (x, round) = (b.input(DType::F32, &[64, 256]), b.input(DType::I32, &[]));
    let sum = add_rows(&mut b, x, round);
    let graph = b.done(&[sum]);
    let host = host(1, Isa::available());
    let values = exact(&graph);
    let executable = host.compile(&graph, CompileOptions::default()).unwrap();
    let donated = host.upload(0, graph.ty(x), &values[0]).unwrap();
    let any: &dyn std::any::Any = &*donated;
    let at = any.downcast_ref::<super::super::buffer::HostBuffer>().unwrap().block().at();
    let round = host.upload(0, graph.ty(round), &values[1]).unwrap();
    let outcome = executable.run(0, &mut [Argument::Donated(donated), Argument::Shared(round)]).unwrap();
    let any: &dyn std::any::Any = &*outcome.results[0];
    assert_eq!(any.downcast_ref::<super::super::buffer::HostBuffer>().unwrap().block().at(), at);
    assert_eq!(read(&*outcome.results[0]), interpreted(&graph, &values)[0]);
}

/// The operand that would be written over is read as updates, whole or in part.
#[test]
fn an_update_by_its_own_operand_reads_it_as_it_was() {
    let mut b = Build::new();
    let x = b.input(DType::F32, &[4, 3]);
    let values = counted(&mut b, &[x], 3, |b, x| {
        let top = b.op(Op::Slice { start: smallvec![0, 0], limit: smallvec![2, 3], strides: smallvec![1, 1] }, &[x[0]]);
        let (one, zero) = (integer(b, 1), integer(b, 0));
        vec![b.op(Op::DynamicUpdateSlice, &[x[0], top, one, zero])]
    });
    assert_agrees(&b.done(&values));
}

#[test]
fn values_may_change_places_repeat_stay_and_be_constants() {
    type Body = fn(&mut Build, &[Value]) -> Vec<Value>;
    let bodies: [Body; 8] = [
        // Around.
        |_, x| vec![x[1], x[2], x[0]],
        // Exchanged, and one of them changed.
        |b, x| vec![x[1], b.shift(x[0], 1.0), x[2]],
        // One value for all.
        |_, x| vec![x[1], x[1], x[1]],
        |b, x| {
            let sum = b.add(x[0], x[1]);
            vec![sum, sum, x[0]]
        },
        // Twice the same one, and one of the two is changed in the next round.
        |b, x| vec![x[0], x[0], b.shift(x[1], 1.0)],
        // All as they are.
        |_, x| vec![x[0], x[1], x[2]],
        |b, x| {
            let main = b.0.main();
            let constant = b.0.constant(main, Literal::new([3], &[5f32, 6.0, 7.0]).unwrap());
            vec![constant, b.add(x[0], x[2]), x[1]]
        },
        // Each from another.
        |b, x| vec![b.scale(x[2], 2.0), b.shift(x[0], 3.0), b.sub(x[1], x[2])],
    ];
    for rounds in [0, 1, 2, 5] {
        for body in bodies {
            let mut b = Build::new();
            let inputs: Vec<Value> = (0..3).map(|_| b.input(DType::F32, &[3])).collect();
            // An operand twice, one that is used afterwards, and a constant.
            let shifted = b.shift(inputs[1], 1.0);
            let all = counted(&mut b, &[inputs[0], shifted, shifted], rounds, body);
            let main = b.0.main();
            let constant = b.0.constant(main, Literal::new([3], &[1f32, 2.0, 4.0]).unwrap());
            let others = counted(&mut b, &[inputs[2], inputs[2], constant], rounds, body);
            let after = b.add(shifted, all[0]);
            let results: Vec<Value> = all.into_iter().chain(others).chain([after, inputs[2]]).collect();
            assert_agrees(&b.done(&results));
        }
    }
}

/// Products of more than a few rows, whose right operand the host lays out once if it is the same in all rounds.
#[test]
fn products_in_a_loop_are_with_what_the_operand_is_in_each_round() {
    let mut b = Build::new();
    let sizes: [[usize; 2]; 6] = [[20, 19], [19, 18], [18, 19], [19, 18], [19, 18], [20, 18]];
    let inputs = sizes.map(|sizes| b.input(DType::F32, &sizes));
    let all = counted(&mut b, &inputs, 4, |b, x| {
        let &[rows, stays, turned, one, other, sum, _] = x else { unreachable!("six values and the round") };
        let turned_back = b.transpose(turned, &[1, 0]);
        let changed = b.shift(one, 1.0);
        let sum = [stays, turned_back, one, other].into_iter().fold(sum, |sum, right| {
            let product = b.matmul(rows, right);
            b.add(sum, product)
        });
        // The first three stay, the next two change places and one of them its numbers.
        vec![rows, stays, turned, other, changed, sum]
    });
    assert_agrees(&b.done(&all));
}

#[test]
fn branches_are_chosen_by_number_and_the_last_one_otherwise() {
    for index in [i32::MIN, -1, 0, 1, 2, 3, i32::MAX] {
        let mut b = Build::new();
        let (x, y) = (b.input(DType::F32, &[5]), b.input(DType::F32, &[5]));
        let main = b.0.main();
        let which = b.0.constant(main, Literal::splat(DType::I32, Shape::scalar(), i64::from(index)));
        let types = vec![b.0.ty(x).clone(); 2];
        let branches: [Graph; 3] = [
            block(&types, |b, x| vec![b.add(x[0], x[1]), x[0]]),
            block(&types, |_, x| vec![x[1], x[1]]),
            block(&types, |b, x| {
                let main = b.0.main();
                let constant = b.0.constant(main, Literal::splat(DType::F32, [5], 8.0));
                vec![constant, b.scale(x[1], 3.0)]
            }),
        ];
        let branches = branches.iter().map(|branch| b.0.import(branch)).collect();
        let shifted = b.shift(x, 1.0);
        let node = b.op(Op::Case { branches }, &[which, shifted, y]).node;
        let graph = b.done(&[node.into(), Value { node, result: 1 }, shifted]);
        assert_agrees(&graph);
    }
}

#[test]
fn blocks_nest_as_deep_as_the_verifier_allows() {
    let ty = Type::new(DType::F32, [4]);
    let mut inner = block(std::slice::from_ref(&ty), |b, x| vec![b.shift(x[0], 1.0)]);
    for depth in 0..crate::ir::verify::MAX_DEPTH {
        inner = block(std::slice::from_ref(&ty), |b, x| {
            if depth % 2 == 0 {
                let zero = integer(b, 0);
                let branch = b.0.import(&inner);
                return vec![b.op(Op::Case { branches: smallvec![branch] }, &[zero, x[0]])];
            }
            // The program inside as the loop's body, whose last value is another's.
            let rounds = if depth % 32 == 1 { 2 } else { 1 };
            let values = counted(b, &[x[0]], rounds, |b, x| {
                let body = inner.clone();
                let parameter = body[body.main()].parameters[0];
                let mut copies: std::collections::HashMap<_, Value> = [(parameter, x[0])].into();
                for &id in body[body.main()].nodes.iter().filter(|&&id| id != parameter) {
                    let mut op = body[id].op.clone();
                    op.map_blocks(|block| b.0.import(&body.program_of(block)));
                    let operands: Vec<Value> = body[id].operands.iter().map(|value| copies[&value.node]).collect();
                    copies.insert(id, b.op(op, &operands));
                }
                vec![copies[&body[body.main()].results[0].node]]
            });
            vec![values[0]]
        });
    }
    assert!(crate::ir::verify::verify(&inner).is_ok());
    assert_agrees(&inner);
}

#[test]
fn a_loop_that_runs_out_of_memory_leaves_donated_arguments() {
    let mut b = Build::new();
    let x = b.input(DType::F32, &[1000]);
    let values = counted(&mut b, &[x], 3, |b, x| {
        let changed = b.shift(x[0], 1.0);
        let square = b.op(Op::BroadcastInDim { shape: [1000, 1000].into(), axes: smallvec![1] }, &[changed]);
        let sorted = b.op(Op::Sort { axis: 0, descending: false, stable: true }, &[square]);
        vec![b.op(Op::Reduce { kind: Reducer::Max, axes: smallvec![0] }, &[sorted])]
    });
    let graph = b.done(&values[..1]);
    let options = HostOptions { memory_limit: Some(1 << 20), threads: Some(1), ..HostOptions::default() };
    let host = Host::new(options).unwrap();
    let values = exact(&graph);
    let executable = host.compile(&graph, CompileOptions::default()).unwrap();
    let mut list = [Argument::Donated(host.upload(0, graph.ty(x), &values[0]).unwrap())];
    let error = executable.run(0, &mut list).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let Argument::Donated(x) = &list[0] else { panic!("taken") };
    assert_eq!(read(&**x), values[0]);
}

#[test]
fn a_loop_keeps_no_memory_however_long_it_runs() {
    let mut b = Build::new();
    let x = b.input(DType::F32, &[16, 16]);
    let values = counted(&mut b, &[x], 500, |b, x| {
        let product = b.matmul(x[0], x[0]);
        vec![b.unary(crate::ir::UnaryOp::Tanh, product)]
    });
    let graph = b.done(&values[..1]);
    let host = host(1, Isa::available());
    let values = arguments(&graph, 3);
    run_with(&host, &graph, CompileOptions::default(), &values).unwrap();
    let (in_use, peak) = (host.memory(0).in_use, host.memory(0).peak);
    assert_eq!(in_use, 0);
    assert!(peak < 20 * 1024, "{peak}");
}
