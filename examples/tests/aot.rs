//! Steps of training compile for TPUs ahead of time, fit, and give their arguments' memory to their results.
#![allow(clippy::print_stderr, reason = "a test that does not run says so")]

use examples::gpt::Config;
use examples::lstm::{self, ByteLstm};
use examples::planning;
use examples::train::{Learner, Trainer};
use std::path::Path;
use tpu_autograd::nn::{Conv2d, Conv2dOptions, Linear, Module};
use tpu_autograd::optim::{Optimizer, Sgd, SgdOptions};
use tpu_autograd::{Backward, Param};
use tpu_core::plan::{Compiler, Program};
use tpu_core::{DType, Result, Tensor, lazy};
use tpu_ops::{Generator, MaxPool2d, cross_entropy, max_pool2d, relu};

const TARGETS: [&str; 3] = ["v5e:1x1", "v6e:1x1", "tpu7x:1x1x1"];

fn compiler() -> Option<Compiler> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/plugins/libtpu/libtpu/libtpu.so");
    if path.is_file() {
        return Some(Compiler::open(path).unwrap());
    }
    let message = format!("{} is not there: run `cargo xtask plugins`", path.display());
    assert!(std::env::var_os("CI").is_none(), "{message}");
    eprintln!("skipped: {message}");
    None
}

/// Whether steps have the sizes of real training: `cargo xtask aot` compiles these.
fn is_full() -> bool {
    std::env::var_os("TPU_TEST_FULL").is_some()
}

/// The step compiles for all targets, and `state` bytes of what it is given are overwritten by what it gives.
fn compiles(program: &Program, state: u64) {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        let plan = compiler.target(target).unwrap().plan(program, &mut |_| {}).unwrap();
        let figures = plan.outcome.as_ref().unwrap_or_else(|refusal| panic!("{target}: {}", refusal.error));
        if is_full() {
            eprintln!("{plan}");
        }
        // A little more than the state: layouts pad small arrays.
        assert!(figures.memory.aliased >= state, "{state} bytes of state: {plan}");
        assert!(figures.memory.outputs - figures.memory.aliased < state / 100, "{plan}");
        let mut operations = figures.estimate.operations.iter();
        assert!(operations.all(|operation| operation.places.iter().all(|place| place.file.ends_with(".rs"))), "{plan}");
    }
}

#[test]
fn a_step_of_a_gpt_compiles_and_updates_in_place() {
    let config = Config { layers: 1, width: 64, heads: 1, context: 32 };
    let program = planning::step(config, 2, DType::F32).unwrap();
    let size = examples::gpt::Gpt::new(config, &Generator::new(1)).unwrap().size();
    // Parameters and both averages of AdamW, in f32.
    compiles(&program, 3 * 4 * size as u64);
}

struct Cnn {
    conv: Conv2d,
    head: Linear,
}

impl Cnn {
    fn loss(&self, images: &Tensor, labels: &Tensor) -> Result<Tensor> {
        let x = relu(&self.conv.forward(images)?)?;
        let x = max_pool2d(&x, [2, 2], MaxPool2d::default())?;
        cross_entropy(&self.head.forward(&x.flatten(1, -1)?)?, labels, Default::default())
    }
}

#[test]
fn a_step_of_a_cnn_compiles_and_updates_in_place() {
    let mut state = 0;
    let (batch, size, channels) = if is_full() { (128, 32, 64) } else { (4, 16, 8) };
    let make = || {
        let generator = Generator::new(1);
        let options = Conv2dOptions { padding: [1, 1], ..Default::default() };
        let conv = Conv2d::new(3, channels, [3, 3], options, DType::F32, &generator)?;
        let head = Linear::new(channels * (size / 2) * (size / 2), 256, true, DType::F32, &generator)?;
        let named = |module: &dyn Module, name: &str| {
            let parameters = module.named_parameters().into_iter();
            parameters.map(|(own, param)| (format!("{name}.{own}"), param)).collect::<Vec<_>>()
        };
        let parameters = [named(&conv, "conv"), named(&head, "head")].concat();
        state = parameters.iter().map(|(_, param): &(String, Param)| 4 * param.elements() as u64).sum();
        let options = SgdOptions { lr: 0.1, ..Default::default() };
        Ok((Cnn { conv, head }, Sgd::new(parameters, options)?))
    };
    let step = |(model, optimizer): &mut (Cnn, Sgd)| {
        let images = Tensor::from_vec(vec![0f32; batch * 3 * size * size], [batch, 3, size, size])?;
        let labels = Tensor::from_vec(vec![1u8; batch], [batch])?;
        model.loss(&images, &labels)?.backward()?;
        optimizer.update(None)?;
        optimizer.zero_grad();
        lazy::mark_step();
        Ok(())
    };
    let programs = Program::record(make, step).unwrap();
    assert_eq!(programs.len(), 1);
    compiles(&programs[0], state);
}

#[test]
fn a_step_of_an_lstm_compiles_and_updates_in_place() {
    let mut state = 0;
    let make = || {
        let config = lstm::Config { layers: 1, width: 16, hidden: 128, dropout: 0.0 };
        let model = ByteLstm::new(config, &Generator::new(1))?;
        // Parameters and both averages of AdamW, in f32.
        state = 3 * 4 * model.size() as u64;
        Trainer::new(model, DType::F32)
    };
    let step =
        |trainer: &mut Trainer<ByteLstm>| trainer.step(&Tensor::from_vec(vec![0u8; 2 * 33], [2, 33])?, 1e-3).map(drop);
    let programs = Program::record(make, step).unwrap();
    assert_eq!(programs.len(), 1);
    compiles(&programs[0], state);
}
