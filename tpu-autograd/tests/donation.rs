//! What a step of training gives away on a plugin, when its indices are checked.

use tpu_autograd::nn::{Embedding, Linear, Module};
use tpu_autograd::optim::{AdamW, AdamWOptions, Optimizer};
use tpu_autograd::{Backward, Param};
use tpu_core::plan::Program;
use tpu_core::{DType, Result, Tensor, lazy};
use tpu_ops::{Generator, cross_entropy};

/// A bigram model.
struct Model {
    table: Embedding,
    head: Linear,
}

#[test]
fn parameters_and_both_moments_are_updated_in_place_with_tokens_of_int64() -> Result<()> {
    const TOKENS: usize = 50;
    const WIDTH: usize = 8;
    let make = || {
        let generator = Generator::new(1);
        let table = Embedding::new(TOKENS, WIDTH, DType::F32, &generator)?;
        let head = Linear::new(WIDTH, TOKENS, true, DType::F32, &generator)?;
        let named = |module: &dyn Module, name: &str| {
            let parameters = module.named_parameters().into_iter();
            parameters.map(|(own, param)| (format!("{name}.{own}"), param)).collect::<Vec<(String, Param)>>()
        };
        let optimizer = AdamW::new([named(&table, "table"), named(&head, "head")].concat(), AdamWOptions::default())?;
        Ok((Model { table, head }, optimizer))
    };
    let programs = Program::record(make, |(model, optimizer)| {
        let (tokens, next) = (Tensor::from_slice(&[1i64, 2, 3, 4])?, Tensor::from_slice(&[2i64, 3, 4, 5])?);
        let logits = model.head.forward(&model.table.forward(&tokens)?)?;
        cross_entropy(&logits, &next, Default::default())?.backward()?;
        optimizer.update(None)?;
        optimizer.zero_grad();
        lazy::mark_step();
        Ok(())
    })?;
    let [program] = &programs[..] else { panic!("{} programs", programs.len()) };
    let main = program.text().lines().find(|line| line.contains("@main")).expect("a program has a main function");
    // Three parameters, each with two averages; each takes the place of one result, which is of its type.
    assert!(main.contains("tpu_core.checks = "), "{main}");
    assert_eq!(main.matches("tf.aliasing_output").count(), 9, "{main}");
    let (parameters, results) = main.split_once(" -> ").expect("it has results");
    let types = |list: &str| {
        list.split("tensor<").skip(1).map(|ty| ty.split('>').next().unwrap_or("").to_string()).collect::<Vec<_>>()
    };
    let results = types(results);
    for parameter in parameters.split("tensor<").skip(1) {
        let Some((_, tied)) = parameter.split_once("tf.aliasing_output = ") else { continue };
        let result: usize =
            tied.split(' ').next().and_then(|number| number.parse().ok()).expect("a number of a result");
        assert_eq!(parameter.split('>').next(), Some(&*results[result]), "{main}");
    }
    Ok(())
}
