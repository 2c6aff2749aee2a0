//! The transform of lines of one length.
//!
//! Lengths whose prime factors are small go through Stockham's algorithm, which needs no reordering: one stage per factor,
//! each from one buffer to the other. Other lengths become a convolution with a chirp (Bluestein), of a power of two.
//! Several lines are transformed at a time, element `t` of line `lane` at `t * lanes + lane`, so that the innermost loops run
//! over neighbours. Each line's arithmetic is its own, whatever is transformed beside it.

use super::super::super::scratch::{Memory, Scratch};
use crate::{Error, ErrorKind, Result};
use num_complex::Complex;
use smallvec::SmallVec;
use std::f64::consts::TAU;

/// Sums are made, and turned by roots of unity, in double precision.
pub(super) type Wide = Complex<f64>;

/// The largest prime factor that is summed as it stands: a chirp costs about as much from there on.
const LARGEST_RADIX: usize = 31;

/// A forward transform: entry `k` is the sum over `t` of `x[t] · e^(−2πi k t / n)`.
pub(super) struct Transform<'m> {
    stages: Stages<'m>,
    chirp: Option<Chirp<'m>>,
}

/// A transform whose length has small factors only.
struct Stages<'m> {
    radices: SmallVec<[usize; 16]>,
    /// `e^(−2πi k / n)` for each `k` below `n`.
    roots: Scratch<'m, Wide>,
}

/// What makes a transform of any length a convolution, whose transforms are `stages`.
struct Chirp<'m> {
    /// `e^(−πi k² / n)`.
    turns: Scratch<'m, Wide>,
    /// The transform of the conjugates around 0, divided by the convolution's length.
    spectrum: Scratch<'m, Wide>,
}

impl<'m> Transform<'m> {
    /// For lines of `n` elements, at least one. Errors with `OutOfMemory`.
    pub fn new(n: usize, memory: Memory<'m>) -> Result<Self> {
        if let Some(radices) = radices(n) {
            return Ok(Self { stages: Stages::new(radices, n, memory)?, chirp: None });
        }
        let Some(length) = n.checked_mul(2).and_then(usize::checked_next_power_of_two) else {
            let message = format!("of a transform of {n} elements is not possible");
            return Err(Error::new(ErrorKind::OutOfMemory, "an allocation", message));
        };
        let stages = Stages::new(radices(length).unwrap_or_default(), length, memory)?;
        let mut turns = memory.filled(n, Wide::default())?;
        // k² modulo 2n, one odd number after the other, so that the angle of a large one loses nothing.
        let mut square = 0;
        for (k, turn) in turns.iter_mut().enumerate() {
            *turn = Wide::cis(-TAU * square as f64 / (2 * n) as f64);
            square = (square + 2 * k + 1) % (2 * n);
        }
        let mut work = [memory.filled(length, Wide::default())?, memory.filled(length, Wide::default())?];
        for (k, turn) in turns.iter().enumerate() {
            work[0][k] = turn.conj();
            work[0][(length - k) % length] = turn.conj();
        }
        let [a, b] = &mut work;
        let mut spectrum = memory.filled(length, Wide::default())?;
        for (to, from) in spectrum.iter_mut().zip(&*stages.run(a, b, 1)) {
            *to = from / length as f64;
        }
        Ok(Self { stages, chirp: Some(Chirp { turns, spectrum }) })
    }

    /// Elements of each of the two buffers of [`run`](Self::run), a lane.
    pub fn work(&self) -> usize {
        self.stages.roots.len()
    }

    /// Transforms the lines at the start of `a`; the result is at the start of the buffer that is given back.
    pub fn run<'w>(&self, a: &'w mut [Wide], b: &'w mut [Wide], lanes: usize) -> &'w mut [Wide] {
        let Some(Chirp { turns, spectrum }) = &self.chirp else { return self.stages.run(a, b, lanes) };
        let turn = |lines: &mut [Wide], factors: &[Wide]| {
            for (line, factor) in lines.chunks_exact_mut(lanes).zip(factors) {
                line.iter_mut().for_each(|x| *x *= factor);
            }
        };
        turn(a, turns);
        a[turns.len() * lanes..].fill(Wide::default());
        self.stages.run(&mut *a, &mut *b, lanes);
        let (x, spare) = if self.stages.radices.len() % 2 == 1 { (b, a) } else { (a, b) };
        turn(x, spectrum);
        // The inverse transform is the conjugate of the transform of the conjugates.
        let conjugate = |x: &mut [Wide]| x.iter_mut().for_each(|x| x.im = -x.im);
        conjugate(x);
        let y = self.stages.run(x, spare, lanes);
        conjugate(y);
        turn(y, turns);
        y
    }
}

