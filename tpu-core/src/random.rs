//! Counter-based random numbers: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: *Parallel random numbers: as easy as 1, 2, 3*, SC 2011).
//!
//! The bits of element `i` of a random tensor are a pure function of the seed, the op's offset and `i`, so every backend gives
//! the same ones whatever its order of work:
//!
//! ```text
//! key     = (seed mod 2³², seed / 2³²)
//! c       = offset + ⌊i / 4⌋                      (wrapping, 64 bits)
//! counter = (c mod 2³², c / 2³², 0, 0)
//! bits(i) = lane i mod 4 of philox4x32(counter, key)
//! ```
//!
//! From bits to numbers:
//!
//! ```text
//! uniform f32 in [0, 1)  = ⌊bits / 2⁸⌋ · 2⁻²⁴
//! uniform f64 in [0, 1)  = (⌊high / 2⁵⌋ · 2²⁶ + ⌊low / 2⁶⌋) · 2⁻⁵³, of two words
//! normal                 = √2 · erf⁻¹(2u − 1),  u = (⌊bits / 2⁸⌋ + ½) · 2⁻²⁴
//! ```
//!
//! The uniforms are exact. The normal takes one word an element and its `u`, at the middle of its interval, is never 0 or 1, so
//! it is finite: at most 5.42 in magnitude.

/// One block of Philox 4x32 with 10 rounds: four random words for a counter and a key.
///
/// ```
/// use tpu_core::random::philox4x32;
/// assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
/// ```
#[inline(always)]
pub const fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    let mut round = 0;
    while round < 10 {
        let even = counter[0] as u64 * 0xD251_1F53;
        let odd = counter[2] as u64 * 0xCD9E_8D57;
        counter = [
            (odd >> 32) as u32 ^ counter[1] ^ key[0],
            odd as u32,
            (even >> 32) as u32 ^ counter[3] ^ key[1],
            even as u32,
        ];
        // The golden ratio and √3 − 1, as fractions of 2³².
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
        round += 1;
    }
    counter
}

/// The four words of elements `4 · group` to `4 · group + 3` of a random tensor.
#[inline(always)]
pub const fn random_group(seed: u64, offset: u64, group: u64) -> [u32; 4] {
    let c = offset.wrapping_add(group);
    philox4x32([c as u32, (c >> 32) as u32, 0, 0], [seed as u32, (seed >> 32) as u32])
}

/// The uniform number in [0, 1) of one word.
#[inline(always)]
pub const fn uniform_f32(bits: u32) -> f32 {
    (bits >> 8) as f32 * (1.0 / (1 << 24) as f32)
}

/// The uniform number in [0, 1) of two words.
#[inline(always)]
pub const fn uniform_f64(high: u32, low: u32) -> f64 {
    ((high >> 5) as f64 * (1u64 << 26) as f64 + (low >> 6) as f64) * (1.0 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows `philox4x32 10` of `kat_vectors` in the Random123 distribution.
    #[test]
    fn philox_gives_the_published_vectors() {
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let rows = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (pi, [0xa409_3822, 0x299f_31d0], [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]),
        ];
        for (counter, key, expected) in rows {
            assert_eq!(philox4x32(counter, key), expected);
        }
    }

    #[test]
    fn seed_and_offset_fill_the_low_words_first_and_the_offset_wraps() {
        assert_eq!(random_group(1 << 32 | 2, 3, 4), philox4x32([7, 0, 0, 0], [2, 1]));
        assert_eq!(random_group(0, u64::MAX, 0), philox4x32([u32::MAX, u32::MAX, 0, 0], [0, 0]));
        assert_eq!(random_group(0, u64::MAX, 1), philox4x32([0; 4], [0; 2]));
    }

    #[test]
    fn uniforms_stay_below_one_and_use_every_bit() {
        assert_eq!((uniform_f32(0), uniform_f64(0, 0)), (0.0, 0.0));
        assert_eq!(uniform_f32(u32::MAX), 1.0 - f32::EPSILON / 2.0);
        assert_eq!(uniform_f64(u32::MAX, u32::MAX), 1.0 - f64::EPSILON / 2.0);
        assert_eq!(uniform_f32(1 << 8), 2f32.powi(-24));
        assert_eq!(uniform_f64(0, 1 << 6), 2f64.powi(-53));
    }
}
