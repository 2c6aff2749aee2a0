//! A run that is interrupted and resumed is the run that was not, bit for bit.

use examples::cnn::{self, Cnn};
use examples::data::Corpus;
use examples::gpt::{Config, Gpt};
use examples::images::{Collate, Endless, collate, synthetic};
use examples::train::Trainer;
use std::collections::BTreeMap;
use std::path::Path;
use tpu_autograd::data::{Loader, LoaderOptions};
use tpu_autograd::file::Checkpoint;
use tpu_autograd::nn::Module;
use tpu_core::{DType, Mode, Result};
use tpu_ops::Generator;

const CONFIG: Config = Config { layers: 2, width: 32, heads: 2, context: 16 };

fn trainer(dtype: DType) -> Result<Trainer> {
    Trainer::new(Gpt::new(CONFIG, &Generator::new(5))?, dtype)
}

/// Makes steps, reading every loss after the step.
fn train(trainer: &mut Trainer, text: &Corpus, steps: u64) -> Result<()> {
    for _ in 0..steps {
        let bytes = text.batch(5, trainer.step, 2, CONFIG.context)?;
        let rate = 1e-2 / (trainer.step + 1) as f64;
        let loss = trainer.step(&bytes, rate)?;
        trainer.losses.push(loss.item()?);
    }
    Ok(())
}

/// Losses, weights and everything else that a checkpoint holds.
type Everything = (Vec<u32>, Vec<Vec<u8>>, BTreeMap<String, Vec<u8>>, BTreeMap<String, String>);

fn everything(trainer: &Trainer, path: &Path) -> Result<Everything> {
    trainer.save(path, 5)?;
    let weights = trainer.model.parameters().iter().map(|param| param.value().to_bytes()).collect::<Result<_>>()?;
    let file = Checkpoint::load(path)?;
    let tensors = file.tensors.iter().map(|(name, tensor)| Ok((name.clone(), tensor.to_bytes()?)));
    let text = file.text.clone().into_iter().collect();
    let losses = trainer.losses.iter().map(|loss| loss.to_bits()).collect();
    Ok((losses, weights, tensors.collect::<Result<_>>()?, text))
}

fn resumed_equals_uninterrupted(mode: Mode, dtype: DType) {
    let folder = tempfile::tempdir().expect("a folder");
    let text = Corpus::new(include_bytes!("resume.rs").to_vec(), CONFIG.context).expect("this file is long enough");
    mode.scope(|| {
        let (whole, half) = (folder.path().join("whole"), folder.path().join("half"));
        let mut one = trainer(dtype)?;
        train(&mut one, &text, 8)?;
        let mut first = trainer(dtype)?;
        train(&mut first, &text, 4)?;
        first.save(&half, 5)?;
        drop(first);
        let mut second = trainer(dtype)?;
        assert_eq!(second.resume(&half)?, 5);
        assert_eq!(second.step, 4);
        train(&mut second, &text, 4)?;
        let (one, second) = (everything(&one, &whole)?, everything(&second, &half)?);
        assert_eq!(one.0, second.0, "losses");
        assert!(one == second, "{mode:?}: weights and checkpoints must be equal");
        assert!(f32::from_bits(one.0[7]) < f32::from_bits(one.0[0]), "it learns");
        Ok::<(), tpu_core::Error>(())
    })
    .expect("training runs");
}

#[test]
fn in_defer_and_fuse() {
    resumed_equals_uninterrupted(Mode::DeferAndFuse, DType::F32);
}

#[test]
fn in_defer_never() {
    resumed_equals_uninterrupted(Mode::DeferNever, DType::F32);
}

#[test]
fn in_defer_never_and_launch_blocking() {
    resumed_equals_uninterrupted(Mode::DeferNeverAndLaunchBlocking, DType::F32);
}

#[test]
fn in_half_precision_with_its_loss_scaler() {
    resumed_equals_uninterrupted(Mode::DeferAndFuse, DType::F16);
}

#[test]
fn a_cnn_goes_on_with_its_running_statistics_and_its_batches() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cnn");
    let run = || {
        let images = synthetic(8, 40, 1)?.train;
        let options = LoaderOptions { batch: 16, shuffle: Some(5), drop_last: true, ..Default::default() };
        let loader = Loader::new(images, collate as Collate, options)?;
        let make = || {
            let config = cnn::Config { side: 8, channels: 2, hidden: 4 };
            Trainer::new(Cnn::new(config, &Generator::new(5))?, DType::F32)
        };
        let train = |trainer: &mut Trainer<Cnn>, steps: u64| {
            let mut batches = Endless::new(&loader, trainer.step)?;
            for _ in 0..steps {
                let loss = trainer.step(&batches.next_batch()?, 1e-2)?;
                trainer.losses.push(loss.item()?);
            }
            Ok::<(), tpu_core::Error>(())
        };
        // Two batches an epoch: the break is within one.
        let (mut whole, mut half, mut rest) = (make()?, make()?, make()?);
        train(&mut whole, 7)?;
        train(&mut half, 3)?;
        half.save(&path, 5)?;
        assert_eq!(rest.resume(&path)?, 5);
        train(&mut rest, 4)?;
        assert_eq!(whole.losses, rest.losses);
        let state = |trainer: &Trainer<Cnn>| {
            let cells = trainer.model.named_state();
            cells.iter().map(|(_, cell)| cell.value().to_bytes()).collect::<Result<Vec<_>>>()
        };
        assert!(state(&whole)? == state(&rest)?, "weights and running statistics must be equal");
        assert_eq!(rest.model.named_buffers()[2].1.value().item::<i64>()?, 7);
        Ok::<(), tpu_core::Error>(())
    };
    run().expect("training runs");
}

#[test]
fn a_checkpoint_of_another_model_is_an_error_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("other");
    let run = || {
        Trainer::new(Gpt::new(Config { width: 64, ..CONFIG }, &Generator::new(1))?, DType::F32)?.save(&path, 1)?;
        let mut trainer = trainer(DType::F32)?;
        let before = trainer.model.parameters()[0].value().to_bytes()?;
        let error = trainer.resume(&path).expect_err("another width");
        assert!(error.to_string().contains("float32"), "{error}");
        assert_eq!(trainer.model.parameters()[0].value().to_bytes()?, before);
        Ok::<(), tpu_core::Error>(())
    };
    run().expect("all but resuming works");
}
