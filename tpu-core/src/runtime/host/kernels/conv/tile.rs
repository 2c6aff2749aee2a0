//! The loops in which convolutions spend their time, per instruction set.

use super::super::super::row::isa::Isa;
use super::super::accumulate::Accumulator;
use super::lanes::{Lanes, Plain};

/// Rows of a tile of two registers each: as many sums as sixteen registers hold beside their operands.
pub(super) const ROWS: usize = 6;
/// Rows of a tile of one register each: as many sums as keep the processor busy.
const NARROW_ROWS: usize = 8;

/// `c[i][j] = Σ a[places[i] + offsets[k]] · b[k][j]`, or that added to what is there, for each place and the columns of one register
/// or two. The columns of a register lie one after the other in `b`, those of the second `b_step` behind.
pub(super) struct Products<'a, A> {
    pub a: &'a [A],
    pub places: &'a [usize],
    pub offsets: &'a [usize],
    pub b: &'a [A],
    pub b_step: usize,
    pub c: &'a mut [A],
    /// Distance of the rows of `c`.
    pub c_step: usize,
    pub add: bool,
}

/// `y[to + jump · i] = Σ weights[k] · x[from + offsets[k] + i]` for `len` elements of each line `(from, to)`.
pub(super) struct Lines<'a, A> {
    /// Registers are filled whole: there are [`Kernels::width`] elements more than lines read.
    pub x: &'a [A],
    pub offsets: &'a [usize],
    pub weights: &'a [A],
    pub lines: &'a [(usize, usize)],
    pub y: &'a mut [A],
    pub len: usize,
    pub jump: usize,
    /// Whether each line follows on the one before in `y`, so that what is written behind a line is written again.
    pub in_order: bool,
}

/// `sums[k] += Σ g[r, i] · x[offsets[k] + …]` over `rows` rows of `len` elements. A sum is as many as a register has lanes, to be added
/// in the end. The elements of one call are summed before they are added: long sums lose less that way.
pub(super) struct Correlation<'a, A> {
    pub g: *const A,
    pub x: *const A,
    pub offsets: &'a [usize],
    pub rows: usize,
    pub len: usize,
    /// Distance of the rows in `g`, then in `x`.
    pub steps: (usize, usize),
    pub sums: &'a mut [A],
}

/// Copies rows of `len` elements, `x_step` apart, to `y` as columns; rows there are `y_step` apart.
pub(super) struct Transpose<'a, A> {
    pub x: &'a [A],
    pub x_step: usize,
    pub rows: usize,
    pub len: usize,
    pub y: &'a mut [A],
    pub y_step: usize,
}

