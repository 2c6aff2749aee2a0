//! Factors and solutions judged by what they must satisfy.
//!
//! Two factors of one matrix may be far apart and both as good as arithmetic allows; what is bounded is how far the result is
//! from an exact one of a matrix nearby. With `n` rows and `γ ≈ n u`, element by element:
//!
//! * `|A − L Lᴴ| ≤ γ |L| |Lᴴ|` for the factor (Higham, *Accuracy and Stability of Numerical Algorithms*, theorem 10.3);
//! * `|b − T x| ≤ γ |T| |x|` for the solution of a triangular system by substitution (theorem 8.5);
//! * `|b − T x| ≤ 2 γ |T| |T⁻¹| |b|` for one that is the product of `b` and a computed inverse `X`, of which substitution gives
//!   `|T X − I| ≤ γ |T| |X|` (section 14.2); the other half is the product's own error.
//!
//! Rounding the result to its dtype costs up to two `u` more, computing the difference here in `f64` as much again as a result
//! in `f64` has; a complex product costs `2√2` times a real one. Together `2 (n + 4) u`, three times that for complex numbers.

use super::difference::{grid, parts};
use super::factors;
use crate::DType;
use crate::ir::{Op, TransposeKind};
use crate::reference::Array;
use num_complex::Complex;

pub(super) type Wide = Complex<f64>;

/// One matrix of an array, row-major.
pub(super) struct Matrix {
    pub columns: usize,
    pub elements: Vec<Wide>,
}

impl Matrix {
    pub fn at(&self, row: usize, column: usize) -> Wide {
        self.elements[row * self.columns + column]
    }

    /// Of rows of `columns` elements.
    pub fn from_fn(rows: usize, columns: usize, element: impl Fn(usize, usize) -> Wide) -> Self {
        let elements = (0..rows * columns).map(|at| element(at / columns, at % columns)).collect();
        Self { columns, elements }
    }
}

/// The matrices in an array; none if they are empty.
pub(super) fn matrices(x: &Array) -> Vec<Matrix> {
    let &[.., rows, columns] = x.sizes() else { return Vec::new() };
    pieces(x, rows, columns)
}

/// An array's elements as matrices of this size, one after the other.
pub(super) fn pieces(x: &Array, rows: usize, columns: usize) -> Vec<Matrix> {
    let size = rows * columns;
    if size == 0 {
        return Vec::new();
    }
    let element = |i: usize| {
        let [re, im] = parts(x, i);
        Wide::new(re, im)
    };
    let one = |k: usize| Matrix { columns, elements: (0..size).map(|i| element(k * size + i)).collect() };
    (0..x.elements() / size).map(one).collect()
}

/// The arithmetic of a dtype.
pub(super) struct Bounds {
    /// Half the distance from 1 to the next number.
    pub unit: f64,
    /// Allowed error of a sum, relative to its terms' magnitudes.
    pub relative: f64,
    /// What a stored number may lose where it is subnormal.
    pub lost: f64,
    /// A pivot below this share of the diagonal may be rounding alone.
    borderline: f64,
    pub largest: f64,
}

impl Bounds {
    pub fn new(n: usize, dtype: DType) -> Self {
        let unit = if dtype == DType::F64 { 2f64.powi(-53) } else { 2f64.powi(-24) };
        let (largest, lost) = grid(dtype, 0.0);
        let factor = if dtype.is_complex() { 6.0 } else { 2.0 };
        let n = n as f64;
        let borderline = 16.0 * (n + 1.0) * (n + 1.0) * unit;
        Self { unit, relative: factor * (n + 4.0) * unit, lost, borderline, largest }
    }
}

pub(super) fn is_finite(x: Wide) -> bool {
    x.re.is_finite() && x.im.is_finite()
}

/// How a triangular system is solved.
#[derive(Clone, Copy, PartialEq)]
pub enum Solver {
    Substitution,
    /// By multiplying with the inverse.
    Inverse,
}

/// What is wrong with the results of an op that is judged so, in words.
pub fn violation(op: &Op, operands: &[Array], expected: &[Array], got: &[Array]) -> Option<String> {
    violation_of(Solver::Substitution, op, operands, expected, got)
}

