//! Products in which one operand has few rows or columns: a token against a weight, a few rows of a batch.
//!
//! `gemm` packs its operands first, which costs more than such a product where depth is what lies adjacent. Here the large
//! operand is read where it is, about once; if depth is adjacent in it, blocks of eight by eight are turned in registers.
//!
//! Bits depend on the sizes only, not on layouts, threads or the instruction set: an element is a sum over blocks of depth of
//! sums in the order of depth, or, of one row alone, a sum of sixteen sums.

use super::row::isa::Isa;
use super::widen::Eight;

/// The most rows of the small operand.
pub(crate) const FEW: usize = 15;
/// Depth of a block, as many rows of the large operand as the cache has room for in one column of lines.
const BLOCK: usize = 256;
/// Rows of the large operand that lie side by side in a vector.
const LANES: usize = 8;
/// `y[i, j] = Σ x[i, p] w[j, p]` for at most [`FEW`] rows of `x`; steps are in elements. One of the steps of `w` is one,
/// unless `few` is.
#[derive(Clone, Copy)]
pub(crate) struct Skinny {
    pub few: usize,
    pub many: usize,
    pub depth: usize,
    pub x: *const f32,
    pub x_row: usize,
    pub x_depth: usize,
    pub w: *const f32,
    pub w_row: usize,
    pub w_depth: usize,
    pub y: *mut f32,
    pub y_few: usize,
    pub y_many: usize,
}

impl Skinny {
    /// The product with some of the rows of the large operand.
    pub fn part(&self, first: usize, many: usize) -> Self {
        let (w, y) = (self.w.wrapping_add(first * self.w_row), self.y.wrapping_add(first * self.y_many));
        Self { many, w, y, ..*self }
    }
}

/// A product for an instruction set.
///
/// # Safety
///
/// All elements of `x` and `w` may be read, those of `y` written; they are distinct and no operand's. The machine has the
/// instruction set.
pub(crate) type Kernel = unsafe fn(&Skinny);

/// The kernel of an instruction set; AVX-512 machines run that of AVX2.
pub(crate) fn kernel(isa: Isa) -> Kernel {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => avx2::product,
        _ => portable::product,
    }
}

/// What products of few rows do with eight numbers besides.
trait Vector: Eight {
    /// # Safety (all)
    ///
    /// Elements at pointers may be read. The machine has the instruction set of the type.
    unsafe fn numbers(self) -> [f32; LANES];
    /// Element `p` of eight rows, for `p` up to 7.
    unsafe fn of_rows(rows: *const f32, step: usize) -> [Self; LANES];
}

mod portable {
    use super::{LANES, Skinny, Vector};

    pub(super) unsafe fn product(of: &Skinny) {
        // SAFETY: passed on to the caller.
        unsafe { super::product::<[f32; LANES]>(of) };
    }

