//! Complex numbers: functions from real to real operands through complex values, so that differences are of real numbers.
//! The parts of complex numbers are float32.

use crate::differences::{Given, check, given};
use tpu_core::ir::{FftKind, Op, UnaryOp};
use tpu_core::{DType, Result, Tensor};

fn parts(sizes: &[usize], low: f64, high: f64) -> [Given; 2] {
    let mut part = given(sizes, low, high);
    part.dtype = DType::F32;
    [part.clone(), part]
}

fn both(z: &Tensor) -> Result<Vec<Tensor>> {
    Ok(vec![z.real()?, z.imag()?])
}

#[test]
fn functions_of_one_complex_operand() {
    use UnaryOp::*;
    for op in [Abs, Neg, Sign, Exp, Expm1, Log, Log1p, Logistic, Tanh, Sin, Cos, Tan, Sqrt, Rsqrt] {
        check(op.name(), 2, &parts(&[2, 2], 0.5, 1.2), 3, &|x| {
            let y = Tensor::record(Op::Unary(op), &[(&x[0].complex(&x[1])?).into()])?.swap_remove(0);
            if y.dtype().is_complex() { both(&y) } else { Ok(vec![y]) }
        })
        .unwrap();
    }
}

#[test]
fn functions_of_two_complex_operands() {
    let operands = [parts(&[2], 0.5, 1.2), parts(&[2], 0.6, 1.1)].concat();
    let pair = |x: &[Tensor]| Ok::<_, tpu_core::Error>((x[0].complex(&x[1])?, x[2].complex(&x[3])?));
    check("multiply", 2, &operands, 3, &|x| pair(x).and_then(|(a, b)| both(&a.mul(&b)?))).unwrap();
    check("divide", 2, &operands, 3, &|x| pair(x).and_then(|(a, b)| both(&a.div(&b)?))).unwrap();
    check("power", 2, &operands, 3, &|x| pair(x).and_then(|(a, b)| both(&a.pow(&b)?))).unwrap();
    check("convert", 2, &operands[..1], 3, &|x| {
        let z = x[0].to_dtype(DType::Complex64)?;
        both(&z.mul(&z)?)
    })
    .unwrap();
}

#[test]
fn fourier_transforms() {
    let fft = |kind: FftKind, lengths: &[usize], x: &Tensor| {
        let op = Op::Fft { kind, lengths: lengths.iter().copied().collect() };
        Ok::<_, tpu_core::Error>(Tensor::record(op, &[x.into()])?.swap_remove(0))
    };
    for kind in [FftKind::Fft, FftKind::Ifft] {
        check(kind.name(), 2, &parts(&[2, 3, 4], -0.2, 0.2), 3, &|x| both(&fft(kind, &[3, 4], &x[0].complex(&x[1])?)?))
            .unwrap();
    }
    for last in [4, 5] {
        check("RFFT", 2, &parts(&[2, 3, last], -0.2, 0.2)[..1], 3, &|x| both(&fft(FftKind::Rfft, &[3, last], &x[0])?))
            .unwrap();
        check("IRFFT", 2, &parts(&[2, 3, last / 2 + 1], -0.5, 0.5), 3, &|x| {
            Ok(vec![fft(FftKind::Irfft, &[3, last], &x[0].complex(&x[1])?)?])
        })
        .unwrap();
    }
}
