//! Fourier transforms over the last axes.
//!
//! One pass per axis. A pass reads lines along its axis and writes them one after the other, which moves the axis behind those
//! that are left: after the last pass all are back in their order, and every pass writes dense memory that splits into
//! lines.

mod transform;

use super::super::scratch::{Memory, Scratch};
use super::{Operand, Target, split};
use crate::ir::FftKind;
use crate::{Complex64, Result};
use transform::{Transform, Wide};

/// Elements of the lines that are transformed at a time, if there is more than [`LEAST_LANES`] of them: what the second-level
/// cache holds twice.
const TOGETHER: usize = 4096;
/// Neighbouring lines across an axis are read at least so many at a time, as they share cache lines.
const LEAST_LANES: usize = 4;
const MOST_LANES: usize = 16;

/// The transform of `x` over its last `lengths.len()` axes.
pub(super) fn fft(
    kind: FftKind,
    lengths: &[usize],
    x: &Operand<'_>,
    [y]: &mut [Target<'_>; 1],
    memory: Memory<'_>,
) -> Result<()> {
    let (Some(&last), false) = (lengths.last(), y.bytes.is_empty()) else { return Ok(()) };
    let inverse = matches!(kind, FftKind::Ifft | FftKind::Irfft);
    let mut wide = match kind {
        FftKind::Rfft => widened(x.cells::<f32>()?, |re| Wide::new(re.into(), 0.0), memory)?,
        _ => widened(x.cells::<Complex64>()?, |z| Wide::new(z.re.into(), z.im.into()), memory)?,
    };
    let (before, given) = x.sizes().split_at(x.sizes().len() - lengths.len());
    let before: usize = before.iter().product();
    for (&stored, &length) in given.iter().zip(lengths) {
        let after = wide.len() / before / stored;
        wide = pass(&wide, Lines { before, stored, after, length, inverse }, memory)?;
    }
    let scale = if inverse { 1.0 / lengths.iter().product::<usize>() as f64 } else { 1.0 };
    let narrow = |z: Wide| Complex64::new((z.re * scale) as f32, (z.im * scale) as f32);
    let half = last / 2 + 1;
    match kind {
        FftKind::Fft | FftKind::Ifft => fill(y.cells::<Complex64>()?, |i| narrow(wide[i])),
        FftKind::Rfft => fill(y.cells::<Complex64>()?, |i| narrow(wide[i / half * last + i % half])),
        FftKind::Irfft => fill(y.cells::<f32>()?, |i| (wide[i].re * scale) as f32),
    }
    Ok(())
}

fn widened<'m, T: Copy + Sync>(x: &[T], widen: fn(T) -> Wide, memory: Memory<'m>) -> Result<Scratch<'m, Wide>> {
    let mut wide = memory.filled(x.len(), Wide::default())?;
    fill(&mut wide, |i| widen(x[i]));
    Ok(wide)
}

fn fill<T: bytemuck::Pod + Send + Sync>(y: &mut [T], element: impl Fn(usize) -> T + Sync) {
    split::parts(y, 1, 1.0, |first, part| {
        part.iter_mut().enumerate().for_each(|(i, y)| *y = element(first + i));
    });
}

/// What a pass transforms: `[before, stored, after]` becomes `[before, after, length]`.
struct Lines {
    before: usize,
    /// Elements of a line in memory: all, or those from which the symmetry of a real signal's spectrum gives the others.
    stored: usize,
    after: usize,
    length: usize,
    inverse: bool,
}

fn pass<'m>(x: &[Wide], lines: Lines, memory: Memory<'m>) -> Result<Scratch<'m, Wide>> {
    let Lines { before, stored, after, length, inverse } = lines;
    let transform = Transform::new(length, memory)?;
    let most = (TOGETHER / length).clamp(LEAST_LANES, MOST_LANES);
    let cost = 5.0 + 2.0 * (transform.work() as f64).log2() * transform.work() as f64 / length as f64;
    let mut y = memory.filled(before * after * length, Wide::default())?;
    split::try_parts(&mut y, length, cost, |first, part| {
        let first = first / length;
        let count = part.len() / length;
        let work = most.min(count) * transform.work();
        let (mut a, mut b) = (memory.filled(work, Wide::default())?, memory.filled(work, Wide::default())?);
        for start in (0..count).step_by(most) {
            let lanes = most.min(count - start);
            // An inverse transform is the conjugate of the transform of the conjugates.
            for (lane, line) in (first + start..first + start + lanes).enumerate() {
                let at = line / after * stored * after + line % after;
                for t in 0..length {
                    let (from, mirrored) = if t < stored { (t, false) } else { (length - t, true) };
                    let value = x[at + from * after];
                    a[t * lanes + lane] = if mirrored != inverse { value.conj() } else { value };
                }
            }
            let work = lanes * transform.work();
            let result = transform.run(&mut a[..work], &mut b[..work], lanes);
            for (lane, y) in part[start * length..].chunks_exact_mut(length).take(lanes).enumerate() {
                for (k, y) in y.iter_mut().enumerate() {
                    let value = result[k * lanes + lane];
                    *y = if inverse { value.conj() } else { value };
                }
            }
        }
        Ok(())
    })?;
    Ok(y)
}
