//! What recording one small operation costs: `f32[4]` add; creation, shape rule, location and drop included, nothing run.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};
use tpu_autograd::Param;
use tpu_core::Tensor;

/// Operations before all results are dropped.
const BATCH: usize = 1000;

/// Records a chain of additions, each dropping its operand, and drops what is left.
fn chain(x: &Tensor, y: &Tensor) {
    let mut sum = x.add(y).expect("equal shapes");
    for _ in 1..BATCH {
        sum = sum.add(y).expect("equal shapes");
    }
    black_box(&sum);
}

/// Records additions of the same operands, all kept until the end.
fn fan(x: &Tensor, y: &Tensor, kept: &mut Vec<Tensor>) {
    for _ in 0..BATCH {
        kept.push(x.add(y).expect("equal shapes"));
    }
    black_box(&kept);
    kept.clear();
}

/// Operands of this thread.
fn operands() -> (Tensor, Tensor) {
    let make = |v: f32| Tensor::from_slice(&[v; 4]).expect("four elements fit");
    (make(1.0), make(2.0))
}

fn record(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("record");
    group.throughput(Throughput::Elements(BATCH as u64));
    let (x, y) = operands();
    group.bench_function("chain", |bencher| bencher.iter(|| chain(&x, &y)));
    let mut kept = Vec::with_capacity(BATCH);
    group.bench_function("fan", |bencher| bencher.iter(|| fan(&x, &y, &mut kept)));
    // Every result is dropped before the next one: nothing ever stays pending.
    group.bench_function("dropped_at_once", |bencher| {
        bencher.iter(|| {
            for _ in 0..BATCH {
                black_box(x.add(&y).expect("equal shapes"));
            }
        });
    });
    // Each result keeps the history of all before it: what a backward pass would go through, dropped at the end.
    let parameter = Param::new(x.clone());
    group.bench_function("chain_with_history", |bencher| bencher.iter(|| chain(&parameter.value(), &y)));
    for threads in [2, 8] {
        group.throughput(Throughput::Elements((BATCH * threads) as u64));
        group.bench_function(format!("chain_{threads}_threads"), |bencher| {
            bencher.iter_custom(|rounds| together(threads, rounds));
        });
    }
    group.finish();
}

/// The time of `rounds` chains on each of several threads.
fn together(threads: usize, rounds: u64) -> Duration {
    let barrier = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (x, y) = operands();
                barrier.wait();
                (0..rounds).for_each(|_| chain(&x, &y));
                barrier.wait();
            });
        }
        barrier.wait();
        let start = Instant::now();
        barrier.wait();
        start.elapsed()
    })
}

criterion_group!(benches, record);
criterion_main!(benches);
