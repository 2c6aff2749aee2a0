//! What a cached step of 1,000 small operations costs.
//!
//! The mix, of `f32[8, 8]` and smaller: 52 % elementwise of two tensors, 8 % of a tensor and a number, 12 % of one tensor,
//! and 4 % each of sums over an axis, reshapes, broadcasts, transposes, slices, concatenations and matrix products.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use tpu_core::{Result, Tensor};

const OPS: u64 = 1000;

/// Records the step: 40 rounds of 25 operations.
fn step(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let mut x = x.clone();
    for _ in 0..OPS / 25 {
        // 13 of two tensors.
        let mut y = x.mul(w)?;
        for _ in 0..6 {
            y = y.add(w)?.maximum(&x)?;
        }
        // 2 with a number, 3 of one tensor.
        y = y.mul(0.5)?.add(0.25)?;
        y = y.abs()?.neg()?.tanh()?;
        // A sum, reshaped to keep its axis, and its broadcast; a transpose, a slice.
        let total = y.sum([1], true)?.broadcast_to([8, 8])?;
        let part = total.t()?.slice(0, 0, 8, 2)?;
        // A product: [4, 8] x [8, 8], and back to eight rows.
        let product = part.matmul(w)?;
        x = Tensor::concat(&[&product, &product], 0)?;
    }
    Ok(x)
}

fn operands() -> Result<(Tensor, Tensor)> {
    let numbers = |salt: usize| (0..64).map(|at| ((at * 37 + salt) % 64) as f32 / 640.0).collect();
    Ok((Tensor::from_vec(numbers(1), [8, 8])?, Tensor::from_vec(numbers(2), [8, 8])?))
}

fn replay(criterion: &mut Criterion) {
    let (x, w) = operands().expect("64 elements fit");
    let (recorded, pending) = (tpu_core::lazy::statistics().recorded, step(&x, &w).expect("shapes fit"));
    assert_eq!(tpu_core::lazy::statistics().recorded - recorded, OPS, "the mix has 1,000 operations");
    pending.wait().expect("the step runs");
    let mut group = criterion.benchmark_group("replay");
    group.throughput(Throughput::Elements(OPS));
    // Key, run and drop: what follows recording.
    group.bench_function("cut", |bencher| {
        bencher.iter_batched(
            || step(&x, &w).expect("shapes fit"),
            |pending| pending.wait().expect("the step runs"),
            BatchSize::PerIteration,
        );
    });
    group.bench_function("record_and_cut", |bencher| {
        bencher.iter(|| step(&x, &w).and_then(|pending| pending.wait()).expect("the step runs"));
    });
    group.finish();
}

criterion_group!(benches, replay);
criterion_main!(benches);
