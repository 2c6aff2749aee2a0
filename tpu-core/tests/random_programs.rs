//! Random programs: the host backend agrees with the interpreter, node by node within the bounds of `testing::tolerance`, and the
//! whole program gives the bits of its nodes one by one: compiled as it is, and recorded as tensors in every mode.

use proptest::prelude::*;
use tpu_core::Device;
use tpu_core::testing::cases;
use tpu_core::testing::graphs::{Config, generate};
use tpu_core::testing::modes::assert_agrees_in_every_mode;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(500),
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(0x7075),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_host_agrees_with_the_interpreter_in_every_mode(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let (graph, arguments) = generate(&bytes, &Config::default());
        assert_agrees_in_every_mode(&Device::host().unwrap(), &graph, &arguments);
    }
}
