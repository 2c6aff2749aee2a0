//! Shape and order of elements.

use crate::differences::{cases, check, given, shapes};
use proptest::prelude::{Strategy, any};
use tpu_core::ir::{Axes, Op};
use tpu_core::tensor::Operand;
use tpu_core::{DType, Tensor};

#[test]
fn broadcasts_of_any_order() {
    // Operand [2, 1, 3] to results where its axes are 2, 0 and 3.
    for (operand, shape, axes) in [
        (vec![2, 1, 3], vec![4, 5, 2, 3], vec![2, 0, 3]),
        (vec![], vec![2, 3], vec![]),
        (vec![3, 1], vec![1, 3], vec![1, 0]),
        (vec![2, 3], vec![3, 2], vec![1, 0]),
        (vec![1], vec![0], vec![0]),
        (vec![0, 2], vec![0, 2, 2], vec![0, 1]),
    ] {
        let op = Op::BroadcastInDim { shape: shape.into(), axes: Axes::from_slice(&axes) };
        check("broadcast", 2, &[given(&operand, -1.0, 1.0)], 3, &|x| {
            Ok(vec![Tensor::record(op.clone(), &[(&x[0].square()?).into()])?.swap_remove(0)])
        })
        .unwrap();
    }
}

#[test]
fn reshape_transpose_reverse() {
    cases(8, (shapes(3..4), any::<u64>()), |(sizes, seed)| {
        check("layout", 2, &[given(&sizes, -1.0, 1.0)], seed >> 8, &|x| {
            let x = x[0].square()?;
            Ok(vec![x.reshape([sizes.iter().product::<usize>()])?, x.permute([2, 0, 1])?, x.flip([0, 2])?])
        })
    });
}

#[test]
fn slices_with_steps() {
    for (size, start, end, step) in [(7, 1, 6, 2), (7, 0, 7, 3), (5, 2, 2, 1), (5, 4, 5, 9), (0, 0, 0, 1)] {
        check("slice", 2, &[given(&[size, 2], -1.0, 1.0)], 4, &|x| {
            Ok(vec![x[0].square()?.slice(0, start, end, step)?])
        })
        .unwrap();
    }
}

#[test]
fn dynamic_slices_clamp_their_start() {
    for start in [0i64, 1, 2, 9, -3] {
        check("dynamic_slice", 2, &[given(&[4, 3], -1.0, 1.0)], 5, &|x| {
            Ok(vec![x[0].square()?.dynamic_slice(&[start.into(), 1.into()], &[2, 2])?])
        })
        .unwrap();
        check("dynamic_update_slice", 2, &[given(&[4, 3], -1.0, 1.0), given(&[2, 2], -1.0, 1.0)], 6, &|x| {
            let start = Tensor::scalar(start)?;
            let one = Tensor::scalar(1i64)?;
            let starts: [Operand<'_>; 2] = [(&start).into(), (&one).into()];
            Ok(vec![x[0].square()?.dynamic_update_slice(&x[1].square()?, &starts)?])
        })
        .unwrap();
    }
}

#[test]
fn pads_of_any_sign() {
    let amounts = (-2..3i64, -2..3i64, 0..3usize);
    cases(40, (0..5usize, amounts, any::<u64>()), |(size, (low, high, interior), seed)| {
        let length = if size == 0 { 0 } else { (size - 1) * (interior + 1) + 1 } as i64;
        if length + low + high < 0 {
            return Ok(());
        }
        check("pad", 2, &[given(&[size, 2], -1.0, 1.0), given(&[], 0.5, 1.0)], seed >> 8, &|x| {
            let op = Op::Pad {
                low: [low, 1].into_iter().collect(),
                high: [high, 0].into_iter().collect(),
                interior: [interior, 0].into_iter().collect(),
            };
            Ok(Tensor::record(op, &[(&x[0].square()?).into(), (&x[1].square()?).into()])?.into_vec())
        })
    });
}

#[test]
fn concatenations() {
    let sizes = (0..3usize, 0..3usize, 1..3usize).prop_flat_map(|sizes| (proptest::prelude::Just(sizes), any::<u64>()));
    cases(8, sizes, |((a, b, c), seed)| {
        let operands = [given(&[2, a], -1.0, 1.0), given(&[2, b], -1.0, 1.0), given(&[2, c], -1.0, 1.0)];
        check("concatenate", 2, &operands, seed >> 8, &|x| {
            let square = x[0].square()?;
            Ok(vec![Tensor::concat(&[&square, &x[1], &x[2], &x[1]], 1)?.square()?])
        })
    });
}

#[test]
fn barriers_pass_gradients_on() {
    check("optimization_barrier", 2, &[given(&[2], -1.0, 1.0), given(&[3], -1.0, 1.0)], 4, &|x| {
        let held = Tensor::record(Op::OptimizationBarrier, &[(&x[0]).into(), (&x[1]).into()])?;
        Ok(vec![held[0].square()?])
    })
    .unwrap();
}

#[test]
fn rounded_numbers_pass_the_gradient_as_it_is() {
    let x = tpu_autograd::requires_grad(&Tensor::from_slice(&[1.1f32, 2.2]).unwrap()).unwrap();
    let y = Tensor::record(Op::ReducePrecision { exponent_bits: 8, mantissa_bits: 7 }, &[(&x).into()]).unwrap();
    let sum = y[0].mul(3.0).unwrap().sum_all().unwrap();
    let gradient = tpu_autograd::grad(&[&sum], &[&x], Default::default()).unwrap();
    assert_eq!(gradient[0].to_vec::<f32>().unwrap(), [3.0, 3.0]);
    assert_eq!(gradient[0].dtype(), DType::F32);
}
