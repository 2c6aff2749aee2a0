//! QR, eigenvalues and LU on the host: against PyTorch (`tables/make_decompositions.py` says how the table was made), and on
//! matrices whose factors mathematics knows or that are hard.
//!
//! In double precision a residual passes that LAPACK's own tests pass: below 30 times the order, the rounding unit and the
//! norm (`TESTING/EIG` and `TESTING/LIN`, threshold 30).

use tpu_core::ir::Op;
use tpu_core::{Complex64, DType, Tensor};

const TABLE: &str = include_str!("tables/decompositions.txt");

/// Results of an op of one matrix, in f64 or f32.
fn apply(op: Op, x: &Tensor) -> Vec<Tensor> {
    Tensor::record(op, &[x.into()]).unwrap().into_vec()
}

fn tensor(x: &[f64], rows: usize, columns: usize) -> Tensor {
    Tensor::from_vec(x.to_vec(), [rows, columns]).unwrap()
}

fn numbers(x: &Tensor) -> Vec<f64> {
    match x.dtype() {
        DType::Complex64 => x.to_vec::<Complex64>().unwrap().iter().flat_map(|z| [z.re.into(), z.im.into()]).collect(),
        _ => x.to_dtype(DType::F64).unwrap().to_vec().unwrap(),
    }
}

#[test]
fn decompositions_are_those_of_lapack() {
    let mut rows_read = 0;
    for row in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let mut words = row.split(' ');
        let (op, kind) = (words.next().unwrap(), words.next().unwrap());
        let mut size = || words.next().unwrap().parse::<usize>().unwrap();
        let (rows, columns) = (size(), size());
        let want: Vec<f64> = words.map(|word| word.parse().unwrap()).collect();
        let number = |i: usize| (((37 * i * i * i + 11 * i) % 101) as f64 - 50.0) / 8.0;
        let count = rows * columns;
        let dtypes = if kind == "real" { &[DType::F64, DType::F32][..] } else { &[DType::Complex64] };
        for &dtype in dtypes {
            let x = if kind == "real" {
                tensor(&(0..count).map(number).collect::<Vec<_>>(), rows, columns).to_dtype(dtype).unwrap()
            } else {
                let part = |i: usize| number(i) as f32;
                let z: Vec<Complex64> = (0..count).map(|i| Complex64::new(part(2 * i), part(2 * i + 1))).collect();
                Tensor::from_vec(z, [rows, columns]).unwrap()
            };
            let op = match op {
                "qr" => Op::Qr,
                "eigh" => Op::Eigh,
                _ => Op::Lu,
            };
            let results = apply(op.clone(), &x);
            let used = match op {
                Op::Eigh => 1,
                _ => 2,
            };
            let got: Vec<f64> = results[..used].iter().flat_map(numbers).collect();
            assert_eq!(got.len(), want.len(), "{row}");
            // Condition numbers of these matrices are below 100, elements and factors below 30: 7 · 100 · 30 rounding units in
            // double precision; one rounding to float32, of what is computed in double precision.
            let unit = if dtype == DType::F64 { 2f64.powi(-53) * 21_000.0 } else { 2f64.powi(-24) * 31.0 };
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                assert!((got - want).abs() <= unit, "number {i} is {got}, expected {want}, of {dtype}: {row}");
            }
        }
        rows_read += 1;
    }
    assert_eq!(rows_read, 40);
}

const UNIT: f64 = 1.0 / (1u64 << 53) as f64;

/// A row-major matrix.
struct Matrix {
    columns: usize,
    elements: Vec<f64>,
}

impl Matrix {
    fn new(rows: usize, columns: usize, element: impl Fn(usize, usize) -> f64) -> Self {
        let elements = (0..rows * columns).map(|at| element(at / columns, at % columns)).collect();
        Self { columns, elements }
    }

    fn of(x: &Tensor) -> Self {
        Self { columns: x.sizes()[1], elements: numbers(x) }
    }

    fn rows(&self) -> usize {
        self.elements.len() / self.columns
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        self.elements[i * self.columns + j]
    }

    fn tensor(&self) -> Tensor {
        tensor(&self.elements, self.rows(), self.columns)
    }

    fn times(&self, other: &Self) -> Self {
        Self::new(self.rows(), other.columns, |i, j| (0..self.columns).map(|k| self.at(i, k) * other.at(k, j)).sum())
    }

    fn transposed(&self) -> Self {
        Self::new(self.columns, self.rows(), |i, j| self.at(j, i))
    }

