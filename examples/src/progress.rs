//! How training goes: a bar on a terminal, plain lines elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Between two plain lines.
const EVERY: Duration = Duration::from_secs(5);

/// The progress of a run of training.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    start: Instant,
    last_line: Option<Instant>,
    first_step: u64,
    last_step: Option<u64>,
    /// What a step has many of, and how many.
    per_step: (&'static str, u64),
}

/// What there is to say after a step.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Steps made since training began, in earlier runs too.
    pub step: u64,
    /// Of the batch.
    pub loss: f32,
    /// The most bytes the device has held.
    pub peak_memory: usize,
}

impl Progress {
    /// Of the steps from `first` on, each of so many things of a name; to `last`, unless something else ends them.
    pub fn new(first_step: u64, last_step: Option<u64>, per_step: (&'static str, u64)) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let (bar, template) = match last_step {
                Some(last) => (ProgressBar::new(last), "{bar:30} {pos}/{len} {msg} [{elapsed_precise}, {eta} left]"),
                None => (ProgressBar::no_length(), "{spinner} step {pos} {msg} [{elapsed_precise}]"),
            };
            let bar = bar.with_position(first_step).with_elapsed(Duration::ZERO);
            bar.reset_eta();
            match ProgressStyle::with_template(template) {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        let start = Instant::now();
        Self { bar, start, last_line: None, first_step, last_step, per_step }
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Says how it goes; off a terminal now and then only.
    #[expect(clippy::print_stderr, reason = "progress of an interactive program")]
    pub fn report(&mut self, report: Report) {
        let Report { step, loss, peak_memory } = report;
        let (things, count) = self.per_step;
        let speed = ((step - self.first_step) * count) as f64 / self.elapsed().as_secs_f64();
        let text = format!("loss {loss:.4}, {speed:.0} {things}/s, peak {:.0} MB", peak_memory as f64 / 1e6);
        match &self.bar {
            Some(bar) => {
                bar.set_position(step);
                bar.set_message(text);
            }
            None if Some(step) == self.last_step || self.last_line.is_none_or(|line| line.elapsed() >= EVERY) => {
                self.last_line = Some(Instant::now());
                let of = self.last_step.map_or(String::new(), |last| format!("/{last}"));
                eprintln!("step {step}{of}: {text}");
            }
            None => {}
        }
    }

    /// Prints a line without disturbing the bar.
    #[expect(clippy::print_stderr, reason = "progress of an interactive program")]
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => eprintln!("{text}"),
        }
    }

    /// Leaves the bar as it is.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.abandon();
        }
    }
}
