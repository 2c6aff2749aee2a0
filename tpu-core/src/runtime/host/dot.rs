//! Matrix products by strides: of 16-bit floats by [`panels`], of f32 by [`blocked`], or [`skinny`] where an operand has few
//! rows, of others through the `gemm` crate. That one also has f32 where it has kernels that we have not: AVX-512 and NEON.
//!
//! Operands are read where they are, transposed or not; batches run in parallel. Rows and columns are split among threads and
//! never the sum, so results do not depend on the number of threads.

use super::blocked::{self, Blocked, Right};
use super::gemm::{At, Factor};
use super::panels::{self, Panels};
use super::row::isa::Isa;
use super::skinny::{self, FEW, Skinny};
use crate::Complex64;
use crate::DType;
use gemm_common::Parallelism;
use rayon::prelude::*;
use smallvec::SmallVec;

/// One operand: byte offset in its buffer and strides in elements.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    pub base: u32,
    pub offset: usize,
    pub row: usize,
    pub col: usize,
    /// Per batch axis.
    pub batch: SmallVec<[usize; 4]>,
}

/// A batched product `[batch, m, k] × [batch, k, n]` into a dense result.
#[derive(Clone, Debug)]
pub(crate) struct Dot {
    /// The dtype of the operands.
    pub factors: DType,
    /// The dtype of the result: that of the operands, or f32 of 16-bit floats.
    pub result: DType,
    pub batch: SmallVec<[usize; 4]>,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub lhs: Matrix,
    pub rhs: Matrix,
    pub out_base: u32,
    pub out_offset: usize,
    pub isa: Isa,
    /// Its number among the products of a loop's body whose right operand is laid in panels before the loop.
    pub laid: Option<usize>,
}

impl Dot {
    /// Products in the batch.
    fn count(&self) -> usize {
        self.batch.iter().product()
    }