    fn minus(&self, other: &Self) -> Self {
        Self::new(self.rows(), self.columns, |i, j| self.at(i, j) - other.at(i, j))
    }

    /// The Frobenius norm.
    fn norm(&self) -> f64 {
        self.elements.iter().map(|x| x * x).sum::<f64>().sqrt()
    }
}

fn identity(n: usize) -> Matrix {
    Matrix::new(n, n, |i, j| (i == j).into())
}

/// Symmetric matrices, and their eigenvalues where they are known.
fn symmetric() -> Vec<(&'static str, Matrix, Option<Vec<f64>>)> {
    let tridiagonal = |n: usize, diagonal: &dyn Fn(usize) -> f64, beside: &dyn Fn(usize) -> f64| {
        Matrix::new(n, n, |i, j| match i.abs_diff(j) {
            0 => diagonal(i),
            1 => beside(i.min(j)),
            _ => 0.0,
        })
    };
    let n = 40;
    let angle = |k: usize| (k + 1) as f64 * std::f64::consts::PI / (n + 1) as f64;
    let second_difference = (0..n).map(|k| 2.0 - 2.0 * angle(k).cos()).collect();
    // Kac's matrix: order minus one, in steps of two.
    let kac = tridiagonal(30, &|_| 0.0, &|i| (((i + 1) * (29 - i)) as f64).sqrt());
    let steps = (0..30).map(|i| -29.0 + 2.0 * f64::from(i)).collect();
    let one = |i: usize| 1.0 + (i % 7) as f64 / 4.0;
    let mut alone = vec![0.0; 12];
    alone[11] = (0..12).map(|i| one(i) * one(i)).sum();
    vec![
        ("second differences", tridiagonal(n, &|_| 2.0, &|_| -1.0), Some(second_difference)),
        ("Kac", kac, Some(steps)),
        ("Wilkinson's pairs", tridiagonal(21, &|i| (10.0 - i as f64).abs(), &|_| 1.0), None),
        ("Hilbert", Matrix::new(14, 14, |i, j| 1.0 / (i + j + 1) as f64), None),
        ("rank one", Matrix::new(12, 12, |i, j| one(i) * one(j)), Some(alone)),
        ("identity", identity(9), Some(vec![1.0; 9])),
        ("zeros", Matrix::new(5, 5, |_, _| 0.0), Some(vec![0.0; 5])),
        ("a pair off a diagonal of zeros", tridiagonal(2, &|_| 0.0, &|_| 3.0), Some(vec![-3.0, 3.0])),
        ("graded", Matrix::new(15, 15, |i, j| 10f64.powi(-2 * i.max(j) as i32) * one(i) * one(j)), None),
        ("tiny beside the diagonal", tridiagonal(6, &|_| 0.0, &|_| 1e-30), None),
        ("one", Matrix::new(1, 1, |_, _| -7.0), Some(vec![-7.0])),
        ("full", Matrix::new(33, 33, |i, j| ((i * j + i + j) % 23) as f64 - 11.0), None),
    ]
}

#[test]
fn eigenvectors_of_hard_matrices_are_as_good_as_lapack_demands() {
    for (name, x, known) in symmetric() {
        for scale in [1.0, 2f64.powi(880), 2f64.powi(-880)] {
            let n = x.columns;
            let scaled = Matrix::new(n, n, |i, j| x.at(i, j) * scale);
            let results = apply(Op::Eigh, &scaled.tensor());
            let (values, vectors) = (numbers(&results[0]), Matrix::of(&results[1]));
            assert!(values.is_sorted(), "{name}: {values:?}");
            let values: Vec<f64> = values.iter().map(|value| value / scale).collect();
            let allowed = 30.0 * n as f64 * UNIT;
            let turned = Matrix::new(n, n, |i, j| vectors.at(i, j) * values[j]);
            let residual = x.times(&vectors).minus(&turned).norm();
            assert!(residual <= allowed * x.norm(), "{name} by {scale:e}: residual {residual:e}");
            let skew = vectors.transposed().times(&vectors).minus(&identity(n)).norm();
            assert!(skew <= allowed, "{name} by {scale:e}: vectors off right angles by {skew:e}");
            for (value, known) in values.iter().zip(known.iter().flatten()) {
                assert!((value - known).abs() <= allowed * x.norm(), "{name} by {scale:e}: {value}, expected {known}");
            }
        }
    }
    // The largest eigenvalue of Wilkinson's matrix of order 21 (The Algebraic Eigenvalue Problem, chapter 5, table 11).
    let (_, wilkinson, _) = symmetric().swap_remove(2);
    let values = numbers(&apply(Op::Eigh, &wilkinson.tensor())[0]);
    assert!(
        (values[20] - 10.746_194_182_903_393).abs() < 1e-13 && (values[19] - values[20]).abs() < 1e-13,
        "{values:?}"
    );
}

