//! Elementary functions, branch-free so that a loop over them vectorises.
//!
//! Every instruction set gives the same bits: fused multiply-adds stand where they are written and nowhere else. f32
//! functions are within 2 ulp of the exact value over the whole range (tested against f64 here). Those that cancel (expm1,
//! log1p, sine …) compute in f64 inside. f64 functions are the standard library's or libm's.
//!
//! Polynomials without a source are minimax fits of ours (weighted least squares with Lawson's weights); their error is
//! stated.

// Coefficients as they were computed, also where f32 does not hold all their digits.
#![allow(clippy::excessive_precision)]

/// Adding and subtracting it rounds an f32 below 2^22 to an integer, ties to even.
const ROUND32: f32 = 12_582_912.0;
/// The same for an f64 below 2^51.
const ROUND64: f64 = 6_755_399_441_055_744.0;
const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts; products of the first with integers below 2^9 are exact.
const LN2_HIGH: f32 = 0.693_145_75;
const LN2_LOW: f32 = 1.428_606_8e-6;

/// 2^n for −126 ≤ n ≤ 127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23) as u32)
}

/// A polynomial by Horner's rule, the highest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[0];
    for &coefficient in &coefficients[1..] {
        sum = sum.mul_add(x, coefficient);
    }
    sum
}

/// The same in f64.
#[inline(always)]
fn polynomial64<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[0];
    for &coefficient in &coefficients[1..] {
        sum = sum.mul_add(x, coefficient);
    }
    sum
}

/// `(n, eʳ − 1)` with eˣ = 2ⁿ eʳ and |r| ≤ ½ ln 2, for |x| < 2^8.
#[inline(always)]
fn exp_parts32(x: f32) -> (i32, f32) {
    let shifted = x.mul_add(LOG2_E, ROUND32);
    let n = shifted - ROUND32;
    let integer = (shifted.to_bits() as i32).wrapping_sub(ROUND32.to_bits() as i32);
    let r = n.mul_add(-LN2_HIGH, x);
    let r = n.mul_add(-LN2_LOW, r);
    // (eʳ − 1 − r) / r², to 2.4e-10 of eʳ − 1.
    let p = polynomial(
        r,
        [
            1.985_084_165_5e-4,
            1.394_088_869_8e-3,
            8.333_381_415_5e-3,
            4.166_635_715_5e-2,
            1.666_666_639_7e-1,
            5.000_000_045_3e-1,
        ],
    );
    (integer, p.mul_add(r * r, r))
}

/// eˣ.
#[inline(always)]
pub(in crate::runtime::host) fn exp(x: f32) -> f32 {
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let (n, q) = exp_parts32(x);
    // In two steps, so that results may be denormal or infinite.
    let half = n >> 1;
    (q + 1.0) * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// 1 / (1 + e⁻ˣ), with an exponential of a negative number only.
#[inline(always)]
pub(super) fn logistic(x: f32) -> f32 {
    let e = exp(-x.abs());
    let sum = 1.0 + e;
    // What rounding the sum lost changes the quotient by a factor of 1 − lost / sum.
    let lost = e - (sum - 1.0);
    let y = (if x < 0.0 { e } else { 1.0 }) / sum;
    let inverse = if x < 0.0 { 1.0 - y } else { y };
    (y * inverse).mul_add(-lost, y)
}

/// Hyperbolic tangent, of t = e²ᵃ − 1: t / (t + 2), or 1 − 2 / (t + 2) where that loses less.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let a = if a > 10.0 { 10.0 } else { a };
    let (n, q) = exp_parts32(a + a);
    let scale = power_of_two(n);
    let t = scale.mul_add(q, scale - 1.0);
    let sum = t + 2.0;
    let large = t >= 3.0;
    let y = (if large { 2.0 } else { t }) / sum;
    // What rounding the sum lost changes the quotient by a factor of 1 − lost / sum, and 1 / sum = (1 − y) / 2.
    let lost = t - (sum - 2.0);
    let small = (lost * -0.5).mul_add(y * (1.0 - y), y);
    (if large { 1.0 - y } else { small }).copysign(x)
}

