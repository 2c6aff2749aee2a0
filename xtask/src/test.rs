//! `cargo xtask test`: every test there is.

use crate::workspace::{Workspace, cargo};
use crate::{Result, plugins, process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The examples in short form: program, arguments. Every example of the package in `examples/` has a line here; that is
/// checked, so none is left out by accident. `{out}` stands for a fresh folder.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("quickstart", &[]),
    ("mlp", &["--steps", "20"]),
    (
        "train_gpt",
        &[
            "--steps",
            "3",
            "--layers",
            "1",
            "--width",
            "64",
            "--context",
            "32",
            "--batch",
            "2",
            "--seed",
            "1",
            "--out",
            "{out}",
        ],
    ),
    ("train_cnn", &["--data", "synthetic", "--steps", "3", "--batch", "8", "--channels", "4", "--out", "{out}"]),
    (
        "train_lstm",
        &["--text", "README.md", "--steps", "3", "--hidden", "16", "--context", "8", "--batch", "2", "--out", "{out}"],
    ),
    ("resnet", &["--steps", "2", "--batch", "4", "--width", "4", "--images", "40", "--out", "{out}"]),
];

/// proptest draws its cases from this, so that two runs test the same cases. Any number would do.
const PROPTEST_SEED: &str = "20151109";

/// Passed and failed tests.
#[derive(Default, Clone, Copy, PartialEq, Debug)]
struct Count {
    passed: usize,
    failed: usize,
}

/// A finished part of the run.
struct Part {
    name: String,
    time: Duration,
    outcome: Result,
}

/// Runs everything; `full` runs the long sweeps too.
pub fn run(full: bool) -> Result {
    let workspace = Workspace::load()?;
    check_examples(&workspace)?;
    println!(
        "Runs the unit, integration and doc tests and {} examples in short form{}.",
        EXAMPLES.len(),
        if full { ", with the long sweeps and a minute of each fuzz target" } else { "" }
    );

    let mut count = Count::default();
    let mut parts = Vec::new();
    time(&mut parts, "plugins", plugins::for_tests);
    let cargo_test = "unit, integration and doc tests";
    time(&mut parts, cargo_test, || {
        let mut command = cargo();
        command.args(["test", "--workspace", "--no-fail-fast"]);
        process::run_watched(set_up(&mut command, full), |line| count.add(line))
    });
    // When nothing ran it did not compile, and the programs that a former run left behind would prove nothing.
    if count == Count::default() {
        return conclude(&parts, count);
    }
    // How far a timed run gets depends on the machine, so only the long sweep has them; each target's fixed cases are
    // among the tests above.
    let targets = if full { fuzz_targets(&workspace) } else { &[] };
    time(&mut parts, "building the examples", || {
        // With the same packages and with --examples cargo chooses the features that it chose for the tests, so nothing
        // below is built again. `--bins` would also replace this very program while it runs.
        let mut command = cargo();
        command.args(["build", "--workspace", "--examples"]);
        command.args(targets.iter().flat_map(|target| ["--bin", target]));
        process::run(&mut command)
    });
    if parts.last().is_some_and(|part| part.outcome.is_ok()) {
        for (name, arguments) in EXAMPLES {
            time(&mut parts, &format!("example {name}"), || example(&workspace, name, arguments, full));
            count.add_part(&parts);
        }
        for name in targets {
            time(&mut parts, &format!("fuzz target {name}"), || {
                let mut command = Command::new(built(&workspace, name));
                command.current_dir(&workspace.root).args(["--seconds", "60", "--seed", "1"]);
                process::run(set_up(&mut command, full))
            });
            count.add_part(&parts);
        }
    }
    conclude(&parts, count)
}

fn set_up(command: &mut Command, full: bool) -> &mut Command {
    command.env("PROPTEST_RNG_SEED", PROPTEST_SEED);
    if full { command.env("TPU_TEST_FULL", "1") } else { command.env_remove("TPU_TEST_FULL") }
}