    impl Vector for [f32; LANES] {
        unsafe fn numbers(self) -> [f32; LANES] {
            self
        }
        unsafe fn of_rows(rows: *const f32, step: usize) -> [Self; LANES] {
            // SAFETY: passed on to the caller.
            std::array::from_fn(|p| std::array::from_fn(|lane| unsafe { *rows.add(lane * step + p) }))
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{LANES, Skinny, Vector};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn product(of: &Skinny) {
        // SAFETY: passed on to the caller.
        unsafe { super::product::<__m256>(of) };
    }

    // SAFETY (all): passed on to the caller, the instruction set too.
    impl Vector for __m256 {
        #[inline(always)]
        unsafe fn numbers(self) -> [f32; LANES] {
            // SAFETY: both are eight numbers.
            unsafe { std::mem::transmute(self) }
        }
        #[inline(always)]
        unsafe fn of_rows(rows: *const f32, step: usize) -> [Self; LANES] {
            // SAFETY: as above.
            let ([a, b, c, d], [e, f, g, h]) = unsafe { (four(rows, step), four(rows.add(4), step)) };
            [a, b, c, d, e, f, g, h]
        }
    }

    /// The first four elements of eight rows, turned.
    #[inline(always)]
    unsafe fn four(rows: *const f32, step: usize) -> [__m256; 4] {
        // SAFETY: passed on to the caller.
        unsafe {
            let (a, b) = (pair(rows, step), pair(rows.add(step), step));
            let (c, d) = (pair(rows.add(2 * step), step), pair(rows.add(3 * step), step));
            let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
            let (ab_high, cd_high) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
            [
                _mm256_shuffle_ps::<0x44>(ab, cd),
                _mm256_shuffle_ps::<0xee>(ab, cd),
                _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
                _mm256_shuffle_ps::<0xee>(ab_high, cd_high),
            ]
        }
    }

    /// Four elements of two rows that are four apart: as halves of a vector, so that nothing has to cross halves after that.
    #[inline(always)]
    unsafe fn pair(row: *const f32, step: usize) -> __m256 {
        // SAFETY: passed on to the caller.
        unsafe { _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(_mm_loadu_ps(row)), _mm_loadu_ps(row.add(4 * step))) }
    }
}

#[inline(always)]
unsafe fn product<V: Vector>(of: &Skinny) {
    if of.few == 1 {
        // SAFETY: passed on to the caller.
        unsafe { if of.w_depth == 1 { row::<V>(of) } else { row_beside::<V>(of) } };
        return;
    }
    // The small operand a block at a time, row beside row: its own steps may make its rows meet in the cache.
    let mut x = [0f32; BLOCK * FEW];
    for first in (0..of.depth).step_by(BLOCK) {
        let depth = BLOCK.min(of.depth - first);
        for p in 0..depth {
            for row in 0..of.few {
                // SAFETY: passed on to the caller.
                x[p * of.few + row] = unsafe { *of.x.add(row * of.x_row + (first + p) * of.x_depth) };
            }
        }
        let w = of.w.wrapping_add(first * of.w_depth);
        let block = Block { of: &Skinny { x: x.as_ptr(), x_row: 1, x_depth: of.few, w, depth, ..*of }, add: first > 0 };
        // SAFETY: passed on to the caller.
        unsafe { block.run::<V>() };
    }
}

/// One row with rows of adjacent depth: vectors along depth.
#[inline(always)]
unsafe fn row<V: Vector>(of: &Skinny) {
    const ROWS: usize = 6;
    let whole = of.many / ROWS * ROWS;
    // SAFETY: passed on to the caller.
    unsafe {
        for at in (0..whole).step_by(ROWS) {
            dots::<V, ROWS>(of, at);
        }
        for at in whole..of.many {
            dots::<V, 1>(of, at);
        }
    }
}

/// Sums of one row, of which each sixteenth term is added up for itself.
const STEP: usize = 2 * LANES;

/// One row with rows that lie side by side, or anyhow: sums in memory, so that what lies side by side is read in long pieces.
#[inline(always)]
unsafe fn row_beside<V: Vector>(of: &Skinny) {
    const WIDTH: usize = 256;
    let whole = of.depth / STEP * STEP;
    let mut sums = [[0f32; WIDTH]; STEP];
    for at in (0..of.many).step_by(WIDTH) {
        let width = WIDTH.min(of.many - at);
        let vectors = if of.w_row == 1 { width - width % LANES } else { 0 };
        // SAFETY: passed on to the caller; the sums are as many as the rows.
        let add = |p: usize, sums: &mut [f32; WIDTH]| unsafe {
            let (x, w) = (*of.x.add(p * of.x_depth), of.w.add(at * of.w_row + p * of.w_depth));
            for j in (0..vectors).step_by(LANES) {
                let to = sums.as_mut_ptr().add(j);
                let sum = V::splat(x).mul_add(V::f32s(w.add(j)), V::f32s(to));
                to.cast::<[f32; LANES]>().write_unaligned(sum.numbers());
            }
            for (j, sum) in sums[..width].iter_mut().enumerate().skip(vectors) {
                *sum = x.mul_add(*w.add(j * of.w_row), *sum);
            }
        };
        sums.iter_mut().for_each(|sums| sums[..width].fill(0.0));
        (0..whole).for_each(|p| add(p, &mut sums[p % STEP]));
        let mut half = STEP / 2;
        while half > 0 {
            let (low, high) = sums.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                low[..width].iter_mut().zip(&high[..width]).for_each(|(low, high)| *low += high);
            }
            half /= 2;
        }
        (whole..of.depth).for_each(|p| add(p, &mut sums[0]));
        // SAFETY: passed on to the caller.
        (0..width).for_each(|j| unsafe { *of.y.add((at + j) * of.y_many) = sums[0][j] });
    }
}