/// ln x.
#[inline(always)]
pub(in crate::runtime::host) fn log(x: f32) -> f32 {
    let denormal = x < f32::MIN_POSITIVE;
    let scaled = if denormal { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits() as i32;
    // Mantissa in [√½, √2).
    let shift = bits.wrapping_sub(0x3f35_04f3) >> 23;
    let m = f32::from_bits(bits.wrapping_sub(shift << 23) as u32);
    let n = shift.wrapping_sub(if denormal { 23 } else { 0 }) as f32;
    let f = m - 1.0;
    let z = f * f;
    let p = polynomial(
        f,
        [
            7.037_683_6e-2,
            -1.151_461e-1,
            1.167_699_9e-1,
            -1.242_014_1e-1,
            1.424_932_3e-1,
            -1.666_805_8e-1,
            2.000_071_5e-1,
            -2.499_999_4e-1,
            3.333_333e-1,
        ],
    );
    let y = (p * f).mul_add(z, n * LN2_LOW);
    let y = z.mul_add(-0.5, y);
    let y = n.mul_add(LN2_HIGH, f + y);
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
    let r = n.mul_add(-std::f64::consts::LN_2, x);
    let p = polynomial64(
        r,
        [
            1.0 / 3_628_800.0,
            1.0 / 362_880.0,
            1.0 / 40_320.0,
            1.0 / 5_040.0,
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            0.5,
        ],
    );
    let q = p.mul_add(r * r, r);
    (f64::from_bits((integer.wrapping_add(1023) << 52) as u64), q)
}

/// eˣ − 1.
#[inline(always)]
pub(super) fn expm1(x: f32) -> f32 {
    let clamped = if x < -104.0 { -104.0 } else { x };
    let clamped = if clamped > 89.0 { 89.0 } else { clamped };
    let (scale, q) = exp_parts(clamped.into());
    let y = scale.mul_add(q, scale - 1.0) as f32;
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
    let p = polynomial64(z, [1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0]);
    let y = (2.0 * s * z).mul_add(p, 2.0 * s);
    n.mul_add(std::f64::consts::LN_2, y)
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

/// Error function: an odd polynomial below 1, above it 1 − e^q with a polynomial q for the logarithm of the complement.
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    let z = x * x;
    // erf x / x − 1, to 1.2e-9 of erf x / x.
    let p = polynomial(
        z,
        [
            7.854_233_19e-5,
            -8.010_285_88e-4,
            5.188_335_09e-3,
            -2.685_381_36e-2,
            1.128_358_511e-1,
            -3.761_262_581e-1,
            1.283_791_657e-1,
        ],
    );
    let small = p.mul_add(x, x);
    // At 4 the complement is a quarter of the last place.
    let a = x.abs();
    let a = if a > 4.0 { 4.0 } else { a };
    // ln(1 − erf a), to 1.1e-9 of erf a after the exponential.
    let q = polynomial(
        a,
        [
            1.864_002_155e-4,
            -2.947_696_442e-3,
            2.183_747_355e-2,
            -1.031_038_822e-1,
            -6.381_500_737e-1,
            -1.127_084_867,
            -3.428_711_144e-4,
        ],
    );
    let (n, q) = exp_parts32(q);
    let scale = power_of_two(n);
    let large = (1.0 - q.mul_add(scale, scale)).copysign(x);
    if z < 1.0 { small } else { large }
}

/// Inverse error function: x times a polynomial of w = −ln(1 − x²), as M. Giles proposed ("Approximating the erfinv
/// function", 2010), in f64 with coefficients for an error of 1e-8.
#[inline(always)]
pub(super) fn erf_inv(x: f32) -> f32 {
    let wide = f64::from(x);
    let a = wide.abs();
    let w = -log_wide((1.0 - a) * (1.0 + a));
    let near = polynomial64(
        w - 2.5,
        [
            -8.791_789_958_7e-9,
            2.323_275_672_7e-8,
            4.661_804_297_6e-7,
            -3.462_704_948_6e-6,
            -4.963_388_174_7e-6,
            2.183_444_289_7e-4,
            -1.252_741_833_62e-3,
            -4.177_386_736_35e-3,
            2.466_402_861_685e-1,
            1.501_409_359_264_3,
        ],
    );
    let far = polynomial64(
        w.sqrt() - 3.0,
        [
            1.157_184_161_3e-4,
            -3.095_661_681_8e-4,
            -5.678_900_103e-5,
            1.485_121_711_85e-3,
            -3.597_402_365_53e-3,
            5.686_960_497_39e-3,
            -7.637_289_700_1e-3,
            9.445_289_025_18e-3,
            1.001_674_967_272_3,
            2.832_976_801_134_4,
        ],
    );
    let y = (wide * if w < 5.0 { near } else { far }) as f32;
    let y = if a == 1.0 { f32::INFINITY.copysign(x) } else { y };
    if a > 1.0 { f32::NAN } else { y }
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
    let r = n.mul_add(-LOW, n.mul_add(-HIGH, wide));
    let z = r * r;
    let s = polynomial64(z, [-1.0 / 39_916_800.0, 1.0 / 362_880.0, -1.0 / 5_040.0, 1.0 / 120.0, -1.0 / 6.0]);
    let c =
        polynomial64(z, [1.0 / 479_001_600.0, -1.0 / 3_628_800.0, 1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5, 1.0]);
    (quadrant, (s * z).mul_add(r, r), c)
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