    /// Multiplications and additions.
    pub fn flops(&self) -> f64 {
        2.0 * self.count() as f64 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Whether it pays to lay the right operand in panels if it is that of many products: each has few rows.
    pub fn may_be_laid(&self) -> bool {
        const MOST: usize = 512;
        let blocked = own(self.factors) && self.m.min(self.n) > FEW;
        blocked && self.count() == 1 && self.m <= MOST && self.k > 0
    }

    /// Numbers of the right operand laid in panels.
    pub fn numbers_laid(&self) -> usize {
        blocked::laid(self.k, self.n)
    }

    /// Lays the right operand in panels.
    ///
    /// # Safety
    ///
    /// The operand is behind `base`, and [`numbers_laid`](Self::numbers_laid) numbers may be written to.
    pub unsafe fn lay(&self, base: *const u8, to: *mut f32, parallel: bool) {
        let from = base.wrapping_add(self.rhs.offset).cast();
        // SAFETY: passed on to the caller.
        unsafe { blocked::lay((self.k, self.n), from, (self.rhs.row, self.rhs.col), to, Isa::available(), parallel) };
    }
}

/// Whether products of more than a few rows are ours: the best of this machine whatever level is asked for, so that bits are
/// the same.
pub(crate) fn own(factors: DType) -> bool {
    factors == DType::F32 && Isa::available() == Isa::Avx2
}

/// Addresses that tasks share.
#[derive(Clone, Copy)]
struct Shared(*mut u8, *const u8, *const u8, Option<*const f32>);
// SAFETY: tasks write disjoint products and operands are only read.
unsafe impl Sync for Shared {}

/// Runs a product. With `parallel`, in the current thread pool. The right operand may be there `laid` in panels too.
///
/// # Safety
///
/// The bases are good for what the strides and sizes of `dot` reach; the result overlaps no operand.
pub(crate) unsafe fn run(dot: &Dot, bases: &[*mut u8], laid: Option<*const f32>, parallel: bool) {
    let shared = Shared(
        bases[dot.out_base as usize].wrapping_add(dot.out_offset),
        bases[dot.lhs.base as usize].wrapping_add(dot.lhs.offset),
        bases[dot.rhs.base as usize].wrapping_add(dot.rhs.offset),
        laid,
    );
    let count = dot.count();
    let threads = if parallel { rayon::current_num_threads() } else { 1 };
    let one = |index: usize, inner: bool| {
        let shared = &shared;
        // SAFETY: passed on to the caller; products of different indices are disjoint.
        unsafe {
            match dot.factors {
                DType::BF16 | DType::F16 => halves(dot, shared, index, if inner { threads } else { 1 }),
                DType::F32 => match skinny(dot, shared, index) {
                    Some(few) => by_rows(dot, &few, inner),
                    None if own(DType::F32) && dot.k > 0 => {
                        by_blocks(dot, shared, index, if inner { threads } else { 1 })
                    }
                    None => product::<f32>(dot, shared, index, inner),
                },
                DType::F64 => product::<f64>(dot, shared, index, inner),
                _ => product::<Complex64>(dot, shared, index, inner),
            }
        }
    };
    if threads == 1 || count < threads {
        (0..count).for_each(|index| one(index, threads > 1));
        return;
    }
    let parts = (threads * 4).min(count);
    (0..parts).into_par_iter().for_each(|part| {
        (count * part / parts..count * (part + 1) / parts).for_each(|index| one(index, false));
    });
}

/// Elements from the start of the operands to the matrices of a product.
fn skip(dot: &Dot, index: usize) -> (usize, usize) {
    let (mut lhs, mut rhs, mut rest) = (0, 0, index);
    for axis in (0..dot.batch.len()).rev() {
        let at = rest % dot.batch[axis];
        rest /= dot.batch[axis];
        lhs += at * dot.lhs.batch[axis];
        rhs += at * dot.rhs.batch[axis];
    }
    (lhs, rhs)
}

/// The product as one with few rows, if it is.
fn skinny(dot: &Dot, shared: &Shared, index: usize) -> Option<Skinny> {
    let (m, n, depth) = (dot.m, dot.n, dot.k);
    let (few, many) = (m.min(n), m.max(n));
    if few > FEW || depth == 0 {
        return None;
    }
    let (lhs, rhs) = skip(dot, index);
    let y = shared.0.cast::<f32>().wrapping_add(index * m * n);
    let a = (shared.1.cast::<f32>().wrapping_add(lhs), dot.lhs.row, dot.lhs.col);
    let b = (shared.2.cast::<f32>().wrapping_add(rhs), dot.rhs.col, dot.rhs.row);
    let (((x, x_row, x_depth), (w, w_row, w_depth)), (y_few, y_many)) =
        if m <= n { ((a, b), (n, 1)) } else { ((b, a), (1, n)) };
    let known = few == 1 || w_depth == 1 || w_row == 1;
    known.then_some(Skinny { few, many, depth, x, x_row, x_depth, w, w_row, w_depth, y, y_few, y_many })
}

/// Runs a product with few rows; in parallel by rows of the large operand.
unsafe fn by_rows(dot: &Dot, of: &Skinny, parallel: bool) {
    let (kernel, whole) = (skinny::kernel(dot.isa), Whole(*of));
    let parts = if parallel { (rayon::current_num_threads() * 2).min(of.many.div_ceil(64)) } else { 1 };
    let part = |part: usize| {
        let of = whole.get();
        let (first, end) = (of.many * part / parts, of.many * (part + 1) / parts);
        // SAFETY: passed on to the caller.
        unsafe { kernel(&of.part(first, end - first)) };
    };
    match parts {
        1 => part(0),
        _ => (0..parts).into_par_iter().for_each(part),
    }
}

/// A product whose parts tasks share.
struct Whole(Skinny);
// SAFETY: parts write different elements, and operands are only read.
unsafe impl Sync for Whole {}

impl Whole {
    fn get(&self) -> &Skinny {
        &self.0
    }
}

/// A product of f32, on so many threads.
unsafe fn by_blocks(dot: &Dot, shared: &Shared, index: usize, threads: usize) {
    let (lhs, rhs) = skip(dot, index);
    let matrix =
        || Right::Matrix { from: shared.2.cast::<f32>().wrapping_add(rhs), depth: dot.rhs.row, column: dot.rhs.col };
    let of = Blocked {
        rows: dot.m,
        columns: dot.n,
        depth: dot.k,
        a: shared.1.cast::<f32>().wrapping_add(lhs),
        a_row: dot.lhs.row,
        a_depth: dot.lhs.col,
        b: shared.3.map_or_else(matrix, Right::Laid),
        y: shared.0.cast::<f32>().wrapping_add(index * dot.m * dot.n),
        y_row: dot.n,
    };
    // SAFETY: passed on to the caller.
    unsafe { blocked::run(&of, Isa::available(), threads) };
}

/// A product of 16-bit floats, on so many threads.
unsafe fn halves(dot: &Dot, shared: &Shared, index: usize, threads: usize) {
    let (lhs, rhs) = skip(dot, index);
    let bytes = |dtype: DType| dtype.bits() as usize / 8;
    let (factor, result) = (bytes(dot.factors), bytes(dot.result));
    let of = Panels {
        rows: dot.m,
        columns: dot.n,
        depth: dot.k,
        factors: dot.factors,
        a: shared.1.wrapping_add(lhs * factor),
        a_row: dot.lhs.row,
        a_depth: dot.lhs.col,
        b: shared.2.wrapping_add(rhs * factor),
        b_column: dot.rhs.col,
        b_depth: dot.rhs.row,
        result: dot.result,
        y: shared.0.wrapping_add(index * dot.m * dot.n * result),
        y_row: dot.n,
        y_column: 1,
    };
    // SAFETY: passed on to the caller.
    unsafe { panels::run(&of, dot.isa, threads) };
}

unsafe fn product<T: Factor + Default>(dot: &Dot, shared: &Shared, index: usize, parallel: bool) {
    let (lhs, rhs) = skip(dot, index);
    let (m, n, k) = (dot.m, dot.n, dot.k);
    let threads = if parallel { Parallelism::Rayon(0) } else { Parallelism::None };
    // SAFETY: passed on to the caller.
    unsafe {
        let out = shared.0.cast::<T>().wrapping_add(index * m * n);
        if k == 0 {
            (0..m * n).for_each(|i| out.add(i).write(T::default()));
            return;
        }
        let lhs = At { start: shared.1.cast::<T>().wrapping_add(lhs), row: dot.lhs.row, col: dot.lhs.col };
        let rhs = At { start: shared.2.cast::<T>().wrapping_add(rhs), row: dot.rhs.row, col: dot.rhs.col };
        T::gemm((m, n, k), At { start: out, row: n, col: 1 }, false, lhs, rhs, threads);
    }
}
