//! Decompositions judged by what they must satisfy.
//!
//! Signs, vectors of equal eigenvalues and pivots of equal size may be chosen either way; what is bounded is how far the factors are
//! from those of a matrix nearby. LAPACK's own tests pass a decomposition whose residual is below 30 times the matrix's
//! order, the rounding unit and the matrix's norm (Anderson et al., *LAPACK Users' Guide*, and the programs under `TESTING`:
//! `dqrt01`, `dsyt21`, threshold 30), which covers any careful algorithm in the dtype. Of QR that is asked column by
//! column, as Householder's reflections keep it (Higham, theorem 19.4), of LU element by element: `|P A − L U| ≤ γ |L| |U|` with
//! `γ ≈ n u` (theorem 9.3), where as for Cholesky rounding and complex products make it `2 (n + 4) u`, or three times
//! that.

use super::backward::{Bounds, Matrix, Wide, is_finite, matrices, pieces};
use crate::ir::Op;
use crate::reference::Array;

/// LAPACK's threshold.
const THRESHOLD: f64 = 30.0;

/// What is wrong with the results of a `qr`, `eigh` or `lu`, in words.
pub(super) fn violation(op: &Op, x: &Array, expected: &[Array], got: &[Array]) -> Option<String> {
    let &[.., rows, columns] = x.sizes() else { return None };
    let k = rows.min(columns);
    let bounds = Bounds::new(rows.max(columns), x.dtype());
    let all = pieces(x, rows, columns);
    let judge = |number: usize| Judge { x: &all[number], rows, columns, bounds: &bounds };
    let found = |number: usize, found: Option<String>| found.map(|found| format!("matrix {number}: {found}"));
    match op {
        Op::Qr => {
            let (q, r, known) =
                (pieces(&got[0], rows, k), pieces(&got[1], k, columns), pieces(&expected[1], k, columns));
            (0..all.len()).find_map(|i| found(i, judge(i).qr(&q[i], &r[i], &known[i])))
        }
        Op::Eigh => {
            let (values, vectors, known) = (pieces(&got[0], k, 1), matrices(&got[1]), pieces(&expected[0], k, 1));
            (0..all.len()).find_map(|i| found(i, judge(i).eigh(&values[i], &vectors[i], &known[i])))
        }
        Op::Lu => {
            let (lu, known) = (matrices(&got[0]), matrices(&expected[0]));
            let (pivots, permutations) = (got[1].cast_vec::<i64>(), got[2].cast_vec::<i64>());
            (0..all.len()).find_map(|i| {
                let order = (&pivots[i * k..][..k], &permutations[i * rows..][..rows]);
                found(i, judge(i).lu(&lu[i], order, &known[i]))
            })
        }
        _ => None,
    }
}

/// One matrix that was decomposed.
struct Judge<'a> {
    x: &'a Matrix,
    rows: usize,
    columns: usize,
    bounds: &'a Bounds,
}

fn all_finite(x: &Matrix) -> bool {
    x.elements.iter().copied().all(is_finite)
}

fn norm(elements: impl Iterator<Item = Wide>) -> f64 {
    elements.map(|x| x.norm_sqr()).sum::<f64>().sqrt()
}

