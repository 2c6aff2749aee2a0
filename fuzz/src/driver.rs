//! Runs a target: random inputs, a saved file for each failure, replay.

use crate::Outcome;
use crate::bytes::{self, Bytes};
use clap::Parser;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of its program.
    pub name: &'static str,
    /// The longest input in bytes.
    pub longest: usize,
    /// Runs a case.
    pub run: fn(Bytes<'_>) -> Outcome,
}

/// A case that takes longer hangs.
const HANGS: Duration = Duration::from_secs(60);

#[derive(Parser)]
struct Arguments {
    /// How long to run.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Names the sequence of inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this saved input instead.
    #[arg(long)]
    replay: Option<PathBuf>,
    /// With --replay: how many times, for failures that depend on how threads interleave.
    #[arg(long, default_value_t = 1)]
    times: u64,
}

/// The whole program of a target.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports to its user")]
pub fn main(target: Target) -> ExitCode {
    let arguments = Arguments::parse();
    let watch = Watch::start(target, arguments.seed);
    if let Some(path) = arguments.replay {
        let input = match std::fs::read(&path) {
            Ok(input) => input,
            Err(error) => {
                eprintln!("could not read {}: {error}", path.display());
                return ExitCode::FAILURE;
            }
        };
        for _ in 0..arguments.times.max(1) {
            if let Err(message) = watch.run(&input) {
                eprintln!("{message}");
                return ExitCode::FAILURE;
            }
        }
        println!("{}: passes {} times", target.name, arguments.times.max(1));
        return ExitCode::SUCCESS;
    }
    let start = Instant::now();
    let mut cases = 0;
    while start.elapsed() < Duration::from_secs(arguments.seconds) {
        let input = bytes::random(arguments.seed, cases, target.longest);
        if let Err(message) = watch.run(&input) {
            let input = shortest(&watch, input);
            eprintln!("case {cases} of seed {}: {message}\n{}", arguments.seed, save(target, arguments.seed, &input));
            return ExitCode::FAILURE;
        }
        cases += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{}: {cases} cases in {seconds:.1} s, {:.0} per second", target.name, cases as f64 / seconds);
    ExitCode::SUCCESS
}

/// Runs a number of cases as a test does.
///
/// # Errors
/// The first failure, and how to repeat it.
pub fn test(target: Target, seed: u64, cases: u64) -> Outcome {
    (0..cases).try_for_each(|case| {
        let input = bytes::random(seed, case, target.longest);
        attempt(target, &input)
            .map_err(|message| format!("case {case} of seed {seed}: {message}\n{}", save(target, seed, &input)))
    })
}

fn attempt(target: Target, input: &[u8]) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| (target.run)(Bytes::new(input)))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("panicked: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")))
    })
}

/// The shortest beginning of a failing input that still fails, as far as halving finds it.
fn shortest(watch: &Watch, mut input: Vec<u8>) -> Vec<u8> {
    let mut cut = input.len() / 2;
    while cut > 0 {
        let shorter = &input[..input.len() - cut];
        if watch.run(shorter).is_err() {
            input.truncate(input.len() - cut);
            cut = cut.min(input.len() / 2);
        } else {
            cut /= 2;
        }
    }
    input
}

/// Saves a failing input, and says how to replay it.
fn save(target: Target, seed: u64, input: &[u8]) -> String {
    let path = std::env::temp_dir().join(format!("fuzz-{}-{seed}.bin", target.name));
    let name = target.name;
    match std::fs::write(&path, input) {
        Ok(()) => format!("replay: cargo run -p fuzz --bin {name} -- --replay {}", path.display()),
        Err(error) => format!("could not save {}: {error}; the input is {input:?}", path.display()),
    }
}

/// Runs cases and ends the process when one hangs.
struct Watch {
    target: Target,
    running: Arc<Mutex<Option<(Instant, Vec<u8>)>>>,
}

impl Watch {
    #[expect(clippy::print_stderr, reason = "a program that reports to its user")]
    fn start(target: Target, seed: u64) -> Self {
        let running = Arc::new(Mutex::new(None::<(Instant, Vec<u8>)>));
        let watched = running.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let running = watched.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                if let Some((start, input)) = &*running
                    && start.elapsed() > HANGS
                {
                    eprintln!("a case hangs\n{}", save(target, seed, input));
                    std::process::exit(1);
                }
            }
        });
        Self { target, running }
    }

    fn run(&self, input: &[u8]) -> Outcome {
        let set = |value| *self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = value;
        set(Some((Instant::now(), input.to_vec())));
        let outcome = attempt(self.target, input);
        set(None);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_cut_short_and_a_panic_is_one() {
        fn run(bytes: Bytes<'_>) -> Outcome {
            assert!(bytes.rest().len() < 50, "fifty or more");
            crate::check!(bytes.rest().len() < 10, "ten or more");
            Ok(())
        }
        let target = Target { name: "example", longest: 100, run };
        assert_eq!(attempt(target, &[0; 9]), Ok(()));
        assert_eq!(attempt(target, &[0; 60]), Err("panicked: fifty or more".into()));
        let watch = Watch::start(target, 1);
        assert_eq!(shortest(&watch, vec![0; 77]).len(), 10);
    }
}
