//! A step that fails while running is reported, once and always in the same place, and undone, whatever the mode and however
//! far the device has come.

use std::sync::Mutex;
use std::time::Duration;
use tpu_autograd::amp::{LossScaler, LossScalerOptions};
use tpu_autograd::file::Checkpoint;
use tpu_autograd::nn::{Embedding, Module, Sequential};
use tpu_autograd::optim::{
    Adagrad, AdagradOptions, AdamW, AdamWOptions, Optimizer, RmsProp, RmsPropOptions, Sgd, SgdOptions,
};
use tpu_autograd::{Backward, Param};
use tpu_core::{DType, Error, ErrorKind, Mode, Result, Tensor, lazy};
use tpu_ops::Generator;

/// Waiting for all devices cuts what other threads have recorded, so that tests run one after the other.
static CUTS: Mutex<()> = Mutex::new(());

const ROWS: usize = 8;
const GOOD: i64 = 3;
const BAD: i64 = 99;

type Params = Vec<(String, Param)>;
type Make = fn(Params) -> Result<Box<dyn Optimizer>>;

/// With momentum, with a count of steps, with state that does not start from zero.
const OPTIMIZERS: [Make; 4] = [
    |params| Ok(Box::new(Sgd::new(params, SgdOptions { momentum: 0.9, dampening: 0.5, ..Default::default() })?)),
    |params| Ok(Box::new(AdamW::new(params, AdamWOptions::default())?)),
    |params| Ok(Box::new(RmsProp::new(params, RmsPropOptions { centered: true, ..Default::default() })?)),
    |params| {
        Ok(Box::new(Adagrad::new(params, AdagradOptions { initial_accumulator_value: 1.0, ..Default::default() })?))
    },
];

/// What may happen between steps, which nothing may depend on.
const BETWEEN: [fn(); 3] = [|| {}, || std::thread::sleep(Duration::from_millis(2)), || lazy::synchronize().unwrap()];

struct Training {
    model: Sequential,
    optimizer: Box<dyn Optimizer>,
    loss: Option<Tensor>,
}

impl Training {
    fn new(make: Make) -> Result<Self> {
        let generator = Generator::new(7);
        let model = Sequential::new()
            .push(Embedding::new(ROWS, 4, DType::F32, &generator)?)
            .push(tpu_autograd::nn::Linear::new(4, 2, true, DType::F32, &generator)?);
        let optimizer = make(model.named_parameters())?;
        Ok(Self { model, optimizer, loss: None })
    }

    fn backward(&mut self, token: i64) -> Result<()> {
        self.optimizer.zero_grad();
        let loss = self.model.forward(&Tensor::from_slice(&[token, 1])?)?.square()?.mean_all()?;
        loss.backward()?;
        self.loss = Some(loss.detach());
        Ok(())
    }

    fn step(&mut self, token: i64) -> Result<()> {
        self.backward(token)?;
        self.optimizer.step()
    }

    /// Everything that the next step depends on.
    fn values(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let checkpoint = Checkpoint::of(&self.model, Some(&*self.optimizer))?;
        checkpoint.tensors.iter().map(|(name, tensor)| Ok((name.clone(), tensor.to_bytes()?))).collect()
    }
}

/// What a training has that made these steps and none that failed.
fn after(make: Make, tokens: &[i64]) -> Vec<(String, Vec<u8>)> {
    let mut training = Training::new(make).unwrap();
    tokens.iter().for_each(|&token| training.step(token).unwrap());
    training.values().unwrap()
}

fn is_the_failure(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Index, "{error}");
    assert!(error.to_string().contains("position 0"), "{error}");
}

/// All optimizers, modes that defer, and what happens in between.
fn everywhere(check: impl Fn(Make, fn())) {
    let _cuts = CUTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for make in OPTIMIZERS {
        for mode in [Mode::DeferAndFuse, Mode::DeferNever] {
            BETWEEN.iter().for_each(|&between| mode.scope(|| check(make, between)));
        }
    }
}

#[test]
fn a_failed_step_is_reported_by_the_second_step_after_it_and_undone() {
    everywhere(|make, between| {
        // Also the first step of all, before which there is no state.
        for start in [0, 1, 4] {
            let mut training = Training::new(make).unwrap();
            for _ in 0..start {
                training.step(GOOD).unwrap();
                between();
            }
            for token in [BAD, 4] {
                training.step(token).unwrap();
                between();
            }
            is_the_failure(&training.step(5).unwrap_err());
            let good = vec![GOOD; start];
            assert_eq!(training.values().unwrap(), after(make, &good), "after {start} steps");
            for token in [6, 7] {
                between();
                training.step(token).unwrap();
            }
            assert_eq!(training.values().unwrap(), after(make, &[&good[..], &[6, 7]].concat()), "after {start} steps");
        }
    });
}

#[test]
fn every_failure_is_reported() {
    everywhere(|make, between| {
        let mut training = Training::new(make).unwrap();
        let mut reports = Vec::new();
        for at in 0..12 {
            if let Err(error) = training.step(BAD) {
                is_the_failure(&error);
                reports.push(at);
            }
            between();
        }
        // Each report takes the step that makes it and the two before.
        assert_eq!(reports, [2, 5, 8, 11]);
    });
}

