//! What sums of products are computed in: `f32` for floats up to 32 bits, `f64`, `i32` for integers up to 32 bits,
//! `i64`, complex numbers, and bools with or and and.

use super::super::gemm::{At, Factor};
use super::super::row::isa::Isa;
use super::super::scratch::{Cells, Memory, Scratch};
use super::cell::{Cell, Flag};
use super::conv::{self, Kernels};
use super::{Operand, Target, split};
use crate::dtype::Kind;
use crate::{Complex64, DType, F8E4M3FN, F8E5M2, Result, bail};
use bytemuck::Pod;
use gemm_common::Parallelism;
use half::{bf16, f16};

/// A type that sums of products are computed in.
pub(super) trait Accumulator: Pod + Send + Sync + Default {
    /// Nanoseconds of one product and sum.
    const COST: f64;

    /// All elements of an operand, exactly.
    fn read<'a>(x: &Operand<'a>, memory: Memory<'a>) -> Result<Cells<'a, Self>>;

    /// Lets `fill` compute all elements of a result, then rounds or wraps them to its type.
    fn write(y: &mut Target<'_>, memory: Memory<'_>, fill: impl FnOnce(&mut [Self]) -> Result<()>) -> Result<()>;

    /// The sum.
    fn plus(self, x: Self) -> Self;

    /// `self + x · y`.
    fn plus_product(self, x: Self, y: Self) -> Self;

    /// Whether zero times it is zero.
    fn is_finite(self) -> bool {
        true
    }

    /// The loops of convolutions.
    fn kernels(_isa: Isa) -> Kernels<Self> {
        conv::portable()
    }

    /// `c = a b`, or `c += a b` when `add`.
    fn multiply(shape: Product, a: Matrix<'_, Self>, b: Matrix<'_, Self>, c: MatrixMut<'_, Self>, add: bool);
}

/// Sizes of a product: `c[m, n] = a[m, k] b[k, n]`.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

/// A matrix to read: element (i, j) is at `i * rows + j * columns`.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a, A> {
    pub cells: &'a [A],
    pub rows: usize,
    pub columns: usize,
}

/// A matrix to write.
pub(super) struct MatrixMut<'a, A> {
    pub cells: &'a mut [A],
    pub rows: usize,
    pub columns: usize,
}

/// Elements that a matrix of these sizes and steps spans.
fn span(rows: usize, columns: usize, row_step: usize, column_step: usize) -> usize {
    if rows == 0 || columns == 0 { 0 } else { (rows - 1) * row_step + (columns - 1) * column_step + 1 }
}

/// Runs `$body` with `$A` standing for the accumulator of operands and result of these dtypes.
macro_rules! with_accumulator {
    ($operand:expr, $result:expr, $A:ident => $body:expr) => {{
        macro_rules! arm {
            ($t:ty) => {{
                type $A = $t;
                $body
            }};
        }
        use $crate::dtype::Kind as K;
        let (operand, result): ($crate::DType, $crate::DType) = ($operand, $result);
        let wide = operand.bits() == 64 || result.bits() == 64;
        match result.kind() {
            K::Bool => arm!($crate::runtime::host::kernels::cell::Flag),
            K::Complex => arm!($crate::Complex64),
            K::Float if wide => arm!(f64),
            K::Float => arm!(f32),
            K::Signed | K::Unsigned if wide => arm!(i64),
            K::Signed | K::Unsigned => arm!(i32),
        }
    }};
}
pub(super) use with_accumulator;

/// Elements converted by `f`.
fn converted<'m, T: Pod + Send + Sync, A: Accumulator>(
    x: &Operand<'_>,
    memory: Memory<'m>,
    f: impl Fn(T) -> A + Sync,
) -> Result<Scratch<'m, A>> {
    let x = x.cells::<T>()?;
    let mut out = memory.filled(x.len(), A::default())?;
    split::parts(&mut out, 1, 1.0, |first, part| {
        for (out, &x) in part.iter_mut().zip(&x[first..]) {
            *out = f(x);
        }
    });
    Ok(out)
}

