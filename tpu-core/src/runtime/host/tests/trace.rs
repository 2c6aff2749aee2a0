//! What a traced host writes.

use super::build::Build;
use super::control::counted;
use super::*;
use crate::ErrorKind;
use crate::ir::{text, verify::verify};
use serde_json::Value as Json;
use std::path::Path;

fn traced(folder: &Path, threads: usize) -> Host {
    let options = HostOptions { threads: Some(threads), trace: Some(folder.into()), ..HostOptions::default() };
    Host::with_isa(options, Isa::available()).unwrap()
}

/// The files of a folder, by name.
fn files(folder: &Path) -> Vec<Json> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()).collect()
}

/// `softmax(x y)`, and updates of many parameters.
fn program() -> Graph {
    let mut b = Build::new();
    let (x, y) = (b.input(DType::F32, &[64, 32]), b.input(DType::F32, &[32, 48]));
    let z = b.matmul(x, y);
    let mut results = vec![b.softmax(z)];
    for _ in 0..20 {
        let (p, g) = (b.input(DType::F32, &[60, 50]), b.input(DType::F32, &[60, 50]));
        let step = b.unary(crate::ir::UnaryOp::Tanh, g);
        results.push(b.sub(p, step));
    }
    b.done(&results)
}

#[test]
fn a_file_has_the_program_its_kernels_its_memory_and_times_that_fit_into_the_runs() {
    let folder = tempfile::tempdir().unwrap();
    let graph = program();
    let values = arguments(&graph, 1);
    for threads in [1, 3] {
        let writer = traced(folder.path(), threads);
        let executable = writer.compile(&graph, CompileOptions::default()).unwrap();
        for _ in 0..5 {
            execute(&writer, &*executable, &graph, &values).unwrap();
        }
        let kernels = executable.kernels();
        let seconds: f64 = kernels.iter().map(|kernel| kernel.seconds).sum();
        assert!(seconds > 0.0);
        let plain = host(threads, Isa::available()).compile(&graph, CompileOptions::default()).unwrap();
        assert!(plain.kernels().iter().all(|kernel| kernel.seconds == 0.0));
        drop(executable);
        let file = files(folder.path()).pop().unwrap();
        let written = file["graph"].as_str().unwrap();
        assert_eq!(written, text::print(verify(&graph).unwrap()));
        assert_eq!(text::parse(written).unwrap().nodes.len(), graph.nodes.len());
        assert_eq!((file["graph_is_cut"].as_bool(), file["runs"].as_u64()), (Some(false), Some(5)));
        let list = file["kernels"].as_array().unwrap();
        let kinds: Vec<&str> = list.iter().map(|kernel| kernel["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds[..2], ["dot_general", "row_program"]);
        assert_eq!(kinds.len(), 22);
        // Two matrices in, one out; 2 m n k operations.
        assert_eq!(list[0]["bytes"].as_f64(), Some(4.0 * (64 * 32 + 32 * 48 + 64 * 48) as f64));
        assert_eq!(list[0]["flops"].as_f64(), Some(2.0 * (64 * 48 * 32) as f64));
        // Maximum, difference, exponential, sum and quotient of each element.
        assert_eq!(list[1]["flops"].as_f64(), Some(5.0 * (64 * 48) as f64));
        let wall = file["wall_nanoseconds"].as_u64().unwrap();
        let spent: u64 = list.iter().map(|kernel| kernel["nanoseconds"].as_u64().unwrap()).sum();
        assert!(0 < spent && spent <= wall, "{spent} of {wall}");
        for kernel in list {
            let rate = kernel["bytes"].as_f64().unwrap() * 5.0 / kernel["nanoseconds"].as_f64().unwrap().max(1.0);
            let written = kernel["gb_per_s"].as_f64().unwrap();
            assert!(kernel["nanoseconds"] == 0 || (written - rate).abs() <= 1e-9 * rate, "{kernel}");
        }
        let forms = file["plan"]["kernels"].as_array().unwrap();
        let (softmax, rows) = (&forms[1]["ops"], &forms[1]["rows"]);
        assert!(
            softmax[0].as_str().unwrap().contains("reduce(") && softmax.as_array().unwrap().len() == 5,
            "{softmax}"
        );
        assert_eq!((rows["rows"].as_u64(), rows["columns"].as_u64()), (Some(64), Some(48)));
        let memory = &file["plan"]["memory"];
        assert_eq!(memory["results"].as_array().unwrap().len(), 21);
        let inside = memory["values"].as_array().unwrap().iter().filter(|value| value["place"] == "temporaries");
        let end = inside.map(|value| value["offset"].as_u64().unwrap() + value["bytes"].as_u64().unwrap()).max();
        // The product is the only temporary.
        assert_eq!(end, Some(4 * 64 * 48));
        assert!(memory["temporaries_bytes"].as_u64() >= end);
    }
}

#[test]
fn a_loop_has_the_rounds_kernels_and_times_of_its_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let mut b = Build::new();
    let (x, w) = (b.input(DType::F32, &[32, 32]), b.input(DType::F32, &[32, 32]));
    let values = counted(&mut b, &[x, w], 7, |b, x| {
        let y = b.matmul(x[0], x[1]);
        vec![b.unary(crate::ir::UnaryOp::Tanh, y), x[1]]
    });
    let graph = b.done(&values[..1]);
    let values = arguments(&graph, 1);
    let host = traced(folder.path(), 1);
    let executable = host.compile(&graph, CompileOptions::default()).unwrap();
    for _ in 0..2 {
        execute(&host, &*executable, &graph, &values).unwrap();
    }
    let kernels = executable.kernels();
    let repeat = kernels.iter().find(|kernel| kernel.kind == "while").unwrap();
    let inner: f64 = repeat.inner.iter().map(|kernel| kernel.seconds).sum();
    let product = repeat.inner.iter().find(|kernel| kernel.kind == "dot_general").unwrap();
    assert!(0.0 < product.seconds && product.seconds < inner && inner < repeat.seconds, "{repeat:?}");
    drop(executable);
    let file = files(folder.path()).pop().unwrap();
    let list = file["kernels"].as_array().unwrap();
    let repeat = list.iter().find(|kernel| kernel["kind"] == "while").unwrap();
    // The condition is asked once more than it holds.
    assert_eq!([&repeat["inner"][0]["runs"], &repeat["inner"][1]["runs"]], [2 * 8, 2 * 7]);
    let body = repeat["inner"][1]["kernels"].as_array().unwrap();
    let product = body.iter().find(|kernel| kernel["kind"] == "dot_general").unwrap();
    let rate = product["flops"].as_f64().unwrap() * 14.0 / product["nanoseconds"].as_f64().unwrap();
    assert!((product["gflop_per_s"].as_f64().unwrap() - rate).abs() <= 1e-9 * rate, "{product}");
    assert!(list.iter().filter(|kernel| kernel["kind"] != "while").all(|kernel| kernel["inner"].is_null()));
}

#[test]
fn traces_are_bounded_in_number_and_size() {
    let folder = tempfile::tempdir().unwrap();
    let host = traced(folder.path(), 1);
    let mut b = Build::new();
    let x = b.input(DType::F32, &[2]);
    let y = b.mul(x, x);
    let graph = b.done(&[y]);
    for _ in 0..520 {
        host.compile(&graph, CompileOptions::default()).unwrap();
    }
    assert_eq!(files(folder.path()).len(), 512);
    let folder = tempfile::tempdir().unwrap();
    let mut b = Build::new();
    let mut x = b.input(DType::F32, &[2]);
    for _ in 0..20_000 {
        x = b.mul(x, x);
    }
    traced(folder.path(), 1).compile(&b.done(&[x]), CompileOptions::default()).unwrap();
    let file = &files(folder.path())[0];
    assert_eq!((file["graph_is_cut"].as_bool(), file["nodes"].as_u64()), (Some(true), Some(20_001)));
    assert_eq!(file["graph"].as_str().unwrap().len(), 1 << 20);
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let options = HostOptions { trace: Some(file.join("inside")), ..HostOptions::default() };
    let error = Host::with_isa(options, Isa::available()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.message().contains("inside"), "{error}");
}
