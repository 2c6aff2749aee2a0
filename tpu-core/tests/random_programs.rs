//! Random programs: the host backend agrees with the interpreter, node by node within the bounds of `testing::tolerance`, and the
//! whole program gives the bits of its nodes one by one: compiled as it is, and recorded as tensors in every mode.

use proptest::prelude::*;
use smallvec::smallvec;
use tpu_core::ir::{Op, Reducer, samples};
use tpu_core::reference::{Array, evaluate_op};
use tpu_core::testing::cases;
use tpu_core::testing::graphs::{Config, generate};
use tpu_core::testing::modes::assert_agrees_in_every_mode;
use tpu_core::{Complex64, Device};

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

/// Found by the long sweep: a product that starts from one, `(1 + 0i) · (NaN − 0i)`, is NaN in both parts.
#[test]
fn a_reduction_over_one_element_is_that_element() {
    let x = Array::new([2, 1], &[Complex64::new(f32::NAN, -0.0), Complex64::new(f32::INFINITY, 1.0)]).unwrap();
    for &kind in &[Reducer::Product, Reducer::Sum] {
        let op = Op::Reduce { kind, axes: smallvec![1] };
        let graph = samples::program(&[x.ty().clone()], op).unwrap();
        assert_agrees_in_every_mode(&Device::host().unwrap(), &graph, std::slice::from_ref(&x));
    }
    let op = Op::Reduce { kind: Reducer::Product, axes: smallvec![1] };
    let got = evaluate_op(&op, std::slice::from_ref(&x)).unwrap().remove(0);
    assert_eq!(got.bytes(), x.bytes());
}
