//! Derivatives where they are a matter of convention, as PyTorch has them.

#[path = "pytorch/conventions.rs"]
mod table;

use smallvec::smallvec;
use std::sync::Arc;
use tpu_autograd::{GradOptions, grad, requires_grad};
use tpu_core::ir::{Op, Reducer, Window};
use tpu_core::{DType, Result, Tensor};
use tpu_ops::Reduction;

fn scatter(x: &Tensor, source: &Tensor, combiner: Reducer) -> Result<Tensor> {
    x.scatter(0, &Tensor::from_slice(&[0i64, 1, 1, 3, 1])?, source, Some(combiner))
}

fn apply(name: &str, x: &[Tensor]) -> Result<Tensor> {
    let a = &x[0];
    match name {
        "abs" => a.abs(),
        "sign" => a.sign(),
        "relu" => tpu_ops::relu(a),
        "amax" => a.max([0], false),
        "amin" => a.min([0], false),
        "max_with_index" => Ok(a.max_with_index(0, false)?.0),
        "maximum" => a.maximum(&x[1]),
        "minimum" => a.minimum(&x[1]),
        "clamp" => a.clamp(-1.0, 1.0),
        "clamp by tensors" => a.clamp(&x[1], &x[2]),
        "pow" => a.pow(&x[1]),
        "pow 2" => a.pow(2.0),
        "prod" | "prod one zero" => a.prod([0], false),
        "cumprod" => a.cumprod(0),
        "cummax" => a.cumulative(Reducer::Max, 0, false),
        "cummin" => a.cumulative(Reducer::Min, 0, false),
        "sort" => Ok(a.sort(0, false)?.0),
        "sort descending" => Ok(a.sort(0, true)?.0),
        "atan2" => a.atan2(&x[1]),
        "fmod" => a.rem(&x[1]),
        "sqrt" => a.sqrt(),
        "floor" => a.floor(),
        "scatter amax" => scatter(a, &x[1], Reducer::Max),
        "scatter amin" => scatter(a, &x[1], Reducer::Min),
        "scatter prod" => scatter(a, &x[1], Reducer::Product),
        "max_pool" => {
            let window = Window {
                sizes: smallvec![3],
                strides: smallvec![1],
                base_dilations: smallvec![1],
                window_dilations: smallvec![1],
                padding: smallvec![(0, 0)],
            };
            let op = Op::ReduceWindow { kind: Reducer::Max, window: Arc::new(window) };
            Ok(Tensor::record(op, &[a.into()])?.swap_remove(0))
        }
        "relu6" => tpu_ops::relu6(a),
        "hardtanh" => tpu_ops::hardtanh(a, -1.0, 1.0),
        "hardsigmoid" => tpu_ops::hardsigmoid(a),
        "hardswish" => tpu_ops::hardswish(a),
        "hardshrink" => tpu_ops::hardshrink(a, 0.5),
        "softshrink" => tpu_ops::softshrink(a, 0.5),
        "threshold" => tpu_ops::threshold(a, 0.5, 2.0),
        "leaky_relu" => tpu_ops::leaky_relu(a, 0.25),
        "prelu" => tpu_ops::prelu(a, &x[1]),
        "elu" => tpu_ops::elu(a, 1.0),
        "celu" => tpu_ops::celu(a, 2.0),
        "selu" => tpu_ops::selu(a),
        "softplus" => tpu_ops::softplus(a, 1.0, 20.0),
        "logsigmoid" => tpu_ops::logsigmoid(a),
        "softsign" => tpu_ops::softsign(a),
        "l1_loss" => tpu_ops::l1_loss(a, &x[1], Reduction::None),
        "smooth_l1_loss" => tpu_ops::smooth_l1_loss(a, &x[1], 1.0, Reduction::None),
        "huber_loss" => tpu_ops::huber_loss(a, &x[1], 1.0, Reduction::None),
        "bce_loss" => tpu_ops::bce_loss(a, &Tensor::from_slice(&[0.0, 0.25, 1.0])?, None, Reduction::None),
        "kl_div" => tpu_ops::kl_div(a, &Tensor::from_slice(&[0.0, 0.5])?, false, Reduction::None),
        "margin_ranking_loss" => {
            tpu_ops::margin_ranking_loss(a, &x[1], &Tensor::from_slice(&[1.0, -1.0])?, 0.0, Reduction::None)
        }
        "cosine_similarity" => tpu_ops::cosine_similarity(a, &x[1], 0, 1e-8)?.reshape(1),
        other => panic!("no function named {other}"),
    }
}

#[test]
fn gradients_at_kinks_ties_and_zeros_are_pytorchs() -> Result<()> {
    for &(name, operands, expected) in table::CONVENTIONS {
        let x: Vec<Tensor> =
            operands.iter().map(|values| requires_grad(&Tensor::from_slice(values)?)).collect::<Result<_>>()?;
        let y = apply(name, &x)?;
        let weights = Tensor::arange(1, y.elements() + 1, 1, DType::F64)?.reshape(y.shape())?;
        let loss = y.mul(&weights)?.sum_all()?;
        let gradients = grad(&[&loss], &x.iter().collect::<Vec<_>>(), GradOptions::default())?;
        for (gradient, expected) in gradients.iter().zip(expected) {
            let found = gradient.to_vec::<f64>()?;
            // Elementary functions of float64 differ by a few units in the last place.
            let close = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-14 * b.abs();
            let same = found.len() == expected.len() && found.iter().zip(*expected).all(|(&a, &b)| close(a, b));
            assert!(same, "{name}: {found:?}, PyTorch {expected:?}");
        }
    }
    Ok(())
}
