//! Random graphs on the host and on XLA for CPU.
#![allow(clippy::print_stderr, reason = "a test that does not run says so")]

mod pjrt;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config as Runner, RngSeed, TestRunner};
use tpu_core::runtime::host::Host;
use tpu_core::runtime::pjrt::{OptionValue, Pjrt, PjrtOptions};
use tpu_core::testing::graphs::{Config, generate};
use tpu_core::testing::{cases, xla};

#[test]
fn random_graphs_agree_on_the_host_and_on_xla() {
    let Some(path) = pjrt::plugin(pjrt::CPU) else { return };
    let client = vec![("cpu_device_count".to_string(), OptionValue::Int(1))];
    let plugin = Pjrt::open(path, &PjrtOptions { client, ..PjrtOptions::default() }).unwrap();
    let config = Config { control_flow: true, ..Config::default() };
    let mut runner = TestRunner::new(Runner { rng_seed: RngSeed::Fixed(0x7075), ..Runner::default() });
    let bytes = prop::collection::vec(any::<u8>(), 0..300);
    let graphs: Vec<_> =
        (0..cases(500)).map(|_| generate(&bytes.new_tree(&mut runner).expect("bytes").current(), &config)).collect();
    let host = Host::from_env().unwrap();
    let batches: Vec<_> = graphs.chunks(20).enumerate().collect();
    let differences = |number: usize, batch: &[_]| {
        let wrong = xla::graphs(&host, &plugin, batch, 20).wrong.into_iter();
        wrong.map(move |(at, message)| format!("graph {}: {message}", 20 * number + at)).collect::<Vec<_>>()
    };
    // XLA compiles most of the time, one program on one thread.
    let (first, second) = batches.split_at(batches.len() / 2);
    let run = |half: &[(usize, &[_])]| half.iter().flat_map(|&(at, batch)| differences(at, batch)).collect::<Vec<_>>();
    let lines = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(second));
        let mut lines = run(first);
        lines.extend(other.join().unwrap());
        lines
    });
    assert!(lines.is_empty(), "{} differences\n{}", lines.len(), lines.join("\n"));
}
