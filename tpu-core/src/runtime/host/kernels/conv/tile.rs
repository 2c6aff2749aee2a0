//! The loops in which convolutions spend their time, per instruction set.

use super::super::super::row::isa::Isa;
use super::super::accumulate::Accumulator;
use super::lanes::{Lanes, Plain};

/// Rows of a tile: with two registers of lanes each, as many sums as sixteen registers hold beside their operands.
pub(super) const ROWS: usize = 6;
/// Rows of a small tile: as few as keep the processor busy. Tiles of six and four leave out no even number of rows.
pub(super) const FEW_ROWS: usize = 4;

/// One level of the sums of a [`Tile`]: terms, and the distances from one to the next in the two operands.
#[derive(Clone, Copy, Default)]
pub(super) struct Level {
    pub count: usize,
    pub a: usize,
    pub b: usize,
}

/// `c[i][j] = Σ a[i][…] · b[… + j]`, or that added to what is there, for [`ROWS`] or [`FEW_ROWS`] rows and as many columns as
/// [`Kernels::width`] says, summed over three nested levels.
pub(super) struct Tile<A> {
    /// Where the rows start: each element of one serves all columns.
    pub a: [*const A; ROWS],
    pub b: *const A,
    pub levels: [Level; 3],
    pub c: *mut A,
    /// Distance of the rows of `c`.
    pub step: usize,
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
}

/// `sums[k] += Σ g[r, i] · x[offsets[k] + …]` over `rows` rows of `len` elements.
pub(super) struct Products<'a, A> {
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

/// Output positions that lie one after the other, part of a panel of patches.
pub(super) struct Run {
    /// The panel's lane of the first.
    pub lane: usize,
    pub len: usize,
    /// Where the first meets the first element of its frame, and where its result is in the output of the images.
    pub from: usize,
    pub to: usize,
    pub image: usize,
}

/// Writes the lines of a panel: what its positions meet under each kernel element of each feature.
pub(super) struct Pack<'a, A> {
    /// One line more than is written.
    pub panel: &'a mut [A],
    pub x: &'a [A],
    pub start: usize,
    pub runs: &'a [Run],
    pub offsets: &'a [usize],
    pub feature_step: usize,
}

