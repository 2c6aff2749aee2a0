//! Training a classifier of images, the same for each model.

use crate::driver::{self, Run, say};
use crate::images::{Collate, Endless, Labelled, Split, accuracy, collate};
use crate::train::{Learner, Schedule};
use tpu_autograd::data::{Dataset, Loader, LoaderOptions};
use tpu_core::Result;

/// How a classifier is trained, of the programs that train one.
pub struct Training<'a> {
    /// The program, and the folder of what it leaves.
    pub name: &'static str,
    /// What all programs have.
    pub options: &'a driver::Options,
    /// Passes over the images.
    pub epochs: u64,
    /// Steps instead, on top of those of a checkpoint.
    pub steps: Option<u64>,
    /// Images per step.
    pub batch: usize,
    /// The highest learning rate, and the steps in which it rises.
    pub rate: (f64, u64),
    /// Steps between looks at the test images; 0: only at the end.
    pub eval_every: u64,
}

impl Training<'_> {
    /// Trains the model and says how many of the test images it knows.
    pub fn run<M: Learner<Batch = Labelled>>(&self, model: M, data: Split) -> Result<()> {
        let (mut trainer, seed) = self.options.trainer(self.name, model)?;
        say(&format!(
            "{} parameters, {} images to learn, {} to test with",
            trainer.model.size(),
            data.train.len(),
            data.test.len()
        ));
        let test = data.test.batches(500)?;
        let batch = self.batch;
        let loader = LoaderOptions { batch, shuffle: Some(seed), drop_last: true, ..LoaderOptions::default() };
        let loader = Loader::new(data.train, collate as Collate, loader)?;
        let total = self.epochs * loader.batches() as u64;
        let time = self.options.time();
        let run = Run {
            name: self.name,
            options: self.options,
            steps: self.steps.or(if time.is_some() { None } else { Some(total.saturating_sub(trainer.step)) }),
            schedule: Schedule::new(self.rate.0, self.rate.1, total, time),
            eval_every: self.eval_every,
            per_step: ("images", batch as u64),
            unit: "nats",
        };
        let mut batches = Endless::new(&loader, trainer.step)?;
        run.train(
            &mut trainer,
            seed,
            |_| batches.next_batch(),
            |trainer| {
                let (loss, right) = (trainer.evaluate(&test)?, accuracy(&trainer.model, &test)?);
                Ok((loss, format!("{:.2} % right, {loss:.4} nats", right * 100.0)))
            },
        )
    }
}
