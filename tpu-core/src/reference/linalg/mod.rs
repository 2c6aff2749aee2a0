//! Dense linear algebra over the last two axes, in complex `f64` whatever the dtype: a real matrix is one whose imaginary parts
//! are 0, and they stay 0.

mod eigh;
mod factor;
mod qr;

pub use eigh::eigh;
pub use factor::{cholesky, lu, triangular_solve};
pub use qr::qr;

use super::array::Array;
use super::number::{narrow, widen};
use crate::ir::Type;
use crate::{Complex64, Result};
use num_complex::Complex;
use std::ops::{Index, IndexMut};

type Wide = Complex<f64>;

/// A matrix, row-major.
#[derive(Clone)]
struct Matrix {
    rows: usize,
    columns: usize,
    elements: Vec<Wide>,
}

impl Matrix {
    fn from_fn(rows: usize, columns: usize, mut element: impl FnMut(usize, usize) -> Wide) -> Self {
        let elements = (0..rows * columns).map(|at| element(at / columns, at % columns)).collect();
        Self { rows, columns, elements }
    }

    fn identity(rows: usize, columns: usize) -> Self {
        Self::from_fn(rows, columns, |i, j| Wide::new(if i == j { 1.0 } else { 0.0 }, 0.0))
    }

    /// Conjugated and transposed.
    fn adjoint(&self) -> Self {
        Self::from_fn(self.columns, self.rows, |i, j| self[(j, i)].conj())
    }

    fn transpose(&self) -> Self {
        Self::from_fn(self.columns, self.rows, |i, j| self[(j, i)])
    }

    fn swap_rows(&mut self, i: usize, j: usize) {
        for column in 0..self.columns {
            self.elements.swap(i * self.columns + column, j * self.columns + column);
        }
    }
}

impl Index<(usize, usize)> for Matrix {
    type Output = Wide;
    fn index(&self, (i, j): (usize, usize)) -> &Wide {
        &self.elements[i * self.columns + j]
    }
}
impl IndexMut<(usize, usize)> for Matrix {
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut Wide {
        &mut self.elements[i * self.columns + j]
    }
}

/// `x / y`, which is that of real numbers when `y` is real.
fn quotient(x: Wide, y: Wide) -> Wide {
    if y.im == 0.0 { Wide::new(x.re / y.re, x.im / y.re) } else { x / y }
}

/// The matrices in an array.
fn matrices(x: &Array) -> Vec<Matrix> {
    let [batch @ .., rows, columns] = x.sizes() else { return Vec::new() };
    let elements: Vec<Wide> = if x.dtype().is_complex() {
        x.cast_vec::<Complex64>().into_iter().map(widen).collect()
    } else {
        x.cast_vec::<f64>().into_iter().map(|re| Wide::new(re, 0.0)).collect()
    };
    let size = rows * columns;
    let count: usize = batch.iter().product();
    let one = |i: usize| Matrix { rows: *rows, columns: *columns, elements: elements[i * size..][..size].to_vec() };
    (0..count).map(one).collect()
}

/// An array of the elements of matrices or vectors, one after the other.
fn gathered<'a>(ty: &Type, elements: impl IntoIterator<Item = &'a Wide>) -> Result<Array> {
    let elements = elements.into_iter();
    match ty.dtype {
        crate::DType::F32 => Array::new(&ty.shape, &elements.map(|x| x.re as f32).collect::<Vec<_>>()),
        crate::DType::F64 => Array::new(&ty.shape, &elements.map(|x| x.re).collect::<Vec<_>>()),
        _ => Array::new(&ty.shape, &elements.map(|&x| narrow(x)).collect::<Vec<_>>()),
    }
}

fn all_elements(matrices: &[Matrix]) -> impl Iterator<Item = &Wide> {
    matrices.iter().flat_map(|matrix| &matrix.elements)
}

#[cfg(test)]
mod tests {
    use super::super::evaluate_op;
    use super::*;
    use crate::DType;
    use crate::ir::{Op, TransposeKind};

