//! Composites with a derivative of their own.

use crate::differences::{check, given};
use tpu_autograd::{Backward, Param};
use tpu_core::{DType, Mode, Result, Tensor};
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

/// Result and gradients of an attention whose heads share keys, of queries that are no whole number of blocks.
fn attention_gradients(inputs: &[Tensor], dtype: DType) -> Result<Vec<Vec<f64>>> {
    let params: Vec<Param> = inputs[..3].iter().map(|x| Ok(Param::new(x.to_dtype(dtype)?))).collect::<Result<_>>()?;
    let [q, k, v] = [0, 1, 2].map(|at| params[at].value());
    // As a model has them: heads in between in memory.
    let turned = |x: &Tensor| x.transpose(1, 2);
    let options = Attention { causal: true, ..Attention::default() };
    let y = scaled_dot_product_attention(&turned(&q)?, &turned(&k)?, &turned(&v)?, options)?;
    y.mul(&inputs[3].to_dtype(dtype)?)?.sum_all()?.backward()?;
    let gradients = params.iter().map(|param| param.grad().expect("one is needed"));
    let all = std::iter::once(y.detach()).chain(gradients);
    all.map(|x| x.to_dtype(DType::F64)?.to_vec::<f64>()).collect()
}

#[test]
fn attention_by_blocks_has_the_gradients_of_its_body_and_the_same_bits_in_every_mode() -> Result<()> {
    let generator = Generator::new(3);
    let random = |sizes: [usize; 4]| tpu_ops::uniform(sizes, -1.0, 1.0, DType::F32, Some(&generator));
    let inputs =
        [random([2, 150, 4, 16])?, random([2, 150, 2, 16])?, random([2, 150, 2, 20])?, random([2, 4, 150, 20])?];
    inputs.iter().try_for_each(Tensor::wait)?;
    let blocks = attention_gradients(&inputs, DType::F32)?;
    // Double precision has no kernel: op by op as the body says.
    let body = attention_gradients(&inputs, DType::F64)?;
    for (at, (blocks, body)) in blocks.iter().zip(&body).enumerate() {
        // A weight is known to 200 roundings, of products of 16 numbers, and a sum of 300 terms adds 300: 500 of the sum of
        // magnitudes. A key's weights are about 1 / (i + 1) for query i, times e² at the most for such numbers: 2 heads and
        // the logarithm of 150 make that sum 74. What else is summed is smaller. The host's own tests have a bound per element.
        let bound = 500.0 * 74.0 * f64::from(f32::EPSILON) / 2.0;
        for (x, y) in blocks.iter().zip(body) {
            assert!((x - y).abs() <= bound, "result {at}: got {x}, want {y} ± {bound}");
        }
    }
    for mode in [Mode::DeferNever, Mode::DeferNeverAndLaunchBlocking, Mode::DeferAndFuse] {
        assert_eq!(mode.scope(|| attention_gradients(&inputs, DType::F32))?, blocks, "{mode:?}");
    }
    Ok(())
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
