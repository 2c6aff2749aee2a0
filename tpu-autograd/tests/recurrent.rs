//! LSTM, GRU and plain recurrent networks give what PyTorch's give, forward and backward.

#[path = "pytorch/recurrent.rs"]
mod table;

use tpu_autograd::nn::{Gru, Lstm, Module, RecurrentOptions, Rnn, evaluating};
use tpu_autograd::{GradOptions, Param, amp, grad, no_grad, requires_grad};
use tpu_core::{DType, Result, Tensor};
use tpu_ops::{Generator, Nonlinearity};

/// A network of any kind.
enum Network {
    Lstm(Lstm),
    Gru(Gru),
    Rnn(Rnn),
}

impl Network {
    fn new(name: &str, generator: &Generator) -> Result<Self> {
        let several = name.ends_with("state");
        let options = RecurrentOptions {
            layers: if several { 2 } else { 1 },
            bias: !name.ends_with("no bias"),
            batch_first: several,
            dropout: 0.0,
            bidirectional: several,
        };
        Ok(match name.split(' ').next() {
            Some("lstm") => Self::Lstm(Lstm::new(3, 2, options, DType::F64, generator)?),
            Some("gru") => Self::Gru(Gru::new(3, 2, options, DType::F64, generator)?),
            _ => {
                let nonlinearity = if several { Nonlinearity::Relu } else { Nonlinearity::Tanh };
                Self::Rnn(Rnn::new(3, 2, nonlinearity, options, DType::F64, generator)?)
            }
        })
    }

    fn parameters(&self) -> Vec<(String, Param)> {
        match self {
            Self::Lstm(lstm) => lstm.named_parameters(),
            Self::Gru(gru) => gru.named_parameters(),
            Self::Rnn(rnn) => rnn.named_parameters(),
        }
    }

    fn run(&self, x: &Tensor, state: Option<&[Tensor]>) -> Result<(Tensor, Vec<Tensor>)> {
        match self {
            Self::Lstm(lstm) => lstm.run(x, state),
            Self::Gru(gru) => gru.run(x, state),
            Self::Rnn(rnn) => rnn.run(x, state),
        }
    }

    fn states(&self) -> usize {
        if matches!(self, Self::Lstm(_)) { 2 } else { 1 }
    }
}

/// Fails unless both agree to what a few dozen roundings of float64, each 1e-16, leave of numbers below 1000.
fn close(found: &Tensor, expected: &[f64], about: &str) -> Result<()> {
    let found = found.to_vec::<f64>()?;
    assert_eq!(found.len(), expected.len(), "{about}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= 1e-12 * expected.abs().max(1.0),
            "{about}, {at}: {found}, PyTorch {expected}"
        );
    }
    Ok(())
}

#[test]
fn results_and_gradients_are_pytorchs() -> Result<()> {
    for &(name, tensors) in table::NETWORKS {
        let network = Network::new(name, &Generator::new(0))?;
        let params = network.parameters();
        let mut rows = tensors.iter();
        let mut row = || *rows.next().expect("a tensor");
        for (_, param) in &params {
            param.set(Tensor::from_vec(row().to_vec(), param.shape())?)?;
        }
        let several = name.ends_with("state");
        let shape = if several { [2, 4, 3] } else { [4, 2, 3] };
        let x = requires_grad(&Tensor::from_vec(row().to_vec(), shape)?)?;
        let mut states = Vec::new();
        let stateful = several || name.ends_with("no bias");
        if stateful {
            let shape = [if several { 4 } else { 1 }, 2, 2];
            for _ in 0..network.states() {
                states.push(requires_grad(&Tensor::from_vec(row().to_vec(), shape)?)?);
            }
        }
        let given = stateful.then_some(&states[..]);
        let (outputs, last) = network.run(&x, given)?;
        let (mut loss, mut at) = (Tensor::zeros([], DType::F64)?, 1);
        for (number, result) in std::iter::once(&outputs).chain(&last).enumerate() {
            close(result, row(), &format!("{name}, result {number}"))?;
            let weights = Tensor::arange(at, at + result.elements(), 1, DType::F64)?.reshape(result.shape())?;
            loss = loss.add(&result.mul(&weights.mul(1.0 / 16.0)?)?.sum_all()?)?;
            at += result.elements();
        }
        let values: Vec<Tensor> = params.iter().map(|(_, param)| param.value()).collect();
        let inputs: Vec<&Tensor> = values.iter().chain([&x]).chain(&states).collect();
        let gradients = grad(&[&loss], &inputs, GradOptions::default())?;
        for (number, gradient) in gradients.iter().enumerate() {
            let what = params.get(number).map_or("an input", |(name, _)| name);
            close(gradient, row(), &format!("{name}, gradient of {what}"))?;
        }
        // Without gradients nothing is kept for them.
        let (evaluated, _) = no_grad(|| network.run(&x, given))?;
        assert_eq!(evaluated.to_vec::<f64>()?, outputs.to_vec::<f64>()?, "{name}");
    }
    Ok(())
}

