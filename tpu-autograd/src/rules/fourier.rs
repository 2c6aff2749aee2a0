//! Fourier transforms: linear, so the gradient goes through the conjugate transpose.

use super::{Context, Gradients, complexed, constant, record, scaled};
use smallvec::SmallVec;
use tpu_core::ir::{Axes, FftKind, Op};
use tpu_core::{DType, Literal, Result, Scalar, Tensor};

pub(super) fn gradients(cx: &Context<'_>, kind: FftKind, lengths: &Axes) -> Result<Gradients> {
    let count: f64 = lengths.iter().map(|&length| length as f64).product();
    let transform = |kind: FftKind, x: &Tensor| record(Op::Fft { kind, lengths: lengths.clone() }, &[x]);
    let last = lengths.last().copied().unwrap_or(1);
    cx.one(|g| match kind {
        FftKind::Fft => times(&transform(FftKind::Ifft, g)?, count),
        FftKind::Ifft => times(&transform(FftKind::Fft, g)?, 1.0 / count),
        FftKind::Rfft => {
            // The half that a real transform leaves out contributes nothing.
            let axis = g.rank() - 1;
            let missing = (last - g.shape().size(axis)) as i64;
            let high = (0..g.rank()).map(|other| if other == axis { missing } else { 0 }).collect();
            let none = || SmallVec::from_elem(0, g.rank());
            let zero = Tensor::constant(Literal::splat(DType::Complex64, (), 0))?;
            let full = record(Op::Pad { low: none(), high, interior: SmallVec::from_elem(0, g.rank()) }, &[g, &zero])?;
            scaled(&transform(FftKind::Ifft, &full)?.real()?, count)
        }
        FftKind::Irfft => {
            // All frequencies but the first, and the middle one of an even length, stand for two.
            let half = transform(FftKind::Rfft, g)?;
            let axis = half.rank() - 1;
            let place = Tensor::iota(half.shape(), axis, DType::I64)?;
            let mut single = place.eq(&constant(&place, 0)?)?;
            if last.is_multiple_of(2) {
                single = single.bitwise_or(&place.eq(&constant(&place, (last / 2) as i64)?)?)?;
            }
            let once = Tensor::constant(Literal::splat(DType::F32, half.shape(), 1.0 / count))?;
            let twice = Tensor::constant(Literal::splat(DType::F32, half.shape(), 2.0 / count))?;
            half.mul(&complexed(&single.select(&once, &twice)?)?)
        }
    })
}

/// Complex numbers times a real one.
fn times(x: &Tensor, by: f64) -> Result<Tensor> {
    x.mul(&constant(x, Scalar::Complex(by, 0.0))?)
}
