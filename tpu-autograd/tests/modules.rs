//! Modules: first values and results as PyTorch's.

#[path = "pytorch/attention.rs"]
mod attention;
#[path = "pytorch/init.rs"]
mod init;

use tpu_autograd::nn::init::{Distribution, kaiming, xavier};
use tpu_autograd::nn::{
    Conv2d, Conv2dOptions, ConvTranspose1d, ConvTransposeOptions, Embedding, Gru, Linear, Lstm, Module,
    MultiHeadAttention, RecurrentOptions, evaluating,
};
use tpu_autograd::{Backward, GradOptions, grad};
use tpu_core::{DType, ErrorKind, Result, Tensor};
use tpu_ops::{Attention, Generator};

/// The tensors that a row of the table speaks of, in order of drawing.
fn drawn(name: &str, shape: &[usize]) -> Result<Vec<Tensor>> {
    let generator = Generator::new(9);
    let module: Box<dyn Module> = match name {
        "linear" => Box::new(Linear::new(7, 3, true, DType::F64, &generator)?),
        "conv" => {
            let options = Conv2dOptions { groups: 2, ..Conv2dOptions::default() };
            Box::new(Conv2d::new(4, 6, [3, 2], options, DType::F64, &generator)?)
        }
        "conv transpose" => {
            let options = ConvTransposeOptions { groups: 2, ..Default::default() };
            Box::new(ConvTranspose1d::new(4, 6, [3], options, DType::F64, &generator)?)
        }
        "lstm" => {
            let options = RecurrentOptions { layers: 2, bidirectional: true, ..Default::default() };
            Box::new(Lstm::new(3, 4, options, DType::F64, &generator)?)
        }
        "gru" => Box::new(Gru::new(3, 4, RecurrentOptions::default(), DType::F64, &generator)?),
        "embedding" => Box::new(Embedding::new(5, 3, DType::F64, &generator)?),
        "attention" => {
            let attention = MultiHeadAttention::new(8, 2, true, DType::F64, &generator)?;
            for bias in [attention.in_proj_bias.as_ref(), attention.out_proj.bias.as_ref()] {
                assert!(bias.expect("asked for").value().to_vec::<f64>()?.iter().all(|&value| value == 0.0));
            }
            // PyTorch draws the weight of the last layer first.
            let weights = [&attention.out_proj.weight, &attention.in_proj_weight];
            return Ok(weights.iter().map(|weight| weight.value()).collect());
        }
        other => {
            let mut words = other.split(' ');
            let [rule, distribution, number] = [(); 3].map(|()| words.next().expect("three words"));
            let distribution = if distribution == "uniform" { Distribution::Uniform } else { Distribution::Normal };
            let rule = if rule == "xavier" { xavier } else { kaiming };
            let number: f64 = number.parse().expect("a number");
            return Ok(vec![rule(shape, number, distribution, DType::F64, &generator)?]);
        }
    };
    Ok(module.parameters().iter().map(|param| param.value()).collect())
}

/// Each first value is what the generator gives for PyTorch's bounds, or mean and deviation.
#[test]
fn first_values_are_drawn_from_pytorchs_distributions() -> Result<()> {
    for &(name, expected) in init::DRAWS {
        let generator = Generator::new(9);
        let mut found = drawn(name, expected[0].0)?;
        assert_eq!(found.len(), expected.len(), "{name}");
        if name == "attention" {
            // Drawn in another order here: same shapes and distributions.
            let (&(shape, ..), &(other, ..)) = (&expected[1], &expected[0]);
            assert_eq!((found[1].sizes(), found[0].sizes()), (shape, other));
            found.reverse();
        }
        let expected: Vec<_> =
            if name == "attention" { expected.iter().rev().collect() } else { expected.iter().collect() };
        for (found, &&(shape, uniform, a, b)) in found.iter().zip(&expected) {
            let want = match uniform {
                true => tpu_ops::uniform(shape, a, b, DType::F64, Some(&generator))?,
                false => tpu_ops::normal(shape, a, b, DType::F64, Some(&generator))?,
            };
            assert_eq!(found.sizes(), shape, "{name}");
            for (found, want) in found.to_vec::<f64>()?.iter().zip(want.to_vec::<f64>()?) {
                // The formulas round a few times, each 1e-16.
                assert!((found - want).abs() <= 1e-14 * b.abs(), "{name}: {found}, PyTorch {want}");
            }
        }
    }
    let error = xavier([3], 1.0, Distribution::Normal, DType::F32, &Generator::new(0)).unwrap_err();
    assert_eq!((error.kind(), error.op()), (ErrorKind::Shape, "xavier"));
    Ok(())
}

