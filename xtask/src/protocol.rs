//! The conversation with a program that is measured.
//!
//! The program prints `ready` after it has set itself up and warmed up. Then, one line each: `run` is answered with the
//! milliseconds that one run of the work took, `memory` with the bytes by which the process's peak has grown since it
//! began to set up. At the end of its input it exits. Both sides of a comparison speak this, so that single runs can
//! alternate: what else the machine does then hits both alike.

use crate::{Result, process};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program that is measured.
pub struct Measured {
    name: String,
    child: Child,
    // Taken at the end: closing it tells the program to exit.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Measured {
    /// Starts the program and waits until it is ready.
    pub fn start(command: &mut Command) -> Result<Self> {
        let name = process::line(command);
        println!("$ {name}");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("could not start `{name}`: {e}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("`{name}` has no input or output"));
        };
        let mut measured = Self { name, child, input: Some(input), output: BufReader::new(output) };
        let line = measured.read()?;
        if line != "ready" {
            return Err(format!("`{}` must say `ready`, got `{line}`", measured.name));
        }
        Ok(measured)
    }

    /// Milliseconds of one run.
    pub fn run(&mut self) -> Result<f64> {
        self.ask("run")
    }

    /// Bytes by which the peak of memory has grown.
    pub fn memory(&mut self) -> Result<f64> {
        self.ask("memory")
    }

    fn ask(&mut self, question: &str) -> Result<f64> {
        let name = &self.name;
        let input = self.input.as_mut().ok_or_else(|| format!("`{name}` has ended"))?;
        writeln!(input, "{question}").and_then(|()| input.flush()).map_err(|e| format!("`{name}` has ended: {e}"))?;
        let line = self.read()?;
        number(&line).ok_or_else(|| format!("`{}` must answer `{question}` with a number, got `{line}`", self.name))
    }

    fn read(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err(format!("`{}` ended too early", self.name)),
            Ok(_) => Ok(line.trim().to_owned()),
            Err(e) => Err(format!("could not read `{}`: {e}", self.name)),
        }
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        drop(self.input.take());
        // It has nothing left to do; if it cannot be waited for it is gone already.
        let _ = self.child.wait();
    }
}

/// A finite number that is not negative: the only sensible answer.
fn number(line: &str) -> Option<f64> {
    line.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)
}

/// The middle one; of an even number the mean of the two.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => f64::NAN,
        _ if n % 2 == 1 => values[n / 2],
        _ => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sensible_numbers_are_answers() {
        assert_eq!(number("12.5"), Some(12.5));
        for line in ["", "ready", "-1", "NaN", "inf", "1 2"] {
            assert_eq!(number(line), None, "{line}");
        }
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[cfg(unix)]
    #[test]
    fn a_program_answers_until_its_input_ends() {
        let script = "echo ready; while read line; do case $line in run) echo 1.5;; *) echo 4096;; esac; done";
        let mut measured = Measured::start(Command::new("sh").args(["-c", script])).unwrap();
        assert_eq!(measured.run().unwrap(), 1.5);
        assert_eq!(measured.memory().unwrap(), 4096.0);
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_breaks_off_is_named() {
        let error = Measured::start(Command::new("sh").args(["-c", "exit 3"])).err().unwrap();
        assert!(error.contains("`sh -c 'exit 3'` ended too early"), "{error}");
        let mut measured = Measured::start(Command::new("sh").args(["-c", "echo ready; read x; echo soon"])).unwrap();
        assert!(measured.run().unwrap_err().contains("with a number, got `soon`"));
    }
}