#[test]
fn states_carry_over() -> Result<()> {
    let lstm = Lstm::new(3, 2, RecurrentOptions::default(), DType::F64, &Generator::new(1))?;
    let x = tpu_ops::normal([6, 2, 3], 0.0, 1.0, DType::F64, Some(&Generator::new(2)))?;
    let (whole, last) = lstm.run(&x, None)?;
    let (_, middle) = lstm.run(&x.narrow(0, 0, 4)?, None)?;
    let (end, again) = lstm.run(&x.narrow(0, 4, 2)?, Some(&middle))?;
    assert_eq!(whole.narrow(0, 4, 2)?.to_vec::<f64>()?, end.to_vec::<f64>()?);
    assert_eq!(last[1].to_vec::<f64>()?, again[1].to_vec::<f64>()?);
    let error = lstm.run(&x, Some(&middle[..1])).unwrap_err();
    assert!(error.to_string().contains("requires 2 tensors as state, got 1"), "{error}");
    Ok(())
}

#[test]
fn dropout_is_between_layers_and_in_training_only() -> Result<()> {
    let options = |layers, dropout| RecurrentOptions { layers, dropout, ..RecurrentOptions::default() };
    let make = |layers, dropout| Gru::new(3, 2, options(layers, dropout), DType::F64, &Generator::new(1));
    let x = tpu_ops::normal([4, 2, 3], 0.0, 1.0, DType::F64, Some(&Generator::new(2)))?;
    let values = |gru: &Gru| gru.forward(&x)?.to_vec::<f64>();
    assert_eq!(values(&make(1, 0.5)?)?, values(&make(1, 0.0)?)?, "the last layer is not dropped");
    let (plain, dropping) = (make(2, 0.0)?, make(2, 0.5)?);
    assert_ne!(values(&dropping)?, values(&plain)?);
    assert_eq!(evaluating(|| values(&dropping))?, values(&plain)?);
    assert!(make(2, 1.5).is_err() && make(0, 0.0).is_err());
    Ok(())
}

#[test]
fn sixteen_bits_round_the_state_and_nothing_inside() -> Result<()> {
    let lstm = Lstm::new(3, 2, RecurrentOptions::default(), DType::F32, &Generator::new(1))?;
    let x = tpu_ops::normal([4, 2, 3], 0.0, 1.0, DType::F32, Some(&Generator::new(2)))?;
    let wide = lstm.forward(&x)?.to_vec::<f32>()?;
    let narrow = amp::autocast(DType::BF16, || lstm.forward(&x))?;
    assert_eq!(narrow.dtype(), DType::BF16);
    narrow.to_dtype(DType::F32)?.sum_all()?.item::<f32>()?;
    for (a, b) in wide.iter().zip(narrow.to_dtype(DType::F32)?.to_vec::<f32>()?) {
        // Inputs, weights and states below 3, rounded to 8 bits, in sums of 5 over 4 steps whose derivatives are below 1.
        assert!((a - b).abs() < 0.05, "{a} and {b}");
    }
    Ok(())
}
