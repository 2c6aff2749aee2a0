//! The conversation with a program that is measured: a line asks, a line answers. `benches/peers/README.md` describes it.

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

/// Milliseconds of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Time {
    /// By the wall.
    pub wall: f64,
    /// Of all threads together.
    pub processor: f64,
}

impl Measured {
    /// Starts the program. Its errors go where ours go.
    pub fn start(command: &mut Command) -> Result<Self> {
        let name = process::line(command);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("could not start `{name}`: {e}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("`{name}` has no input or output"));
        };
        Ok(Self { name, child, input: Some(input), output: BufReader::new(output) })
    }

    /// Sets a case up, and gives milliseconds of its second run.
    pub fn case(&mut self, case: &str) -> Result<f64> {
        let question = format!("case {case}");
        let line = self.ask(&question)?;
        let time = line.strip_prefix("ready ").and_then(number);
        time.ok_or_else(|| self.unexpected(&question, "`ready` and a number", &line))
    }

    /// The mean time of some runs.
    pub fn run(&mut self, count: u32) -> Result<Time> {
        let question = format!("run {count}");
        let line = self.ask(&question)?;
        let time = line.split_once(' ').and_then(|(wall, processor)| Some((number(wall)?, number(processor)?)));
        let (wall, processor) = time.ok_or_else(|| self.unexpected(&question, "two numbers", &line))?;
        Ok(Time { wall, processor })
    }

    /// What the first two runs computed.
    pub fn outputs(&mut self) -> Result<String> {
        self.ask("outputs")
    }

    /// Bytes by which the peak of memory has grown since the case was set up.
    pub fn memory(&mut self) -> Result<f64> {
        let line = self.ask("memory")?;
        number(&line).ok_or_else(|| self.unexpected("memory", "a number", &line))
    }

    fn ask(&mut self, question: &str) -> Result<String> {
        let name = &self.name;
        let input = self.input.as_mut().ok_or_else(|| format!("`{name}` has ended"))?;
        writeln!(input, "{question}").and_then(|()| input.flush()).map_err(|e| format!("`{name}` has ended: {e}"))?;
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err(format!("`{name}` ended at `{question}`")),
            Ok(_) => match line.trim().strip_prefix("error ") {
                Some(message) => Err(format!("`{name}` at `{question}`: {message}")),
                None => Ok(line.trim().to_owned()),
            },
            Err(e) => Err(format!("could not read `{name}`: {e}")),
        }
    }

    fn unexpected(&self, question: &str, want: &str, got: &str) -> String {
        format!("`{}` must answer `{question}` with {want}, got `{got:.80}`", self.name)
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
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)
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
    fn script(answers: &str) -> Measured {
        let script = format!("while read verb rest; do case $verb in {answers} esac; done");
        Measured::start(Command::new("sh").args(["-c", &script])).unwrap()
    }

    #[cfg(unix)]
    #[test]
    fn a_program_answers_until_its_input_ends() {
        let mut program =
            script("'case') echo ready 2.5;; run) echo 1.5 $rest;; outputs) echo '1 2;3 4';; *) echo 4096;;");
        assert_eq!(program.case("matmul m=1").unwrap(), 2.5);
        assert_eq!(program.run(3).unwrap(), Time { wall: 1.5, processor: 3.0 });
        assert_eq!(program.outputs().unwrap(), "1 2;3 4");
        assert_eq!(program.memory().unwrap(), 4096.0);
    }

    #[cfg(unix)]
    #[test]
    fn what_a_program_cannot_do_is_told_and_it_goes_on() {
        let mut program = script("'case') echo error no such kind;; *) echo soon;;");
        assert!(program.case("sort").unwrap_err().ends_with("at `case sort`: no such kind"));
        assert!(program.run(1).unwrap_err().contains("with two numbers, got `soon`"));
        let error = script("*) exit 3;;").run(1).unwrap_err();
        assert!(error.ends_with("ended at `run 1`"), "{error}");
    }
}
