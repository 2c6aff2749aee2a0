//! Elementary functions, branch-free so that a loop over them vectorises.
//!
//! No contraction is used: every instruction set gives the same bits. f32 functions are within 2 ulp of the exact value
//! over the whole range (tested against f64 here). Those that cancel (expm1, log1p, erf, sine …) compute in f64 inside.
//! f64 functions are the standard library's where it has them.

// Coefficients as they were computed, also where f32 does not hold all their digits.
#![allow(clippy::excessive_precision)]

/// Adding and subtracting it rounds an f32 below 2^22 to an integer, ties to even.
const ROUND32: f32 = 12_582_912.0;
/// The same for an f64 below 2^51.
const ROUND64: f64 = 6_755_399_441_055_744.0;
const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts; products of the first with integers below 2^15 are exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// 2^n for −126 ≤ n ≤ 127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23) as u32)
}

/// eˣ.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let shifted = x * LOG2_E + ROUND32;
    let n = shifted - ROUND32;
    let integer = (shifted.to_bits() as i32).wrapping_sub(ROUND32.to_bits() as i32);
    let high = x - n * LN2_HIGH;
    let low = n * LN2_LOW;
    let r = high - low;
    // What the difference lost.
    let lost = (high - r) - low;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_2e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let p = (p * (r * r) + lost) + r + 1.0;
    // In two steps, so that results may be denormal or infinite.
    let half = integer >> 1;
    p * power_of_two(half) * power_of_two(integer.wrapping_sub(half))
}

/// 1 / (1 + e⁻ˣ), with an exponential of a negative number only.
#[inline(always)]
pub(super) fn logistic(x: f32) -> f32 {
    let e = exp(-x.abs());
    let numerator = if x < 0.0 { e } else { 1.0 };
    numerator / (1.0 + e)
}

/// Hyperbolic tangent.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let z = x * x;
    let p = -5.704_988_7e-3;
    let p = p * z + 2.063_908_9e-2;
    let p = p * z - 5.373_971_6e-2;
    let p = p * z + 1.333_144_2e-1;
    let p = p * z - 3.333_328e-1;
    let small = (p * z * a + a).copysign(x);
    let large = 1.0 - 2.0 / (exp(a + a) + 1.0);
    let large = large.copysign(x);
    if a < 0.625 { small } else { large }
}

