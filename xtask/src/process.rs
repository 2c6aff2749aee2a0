//! Running other programs: the command is printed, its failure names it.

use crate::Result;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// The command as one would type it, without the folder of the program.
pub fn line(command: &Command) -> String {
    let name = std::path::Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut line = name.to_string_lossy().into_owned();
    for argument in command.get_args() {
        let argument = argument.to_string_lossy();
        if argument.is_empty() || argument.contains(|c: char| c.is_whitespace()) {
            line += &format!(" '{argument}'");
        } else {
            line += &format!(" {argument}");
        }
    }
    line
}

fn verdict(what: &str, status: std::process::ExitStatus) -> Result {
    if status.success() { Ok(()) } else { Err(format!("`{what}` failed: {status}")) }
}

/// Prints the command and runs it with this program's input, output and errors.
pub fn run(command: &mut Command) -> Result {
    let what = line(command);
    println!("$ {what}");
    let status = command.stdin(Stdio::null()).status().map_err(|e| format!("could not start `{what}`: {e}"))?;
    verdict(&what, status)
}

/// As [`run`], and shows every line of the output to `watch` after printing it.
pub fn run_watched(command: &mut Command, mut watch: impl FnMut(&str)) -> Result {
    let what = line(command);
    println!("$ {what}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("could not start `{what}`: {e}"))?;
    let output = child.stdout.take().ok_or_else(|| format!("`{what}` has no output"))?;
    let mut reader = BufReader::new(output);
    let mut bytes = Vec::new();
    // Bytes, not `lines()`: a test may print what is not UTF-8, and the run must go on.
    while reader.read_until(b'\n', &mut bytes).map_err(|e| format!("could not read `{what}`: {e}"))? > 0 {
        let text = String::from_utf8_lossy(&bytes);
        print!("{text}");
        watch(text.trim_end());
        bytes.clear();
    }
    verdict(&what, child.wait().map_err(|e| format!("could not wait for `{what}`: {e}"))?)
}

/// Runs the command quietly and returns what it printed; its errors are part of the message when it fails.
pub fn output(command: &mut Command) -> Result<String> {
    let what = line(command);
    let out = command.stdin(Stdio::null()).output().map_err(|e| format!("could not start `{what}`: {e}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&out.stderr);
    Err(format!("`{what}` failed: {}\n{}", out.status, errors.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_reads_as_typed() {
        let mut command = Command::new("somewhere/bin/cargo");
        command.args(["run", "--", "--text", "two words", ""]);
        assert_eq!(line(&command), "cargo run -- --text 'two words' ''");
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = run(&mut Command::new("no-such-program-anywhere")).unwrap_err();
        assert!(error.contains("could not start `no-such-program-anywhere`"), "{error}");
    }
}