/// The loops of one instruction set.
///
/// # Safety
///
/// The processor has the instruction set, and pointers are good for what the fields of the argument say.
pub(in crate::runtime::host::kernels) struct Kernels<A> {
    /// Elements of a register.
    pub(super) lanes: usize,
    wide: unsafe fn(&mut Products<'_, A>),
    narrow: unsafe fn(&mut Products<'_, A>),
    pub(super) lines: unsafe fn(&mut Lines<'_, A>),
    pub(super) correlation: unsafe fn(&mut Correlation<'_, A>),
    pub(super) transpose: unsafe fn(&mut Transpose<'_, A>),
}

impl<A> Kernels<A> {
    /// Products of two registers of columns if there are as many panels, else of one.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set.
    pub(super) unsafe fn products(&self, panels: usize, products: &mut Products<'_, A>) {
        // SAFETY: passed on to the caller.
        unsafe { if panels > 1 { (self.wide)(products) } else { (self.narrow)(products) } }
    }
}

macro_rules! instance {
    ($lanes:ty, $of:ty $(, $features:literal)?) => {{
        $(#[target_feature(enable = $features)])?
        unsafe fn wide(products: &mut Products<'_, $of>) {
            // SAFETY: passed on to the caller.
            unsafe { sum_products::<$lanes, ROWS, 2>(products) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn narrow(products: &mut Products<'_, $of>) {
            // SAFETY: passed on to the caller.
            unsafe { sum_products::<$lanes, NARROW_ROWS, 1>(products) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn lines(lines: &mut Lines<'_, $of>) {
            // SAFETY: passed on to the caller.
            unsafe { sum_lines::<$lanes>(lines) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn correlation(correlation: &mut Correlation<'_, $of>) {
            // SAFETY: passed on to the caller.
            unsafe { correlate::<$lanes>(correlation) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn transpose(transpose: &mut Transpose<'_, $of>) {
            // SAFETY: passed on to the caller.
            unsafe { transpose_all::<$lanes>(transpose) }
        }
        Kernels { lanes: <$lanes as Lanes>::COUNT, wide, narrow, lines, correlation, transpose }
    }};
}

/// The portable loops, of any type.
pub(in crate::runtime::host::kernels) fn portable<A: Accumulator>() -> Kernels<A> {
    Kernels {
        lanes: Plain::<A>::COUNT,
        wide: sum_products::<Plain<A>, ROWS, 2>,
        narrow: sum_products::<Plain<A>, NARROW_ROWS, 1>,
        lines: sum_lines::<Plain<A>>,
        correlation: correlate::<Plain<A>>,
        transpose: transpose_all::<Plain<A>>,
    }
}

/// The loops of `f32`.
pub(in crate::runtime::host::kernels) fn of_f32(isa: Isa) -> Kernels<f32> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m256, __m512};
        match isa {
            Isa::Avx512 => return instance!(__m512, f32, "avx512f,avx512bw,avx512dq,avx512vl"),
            Isa::Avx2 => return instance!(__m256, f32, "avx2,fma"),
            Isa::Portable => {}
        }
    }
    let _ = isa;
    portable()
}

/// The loops of `f64`.
pub(in crate::runtime::host::kernels) fn of_f64(isa: Isa) -> Kernels<f64> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m256d, __m512d};
        match isa {
            Isa::Avx512 => return instance!(__m512d, f64, "avx512f,avx512bw,avx512dq,avx512vl"),
            Isa::Avx2 => return instance!(__m256d, f64, "avx2,fma"),
            Isa::Portable => {}
        }
    }
    let _ = isa;
    portable()
}

/// Tiles of `N` rows and `C` registers of columns, fewer rows where there are few left.
#[inline(always)]
unsafe fn sum_products<V: Lanes, const N: usize, const C: usize>(all: &mut Products<'_, V::Of>) {
    let (Some(place), Some(offset)) = (all.places.iter().max(), all.offsets.iter().max()) else { return };
    let (rows, terms, columns) = (all.places.len(), all.offsets.len(), C * V::COUNT);
    assert!(place + offset < all.a.len(), "every term of every row is there");
    assert!((C - 1) * all.b_step + terms * V::COUNT <= all.b.len(), "every term of every column is there");
    assert!((rows - 1) * all.c_step + columns <= all.c.len() && columns <= all.c_step, "every sum has its place");
    let mut row = 0;
    while row < rows {
        // SAFETY: by the assertions all elements are there; the caller says that the instruction set is.
        unsafe {
            row += match rows - row {
                1 | 2 => sum_tile::<V, 2, C>(all, row),
                3 | 4 => sum_tile::<V, 4, C>(all, row),
                _ => sum_tile::<V, N, C>(all, row),
            }
        }
    }
}

/// One tile from this row on; rows behind the last one repeat it, and are not stored.
#[inline(always)]
unsafe fn sum_tile<V: Lanes, const N: usize, const C: usize>(all: &mut Products<'_, V::Of>, first: usize) -> usize {
    let rows = N.min(all.places.len() - first);
    // SAFETY: passed on to the caller.
    unsafe {
        let a: [_; N] = std::array::from_fn(|i| all.a.as_ptr().add(all.places[first + i.min(rows - 1)]));
        let c = all.c.as_mut_ptr().add(first * all.c_step);
        let mut sums = [[V::splat(V::Of::default()); C]; N];
        if all.add {
            for (i, sums) in sums.iter_mut().enumerate() {
                let row = c.add(i.min(rows - 1) * all.c_step);
                *sums = std::array::from_fn(|j| V::load(row.add(j * V::COUNT)));
            }
        }
        let mut b = all.b.as_ptr();
        for &offset in all.offsets {
            let columns: [V; C] = std::array::from_fn(|j| V::load(b.add(j * all.b_step)));
            for i in 0..N {
                let x = V::splat(*a[i].add(offset));
                for j in 0..C {
                    sums[i][j] = sums[i][j].plus_product(x, columns[j]);
                }
            }
            b = b.add(V::COUNT);
        }
        for (i, sums) in sums.into_iter().enumerate().take(rows) {
            for (j, sum) in sums.into_iter().enumerate() {
                sum.store(c.add(i * all.c_step + j * V::COUNT));
            }
        }
    }
    rows
}

#[inline(always)]
unsafe fn sum_lines<V: Lanes>(all: &mut Lines<'_, V::Of>) {
    let farthest = all.offsets.iter().max().copied().unwrap_or(0) + all.len.next_multiple_of(V::COUNT);
    assert!(
        all.lines
            .iter()
            .all(|&(from, to)| { from + farthest <= all.x.len() && to + (all.len - 1) * all.jump < all.y.len() })
    );
    // Lines of one register, four at a time: each element of the kernel is loaded once for all of them.
    let short = if all.len <= V::COUNT { all.lines.len() / 4 * 4 } else { 0 };
    for lines in all.lines[..short].chunks_exact(4) {
        // SAFETY: by the assertion all elements are there, those behind the end of a line too; the caller says that the
        // instruction set is.
        unsafe { sum_at::<V, 4>(all, std::array::from_fn(|i| (lines[i].0, lines[i].1, all.len))) }
    }
    for &line in &all.lines[short..] {
        let mut at = 0;
        while at < all.len {
            let registers = (all.len - at).div_ceil(V::COUNT).min(4);
            // SAFETY: as above.
            unsafe {
                match registers {
                    1 => sum_line::<V, 1>(all, line, at),
                    2 => sum_line::<V, 2>(all, line, at),
                    3 => sum_line::<V, 3>(all, line, at),
                    _ => sum_line::<V, 4>(all, line, at),
                }
            }
            at += registers * V::COUNT;
        }
    }
}

/// `N` registers of a line from its element `at` on.
#[inline(always)]
unsafe fn sum_line<V: Lanes, const N: usize>(all: &mut Lines<'_, V::Of>, (from, to): (usize, usize), at: usize) {
    // A last register that the line does not fill starts further left where it can, at elements that are summed twice.
    let last = if all.len < V::COUNT { at } else { all.len - V::COUNT };
    let register = |i: usize| {
        let start = (at + i * V::COUNT).min(last);
        (from + start, to + start * all.jump, all.len - start)
    };
    // SAFETY: passed on to the caller.
    unsafe { sum_at::<V, N>(all, std::array::from_fn(register)) }
}

/// Registers that start at an element of `x`, belong to an element of `y`, and of which this many elements are of the line.
#[inline(always)]
unsafe fn sum_at<V: Lanes, const N: usize>(all: &mut Lines<'_, V::Of>, registers: [(usize, usize, usize); N]) {
    // SAFETY: passed on to the caller.
    unsafe {
        let x: [_; N] = std::array::from_fn(|i| all.x.as_ptr().add(registers[i].0));
        let mut sums = [V::splat(V::Of::default()); N];
        for (&offset, &weight) in all.offsets.iter().zip(all.weights) {
            let weight = V::splat(weight);
            for (sum, x) in sums.iter_mut().zip(x) {
                *sum = sum.plus_product(weight, V::load(x.add(offset)));
            }
        }
        for (sum, (_, to, count)) in sums.into_iter().zip(registers) {
            let whole = count >= V::COUNT || (all.in_order && to + V::COUNT <= all.y.len());
            let y = all.y.as_mut_ptr().add(to);
            if all.jump == 1 && whole {
                sum.store(y);
                continue;
            }
            let mut lanes = [V::Of::default(); WIDEST];
            sum.store(lanes.as_mut_ptr());
            for (lane, &sum) in lanes.iter().enumerate().take(V::COUNT.min(count)) {
                *y.add(lane * all.jump) = sum;
            }
        }
    }
}

/// Lanes of the widest register.
const WIDEST: usize = 16;

#[inline(always)]
unsafe fn correlate<V: Lanes>(all: &mut Correlation<'_, V::Of>) {
    // Nine is a 3 x 3 kernel's number of elements.
    const TOGETHER: usize = 9;
    let mut first = 0;
    while first < all.offsets.len() {
        let together = if all.offsets.len() - first >= TOGETHER { TOGETHER } else { 1 };
        // SAFETY: passed on to the caller.
        unsafe {
            match together {
                TOGETHER => correlate_at::<V, TOGETHER>(all, first),
                _ => correlate_at::<V, 1>(all, first),
            }
        }
        first += together;
    }
}

#[inline(always)]
unsafe fn correlate_at<V: Lanes, const N: usize>(all: &mut Correlation<'_, V::Of>, first: usize) {
    let zero = V::Of::default();
    // SAFETY: the caller says that all elements named by the fields are there.
    unsafe {
        let mut sums = [V::splat(zero); N];
        for row in 0..all.rows {
            let g = all.g.add(row * all.steps.0);
            let x: [_; N] = std::array::from_fn(|k| all.x.add(row * all.steps.1 + all.offsets[first + k]));
            let mut at = 0;
            while at + V::COUNT <= all.len {
                let g = V::load(g.add(at));
                for k in 0..N {
                    sums[k] = sums[k].plus_product(g, V::load(x[k].add(at)));
                }
                at += V::COUNT;
            }
            let left = all.len - at;
            if left > 0 {
                let g = V::load_first(g.add(at), left);
                for k in 0..N {
                    sums[k] = sums[k].plus_product(g, V::load_first(x[k].add(at), left));
                }
            }
        }
        for (sum, totals) in sums.into_iter().zip(all.sums[first * V::COUNT..].chunks_exact_mut(V::COUNT)) {
            let mut lanes = [zero; WIDEST];
            sum.store(lanes.as_mut_ptr());
            totals.iter_mut().zip(lanes).for_each(|(total, lane)| *total = total.plus(lane));
        }
    }
}

#[inline(always)]
unsafe fn transpose_all<V: Lanes>(all: &mut Transpose<'_, V::Of>) {
    let (rows, len) = (all.rows - all.rows % V::COUNT, all.len - all.len % V::COUNT);
    if rows > 0 && len > 0 {
        assert!(all.x.len() >= (rows - 1) * all.x_step + len && all.y.len() >= (len - 1) * all.y_step + rows);
    }
    // Rows are far apart, often by a power of two: a few at a time, and of those as much as the cache holds of `y`.
    const TOGETHER: usize = 64;
    for first in (0..len).step_by(TOGETHER) {
        for row in (0..rows).step_by(V::COUNT) {
            for at in (first..len.min(first + TOGETHER)).step_by(V::COUNT) {
                // SAFETY: the caller says that the instruction set is there; the blocks end where the assertion says.
                unsafe {
                    let x = all.x.as_ptr().add(row * all.x_step + at);
                    V::transpose(x, all.x_step, all.y.as_mut_ptr().add(at * all.y_step + row), all.y_step);
                }
            }
        }
    }
    for at in 0..all.len {
        for row in if at < len { rows } else { 0 }..all.rows {
            all.y[at * all.y_step + row] = all.x[row * all.x_step + at];
        }
    }
}