#[test]
fn a_matrix_that_is_not_finite_has_no_eigenvalues() {
    for special in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        // In a batch, and too large for an iteration that would not end to go unnoticed.
        let n = 90;
        let mut x: Vec<f64> = (0..2 * n * n).map(|i| if i % (n + 1) == 0 { i as f64 } else { 0.5 }).collect();
        x[n * n + 50 * n + 3] = special;
        // Not read: above the diagonal.
        x[3 * n + 50] = special;
        let results = apply(Op::Eigh, &Tensor::from_vec(x, [2, n, n]).unwrap());
        for result in results {
            let all = numbers(&result);
            let (first, second) = all.split_at(all.len() / 2);
            assert!(first.iter().all(|x| x.is_finite()) && second.iter().all(|x| x.is_nan()), "{special}");
        }
    }
}

/// Matrices of any shape that are hard to factorise.
fn rectangular() -> Vec<(&'static str, Matrix)> {
    let two = |x: i32| 2f64.powi(x);
    vec![
        ("Vandermonde", Matrix::new(12, 8, |i, j| (i as f64 / 11.0).powi(j as i32))),
        ("equal columns", Matrix::new(6, 4, |i, _| i as f64 + 1.0)),
        ("zeros", Matrix::new(4, 3, |_, _| 0.0)),
        ("a column of zeros", Matrix::new(4, 4, |i, j| if j == 1 { 0.0 } else { (i * j) as f64 - 2.5 + i as f64 })),
        (
            "columns of all magnitudes",
            Matrix::new(5, 4, |i, j| two([1000, -1000, 0, -1060][j]) * ((i * i * (j + 1) + i + j) as f64 + 1.0)),
        ),
        ("wide", Matrix::new(3, 9, |i, j| ((i * 5 + j * j) % 11) as f64 - 5.0)),
        ("one column", Matrix::new(7, 1, |i, _| 3.0 - i as f64)),
        ("one row", Matrix::new(1, 5, |_, j| j as f64 - 2.0)),
        ("one", Matrix::new(1, 1, |_, _| -3.0)),
        ("upper triangle", Matrix::new(5, 5, |i, j| if i > j { 0.0 } else { (i + 2 * j) as f64 - 4.0 })),
        ("exchanges", Matrix::new(6, 6, |i, j| ((i + 2) % 6 == j).into())),
        // Partial pivoting doubles the last column at each step.
        (
            "growth",
            Matrix::new(20, 20, |i, j| {
                if i == j || j == 19 {
                    1.0
                } else if i > j {
                    -1.0
                } else {
                    0.0
                }
            }),
        ),
        ("full", Matrix::new(41, 37, |i, j| ((i * 17 + j * 29 + i * j) % 31) as f64 - 15.0)),
    ]
}

#[test]
fn qr_of_hard_matrices_is_as_good_as_lapack_demands_column_by_column() {
    for (name, x) in rectangular() {
        let (m, n) = (x.rows(), x.columns);
        let results = apply(Op::Qr, &x.tensor());
        let (q, r) = (Matrix::of(&results[0]), Matrix::of(&results[1]));
        let allowed = 30.0 * m.max(n) as f64 * UNIT;
        let skew = q.transposed().times(&q).minus(&identity(m.min(n))).norm();
        assert!(skew <= allowed, "{name}: columns off right angles by {skew:e}");
        for j in 0..n {
            assert!((j + 1..m.min(n)).all(|i| r.at(i, j) == 0.0), "{name}: column {j} of r");
            // In units of the column, so that no square leaves the range.
            let largest = (0..m).map(|i| x.at(i, j).abs()).fold(f64::MIN_POSITIVE, f64::max);
            let column = |of: &Matrix| Matrix::new(of.rows(), 1, |i, _| of.at(i, j) / largest);
            let residual = q.times(&column(&r)).minus(&column(&x)).norm();
            // A triangle's element may be subnormal: half the least number, seen in the column's units.
            let lost = n as f64 * f64::from_bits(1) / largest;
            assert!(residual <= allowed * column(&x).norm() + lost, "{name}: column {j} is off by {residual:e}");
        }
    }
}

