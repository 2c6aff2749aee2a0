//! The innermost loop of products of small matrices: up to six rows by sixteen columns of the result stay in registers while
//! their sums grow.
//!
//! An element is a sum of fused multiply-adds in the order of depth, whatever tile it is in: results depend neither on how rows
//! are grouped nor on the instruction set, of which there is one generic source.

use super::row::isa::Isa;
use super::widen::{EIGHT, Eight};

/// Columns of a tile.
pub(crate) const COLUMNS: usize = 16;
/// The most rows of one.
pub(crate) const ROWS: usize = 6;

/// `c[i, j] = Σ a[i, p] b[p, j]` for `rows` rows and at most [`COLUMNS`] columns; steps are in elements.
pub(crate) struct Product {
    pub rows: usize,
    /// Depth as outer times inner steps.
    pub depth: [usize; 2],
    pub a: *const f32,
    pub a_row: usize,
    /// Steps of `a` for an outer and an inner step of depth.
    pub a_depth: [usize; 2],
    /// Rows of [`COLUMNS`] adjacent elements.
    pub b: *const f32,
    pub b_row: usize,
    pub c: *mut f32,
    pub c_row: usize,
    /// Columns of `c` that are written.
    pub columns: usize,
    pub put: Put,
}

/// What becomes of the old elements of `c`.
#[derive(Clone, Copy)]
pub(crate) enum Put {
    /// They are overwritten.
    Set,
    /// They are added to.
    Add,
    /// They are multiplied with this row's factor, then added to.
    Rescale(*const f32),
}

/// [`product`] for an instruction set.
///
/// # Safety
///
/// `a` is good for reading `rows` rows at its steps; `b` for `depth` rows of [`COLUMNS`] elements; `c` for reading and writing
/// `rows` rows of `columns` elements, which are no operand's; a factor of [`Put::Rescale`] is there for each row. The machine
/// has the instruction set.
pub(crate) type Kernel = unsafe fn(&Product);

