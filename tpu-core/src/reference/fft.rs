//! Fourier transforms by their definition.

use super::array::Array;
use super::index::{for_each, lines, offset};
use super::number::{narrow, widen};
use crate::ir::{FftKind, Type};
use crate::{Complex64, Result};
use num_complex::Complex;

type Wide = Complex<f64>;

/// `fft(x)` over the last `lengths.len()` axes.
pub fn fft(kind: FftKind, x: &Array, lengths: &[usize], ty: &Type) -> Result<Array> {
    let rank = x.sizes().len();
    let (last, n) = (rank - 1, lengths[lengths.len() - 1]);
    let mut sizes = x.sizes().to_vec();
    let mut values: Vec<Wide> = x.cast_vec::<Complex64>().into_iter().map(widen).collect();
    let inverse = matches!(kind, FftKind::Ifft | FftKind::Irfft);
    let sign = if inverse { 1.0 } else { -1.0 };
    for axis in rank - lengths.len()..last {
        transform(&mut values, &sizes, axis, sign);
    }
    if kind == FftKind::Irfft {
        values = hermitian(&values, &sizes, n);
        sizes[last] = n;
    }
    transform(&mut values, &sizes, last, sign);
    let scale = if inverse { 1.0 / lengths.iter().product::<usize>() as f64 } else { 1.0 };
    match kind {
        FftKind::Irfft => Array::from_fn(ty, |i| (values[i].re * scale) as f32),
        FftKind::Fft | FftKind::Ifft => Array::from_fn(ty, |i| narrow(values[i] * scale)),
        FftKind::Rfft => {
            let mut half = Vec::new();
            for_each(ty.shape.sizes(), |_, index| half.push(narrow(values[offset(&sizes, index)])));
            Array::new(&ty.shape, &half)
        }
    }
}

/// Lines along the last axis made whole, of length `n`, by the symmetry of a real signal's spectrum. The imaginary parts of the first
/// and the middle entry stay; they give only imaginary parts, which the caller drops.
fn hermitian(half: &[Wide], sizes: &[usize], n: usize) -> Vec<Wide> {
    let last = sizes.len() - 1;
    let (mut whole, mut spectrum) = (Vec::new(), sizes.to_vec());
    spectrum[last] = n;
    for_each(&spectrum, |_, index| {
        let mut source = index.to_vec();
        source[last] = index[last].min(n - index[last]);
        let value = half[offset(sizes, &source)];
        whole.push(if source == index { value } else { value.conj() });
    });
    whole
}

/// Replaces each line along `axis` by its transform: entry `k` is the sum over `t` of `x[t] · e^(sign · 2πi k t / n)`.
fn transform(values: &mut [Wide], sizes: &[usize], axis: usize, sign: f64) {
    let n = sizes[axis];
    for line in lines(sizes, axis) {
        let x: Vec<Wide> = line.iter().map(|&number| values[number]).collect();
        for (k, &number) in line.iter().enumerate() {
            // The product is reduced before it becomes an angle, so that large ones lose nothing.
            let turn = |t: usize| sign * std::f64::consts::TAU * ((k * t) % n) as f64 / n as f64;
            values[number] = (0..n).map(|t| x[t] * Wide::from_polar(1.0, turn(t))).sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::evaluate_op;
    use super::*;
    use crate::ir::Op;
    use smallvec::smallvec;

    #[test]
    fn transforms_of_a_few_numbers_are_those_of_numpy() {
        // numpy.fft.rfft([1, 2, 3, 4, 5])
        let x = Array::new([5], &[1.0f32, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let op = |kind| Op::Fft { kind, lengths: smallvec![5] };
        let spectrum = evaluate_op(&op(FftKind::Rfft), std::slice::from_ref(&x)).unwrap().remove(0);
        let expected = [(15.0, 0.0), (-2.5, 3.440_954_8), (-2.5, 0.812_299_25)];
        for (got, (re, im)) in spectrum.to_vec::<Complex64>().unwrap().iter().zip(expected) {
            assert!((got - Complex64::new(re, im)).norm() < 1e-6, "{got}, expected {re} + {im}i");
        }
        let back = evaluate_op(&op(FftKind::Irfft), &[spectrum]).unwrap().remove(0);
        for (got, expected) in back.to_vec::<f32>().unwrap().iter().zip(1..) {
            assert!((got - expected as f32).abs() < 1e-6);
        }
    }

    #[test]
    fn the_inverse_undoes_a_transform_over_three_axes() {
        let numbers: Vec<Complex64> = (0..24).map(|i| Complex64::new(i as f32, (i * i % 7) as f32)).collect();
        let x = Array::new([2, 3, 4], &numbers).unwrap();
        let op = |kind| Op::Fft { kind, lengths: smallvec![2, 3, 4] };
        let spectrum = evaluate_op(&op(FftKind::Fft), &[x]).unwrap().remove(0);
        let sum: Complex64 = numbers.iter().sum();
        assert_eq!(spectrum.to_vec::<Complex64>().unwrap()[0], sum);
        let back = evaluate_op(&op(FftKind::Ifft), &[spectrum]).unwrap().remove(0);
        for (got, expected) in back.to_vec::<Complex64>().unwrap().iter().zip(&numbers) {
            assert!((got - expected).norm() < 1e-5);
        }
    }
}