/// The same where systems are solved so.
pub fn violation_of(solver: Solver, op: &Op, operands: &[Array], expected: &[Array], got: &[Array]) -> Option<String> {
    if let Op::Qr | Op::Eigh | Op::Lu = op {
        return factors::violation(op, &operands[0], expected, got);
    }
    let ([expected, ..], [got, ..]) = (expected, got) else { return None };
    let dtype = got.dtype();
    let sizes = operands[0].sizes();
    let bounds = Bounds::new(sizes[sizes.len() - 1], dtype);
    let (first, expected, got) = (matrices(&operands[0]), matrices(expected), matrices(got));
    let mut all = first.iter().zip(&expected).zip(&got).enumerate();
    match op {
        Op::Cholesky { lower } => all.find_map(|(number, ((a, expected), got))| {
            let found = factor(*lower, a, expected, got, &bounds)?;
            Some(format!("matrix {number}: {found}"))
        }),
        Op::TriangularSolve { left, lower, unit_diagonal, transpose } => {
            let right_sides = matrices(&operands[1]);
            all.find_map(|(number, ((a, expected), got))| {
                let read = triangle(a, *left, *lower, *unit_diagonal, *transpose);
                let found = solution(&read, *left, &right_sides[number], expected, got, &bounds, solver)?;
                Some(format!("system {number}: {found}"))
            })
        }
        _ => None,
    }
}

fn factor(lower: bool, a: &Matrix, expected: &Matrix, got: &Matrix, bounds: &Bounds) -> Option<String> {
    let n = a.columns;
    // The matrix and the factors as for `lower`.
    let turned = |x: &Matrix| Matrix::from_fn(n, n, |i, j| if lower { x.at(i, j) } else { x.at(j, i).conj() });
    let (a, expected, got) = (turned(a), turned(expected), turned(got));
    let triangle = || (0..n).flat_map(|i| (0..=i).map(move |j| (i, j)));
    if let Some((i, j)) =
        (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).find(|&(i, j)| got.at(i, j).norm() != 0.0)
    {
        return Some(format!("({i}, {j}) of the other triangle is {}", got.at(i, j)));
    }
    let finite = |x: &Matrix| triangle().all(|(i, j)| is_finite(x.at(i, j)));
    // A matrix that is positive definite but for rounding may be so to one side and not to the other.
    let borderline = |x: &Matrix| (0..n).any(|j| x.at(j, j).norm_sqr() <= bounds.borderline * a.at(j, j).re.abs());
    match (finite(&expected), finite(&got)) {
        (false, false) => return None,
        (true, false) if borderline(&expected) => return None,
        (true, false) => return Some("is not finite, but the matrix is positive definite".into()),
        (false, true) if !borderline(&got) => return Some("is finite, but the matrix is not positive definite".into()),
        (false, true) | (true, true) => {}
    }
    triangle().find_map(|(i, j)| {
        let terms = (0..=j).map(|k| got.at(i, k) * got.at(j, k).conj());
        let magnitude: f64 = (0..=j).map(|k| got.at(i, k).norm() * got.at(j, k).norm()).sum();
        let ends: f64 = (0..=j).map(|k| got.at(i, k).norm() + got.at(j, k).norm()).sum();
        let product: Wide = terms.sum();
        // Only the real part of the diagonal is read.
        let wanted = if i == j { a.at(i, i).re.into() } else { a.at(i, j) };
        let allowed = bounds.relative * magnitude + bounds.lost * (ends + 1.0);
        ((product - wanted).norm() > allowed)
            .then(|| format!("({i}, {j}) of L Lᴴ is {product}, expected {wanted} within {allowed:e}"))
    })
}

/// The matrix that stands on the left of the unknowns.
fn triangle(a: &Matrix, left: bool, lower: bool, unit_diagonal: bool, transpose: TransposeKind) -> Matrix {
    let n = a.columns;
    let read = |i: usize, j: usize| match (i == j, (i > j) == lower) {
        (true, _) if unit_diagonal => 1.0.into(),
        (true, _) | (false, true) => a.at(i, j),
        (false, false) => 0.0.into(),
    };
    // x M = b is Mᵀ xᵀ = bᵀ.
    let exchanged = (transpose != TransposeKind::None) == left;
    let conjugated = transpose == TransposeKind::Adjoint;
    Matrix::from_fn(n, n, |i, j| {
        let value = if exchanged { read(j, i) } else { read(i, j) };
        if conjugated { value.conj() } else { value }
    })
}

/// The inverse of a triangular matrix.
fn inverse(t: &Matrix) -> Matrix {
    let n = t.columns;
    let lower = (0..n).all(|i| (i + 1..n).all(|j| t.at(i, j).norm() == 0.0));
    let mut x = Matrix::from_fn(n, n, |i, j| if i == j { 1.0.into() } else { 0.0.into() });
    for step in 0..n {
        let i = if lower { step } else { n - 1 - step };
        for j in 0..n {
            let known = if lower { 0..i } else { i + 1..n };
            let sum: Wide = known.map(|k| t.at(i, k) * x.at(k, j)).sum();
            x.elements[i * n + j] = (x.at(i, j) - sum) / t.at(i, i);
        }
    }
    x
}

