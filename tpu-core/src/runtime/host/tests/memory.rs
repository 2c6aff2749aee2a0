//! Donation, limits, peaks and checks.

use super::build::Build;
use super::*;
use crate::ErrorKind;
use crate::ir::{Check, Comparison};

fn upload(host: &Host, graph: &Graph, index: usize, bytes: &[u8]) -> Arc<dyn Buffer> {
    let ty = graph.parameter_types(graph.main()).nth(index).unwrap();
    host.upload(0, ty, bytes).unwrap()
}

/// Where a buffer's elements are.
fn address(buffer: &Arc<dyn Buffer>) -> usize {
    let any: &dyn std::any::Any = &**buffer;
    any.downcast_ref::<super::super::buffer::HostBuffer>().unwrap().block().at() as usize
}

fn update() -> Graph {
    let mut b = Build::new();
    let (p, g) = (b.input(DType::F32, &[50, 60]), b.input(DType::F32, &[50, 60]));
    let step = b.scale(g, 0.1);
    let p = b.sub(p, step);
    b.done(&[p])
}

#[test]
fn a_donated_argument_gives_its_memory_to_the_result() {
    let (host, graph) = (host(1, Isa::available()), update());
    let values = arguments(&graph, 1);
    let want = run(&graph, &values);
    let executable = host.compile(&graph, CompileOptions::default()).unwrap();
    let p = upload(&host, &graph, 0, &values[0]);
    let at = address(&p);
    let mut list = [Argument::Donated(p), Argument::Shared(upload(&host, &graph, 1, &values[1]))];
    let outcome = executable.run(0, &mut list).unwrap();
    assert!(matches!(list[0], Argument::Taken));
    assert_eq!(address(&outcome.results[0]), at);
    assert_eq!(read(&*outcome.results[0]), want[0]);
}

#[test]
fn a_donated_argument_that_someone_else_holds_is_left_alone() {
    let (host, graph) = (host(1, Isa::available()), update());
    let values = arguments(&graph, 1);
    let executable = host.compile(&graph, CompileOptions::default()).unwrap();
    let p = upload(&host, &graph, 0, &values[0]);
    let mut list = [Argument::Donated(p.clone()), Argument::Shared(upload(&host, &graph, 1, &values[1]))];
    let outcome = executable.run(0, &mut list).unwrap();
    assert_eq!(read(&*p), values[0]);
    assert_eq!(read(&*outcome.results[0]), run(&graph, &values)[0]);
}

/// A sum that needs `p` after its update could have been written.
#[test]
fn a_value_that_is_still_read_is_not_overwritten() {
    let mut b = Build::new();
    let p = b.input(DType::F32, &[40, 50]);
    let q = b.scale(p, 2.0);
    let turned = b.transpose(p, &[1, 0]);
    let square = b.matmul(p, turned);
    let graph = b.done(&[q, square]);
    let host = host(1, Isa::available());
    let values = arguments(&graph, 5);
    let want = run(&graph, &values);
    let executable = host.compile(&graph, CompileOptions::default()).unwrap();
    let mut list = [Argument::Donated(upload(&host, &graph, 0, &values[0]))];
    let outcome = executable.run(0, &mut list).unwrap();
    let got: Vec<Vec<u8>> = outcome.results.iter().map(|buffer| read(&**buffer)).collect();
    assert_eq!(got, want);
}

