//! Ops on the elements at one position of their operands.

use super::cell::{Cell, Flag, with_number, with_ordered};
use super::movement::with_width;
use super::wide::{self, Wide};
use super::{Operand, Target, split};
use crate::ir::{BinaryOp, Comparison, Op, UnaryOp};
use crate::{Complex64, DType, Error, ErrorKind, Result, bail, ensure};
use bytemuck::Pod;

/// The error of an op that does not take a dtype.
pub(super) fn refused(name: &'static str, dtype: DType) -> Error {
    Error::new(ErrorKind::Internal, name, format!("does not take {dtype}"))
}

/// Nanoseconds of one element, a guess good enough for deciding about threads.
fn cost(op: UnaryOp) -> f64 {
    use UnaryOp::*;
    match op {
        Abs | Neg | Sign | Floor | Ceil | RoundNearestEven | RoundNearestAfz | IsFinite | Not | PopulationCount
        | CountLeadingZeros | Real | Imag | Sqrt | Rsqrt => 1.0,
        Exp | Expm1 | Log | Log1p | Logistic | Tanh | Sin | Cos | Tan | Cbrt | Erf => 8.0,
        ErfInv => 100.0,
    }
}

/// A function of one operand.
pub(super) fn unary(op: UnaryOp, x: &Operand<'_>, [y]: &mut [Target<'_>; 1]) -> Result<()> {
    let dtype = x.ty.dtype;
    match op {
        UnaryOp::IsFinite => {
            return with_float(dtype, "is_finite", IsFinite { x, y });
        }
        UnaryOp::Abs if dtype.is_complex() => return part(x, y, |z| f64::from(z.re).hypot(z.im.into()) as f32),
        UnaryOp::Real if dtype.is_complex() => return part(x, y, |z| z.re),
        UnaryOp::Imag if dtype.is_complex() => return part(x, y, |z| z.im),
        _ => {}
    }
    with_number!(dtype, T => {
        let map = <T as Cell>::Wide::unary::<T>(op).ok_or_else(|| refused(op.name(), dtype))?;
        let x = x.cells::<T>()?;
        split::parts(y.cells::<T>()?, 1, cost(op), |first, part| map(&x[first..first + part.len()], part));
    }, return Err(refused(op.name(), dtype)));
    Ok(())
}

/// A real function of complex numbers.
fn part(x: &Operand<'_>, y: &mut Target<'_>, f: impl Fn(Complex64) -> f32 + Sync) -> Result<()> {
    let x = x.cells::<Complex64>()?;
    split::parts(y.cells::<f32>()?, 1, 2.0, |first, part| {
        for (y, &x) in part.iter_mut().zip(&x[first..]) {
            *y = f(x);
        }
    });
    Ok(())
}

/// Something done for one of the real float types.
trait OnFloat {
    fn run<T: Cell<Wide: Into<f64>>>(self) -> Result<()>;
}

/// Does it for the type of `dtype`.
fn with_float(dtype: DType, name: &'static str, what: impl OnFloat) -> Result<()> {
    match dtype {
        DType::F16 => what.run::<half::f16>(),
        DType::BF16 => what.run::<half::bf16>(),
        DType::F32 => what.run::<f32>(),
        DType::F64 => what.run::<f64>(),
        other => Err(refused(name, other)),
    }
}

struct IsFinite<'a, 'b, 'c> {
    x: &'a Operand<'b>,
    y: &'a mut Target<'c>,
}

impl OnFloat for IsFinite<'_, '_, '_> {
    fn run<T: Cell<Wide: Into<f64>>>(self) -> Result<()> {
        let x = self.x.cells::<T>()?;
        split::parts(self.y.cells::<Flag>()?, 1, 1.0, |first, part| {
            for (y, x) in part.iter_mut().zip(&x[first..]) {
                let x: f64 = x.widen().into();
                *y = Flag::new(x.is_finite());
            }
        });
        Ok(())
    }
}

