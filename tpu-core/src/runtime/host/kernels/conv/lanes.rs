//! A few elements in one register: one type per instruction set and element type.

use super::super::accumulate::Accumulator;

/// Elements that are computed with together.
///
/// # Safety
///
/// Of all functions: the processor has the instruction set of the type, and pointers are good for the elements that the function
/// reads or writes.
pub(super) trait Lanes: Copy {
    /// The element.
    type Of: Accumulator;
    /// How many.
    const COUNT: usize;
    /// The same element everywhere.
    unsafe fn splat(x: Self::Of) -> Self;
    /// The elements from `at` on.
    unsafe fn load(at: *const Self::Of) -> Self;
    /// The first `count` elements from `at` on, fewer than all; behind them zeros.
    unsafe fn load_first(at: *const Self::Of, count: usize) -> Self;
    /// Writes all.
    unsafe fn store(self, at: *mut Self::Of);
    /// `self + x · y`.
    unsafe fn plus_product(self, x: Self, y: Self) -> Self;
    /// Writes as many rows of as many elements to `to` as columns, with these distances between rows.
    #[inline(always)]
    unsafe fn transpose(from: *const Self::Of, from_step: usize, to: *mut Self::Of, to_step: usize) {
        for i in 0..Self::COUNT {
            for j in 0..Self::COUNT {
                // SAFETY: passed on to the caller.
                unsafe { *to.add(j * to_step + i) = *from.add(i * from_step + j) };
            }
        }
    }
}

/// The portable twin.
#[derive(Clone, Copy)]
pub(super) struct Plain<A>([A; 4]);

impl<A: Accumulator> Lanes for Plain<A> {
    type Of = A;
    const COUNT: usize = 4;
    #[inline(always)]
    unsafe fn splat(x: A) -> Self {
        Self([x; 4])
    }
    #[inline(always)]
    unsafe fn load(at: *const A) -> Self {
        // SAFETY: passed on to the caller.
        Self(unsafe { at.cast::<[A; 4]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_first(at: *const A, count: usize) -> Self {
        let mut all = [A::default(); 4];
        for (i, lane) in all.iter_mut().enumerate().take(count) {
            // SAFETY: passed on to the caller.
            *lane = unsafe { *at.add(i) };
        }
        Self(all)
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut A) {
        // SAFETY: passed on to the caller.
        unsafe { at.cast::<[A; 4]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn plus_product(self, x: Self, y: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].plus_product(x.0[i], y.0[i])))
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::Lanes;
    use std::arch::x86_64::*;

    /// `count` ones from the middle backwards are the first lanes of a mask.
    static MASK: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

    macro_rules! lanes {
        ($($lanes:ident of $of:ident, $count:literal: $set:ident $loadu:ident $storeu:ident $fused:ident,
           |$at:ident, $n:ident| $first:expr
           $(, transposed by $transpose:ident of $side:literal)?;)*) => {$(
            impl Lanes for $lanes {
                type Of = $of;
                const COUNT: usize = $count;
                #[inline(always)]
                unsafe fn splat(x: $of) -> Self {
                    // SAFETY: passed on to the caller.
                    unsafe { $set(x) }
                }
                #[inline(always)]
                unsafe fn load(at: *const $of) -> Self {
                    // SAFETY: passed on to the caller.
                    unsafe { $loadu(at) }
                }
                #[inline(always)]
                unsafe fn load_first($at: *const $of, $n: usize) -> Self {
                    // SAFETY: lanes that the mask excludes are not read; the rest is passed on to the caller.
                    unsafe { $first }
                }
                #[inline(always)]
                unsafe fn store(self, at: *mut $of) {
                    // SAFETY: passed on to the caller.
                    unsafe { $storeu(at, self) }
                }
                #[inline(always)]
                unsafe fn plus_product(self, x: Self, y: Self) -> Self {
                    // SAFETY: passed on to the caller.
                    unsafe { $fused(x, y, self) }
                }
                $(
                    #[inline(always)]
                    unsafe fn transpose(from: *const $of, from_step: usize, to: *mut $of, to_step: usize) {
                        for i in (0..$count).step_by($side) {
                            for j in (0..$count).step_by($side) {
                                // SAFETY: a block of the caller's; the instruction set has this one's.
                                unsafe {
                                    let (from, to) = (from.add(i * from_step + j), to.add(j * to_step + i));
                                    $transpose(from, from_step, to, to_step);
                                }
                            }
                        }
                    }
                )?
            }
        )*};
    }
    lanes! {
        __m256 of f32, 8: _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_fmadd_ps,
            |at, n| _mm256_maskload_ps(at, _mm256_loadu_si256(MASK.as_ptr().add(8 - n).cast())),
            transposed by transpose8 of 8;
        __m256d of f64, 4: _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_fmadd_pd,
            |at, n| _mm256_maskload_pd(at, _mm256_loadu_si256(MASK.as_ptr().add(8 - 2 * n).cast()));
        __m512 of f32, 16: _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_fmadd_ps,
            |at, n| _mm512_maskz_loadu_ps((1 << n) - 1, at),
            transposed by transpose8 of 8;
        __m512d of f64, 8: _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_fmadd_pd,
            |at, n| _mm512_maskz_loadu_pd((1 << n) - 1, at);
    }
    /// Eight rows of eight elements.
    #[inline(always)]
    unsafe fn transpose8(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
        // SAFETY: passed on to the caller.
        unsafe {
            let x: [__m256; 8] = std::array::from_fn(|i| _mm256_loadu_ps(from.add(i * from_step)));
            // Pairs of rows, then fours within each half, then the halves.
            let two: [__m256; 8] = std::array::from_fn(|i| {
                let (a, b) = (x[i / 2 * 2], x[i / 2 * 2 + 1]);
                if i % 2 == 0 { _mm256_unpacklo_ps(a, b) } else { _mm256_unpackhi_ps(a, b) }
            });
            let four: [__m256; 8] = std::array::from_fn(|i| {
                let (a, b) = (two[i / 4 * 4 + i % 4 / 2], two[i / 4 * 4 + 2 + i % 4 / 2]);
                if i % 2 == 0 { _mm256_shuffle_ps::<0x44>(a, b) } else { _mm256_shuffle_ps::<0xee>(a, b) }
            });
            for i in 0..4 {
                _mm256_storeu_ps(to.add(i * to_step), _mm256_permute2f128_ps::<0x20>(four[i], four[i + 4]));
                _mm256_storeu_ps(to.add((i + 4) * to_step), _mm256_permute2f128_ps::<0x31>(four[i], four[i + 4]));
            }
        }
    }
}
