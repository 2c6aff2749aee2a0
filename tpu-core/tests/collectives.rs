//! Programs that several devices of the host run together.

use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use tpu_core::ir::{Axes, BinaryOp, BlockId, Comparison, Graph, Op, Reducer, ReplicaGroups, Type, UnaryOp, Value};
use tpu_core::reference::{Array, evaluate_spmd};
use tpu_core::runtime::host::{Host, HostOptions};
use tpu_core::runtime::{Argument, Backend, Buffer, CompileOptions, Outcome};
use tpu_core::{Complex64, DType, Element, ErrorKind, Literal, Result, Shape};

fn host(devices: usize, threads: usize) -> Host {
    Host::new(HostOptions { devices, threads: Some(threads), ..HostOptions::default() }).unwrap()
}

fn read(buffer: &Arc<dyn Buffer>) -> Array {
    let mut bytes = vec![0; buffer.ty().bytes().unwrap()];
    buffer.read(&mut bytes).unwrap();
    Array::from_bytes(buffer.ty().clone(), bytes).unwrap()
}

/// Runs a program on as many devices as there are rows of arguments.
fn run(host: &Host, graph: &Graph, rows: &[Vec<Array>]) -> Result<Vec<Outcome>> {
    let upload = |(device, row): (usize, &Vec<Array>)| {
        row.iter().map(|x| Ok(Argument::Shared(host.upload(device, x.ty(), x.bytes())?))).collect::<Result<Vec<_>>>()
    };
    let mut arguments = rows.iter().enumerate().map(upload).collect::<Result<Vec<_>>>()?;
    host.compile_replicas(graph, CompileOptions::default(), rows.len())?.run_replicas(&mut arguments)
}

fn groups(rows: &[&[u32]]) -> Arc<ReplicaGroups> {
    Arc::new(ReplicaGroups { groups: rows.iter().map(|&row| row.into()).collect(), channel: 0 })
}

/// The results of a program of one op, device by device.
fn collective<T: Element>(op: Op, sizes: &[usize], rows: &[&[T]]) -> Vec<(Vec<usize>, Vec<T>)> {
    let mut graph = Graph::new();
    let main = graph.main();
    let x = graph.parameter(main, Type::new(T::DTYPE, sizes));
    let node = graph.push(main, op, &[x]).unwrap();
    graph.set_results(main, vec![node.into()]);
    let rows: Vec<Vec<Array>> = rows.iter().map(|row| vec![Array::new(sizes, row).unwrap()]).collect();
    let outcomes = run(&host(rows.len(), 1), &graph, &rows).unwrap();
    let result = |outcome: &Outcome| read(&outcome.results[0]);
    outcomes.iter().map(result).map(|y| (y.sizes().to_vec(), y.to_vec().unwrap())).collect()
}

/// The examples of the StableHLO specification.
#[test]
fn collectives_give_what_the_specification_shows() {
    let all = || groups(&[&[0, 1]]);
    let kind = Reducer::Sum;
    let reduced = collective(Op::AllReduce { kind, groups: all() }, &[4], &[&[1, 2, 3, 4], &[5, 6, 7, 8]]);
    assert_eq!(reduced, [(vec![4], vec![6, 8, 10, 12]), (vec![4], vec![6, 8, 10, 12])]);
    let gathered = collective(Op::AllGather { axis: 1, groups: all() }, &[2, 2], &[&[1, 2, 3, 4], &[5, 6, 7, 8]]);
    assert_eq!(gathered, [(vec![2, 4], vec![1, 2, 5, 6, 3, 4, 7, 8]), (vec![2, 4], vec![1, 2, 5, 6, 3, 4, 7, 8])]);
    let (first, second): (Vec<i32>, Vec<i32>) = ((1..=8).collect(), (9..=16).collect());
    let op = Op::ReduceScatter { kind, axis: 1, groups: all() };
    let scattered = collective(op, &[2, 4], &[&first, &second]);
    assert_eq!(scattered, [(vec![2, 2], vec![10, 12, 18, 20]), (vec![2, 2], vec![14, 16, 22, 24])]);
    let op = Op::AllToAll { split_axis: 1, concat_axis: 0, groups: all() };
    let exchanged = collective(op, &[2, 4], &[&first, &second]);
    let expected = [vec![1, 2, 5, 6, 9, 10, 13, 14], vec![3, 4, 7, 8, 11, 12, 15, 16]];
    assert_eq!(exchanged, expected.map(|numbers| (vec![4, 2], numbers)));
    let op = Op::CollectivePermute { pairs: Arc::new([(0, 1), (1, 2)]), channel: 0 };
    let permuted = collective(op, &[2, 2], &[&[1, 2, 3, 4], &[5, 6, 7, 8], &[9, 10, 11, 12]]);
    assert_eq!(permuted, [vec![0; 4], vec![1, 2, 3, 4], vec![5, 6, 7, 8]].map(|numbers| (vec![2, 2], numbers)));
}