#[test]
fn a_failure_that_a_read_has_told_of_is_undone_without_another_report() {
    everywhere(|make, between| {
        let mut training = Training::new(make).unwrap();
        training.step(GOOD).unwrap();
        training.step(BAD).unwrap();
        between();
        is_the_failure(&training.loss.take().unwrap().item::<f32>().unwrap_err());
        assert_eq!(training.values().unwrap(), after(make, &[GOOD]));
        for token in [4, 5, 6] {
            training.step(token).unwrap();
            between();
        }
        assert_eq!(training.values().unwrap(), after(make, &[GOOD, 4, 5, 6]));
    });
}

#[test]
fn a_loss_that_is_read_a_step_late_undoes_both_steps() {
    everywhere(|make, between| {
        let mut training = Training::new(make).unwrap();
        training.step(GOOD).unwrap();
        training.step(BAD).unwrap();
        let loss = training.loss.take().unwrap();
        training.step(4).unwrap();
        between();
        is_the_failure(&loss.item::<f32>().unwrap_err());
        training.step(5).unwrap();
        training.step(6).unwrap();
        training.step(7).unwrap();
        assert_eq!(training.values().unwrap(), after(make, &[GOOD, 5, 6, 7]));
    });
}

#[test]
fn saving_after_a_failed_step_is_its_error_once_and_then_saves_what_was_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    everywhere(|make, between| {
        let mut training = Training::new(make).unwrap();
        training.step(GOOD).unwrap();
        training.step(BAD).unwrap();
        between();
        let save = |training: &Training| Checkpoint::of(&training.model, Some(&*training.optimizer))?.save(&path);
        is_the_failure(&save(&training).unwrap_err());
        assert!(!path.exists(), "nothing is written");
        save(&training).unwrap();
        let mut resumed = Training::new(make).unwrap();
        let saved = Checkpoint::load(&path).unwrap();
        saved.restore(&resumed.model, Some(&mut *resumed.optimizer)).unwrap();
        for token in [4, 5, 6] {
            training.step(token).unwrap();
            resumed.step(token).unwrap();
        }
        let expected = after(make, &[GOOD, 4, 5, 6]);
        assert_eq!(training.values().unwrap(), expected);
        assert_eq!(resumed.values().unwrap(), expected);
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn reading_a_parameter_after_a_failed_step_is_its_error_once() {
    everywhere(|make, between| {
        let mut training = Training::new(make).unwrap();
        let before = training.model.parameters()[0].value().to_bytes().unwrap();
        training.step(BAD).unwrap();
        between();
        let param = training.model.parameters().remove(0);
        is_the_failure(&param.value().to_bytes().unwrap_err());
        assert_eq!(param.value().to_bytes().unwrap(), before);
    });
}

#[test]
fn gradients_that_failed_and_are_used_again_after_the_report_are_a_failure_of_their_own() {
    everywhere(|make, between| {
        let mut training = Training::new(make).unwrap();
        training.step(GOOD).unwrap();
        training.backward(BAD).unwrap();
        is_the_failure(&training.loss.take().unwrap().item::<f32>().unwrap_err());
        // Whoever goes on with them regardless is told again.
        training.optimizer.step().unwrap();
        between();
        training.step(4).unwrap();
        between();
        is_the_failure(&training.step(5).unwrap_err());
        assert_eq!(training.values().unwrap(), after(make, &[GOOD]));
    });
}

#[test]
fn launching_blocking_reports_at_the_call() {
    Mode::DeferNeverAndLaunchBlocking.scope(|| {
        for make in OPTIMIZERS {
            let mut training = Training::new(make).unwrap();
            training.step(GOOD).unwrap();
            is_the_failure(&training.step(BAD).unwrap_err());
            training.step(4).unwrap();
            assert_eq!(training.values().unwrap(), after(make, &[GOOD, 4]));
        }
    });
}

#[test]
fn a_scaled_step_that_fails_leaves_the_scale_as_it_was() {
    everywhere(|make, between| {
        let scaler = LossScaler::new(LossScalerOptions { interval: 1, ..Default::default() }).unwrap();
        let mut training = Training::new(make).unwrap();
        let step = |training: &mut Training, token: i64| -> Result<()> {
            training.optimizer.zero_grad();
            let loss = training.model.forward(&Tensor::from_slice(&[token, 1])?)?.square()?.mean_all()?;
            scaler.scale(&loss)?.backward()?;
            scaler.step(&mut *training.optimizer)
        };
        step(&mut training, GOOD).unwrap();
        let before = training.values().unwrap();
        step(&mut training, BAD).unwrap();
        between();
        step(&mut training, 4).unwrap();
        is_the_failure(&step(&mut training, 5).unwrap_err());
        assert_eq!(training.values().unwrap(), before);
        // One good step, which doubled it.
        assert_eq!(scaler.current().item::<f32>().unwrap(), 131072.0);
        step(&mut training, 6).unwrap();
        assert_eq!(scaler.current().item::<f32>().unwrap(), 262144.0);
    });
}

#[test]
fn a_failed_update_that_shares_its_program_with_another_is_undone_with_it() {
    let _cuts = CUTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let make = OPTIMIZERS[1];
    let mut training = Training::new(make).unwrap();
    training.step(GOOD).unwrap();
    for token in [4, BAD] {
        training.backward(token).unwrap();
        training.optimizer.update(None).unwrap();
    }
    lazy::mark_step();
    training.step(5).unwrap();
    is_the_failure(&training.step(6).unwrap_err());
    assert_eq!(training.values().unwrap(), after(make, &[GOOD]));
}
