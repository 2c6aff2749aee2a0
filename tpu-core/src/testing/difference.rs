//! Whether two results of one op are within a bound.

use super::tolerance::Tolerance;
use crate::dtype::convert::{self, cast};
use crate::ir::{FftKind, Op};
use crate::reference::{Array, evaluate_op};
use crate::{Complex64, DType};
use std::sync::Arc;

/// The first element that differs by more than is allowed, in words. `op` and `operands` are what gave the results: sums and products
/// are bounded by their terms. Nothing where results are judged together, by what they satisfy.
pub fn difference(
    allowed: Tolerance,
    operands: &[Array],
    expected: &Array,
    got: &Array,
    op: Option<&Op>,
) -> Option<String> {
    let outside = outside(allowed, operands, expected, got, op);
    outside.first().map(|&i| describe(operands, expected, got, i))
}

/// Every element that differs by more than is allowed, for bounds that hold element by element.
pub(super) fn outside(
    allowed: Tolerance,
    operands: &[Array],
    expected: &Array,
    got: &Array,
    op: Option<&Op>,
) -> Vec<usize> {
    match allowed {
        Tolerance::Several | Tolerance::Backward => Vec::new(),
        Tolerance::Bits => unfit(expected, got, |i| same_bits(expected, got, i)),
        Tolerance::Numbers => unfit(expected, got, |i| steps(expected, got, i) == 0),
        Tolerance::Ulps(ulps) => unfit(expected, got, |i| steps(expected, got, i) <= ulps),
        Tolerance::Sum { terms } => {
            let all = op.and_then(|op| magnitudes(op, operands));
            let zeroed: Vec<Array> = operands.iter().map(without_infinities).collect();
            let finite = op.and_then(|op| magnitudes(op, &zeroed));
            let exact = computed_in(op, expected.dtype());
            unfit(expected, got, |i| match all.as_ref().zip(finite.as_ref()) {
                // An infinite or NaN element reaches every entry of the transform, in which parts depends on the formula.
                Some((all, _)) if matches!(op, Some(Op::Fft { .. })) && !all[i].is_finite() => true,
                // Nothing but zeros: their sum has a sign that no order changes.
                Some((all, _)) if all[i] == 0.0 && starts_from_zero(op) => same_bits(expected, got, i),
                Some((all, finite)) => {
                    within_sum(expected, got, i, (all[i], finite[i]), terms as f64 * exact.unit, &exact)
                }
                None => steps(expected, got, i) == 0,
            })
        }
        Tolerance::Product { factors } => {
            let ranges = op.and_then(|op| product_ranges(op, operands));
            let exact = computed_in(op, expected.dtype());
            unfit(expected, got, |i| {
                let (low, high) = ranges.as_ref().map_or((0.0, f64::INFINITY), |(low, high)| (low[i], high[i]));
                let normal = low >= exact.least && high <= exact.largest;
                !normal || close(expected, got, i, 4.0 * factors as f64 * exact.unit)
            })
        }
        Tolerance::OfRoundedSquare(ulps) => {
            let x = operands.first().map(|x| x.cast_vec::<f64>()).unwrap_or_default();
            unfit(expected, got, |i| {
                let rest = (1.0 - x[i]) * (1.0 + x[i]);
                // A step is two u.
                let lost = if rest > 0.0 && rest < 1.0 { -1.0 / (4.0 * rest * rest.ln()) } else { 0.0 };
                steps(expected, got, i) as f64 <= ulps as f64 + lost.ceil()
            })
        }
        Tolerance::Modulus(units) => unfit(expected, got, |i| {
            !moderate(expected, operands, i) || close(expected, got, i, units * f32::EPSILON as f64 / 2.0)
        }),
    }
}

/// Whether a sum is of zero and its terms. XLA takes a window of one element for the element.
fn starts_from_zero(op: Option<&Op>) -> bool {
    matches!(op, Some(Op::Reduce { .. } | Op::Cumulative { .. }))
}