fn case(name: &str) -> (Attention<'static>, [usize; 3]) {
    match name {
        "self" => (Attention::default(), [0, 0, 0]),
        "causal" => (Attention { causal: true, ..Attention::default() }, [0, 0, 0]),
        _ => (Attention::default(), [0, 1, 2]),
    }
}

#[test]
fn attention_of_several_heads_is_pytorchs() -> Result<()> {
    let module = MultiHeadAttention::new(4, 2, true, DType::F64, &Generator::new(0))?;
    let named = module.named_parameters();
    let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]);
    for ((_, param), values) in named.iter().zip(attention::WEIGHTS) {
        param.set(Tensor::from_vec(values.to_vec(), param.shape())?)?;
    }
    let inputs = attention::INPUTS.iter().map(|values| Tensor::from_vec(values.to_vec(), [2, values.len() / 8, 4]));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let close = |name: &str, found: &Tensor, expected: &[f64]| -> Result<()> {
        let found = found.to_vec::<f64>()?;
        assert_eq!(found.len(), expected.len(), "{name}");
        for (found, expected) in found.iter().zip(expected) {
            // Sums of at most 24 products of numbers up to about 100, each rounded to 1e-16.
            assert!((found - expected).abs() < 1e-11, "{name}: {found}, PyTorch {expected}");
        }
        Ok(())
    };
    for &(name, lists) in attention::CASES {
        let [mask, result, gradients @ ..] = lists else { panic!("mask and result") };
        let (options, [q, k, v]) = case(name);
        let mask = match name {
            "masked" => Some(Tensor::from_vec(mask.to_vec(), [3, 5])?.to_dtype(DType::Bool)?),
            "added" => Some(Tensor::from_vec(mask.to_vec(), [3, 5])?),
            _ => None,
        };
        let options = Attention { mask: mask.as_ref(), ..options };
        let y = match name {
            "self" => module.forward(&inputs[0])?,
            _ => module.attend(&inputs[q], &inputs[k], &inputs[v], options)?,
        };
        close(name, &y, result)?;
        let weights = Tensor::arange(1, y.elements() + 1, 1, DType::F64)?.reshape(y.shape())?.mul(1.0 / 16.0)?;
        module.zero_grad();
        y.mul(&weights)?.sum_all()?.backward()?;
        for ((of, param), expected) in named.iter().zip(gradients) {
            close(&format!("{name}, {of}"), &param.grad().expect("takes part"), expected)?;
        }
    }
    Ok(())
}

#[test]
fn attention_drops_weights_in_training_only() -> Result<()> {
    let mut module = MultiHeadAttention::new(4, 2, true, DType::F64, &Generator::new(0))?;
    let x = Tensor::ones([1, 8, 4], DType::F64)?;
    let plain = module.forward(&x)?.to_vec::<f64>()?;
    module.dropout = 0.5;
    assert_eq!(evaluating(|| module.forward(&x))?.to_vec::<f64>()?, plain);
    assert_ne!(Generator::new(1).scope(|| module.forward(&x))?.to_vec::<f64>()?, plain);
    Ok(())
}

#[test]
fn a_padding_row_is_zero_and_gets_no_gradient() -> Result<()> {
    let table = Embedding::new(4, 2, DType::F32, &Generator::new(0))?.with_padding(3)?;
    let weight = table.weight.value();
    assert_eq!(weight.narrow(0, 3, 1)?.to_vec::<f32>()?, [0.0; 2]);
    assert!(weight.narrow(0, 0, 3)?.to_vec::<f32>()?.iter().all(|&value| value != 0.0));
    let rows = table.forward(&Tensor::from_slice(&[3i64, 1, 3, 1])?)?;
    assert_eq!(rows.narrow(0, 1, 1)?.to_vec::<f32>()?, weight.narrow(0, 1, 1)?.to_vec::<f32>()?);
    rows.sum_all()?.backward()?;
    assert_eq!(table.weight.grad().expect("takes part").to_vec::<f32>()?, [0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(table.with_padding(4).unwrap_err().kind(), ErrorKind::Index);
    Ok(())
}

/// The gradient of the loss with respect to probabilities is minus the logarithms of the softmax.
#[test]
fn cross_entropy_has_a_gradient_for_probabilities() -> Result<()> {
    let p = tpu_autograd::requires_grad(&Tensor::from_vec(vec![0.25f64, 0.75], [1, 2])?)?;
    let logits = Tensor::zeros([1, 2], DType::F64)?;
    let loss = tpu_ops::cross_entropy(&logits, &p, Default::default())?;
    let gradient = grad(&[&loss], &[&p], GradOptions::default())?;
    for value in gradient[0].to_vec::<f64>()? {
        // ln 2, once rounded.
        assert!((value - 2f64.ln()).abs() < 1e-15);
    }
    Ok(())
}