/// ln x.
#[inline(always)]
pub(super) fn log(x: f32) -> f32 {
    let denormal = x < f32::MIN_POSITIVE;
    let scaled = if denormal { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits() as i32;
    // Mantissa in [√½, √2).
    let shift = bits.wrapping_sub(0x3f35_04f3) >> 23;
    let m = f32::from_bits(bits.wrapping_sub(shift << 23) as u32);
    let n = shift.wrapping_sub(if denormal { 23 } else { 0 }) as f32;
    let f = m - 1.0;
    let z = f * f;
    let p = 7.037_683_6e-2;
    let p = p * f - 1.151_461e-1;
    let p = p * f + 1.167_699_9e-1;
    let p = p * f - 1.242_014_1e-1;
    let p = p * f + 1.424_932_3e-1;
    let p = p * f - 1.666_805_8e-1;
    let p = p * f + 2.000_071_5e-1;
    let p = p * f - 2.499_999_4e-1;
    let p = p * f + 3.333_333e-1;
    let y = p * f * z + n * LN2_LOW - 0.5 * z;
    let y = f + y + n * LN2_HIGH;
    let y = if x < f32::INFINITY { y } else { x };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x < 0.0 { f32::NAN } else { y }
}

/// The integer nearest to `x` as an f64 and as its bits.
#[inline(always)]
fn nearest(x: f64) -> (f64, i64) {
    let shifted = x + ROUND64;
    (shifted - ROUND64, (shifted.to_bits() as i64).wrapping_sub(ROUND64.to_bits() as i64))
}

/// `(2^n, eʳ − 1)` with eˣ = 2^n eʳ, for |x| ≤ 700, to 1e-12.
#[inline(always)]
fn exp_parts(x: f64) -> (f64, f64) {
    let (n, integer) = nearest(x * std::f64::consts::LOG2_E);
    let r = x - n * std::f64::consts::LN_2;
    let p = 1.0 / 3_628_800.0;
    let p = p * r + 1.0 / 362_880.0;
    let p = p * r + 1.0 / 40_320.0;
    let p = p * r + 1.0 / 5_040.0;
    let p = p * r + 1.0 / 720.0;
    let p = p * r + 1.0 / 120.0;
    let p = p * r + 1.0 / 24.0;
    let p = p * r + 1.0 / 6.0;
    let p = p * r + 0.5;
    let q = p * (r * r) + r;
    (f64::from_bits((integer.wrapping_add(1023) << 52) as u64), q)
}

/// eˣ − 1.
#[inline(always)]
pub(super) fn expm1(x: f32) -> f32 {
    let clamped = if x < -104.0 { -104.0 } else { x };
    let clamped = if clamped > 89.0 { 89.0 } else { clamped };
    let (scale, q) = exp_parts(clamped.into());
    let y = (scale * q + (scale - 1.0)) as f32;
    // Keeps the sign of zero.
    if x == 0.0 { x } else { y }
}

/// ln u for a normal positive u, to 1e-10 relative.
#[inline(always)]
fn log_wide(u: f64) -> f64 {
    let bits = u.to_bits() as i64;
    const SQRT_HALF: i64 = 0x3fe6_a09e_667f_3bcd;
    // The exponent as an f64 without an integer conversion, which AVX2 lacks. The logical shift of a positive number
    // keeps it small; the offset makes it positive.
    let shifted = bits.wrapping_sub(SQRT_HALF).wrapping_add(1024 << 52) as u64 >> 52;
    let m = f64::from_bits(bits.wrapping_sub((shifted as i64).wrapping_sub(1024) << 52) as u64);
    let n = f64::from_bits(ROUND64.to_bits().wrapping_add(shifted)) - ROUND64 - 1024.0;
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let p = 1.0 / 15.0;
    let p = p * z + 1.0 / 13.0;
    let p = p * z + 1.0 / 11.0;
    let p = p * z + 1.0 / 9.0;
    let p = p * z + 1.0 / 7.0;
    let p = p * z + 1.0 / 5.0;
    let p = p * z + 1.0 / 3.0;
    let y = 2.0 * s + 2.0 * s * z * p;
    y + n * std::f64::consts::LN_2
}

/// ln(1 + x).
#[inline(always)]
pub(super) fn log1p(x: f32) -> f32 {
    let wide = f64::from(x);
    let u = 1.0 + wide;
    // What the sum lost, exactly.
    let lost = wide - (u - 1.0);
    let y = (log_wide(u) + lost / u) as f32;
    let y = if x < f32::INFINITY { y } else { x };
    let y = if x == -1.0 { f32::NEG_INFINITY } else { y };
    let y = if x == 0.0 { x } else { y };
    if x < -1.0 { f32::NAN } else { y }
}

/// Error function: a power series below 1, above it the rational approximation of the complement with a fractional error
/// of 1.2e-7 (Press et al., Numerical Recipes, 6.2), which is 0.2e-7 of the result there.
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    let wide = f64::from(x);
    let z = wide * wide;
    // (−1)^k / (k! (2k + 1))
    let p = 1.0 / (479_001_600.0 * 25.0);
    let p = p * z - 1.0 / (39_916_800.0 * 23.0);
    let p = p * z + 1.0 / (3_628_800.0 * 21.0);
    let p = p * z - 1.0 / (362_880.0 * 19.0);
    let p = p * z + 1.0 / (40_320.0 * 17.0);
    let p = p * z - 1.0 / (5_040.0 * 15.0);
    let p = p * z + 1.0 / (720.0 * 13.0);
    let p = p * z - 1.0 / (120.0 * 11.0);
    let p = p * z + 1.0 / (24.0 * 9.0);
    let p = p * z - 1.0 / (6.0 * 7.0);
    let p = p * z + 0.1;
    let p = p * z - 1.0 / 3.0;
    let small = std::f64::consts::FRAC_2_SQRT_PI * (p * z * wide + wide);

    let a = wide.abs();
    let a = if a > 6.0 { 6.0 } else { a };
    let t = 1.0 / (1.0 + 0.5 * a);
    let q = 0.170_872_77;
    let q = q * t - 0.822_152_23;
    let q = q * t + 1.488_515_87;
    let q = q * t - 1.135_203_98;
    let q = q * t + 0.278_868_07;
    let q = q * t - 0.186_288_06;
    let q = q * t + 0.096_784_18;
    let q = q * t + 0.374_091_96;
    let q = q * t + 1.000_023_68;
    let q = q * t - 1.265_512_23;
    let (scale, e) = exp_parts(q - a * a);
    let large = (1.0 - t * (scale * e + scale)).copysign(wide);
    (if z < 1.0 { small } else { large }) as f32
}

/// Above it, the reduction below is not exact enough.
const TURN_LIMIT: f32 = 1_048_576.0;

/// Whether sine and cosine of `x` need the full range reduction.
#[inline(always)]
pub(super) fn is_far(x: f32) -> bool {
    x.abs() >= TURN_LIMIT
}