fn unfit(expected: &Array, got: &Array, fits: impl Fn(usize) -> bool) -> Vec<usize> {
    if expected.bytes() == got.bytes() {
        return Vec::new();
    }
    (0..expected.elements()).filter(|&i| !fits(i)).collect()
}

pub(super) fn describe(operands: &[Array], expected: &Array, got: &Array, i: usize) -> String {
    let show =
        |x: &Array| crate::with_element!(x.dtype(), T => format!("{:?}", <T as convert::Cast>::load(element(x, i))));
    let mut text = format!("element {i} of {} is {}, expected {}", expected.ty(), show(got), show(expected));
    // What an elementwise op was given.
    if !operands.is_empty() && operands.iter().all(|x| x.sizes() == expected.sizes()) {
        let elements: Vec<String> = operands.iter().map(show).collect();
        text.push_str(&format!(", of ({})", elements.join(", ")));
    }
    text
}

/// The bytes of one element.
fn element(x: &Array, i: usize) -> &[u8] {
    let width = x.dtype().bits() as usize / 8;
    &x.bytes()[i * width..][..width]
}

/// The real and the imaginary part of one element, exact but for integers above 2⁵³.
pub(super) fn parts(x: &Array, i: usize) -> [f64; 2] {
    crate::with_element!(x.dtype(), T => {
        let value = <T as convert::Cast>::load(element(x, i));
        let imaginary = if x.dtype().is_complex() { cast::<T, Complex64>(value).im } else { 0.0 };
        [cast(value), imaginary.into()]
    })
}

fn same_bits(expected: &Array, got: &Array, i: usize) -> bool {
    if element(expected, i) == element(got, i) {
        return true;
    }
    let nan = |x: f64, y: f64| x.is_nan() && y.is_nan();
    let same = |x: f64, y: f64| nan(x, y) || x.to_bits() == y.to_bits();
    let (x, y) = (parts(expected, i), parts(got, i));
    expected.dtype().is_differentiable() && same(x[0], y[0]) && same(x[1], y[1])
}

/// How many numbers of the type lie between two results; the largest number and infinity are neighbours, NaN is far from all but NaN.
pub(super) fn steps(expected: &Array, got: &Array, i: usize) -> u64 {
    if !expected.dtype().is_differentiable() {
        return if element(expected, i) == element(got, i) { 0 } else { u64::MAX };
    }
    let (x, y) = (parts(expected, i), parts(got, i));
    let part = |k: usize| match (x[k].is_nan(), y[k].is_nan()) {
        (true, true) => 0,
        (false, false) => place(x[k], expected.dtype()).abs_diff(place(y[k], expected.dtype())),
        _ => u64::MAX,
    };
    part(0).max(part(1))
}

/// The place of a number among those of its type, 0 for both zeros.
fn place(x: f64, dtype: DType) -> i64 {
    let magnitude = match dtype {
        DType::F64 => x.abs().to_bits() as i64,
        DType::F16 => half::f16::from_f64(x.abs()).to_bits().into(),
        DType::BF16 => half::bf16::from_f64(x.abs()).to_bits().into(),
        DType::F8E4M3FN => crate::F8E4M3FN::from_f32(x.abs() as f32).to_bits().into(),
        DType::F8E5M2 => crate::F8E5M2::from_f32(x.abs() as f32).to_bits().into(),
        _ => (x.abs() as f32).to_bits().into(),
    };
    if x.is_sign_negative() { -magnitude } else { magnitude }
}

/// The arithmetic that results of a dtype are computed in.
struct Arithmetic {
    /// Half the distance from 1 to the next number.
    unit: f64,
    least: f64,
    largest: f64,
}

fn computed_in(op: Option<&Op>, dtype: DType) -> Arithmetic {
    // Elements that are updated in place are rounded at each update, as `index_add_` does.
    let in_place = matches!(op, Some(Op::Scatter(_) | Op::SelectAndScatter { .. }));
    let (digits, least, largest) = match dtype {
        DType::F64 => (53, f64::MIN_POSITIVE, f64::MAX),
        DType::F16 if in_place => (11, 2f64.powi(-14), 65504.0),
        DType::BF16 if in_place => (8, f32::MIN_POSITIVE.into(), half::bf16::MAX.to_f64()),
        _ => (24, f32::MIN_POSITIVE.into(), f32::MAX.into()),
    };
    Arithmetic { unit: 2f64.powi(-digits), least, largest }
}

