//! How long a case is in kernels that are no products, in both modes: `kernels mlp inputs=784 width=1024 outputs=10 batch=256`.

use benches::kernels::{Case, Spent};
use benches::measure::Parameters;
use clap::Parser;
use std::error::Error;
use std::time::Instant;
use tpu_core::Mode;

/// Prints a line per mode: milliseconds of a run in kernels that are no products, and in all; medians.
#[derive(Parser)]
struct Arguments {
    /// Seconds of measured runs; never fewer than 5 of each mode.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Kind and words of the case.
    #[arg(required = true)]
    case: Vec<String>,
}

#[expect(clippy::print_stdout, reason = "a program that talks to its user")]
fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { seconds, case } = Arguments::parse();
    let (kind, words) = (&case[0], Parameters::parse(&case[1..].join(" "))?);
    let folder = tempfile::tempdir()?;
    let modes = [("defer-and-fuse", Mode::DeferAndFuse), ("defer-never", Mode::DeferNever)];
    let mut sides = Vec::new();
    for (name, mode) in modes {
        let mut case = Case::new(mode, kind, &words, folder.path())?;
        // What is compiled in the first run, and memory that the second one is the first to touch.
        case.run()?;
        case.run()?;
        sides.push((name, case, Vec::new()));
    }
    let start = Instant::now();
    while sides[0].2.len() < 5 || start.elapsed().as_secs_f64() < seconds {
        for (_, case, spent) in &mut sides {
            spent.push(case.run()?);
        }
    }
    for (name, _, spent) in &sides {
        let median = |of: fn(&Spent) -> f64| {
            let mut milliseconds: Vec<f64> = spent.iter().map(|spent| of(spent) * 1e3).collect();
            milliseconds.sort_by(f64::total_cmp);
            milliseconds[milliseconds.len() / 2]
        };
        println!("{name} {:.6} {:.6}", median(|spent| spent.other), median(|spent| spent.other + spent.products));
    }
    Ok(())
}
