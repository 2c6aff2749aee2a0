//! Reductions, running ones and those over windows.

use crate::differences::{cases, check, given, shapes};
use proptest::prelude::any;
use smallvec::smallvec;
use std::sync::Arc;
use tpu_core::Tensor;
use tpu_core::ir::{Extreme, Op, Reducer, Window};

const KINDS: [Reducer; 4] = [Reducer::Sum, Reducer::Product, Reducer::Max, Reducer::Min];

#[test]
fn over_any_axes() {
    for kind in KINDS {
        cases(10, (shapes(3..4), 0..8usize, any::<u64>()), |(sizes, mask, seed)| {
            let axes: Vec<isize> = (0..3).filter(|axis| mask >> axis & 1 == 1).collect();
            // The extreme of nothing is infinite.
            if sizes.contains(&0) && matches!(kind, Reducer::Max | Reducer::Min) {
                return Ok(());
            }
            check(kind.name(), 2, &[given(&sizes, -1.2, 1.3)], seed >> 8, &|x| {
                Ok(vec![x[0].square()?.mul(&x[0])?.reduce(kind, axes.iter().copied(), false)?])
            })
        });
    }
}

#[test]
fn products_with_zeros() {
    let x = Tensor::from_vec(vec![0.0f64, 2.0, 3.0, 0.0, 0.0, 5.0], [2, 3]).unwrap();
    let x = tpu_autograd::requires_grad(&x).unwrap();
    let gradient = |y: Tensor| {
        let y = y.sum_all().unwrap();
        tpu_autograd::grad(&[&y], &[&x], Default::default()).unwrap()[0].to_vec::<f64>().unwrap()
    };
    // Each element's gradient is the product of the others.
    assert_eq!(gradient(x.prod([1], false).unwrap()), [6.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    // y = (a, ab, abc): ∂Σ/∂a = 1 + b + bc, ∂Σ/∂b = a + ac, ∂Σ/∂c = ab.
    assert_eq!(gradient(x.cumprod(1).unwrap()), [9.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
}

#[test]
fn running() {
    for kind in KINDS {
        for reverse in [false, true] {
            cases(6, (shapes(2..3), 0..2isize, any::<u64>()), |(sizes, axis, seed)| {
                check(kind.name(), 2, &[given(&sizes, -1.2, 1.3)], seed >> 8, &|x| {
                    Ok(vec![x[0].mul(&x[0].square()?)?.cumulative(kind, axis, reverse)?])
                })
            });
        }
    }
    check("cumprod of 9", 2, &[given(&[9], -1.2, 1.3)], 4, &|x| Ok(vec![x[0].cumprod(0)?])).unwrap();
}

#[test]
fn extremes_with_indices() {
    cases(8, (shapes(2..3), any::<u64>()), |(sizes, seed)| {
        if sizes[1] == 0 {
            return Ok(());
        }
        check("arg_reduce", 2, &[given(&sizes, -1.2, 1.3)], seed >> 8, &|x| {
            let x = x[0].square()?;
            Ok(vec![x.max_with_index(1, false)?.0, x.min_with_index(1, true)?.0.square()?])
        })
    });
}

fn window(size: usize, stride: usize, base: usize, dilation: usize, padding: (i64, i64)) -> Arc<Window> {
    Arc::new(Window {
        sizes: smallvec![1, size],
        strides: smallvec![1, stride],
        base_dilations: smallvec![1, base],
        window_dilations: smallvec![1, dilation],
        padding: smallvec![(0, 0), padding],
    })
}

#[test]
fn sums_over_windows() {
    let attributes = (1..4usize, 1..4usize, 1..3usize, 1..3usize, (-1..3i64, -1..3i64));
    cases(40, (0..6usize, attributes, any::<u64>()), |(size, (taps, stride, base, dilation, padding), seed)| {
        let window = window(taps, stride, base, dilation, padding);
        let op = Op::ReduceWindow { kind: Reducer::Sum, window };
        check("window sum", 2, &[given(&[2, size], -1.0, 1.0)], seed >> 8, &|x| {
            Ok(Tensor::record(op.clone(), &[(&x[0].square()?).into()])?.into_vec())
        })
    });
}

#[test]
fn products_over_windows() {
    let attributes = (1..4usize, 1..4usize, 1..3usize, 1..3usize, (-1..3i64, -1..3i64));
    cases(40, (0..6usize, attributes, any::<u64>()), |(size, (taps, stride, base, dilation, padding), seed)| {
        let op = Op::ReduceWindow { kind: Reducer::Product, window: window(taps, stride, base, dilation, padding) };
        check("window product", 2, &[given(&[2, size], -1.2, 1.3)], seed >> 8, &|x| {
            Ok(vec![Tensor::record(op.clone(), &[(&x[0]).into()])?.swap_remove(0).square()?])
        })
    });
    // y = (ab, bc) of (0, 2, 0): ∂Σ/∂ = (b, a + c, b).
    let x = Tensor::from_vec(vec![0.0f64, 2.0, 0.0], [1, 3]).unwrap();
    let x = tpu_autograd::requires_grad(&x).unwrap();
    let op = Op::ReduceWindow { kind: Reducer::Product, window: window(2, 1, 1, 1, (0, 0)) };
    let y = Tensor::record(op, &[(&x).into()]).unwrap().swap_remove(0);
    let gradient = tpu_autograd::grad(&[&y], &[&x], Default::default()).unwrap();
    assert_eq!(gradient[0].to_vec::<f64>().unwrap(), [2.0, 0.0, 2.0]);
}

#[test]
fn extremes_over_windows() {
    let attributes = (1..4usize, 1..4usize, 1..3usize, (0..2i64, 0..2i64));
    cases(40, (2..6usize, attributes, any::<u64>()), |(size, (taps, stride, dilation, padding), seed)| {
        // Windows of nothing but padding have an infinite extreme.
        if taps == 1 && padding != (0, 0) || (taps - 1) * dilation > size {
            return Ok(());
        }
        let window =
            window(taps, stride, 1, dilation, (padding.0.min(taps as i64 - 1), padding.1.min(taps as i64 - 1)));
        for kind in [Reducer::Max, Reducer::Min] {
            let op = Op::ReduceWindow { kind, window: window.clone() };
            check("window extreme", 2, &[given(&[2, size], 0.4, 1.0)], seed >> 8, &|x| {
                let y = Tensor::record(op.clone(), &[(&x[0].square()?).into()])?.swap_remove(0);
                let inside = y.is_finite()?;
                Ok(vec![inside.select(&y, 0.0)?.square()?])
            })?;
        }
        Ok(())
    });
}

#[test]
fn select_and_scatter() {
    let window = window(2, 2, 1, 1, (1, 0));
    for select in [Extreme::Max, Extreme::Min] {
        let op = Op::SelectAndScatter { select, window: window.clone() };
        check("select_and_scatter", 2, &[given(&[2, 5], -1.0, 1.0), given(&[2, 3], -1.0, 1.0)], 4, &|x| {
            Ok(Tensor::record(op.clone(), &[(&x[0]).into(), (&x[1].square()?).into()])?.into_vec())
        })
        .unwrap();
    }
}
