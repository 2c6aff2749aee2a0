//! Everything a developer types: `cargo xtask test`, `data`, `plugins`, `peers`, `bench`, `fuzz`, `size`, `valgrind`, `aot`,
//! `ci`.
//!
//! Needs only cargo; `data`, `plugins`, `aot`, `peers` and `bench` also need Python 3.11 with pip. Each command says what it does, and
//! fails with the name of the part that failed.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

mod aot;
mod bench;
mod ci;
mod data;
mod fuzz;
mod peers;
mod plugins;
mod process;
mod size;
mod source;
mod test;
mod valgrind;
mod workspace;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Everything a developer types", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run every test: unit, integration and doc tests, the examples in short form, a moment of each fuzz target
    Test {
        /// The long sweeps: 10,000 random graphs instead of 500, a minute of each fuzz target
        #[arg(long)]
        full: bool,
    },
    /// Fetch a data set into target/data (needs Python 3.11 with pip)
    Data {
        /// Which one
        name: data::Name,
    },
    /// Fetch the PJRT plugins that tests run against into target/plugins (needs Python 3.11 with pip; 263 MB)
    Plugins,
    /// Compile a full step of training the GPT for every generation of TPU; takes a minute or two per target
    Aot {
        /// Topologies, with commas between them
        #[arg(long, default_value = aot::TARGETS)]
        targets: String,
        /// A libtpu.so, instead of the one in target/plugins
        #[arg(long)]
        libtpu: Option<PathBuf>,
    },
    /// Make target/peers, a Python environment with PyTorch and JAX for comparisons (downloads about 5 GB)
    Peers,
    /// Run the criterion benches, or one of the commands below
    #[command(args_conflicts_with_subcommands = true)]
    Bench {
        /// Only benches with this in their name
        name: Option<String>,
        #[command(subcommand)]
        instead: Option<Bench>,
    },
    /// Run a fuzz target for a while
    Fuzz {
        /// A program of the package in fuzz/
        name: String,
        /// How long
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Where the generator starts; a failure prints the seed that repeats it
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Print lines, operations and dependencies per crate
    Size {
        /// Also time a cold release build of tpu-autograd with its dependencies
        #[arg(long)]
        build: bool,
    },
    /// Run the tests with the fake plugin under valgrind
    Valgrind,
    /// What continuous integration checks after the tests: format, lints, docs, packages, machine names, size
    Ci,
}

#[derive(Subcommand)]
enum Bench {
    /// Compare the host with PyTorch, Inductor, JAX, candle and burn, in turn in one run: about 15 minutes
    Host(bench::Options),
    /// Draw the cost of recording, scheduling and compiling by operations and elements into benches/plots
    Cost(bench::Sizes),
}

/// The outcome of a command: the message says what was wanted and what happened instead.
type Result<T = ()> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Test { full } => test::run(full),
        Command::Data { name } => data::run(name),
        Command::Plugins => plugins::run(),
        Command::Aot { targets, libtpu } => aot::run(&targets, libtpu.as_deref()),
        Command::Peers => peers::make(),
        Command::Bench { instead: Some(Bench::Host(options)), .. } => bench::host(options),
        Command::Bench { instead: Some(Bench::Cost(sizes)), .. } => bench::cost(&sizes),
        Command::Bench { name, instead: None } => bench::criterion(name.as_deref()),
        Command::Fuzz { name, seconds, seed } => fuzz::run(&name, seconds, seed),
        Command::Size { build } => size::run(build),
        Command::Valgrind => valgrind::run(),
        Command::Ci => ci::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("cargo xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
