//! Factorisations and triangular systems. Operations that take a matrix as symmetric are given one.

use crate::differences::{check, given};
use tpu_core::ir::{Op, TransposeKind};
use tpu_core::{DType, Result, Tensor};

/// x xᵀ + n · 1: symmetric and positive definite.
fn positive(x: &Tensor) -> Result<Tensor> {
    let n = x.sizes()[x.rank() - 1];
    x.matmul(&x.t()?)?.add(&Tensor::eye(n, DType::F64)?.mul(n as f64)?)
}

#[test]
fn cholesky() {
    for lower in [true, false] {
        for sizes in [&[3, 3][..], &[2, 2, 2], &[1, 1]] {
            check("cholesky", 2, &[given(sizes, -1.0, 1.0)], 3, &|x| {
                Ok(Tensor::record(Op::Cholesky { lower }, &[(&positive(&x[0])?).into()])?.into_vec())
            })
            .unwrap();
        }
    }
}

#[test]
fn triangular_systems() {
    for left in [true, false] {
        for lower in [true, false] {
            for unit_diagonal in [true, false] {
                for &transpose in TransposeKind::ALL {
                    let op = Op::TriangularSolve { left, lower, unit_diagonal, transpose };
                    let b = if left { [2, 3, 2] } else { [2, 2, 3] };
                    check(&format!("{op:?}"), 2, &[given(&[2, 3, 3], 0.6, 1.5), given(&b, -1.0, 1.0)], 3, &|x| {
                        Ok(Tensor::record(op.clone(), &[(&x[0]).into(), (&x[1]).into()])?.into_vec())
                    })
                    .unwrap();
                }
            }
        }
    }
}

#[test]
fn qr() {
    for sizes in [&[3, 3][..], &[4, 2], &[2, 4], &[2, 3, 2]] {
        check("qr", 2, &[given(sizes, -1.0, 1.0)], 3, &|x| Ok(Tensor::record(Op::Qr, &[(&x[0]).into()])?.into_vec()))
            .unwrap();
    }
}

#[test]
fn eigh() {
    for sizes in [&[3, 3][..], &[2, 2, 2]] {
        check("eigh", 2, &[given(sizes, -1.0, 1.0)], 3, &|x| {
            let n = sizes[sizes.len() - 1];
            // Eigenvalues far apart.
            let spread: Vec<f64> = (0..n * n).map(|at| if at % (n + 1) == 0 { 3.0 * at as f64 } else { 0.0 }).collect();
            let symmetric = x[0].add(&x[0].t()?)?.add(&Tensor::from_vec(spread, [n, n])?)?;
            Ok(Tensor::record(Op::Eigh, &[(&symmetric).into()])?.into_vec())
        })
        .unwrap();
    }
}

#[test]
fn lu() {
    for sizes in [&[3, 3][..], &[2, 2, 2], &[4, 2], &[2, 4], &[2, 3, 2], &[2, 1, 3], &[1, 1]] {
        check("lu", 2, &[given(sizes, -1.0, 1.0)], 3, &|x| {
            Ok(vec![Tensor::record(Op::Lu, &[(&x[0]).into()])?.swap_remove(0)])
        })
        .unwrap();
    }
}
