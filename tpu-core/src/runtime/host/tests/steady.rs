//! A loop that has warmed up touches no new memory.

use super::build::Build;
use super::*;

/// Pages that this thread has touched for the first time.
fn faults() -> i64 {
    // SAFETY: all bytes of the structure may be zero, and the call writes within it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
        usage
    };
    usage.ru_minflt
}

/// A step of a loop whose parameter follows what it is normalised to: the new parameter, the activations and a loss. It has no
/// matrix product: what those pack is memory of `gemm`, not ours.
fn training() -> Graph {
    let mut b = Build::new();
    let (w, x, want) =
        (b.input(DType::F32, &[128, 1024]), b.input(DType::F32, &[128, 1024]), b.input(DType::F32, &[128, 1024]));
    let y = b.mul(x, w);
    let y = b.gelu(y);
    let (z, _) = b.normalise(y);
    let error = b.sub(z, want);
    let square = b.mul(error, error);
    let loss = b.op(Op::Reduce { kind: crate::ir::Reducer::Sum, axes: [0, 1][..].into() }, &[square]);
    // Over the first axis as well, so that there are groups and memory between them.
    let columns = b.columns(error);
    let change = b.mul(error, columns);
    let change = b.scale(change, 1e-4);
    let w = b.sub(w, change);
    b.done(&[w, z, loss])
}

#[test]
fn steps_of_training_touch_no_page_for_the_first_time_once_warm() {
    let (host, graph) = (host(1, Isa::available()), training());
    let executable = host.compile(&graph, CompileOptions::default()).unwrap();
    let types: Vec<Type> = graph.parameter_types(graph.main()).cloned().collect();
    let values = arguments(&graph, 1);
    let mut parameters: Vec<Arc<dyn Buffer>> =
        types.iter().zip(&values).take(1).map(|(ty, bytes)| host.upload(0, ty, bytes).unwrap()).collect();
    let mut before = 0;
    // Fresh memory would be 128 pages for the activations alone.
    for step in 0..24 {
        if step == 4 {
            before = faults();
        }
        let batch = types.iter().zip(&values).skip(1).map(|(ty, bytes)| host.upload(0, ty, bytes).unwrap());
        let mut list: Vec<Argument> = parameters.drain(..).map(Argument::Donated).collect();
        list.extend(batch.map(Argument::Donated));
        let outcome = executable.run(0, &mut list).unwrap();
        parameters = outcome.results[..1].to_vec();
    }
    let touched = faults() - before;
    assert!(touched < 20, "{touched} pages in 20 steps");
}
