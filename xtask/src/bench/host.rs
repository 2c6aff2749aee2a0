//! `cargo xtask bench host`: all programs of a group side by side, their runs in turn.

use super::kernels;
use super::outputs::difference;
use super::program::{Peer, Program, Programs};
use super::protocol::{Measured, Time, median};
use super::report::{self, Figure};
use super::table::{GROUPS, Group};
use crate::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Settings of `cargo xtask bench host`.
#[derive(Args)]
pub struct Options {
    /// Only groups and cases with this in their name
    #[arg(long)]
    only: Option<String>,
    /// Whom to compare with
    #[arg(long, value_enum, value_delimiter = ',', default_value = "pytorch,inductor,jax")]
    peers: Vec<Peer>,
    /// Thread counts
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Seconds of measured runs per case, of all programs together; never fewer than 3 rounds or more than 15
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Compare processor time instead of time: what one thread computes, whoever else computes meanwhile
    #[arg(long)]
    processor_time: bool,
    /// A Python with torch and numpy, instead of the one in target/peers
    #[arg(long)]
    python: Option<PathBuf>,
    /// A Python with jax and numpy, instead of the one in target/peers
    #[arg(long)]
    jax_python: Option<PathBuf>,
}

/// A program with the case set up.
struct Side {
    program: Program,
    measured: Measured,
    /// Runs per measurement.
    count: u32,
    times: Vec<f64>,
}

/// Measures, prints the tables, and fails if results differ.
pub fn run(options: Options) -> Result {
    let chosen = |group: &Group, case: &str| {
        options.only.as_ref().is_none_or(|only| group.name.contains(only.as_str()) || case.contains(only.as_str()))
    };
    let cases: Vec<(&'static Group, Vec<&'static str>)> = GROUPS
        .iter()
        .map(|group| (group, group.cases.iter().copied().filter(|case| chosen(group, case)).collect::<Vec<_>>()))
        .filter(|(_, cases)| !cases.is_empty())
        .collect();
    if cases.is_empty() {
        return Err(format!("no case has `{}` in its name", options.only.unwrap_or_default()));
    }
    let programs = Programs::prepare(options.peers.clone(), options.python.clone(), options.jax_python.clone())?;
    if let Some(load) = std::fs::read_to_string("/proc/loadavg").ok().as_deref().and_then(load)
        && load > 0.5
    {
        println!("The machine is busy (load {load}): thread pools then wait for each other, and ratios mean little.");
    }
    let start = Instant::now();
    let count = cases.iter().map(|(_, cases)| cases.len()).sum::<usize>() * options.threads.len();
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").map_err(|e| e.to_string())?;
    let bar = ProgressBar::new(count as u64).with_style(style);
    let (mut figures, mut problems) = (Vec::new(), Vec::new());
    for &threads in &options.threads {
        for (group, cases) in &cases {
            // A program that fails is started again for the next case.
            let mut running = Vec::new();
            for case in cases {
                bar.set_message(format!("{case}, threads {threads}"));
                measure(&programs, group, case, threads, &options, &mut running, &mut figures, &mut problems);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    println!("{}", report::all(&figures, &options.threads));
    println!("{} cases in {:.0} s.", count, start.elapsed().as_secs_f64());
    if problems.is_empty() { Ok(()) } else { Err(format!("not everything went well:\n{}", problems.join("\n"))) }
}

/// Measures a case. `running` are the programs of its group that have been started.
fn measure(
    programs: &Programs,
    group: &'static Group,
    case: &'static str,
    threads: usize,
    options: &Options,
    running: &mut Vec<(Program, Measured)>,
    figures: &mut Vec<Figure>,
    problems: &mut Vec<String>,
) {
    let mut sides: Vec<Side> = Vec::new();
    let mut reference: Option<(Program, String)> = None;
    // PyTorch first, if it is there: its results are what others are compared with.
    let mut order = vec![Program::Ours];
    order.extend(group.peers.iter().copied().filter(|&program| programs.has(program)));
    order.sort_by_key(|&program| program != Program::PyTorch);
    for program in order {
        let place = running.iter().position(|(known, _)| *known == program);
        let started = match place {
            Some(at) => Ok(running.swap_remove(at).1),
            None => Measured::start(&mut programs.command(program, threads))
                .and_then(|mut measured| group.tiny.map_or(Ok(0.0), |tiny| measured.case(tiny)).map(|_| measured)),
        };
        let set_up = started.and_then(|mut measured| {
            let first = measured.case(&format!("{case} compared={}", group.compared()))?;
            let outputs = measured.outputs()?;
            // Short work is measured many runs at a time, by the time of a run when everything is warm.
            let time = if first < 5.0 { measured.run(1)?.wall.min(first) } else { first };
            let count = (20.0 / time.max(1e-3)).clamp(1.0, 1000.0) as u32;
            Ok((measured, outputs, count))
        });
        match set_up {
            Ok((measured, outputs, count)) => {
                match &reference {
                    None => reference = Some((program, outputs)),
                    Some((other, expected)) => match difference(expected, &outputs) {
                        Ok(difference) if difference <= group.tolerance => {}
                        found => problems.push(format!(
                            "{case}, threads {threads}: {} and {} may differ by {:e}, got {found:?}",
                            other.name(),
                            program.name(),
                            group.tolerance
                        )),
                    },
                }
                sides.push(Side { program, measured, count, times: Vec::new() });
            }
            Err(message) => problems.push(format!("{case}, threads {threads}: {}: {message}", program.name())),
        }
    }
    // The order of the report, which is also that of the turns.
    sides.sort_by_key(|side| Program::ALL.iter().position(|&program| program == side.program));
    let clock = |time: Time| if options.processor_time { time.processor } else { time.wall };
    let start = Instant::now();
    for round in 0..15 {
        if round >= 3 && start.elapsed().as_secs_f64() > options.seconds {
            break;
        }
        for side in &mut sides {
            match side.measured.run(side.count) {
                Ok(time) => side.times.push(clock(time)),
                Err(message) => problems.push(format!("{case}, threads {threads}: {message}")),
            }
            pause();
        }
    }
    for mut side in sides {
        let memory = side.measured.memory().ok().filter(|_| group.tiny.is_some());
        let milliseconds = median(&mut side.times);
        if milliseconds.is_finite() {
            figures.push(Figure { group, case, threads, program: side.program, milliseconds, memory, kernels: None });
        }
        running.push((side.program, side.measured));
    }
    if group.tiny.is_some() {
        match kernels::measure(programs, case, threads, options.seconds) {
            Ok(spent) => figures.iter_mut().filter(|f| f.case == case && f.threads == threads).for_each(|figure| {
                figure.kernels = spent.iter().find(|(program, _)| *program == figure.program).map(|(_, spent)| *spent);
            }),
            Err(message) => problems.push(format!("{case}, threads {threads}: {message}")),
        }
    }
}

/// Thread pools spin for a while when their work ends; the other side must not pay for that.
fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}

/// The load of the last minute from Linux's `loadavg`.
fn load(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_the_first_number() {
        assert_eq!(load("1.25 0.80 0.41 2/345 6789\n"), Some(1.25));
        assert_eq!(load(""), None);
    }
}