#[test]
fn elimination_keeps_to_its_bound_and_to_the_largest_pivots() {
    for (name, x) in rectangular() {
        let (m, n, k) = (x.rows(), x.columns, x.rows().min(x.columns));
        let results = apply(Op::Lu, &x.tensor());
        let lu = Matrix::of(&results[0]);
        let (pivots, rows) = (numbers(&results[1]), numbers(&results[2]));
        let mut exchanged: Vec<f64> = (0..m).map(|i| i as f64).collect();
        pivots.iter().enumerate().for_each(|(step, &pivot)| exchanged.swap(step, pivot as usize));
        assert_eq!(rows, exchanged, "{name}");
        let lower = |i: usize, j: usize| if i == j { 1.0 } else { lu.at(i, j) };
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            assert!(i <= j || lu.at(i, j).abs() <= 1.0, "{name}: factor ({i}, {j}) is {}", lu.at(i, j));
            let terms = 0..k.min(i + 1).min(j + 1);
            let product: f64 = terms.clone().map(|l| lower(i, l) * lu.at(l, j)).sum();
            let magnitude: f64 = terms.map(|l| (lower(i, l) * lu.at(l, j)).abs()).sum();
            // Higham, theorem 9.3: k u |L| |U|, and as much again for this sum.
            let error = (product - x.at(rows[i] as usize, j)).abs();
            let allowed = 2.0 * k as f64 * UNIT * magnitude + f64::from_bits(1) * k as f64;
            assert!(error <= allowed, "{name}: ({i}, {j}) is off by {error:e}, allowed {allowed:e}");
        }
    }
    let (_, growth) = rectangular().swap_remove(11);
    assert_eq!(Matrix::of(&apply(Op::Lu, &growth.tensor())[0]).at(19, 19), 2f64.powi(19));
    // Of equal candidates the first.
    let ties = tensor(&[1.0, 2.0, -1.0, 5.0, 1.0, 1.0], 3, 2);
    assert_eq!(numbers(&apply(Op::Lu, &ties)[1])[0], 0.0);
}

#[test]
fn what_is_not_finite_shows_in_the_factors() {
    for special in [f64::NAN, f64::INFINITY] {
        for at in [0, 5, 11] {
            let mut x: Vec<f64> = (0..12).map(|i| (i * i % 7) as f64 - 2.0).collect();
            x[at] = special;
            for (rows, columns) in [(4, 3), (3, 4)] {
                let r = numbers(&apply(Op::Qr, &tensor(&x, rows, columns))[1]);
                assert!(r.iter().any(|x| !x.is_finite()), "{special} at {at}");
                let lu = numbers(&apply(Op::Lu, &tensor(&x, rows, columns))[0]);
                assert!(lu.iter().any(|x| !x.is_finite()), "{special} at {at}");
            }
        }
    }
}

#[test]
fn empty_matrices_and_batches_have_empty_factors() {
    let sizes = |op: Op, sizes: &[usize]| {
        let x = Tensor::zeros(sizes, DType::F32).unwrap();
        apply(op, &x).iter().map(|y| (y.sizes().to_vec(), numbers(y))).collect::<Vec<_>>()
    };
    let shapes = |op: Op, of: &[usize]| sizes(op, of).into_iter().map(|(shape, _)| shape).collect::<Vec<_>>();
    assert_eq!(shapes(Op::Qr, &[3, 0]), [vec![3, 0], vec![0, 0]]);
    assert_eq!(shapes(Op::Qr, &[0, 2]), [vec![0, 0], vec![0, 2]]);
    assert_eq!(shapes(Op::Qr, &[0, 3, 2]), [vec![0, 3, 2], vec![0, 2, 2]]);
    assert_eq!(shapes(Op::Eigh, &[2, 0, 0]), [vec![2, 0], vec![2, 0, 0]]);
    assert_eq!(shapes(Op::Eigh, &[0, 3, 3]), [vec![0, 3], vec![0, 3, 3]]);
    // No columns, so no exchanges: the rows keep their order.
    let lu = sizes(Op::Lu, &[2, 3, 0]);
    assert_eq!((&lu[1].0, &lu[2]), (&vec![2, 0], &(vec![2, 3], vec![0.0, 1.0, 2.0, 0.0, 1.0, 2.0])));
}