/// (a + bi)(c + di) = (ac − bd) + (ad + bc)i and nothing else: a further factor of 1 + 0i would make NaNs of 0 · ∞ and 0 · NaN.
/// Found by the long sweep of random graphs.
#[test]
fn products_of_complex_numbers_have_no_other_factor() {
    let number = |re, im| [Complex64::new(re, im)];
    let product = |groups| Op::AllReduce { kind: Reducer::Product, groups };
    let alone = collective(product(groups(&[&[0]])), &[1], &[&number(f32::NAN, 0.0)]);
    assert!(alone[0].1[0].re.is_nan() && alone[0].1[0].im == 0.0, "{alone:?}");
    let rows = [&number(f32::INFINITY, 0.0)[..], &number(2.0, 3.0)];
    let both = collective(product(groups(&[&[0, 1]])), &[1], &rows);
    assert_eq!(both, [(vec![1], number(f32::INFINITY, f32::INFINITY).to_vec()), both[0].clone()]);
}

#[test]
fn members_of_a_group_are_in_its_order() {
    let pairs = || groups(&[&[0, 2], &[3, 1]]);
    let rows: [&[i32]; 4] = [&[0, 1], &[10, 11], &[20, 21], &[30, 31]];
    let op = Op::AllGather { axis: 0, groups: pairs() };
    let gathered: Vec<Vec<i32>> = collective(op, &[2], &rows).into_iter().map(|(_, numbers)| numbers).collect();
    assert_eq!(gathered, [[0, 1, 20, 21], [30, 31, 10, 11], [0, 1, 20, 21], [30, 31, 10, 11]]);
    let op = Op::ReduceScatter { kind: Reducer::Max, axis: 0, groups: pairs() };
    let scattered: Vec<Vec<i32>> = collective(op, &[2], &rows).into_iter().map(|(_, numbers)| numbers).collect();
    assert_eq!(scattered, [[20], [31], [21], [30]]);
}

/// `x + 2 (x summed over pairs) + replica number`, and an average with the neighbours in a ring.
fn mixed() -> Graph {
    let mut graph = Graph::new();
    let main = graph.main();
    let x = graph.parameter(main, Type::new(DType::F32, [300, 20]));
    let push =
        |graph: &mut Graph, op: Op, operands: &[Value]| -> Value { graph.push(main, op, operands).unwrap().into() };
    let sum = Op::AllReduce { kind: Reducer::Sum, groups: groups(&[&[0, 1], &[2, 3]]) };
    let sum = push(&mut graph, sum, &[x]);
    let double = push(&mut graph, Op::Binary(BinaryOp::Add), &[sum, sum]);
    let mixed = push(&mut graph, Op::Binary(BinaryOp::Add), &[x, double]);
    let replica = push(&mut graph, Op::ReplicaId, &[]);
    let replica = push(&mut graph, Op::Convert(DType::F32), &[replica]);
    let spread = Op::BroadcastInDim { shape: [300, 20].into(), axes: Axes::new() };
    let replica = push(&mut graph, spread, &[replica]);
    let mixed = push(&mut graph, Op::Binary(BinaryOp::Add), &[mixed, replica]);
    let ring: Vec<(u32, u32)> = (0..4).map(|i| (i, (i + 1) % 4)).collect();
    let moved = push(&mut graph, Op::CollectivePermute { pairs: ring.into(), channel: 3 }, &[mixed]);
    let sine = push(&mut graph, Op::Unary(UnaryOp::Neg), &[moved]);
    let gathered = Op::AllGather { axis: 1, groups: groups(&[&[3, 0, 1, 2]]) };
    let gathered = push(&mut graph, gathered, &[sine]);
    graph.set_results(main, vec![mixed, gathered]);
    graph
}

/// Eighths, so that sums are exact.
fn rows(count: usize, ty: &Type) -> Vec<Vec<Array>> {
    let elements = ty.shape.elements().unwrap();
    let row =
        |device: usize| (0..elements).map(|i| ((i * 7 + 13 * device) % 65) as f32 / 8.0 - 4.0).collect::<Vec<_>>();
    (0..count).map(|device| vec![Array::new(&ty.shape, &row(device)).unwrap()]).collect()
}