    /// Matrices of small numbers that no row repeats.
    fn numbers(dtype: DType, shape: &[usize]) -> Array {
        let n: usize = shape.iter().product();
        let value = |i: usize| ((i * 7919 + 13) % 31) as f32 / 8.0 - 1.9;
        match dtype {
            DType::F32 => Array::new(shape, &(0..n).map(value).collect::<Vec<_>>()),
            DType::F64 => Array::new(shape, &(0..n).map(|i| value(i) as f64).collect::<Vec<_>>()),
            _ => Array::new(shape, &(0..n).map(|i| Complex64::new(value(i), value(i + 5))).collect::<Vec<_>>()),
        }
        .unwrap()
    }

    fn product(a: &Matrix, b: &Matrix) -> Matrix {
        Matrix::from_fn(a.rows, b.columns, |i, j| (0..a.columns).map(|k| a[(i, k)] * b[(k, j)]).sum())
    }

    fn assert_equal(got: &Matrix, expected: &Matrix, dtype: DType) {
        // The factors are rounded to the dtype; a product of a few of them, of magnitude 20, is off by some ulps of that.
        let allowed = if dtype == DType::F64 { 1e-13 } else { 3e-5 };
        for (x, y) in got.elements.iter().zip(&expected.elements) {
            assert!((x - y).norm() <= allowed, "{dtype}: {x} and {y}");
        }
    }

    const DTYPES: [DType; 3] = [DType::F32, DType::F64, DType::Complex64];

    #[test]
    fn qr_gives_orthonormal_columns_and_a_triangle() {
        for dtype in DTYPES {
            for shape in [[2, 4, 3], [2, 3, 3], [2, 2, 5]] {
                let x = numbers(dtype, &shape);
                let factors = evaluate_op(&Op::Qr, std::slice::from_ref(&x)).unwrap();
                for ((x, q), r) in matrices(&x).iter().zip(matrices(&factors[0])).zip(matrices(&factors[1])) {
                    assert_equal(&product(&q, &r), x, dtype);
                    assert_equal(&product(&q.adjoint(), &q), &Matrix::identity(q.columns, q.columns), dtype);
                    for i in 0..r.rows {
                        assert!((0..i).all(|j| r[(i, j)] == Wide::ZERO));
                    }
                }
            }
        }
    }

