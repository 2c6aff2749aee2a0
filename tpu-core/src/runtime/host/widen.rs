//! Numbers of 16 and 32 bits brought to f32 in the order in which a product reads them, and rounded back.

use super::row::functions::{narrow_bf16, narrow_f16, widen_bf16, widen_f16};
use super::tile::COLUMNS;
use half::{bf16, f16};

/// Numbers of an [`Eight`].
pub(crate) const EIGHT: usize = 8;

/// Eight f32 side by side.
///
/// # Safety
///
/// Of all functions: pointers are good for eight elements, and the machine has the instruction set of the type.
pub(crate) trait Eight: Copy {
    unsafe fn f32s(from: *const f32) -> Self;
    unsafe fn bf16s(from: *const bf16) -> Self;
    unsafe fn f16s(from: *const f16) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn splat(x: f32) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    /// `self · by + to`, rounded once.
    unsafe fn mul_add(self, by: Self, to: Self) -> Self;
    /// Rows as columns.
    unsafe fn turned(rows: [Self; EIGHT]) -> [Self; EIGHT];
}

// SAFETY (all): passed on to the caller.
impl Eight for [f32; EIGHT] {
    #[inline(always)]
    unsafe fn f32s(from: *const f32) -> Self {
        // SAFETY: as above.
        unsafe { from.cast::<Self>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn bf16s(from: *const bf16) -> Self {
        // SAFETY: as above.
        unsafe { from.cast::<[u16; EIGHT]>().read_unaligned() }.map(widen_bf16)
    }
    #[inline(always)]
    unsafe fn f16s(from: *const f16) -> Self {
        // SAFETY: as above.
        unsafe { from.cast::<[u16; EIGHT]>().read_unaligned() }.map(widen_f16)
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as above.
        unsafe { to.cast::<Self>().write_unaligned(self) }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        [x; EIGHT]
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        std::array::from_fn(|lane| self[lane] + other[lane])
    }
    #[inline(always)]
    unsafe fn mul_add(self, by: Self, to: Self) -> Self {
        std::array::from_fn(|lane| self[lane].mul_add(by[lane], to[lane]))
    }
    #[inline(always)]
    unsafe fn turned(rows: [Self; EIGHT]) -> [Self; EIGHT] {
        std::array::from_fn(|i| std::array::from_fn(|j| rows[j][i]))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{EIGHT, Eight};
    use half::{bf16, f16};
    use std::arch::x86_64::*;

    // SAFETY (all): passed on to the caller, the instruction set too.
    impl Eight for __m256 {
        #[inline(always)]
        unsafe fn f32s(from: *const f32) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn bf16s(from: *const bf16) -> Self {
            // SAFETY: as above.
            unsafe {
                let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
            }
        }
        #[inline(always)]
        unsafe fn f16s(from: *const f16) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: as above.
            unsafe { _mm256_storeu_ps(to, self) }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_add_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn mul_add(self, by: Self, to: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_fmadd_ps(self, by, to) }
        }
        #[inline(always)]
        unsafe fn turned(x: [Self; EIGHT]) -> [Self; EIGHT] {
            // SAFETY: as above.
            unsafe {
                // Pairs of rows, then fours within each half, then the halves.
                let low = |i: usize| _mm256_unpacklo_ps(x[i], x[i + 1]);
                let high = |i: usize| _mm256_unpackhi_ps(x[i], x[i + 1]);
                let four = |i: usize| {
                    let (a, b, c, d) = (low(i), high(i), low(i + 2), high(i + 2));
                    [
                        _mm256_shuffle_ps::<0x44>(a, c),
                        _mm256_shuffle_ps::<0xee>(a, c),
                        _mm256_shuffle_ps::<0x44>(b, d),
                        _mm256_shuffle_ps::<0xee>(b, d),
                    ]
                };
                let ([a, b, c, d], [e, f, g, h]) = (four(0), four(4));
                [
                    _mm256_permute2f128_ps::<0x20>(a, e),
                    _mm256_permute2f128_ps::<0x20>(b, f),
                    _mm256_permute2f128_ps::<0x20>(c, g),
                    _mm256_permute2f128_ps::<0x20>(d, h),
                    _mm256_permute2f128_ps::<0x31>(a, e),
                    _mm256_permute2f128_ps::<0x31>(b, f),
                    _mm256_permute2f128_ps::<0x31>(c, g),
                    _mm256_permute2f128_ps::<0x31>(d, h),
                ]
            }
        }
    }
}

/// An element that is widened exactly.
pub(crate) trait Number: Copy {
    fn wide(self) -> f32;
    /// Eight neighbours.
    ///
    /// # Safety
    ///
    /// As for [`Eight`].
    unsafe fn eight<V: Eight>(from: *const Self) -> V;
    fn narrow(x: f32) -> Self;
}

macro_rules! numbers {
    ($($t:ident: $eight:ident, |$x:ident| $wide:expr, |$y:ident| $narrow:expr;)*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn wide(self) -> f32 {
                let $x = self;
                $wide
            }
            #[inline(always)]
            unsafe fn eight<V: Eight>(from: *const Self) -> V {
                // SAFETY: passed on to the caller.
                unsafe { V::$eight(from) }
            }
            #[inline(always)]
            fn narrow($y: f32) -> Self {
                $narrow
            }
        }
    )*};
}
numbers! {
    f32: f32s, |x| x, |y| y;
    bf16: bf16s, |x| widen_bf16(x.to_bits()), |y| bf16::from_bits(narrow_bf16(y));
    f16: f16s, |x| widen_f16(x.to_bits()), |y| f16::from_bits(narrow_f16(y));
}

