//! Composites with a derivative of their own.

use crate::differences::{check, given};
use tpu_core::{DType, Tensor};
use tpu_ops::{Attention, CrossEntropy, Gelu, Generator, scaled_dot_product_attention};

#[test]
fn softmax_and_its_logarithms() {
    for axis in [0, 1, -1] {
        check("softmax", 2, &[given(&[3, 4], -1.0, 1.5)], 3, &|x| {
            Ok(vec![tpu_ops::softmax(&x[0], axis)?, tpu_ops::log_softmax(&x[0].square()?, axis)?])
        })
        .unwrap();
        for keep in [false, true] {
            check("logsumexp", 2, &[given(&[3, 4], -1.0, 1.5)], 3, &|x| {
                Ok(vec![tpu_ops::logsumexp(&x[0], axis, keep)?])
            })
            .unwrap();
        }
    }
}

#[test]
fn activations() {
    for form in [Gelu::Erf, Gelu::Tanh] {
        check("gelu", 2, &[given(&[3, 4], -2.0, 2.5)], 3, &|x| Ok(vec![tpu_ops::gelu(&x[0], form)?])).unwrap();
    }
    check("silu", 2, &[given(&[3, 4], -2.0, 2.5)], 3, &|x| Ok(vec![tpu_ops::silu(&x[0])?])).unwrap();
}

#[test]
fn norms() {
    let operands = [given(&[2, 3, 4], -1.0, 1.5), given(&[4], 0.5, 1.5), given(&[4], -0.5, 0.5)];
    check("layer_norm", 2, &operands, 3, &|x| {
        Ok(vec![tpu_ops::layer_norm(&x[0], &[4], Some(&x[1]), Some(&x[2]), 1e-5)?])
    })
    .unwrap();
    check("layer_norm with bias only", 2, &[operands[0].clone(), operands[2].clone()], 3, &|x| {
        Ok(vec![tpu_ops::layer_norm(&x[0], &[4], None, Some(&x[1]), 1e-5)?])
    })
    .unwrap();
    check("layer_norm over two axes", 2, &operands[..1], 3, &|x| {
        Ok(vec![tpu_ops::layer_norm(&x[0], &[3, 4], None, None, 1e-5)?])
    })
    .unwrap();
    check("rms_norm", 2, &operands[..2], 3, &|x| Ok(vec![tpu_ops::rms_norm(&x[0], &[4], Some(&x[1]), 1e-5)?])).unwrap();
}

#[test]
fn attention_with_shared_heads_and_masks() {
    let q = given(&[2, 4, 3, 2], -1.0, 1.0);
    let (k, v) = (given(&[2, 2, 5, 2], -1.0, 1.0), given(&[2, 2, 5, 3], -1.0, 1.0));
    for causal in [false, true] {
        check("attention", 2, &[q.clone(), k.clone(), v.clone()], 3, &|x| {
            let options = Attention { causal, ..Attention::default() };
            Ok(vec![scaled_dot_product_attention(&x[0], &x[1], &x[2], options)?])
        })
        .unwrap();
    }
    let mask = given(&[4, 1, 5], -1.0, 1.0);
    check("attention with added mask", 2, &[q.clone(), k.clone(), v.clone(), mask], 3, &|x| {
        let options = Attention { mask: Some(&x[3]), scale: Some(0.7), ..Attention::default() };
        Ok(vec![scaled_dot_product_attention(&x[0], &x[1], &x[2], options)?])
    })
    .unwrap();
    // The second query sees nothing.
    let seen = [true, false, true, true, false, false, false, false, false, false, true, true, true, true, true];
    check("attention with bool mask", 2, &[q, k, v], 3, &|x| {
        let mask = Tensor::from_vec(seen.to_vec(), [3, 5])?;
        let options = Attention { mask: Some(&mask), ..Attention::default() };
        Ok(vec![scaled_dot_product_attention(&x[0], &x[1], &x[2], options)?])
    })
    .unwrap();
    let flat = [given(&[3, 2], -1.0, 1.0), given(&[4, 2], -1.0, 1.0), given(&[4, 2], -1.0, 1.0)];
    check("attention without heads", 2, &flat, 3, &|x| {
        Ok(vec![scaled_dot_product_attention(&x[0], &x[1], &x[2], Attention::default())?])
    })
    .unwrap();
}

#[test]
fn attention_with_dropout() {
    let operands = [given(&[2, 4, 3, 2], -1.0, 1.0), given(&[2, 2, 5, 2], -1.0, 1.0), given(&[2, 2, 5, 3], -1.0, 1.0)];
    check("attention with dropout", 2, &operands, 3, &|x| {
        // The same mask every time.
        let generator = Generator::new(4);
        let options = Attention { causal: true, dropout: 0.4, generator: Some(&generator), ..Attention::default() };
        Ok(vec![scaled_dot_product_attention(&x[0], &x[1], &x[2], options)?])
    })
    .unwrap();
}

#[test]
fn cross_entropy_of_probabilities() {
    for label_smoothing in [0.0, 0.2] {
        let operands = [given(&[3, 4, 2], -1.0, 1.5), given(&[3, 4, 2], 0.1, 1.0), given(&[4], 0.5, 1.5)];
        check("cross_entropy of probabilities", 2, &operands, 3, &|x| {
            let options = CrossEntropy { weight: Some(&x[2]), label_smoothing, ..CrossEntropy::default() };
            Ok(vec![tpu_ops::cross_entropy(&x[0], &x[1], options)?])
        })
        .unwrap();
    }
}

#[test]
fn cross_entropy() {
    let target = Tensor::from_slice(&[1i64, 0, 3]).unwrap();
    check("cross_entropy", 2, &[given(&[3, 4], -1.0, 1.5)], 3, &|x| {
        Ok(vec![tpu_ops::cross_entropy(&x[0], &target, CrossEntropy::default())?])
    })
    .unwrap();
}

#[test]
fn half_precision_gradients_keep_the_dtype() {
    let x = Tensor::from_vec(vec![0.5f32, -1.0, 2.0, 0.25], [2, 2]).unwrap().to_dtype(DType::BF16).unwrap();
    let x = tpu_autograd::requires_grad(&x).unwrap();
    let weight = tpu_autograd::requires_grad(&Tensor::ones([2], DType::BF16).unwrap()).unwrap();
    let y = tpu_ops::gelu(&tpu_ops::layer_norm(&x, &[2], Some(&weight), None, 1e-5).unwrap(), Gelu::Tanh).unwrap();
    let loss = tpu_ops::softmax(&y, -1).unwrap().square().unwrap().sum_all().unwrap();
    for gradient in tpu_autograd::grad(&[&loss], &[&x, &weight], Default::default()).unwrap() {
        assert_eq!(gradient.dtype(), DType::BF16);
    }
}