#[test]
fn a_failed_check_leaves_donated_arguments_and_gives_other_results() {
    let mut b = Build::new();
    let (p, index) = (b.input(DType::F32, &[50, 60]), b.input(DType::I32, &[4]));
    let q = b.scale(p, 2.0);
    let mut limit = b.input(DType::I32, &[]);
    limit = b.like(limit, index);
    let bad = b.op(Op::Compare(Comparison::Ge), &[index, limit]);
    let value = b.op(Op::Convert(DType::I32), &[bad]);
    let value = b.op(Op::Reduce { kind: crate::ir::Reducer::Max, axes: [0][..].into() }, &[value]);
    // 1 when an index is out of range: −1 plus that is −1 or 0, the number of the check.
    let one = b.input(DType::I32, &[]);
    let value = b.sub(value, one);
    let mut graph = b.done(&[q]);
    graph.checks.push(Check { value, guards: value.node });
    let host = host(1, Isa::available());
    let executable = host.compile(&graph, CompileOptions::default()).unwrap();
    let values = arguments(&graph, 2);
    let int = |x: i32| x.to_le_bytes().to_vec();
    for (limit, check) in [(100, -1), (-5, 0)] {
        let p = upload(&host, &graph, 0, &values[0]);
        let at = address(&p);
        let mut list = [
            Argument::Donated(p),
            Argument::Shared(upload(&host, &graph, 1, &values[1])),
            Argument::Shared(upload(&host, &graph, 2, &int(limit))),
            Argument::Shared(upload(&host, &graph, 3, &int(1))),
        ];
        let outcome = executable.run(0, &mut list).unwrap();
        assert_eq!(outcome.checks, [check]);
        let doubled: Vec<f64> = numbers(&Type::new(DType::F32, [50, 60]), &values[0]).iter().map(|x| 2.0 * x).collect();
        assert_eq!(numbers(outcome.results[0].ty(), &read(&*outcome.results[0])), doubled);
        match (&list[0], check) {
            (Argument::Taken, -1) => assert_eq!(address(&outcome.results[0]), at),
            (Argument::Donated(p), 0) => assert_eq!(read(&**p), values[0]),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_donated_argument_that_is_a_result_is_not_overwritten() {
    let mut b = Build::new();
    let p = b.input(DType::F32, &[50, 60]);
    let q = b.scale(p, 2.0);
    let graph = b.done(&[p, q]);
    let host = host(1, Isa::available());
    let values = arguments(&graph, 8);
    let executable = host.compile(&graph, CompileOptions::default()).unwrap();
    let mut list = [Argument::Donated(upload(&host, &graph, 0, &values[0]))];
    let outcome = executable.run(0, &mut list).unwrap();
    assert_eq!(read(&*outcome.results[0]), values[0]);
    assert_eq!(read(&*outcome.results[1]), run(&graph, &values)[1]);
}

#[test]
fn values_of_checks_are_kept_until_all_are_known() {
    let mut b = Build::new();
    let x = b.input(DType::I32, &[6, 5]);
    let mut checks = Vec::new();
    let mut y = x;
    for kind in [crate::ir::Reducer::Max, crate::ir::Reducer::Min, crate::ir::Reducer::Sum] {
        checks.push(b.op(Op::Reduce { kind, axes: [0, 1][..].into() }, &[y]));
        y = b.op(Op::Transpose([1, 0][..].into()), &[y]);
        y = b.op(Op::Cumulative { kind, axis: 0, reverse: false }, &[y]);
    }
    let wanted = b.0.clone();
    let mut graph = b.done(&[y]);
    graph.checks = checks.iter().map(|&value| Check { value, guards: value.node }).collect();
    let values = arguments(&graph, 4);
    let got = run_with(&host(1, Isa::available()), &graph, CompileOptions::default(), &values).unwrap().1;
    let mut plain = wanted;
    let main = plain.main();
    plain.set_results(main, checks);
    let want: Vec<i32> = run_plain(&plain, &values).unwrap().iter().map(|bytes| i32::read_bytes(bytes)[0]).collect();
    assert_eq!(got, want);
}

#[test]
fn a_run_beyond_the_limit_is_an_error_and_donated_arguments_stay() {
    let mut b = Build::new();
    let x = b.input(DType::F32, &[1000]);
    let y = b.op(Op::BroadcastInDim { shape: [1000, 1000].into(), axes: [1][..].into() }, &[x]);
    let z = b.scale(x, 3.0);
    let graph = b.done(&[y, z]);
    let options = HostOptions { memory_limit: Some(1 << 20), threads: Some(1), ..HostOptions::default() };
    let host = Host::new(options).unwrap();
    let values = arguments(&graph, 1);
    let executable = host.compile(&graph, CompileOptions::default()).unwrap();
    let mut list = [Argument::Donated(upload(&host, &graph, 0, &values[0]))];
    let error = executable.run(0, &mut list).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let Argument::Donated(x) = &list[0] else { panic!("taken") };
    assert_eq!(read(&**x), values[0]);
}

#[test]
fn a_broadcast_of_2_to_the_60_is_an_out_of_memory_error_when_it_is_made_real() {
    let mut b = Build::new();
    let x = b.input(DType::F32, &[]);
    let huge = b.op(Op::BroadcastInDim { shape: [1 << 30, 1 << 30].into(), axes: [][..].into() }, &[x]);
    let y = b.scale(x, 2.0);
    let main = b.0.main();
    let mut graph = b.0;
    graph.set_results(main, vec![y]);
    assert!(host(1, Isa::available()).compile(&graph, CompileOptions::default()).is_ok());
    graph.set_results(main, vec![huge]);
    let executable = host(1, Isa::available()).compile(&graph, CompileOptions::default());
    let result =
        executable.and_then(|e| e.run(0, &mut [Argument::Scalar(crate::Scalar::Float(1.0).to_bytes(DType::F32))]));
    assert_eq!(result.unwrap_err().kind(), ErrorKind::OutOfMemory);
}

#[test]
fn runs_reuse_the_pools_memory() {
    let (host, graph) = (host(1, Isa::available()), update());
    let values = arguments(&graph, 1);
    let executable = host.compile(&graph, CompileOptions::default()).unwrap();
    let run = || execute(&host, &*executable, &graph, &values).unwrap();
    run();
    let (in_use, pooled) = (host.memory(0).in_use, host.memory(0).pooled);
    for _ in 0..100 {
        run();
    }
    assert_eq!((host.memory(0).in_use, host.memory(0).pooled), (in_use, pooled));
    // Two arguments and a result of 12,000 bytes.
    assert_eq!(host.memory(0).peak, 36_000);
}

#[test]
fn results_may_be_arguments_scalars_and_constants() {
    let mut b = Build::new();
    let (x, s) = (b.input(DType::F32, &[2, 3]), b.input(DType::F32, &[]));
    let turned = b.op(Op::Reshape([6].into()), &[x]);
    let main = b.0.main();
    let c = b.0.constant(main, crate::Literal::new([2], &[1.5f32, -2.0]).unwrap());
    let splat = b.0.constant(main, crate::Literal::splat(DType::F32, [3], 4.0));
    let graph = b.done(&[x, turned, s, c, splat, x]);
    let host = host(1, Isa::available());
    let values = arguments(&graph, 1);
    let executable = host.compile(&graph, CompileOptions::default()).unwrap();
    let scalar = crate::Scalar::Float(2.5).to_bytes(DType::F32);
    let x = upload(&host, &graph, 0, &values[0]);
    let outcome = executable.run(0, &mut [Argument::Donated(x), Argument::Scalar(scalar)]).unwrap();
    let got: Vec<Vec<f64>> = outcome.results.iter().map(|buffer| numbers(buffer.ty(), &read(&**buffer))).collect();
    let x = numbers(&Type::new(DType::F32, [6]), &values[0]);
    assert_eq!(got, [x.clone(), x.clone(), vec![2.5], vec![1.5, -2.0], vec![4.0; 3], x]);
}

#[test]
fn devices_have_their_own_memory() {
    let host = Host::new(HostOptions { devices: 2, threads: Some(1), ..HostOptions::default() }).unwrap();
    let held = host.upload(1, &Type::new(DType::F32, [10]), &[0; 40]).unwrap();
    assert_eq!((host.memory(0).in_use, host.memory(1).in_use), (0, 40));
    assert_eq!(host.upload(2, held.ty(), &[0; 40]).unwrap_err().kind(), ErrorKind::Device);
}