/// A function of two operands.
pub(super) fn binary(op: BinaryOp, x: &Operand<'_>, y: &Operand<'_>, [z]: &mut [Target<'_>; 1]) -> Result<()> {
    let dtype = x.ty.dtype;
    let cost = if matches!(op, BinaryOp::Power | BinaryOp::Atan2 | BinaryOp::Remainder) { 20.0 } else { 1.0 };
    with_number!(dtype, T => {
        let zip = <T as Cell>::Wide::binary::<T>(op).ok_or_else(|| refused(op.name(), dtype))?;
        let (x, y) = (x.cells::<T>()?, y.cells::<T>()?);
        split::parts(z.cells::<T>()?, 1, cost, |first, part| {
            let range = first..first + part.len();
            zip(&x[range.clone()], &y[range], part);
        });
    }, return Err(refused(op.name(), dtype)));
    Ok(())
}

/// A comparison.
pub(super) fn compare(op: Comparison, x: &Operand<'_>, y: &Operand<'_>, [z]: &mut [Target<'_>; 1]) -> Result<()> {
    let dtype = x.ty.dtype;
    if dtype.is_complex() {
        return compare_complex(op, x.cells()?, y.cells()?, z.cells()?);
    }
    with_ordered!(dtype, T => compare_cells::<T>(op, x, y, z), Err(refused("compare", dtype)))
}

fn compare_cells<T: Cell<Wide: PartialOrd>>(
    op: Comparison,
    x: &Operand<'_>,
    y: &Operand<'_>,
    z: &mut Target<'_>,
) -> Result<()> {
    let test = wide::compare::<T>(op);
    let (x, y) = (x.cells::<T>()?, y.cells::<T>()?);
    split::parts(z.cells::<Flag>()?, 1, 1.0, |first, part| {
        let range = first..first + part.len();
        test(&x[range.clone()], &y[range], part);
    });
    Ok(())
}

fn compare_complex(op: Comparison, x: &[Complex64], y: &[Complex64], z: &mut [Flag]) -> Result<()> {
    let wanted = match op {
        Comparison::Eq => true,
        Comparison::Ne => false,
        other => bail!(Internal, "compare", "does not order complex64 by {}", other.name()),
    };
    for ((z, x), y) in z.iter_mut().zip(x).zip(y) {
        *z = Flag::new((x == y) == wanted);
    }
    Ok(())
}

/// The element of `x` for result element `i`; a scalar serves all.
fn at<T: Copy>(x: &[T], i: usize) -> T {
    if x.len() == 1 { x[0] } else { x[i] }
}

/// `on_true` where `predicate`, else `on_false`.
pub(super) fn select(op: &Op, inputs: &[Operand<'_>; 3], [y]: &mut [Target<'_>; 1]) -> Result<()> {
    let [predicate, on_true, on_false] = inputs;
    ensure!(predicate.ty.dtype == DType::Bool, Internal, op.name(), "requires a bool predicate, got {}", predicate.ty);
    let predicate = predicate.cells::<Flag>()?;
    with_width!(y.ty.dtype, T => select_cells::<T>(predicate, on_true.cells()?, on_false.cells()?, y.cells()?));
    Ok(())
}

fn select_cells<T: Pod + Send + Sync>(predicate: &[Flag], on_true: &[T], on_false: &[T], y: &mut [T]) {
    split::parts(y, 1, 0.7, |first, part| {
        if predicate.len() == 1 {
            let chosen = if predicate[0].get() { on_true } else { on_false };
            return part.copy_from_slice(&chosen[first..first + part.len()]);
        }
        let range = first..first + part.len();
        let values = on_true[range.clone()].iter().zip(&on_false[range.clone()]);
        for ((y, p), (&t, &f)) in part.iter_mut().zip(&predicate[range]).zip(values) {
            *y = if p.get() { t } else { f };
        }
    });
}

/// `minimum(maximum(x, low), high)`.
pub(super) fn clamp(inputs: &[Operand<'_>; 3], [y]: &mut [Target<'_>; 1]) -> Result<()> {
    let [low, x, high] = inputs;
    let dtype = x.ty.dtype;
    with_number!(dtype, T => {
        let max = <T as Cell>::Wide::reducer::<T>(crate::ir::Reducer::Max).ok_or_else(|| refused("clamp", dtype))?;
        let min = <T as Cell>::Wide::reducer::<T>(crate::ir::Reducer::Min).ok_or_else(|| refused("clamp", dtype))?;
        let (low, x, high) = (low.cells::<T>()?, x.cells::<T>()?, high.cells::<T>()?);
        split::parts(y.cells::<T>()?, 1, 3.0, |first, part| {
            for (i, y) in part.iter_mut().enumerate() {
                let i = first + i;
                *y = T::narrow((min.apply)((max.apply)(x[i].widen(), at(low, i).widen()), at(high, i).widen()));
            }
        });
    }, return Err(refused("clamp", dtype)));
    Ok(())
}

/// A complex number from its parts.
pub(super) fn complex(re: &Operand<'_>, im: &Operand<'_>, [y]: &mut [Target<'_>; 1]) -> Result<()> {
    let (re, im) = (re.cells::<f32>()?, im.cells::<f32>()?);
    split::parts(y.cells::<Complex64>()?, 1, 1.0, |first, part| {
        for (i, y) in part.iter_mut().enumerate() {
            *y = Complex64::new(re[first + i], im[first + i]);
        }
    });
    Ok(())
}

/// Rounded to fewer exponent and mantissa bits, and back.
pub(super) fn reduce_precision(exponent: u32, mantissa: u32, x: &Operand<'_>, [y]: &mut [Target<'_>; 1]) -> Result<()> {
    macro_rules! arm {
        ($bits:ty, $own_exponent:expr, $own_mantissa:expr) => {{
            let x = x.cells::<$bits>()?;
            split::parts(y.cells::<$bits>()?, 1, 3.0, |first, part| {
                for (y, &x) in part.iter_mut().zip(&x[first..]) {
                    *y = round_bits(x.into(), $own_exponent, $own_mantissa, exponent, mantissa) as $bits;
                }
            });
        }};
    }
    match x.ty.dtype {
        DType::F16 => arm!(u16, 5, 10),
        DType::BF16 => arm!(u16, 8, 7),
        DType::F32 => arm!(u32, 8, 23),
        DType::F64 => arm!(u64, 11, 52),
        other => return Err(refused("reduce_precision", other)),
    }
    Ok(())
}

/// The bits of an IEEE float of `own` widths rounded to `exponent` and `mantissa` bits: mantissa to nearest even; then
/// too large is infinite, below the smallest normal number is zero. NaN stays NaN.
fn round_bits(bits: u64, own_exponent: u32, own_mantissa: u32, exponent: u32, mantissa: u32) -> u64 {
    let width = 1 + own_exponent + own_mantissa;
    let sign = bits & (1 << (width - 1));
    let infinity = ((1u64 << own_exponent) - 1) << own_mantissa;
    let magnitude = bits ^ sign;
    if magnitude > infinity {
        return bits;
    }
    let mut rounded = magnitude;
    if mantissa < own_mantissa {
        let dropped = own_mantissa - mantissa;
        let last = (magnitude >> dropped) & 1;
        rounded = (magnitude + (1 << (dropped - 1)) - 1 + last) & !((1 << dropped) - 1);
    }
    if exponent < own_exponent {
        let (bias, new_bias) = ((1u64 << (own_exponent - 1)) - 1, (1u64 << (exponent - 1)) - 1);
        let field = rounded >> own_mantissa;
        if field > bias + new_bias {
            rounded = infinity;
        } else if field <= bias - new_bias {
            rounded = 0;
        }
    }
    sign | rounded
}