/// The factors of `n`, if none is too large: fours first, as they are the fastest.
fn radices(mut n: usize) -> Option<SmallVec<[usize; 16]>> {
    let mut radices = SmallVec::new();
    for radix in std::iter::once(4).chain(2..=LARGEST_RADIX) {
        while n.is_multiple_of(radix) {
            radices.push(radix);
            n /= radix;
        }
    }
    (n == 1).then_some(radices)
}

impl<'m> Stages<'m> {
    fn new(radices: SmallVec<[usize; 16]>, n: usize, memory: Memory<'m>) -> Result<Self> {
        /// Roots that one sine and cosine are enough for, and products with the first few roots.
        const BLOCK: usize = 64;
        let root = |k: usize| Wide::cis(-TAU * k as f64 / n as f64);
        let first: [Wide; BLOCK] = std::array::from_fn(root);
        let mut roots = memory.filled(n, Wide::default())?;
        for (number, block) in roots.chunks_mut(BLOCK).enumerate() {
            let start = root(number * BLOCK);
            block.iter_mut().zip(&first).for_each(|(root, first)| *root = start * first);
        }
        Ok(Self { radices, roots })
    }

    fn run<'w>(&self, a: &'w mut [Wide], b: &'w mut [Wide], lanes: usize) -> &'w mut [Wide] {
        let n = self.roots.len();
        let (mut from, mut to) = (&mut a[..n * lanes], &mut b[..n * lanes]);
        // Length of the transforms that are left, and how many of them lie interleaved.
        let (mut length, mut width) = (n, lanes);
        for &radix in &self.radices {
            match radix {
                2 => self.stage_of_two(from, to, length, width),
                4 => self.stage_of_four(from, to, length, width),
                _ => self.stage(radix, from, to, length, width),
            }
            std::mem::swap(&mut from, &mut to);
            length /= radix;
            width *= radix;
        }
        from
    }

    /// One stage: transforms over elements that are `length / radix` apart, each result turned for the stages that follow.
    fn stage(&self, radix: usize, from: &[Wide], to: &mut [Wide], length: usize, width: usize) {
        let (n, apart) = (self.roots.len(), length / radix);
        for (place, group) in to.chunks_exact_mut(radix * width).enumerate() {
            for (k, run) in group.chunks_exact_mut(width).enumerate() {
                run.copy_from_slice(&from[place * width..][..width]);
                for j in 1..radix {
                    let factor = self.roots[j * k % radix * (n / radix)];
                    let x = &from[(place + j * apart) * width..][..width];
                    run.iter_mut().zip(x).for_each(|(sum, x)| *sum += x * factor);
                }
                let turn = self.roots[place * k * (n / length)];
                run.iter_mut().for_each(|sum| *sum *= turn);
            }
        }
    }

    fn stage_of_two(&self, from: &[Wide], to: &mut [Wide], length: usize, width: usize) {
        let step = self.roots.len() / length;
        let (low, high) = from.split_at(length / 2 * width);
        let pairs = low.chunks_exact(width).zip(high.chunks_exact(width));
        for (place, (group, (low, high))) in to.chunks_exact_mut(2 * width).zip(pairs).enumerate() {
            let turn = self.roots[place * step];
            let (first, second) = group.split_at_mut(width);
            for i in 0..width {
                first[i] = low[i] + high[i];
                second[i] = (low[i] - high[i]) * turn;
            }
        }
    }