fn time(parts: &mut Vec<Part>, name: &str, run: impl FnOnce() -> Result) {
    println!("\n== {name}");
    let start = Instant::now();
    let outcome = run();
    parts.push(Part { name: name.to_owned(), time: start.elapsed(), outcome });
}

/// Every example has a short form above, and every short form its example.
fn check_examples(workspace: &Workspace) -> Result {
    let package = workspace.package("examples").ok_or("the workspace has no package `examples`")?;
    let mut found = package.examples.clone();
    let mut listed: Vec<_> = EXAMPLES.iter().map(|(name, _)| (*name).to_owned()).collect();
    found.sort();
    listed.sort();
    if found == listed {
        return Ok(());
    }
    Err(format!("examples/ has {found:?}, xtask/src/test.rs lists the short forms of {listed:?}: make them equal"))
}

/// A program under the profile of the tests.
fn built(workspace: &Workspace, name: &str) -> PathBuf {
    workspace.target.join("debug").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

fn example(workspace: &Workspace, name: &str, arguments: &[&str], full: bool) -> Result {
    let out = workspace.target.join("xtask").join(name);
    fresh_folder(&out)?;
    let mut command = Command::new(built(workspace, &format!("examples/{name}")));
    command.current_dir(&workspace.root);
    command.args(arguments.iter().map(|a| a.replace("{out}", &out.to_string_lossy())));
    process::run(set_up(&mut command, full))
}

fn fresh_folder(path: &Path) -> Result {
    let fail = |e| format!("could not make the folder {}: {e}", path.display());
    if path.exists() {
        std::fs::remove_dir_all(path).map_err(fail)?;
    }
    std::fs::create_dir_all(path).map_err(fail)
}

fn fuzz_targets(workspace: &Workspace) -> &[String] {
    workspace.package("fuzz").map(|p| p.programs.as_slice()).unwrap_or_default()
}

fn conclude(parts: &[Part], count: Count) -> Result {
    println!();
    for part in parts {
        let outcome = if part.outcome.is_ok() { "ok" } else { "FAILED" };
        println!("{:>7.1} s  {:<6}  {}", part.time.as_secs_f64(), outcome, part.name);
    }
    let failed: Vec<_> =
        parts.iter().filter_map(|p| p.outcome.as_ref().err().map(|e| format!("{}: {e}", p.name))).collect();
    // A part that ran no test, because it did not compile, has failed all the same.
    println!("{} passed, {} failed", count.passed, count.failed.max(usize::from(!failed.is_empty())));
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n  ")) }
}

impl Count {
    /// Reads cargo's `test result: ok. 12 passed; 0 failed; …`, other lines count for nothing.
    fn add(&mut self, line: &str) {
        let Some(rest) = line.trim_start().strip_prefix("test result: ") else { return };
        for part in rest.split([';', '.']) {
            match part.trim().split_once(' ') {
                Some((n, "passed")) => self.passed += n.parse().unwrap_or(0),
                Some((n, "failed")) => self.failed += n.parse().unwrap_or(0),
                _ => {}
            }
        }
    }

    /// Counts the last part as one test.
    fn add_part(&mut self, parts: &[Part]) {
        match parts.last() {
            Some(part) if part.outcome.is_ok() => self.passed += 1,
            Some(_) => self.failed += 1,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_add_up_and_other_lines_do_not() {
        let mut count = Count::default();
        count.add("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.52s");
        count.add("test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        count.add("running 9 tests");
        count.add("example prints: 7 passed; 7 failed");
        assert_eq!(count, Count { passed: 17, failed: 2 });
    }

    #[test]
    fn a_failed_part_is_named() {
        let parts = [
            Part { name: "example mlp".into(), time: Duration::ZERO, outcome: Err("exit status: 1".into()) },
            Part { name: "example quickstart".into(), time: Duration::ZERO, outcome: Ok(()) },
        ];
        let error = conclude(&parts, Count { passed: 1, failed: 1 }).unwrap_err();
        assert_eq!(error, "example mlp: exit status: 1");
    }
}
