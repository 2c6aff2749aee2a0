//! Memory of the process stays flat while programs run on a plugin. A test program of its own, since what other tests of the
//! same process allocate would count.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stderr, reason = "a test that does not run says so")]

mod pjrt;

use std::sync::Arc;
use tpu_core::ir::{BinaryOp, Op, Type, samples};
use tpu_core::runtime::pjrt::{Pjrt, PjrtOptions};
use tpu_core::runtime::{Argument, Backend, CompileOptions};
use tpu_core::{DType, Device, Tensor};

const ROUNDS: usize = 20_000;
/// A leak of 256 bytes per round is 5 MB. Allocators and thread pools settle within less: 0 to 0.6 MB were seen.
const GROWTH: usize = 3 << 20;

/// Resident bytes of this process.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    4096 * text.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
}

#[track_caller]
fn assert_flat(what: &str, mut round: impl FnMut(usize)) {
    (0..ROUNDS / 10).for_each(&mut round);
    let before = resident();
    (0..ROUNDS).for_each(round);
    let growth = resident().saturating_sub(before);
    assert!(growth < GROWTH, "{what} grows by {growth} bytes in {ROUNDS} rounds");
}

#[test]
fn resident_memory_is_flat_over_20_000_rounds() {
    for file in [pjrt::CPU, pjrt::OLD_CPU] {
        let Some(path) = pjrt::plugin(file) else { return };
        let backend = Pjrt::open(&path, &PjrtOptions::default()).unwrap();
        let ty = Type::new(DType::F32, [256]);
        let graph = samples::program(&[ty.clone(), ty.clone()], Op::Binary(BinaryOp::Add)).unwrap();
        let program = backend.compile(&graph, CompileOptions::default()).unwrap();
        let bytes: Vec<u8> = (0..256).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let shared = backend.upload(0, &ty, &bytes).unwrap();
        let mut read = vec![0; bytes.len()];
        assert_flat(file, |_| {
            let donated = backend.upload(0, &ty, &bytes).unwrap();
            let mut arguments = [Argument::Donated(donated), Argument::Shared(shared.clone())];
            let outcome = program.run(0, &mut arguments).unwrap();
            outcome.results[0].read(&mut read).unwrap();
            assert_eq!(read[4..8], 2.0f32.to_le_bytes());
        });
        // As a user runs them, with a number that is an argument of each run.
        let device = Device::open(Arc::new(backend)).swap_remove(0);
        device.scope(|| {
            let x = Tensor::from_vec(vec![1.0f32; 256], 256).unwrap();
            assert_flat(&format!("{file} with tensors"), |round| {
                let y = x.mul(round as f64).unwrap();
                assert_eq!(y.to_vec::<f32>().unwrap()[255], round as f32);
            });
        });
    }
}
