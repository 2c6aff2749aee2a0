//! `cargo xtask bench`: the criterion benches; `bench host`: the table of comparisons; `bench cost`: plots of cost by size.

mod host;
mod outputs;
mod program;
mod protocol;
mod report;
mod table;

pub use host::{Options, run as host};

use crate::workspace::{Workspace, cargo};
use crate::{Result, process};

/// Runs the criterion benches that have `name` in their name, or all.
pub fn criterion(name: Option<&str>) -> Result {
    if Workspace::load()?.package("benches").is_none() {
        return Err("the workspace has no package `benches`".into());
    }
    let mut command = cargo();
    command.args(["bench", "-p", "benches", "--benches"]);
    if let Some(name) = name {
        command.args(["--", name]);
    }
    process::run(&mut command)
}

/// Measures what recording, scheduling and compiling cost by size, and draws it.
pub fn cost() -> Result {
    process::run(cargo().args(["run", "--quiet", "--release", "-p", "benches", "--bin", "cost"]))
}
