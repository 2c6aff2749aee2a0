//! Our side of `cargo xtask bench host`.

use benches::cases::set_up;
use benches::measure::serve;
use clap::Parser;
use std::io::{stdin, stdout};
use tpu_core::Mode;

/// Measures cases as they are asked for on standard input.
#[derive(Parser)]
struct Arguments {
    /// How much goes into one program.
    #[arg(long, default_value = "defer-and-fuse")]
    mode: Mode,
}

fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    arguments.mode.scope(|| serve(set_up, stdin().lock(), stdout().lock()))
}
