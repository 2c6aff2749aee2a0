//! A new batch size or sequence length compiles nothing, and what runs then gives the bits of what is compiled for it. Counters are
//! of the whole process, so all of it runs in one test.

use examples::cnn::{self, Cnn};
use examples::gpt::{self, Gpt};
use examples::images::Labelled;
use examples::lstm::{self, ByteLstm};
use examples::train::{Learner, Trainer};
use tpu_core::lazy::{self, Statistics};
use tpu_core::{DType, Device, Result, Tensor};
use tpu_ops::Generator;

/// Bytes `[batch, time + 1]`.
fn bytes(batch: usize, time: usize) -> Result<Tensor> {
    let bytes = (0..batch * (time + 1)).map(|at| (at * 37 % 251) as u8).collect();
    Tensor::from_vec(bytes, [batch, time + 1])
}

fn drawings(batch: usize, side: usize) -> Result<Labelled> {
    let pixels = (0..batch * side * side).map(|at| (at * 53 % 256) as u8).collect();
    let labels = (0..batch).map(|at| (at % 10) as u8).collect();
    Ok(Labelled { images: Tensor::from_vec(pixels, [batch, 1, side, side])?, labels: Tensor::from_vec(labels, batch)? })
}

/// A few steps on the first batch and one on each of the others, before each of which the program cache is emptied if `anew`. The bits
/// of all losses and of the weights after them, and what happened in the steps on others.
fn trained<M: Learner>(model: M, batches: &[M::Batch], anew: bool) -> Result<(Vec<Vec<u32>>, Statistics)> {
    let mut trainer = Trainer::new(model, DType::F32)?;
    let mut bits = Vec::new();
    let mut step = |batch: &M::Batch| -> Result<()> {
        bits.push(trainer.step(batch, 1e-3)?.to_vec::<f32>()?.into_iter().map(f32::to_bits).collect());
        lazy::synchronize()
    };
    let (first, others) = (&batches[0], &batches[1..]);
    for _ in 0..3 {
        step(first)?;
    }
    let before = lazy::statistics();
    for batch in others {
        if anew {
            Device::host()?.clear_program_cache();
        }
        step(batch)?;
    }
    let done = lazy::statistics().since(&before);
    for (_, param) in trainer.model.named_parameters() {
        bits.push(param.value().to_vec::<f32>()?.into_iter().map(f32::to_bits).collect());
    }
    Ok((bits, done))
}

fn compiles_nothing<M: Learner>(name: &str, model: impl Fn() -> Result<M>, batches: &[M::Batch]) -> Result<()> {
    let sizes = batches.len() as u64 - 1;
    Device::host()?.clear_program_cache();
    let (bits, done) = trained(model()?, batches, false)?;
    let causes = lazy::compile_causes();
    assert_eq!((done.compiles, done.resizes), (0, sizes), "{name}: {done}\n{causes:#?}");
    let (anew, done) = trained(model()?, batches, true)?;
    assert!(done.compiles >= sizes && done.resizes == 0, "{name}: {done}");
    assert!(bits == anew, "{name}: other bits than what is compiled for the sizes");
    Ok(())
}

/// No size of a batch is one of the model's: sizes that are equal are part of a program's structure. Products of more than 256
/// results, as all of these are, have an order of sums of their own.
fn run() -> Result<()> {
    let config = gpt::Config { layers: 2, width: 24, heads: 2, context: 32 };
    let batches = [(5, 13), (7, 13), (5, 17), (11, 19)].map(|(batch, time)| bytes(batch, time));
    let batches = batches.into_iter().collect::<Result<Vec<_>>>()?;
    compiles_nothing("gpt", || Gpt::new(config, &Generator::new(1)), &batches)?;

    let config = lstm::Config { layers: 2, width: 9, hidden: 15, dropout: 0.0 };
    let batches = [(5, 13), (7, 13), (5, 17), (11, 19)].map(|(batch, time)| bytes(batch, time));
    let batches = batches.into_iter().collect::<Result<Vec<_>>>()?;
    compiles_nothing("lstm", || ByteLstm::new(config, &Generator::new(1)), &batches)?;

    let config = cnn::Config { side: 12, channels: 4, hidden: 20 };
    let batches = [31, 37, 53].map(|batch| drawings(batch, 12)).into_iter().collect::<Result<Vec<_>>>()?;
    compiles_nothing("cnn", || Cnn::new(config, &Generator::new(1)), &batches)
}

#[test]
fn a_new_batch_size_or_sequence_length_compiles_nothing() {
    run().expect("training runs");
}
