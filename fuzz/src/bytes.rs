//! Decisions from bytes.

/// A string of bytes that is used up decision by decision. When it ends, every decision is the first choice, so a
/// shorter input is a simpler case.
#[derive(Clone, Debug)]
pub struct Bytes<'a> {
    left: &'a [u8],
}

impl<'a> Bytes<'a> {
    /// Decisions from these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    /// Whether all bytes are used up.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.left
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, left)) = self.left.split_first() else { return 0 };
        self.left = left;
        first
    }

    /// The next eight bytes as a number.
    pub fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, at| word | (self.byte() as u64) << (8 * at))
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        if end <= 256 {
            self.byte() as usize % end
        } else {
            (self.byte() as usize | (self.byte() as usize) << 8 | (self.byte() as usize) << 16) % end
        }
    }

    /// A number of `low..=high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    /// One of the choices, of which there is at least one.
    pub fn pick<'b, T>(&mut self, choices: &'b [T]) -> &'b T {
        &choices[self.below(choices.len())]
    }

    /// What is left, dealt out in equal parts.
    pub fn deal(self, parts: usize) -> Vec<Bytes<'a>> {
        let each = self.left.len() / parts;
        (0..parts).map(|at| Bytes::new(&self.left[at * each..(at + 1) * each])).collect()
    }
}

/// Random bytes (SplitMix64): number `index` of the inputs that `seed` names, from 0 to `longest` bytes.
pub fn random(seed: u64, index: u64, longest: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0xd134_2543_de82_ef95) ^ index.wrapping_mul(0x2545_f491_4f6c_dd1d);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let len = (next() % (longest as u64 + 1)) as usize;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_the_bytes_end_every_choice_is_the_first() {
        let mut bytes = Bytes::new(&[3]);
        assert_eq!(bytes.below(5), 3);
        assert_eq!((bytes.below(5), bytes.word(), *bytes.pick(&["a", "b"])), (0, 0, "a"));
        assert!(!bytes.one_in(2));
    }

    #[test]
    fn inputs_repeat_and_differ() {
        assert_eq!(random(1, 2, 100), random(1, 2, 100));
        assert_ne!(random(1, 2, 100), random(1, 3, 100));
        assert_ne!(random(1, 2, 100), random(2, 2, 100));
        assert!((0..200).all(|index| random(1, index, 10).len() <= 10));
    }
}