    /// `numpy.linalg.qr([[1, 2], [3, 4]])`: LAPACK makes the diagonal of R negative here.
    #[test]
    fn qr_has_the_signs_of_lapack() {
        let x = Array::new([2, 2], &[1.0f64, 2.0, 3.0, 4.0]).unwrap();
        let r = evaluate_op(&Op::Qr, &[x]).unwrap()[1].to_vec::<f64>().unwrap();
        let expected = [-3.162_277_660_168_379_5, -4.427_188_724_235_731, 0.0, -0.632_455_532_033_675_8];
        for (got, expected) in r.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-14, "{got}, expected {expected}");
        }
    }

    #[test]
    fn eigenvectors_turn_the_matrix_into_its_ascending_eigenvalues() {
        for dtype in DTYPES {
            let x = numbers(dtype, &[2, 4, 4]);
            let results = evaluate_op(&Op::Eigh, std::slice::from_ref(&x)).unwrap();
            let values = results[0].cast_vec::<f64>();
            for ((i, x), v) in matrices(&x).iter().enumerate().zip(matrices(&results[1])) {
                let hermitian = Matrix::from_fn(4, 4, |i, j| match i.cmp(&j) {
                    std::cmp::Ordering::Greater => x[(i, j)],
                    std::cmp::Ordering::Equal => x[(i, i)].re.into(),
                    std::cmp::Ordering::Less => x[(j, i)].conj(),
                });
                let values = &values[4 * i..][..4];
                assert!(values.is_sorted());
                let scaled = Matrix::from_fn(4, 4, |i, j| v[(i, j)] * values[j]);
                assert_equal(&product(&hermitian, &v), &scaled, dtype);
                assert_equal(&product(&v.adjoint(), &v), &Matrix::identity(4, 4), dtype);
            }
        }
    }

    #[test]
    fn cholesky_factors_multiply_to_the_matrix() {
        for dtype in DTYPES {
            let root = &matrices(&numbers(dtype, &[3, 3]))[0];
            let mut definite = product(root, &root.adjoint());
            (0..3).for_each(|i| definite[(i, i)] += 1.0);
            let ty = Type::new(dtype, [3, 3]);
            let x = gathered(&ty, &definite.elements).unwrap();
            for lower in [true, false] {
                let factor = evaluate_op(&Op::Cholesky { lower }, std::slice::from_ref(&x)).unwrap();
                let factor = &matrices(&factor[0])[0];
                let back = if lower { product(factor, &factor.adjoint()) } else { product(&factor.adjoint(), factor) };
                assert_equal(&back, &matrices(&x)[0], dtype);
            }
        }
    }

    #[test]
    fn cholesky_of_an_indefinite_matrix_is_nan_in_its_triangle() {
        let x = Array::new([2, 2], &[1.0f32, 2.0, 2.0, 1.0]).unwrap();
        let factor = evaluate_op(&Op::Cholesky { lower: true }, &[x]).unwrap()[0].to_vec::<f32>().unwrap();
        assert!(factor[0].is_nan() && factor[1] == 0.0 && factor[2].is_nan() && factor[3].is_nan());
    }

    #[test]
    fn triangular_solutions_solve() {
        for dtype in DTYPES {
            for case in 0..24 {
                let (left, lower, unit_diagonal) = (case & 1 == 0, case & 2 == 0, case & 4 == 0);
                let transpose = TransposeKind::ALL[case / 8];
                let (a, b) = (numbers(dtype, &[3, 3]), numbers(dtype, if left { &[3, 2] } else { &[2, 3] }));
                let op = Op::TriangularSolve { left, lower, unit_diagonal, transpose };
                let x = evaluate_op(&op, &[a.clone(), b.clone()]).unwrap();
                let (a, x) = (&matrices(&a)[0], &matrices(&x[0])[0]);
                let read = Matrix::from_fn(3, 3, |i, j| match (i == j, i > j) {
                    (true, _) if unit_diagonal => 1.0.into(),
                    (false, below) if below != lower => 0.0.into(),
                    _ => a[(i, j)],
                });
                let read = match transpose {
                    TransposeKind::None => read,
                    TransposeKind::Transpose => read.transpose(),
                    TransposeKind::Adjoint => read.adjoint(),
                };
                let back = if left { product(&read, x) } else { product(x, &read) };
                // Solutions reach a few hundred, so their rounding shows more.
                let scale = x.elements.iter().map(|x| x.norm()).fold(1.0, f64::max);
                let scaled = |m: &Matrix| Matrix::from_fn(m.rows, m.columns, |i, j| m[(i, j)] / scale);
                assert_equal(&scaled(&back), &scaled(&matrices(&b)[0]), dtype);
            }
        }
    }

    #[test]
    fn lu_factors_multiply_to_the_permuted_matrix() {
        for dtype in DTYPES {
            for shape in [[4, 3], [3, 3], [2, 4]] {
                let x = numbers(dtype, &shape);
                let results = evaluate_op(&Op::Lu, std::slice::from_ref(&x)).unwrap();
                let (x, lu) = (&matrices(&x)[0], &matrices(&results[0])[0]);
                let k = shape[0].min(shape[1]);
                let lower = Matrix::from_fn(shape[0], k, |i, j| match i.cmp(&j) {
                    std::cmp::Ordering::Less => 0.0.into(),
                    std::cmp::Ordering::Equal => 1.0.into(),
                    std::cmp::Ordering::Greater => lu[(i, j)],
                });
                let upper = Matrix::from_fn(k, shape[1], |i, j| if i > j { 0.0.into() } else { lu[(i, j)] });
                assert!(lower.elements.iter().all(|x| x.re.abs() + x.im.abs() <= 1.5), "pivots are the largest");
                let permutation = results[2].to_vec::<i32>().unwrap();
                let permuted = Matrix::from_fn(shape[0], shape[1], |i, j| x[(permutation[i] as usize, j)]);
                assert_equal(&product(&lower, &upper), &permuted, dtype);
                // Doing the exchanges one by one gives the permutation.
                let mut rows: Vec<i32> = (0..shape[0] as i32).collect();
                for (i, pivot) in results[1].to_vec::<i32>().unwrap().into_iter().enumerate() {
                    rows.swap(i, pivot as usize);
                }
                assert_eq!(rows, permutation);
            }
        }
    }
}