    fn stage_of_four(&self, from: &[Wide], to: &mut [Wide], length: usize, width: usize) {
        let (step, quarter) = (self.roots.len() / length, length / 4 * width);
        for (place, group) in to.chunks_exact_mut(4 * width).enumerate() {
            let x = |number: usize| &from[number * quarter + place * width..][..width];
            let (x0, x1, x2, x3) = (x(0), x(1), x(2), x(3));
            let turn = |k: usize| self.roots[place * k * step];
            let (turn1, turn2, turn3) = (turn(1), turn(2), turn(3));
            let (left, right) = group.split_at_mut(2 * width);
            let (y0, y1) = left.split_at_mut(width);
            let (y2, y3) = right.split_at_mut(width);
            for i in 0..width {
                let (even, odd) = (x0[i] + x2[i], x1[i] + x3[i]);
                let (difference, other) = (x0[i] - x2[i], x1[i] - x3[i]);
                // Times −i.
                let turned = Wide::new(other.im, -other.re);
                y0[i] = even + odd;
                y1[i] = (difference + turned) * turn1;
                y2[i] = (even - odd) * turn2;
                y3[i] = (difference - turned) * turn3;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::super::pool::Pool;
    use super::super::super::super::scratch::Piece;
    use super::*;
    use std::sync::Arc;

    /// Numbers without a pattern, between −1 and 1.
    fn number(i: usize) -> Wide {
        let part = |i: usize| (i.wrapping_mul(0x9e37_79b9) % 10_007) as f64 / 5003.0 - 1.0;
        Wide::new(part(2 * i + 1), part(2 * i + 2))
    }

    fn transformed(x: &[Wide], lanes: usize) -> Vec<Wide> {
        let (pool, none) = (Arc::new(Pool::new(None)), Piece::none());
        let n = x.len() / lanes;
        let transform = Transform::new(n, Memory::new(&pool, &none)).unwrap();
        let mut a = vec![Wide::default(); transform.work() * lanes];
        let mut b = a.clone();
        a[..x.len()].copy_from_slice(x);
        transform.run(&mut a, &mut b, lanes)[..x.len()].to_vec()
    }

    /// Each length up to 130, among them all small primes, and some longer ones: the definition, entry by entry.
    #[test]
    fn every_length_gives_the_sums_of_the_definition() {
        for n in (1..=130).chain([169, 243, 256, 257, 360, 509, 512, 1000, 1021]) {
            let x: Vec<Wide> = (0..n).map(number).collect();
            let y = transformed(&x, 1);
            // A stage rounds products and sums of a few terms; there are fewer than 2 log₂ n + 4 of them, thrice for a chirp.
            // The direct sum here has n roundings of terms below 1.5.
            let root_mean = (n as f64).sqrt() * 1.5;
            let allowed = f64::EPSILON * (root_mean * 40.0 * ((n as f64).log2() + 2.0) + n as f64 * 1.5);
            for (k, got) in y.iter().enumerate() {
                let turn = |t: usize| Wide::cis(-TAU * (k * t % n) as f64 / n as f64);
                let want: Wide = x.iter().enumerate().map(|(t, x)| x * turn(t)).sum();
                assert!((got - want).norm() <= allowed, "length {n}, entry {k}: {got}, expected {want}");
            }
        }
    }

    #[test]
    fn a_line_has_the_same_bits_whatever_is_transformed_beside_it() {
        for n in [1, 2, 4, 8, 30, 64, 31, 37, 101] {
            let lines: Vec<Vec<Wide>> = (0..5).map(|lane| (0..n).map(|t| number(lane * n + t)).collect()).collect();
            let woven: Vec<Wide> = (0..5 * n).map(|at| lines[at % 5][at / 5]).collect();
            let together = transformed(&woven, 5);
            for (lane, line) in lines.iter().enumerate() {
                let own: Vec<Wide> = (0..n).map(|k| together[k * 5 + lane]).collect();
                assert_eq!(transformed(line, 1), own, "length {n}");
            }
        }
    }

    #[test]
    fn long_lengths_keep_the_energy_and_come_back() {
        for n in [1 << 15, 10_007, 3 * 5 * 7 * 11 * 13] {
            let x: Vec<Wide> = (0..n).map(number).collect();
            let y = transformed(&x, 1);
            let energy = |x: &[Wide]| x.iter().map(|x| x.norm_sqr()).sum::<f64>();
            // Parseval; each entry has a relative error of some 20 stages of a few ulps.
            let (before, after) = (energy(&x) * n as f64, energy(&y));
            assert!((before - after).abs() <= 1e-13 * before, "{n}: {before} and {after}");
            let conjugates: Vec<Wide> = y.iter().map(|y| y.conj()).collect();
            for (x, back) in x.iter().zip(transformed(&conjugates, 1)) {
                assert!((x - back.conj() / n as f64).norm() < 1e-13, "{n}");
            }
        }
    }
}
