//! What a cached step of 1,000 small operations costs.

use benches::mix::{operands, record};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const OPS: usize = 1000;

fn replay(criterion: &mut Criterion) {
    let (x, w) = operands().expect("64 elements fit");
    let step = || record(&x, &w, OPS).expect("shapes fit");
    let (recorded, pending) = (tpu_core::lazy::statistics().recorded, step());
    assert_eq!(tpu_core::lazy::statistics().recorded - recorded, OPS as u64, "the mix has 1,000 operations");
    pending.wait().expect("the step runs");
    let mut group = criterion.benchmark_group("replay");
    group.throughput(Throughput::Elements(OPS as u64));
    // Key, run and drop: what follows recording.
    group.bench_function("cut", |bencher| {
        bencher.iter_batched(step, |pending| pending.wait().expect("the step runs"), BatchSize::PerIteration);
    });
    group.bench_function("record_and_cut", |bencher| {
        bencher.iter(|| step().wait().expect("the step runs"));
    });
    group.finish();
}

criterion_group!(benches, replay);
criterion_main!(benches);