impl Judge<'_> {
    /// What LAPACK's tests allow, relative to a norm.
    fn threshold(&self) -> f64 {
        THRESHOLD * self.rows.max(self.columns) as f64 * self.bounds.unit
    }

    /// Whether there is nothing more to judge, since something is not finite, and what is wrong if that is wrong. What is not finite
    /// in a matrix must show in the result; what is finite may overflow, where that of the interpreter does or nearly does.
    fn finiteness(&self, finite: bool, known: &Matrix, got: &Matrix) -> Option<Option<String>> {
        let most = known.elements.iter().map(|x| x.norm()).fold(0.0, f64::max);
        match (finite, all_finite(got)) {
            (true, true) => None,
            (false, false) => Some(None),
            (false, true) => Some(Some("is finite, but the matrix is not".into())),
            (true, false) if all_finite(known) && most < self.bounds.largest / 4.0 => {
                Some(Some("is not finite".into()))
            }
            (true, false) => Some(None),
        }
    }

    /// Whether the columns have length one and are at right angles.
    fn orthonormal(&self, q: &Matrix) -> Option<String> {
        let (allowed, rows) = (self.threshold(), q.elements.len() / q.columns.max(1));
        (0..q.columns).flat_map(|j| (0..=j).map(move |i| (i, j))).find_map(|(i, j)| {
            let product: Wide = (0..rows).map(|row| q.at(row, i).conj() * q.at(row, j)).sum();
            let error = (product - if i == j { 1.0 } else { 0.0 }).norm();
            (error > allowed).then(|| format!("columns {i} and {j} multiply to {product}, allowed {allowed:e}"))
        })
    }

    fn qr(&self, q: &Matrix, r: &Matrix, known: &Matrix) -> Option<String> {
        if let Some(verdict) = self.finiteness(all_finite(self.x), known, r) {
            return verdict;
        }
        if let Some(found) = self.orthonormal(q) {
            return Some(found);
        }
        (0..self.columns).find_map(|j| {
            if let Some(i) = (j + 1..q.columns).find(|&i| r.at(i, j).norm() != 0.0) {
                return Some(format!("r({i}, {j}) below the diagonal is {}", r.at(i, j)));
            }
            let length = norm((0..self.rows).map(|i| self.x.at(i, j)));
            let product = |i: usize| (0..q.columns).map(|l| q.at(i, l) * r.at(l, j)).sum::<Wide>();
            let error = norm((0..self.rows).map(|i| product(i) - self.x.at(i, j)));
            let sizes: f64 = (0..q.columns).map(|l| r.at(l, j).norm() + 1.0).sum();
            let allowed = self.threshold() * length + self.bounds.lost * self.rows as f64 * (sizes + 1.0);
            if error > allowed {
                return Some(format!("column {j} of q r is off by {error:e}, allowed {allowed:e}"));
            }
            let turned = j < q.columns && r.at(j, j).im.abs() > allowed;
            turned.then(|| format!("r({j}, {j}) is {}, not real", r.at(j, j)))
        })
    }

    fn eigh(&self, values: &Matrix, vectors: &Matrix, known: &Matrix) -> Option<String> {
        let n = self.rows;
        let matrix = Matrix::from_fn(n, n, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Greater => self.x.at(i, j),
            std::cmp::Ordering::Equal => self.x.at(i, i).re.into(),
            std::cmp::Ordering::Less => self.x.at(j, i).conj(),
        });
        if let Some(verdict) = self.finiteness(all_finite(&matrix), known, values) {
            return verdict;
        }
        if let Some(i) = (1..n).find(|&i| values.at(i - 1, 0).re > values.at(i, 0).re) {
            return Some(format!("value {} is {}, value {i} is {}", i - 1, values.at(i - 1, 0).re, values.at(i, 0).re));
        }
        if let Some(found) = self.orthonormal(vectors) {
            return Some(found);
        }
        let size = norm(matrix.elements.iter().copied());
        (0..n).find_map(|j| {
            let value = values.at(j, 0);
            let product = |i: usize| (0..n).map(|l| matrix.at(i, l) * vectors.at(l, j)).sum::<Wide>();
            let error = norm((0..n).map(|i| product(i) - value * vectors.at(i, j)));
            // A vector's elements and the value may be subnormal.
            let allowed = self.threshold() * size + self.bounds.lost * n as f64 * (size + 1.0);
            if error > allowed {
                return Some(format!("vector {j} is off by {error:e}, allowed {allowed:e}"));
            }
            // Each is off by what its own nearby matrix differs, both by twice that (Weyl).
            let error = (value - known.at(j, 0)).norm();
            (error > 2.0 * allowed)
                .then(|| format!("value {j} is {value}, expected {} within {allowed:e}", known.at(j, 0)))
        })
    }

    fn lu(&self, lu: &Matrix, (pivots, permutation): (&[i64], &[i64]), known: &Matrix) -> Option<String> {
        let (m, n) = (self.rows, self.columns);
        let mut rows: Vec<i64> = (0..m as i64).collect();
        for (step, &pivot) in pivots.iter().enumerate() {
            if !(step as i64..m as i64).contains(&pivot) {
                return Some(format!("pivot {step} is {pivot}"));
            }
            rows.swap(step, pivot as usize);
        }
        if rows != permutation {
            return Some(format!("the permutation is {permutation:?}, the pivots make {rows:?}"));
        }
        if let Some(verdict) = self.finiteness(all_finite(self.x), known, lu) {
            return verdict;
        }
        let left = |i: usize, l: usize| if i == l { 1.0.into() } else { lu.at(i, l) };
        let k = pivots.len();
        // Sizes of complex numbers are compared by the sum of their parts, at most √2 times the modulus.
        let largest = if lu.elements.iter().any(|x| x.im != 0.0) { 2f64.sqrt() } else { 1.0 };
        (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).find_map(|(i, j)| {
            if i > j && lu.at(i, j).norm() > largest * (1.0 + 16.0 * self.bounds.unit) {
                return Some(format!("factor ({i}, {j}) is {}: its pivot was not the largest", lu.at(i, j)));
            }
            let terms = 0..k.min(i + 1).min(j + 1);
            let product: Wide = terms.clone().map(|l| left(i, l) * lu.at(l, j)).sum();
            let magnitude: f64 = terms.clone().map(|l| left(i, l).norm() * lu.at(l, j).norm()).sum();
            let ends: f64 = terms.map(|l| left(i, l).norm() + lu.at(l, j).norm() + 1.0).sum();
            let wanted = self.x.at(rows[i] as usize, j);
            let allowed = self.bounds.relative * (magnitude + wanted.norm()) + self.bounds.lost * (ends + 1.0);
            let error = (product - wanted).norm();
            (error > allowed).then(|| format!("({i}, {j}) of l u is {product}, expected {wanted} within {allowed:e}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::evaluate_op;
    use crate::{Complex64, DType};

    fn numbers(dtype: DType, shape: [usize; 3]) -> Array {
        let part = |i: usize| ((i * 7919 + 13) % 31) as f32 / 8.0 - 1.9;
        let n: usize = shape.iter().product();
        match dtype {
            DType::F32 => Array::new(shape, &(0..n).map(part).collect::<Vec<_>>()),
            DType::F64 => Array::new(shape, &(0..n).map(|i| part(i).into()).collect::<Vec<f64>>()),
            _ => Array::new(shape, &(0..n).map(|i| Complex64::new(part(i), part(i + 5))).collect::<Vec<_>>()),
        }
        .unwrap()
    }

    /// An array with `by` added to element `at`.
    fn moved(x: &Array, at: usize, by: f64) -> Array {
        let shape = &x.ty().shape;
        match x.dtype() {
            DType::F32 | DType::F64 => {
                let mut all = x.cast_vec::<f64>();
                all[at] += by;
                let narrow = || all.iter().map(|&x| x as f32).collect::<Vec<_>>();
                if x.dtype() == DType::F64 { Array::new(shape, &all) } else { Array::new(shape, &narrow()) }
            }
            _ => {
                let mut all = x.to_vec::<Complex64>().unwrap();
                all[at] += Complex64::new(by as f32, 0.0);
                Array::new(shape, &all)
            }
        }
        .unwrap()
    }

    /// The interpreter's factors pass; with any of their floats moved by some thousand rounding units they do not.
    #[test]
    fn every_number_of_a_decomposition_is_judged() {
        for dtype in [DType::F32, DType::F64, DType::Complex64] {
            for (op, shape) in [
                (Op::Qr, [2, 4, 3]),
                (Op::Qr, [2, 3, 5]),
                (Op::Eigh, [2, 4, 4]),
                (Op::Lu, [2, 4, 3]),
                (Op::Lu, [2, 3, 4]),
            ] {
                let x = numbers(dtype, shape);
                let right = evaluate_op(&op, std::slice::from_ref(&x)).unwrap();
                assert_eq!(violation(&op, &x, &right, &right), None, "{op:?} {dtype}");
                let unit = if dtype == DType::F64 { 2f64.powi(-53) } else { 2f64.powi(-24) };
                for result in 0..right.len() {
                    for at in 0..right[result].elements() {
                        let mut wrong = right.clone();
                        wrong[result] = match right[result].dtype() {
                            DType::I32 => {
                                let mut all = right[result].to_vec::<i32>().unwrap();
                                all[at] += 1;
                                Array::new(&right[result].ty().shape, &all).unwrap()
                            }
                            _ => moved(&right[result], at, 20_000.0 * unit),
                        };
                        assert!(violation(&op, &x, &right, &wrong).is_some(), "{op:?} {dtype} result {result} at {at}");
                    }
                }
            }
        }
    }

    /// Found by the long sweep: under a pivot at the end of the range factors are subnormal, and their rounding shows in the product.
    #[test]
    fn a_subnormal_factor_may_lose_what_its_pivot_magnifies() {
        let x = Array::new([2, 1], &[f64::MAX, 0.003_828_688_375_099_71]).unwrap();
        let right = evaluate_op(&Op::Lu, std::slice::from_ref(&x)).unwrap();
        assert!(right[0].cast_vec::<f64>()[1] < f64::MIN_POSITIVE);
        assert_eq!(violation(&Op::Lu, &x, &right, &right), None);
    }

    #[test]
    fn what_is_not_finite_must_show() {
        for op in [Op::Qr, Op::Eigh, Op::Lu] {
            let x = numbers(DType::F64, [1, 3, 3]);
            let right = evaluate_op(&op, std::slice::from_ref(&x)).unwrap();
            let mut spoilt = x.cast_vec::<f64>();
            spoilt[3] = f64::NAN;
            let spoilt = Array::new([1, 3, 3], &spoilt).unwrap();
            assert!(violation(&op, &spoilt, &right, &right).is_some(), "{op:?}");
            let got = evaluate_op(&op, std::slice::from_ref(&spoilt)).unwrap();
            assert_eq!(violation(&op, &spoilt, &got, &got), None, "{op:?}");
            assert!(violation(&op, &x, &right, &got).is_some(), "{op:?}");
        }
    }
}