/// `(quadrant, sine, cosine)` of the part of x within ±π/4, for |x| < 2^20.
#[inline(always)]
fn turn(x: f32) -> (i64, f64, f64) {
    /// π/2 in two parts; products of the first with integers below 2^20 are exact.
    const HIGH: f64 = 1.570_796_326_734_125_6;
    const LOW: f64 = 6.077_100_506_506_192e-11;
    let wide = f64::from(x);
    let (n, quadrant) = nearest(wide * std::f64::consts::FRAC_2_PI);
    let r = (wide - n * HIGH) - n * LOW;
    let z = r * r;
    let s = -1.0 / 39_916_800.0;
    let s = s * z + 1.0 / 362_880.0;
    let s = s * z - 1.0 / 5_040.0;
    let s = s * z + 1.0 / 120.0;
    let s = s * z - 1.0 / 6.0;
    let sine = s * z * r + r;
    let c = 1.0 / 479_001_600.0;
    let c = c * z - 1.0 / 3_628_800.0;
    let c = c * z + 1.0 / 40_320.0;
    let c = c * z - 1.0 / 720.0;
    let c = c * z + 1.0 / 24.0;
    let c = c * z - 0.5;
    (quadrant, sine, c * z + 1.0)
}

/// Sine, for |x| < 2^20.
#[inline(always)]
pub(super) fn sin(x: f32) -> f32 {
    let (quadrant, sine, cosine) = turn(x);
    let y = if quadrant & 1 == 0 { sine } else { cosine };
    let y = if quadrant & 2 == 0 { y } else { -y };
    // Keeps the sign of zero.
    if x == 0.0 { x } else { y as f32 }
}

/// Cosine, for |x| < 2^20.
#[inline(always)]
pub(super) fn cos(x: f32) -> f32 {
    let (quadrant, sine, cosine) = turn(x);
    let y = if quadrant & 1 == 0 { cosine } else { sine };
    let y = if quadrant.wrapping_add(1) & 2 == 0 { y } else { -y };
    y as f32
}

/// Error function in f64: a series of positive terms below 3, a continued fraction of the complement above.
pub(super) fn erf_f64(x: f64) -> f64 {
    let a = x.abs();
    if x.is_nan() {
        return x;
    }
    if a < 3.0 {
        // 2/√π e^(−x²) Σ 2ⁿ x^(2n+1) / (2n+1)!!
        let z = x * x;
        let (mut term, mut sum, mut n) = (x, x, 1.0);
        while term.abs() > sum.abs() * 1e-18 {
            term *= 2.0 * z / (2.0 * n + 1.0);
            sum += term;
            n += 1.0;
        }
        return std::f64::consts::FRAC_2_SQRT_PI * (-z).exp() * sum;
    }
    (1.0 - erfc_tail(a)).copysign(x)
}

/// 1 − erf x for x ≥ 3.
fn erfc_tail(x: f64) -> f64 {
    if x > 27.5 { 0.0 } else { erfc_fraction(x, 60) }
}

/// e^(−x²) / (√π (x + (1/2)/(x + 1/(x + (3/2)/(x + …))))), with so many terms.
fn erfc_fraction(x: f64, terms: u32) -> f64 {
    let fraction = (1..=terms).rev().fold(x, |fraction, k| x + f64::from(k) * 0.5 / fraction);
    (-x * x).exp() / (fraction * std::f64::consts::PI.sqrt())
}

/// 1 − erf x for x ≥ 0.
fn erfc(x: f64) -> f64 {
    match x {
        // Loses less than the step below can use.
        0.0..1.0 => 1.0 - erf_f64(x),
        // The fraction converges more slowly near 1.
        1.0..3.0 => erfc_fraction(x, 400),
        _ => erfc_tail(x),
    }
}

/// Inverse error function: an initial guess from the leading terms, then Halley's steps on whichever of erf and its
/// complement does not cancel.
pub(super) fn erf_inv(x: f64) -> f64 {
    let a = x.abs();
    if a.is_nan() || a > 1.0 {
        return f64::NAN;
    }
    if a == 1.0 {
        return f64::INFINITY.copysign(x);
    }
    if a < 1e-8 {
        return x / std::f64::consts::FRAC_2_SQRT_PI;
    }
    // Winitzki's approximation, good to 2e-3.
    let log = ((1.0 - a) * (1.0 + a)).ln();
    let t = 2.0 / (std::f64::consts::PI * 0.147) + 0.5 * log;
    let mut y = ((t * t - log / 0.147).sqrt() - t).sqrt();
    for _ in 0..4 {
        let error = if a < 0.5 { erf_f64(y) - a } else { (1.0 - a) - erfc(y) };
        let step = error / (std::f64::consts::FRAC_2_SQRT_PI * (-y * y).exp());
        y -= step / (1.0 + y * step);
    }
    y.copysign(x)
}
