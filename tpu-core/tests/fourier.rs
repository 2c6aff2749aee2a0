//! Fourier transforms against PyTorch (`tables/make_fourier.py` says how the table was made) and against what holds for every
//! transform.

use smallvec::SmallVec;
use std::sync::Arc;
use tpu_core::ir::{FftKind, Op};
use tpu_core::reference::ReferenceBackend;
use tpu_core::{Complex64, Device, Result, Tensor};

const TABLE: &str = include_str!("tables/fourier.txt");

fn transform(kind: FftKind, lengths: &[usize], x: &Tensor) -> Result<Tensor> {
    Ok(Tensor::record(Op::Fft { kind, lengths: SmallVec::from_slice(lengths) }, &[x.into()])?.swap_remove(0))
}

/// The numbers of the table's operands.
fn number(i: usize) -> f32 {
    ((7919 * i % 101) as f32 - 50.0) / 8.0
}

fn complex(sizes: &[usize]) -> Tensor {
    let count: usize = sizes.iter().product();
    let z: Vec<Complex64> = (0..count).map(|i| Complex64::new(number(2 * i), number(2 * i + 1))).collect();
    Tensor::from_vec(z, sizes).unwrap()
}

fn real(sizes: &[usize]) -> Tensor {
    let count: usize = sizes.iter().product();
    Tensor::from_vec((0..count).map(number).collect::<Vec<_>>(), sizes).unwrap()
}

/// Pairs of a complex tensor, or the elements of a real one.
fn numbers(y: &Tensor) -> Vec<f32> {
    if y.dtype().is_complex() {
        y.to_vec::<Complex64>().unwrap().iter().flat_map(|z| [z.re, z.im]).collect()
    } else {
        y.to_vec().unwrap()
    }
}

#[test]
fn transforms_are_those_of_pytorch() {
    let list = |text: &str| text.split(',').map(|size| size.parse().unwrap()).collect::<Vec<usize>>();
    let mut rows = 0;
    for row in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let mut words = row.split(' ');
        let kind = words.next().unwrap();
        let (sizes, lengths) = (list(words.next().unwrap()), list(words.next().unwrap()));
        let want: Vec<f32> = words.map(|word| word.parse().unwrap()).collect();
        let kind = FftKind::ALL.iter().copied().find(|known| known.name() == kind).unwrap();
        for device in [Device::host().unwrap(), Device::open(Arc::new(ReferenceBackend))[0].clone()] {
            device.scope(|| {
                let x = if kind == FftKind::Rfft { real(&sizes) } else { complex(&sizes) };
                let got = numbers(&transform(kind, &lengths, &x).unwrap());
                assert_eq!(got.len(), want.len(), "{row}");
                // Both sum in double precision and round once to float32, so a step of a number's own. The sum of n terms, the largest
                // of modulus 9, is off by some n roundings of 9 n before that.
                let n: usize = lengths.iter().product();
                let lost = f64::EPSILON * 9.0 * (n * n) as f64;
                for (got, want) in got.iter().zip(&want) {
                    let allowed = f64::from(f32::EPSILON) * f64::from(want.abs()) + lost;
                    let difference = (f64::from(*got) - f64::from(*want)).abs();
                    assert!(difference <= allowed, "{got}, expected {want} on {device}: {row}");
                }
            });
        }
        rows += 1;
    }
    assert_eq!(rows, 108);
}

#[test]
fn the_inverse_of_a_real_signal_s_spectrum_is_the_signal() {
    for lengths in [&[1][..], &[2], &[9], &[1009], &[3, 8], &[31, 37], &[2, 3, 5], &[4, 3, 6]] {
        let x = real(&[&[3], lengths].concat());
        let spectrum = transform(FftKind::Rfft, lengths, &x).unwrap();
        let back = transform(FftKind::Irfft, lengths, &spectrum).unwrap();
        // The spectrum is rounded to float32: each of n entries, of the modulus of all elements together, by half a step; the
        // inverse divides their sum by n.
        let energy = x.to_vec::<f32>().unwrap().iter().map(|x| x * x).sum::<f32>().sqrt();
        let allowed = f32::EPSILON * energy + 8.0 * f32::EPSILON;
        for (got, want) in numbers(&back).iter().zip(numbers(&x)) {
            assert!((got - want).abs() <= allowed, "{lengths:?}: {got}, expected {want}");
        }
    }
}

#[test]
fn what_is_not_finite_spoils_its_own_signal_and_no_other() {
    for n in [4, 12, 37] {
        for special in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut elements = real(&[3, n]).to_vec::<f32>().unwrap();
            elements[n + 1] = special;
            let y = transform(FftKind::Rfft, &[n], &Tensor::from_vec(elements, [3, n]).unwrap()).unwrap();
            let y = y.to_vec::<Complex64>().unwrap();
            let half = n / 2 + 1;
            for (i, y) in y.iter().enumerate() {
                let spoilt = !(y.re.is_finite() && y.im.is_finite());
                assert_eq!(spoilt, i / half == 1, "entry {i} of {n} with {special}: {y}");
            }
        }
    }
}

#[test]
fn no_signals_and_signals_of_nothing_have_spectra_of_nothing() {
    for (kind, sizes, lengths, want) in [
        (FftKind::Fft, &[0, 4][..], &[4][..], &[0, 4][..]),
        (FftKind::Ifft, &[3, 0], &[0], &[3, 0]),
        (FftKind::Irfft, &[3, 0], &[0], &[3, 0]),
        (FftKind::Irfft, &[0, 2, 3], &[2, 4], &[0, 2, 4]),
        (FftKind::Fft, &[2, 0, 3], &[0, 3], &[2, 0, 3]),
    ] {
        assert_eq!(transform(kind, lengths, &complex(sizes)).unwrap().sizes(), want);
        assert!(numbers(&transform(kind, lengths, &complex(sizes)).unwrap()).is_empty());
    }
}
