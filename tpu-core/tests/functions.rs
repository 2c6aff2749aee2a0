//! Elementary functions in f64 against mpmath: `tables/make_functions.py` says how the table was made.

use std::collections::HashMap;
use std::sync::Arc;
use tpu_core::ir::{Op, UnaryOp};
use tpu_core::reference::ReferenceBackend;
use tpu_core::tensor::Operand;
use tpu_core::{DType, Device, Tensor, lazy};

const TABLE: &str = include_str!("tables/functions.txt");

/// For each function the most steps from number to number between a result and the correctly rounded one; so its error is below
/// half a unit in the last place more.
///
/// The GNU C library's manual ("Errors in Math Functions") states 1 for exp, expm1, log, log1p, erf, sin and cos, 2 for tanh; Rust's
/// standard library calls the system's. erf is that of FreeBSD's msun, below 1. The logistic function has three roundings
/// more (of the exponential, the sum and the quotient), each at most doubled by the quotient.
const BOUNDS: [(UnaryOp, u64); 9] = [
    (UnaryOp::Exp, 1),
    (UnaryOp::Expm1, 1),
    (UnaryOp::Log, 1),
    (UnaryOp::Log1p, 1),
    (UnaryOp::Logistic, 3),
    (UnaryOp::Tanh, 2),
    (UnaryOp::Erf, 1),
    (UnaryOp::Sin, 1),
    (UnaryOp::Cos, 1),
];

/// The pairs of argument and value of each function.
fn table() -> HashMap<&'static str, Vec<(f64, f64)>> {
    let mut functions: HashMap<_, Vec<_>> = HashMap::new();
    let mut name = "";
    let number = |word| f64::from_bits(u64::from_str_radix(word, 16).expect("bits in hexadecimal"));
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix(' ').and_then(|pair| pair.split_once(' ')) {
            Some((x, y)) => functions.entry(name).or_default().push((number(x), number(y))),
            None => name = line,
        }
    }
    functions
}

/// Steps from number to number; the zeros are one step apart.
fn steps(x: f64, y: f64) -> u64 {
    let place = |x: f64| if x.is_sign_negative() { -1 - (x.abs().to_bits() as i64) } else { x.to_bits() as i64 };
    if x.is_nan() || y.is_nan() { u64::MAX } else { place(x).abs_diff(place(y)) }
}

fn apply(op: UnaryOp, x: &[f64]) -> Vec<f64> {
    let x = Tensor::from_slice(x).unwrap();
    Tensor::record(Op::Unary(op), &[Operand::Tensor(&x)]).unwrap()[0].to_vec().unwrap()
}

#[test]
fn f64_functions_are_within_their_bounds_on_every_backend() {
    let table = table();
    assert_eq!(table.len(), BOUNDS.len());
    let interpreter = &Device::open(Arc::new(ReferenceBackend))[0];
    let mut outside = Vec::new();
    for device in [&Device::host().unwrap(), interpreter] {
        for (op, bound) in BOUNDS {
            let pairs = &table[op.name()];
            let x: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
            let got = device.scope(|| apply(op, &x));
            let worst = got.iter().zip(pairs).map(|(&got, &(x, want))| (steps(got, want), x, got, want));
            let (most, x, got, want) = worst.max_by_key(|found| found.0).unwrap();
            if most > bound {
                outside.push(format!("{} on {device}: {most} steps at {x:e}: {got:e}, exactly {want:e}", op.name()));
            }
        }
    }
    assert!(outside.is_empty(), "{outside:#?}");
}

#[test]
fn functions_of_nan_are_nan_and_of_infinity_their_limit() {
    let inf = f64::INFINITY;
    let limits = [
        (UnaryOp::Exp, 0.0, inf),
        (UnaryOp::Expm1, -1.0, inf),
        (UnaryOp::Log, f64::NAN, inf),
        (UnaryOp::Log1p, f64::NAN, inf),
        (UnaryOp::Logistic, 0.0, 1.0),
        (UnaryOp::Tanh, -1.0, 1.0),
        (UnaryOp::Erf, -1.0, 1.0),
        (UnaryOp::Sin, f64::NAN, f64::NAN),
        (UnaryOp::Cos, f64::NAN, f64::NAN),
    ];
    for (op, below, above) in limits {
        let got = apply(op, &[-inf, inf, f64::NAN, -2.0]);
        for (got, want) in got.iter().zip([below, above, f64::NAN]) {
            assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{}: {got}", op.name());
        }
        let negative = matches!(op, UnaryOp::Log | UnaryOp::Log1p);
        assert_eq!(got[3].is_nan(), negative, "{}", op.name());
    }
}

/// Far below zero the function is eˣ, where that is subnormal too.
#[test]
fn logistic_does_not_vanish_before_its_exponential_does() {
    let check = |dtype: DType, x: f64, want: f64| {
        let y = Tensor::from_slice(&[x]).unwrap().to_dtype(dtype).unwrap();
        let y = Tensor::record(Op::Unary(UnaryOp::Logistic), &[Operand::Tensor(&y)]).unwrap().remove(0);
        // Rounded to the dtype before it is converted.
        let got = lazy::strict_rounding(|| y.to_dtype(DType::F64)?.item::<f64>()).unwrap();
        assert_eq!(got, want, "{dtype} of {x}");
    };
    // Decimal(x).exp() in units of the least subnormal number: 5.16 at −742.8, 9.77 at −101, 1.89
    // at −16 and 8.92 at −90.
    check(DType::F64, -742.8, 5.0 * f64::from_bits(1));
    check(DType::F32, -101.0, 10.0 * 2f64.powi(-149));
    check(DType::F16, -16.0, 2.0 * 2f64.powi(-24));
    check(DType::BF16, -90.0, 9.0 * 2f64.powi(-133));
}
