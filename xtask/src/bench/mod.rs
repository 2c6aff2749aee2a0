//! `cargo xtask bench`: the criterion benches; `bench host`: the table of comparisons; `bench cost`: plots of cost by size.

mod host;
mod kernels;
mod outputs;
mod program;
mod protocol;
mod report;
mod table;

pub use host::{Options, run as host};

use crate::workspace::{Workspace, cargo};
use crate::{Result, process};
use clap::Args;

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

/// Settings of `cargo xtask bench cost`.
#[derive(Args)]
pub struct Sizes {
    /// Most operations
    #[arg(long, default_value_t = 10_000)]
    operations: usize,
    /// Most elements
    #[arg(long, default_value_t = 100_000_000)]
    elements: usize,
    /// Measure processor time instead of time: on a busy machine
    #[arg(long)]
    processor_time: bool,
}

/// Measures what recording, scheduling and compiling cost by size, and draws it.
pub fn cost(sizes: &Sizes) -> Result {
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "-p", "benches", "--bin", "cost", "--"]);
    command.arg("--operations").arg(sizes.operations.to_string());
    command.arg("--elements").arg(sizes.elements.to_string());
    if sizes.processor_time {
        command.arg("--processor-time");
    }
    process::run(&mut command)
}