/// The kernel of an instruction set. AVX-512 machines run that of AVX2: twelve rows would be theirs, which none of ours could
/// measure.
pub(crate) fn kernel(isa: Isa) -> Kernel {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => avx2,
        _ => portable,
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(of: &Product) {
    // SAFETY: passed on to the caller.
    unsafe { product::<std::arch::x86_64::__m256>(of) }
}

unsafe fn portable(of: &Product) {
    // SAFETY: passed on to the caller.
    unsafe { product::<[f32; EIGHT]>(of) }
}

/// Rows of the next tile: six as long as what is left is not one or two, which would wait for their own sums.
fn height(left: usize) -> usize {
    match left {
        7 | 8 => 4,
        9 => 5,
        _ => left.min(ROWS),
    }
}

#[inline(always)]
unsafe fn product<V: Eight>(of: &Product) {
    let mut row = 0;
    while row < of.rows {
        let height = height(of.rows - row);
        // SAFETY: passed on to the caller; the rows are within `rows`.
        unsafe {
            match height {
                1 => tile::<V, 1>(of, row),
                2 => tile::<V, 2>(of, row),
                3 => tile::<V, 3>(of, row),
                4 => tile::<V, 4>(of, row),
                5 => tile::<V, 5>(of, row),
                _ => tile::<V, 6>(of, row),
            }
        }
        row += height;
    }
}

#[inline(always)]
unsafe fn tile<V: Eight, const R: usize>(of: &Product, first: usize) {
    // Where the sums go is often not in the cache: it is fetched while they grow.
    for r in first..first + R {
        fetch(of.c.wrapping_add(r * of.c_row));
        fetch(of.c.wrapping_add(r * of.c_row + of.columns.saturating_sub(1)));
    }
    // SAFETY: the caller's `a` and `b` reach as far as rows and depth do, `c` as far as rows and columns; a factor is there for
    // each row.
    unsafe {
        let mut sums = [[V::splat(0.0); 2]; R];
        for outer in 0..of.depth[0] {
            let mut a = of.a.add(first * of.a_row + outer * of.a_depth[0]);
            let mut b = of.b.add(outer * of.depth[1] * of.b_row);
            for _ in 0..of.depth[1] {
                let row = [V::f32s(b), V::f32s(b.add(EIGHT))];
                for (r, sums) in sums.iter_mut().enumerate() {
                    let x = V::splat(*a.add(r * of.a_row));
                    *sums = [x.mul_add(row[0], sums[0]), x.mul_add(row[1], sums[1])];
                }
                a = a.wrapping_add(of.a_depth[1]);
                b = b.wrapping_add(of.b_row);
            }
        }
        for (r, sums) in sums.into_iter().enumerate() {
            let c = of.c.add((first + r) * of.c_row);
            if of.columns == COLUMNS {
                put(of.put, first + r, c, sums);
            } else {
                let mut row = [0f32; COLUMNS];
                if !matches!(of.put, Put::Set) {
                    (0..of.columns).for_each(|j| row[j] = *c.add(j));
                }
                put(of.put, first + r, row.as_mut_ptr(), sums);
                (0..of.columns).for_each(|j| *c.add(j) = row[j]);
            }
        }
    }
}

/// Asks for a line of the cache, where the processor can be asked.
#[inline(always)]
fn fetch(at: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing: any address will do.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Puts sums of a row where there is room for [`COLUMNS`] numbers.
#[inline(always)]
unsafe fn put<V: Eight>(how: Put, row: usize, c: *mut f32, sums: [V; 2]) {
    for (half, sum) in sums.into_iter().enumerate() {
        // SAFETY: passed on to the caller.
        unsafe {
            let c = c.add(half * EIGHT);
            let new = match how {
                Put::Set => sum,
                Put::Add => V::f32s(c).add(sum),
                Put::Rescale(factors) => V::f32s(c).mul_add(V::splat(*factors.add(row)), sum),
            };
            new.store(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole numbers, of which every sum here is exact in any order.
    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7 + seed * 13) % 11) as f32 - 5.0).collect()
    }

    #[test]
    fn tiles_of_any_height_and_width_are_the_sums_of_products() {
        let levels = [Isa::Portable, Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| isa <= Isa::available());
        let (outer, inner) = (3, 5);
        let depth = outer * inner;
        for isa in levels {
            for (rows, columns) in (0..=20).flat_map(|rows| [1, 7, 16].map(|columns| (rows, columns))) {
                // An outer step of `a` skips two elements more than the inner steps take.
                let (a, b) = (numbers(20 * outer * (inner + 2), 1), numbers(depth * 20, 2));
                let (before, factors) = (numbers(20 * 17, 3), numbers(20, 4));
                let a_at = |i: usize, p: usize| a[i * outer * (inner + 2) + p / inner * (inner + 2) + p % inner];
                for put in [Put::Set, Put::Add, Put::Rescale(factors.as_ptr())] {
                    let mut c = before.clone();
                    let product = Product {
                        rows,
                        depth: [outer, inner],
                        a: a.as_ptr(),
                        a_row: outer * (inner + 2),
                        a_depth: [inner + 2, 1],
                        b: b.as_ptr(),
                        b_row: 20,
                        c: c.as_mut_ptr(),
                        c_row: 17,
                        columns,
                        put,
                    };
                    // SAFETY: the vectors have what the steps reach, and the machine has the instruction set.
                    unsafe { kernel(isa)(&product) };
                    for (at, (&new, &old)) in c.iter().zip(&before).enumerate() {
                        let (i, j) = (at / 17, at % 17);
                        let sum: f32 = (0..depth).map(|p| if j < 16 { a_at(i, p) * b[p * 20 + j] } else { 0.0 }).sum();
                        let want = match put {
                            _ if i >= rows || j >= columns => old,
                            Put::Set => sum,
                            Put::Add => old + sum,
                            Put::Rescale(_) => old * factors[i] + sum,
                        };
                        assert_eq!(new, want, "{isa:?}: {rows} × {columns}, element {i}, {j}");
                    }
                }
            }
        }
    }
}