#[test]
fn fused_programs_with_collectives_agree_with_the_interpreter_for_any_number_of_threads() {
    let graph = mixed();
    let arguments = rows(4, &Type::new(DType::F32, [300, 20]));
    let expected = evaluate_spmd(&graph, &arguments).unwrap();
    for threads in [1, 3] {
        let host = host(4, threads);
        for (outcome, expected) in run(&host, &graph, &arguments).unwrap().iter().zip(&expected) {
            assert_eq!(outcome.results.iter().map(read).collect::<Vec<_>>(), expected.results);
        }
    }
}

#[test]
fn each_device_keeps_its_values_in_its_own_memory() {
    let host = host(4, 1);
    let outcomes = run(&host, &mixed(), &rows(4, &Type::new(DType::F32, [300, 20]))).unwrap();
    for device in 0..4 {
        // One result of 300 · 20 numbers and one of four times as many.
        assert_eq!(host.memory(device).in_use, 5 * 300 * 20 * 4, "{device}");
    }
    drop(outcomes);
    assert!((0..4).all(|device| host.memory(device).in_use == 0));
}

/// Each device multiplies by two until all together have reached a limit: a sum in the condition keeps them together. A device's
/// own count decides in `apart`, and what is summed in the body then misses those that have left.
fn looping(apart: bool) -> Graph {
    let ty = Type::new(DType::F32, ());
    let everyone = || Op::AllReduce { kind: Reducer::Sum, groups: groups(&[&[0, 1, 2]]) };
    let mut graph = Graph::new();
    let cond = graph.block();
    let x = graph.parameter(cond, ty.clone());
    let sum = if apart { x } else { graph.push(cond, everyone(), &[x]).unwrap().into() };
    let limit = graph.constant(cond, Literal::splat(DType::F32, Shape::scalar(), 100.0));
    let below = graph.push(cond, Op::Compare(Comparison::Lt), &[sum, limit]).unwrap();
    graph.set_results(cond, vec![below.into()]);
    let body = graph.block();
    let x = graph.parameter(body, ty.clone());
    let other = if apart { graph.push(body, everyone(), &[x]).unwrap().into() } else { x };
    let next = graph.push(body, Op::Binary(BinaryOp::Add), &[x, other]).unwrap();
    graph.set_results(body, vec![next.into()]);
    let main = graph.main();
    let x = graph.parameter(main, ty);
    let node = graph.push(main, Op::While { cond, body }, &[x]).unwrap();
    graph.set_results(main, vec![node.into()]);
    graph
}

