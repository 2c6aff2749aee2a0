//! The line protocol of a measured program.

use crate::resident::Peak;
use clap::Parser;
use std::io::{BufRead, Write};
use std::time::Instant;
use tpu_core::{Mode, Result};

/// What every measured program understands.
#[derive(Parser, Debug)]
pub struct Arguments {
    /// Measure on request; without it, measure alone and print medians.
    #[arg(long)]
    pub interleave: bool,
    /// How much goes into one program.
    #[arg(long, default_value = "defer-and-fuse")]
    pub mode: Mode,
    /// Runs before the first one that counts.
    #[arg(long, default_value_t = 3)]
    pub warm_up: usize,
    /// Runs, without --interleave.
    #[arg(long, default_value_t = 15)]
    pub rounds: usize,
}

/// Warms up, then answers requests, or measures alone.
///
/// # Errors
/// When a run fails.
#[expect(clippy::print_stdout, reason = "standard output is the protocol")]
pub fn serve(arguments: &Arguments, peak: &Peak, mut run: impl FnMut() -> Result<()>) -> Result<()> {
    let mut milliseconds = || {
        let start = Instant::now();
        run()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    for _ in 0..arguments.warm_up {
        milliseconds()?;
    }
    if !arguments.interleave {
        let mut times = (0..arguments.rounds.max(1)).map(|_| milliseconds()).collect::<Result<Vec<f64>>>()?;
        times.sort_by(f64::total_cmp);
        println!("median_ms {:.3}\nmin_ms {:.3}", times[times.len() / 2], times[0]);
        println!("peak_bytes {}", peak.growth());
        return Ok(());
    }
    let mut out = std::io::stdout();
    println!("ready");
    for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
        match line.trim() {
            "run" => println!("{:.6}", milliseconds()?),
            "memory" => println!("{}", peak.growth()),
            other => println!("unknown request `{other}`"),
        }
        // The other side has gone: so do we, at the next line.
        let _ = out.flush();
    }
    Ok(())
}