/// Elements of one row, from `at` on.
#[inline(always)]
unsafe fn dots<V: Vector, const R: usize>(of: &Skinny, at: usize) {
    let whole = of.depth / STEP * STEP;
    // SAFETY: passed on to the caller.
    unsafe {
        let start = of.w.add(at * of.w_row);
        let mut sums = [[V::splat(0.0); 2]; R];
        let mut p = 0;
        while p < whole {
            let x: [V; 2] = match of.x_depth {
                1 => vectors(of.x.add(p)),
                step => vectors(std::array::from_fn::<f32, STEP, _>(|i| *of.x.add((p + i) * step)).as_ptr()),
            };
            for (r, sums) in sums.iter_mut().enumerate() {
                let w = start.add(r * of.w_row + p);
                sums[0] = x[0].mul_add(V::f32s(w), sums[0]);
                sums[1] = x[1].mul_add(V::f32s(w.add(LANES)), sums[1]);
            }
            p += STEP;
        }
        for (r, sums) in sums.into_iter().enumerate() {
            let mut lanes = sums[0].add(sums[1]).numbers();
            let mut half = LANES / 2;
            while half > 0 {
                (0..half).for_each(|lane| lanes[lane] += lanes[lane + half]);
                half /= 2;
            }
            let rest = whole..of.depth;
            let sum =
                rest.fold(lanes[0], |sum, p| (*of.x.add(p * of.x_depth)).mul_add(*start.add(r * of.w_row + p), sum));
            *of.y.add((at + r) * of.y_many) = sum;
        }
    }
}

struct Block<'a> {
    of: &'a Skinny,
    /// Whether there are sums of earlier blocks.
    add: bool,
}