#[test]
fn devices_meet_in_loops_that_they_run_equally_long() {
    let arguments: Vec<Vec<Array>> = [1f32, 2.0, 4.0].iter().map(|&x| vec![Array::scalar(DType::F32, x)]).collect();
    let outcomes = run(&host(3, 1), &looping(false), &arguments).unwrap();
    // The sum is 7, 14, …, 112 after four rounds.
    let got: Vec<f32> = outcomes.iter().map(|outcome| read(&outcome.results[0]).to_vec::<f32>().unwrap()[0]).collect();
    assert_eq!(got, [16.0, 32.0, 64.0]);
    let error = run(
        &host(3, 1),
        &looping(true),
        &[arguments[0].clone(), arguments[1].clone(), vec![Array::scalar(DType::F32, 200f32)]],
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
    assert_eq!(error.to_string(), "all_reduce requires device 2, which did not arrive: 2 did");
}

#[test]
fn devices_of_one_branch_meet_in_it() {
    let ty = Type::new(DType::F32, ());
    let mut graph = Graph::new();
    let mut branch = |op: Op| -> BlockId {
        let block = graph.block();
        let x = graph.parameter(block, ty.clone());
        let node = graph.push(block, op, &[x]).unwrap();
        graph.set_results(block, vec![node.into()]);
        block
    };
    let sum = |pair: &[u32]| Op::AllReduce { kind: Reducer::Sum, groups: groups(&[pair]) };
    let branches: SmallVec<[BlockId; 2]> = smallvec![branch(sum(&[0, 2])), branch(sum(&[1, 3]))];
    let main = graph.main();
    let (index, x) = (graph.parameter(main, Type::new(DType::I32, ())), graph.parameter(main, ty));
    let node = graph.push(main, Op::Case { branches }, &[index, x]).unwrap();
    graph.set_results(main, vec![node.into()]);
    let row = |index: i32, x: f32| vec![Array::scalar(DType::I32, index), Array::scalar(DType::F32, x)];
    let rows = [row(0, 1.0), row(1, 2.0), row(0, 4.0), row(1, 8.0)];
    let outcomes = run(&host(4, 1), &graph, &rows).unwrap();
    let got: Vec<f32> = outcomes.iter().map(|outcome| read(&outcome.results[0]).to_vec::<f32>().unwrap()[0]).collect();
    assert_eq!(got, [5.0, 10.0, 5.0, 10.0]);
    let error = run(&host(4, 1), &graph, &[row(0, 1.0), row(0, 2.0), row(0, 4.0), row(1, 8.0)]).unwrap_err();
    assert_eq!(error.to_string(), "all_reduce has no group with device 1");
}

#[test]
fn a_program_alone_is_its_only_replica() {
    let mut graph = Graph::new();
    let main = graph.main();
    let x = graph.parameter(main, Type::new(DType::F32, [2]));
    let sum = graph.push(main, Op::AllReduce { kind: Reducer::Sum, groups: groups(&[&[0]]) }, &[x]).unwrap();
    let replica = graph.push(main, Op::ReplicaId, &[]).unwrap();
    let partition = graph.push(main, Op::PartitionId, &[]).unwrap();
    graph.set_results(main, vec![sum.into(), replica.into(), partition.into()]);
    let host = host(2, 1);
    let x = Array::new([2], &[1f32, 2.0]).unwrap();
    let mut arguments = [Argument::Shared(host.upload(1, x.ty(), x.bytes()).unwrap())];
    let outcome = host.compile(&graph, CompileOptions::default()).unwrap().run(1, &mut arguments).unwrap();
    assert_eq!(read(&outcome.results[0]), x);
    assert_eq!(read(&outcome.results[1]).to_vec::<u32>().unwrap(), [0]);
    assert_eq!(read(&outcome.results[2]).to_vec::<u32>().unwrap(), [0]);
}

#[test]
fn nothing_donated_is_lost_when_devices_do_not_meet() {
    let host = host(3, 1);
    let executable = host.compile_replicas(&looping(true), CompileOptions::default(), 3).unwrap();
    let donated = |device: usize, x: f32| {
        let x = Array::scalar(DType::F32, x);
        vec![Argument::Donated(host.upload(device, x.ty(), x.bytes()).unwrap())]
    };
    let values = [1f32, 2.0, 200.0];
    let mut rows: Vec<_> = values.iter().enumerate().map(|(device, &x)| donated(device, x)).collect();
    assert_eq!(executable.run_replicas(&mut rows).unwrap_err().kind(), ErrorKind::Device);
    for (row, x) in rows.iter().zip(values) {
        let Argument::Donated(buffer) = &row[0] else { panic!("taken") };
        assert_eq!(read(buffer).to_vec::<f32>().unwrap(), [x]);
    }
    // All leave the loop at once: 1, 2 and 4 become 8, 9 and 11, then 36, 37 and 39, then 148, 149 and 151.
    let mut rows: Vec<_> = [1f32, 2.0, 4.0].iter().enumerate().map(|(device, &x)| donated(device, x)).collect();
    let outcomes = executable.run_replicas(&mut rows).unwrap();
    let got: Vec<f32> = outcomes.iter().map(|outcome| read(&outcome.results[0]).to_vec::<f32>().unwrap()[0]).collect();
    assert_eq!(got, [148.0, 149.0, 151.0]);
}

#[test]
fn replicas_are_as_many_as_the_program_was_compiled_for() {
    let host = host(3, 1);
    let graph = looping(false);
    let compile = |replicas| host.compile_replicas(&graph, CompileOptions::default(), replicas);
    for (replicas, kind, message) in [
        (0, ErrorKind::Device, "host has 3 devices, got 0 replicas"),
        (4, ErrorKind::Device, "host has 3 devices, got 4 replicas"),
        (2, ErrorKind::Value, "all_reduce requires replicas from 0 to 1, got 2"),
    ] {
        let error = compile(replicas).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
    }
    let alone = host.compile(&graph, CompileOptions::default()).unwrap_err();
    assert_eq!(alone.to_string(), "all_reduce requires replicas from 0 to 0, got 2");
    let executable = compile(3).unwrap();
    let x = Array::scalar(DType::F32, 1f32);
    let row = || vec![Argument::Shared(host.upload(0, x.ty(), x.bytes()).unwrap())];
    let message = "a program requires the arguments of 3 replicas, got those of";
    let error = executable.run(0, &mut row()).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::Device, format!("{message} 1")));
    let error = executable.run_replicas(&mut [row(), row()]).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::Device, format!("{message} 2")));
}
