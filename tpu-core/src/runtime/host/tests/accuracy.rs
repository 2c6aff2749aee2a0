//! Elementary functions against f64 mathematics.

use super::build::Build;
use super::*;
use crate::ir::UnaryOp;

/// Every exponent and sign with mantissas spread evenly and at both ends, and what is special.
fn samples() -> Vec<f32> {
    let mut all = vec![0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN];
    for exponent in 0..255u32 {
        for i in 0..=256u32 {
            let mantissa = (i * 0x8000).min(0x7f_ffff) ^ ((i * 2_654_435) & 0x7fff);
            let x = f32::from_bits((exponent << 23) | (mantissa & 0x7f_ffff));
            all.extend([x, -x]);
        }
    }
    // Where the interesting things happen, densely.
    all.extend((-200_000..200_000).map(|i| i as f32 * 5.3e-4));
    all
}

/// Distance in units of the last place of the nearest f32 to `want`.
fn ulps(got: f32, want: f64) -> f64 {
    let nearest = want as f32;
    if got == nearest || (got.is_nan() && nearest.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || !nearest.is_finite() {
        // Beyond the largest number, infinity is one step away.
        let (big, other) = if got.is_infinite() { (got, nearest) } else { (nearest, got) };
        return if big.is_infinite() && other.abs() >= f32::MAX && big.signum() == other.signum() { 1.0 } else { 1e9 };
    }
    let unit = f32::from_bits((nearest.abs().to_bits() & 0x7f80_0000).max(0x0080_0000)) as f64 * 2f64.powi(-23);
    (f64::from(got) - want).abs() / unit
}

#[test]
fn f32_functions_are_within_2_ulp_everywhere() {
    let functions: [(UnaryOp, fn(f64) -> f64); 14] = [
        (UnaryOp::Exp, f64::exp),
        (UnaryOp::Expm1, f64::exp_m1),
        (UnaryOp::Log, f64::ln),
        (UnaryOp::Log1p, f64::ln_1p),
        (UnaryOp::Logistic, |x| 1.0 / (1.0 + (-x).exp())),
        (UnaryOp::Tanh, f64::tanh),
        (UnaryOp::Sin, f64::sin),
        (UnaryOp::Cos, f64::cos),
        (UnaryOp::Tan, f64::tan),
        (UnaryOp::Sqrt, f64::sqrt),
        (UnaryOp::Rsqrt, |x| 1.0 / x.sqrt()),
        (UnaryOp::Cbrt, f64::cbrt),
        (UnaryOp::Erf, erf),
        // Of the interpreter: Newton's method on another library's erf.
        (UnaryOp::ErfInv, crate::reference::special::erf_inv),
    ];
    let values = samples();
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    for (op, exact) in functions {
        let mut b = Build::new();
        let x = b.input(DType::F32, &[values.len()]);
        let y = b.unary(op, x);
        let got = f32::read_bytes(&run(&b.done(&[y]), std::slice::from_ref(&bytes))[0]);
        let (mut worst, mut at) = (0.0, 0.0);
        for (&x, &y) in values.iter().zip(&got) {
            let error = ulps(y, exact(x.into()));
            if error > worst {
                (worst, at) = (error, x);
            }
        }
        assert!(worst <= 2.0, "{}: {worst} ulp at {at:e}", op.name());
    }
}

/// Error function by Simpson's rule for small and moderate arguments: independent of the series used in the kernels.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    if x.is_nan() || a == 0.0 {
        return x;
    }
    if a > 6.0 {
        return 1f64.copysign(x);
    }
    let n = 64;
    let h = a / n as f64;
    let f = |t: f64| (-t * t).exp();
    let inner: f64 = (1..n).map(|i| if i % 2 == 1 { 4.0 } else { 2.0 } * f(i as f64 * h)).sum();
    // The rule's error, h⁴ a / 180 · max|f⁗| with |f⁗| ≤ 12, is below 1e-9 relative up to a = 1.
    let coarse = (f(0.0) + inner + f(a)) * h / 3.0;
    if a <= 1.0 {
        return (std::f64::consts::FRAC_2_SQRT_PI * coarse).copysign(x);
    }
    let n = 2048;
    let h = a / n as f64;
    let inner: f64 = (1..n).map(|i| if i % 2 == 1 { 4.0 } else { 2.0 } * f(i as f64 * h)).sum();
    (std::f64::consts::FRAC_2_SQRT_PI * (f(0.0) + inner + f(a)) * h / 3.0).copysign(x)
}

#[test]
fn functions_keep_signed_zeros_and_their_limits() {
    let cases: [(UnaryOp, f32, f32); 16] = [
        (UnaryOp::Exp, f32::NEG_INFINITY, 0.0),
        (UnaryOp::Exp, 89.0, f32::INFINITY),
        (UnaryOp::Expm1, -0.0, -0.0),
        (UnaryOp::Log, 0.0, f32::NEG_INFINITY),
        (UnaryOp::Log, f32::INFINITY, f32::INFINITY),
        (UnaryOp::Log1p, -0.0, -0.0),
        (UnaryOp::Log1p, -1.0, f32::NEG_INFINITY),
        (UnaryOp::Tanh, -0.0, -0.0),
        (UnaryOp::Tanh, f32::NEG_INFINITY, -1.0),
        (UnaryOp::Sin, -0.0, -0.0),
        (UnaryOp::Erf, f32::INFINITY, 1.0),
        (UnaryOp::Erf, -0.0, -0.0),
        (UnaryOp::ErfInv, -0.0, -0.0),
        (UnaryOp::ErfInv, -1.0, f32::NEG_INFINITY),
        (UnaryOp::Tanh, 9.5, 1.0),
        (UnaryOp::Logistic, f32::NEG_INFINITY, 0.0),
    ];
    for (op, x, want) in cases {
        let mut b = Build::new();
        let input = b.input(DType::F32, &[1]);
        let y = b.unary(op, input);
        let got = f32::read_bytes(&run(&b.done(&[y]), &[x.to_le_bytes().to_vec()])[0])[0];
        assert_eq!(got.to_bits(), want.to_bits(), "{} of {x}: {got}", op.name());
    }
}

#[test]
fn sixteen_bit_floats_convert_as_the_half_crate_does() {
    let values: Vec<f32> = samples();
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    for dtype in [DType::BF16, DType::F16] {
        let mut b = Build::new();
        let x = b.input(DType::F32, &[values.len()]);
        let y = b.op(Op::Convert(dtype), &[x]);
        let z = b.op(Op::Convert(DType::F32), &[y]);
        let got = run(&b.done(&[y, z]), std::slice::from_ref(&bytes));
        let narrow = u16::read_bytes(&got[0]);
        let wide = f32::read_bytes(&got[1]);
        for ((&x, &y), &z) in values.iter().zip(&narrow).zip(&wide) {
            let (bits, value) = match dtype {
                DType::BF16 => (half::bf16::from_f32(x).to_bits(), half::bf16::from_f32(x).to_f32()),
                _ => (half::f16::from_f32(x).to_bits(), half::f16::from_f32(x).to_f32()),
            };
            assert!(y == bits || x.is_nan(), "{x:e} to {dtype}: {y:#x} instead of {bits:#x}");
            assert!(z == value || (x.is_nan() && z.is_nan()), "{x:e} through {dtype}: {z} instead of {value}");
        }
    }
}