/// Lets `fill` compute, then stores through `f`.
fn stored<T: Pod + Send + Sync, A: Accumulator>(
    y: &mut Target<'_>,
    memory: Memory<'_>,
    fill: impl FnOnce(&mut [A]) -> Result<()>,
    f: impl Fn(A) -> T + Sync,
) -> Result<()> {
    let y = y.cells::<T>()?;
    let mut wide = memory.filled(y.len(), A::default())?;
    fill(&mut wide)?;
    split::parts(y, 1, 1.0, |first, part| {
        for (y, &x) in part.iter_mut().zip(&wide[first..]) {
            *y = f(x);
        }
    });
    Ok(())
}

/// The accumulator of one dtype, which nothing else converts to.
macro_rules! itself {
    ($t:ty) => {
        fn read<'a>(x: &Operand<'a>, _: Memory<'a>) -> Result<Cells<'a, Self>> {
            x.cells().map(Cells::There)
        }
        fn write(y: &mut Target<'_>, _: Memory<'_>, fill: impl FnOnce(&mut [Self]) -> Result<()>) -> Result<()> {
            fill(y.cells()?)
        }
    };
}

/// Products by the `gemm` crate.
macro_rules! by_gemm {
    () => {
        fn multiply(shape: Product, a: Matrix<'_, Self>, b: Matrix<'_, Self>, c: MatrixMut<'_, Self>, add: bool) {
            gemm_product(shape, a, b, c, add);
        }
    };
}

macro_rules! floats {
    ($($t:ident, $dtype:ident, $cost:literal, $kernels:path, also $($other:ident => $cell:ty),*;)*) => {$(
        impl Accumulator for $t {
            const COST: f64 = $cost;
            fn read<'a>(x: &Operand<'a>, memory: Memory<'a>) -> Result<Cells<'a, Self>> {
                Ok(match x.ty.dtype {
                    DType::$dtype => Cells::There(x.cells()?),
                    $(DType::$other => Cells::Brought(converted(x, memory, |v: $cell| v.widen().into())?),)*
                    other => bail!(Internal, "product", "does not multiply {other} in {}", DType::$dtype),
                })
            }
            fn write(
                y: &mut Target<'_>,
                memory: Memory<'_>,
                fill: impl FnOnce(&mut [Self]) -> Result<()>,
            ) -> Result<()> {
                match y.ty.dtype {
                    DType::$dtype => fill(y.cells()?),
                    $(DType::$other => stored(y, memory, fill, |v: Self| <$cell>::narrow(v as <$cell as Cell>::Wide)),)*
                    other => bail!(Internal, "product", "does not store {} as {other}", DType::$dtype),
                }
            }
            fn plus(self, x: Self) -> Self {
                self + x
            }
            fn plus_product(self, x: Self, y: Self) -> Self {
                self + x * y
            }
            fn is_finite(self) -> bool {
                $t::is_finite(self)
            }
            fn kernels(isa: Isa) -> Kernels<Self> {
                $kernels(isa)
            }
            by_gemm!();
        }
    )*};
}
floats! {
    f32, F32, 0.05, conv::of_f32, also F16 => f16, BF16 => bf16, F8E4M3FN => F8E4M3FN, F8E5M2 => F8E5M2;
    f64, F64, 0.1, conv::of_f64, also F32 => f32, F16 => f16, BF16 => bf16, F8E4M3FN => F8E4M3FN, F8E5M2 => F8E5M2;
}

impl Accumulator for Complex64 {
    const COST: f64 = 0.2;
    itself!(Complex64);
    fn is_finite(self) -> bool {
        Complex64::is_finite(self)
    }
    fn plus(self, x: Self) -> Self {
        self + x
    }
    fn plus_product(self, x: Self, y: Self) -> Self {
        self + x * y
    }
    by_gemm!();
}

impl Accumulator for Flag {
    const COST: f64 = 1.0;
    itself!(Flag);
    fn plus(self, x: Self) -> Self {
        Self::new(self.get() | x.get())
    }
    fn plus_product(self, x: Self, y: Self) -> Self {
        Self::new(self.get() | (x.get() & y.get()))
    }
    fn multiply(shape: Product, a: Matrix<'_, Self>, b: Matrix<'_, Self>, c: MatrixMut<'_, Self>, add: bool) {
        plain_product(shape, a, b, c, add);
    }
}