impl Block<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(&self) {
        let of = self.of;
        let adjacent_depth = of.w_depth == 1;
        // Rows of each operand at a time: as many as registers hold sums for.
        let (vectors, tall) = match (adjacent_depth, of.few) {
            (true, _) => (1, 8),
            (false, 1..=3) => (4, 3),
            (false, 4) => (3, 4),
            (false, 7 | 8) => (1, 8),
            (false, _) => (2, 6),
        };
        let wide = vectors * LANES;
        let whole = of.many / wide * wide;
        for at in (0..whole).step_by(wide) {
            for row in (0..of.few).step_by(tall) {
                // SAFETY: passed on to the caller; the rows are within the operands.
                unsafe {
                    match (adjacent_depth, vectors, tall.min(of.few - row)) {
                        (true, _, 1) => self.turned::<V, 1>(row, at),
                        (true, _, 2) => self.turned::<V, 2>(row, at),
                        (true, _, 3) => self.turned::<V, 3>(row, at),
                        (true, _, 4) => self.turned::<V, 4>(row, at),
                        (true, _, 5) => self.turned::<V, 5>(row, at),
                        (true, _, 6) => self.turned::<V, 6>(row, at),
                        (true, _, 7) => self.turned::<V, 7>(row, at),
                        (true, ..) => self.turned::<V, 8>(row, at),
                        (_, 4, 1) => self.columns::<V, 1, 4>(row, at),
                        (_, 4, 2) => self.columns::<V, 2, 4>(row, at),
                        (_, 4, _) => self.columns::<V, 3, 4>(row, at),
                        (_, 3, _) => self.columns::<V, 4, 3>(row, at),
                        (_, 1, 7) => self.columns::<V, 7, 1>(row, at),
                        (_, 1, _) => self.columns::<V, 8, 1>(row, at),
                        (.., 1) => self.columns::<V, 1, 2>(row, at),
                        (.., 2) => self.columns::<V, 2, 2>(row, at),
                        (.., 3) => self.columns::<V, 3, 2>(row, at),
                        (.., 4) => self.columns::<V, 4, 2>(row, at),
                        (.., 5) => self.columns::<V, 5, 2>(row, at),
                        (..) => self.columns::<V, 6, 2>(row, at),
                    }
                }
            }
        }
        // What is left: whole vectors, then single elements.
        let vectors = if adjacent_depth { whole } else { of.many / LANES * LANES };
        // SAFETY: as above.
        unsafe {
            for at in (whole..vectors).step_by(LANES) {
                (0..of.few).for_each(|row| self.columns::<V, 1, 1>(row, at));
            }
            (vectors..of.many).for_each(|at| self.elements(at));
        }
    }

    /// `S` rows with eight rows of the large operand, whose depth is adjacent.
    #[inline(always)]
    unsafe fn turned<V: Vector, const S: usize>(&self, row: usize, at: usize) {
        let of = self.of;
        let start = of.w.wrapping_add(at * of.w_row);
        let whole = of.depth / LANES * LANES;
        // SAFETY: passed on to the caller.
        unsafe {
            let x = of.x.add(row * of.x_row);
            let mut sums = [V::splat(0.0); S];
            let mut first = 0;
            while first < whole {
                let w = V::of_rows(start.add(first), of.w_row);
                for (p, w) in w.iter().enumerate() {
                    for (s, sum) in sums.iter_mut().enumerate() {
                        let x = V::splat(*x.add(s * of.x_row + (first + p) * of.x_depth));
                        *sum = x.mul_add(*w, *sum);
                    }
                }
                first += LANES;
            }
            for p in whole..of.depth {
                let w: [f32; LANES] = std::array::from_fn(|lane| *start.add(lane * of.w_row + p));
                let w = V::f32s(w.as_ptr());
                for (s, sum) in sums.iter_mut().enumerate() {
                    let x = V::splat(*x.add(s * of.x_row + p * of.x_depth));
                    *sum = x.mul_add(w, *sum);
                }
            }
            for (s, sum) in sums.into_iter().enumerate() {
                self.put(row + s, at, sum.numbers());
            }
        }
    }

    /// `S` rows with `N` vectors of rows of the large operand, which are adjacent.
    #[inline(always)]
    unsafe fn columns<V: Vector, const S: usize, const N: usize>(&self, row: usize, at: usize) {
        let of = self.of;
        // SAFETY: passed on to the caller.
        unsafe {
            let x = of.x.add(row * of.x_row);
            let mut sums = [[V::splat(0.0); N]; S];
            for p in 0..of.depth {
                let w: [V; N] = vectors(of.w.add(at + p * of.w_depth));
                for (s, sums) in sums.iter_mut().enumerate() {
                    let x = V::splat(*x.add(s * of.x_row + p * of.x_depth));
                    for (sum, w) in sums.iter_mut().zip(w) {
                        *sum = x.mul_add(w, *sum);
                    }
                }
            }
            for (s, sums) in sums.into_iter().enumerate() {
                for (n, sum) in sums.into_iter().enumerate() {
                    self.put(row + s, at + n * LANES, sum.numbers());
                }
            }
        }
    }

    /// All elements of one row of the large operand, one by one.
    #[inline(always)]
    unsafe fn elements(&self, at: usize) {
        let of = self.of;
        for row in 0..of.few {
            let mut sum = 0f32;
            for p in 0..of.depth {
                // SAFETY: passed on to the caller.
                let (x, w) =
                    unsafe { (*of.x.add(row * of.x_row + p * of.x_depth), *of.w.add(at * of.w_row + p * of.w_depth)) };
                sum = x.mul_add(w, sum);
            }
            // SAFETY: passed on to the caller.
            unsafe { self.put(row, at, [sum]) };
        }
    }

    /// Writes sums of adjacent elements, added to those of earlier blocks.
    #[inline(always)]
    unsafe fn put<const N: usize>(&self, row: usize, at: usize, sums: [f32; N]) {
        for (lane, sum) in sums.into_iter().enumerate() {
            // SAFETY: passed on to the caller.
            unsafe {
                let y = self.of.y.add(row * self.of.y_few + (at + lane) * self.of.y_many);
                *y = if self.add { *y + sum } else { sum };
            }
        }
    }
}

