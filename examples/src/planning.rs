//! `train_gpt --plan`: what a step of training would take on TPUs, with no TPU.

use crate::gpt::{Config, Gpt};
use crate::train::Trainer;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::atomic::AtomicBool;
use tpu_core::plan::{Batch, Plan, Program, Progress, Search, Target};
use tpu_core::{DType, Error, ErrorKind, Result, Tensor};
use tpu_ops::Generator;

/// The program of a step once steps are alike: forward, backward and update of a model of these sizes.
pub fn step(config: Config, batch: usize, dtype: DType) -> Result<Program> {
    let programs = Program::record(
        || Trainer::new(Gpt::new(config, &Generator::new(1))?, dtype),
        |trainer| {
            let bytes = Tensor::from_vec(vec![0u8; batch * (config.context + 1)], [batch, config.context + 1])?;
            trainer.step(&bytes, 1e-3).map(drop)
        },
    )?;
    let count = programs.len();
    match <[Program; 1]>::try_from(programs) {
        Ok([program]) => Ok(program),
        Err(_) => {
            let message = format!("requires a step that is one program, got {count}");
            Err(Error::new(ErrorKind::Value, "plan", message))
        }
    }
}

/// Looks for the largest batch that fits a target, from one that is planned. Once `stop` is true no other is tried.
pub fn largest_batch(
    config: Config,
    dtype: DType,
    target: &Target,
    known: (usize, &Plan),
    stop: &AtomicBool,
) -> Result<Batch> {
    let waiting = Waiting::new();
    let search = Search { known: Some(known), start: 64, stop: Some(stop), ..Search::default() };
    target.largest_batch(search, |batch| step(config, batch, dtype), &mut |at| waiting.show(at))
}

/// A line that says what is compiled, and for how long; none off a terminal.
#[derive(Debug)]
pub struct Waiting(ProgressBar);

impl Waiting {
    /// A line that says nothing yet.
    #[expect(clippy::new_without_default, reason = "it appears on the terminal")]
    pub fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        Self(match ProgressStyle::with_template("{spinner} {msg}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    /// Says how far planning is.
    pub fn show(&self, at: Progress<'_>) {
        let batch = at.batch.map_or(String::new(), |batch| format!(" for batch {batch}"));
        self.0.set_message(format!("{}: compiling{batch}, {:.0} s", at.target, at.elapsed.as_secs_f64()));
        self.0.tick();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
