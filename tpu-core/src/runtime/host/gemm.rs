//! The one door to the `gemm` crates.
//!
//! `gemm` itself is a dispatcher that brings kernels for complex numbers along, a sixth of a cold build. Its parts for
//! f32 and f64 are used directly, and a complex product is four real ones over the parts, which `gemm` reads in place by
//! their strides.

use crate::Complex64;
use gemm_common::Parallelism;

/// A matrix in memory: address of the first element, steps from row to row and from column to column in elements.
#[derive(Clone, Copy)]
pub(crate) struct At<P> {
    pub start: P,
    pub row: usize,
    pub col: usize,
}

/// An element type that products are known of.
pub(crate) trait Factor: Copy + 'static {
    /// dst = lhs · rhs, or dst += lhs · rhs with `add`, of sizes (m, k) and (k, n).
    ///
    /// # Safety
    ///
    /// Every element of the three matrices may be read, those of `dst` written; they are distinct and no operand's.
    unsafe fn gemm(
        size: (usize, usize, usize),
        dst: At<*mut Self>,
        add: bool,
        lhs: At<*const Self>,
        rhs: At<*const Self>,
        threads: Parallelism,
    );
}

macro_rules! real {
    ($($t:ident: $kernels:ident),*) => {$(
        impl Factor for $t {
            unsafe fn gemm(
                size: (usize, usize, usize),
                dst: At<*mut Self>,
                add: bool,
                lhs: At<*const Self>,
                rhs: At<*const Self>,
                threads: Parallelism,
            ) {
                // SAFETY: passed on to the caller.
                unsafe { scaled(size, dst, add, lhs, rhs, 1.0, threads, $kernels::gemm::$t::get_gemm_fn()) }
            }
        }
    )*};
}
real!(f32: gemm_f32, f64: gemm_f64);

impl Factor for Complex64 {
    unsafe fn gemm(
        size: (usize, usize, usize),
        dst: At<*mut Self>,
        add: bool,
        lhs: At<*const Self>,
        rhs: At<*const Self>,
        threads: Parallelism,
    ) {
        let [re, im] = [0, 1];
        // A part of every element: they lie one after the other, so steps are twice as long.
        let part = |x: At<*const Self>, part: usize| At {
            start: x.start.cast::<f32>().wrapping_add(part),
            row: 2 * x.row,
            col: 2 * x.col,
        };
        let out =
            |part: usize| At { start: dst.start.cast::<f32>().wrapping_add(part), row: 2 * dst.row, col: 2 * dst.col };
        let product = |to: usize, add: bool, a: usize, b: usize, factor: f32| {
            let kernel = gemm_f32::gemm::f32::get_gemm_fn();
            // SAFETY: a complex number is its two parts in order; the rest is passed on to the caller.
            unsafe { scaled(size, out(to), add, part(lhs, a), part(rhs, b), factor, threads, kernel) }
        };
        product(re, add, re, re, 1.0);
        product(re, true, im, im, -1.0);
        product(im, add, re, im, 1.0);
        product(im, true, im, re, 1.0);
    }
}

/// A kernel of `gemm`: sizes, result (column step, row step), whether to add, operands, factors of the old result and of
/// the product, conjugations, threads.
type Kernel<T> = unsafe fn(
    usize,
    usize,
    usize,
    *mut T,
    isize,
    isize,
    bool,
    *const T,
    isize,
    isize,
    *const T,
    isize,
    isize,
    T,
    T,
    bool,
    bool,
    bool,
    Parallelism,
);

/// dst = factor · lhs · rhs, added to what is there with `add`.
#[expect(clippy::too_many_arguments, reason = "what a product is")]
unsafe fn scaled<T: From<f32>>(
    (m, n, k): (usize, usize, usize),
    dst: At<*mut T>,
    add: bool,
    lhs: At<*const T>,
    rhs: At<*const T>,
    factor: T,
    threads: Parallelism,
    kernel: Kernel<T>,
) {
    let [dc, dr, lc, lr, rc, rr] = [dst.col, dst.row, lhs.col, lhs.row, rhs.col, rhs.row].map(|step| step as isize);
    let one = T::from(1.0);
    // SAFETY: passed on to the caller. The kernels want columns of the result far apart and rows close: of a result that
    // lies the other way they get the transpose, which is the product of the transposes in turn.
    unsafe {
        if dc < dr {
            kernel(
                n, m, k, dst.start, dr, dc, add, rhs.start, rr, rc, lhs.start, lr, lc, one, factor, false, false,
                false, threads,
            );
        } else {
            kernel(
                m, n, k, dst.start, dc, dr, add, lhs.start, lc, lr, rhs.start, rc, rr, one, factor, false, false,
                false, threads,
            );
        }
    }
}