fn solution(
    t: &Matrix,
    left: bool,
    b: &Matrix,
    expected: &Matrix,
    got: &Matrix,
    bounds: &Bounds,
    solver: Solver,
) -> Option<String> {
    let n = t.columns;
    let inverse = (solver == Solver::Inverse).then(|| inverse(t));
    // An inverse that leaves the range says nothing of a solution that does not.
    if inverse.iter().flat_map(|x| &x.elements).any(|x| !is_finite(*x) || x.norm() > bounds.largest / 4.0) {
        return None;
    }
    let complex = t.elements.iter().chain(&b.elements).any(|x| x.im != 0.0);
    let vectors = if left { b.columns } else { b.elements.len() / n };
    let at = |x: &Matrix, i: usize, v: usize| if left { x.at(i, v) } else { x.at(v, i) };
    (0..vectors).find_map(|v| {
        let finite = |x: &Matrix| (0..n).all(|i| is_finite(at(x, i, v)));
        let most = |x: &Matrix| (0..n).map(|i| at(x, i, v).norm()).fold(0.0, f64::max);
        match (finite(expected), finite(got)) {
            (false, false) => return None,
            (true, true) => {}
            // What a complex number divided by an infinite one is depends on the formula: PyTorch gives NaN, Smith's 0.
            _ if complex && !t.elements.iter().copied().all(is_finite) => return None,
            // Near the end of the range a rounding decides.
            (true, false) if most(expected) > bounds.largest / 4.0 => return None,
            (false, true) if most(got) > bounds.largest / 4.0 => return None,
            (expected, _) => return Some(format!("vector {v} is {}finite", if expected { "not " } else { "" })),
        }
        (0..n).find_map(|i| {
            let sum: Wide = (0..n).map(|k| t.at(i, k) * at(got, k, v)).sum();
            let magnitude: f64 = (0..n).map(|k| t.at(i, k).norm() * at(got, k, v).norm()).sum();
            let row: f64 = (0..n).map(|k| t.at(i, k).norm()).sum();
            let wanted = at(b, i, v);
            let by_inverse = inverse.as_ref().map_or(0.0, |x| {
                let part = |k: usize| (0..n).map(|j| x.at(k, j).norm() * at(b, j, v).norm()).sum::<f64>();
                2.0 * (0..n).map(|k| t.at(i, k).norm() * part(k)).sum::<f64>()
            });
            let allowed = bounds.relative * (magnitude + by_inverse + wanted.norm()) + bounds.lost * (row + 1.0);
            ((sum - wanted).norm() > allowed)
                .then(|| format!("row {i} of T x for vector {v} is {sum}, expected {wanted} within {allowed:e}"))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::evaluate_op;

    fn moved(x: &Array, at: usize, by: f32) -> Array {
        let mut values = x.cast_vec::<f32>();
        values[at] *= by;
        Array::new(&x.ty().shape, &values).unwrap()
    }

    #[test]
    fn factors_are_judged_by_their_product() {
        let a = Array::new([2, 2], &[4f32, 99.0, 2.0, 5.0]).unwrap();
        let op = Op::Cholesky { lower: true };
        let right = evaluate_op(&op, std::slice::from_ref(&a)).unwrap().remove(0);
        let judge = |a: &Array, got: &Array| {
            violation(&op, std::slice::from_ref(a), std::slice::from_ref(&right), std::slice::from_ref(got))
        };
        assert_eq!(judge(&a, &right), None);
        for at in [0, 2, 3] {
            assert_eq!(judge(&a, &moved(&right, at, 1.0 + 2f32.powi(-23))), None);
            assert!(judge(&a, &moved(&right, at, 1.0 + 2f32.powi(-19))).is_some(), "{at}");
            assert!(judge(&a, &moved(&right, at, f32::NAN)).is_some());
        }
        let mut other = right.cast_vec::<f32>();
        other[1] = 1e-30;
        assert!(judge(&a, &Array::new([2, 2], &other).unwrap()).is_some());
    }

    #[test]
    fn solutions_are_judged_by_their_residual() {
        let a = Array::new([2, 2], &[4f32, 1.0, 2.0, 5.0]).unwrap();
        let b = Array::new([2, 2], &[1f32, -7.0, 3.0, 2.0]).unwrap();
        for left in [false, true] {
            for lower in [false, true] {
                for &transpose in TransposeKind::ALL {
                    let op = Op::TriangularSolve { left, lower, unit_diagonal: false, transpose };
                    let right = evaluate_op(&op, &[a.clone(), b.clone()]).unwrap().remove(0);
                    let judge = |got: &Array| {
                        violation(&op, &[a.clone(), b.clone()], std::slice::from_ref(&right), std::slice::from_ref(got))
                    };
                    assert_eq!(judge(&right), None, "{op:?}");
                    for at in 0..4 {
                        assert!(judge(&moved(&right, at, 1.0 + 2f32.powi(-15))).is_some(), "{op:?} {at}");
                    }
                }
            }
        }
    }
}