macro_rules! integers {
    ($($t:ident, $dtype:ident, $cost:literal, also $($other:ident => $cell:ident),*;)*) => {$(
        impl Accumulator for $t {
            const COST: f64 = $cost;
            fn read<'a>(x: &Operand<'a>, memory: Memory<'a>) -> Result<Cells<'a, Self>> {
                Ok(match x.ty.dtype {
                    DType::$dtype => Cells::There(x.cells()?),
                    DType::Bool => Cells::Brought(converted(x, memory, |v: Flag| v.get() as Self)?),
                    $(DType::$other => Cells::Brought(converted(x, memory, |v: $cell| v as Self)?),)*
                    other => bail!(Internal, "product", "does not multiply {other} in {}", DType::$dtype),
                })
            }
            fn write(
                y: &mut Target<'_>,
                memory: Memory<'_>,
                fill: impl FnOnce(&mut [Self]) -> Result<()>,
            ) -> Result<()> {
                match y.ty.dtype {
                    DType::$dtype => fill(y.cells()?),
                    $(DType::$other => stored(y, memory, fill, |v: Self| v as $cell),)*
                    other => bail!(Internal, "product", "does not store {} as {other}", DType::$dtype),
                }
            }
            fn plus(self, x: Self) -> Self {
                self.wrapping_add(x)
            }
            fn plus_product(self, x: Self, y: Self) -> Self {
                self.wrapping_add(x.wrapping_mul(y))
            }
            fn multiply(shape: Product, a: Matrix<'_, Self>, b: Matrix<'_, Self>, c: MatrixMut<'_, Self>, add: bool) {
                plain_product(shape, a, b, c, add);
            }
        }
    )*};
}
// A sum that wraps in the accumulator, cut to fewer bits, is the sum that wraps in fewer bits.
integers! {
    i32, I32, 0.5, also U8 => u8, U16 => u16, U32 => u32, I8 => i8, I16 => i16;
    i64, I64, 1.0, also U8 => u8, U16 => u16, U32 => u32, U64 => u64, I8 => i8, I16 => i16, I32 => i32;
}

fn plain_product<A: Accumulator>(
    Product { m, n, k }: Product,
    a: Matrix<'_, A>,
    b: Matrix<'_, A>,
    c: MatrixMut<'_, A>,
    add: bool,
) {
    for i in 0..m {
        if !add {
            (0..n).for_each(|j| c.cells[i * c.rows + j * c.columns] = A::default());
        }
        for p in 0..k {
            let x = a.cells[i * a.rows + p * a.columns];
            if c.columns == 1 && b.columns == 1 {
                let row = &mut c.cells[i * c.rows..][..n];
                for (sum, &y) in row.iter_mut().zip(&b.cells[p * b.rows..][..n]) {
                    *sum = sum.plus_product(x, y);
                }
                continue;
            }
            for j in 0..n {
                let sum = &mut c.cells[i * c.rows + j * c.columns];
                *sum = sum.plus_product(x, b.cells[p * b.rows + j * b.columns]);
            }
        }
    }
}

fn gemm_product<A: Accumulator + Factor>(
    Product { m, n, k }: Product,
    a: Matrix<'_, A>,
    b: Matrix<'_, A>,
    c: MatrixMut<'_, A>,
    add: bool,
) {
    if m == 0 || n == 0 {
        return;
    }
    assert!(a.cells.len() >= span(m, k, a.rows, a.columns), "lhs is too short");
    assert!(b.cells.len() >= span(k, n, b.rows, b.columns), "rhs is too short");
    assert!(c.cells.len() >= span(m, n, c.rows, c.columns), "result is too short");
    assert!((m == 1 || c.rows >= n * c.columns) || (n == 1 || c.columns >= m * c.rows), "result overlaps itself");
    // SAFETY: the three asserts above say that every element (i, j) of the three matrices lies in its slice; steps are
    // not negative; `c` is borrowed mutably, so it does not overlap the others, and its elements are distinct by the
    // last assert.
    unsafe {
        A::gemm(
            (m, n, k),
            At { start: c.cells.as_mut_ptr(), row: c.rows, col: c.columns },
            add,
            At { start: a.cells.as_ptr(), row: a.rows, col: a.columns },
            At { start: b.cells.as_ptr(), row: b.rows, col: b.columns },
            Parallelism::None,
        );
    }
}

/// Whether products of these operands with this result are known.
pub(super) fn known(operand: DType, result: DType) -> bool {
    let (from, to) = (operand.kind(), result.kind());
    match to {
        Kind::Signed | Kind::Unsigned => matches!(from, Kind::Bool | Kind::Signed | Kind::Unsigned),
        _ => from == to,
    }
}