/// The largest finite number of a dtype and the step at `x`.
pub(super) fn grid(dtype: DType, x: f64) -> (f64, f64) {
    let (digits, least, largest) = match dtype {
        DType::F64 => (52, -1074, f64::MAX),
        DType::F16 => (10, -24, 65504.0),
        DType::BF16 => (7, -133, half::bf16::MAX.to_f64()),
        DType::F8E4M3FN => (3, -9, 448.0),
        DType::F8E5M2 => (2, -16, 57344.0),
        _ => (23, -149, f32::MAX.into()),
    };
    let exponent = if x == 0.0 || !x.is_finite() { least } else { x.abs().log2().floor() as i32 - digits };
    // `powi` would take the reciprocal of an overflow.
    (largest, f64::from(exponent.max(least)).exp2())
}

/// Whether a sum may come out as `got`, for an error of `relative` times the total magnitude of its terms; `finite` is that of the finite ones.
fn within_sum(
    expected: &Array,
    got: &Array,
    i: usize,
    (magnitude, finite): (f64, f64),
    relative: f64,
    computed: &Arithmetic,
) -> bool {
    // Finite terms may overflow on the way in one order and not in another.
    if finite.is_nan() || finite > computed.largest / 2.0 {
        return true;
    }
    // An infinite or NaN term decides alone; which parts of a complex product it reaches depends on the formula.
    if !magnitude.is_finite() {
        return expected.dtype().is_complex() || steps(expected, got, i) == 0;
    }
    let factor = if expected.dtype().is_complex() { 2.0 } else { 1.0 };
    let (x, y) = (parts(expected, i), parts(got, i));
    (0..2).all(|k| {
        let (largest, step) = grid(expected.dtype(), x[k]);
        // Products that underflow lose up to the least subnormal number each, which `step` at 0 covers for a thousand of them.
        let lost = 1024.0 * grid(if expected.dtype() == DType::F64 { DType::F64 } else { DType::F32 }, 0.0).1;
        let allowed = factor * relative * magnitude + step + lost;
        if x[k].is_infinite() || y[k].is_infinite() {
            let finite = if x[k].is_infinite() { y[k] } else { x[k] };
            return x[k] == y[k] || finite.abs() + allowed >= largest;
        }
        (x[k] - y[k]).abs() <= allowed
    })
}

/// Whether two results differ by at most `relative` times their modulus and a step.
fn close(expected: &Array, got: &Array, i: usize, relative: f64) -> bool {
    if steps(expected, got, i) <= 1 {
        return true;
    }
    let (x, y) = (parts(expected, i), parts(got, i));
    let modulus = x[0].hypot(x[1]);
    (0..2).all(|k| (x[k] - y[k]).abs() <= relative * modulus + grid(expected.dtype(), modulus).1)
}

/// Whether a complex result and the operands behind it are so far from the ends of the range that no way of computing overflows.
fn moderate(expected: &Array, operands: &[Array], i: usize) -> bool {
    let fits = |x: [f64; 2]| {
        let modulus = x[0].hypot(x[1]);
        modulus.is_finite() && modulus < 1e6 && (modulus > 1e-6 || modulus == 0.0)
    };
    fits(parts(expected, i)) && operands.iter().all(|x| fits(parts(x, i)) && parts(x, i)[0].abs() < 16.0)
}