/// Adjacent vectors.
#[inline(always)]
unsafe fn vectors<V: Vector, const N: usize>(from: *const f32) -> [V; N] {
    // SAFETY: passed on to the caller.
    let mut all = [unsafe { V::f32s(from) }; N];
    for (n, vector) in all.iter_mut().enumerate() {
        // SAFETY: as above.
        *vector = unsafe { V::f32s(from.add(n * LANES)) };
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::host::tests::{levels, roundable};

    struct Operands {
        x: Vec<f32>,
        w: Vec<f32>,
    }

    impl Operands {
        /// The product of operands with adjacent depth or turned, in so many parts.
        fn laid(&self, [few, many, depth]: [usize; 3], turned: [bool; 2], isa: Isa, parts: usize) -> Vec<f32> {
            let laid = |rows: usize, from: &[f32], turned: bool| -> (Vec<f32>, usize, usize) {
                match turned {
                    false => (from.to_vec(), depth, 1),
                    // A number between lines.
                    true => {
                        let number = |i: usize| from.get(i % (rows + 1) * depth + i / (rows + 1)).copied();
                        let all = (0..(rows + 1) * depth).map(|i| number(i).unwrap_or(f32::NAN)).collect();
                        (all, 1, rows + 1)
                    }
                }
            };
            let ((x, x_row, x_depth), (w, w_row, w_depth)) =
                (laid(few, &self.x, turned[0]), laid(many, &self.w, turned[1]));
            let mut y = vec![f32::NAN; few * many];
            let (x, w, to) = (x.as_ptr(), w.as_ptr(), y.as_mut_ptr());
            let all = Skinny { few, many, depth, x, x_row, x_depth, w, w_row, w_depth, y: to, y_few: many, y_many: 1 };
            for part in 0..parts {
                let (first, end) = (many * part / parts, many * (part + 1) / parts);
                // SAFETY: the vectors have these sizes, and the machine has the instruction set.
                unsafe { kernel(isa)(&all.part(first, end - first)) };
            }
            y
        }
    }

    #[test]
    fn elements_are_sums_in_the_order_of_depth_whatever_the_layout() {
        for few in 1..=FEW {
            for (many, depth) in [(1, 1), (7, 5), (8, 8), (53, 19), (60, 300), (9, 520), (270, 37)] {
                let operands = Operands { x: roundable(few * depth, 1), w: roundable(many * depth, 2) };
                let sizes = [few, many, depth];
                let first = operands.laid(sizes, [false; 2], Isa::Portable, 1);
                for (at, &got) in first.iter().enumerate() {
                    let (x, w) = (&operands.x[at / many * depth..][..depth], &operands.w[at % many * depth..][..depth]);
                    let pairs = || x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w));
                    // One rounding for each term, of at most the sum of magnitudes.
                    let error = pairs().map(f64::abs).sum::<f64>() * depth as f64 * f64::from(f32::EPSILON) / 2.0;
                    let want: f64 = pairs().sum();
                    assert!((f64::from(got) - want).abs() <= error, "{sizes:?}, element {at}: got {got}, want {want}");
                }
                for (isa, parts) in levels().into_iter().flat_map(|isa| [1, 2, 4].map(|parts| (isa, parts))) {
                    assert_eq!(
                        operands.laid(sizes, [false; 2], isa, parts),
                        first,
                        "{sizes:?}: {isa:?}, {parts} parts"
                    );
                    for turned in [[true, false], [false, true], [true, true]] {
                        let got = operands.laid(sizes, turned, isa, parts);
                        assert_eq!(got, first, "{sizes:?} {turned:?}: {isa:?}, {parts} parts");
                    }
                }
            }
        }
    }
}