/// The loops of one instruction set.
///
/// # Safety
///
/// The processor has the instruction set, and pointers are good for what the fields of the argument say.
pub(in crate::runtime::host::kernels) struct Kernels<A> {
    /// Columns of a tile.
    pub(super) width: usize,
    pub(super) tile: unsafe fn(&Tile<A>),
    pub(super) small_tile: unsafe fn(&Tile<A>),
    pub(super) lines: unsafe fn(&mut Lines<'_, A>),
    pub(super) products: unsafe fn(&mut Products<'_, A>),
    pub(super) transpose: unsafe fn(&mut Transpose<'_, A>),
    pub(super) pack: unsafe fn(&mut Pack<'_, A>),
}

macro_rules! instance {
    ($lanes:ty, $of:ty $(, $features:literal)?) => {{
        $(#[target_feature(enable = $features)])?
        unsafe fn tile(tile: &Tile<$of>) {
            // SAFETY: passed on to the caller.
            unsafe { sum_tile::<$lanes, ROWS>(tile) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn small_tile(tile: &Tile<$of>) {
            // SAFETY: passed on to the caller.
            unsafe { sum_tile::<$lanes, FEW_ROWS>(tile) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn lines(lines: &mut Lines<'_, $of>) {
            // SAFETY: passed on to the caller.
            unsafe { sum_lines::<$lanes>(lines) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn products(products: &mut Products<'_, $of>) {
            // SAFETY: passed on to the caller.
            unsafe { sum_products::<$lanes>(products) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn transpose(transpose: &mut Transpose<'_, $of>) {
            // SAFETY: passed on to the caller.
            unsafe { transpose_all::<$lanes>(transpose) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn pack(pack: &mut Pack<'_, $of>) {
            pack_lines::<$of, { 2 * <$lanes as Lanes>::COUNT }>(pack);
        }
        Kernels { width: 2 * <$lanes as Lanes>::COUNT, tile, small_tile, lines, products, transpose, pack }
    }};
}

/// The portable loops, of any type.
pub(in crate::runtime::host::kernels) fn portable<A: Accumulator>() -> Kernels<A> {
    Kernels {
        width: 2 * Plain::<A>::COUNT,
        tile: sum_tile::<Plain<A>, ROWS>,
        small_tile: sum_tile::<Plain<A>, FEW_ROWS>,
        lines: sum_lines::<Plain<A>>,
        products: sum_products::<Plain<A>>,
        transpose: transpose_all::<Plain<A>>,
        pack: |pack| pack_lines::<A, 8>(pack),
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

#[inline(always)]
unsafe fn sum_tile<V: Lanes, const N: usize>(tile: &Tile<V::Of>) {
    let [outer, middle, inner] = tile.levels;
    // SAFETY: the caller says that all elements named by the fields are there.
    unsafe {
        let mut sums = [[V::splat(V::Of::default()); 2]; N];
        if tile.add {
            for (i, sums) in sums.iter_mut().enumerate() {
                let row = tile.c.add(i * tile.step);
                *sums = [V::load(row), V::load(row.add(V::COUNT))];
            }
        }
        for o in 0..outer.count {
            for m in 0..middle.count {
                let mut a: [_; N] = std::array::from_fn(|i| tile.a[i].add(o * outer.a + m * middle.a));
                let mut b = tile.b.add(o * outer.b + m * middle.b);
                for _ in 0..inner.count {
                    let columns = [V::load(b), V::load(b.add(V::COUNT))];
                    for i in 0..N {
                        let x = V::splat(*a[i]);
                        sums[i] = [sums[i][0].plus_product(x, columns[0]), sums[i][1].plus_product(x, columns[1])];
                        a[i] = a[i].add(inner.a);
                    }
                    b = b.add(inner.b);
                }
            }
        }
        for (i, sums) in sums.into_iter().enumerate() {
            let row = tile.c.add(i * tile.step);
            sums[0].store(row);
            sums[1].store(row.add(V::COUNT));
        }
    }
}

#[inline(always)]
unsafe fn sum_lines<V: Lanes>(all: &mut Lines<'_, V::Of>) {
    let farthest = all.offsets.iter().max().copied().unwrap_or(0) + all.len.next_multiple_of(V::COUNT);
    assert!(
        all.lines
            .iter()
            .all(|&(from, to)| { from + farthest <= all.x.len() && to + (all.len - 1) * all.jump < all.y.len() })
    );
    for &(from, to) in all.lines {
        let mut at = 0;
        // SAFETY: by the assertion all elements are there, those behind the end of a line too; the caller says that the
        // instruction set is.
        unsafe {
            let (x, y) = (all.x.as_ptr().add(from), all.y.as_mut_ptr().add(to));
            while at + 4 * V::COUNT <= all.len {
                let sums = sum_at::<V, 4>(all, x.add(at));
                store_sums(sums, y.add(at * all.jump), 4 * V::COUNT, all.jump);
                at += 4 * V::COUNT;
            }
            while at + 2 * V::COUNT <= all.len {
                let sums = sum_at::<V, 2>(all, x.add(at));
                store_sums(sums, y.add(at * all.jump), 2 * V::COUNT, all.jump);
                at += 2 * V::COUNT;
            }
            while at < all.len {
                let sums = sum_at::<V, 1>(all, x.add(at));
                store_sums(sums, y.add(at * all.jump), V::COUNT.min(all.len - at), all.jump);
                at += V::COUNT;
            }
        }
    }
}

/// The sums at the elements from `x` on.
#[inline(always)]
unsafe fn sum_at<V: Lanes, const N: usize>(all: &Lines<'_, V::Of>, x: *const V::Of) -> [V; N] {
    // SAFETY: passed on to the caller.
    unsafe {
        let mut sums = [V::splat(V::Of::default()); N];
        for (&offset, &weight) in all.offsets.iter().zip(all.weights) {
            let (x, weight) = (x.add(offset), V::splat(weight));
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = sum.plus_product(weight, V::load(x.add(i * V::COUNT)));
            }
        }
        sums
    }
}

/// Writes the first `count` elements, `jump` apart.
#[inline(always)]
unsafe fn store_sums<V: Lanes, const N: usize>(sums: [V; N], y: *mut V::Of, count: usize, jump: usize) {
    for (i, sum) in sums.into_iter().enumerate() {
        let count = V::COUNT.min(count - i * V::COUNT);
        // SAFETY: no register has more lanes than `all`; the rest is passed on to the caller.
        unsafe {
            let y = y.add(i * V::COUNT * jump);
            if jump == 1 && count == V::COUNT {
                sum.store(y);
                continue;
            }
            let mut all = [V::Of::default(); WIDEST];
            sum.store(all.as_mut_ptr());
            for (lane, &sum) in all.iter().enumerate().take(count) {
                *y.add(lane * jump) = sum;
            }
        }
    }
}

/// Lanes of the widest register.
const WIDEST: usize = 16;

#[inline(always)]
unsafe fn sum_products<V: Lanes>(products: &mut Products<'_, V::Of>) {
    // Nine is a 3 x 3 kernel's number of elements.
    const TOGETHER: usize = 9;
    let mut first = 0;
    while first < products.offsets.len() {
        let together = if products.offsets.len() - first >= TOGETHER { TOGETHER } else { 1 };
        // SAFETY: passed on to the caller.
        unsafe {
            match together {
                TOGETHER => sum_products_at::<V, TOGETHER>(products, first),
                _ => sum_products_at::<V, 1>(products, first),
            }
        }
        first += together;
    }
}

#[inline(always)]
unsafe fn sum_products_at<V: Lanes, const N: usize>(products: &mut Products<'_, V::Of>, first: usize) {
    let zero = V::Of::default();
    // SAFETY: the caller says that all elements named by the fields are there.
    unsafe {
        let mut sums = [V::splat(zero); N];
        for row in 0..products.rows {
            let g = products.g.add(row * products.steps.0);
            let x: [_; N] =
                std::array::from_fn(|k| products.x.add(row * products.steps.1 + products.offsets[first + k]));
            let mut at = 0;
            while at + V::COUNT <= products.len {
                let g = V::load(g.add(at));
                for k in 0..N {
                    sums[k] = sums[k].plus_product(g, V::load(x[k].add(at)));
                }
                at += V::COUNT;
            }
            let left = products.len - at;
            if left > 0 {
                let g = V::load_first(g.add(at), left);
                for k in 0..N {
                    sums[k] = sums[k].plus_product(g, V::load_first(x[k].add(at), left));
                }
            }
        }
        for (k, sum) in sums.into_iter().enumerate() {
            let mut lanes = [zero; WIDEST];
            sum.store(lanes.as_mut_ptr());
            let mut count = V::COUNT;
            while count > 1 {
                count /= 2;
                for i in 0..count {
                    lanes[i] = lanes[i].plus(lanes[i + count]);
                }
            }
            let total = &mut products.sums[first + k];
            *total = total.plus(lanes[0]);
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

/// Runs are copied in full width where the source has as much, over what the next run or line then overwrites.
#[inline(always)]
fn pack_lines<A: Accumulator, const W: usize>(pack: &mut Pack<'_, A>) {
    let features = (pack.panel.len() / W - 1) / pack.offsets.len();
    let mut line = 0;
    for feature in 0..features {
        for offset in pack.offsets {
            let offset = pack.start + feature * pack.feature_step + offset;
            for run in pack.runs {
                let (from, to) = (run.from + offset, line + run.lane);
                match pack.x.get(from..from + W) {
                    Some(x) => pack.panel[to..to + W].copy_from_slice(x),
                    None => pack.panel[to..to + run.len].copy_from_slice(&pack.x[from..from + run.len]),
                }
            }
            line += W;
        }
    }
}