/// How many operand elements make a result element of a sum or product, at most.
pub fn terms(op: &Op, operands: &[Array], result: &Array) -> usize {
    let sizes = |i: usize| operands[i].sizes();
    match op {
        Op::Reduce { axes, .. } => axes.iter().map(|&axis| sizes(0)[axis]).product(),
        Op::Cumulative { axis, .. } => sizes(0)[*axis],
        Op::ReduceWindow { window, .. } => window.sizes.iter().product(),
        Op::SelectAndScatter { .. } => operands[1].elements(),
        Op::Scatter(_) => operands[2].elements() + 1,
        Op::DotGeneral(dims) => dims.lhs_contract.iter().map(|&axis| sizes(0)[axis]).product::<usize>() + 1,
        Op::Convolution(dims) => operands[1].elements() / sizes(1)[dims.kernel_output_feature].max(1) + 1,
        Op::Fft { lengths, .. } => lengths.iter().product(),
        Op::AllReduce { groups, .. } | Op::ReduceScatter { groups, .. } => {
            groups.groups.first().map_or(1, |group| group.len())
        }
        _ => result.elements().min(1),
    }
}

/// An operand's magnitudes as `f64`.
fn absolute(x: &Array) -> Option<Array> {
    let values: Vec<f64> = (0..x.elements()).map(|i| parts(x, i)).map(|[re, im]| re.hypot(im)).collect();
    Array::new(&x.ty().shape, &values).ok()
}

/// The same elements with zeros in place of infinities and NaNs.
fn without_infinities(x: &Array) -> Array {
    crate::with_element!(x.dtype(), T => {
        let finite = |i: usize| parts(x, i).iter().all(|part| part.is_finite());
        let element = |i: usize| if finite(i) { <T as convert::Cast>::load(element(x, i)) } else { T::default() };
        let elements: Vec<T> = (0..x.elements()).map(element).collect();
        Array::new(&x.ty().shape, &elements).unwrap_or_else(|_| x.clone())
    })
}

/// For each result element the sum of the magnitudes of its terms: the op itself on magnitudes in `f64`.
fn magnitudes(op: &Op, operands: &[Array]) -> Option<Vec<f64>> {
    let mut op = op.clone();
    let replaced = match &mut op {
        Op::DotGeneral(dims) => {
            Arc::make_mut(dims).result = DType::F64;
            vec![absolute(&operands[0])?, absolute(&operands[1])?]
        }
        Op::Convolution(dims) => {
            Arc::make_mut(dims).result = DType::F64;
            vec![absolute(&operands[0])?, absolute(&operands[1])?]
        }
        Op::Scatter(_) => vec![absolute(&operands[0])?, operands[1].clone(), absolute(&operands[2])?],
        // What is selected depends on the signs, what is added does not.
        Op::SelectAndScatter { .. } => {
            let x = Array::new(&operands[0].ty().shape, &operands[0].cast_vec::<f64>()).ok()?;
            vec![x, absolute(&operands[1])?]
        }
        Op::Fft { kind, lengths } => {
            let (kind, lengths) = (*kind, lengths.clone());
            let x = absolute(&operands[0])?.cast_vec::<f64>();
            let batch: usize = operands[0].sizes().iter().rev().skip(lengths.len()).product();
            let each = evaluate_op(&op, operands).ok()?[0].elements() / batch.max(1);
            let factor = match kind {
                FftKind::Fft | FftKind::Rfft => 1.0,
                FftKind::Ifft => 1.0 / lengths.iter().product::<usize>() as f64,
                // Half of the entries are not stored.
                FftKind::Irfft => 2.0 / lengths.iter().product::<usize>() as f64,
            };
            let signals = x.chunks((x.len() / batch.max(1)).max(1));
            let totals = signals.map(|signal| factor * signal.iter().sum::<f64>());
            return Some(totals.flat_map(|total| std::iter::repeat_n(total, each)).collect());
        }
        _ => vec![absolute(&operands[0])?],
    };
    Some(evaluate_op(&op, &replaced).ok()?.remove(0).cast_vec())
}