/// Elements `(i, j)` at `from + i * steps.0 + j * steps.1`, for `i` and `j` below the sizes.
#[derive(Clone, Copy)]
pub(crate) struct Grid<T> {
    pub from: *const T,
    pub sizes: (usize, usize),
    pub steps: (usize, usize),
}

/// Lays elements `(i, j)` at `to + i * line + j`.
///
/// # Safety
///
/// All elements of the grid may be read and all those written to; the machine has the instruction set of `V`.
#[inline(always)]
pub(crate) unsafe fn lines<V: Eight, T: Number>(grid: Grid<T>, to: *mut f32, line: usize) {
    let (count, len) = grid.sizes;
    let whole = if grid.steps.1 == 1 { len - len % EIGHT } else { 0 };
    for i in 0..count {
        // SAFETY: passed on to the caller.
        unsafe {
            let (from, to) = (grid.from.add(i * grid.steps.0), to.add(i * line));
            for j in (0..whole).step_by(EIGHT) {
                T::eight::<V>(from.add(j)).store(to.add(j));
            }
            for j in whole..len {
                *to.add(j) = (*from.add(j * grid.steps.1)).wide();
            }
        }
    }
}

/// Lays elements in panels of [`COLUMNS`] columns `j`, row by row of `i`, `panel` numbers from one to the next. Columns beyond
/// the last one are zeros.
///
/// # Safety
///
/// As for [`lines`].
#[inline(always)]
pub(crate) unsafe fn panels<V: Eight, T: Number>(grid: Grid<T>, to: *mut f32, panel: usize) {
    let (depth, columns) = grid.sizes;
    let whole = columns - columns % COLUMNS;
    // SAFETY: passed on to the caller.
    unsafe {
        if grid.steps.1 == 1 {
            // Row by row, as they lie.
            for i in 0..depth {
                let (from, to) = (grid.from.add(i * grid.steps.0), to.add(i * COLUMNS));
                for j in (0..whole).step_by(COLUMNS) {
                    let to = to.add(j / COLUMNS * panel);
                    T::eight::<V>(from.add(j)).store(to);
                    T::eight::<V>(from.add(j + EIGHT)).store(to.add(EIGHT));
                }
            }
        } else {
            for j in (0..whole).step_by(EIGHT) {
                let to = to.add(j / COLUMNS * panel + j % COLUMNS);
                turned::<V, T>(grid, j, to);
            }
        }
        if whole < columns {
            let to = to.add(whole / COLUMNS * panel);
            for i in 0..depth {
                for j in 0..COLUMNS {
                    let from = grid.from.wrapping_add(i * grid.steps.0 + (whole + j) * grid.steps.1);
                    *to.add(i * COLUMNS + j) = if whole + j < columns { (*from).wide() } else { 0.0 };
                }
            }
        }
    }
}

/// Eight columns from `column` on, which lie along depth.
#[inline(always)]
unsafe fn turned<V: Eight, T: Number>(grid: Grid<T>, column: usize, to: *mut f32) {
    let depth = grid.sizes.0;
    let whole = if grid.steps.0 == 1 { depth - depth % EIGHT } else { 0 };
    // SAFETY: passed on to the caller.
    unsafe {
        let from = grid.from.add(column * grid.steps.1);
        for i in (0..whole).step_by(EIGHT) {
            let rows: [V; EIGHT] = std::array::from_fn(|j| T::eight::<V>(from.add(j * grid.steps.1 + i)));
            for (row, eight) in V::turned(rows).into_iter().enumerate() {
                eight.store(to.add((i + row) * COLUMNS));
            }
        }
        for i in whole..depth {
            for j in 0..EIGHT {
                *to.add(i * COLUMNS + j) = (*from.add(i * grid.steps.0 + j * grid.steps.1)).wide();
            }
        }
    }
}

/// Rounds rows of [`COLUMNS`] numbers to elements `(i, j)` at `to + i * steps.0 + j * steps.1`.
///
/// # Safety
///
/// There are as many rows as `sizes.0`, and all elements may be written.
#[inline(always)]
pub(crate) unsafe fn put<T: Number>(rows: *const f32, to: *mut T, sizes: (usize, usize), steps: (usize, usize)) {
    for i in 0..sizes.0 {
        // SAFETY: passed on to the caller.
        unsafe {
            let row = *rows.add(i * COLUMNS).cast::<[f32; COLUMNS]>();
            let to = to.add(i * steps.0);
            if (sizes.1, steps.1) == (COLUMNS, 1) {
                to.cast::<[T; COLUMNS]>().write_unaligned(row.map(T::narrow));
                continue;
            }
            for (j, &x) in row.iter().enumerate().take(sizes.1) {
                *to.add(j * steps.1) = T::narrow(x);
            }
        }
    }
}
