//! Scores to weights, sixteen queries side by side, key after key.
//!
//! One generic source per loop, instantiated per instruction set; bits are the same on all of them.

use crate::runtime::host::row::isa::Isa;
use crate::runtime::host::row::math;
use crate::runtime::host::tile::COLUMNS;

/// A number for each of the queries that lie side by side.
pub(super) type Lanes = [f32; COLUMNS];

/// What the gradients of scores are computed from.
pub(super) struct Slopes<'a> {
    /// Factor of the scores before they become weights.
    pub scale: f32,
    /// Factor of the products that the scores are made of.
    pub factor: f32,
    /// Of each query, how many of these keys it may see.
    pub seen: &'a [i32; COLUMNS],
    /// Logarithm of the sum of the exponentials of all scores.
    pub log_sum: &'a Lanes,
    /// What the gradients of a query's weights have in common.
    pub common: &'a Lanes,
}

/// The loops of one instruction set. The machine must have it.
#[derive(Clone, Copy)]
pub(super) struct Loops {
    /// Scales scores, hides those beyond what a query may see, and raises `most` to the largest.
    pub scores: unsafe fn(scores: &mut [Lanes], scale: f32, seen: &[i32; COLUMNS], most: &mut Lanes),
    /// Scores to their exponentials with `shift` subtracted, and the sums of these; `rescaled` to its exponential.
    pub exponentials: unsafe fn(scores: &mut [Lanes], shift: &Lanes, sum: &mut Lanes, rescaled: &mut Lanes),
    /// Sums of exponentials to their logarithms plus what was subtracted.
    pub logarithms: unsafe fn(sums: &mut Lanes, shift: &Lanes),
    /// Scores to weights, gradients of weights to gradients of the products behind the scores.
    pub slopes: unsafe fn(scores: &mut [Lanes], gradients: &mut [Lanes], of: &Slopes<'_>),
}

impl Loops {
    pub fn of(isa: Isa) -> Self {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512 => {
                use avx2::{exponentials, logarithms, scores, slopes};
                Self { scores, exponentials, logarithms, slopes }
            }
            _ => {
                use portable::{exponentials, logarithms, scores, slopes};
                Self { scores, exponentials, logarithms, slopes }
            }
        }
    }
}

macro_rules! instances {
    ($level:ident $(, $features:literal)?) => {
        mod $level {
            use super::{COLUMNS, Lanes, Slopes};
            $(#[target_feature(enable = $features)])?
            pub(super) unsafe fn scores(x: &mut [Lanes], scale: f32, seen: &[i32; COLUMNS], most: &mut Lanes) {
                super::scores(x, scale, seen, most);
            }
            $(#[target_feature(enable = $features)])?
            pub(super) unsafe fn exponentials(x: &mut [Lanes], shift: &Lanes, sum: &mut Lanes, rescaled: &mut Lanes) {
                super::exponentials(x, shift, sum, rescaled);
            }
            $(#[target_feature(enable = $features)])?
            pub(super) unsafe fn logarithms(sums: &mut Lanes, shift: &Lanes) {
                super::logarithms(sums, shift);
            }
            $(#[target_feature(enable = $features)])?
            pub(super) unsafe fn slopes(x: &mut [Lanes], gradients: &mut [Lanes], of: &Slopes<'_>) {
                super::slopes(x, gradients, of);
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
instances!(avx2, "avx2,fma");
instances!(portable);

/// The scaled score, or −∞ from key `seen` on: chosen by bits, since of a branch the compiler makes no vectors.
#[inline(always)]
fn score(x: f32, scale: f32, key: i32, seen: i32) -> f32 {
    let visible = (key.wrapping_sub(seen) >> 31) as u32;
    f32::from_bits(((x * scale).to_bits() & visible) | (f32::NEG_INFINITY.to_bits() & !visible))
}

#[inline(always)]
fn scores(x: &mut [Lanes], scale: f32, seen: &[i32; COLUMNS], most: &mut Lanes) {
    let (mut top, seen) = (*most, *seen);
    for (key, x) in (0..).zip(x) {
        let new: Lanes = std::array::from_fn(|lane| score(x[lane], scale, key, seen[lane]));
        top = std::array::from_fn(|lane| if new[lane] > top[lane] { new[lane] } else { top[lane] });
        *x = new;
    }
    *most = top;
}

#[inline(always)]
fn exponentials(x: &mut [Lanes], shift: &Lanes, sum: &mut Lanes, rescaled: &mut Lanes) {
    let mut total = [0.0; COLUMNS];
    for x in x {
        for lane in 0..COLUMNS {
            x[lane] = math::exp(x[lane] - shift[lane]);
            total[lane] += x[lane];
        }
    }
    *sum = total;
    for lane in 0..COLUMNS {
        rescaled[lane] = math::exp(rescaled[lane] - shift[lane]);
    }
}

#[inline(always)]
fn logarithms(sums: &mut Lanes, shift: &Lanes) {
    for lane in 0..COLUMNS {
        sums[lane] = shift[lane] + math::log(sums[lane]);
    }
}

#[inline(always)]
fn slopes(x: &mut [Lanes], gradients: &mut [Lanes], of: &Slopes<'_>) {
    for (key, (x, g)) in (0..).zip(x.iter_mut().zip(gradients)) {
        for lane in 0..COLUMNS {
            x[lane] = math::exp(score(x[lane], of.scale, key, of.seen[lane]) - of.log_sum[lane]);
            g[lane] = x[lane] * (g[lane] - of.common[lane]) * of.factor;
        }
    }
}
