//! Random programs: the host backend agrees with the interpreter, node by node within the bounds of `testing::tolerance`, and the
//! whole program gives the bits of its nodes one by one.

use proptest::prelude::*;
use tpu_core::runtime::host::Host;
use tpu_core::testing::compare::assert_agrees;
use tpu_core::testing::graphs::{Config, generate};

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(0x7075),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_host_agrees_with_the_interpreter(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let (graph, arguments) = generate(&bytes, &Config::default());
        assert_agrees(&Host::from_env().unwrap(), &graph, &arguments);
    }
}