/// For each result element of a product the products of its factors below one and above one: every order of multiplication stays between.
fn product_ranges(op: &Op, operands: &[Array]) -> Option<(Vec<f64>, Vec<f64>)> {
    let limited = |bound: fn(f64) -> f64| {
        let mut replaced = Vec::new();
        for (i, x) in operands.iter().enumerate() {
            let is_index = matches!(op, Op::Scatter(_)) && i == 1;
            let magnitudes = absolute(x)?;
            let limited: Vec<f64> = magnitudes.cast_vec::<f64>().into_iter().map(bound).collect();
            replaced.push(if is_index { x.clone() } else { Array::new(&x.ty().shape, &limited).ok()? });
        }
        Some(evaluate_op(op, &replaced).ok()?.remove(0).cast_vec::<f64>())
    };
    Some((limited(|x| x.min(1.0))?, limited(|x| x.max(1.0))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Reducer, UnaryOp};
    use smallvec::smallvec;

    fn f32s(values: &[f32]) -> Array {
        Array::new(values.len(), values).unwrap()
    }

    fn differ(allowed: Tolerance, expected: &[f32], got: &[f32]) -> bool {
        difference(allowed, &[], &f32s(expected), &f32s(got), None).is_some()
    }

    #[test]
    fn bits_tell_zeros_apart_but_not_nans() {
        assert!(differ(Tolerance::Bits, &[0.0], &[-0.0]));
        assert!(!differ(Tolerance::Numbers, &[0.0], &[-0.0]));
        assert!(!differ(Tolerance::Bits, &[f32::NAN], &[-f32::NAN]));
        assert!(differ(Tolerance::Numbers, &[f32::NAN], &[1.0]));
        assert!(differ(Tolerance::Numbers, &[1.0], &[1.0 + f32::EPSILON]));
    }

    #[test]
    fn steps_count_numbers_of_the_type() {
        let next = f32::from_bits(1.0f32.to_bits() + 2);
        assert!(differ(Tolerance::Ulps(1), &[1.0], &[next]));
        assert!(!differ(Tolerance::Ulps(2), &[1.0], &[next]));
        assert!(!differ(Tolerance::Ulps(2), &[f32::from_bits(1)], &[-f32::from_bits(1)]));
        assert!(!differ(Tolerance::Ulps(1), &[f32::MAX], &[f32::INFINITY]));
    }

    #[test]
    fn sums_are_bounded_by_their_terms() {
        let x = f32s(&[1e6, 1.0, -1e6]);
        let op = Op::Reduce { kind: Reducer::Sum, axes: smallvec![0] };
        let allowed = Tolerance::Sum { terms: 3 };
        let scalar = |x: f32| Array::scalar(DType::F32, x);
        let judge = |got| difference(allowed, std::slice::from_ref(&x), &scalar(1.0), &scalar(got), Some(&op));
        // 3 · 2⁻²⁴ · 2·10⁶ is 0.358.
        assert!(judge(1.3).is_none());
        assert!(judge(1.4).is_some());
        assert!(judge(f32::NAN).is_some());
    }

    #[test]
    fn products_that_leave_the_range_are_not_judged() {
        let op = Op::Reduce { kind: Reducer::Product, axes: smallvec![0] };
        let allowed = Tolerance::Product { factors: 3 };
        let scalar = |x: f32| Array::scalar(DType::F32, x);
        let judge =
            |x: &[f32], expected, got| difference(allowed, &[f32s(x)], &scalar(expected), &scalar(got), Some(&op));
        assert!(judge(&[1e30, 1e30, 1e-30], 1e30, f32::INFINITY).is_none());
        assert!(judge(&[2.0, 3.0, 4.0], 24.0, 24.001).is_some());
    }

    #[test]
    fn a_wrong_answer_of_each_op_family_is_found() {
        let op = Op::Unary(UnaryOp::Exp);
        let x = f32s(&[1.0, 2.0]);
        let right = evaluate_op(&op, std::slice::from_ref(&x)).unwrap().remove(0);
        let wrong: Vec<f32> = right.cast_vec::<f32>().iter().map(|y| y * 1.000_001).collect();
        let allowed = super::super::tolerance::tolerance(&op, DType::F32, 1);
        assert!(difference(allowed, &[x], &right, &f32s(&wrong), Some(&op)).is_some());
    }
}
