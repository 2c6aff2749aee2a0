//! `cargo xtask fuzz NAME --seconds N`: runs one program of the package in `fuzz/`.
//!
//! The targets are plain programs over a byte-driven generator, so they need no nightly toolchain. They are built under
//! the same profile as the tests: optimised, with overflow checks and debug assertions.

use crate::workspace::{Workspace, cargo};
use crate::{Result, process};

/// Runs the target; a failure ends it and prints the seed that repeats it.
pub fn run(name: &str, seconds: u64, seed: Option<u64>) -> Result {
    let workspace = Workspace::load()?;
    let package = workspace.package("fuzz").ok_or("the workspace has no package `fuzz`")?;
    if !package.programs.iter().any(|p| p == name) {
        return Err(format!("there is no fuzz target `{name}`, only {}", package.programs.join(", ")));
    }
    let mut command = cargo();
    command.args(["run", "--quiet", "-p", "fuzz", "--bin", name, "--", "--seconds", &seconds.to_string()]);
    if let Some(seed) = seed {
        command.args(["--seed", &seed.to_string()]);
    }
    process::run(&mut command)
}
