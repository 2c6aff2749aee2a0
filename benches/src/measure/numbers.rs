//! The numbers that every program starts from: `benches/peers/measure.py` makes the same ones.

/// Numbers from −1 to 1, each a hash of its position and of `salt`: multiples of 2⁻²³, so exact in float32.
pub fn numbers(len: usize, salt: u32) -> impl ExactSizeIterator<Item = f32> {
    hashes(len, salt).map(|hash| hash as f32 / (1u32 << 23) as f32 - 1.0)
}

/// Integers from 0 to `bound` − 1.
pub fn integers(len: usize, salt: u32, bound: u32) -> impl ExactSizeIterator<Item = u32> {
    hashes(len, salt).map(move |hash| hash % bound)
}

/// 24 bits each: "lowbias32" of C. Wellons' *hash-prospector*, of position and salt.
fn hashes(len: usize, salt: u32) -> impl ExactSizeIterator<Item = u32> {
    let start = salt.wrapping_mul(0x9e37_79b9);
    (0..len).map(move |at| {
        let x = start.wrapping_add(at as u32);
        let x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
        let x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        (x ^ (x >> 16)) >> 8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made by `benches/peers/measure.py` with NumPy 2.4: `numbers(3, 7)` and `integers(3, 7, 256)`.
    const NUMBERS: [f32; 3] = [0.13634169, 0.36544693, -0.71076703];
    const INTEGERS: [u32; 3] = [165, 247, 150];

    #[test]
    fn numbers_are_those_of_the_peers() {
        assert_eq!(numbers(3, 7).collect::<Vec<_>>(), NUMBERS);
        assert_eq!(integers(3, 7, 256).collect::<Vec<_>>(), INTEGERS);
    }
}
