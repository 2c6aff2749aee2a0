//! `cargo xtask bench`: the criterion benches, then comparisons with PyTorch.
//!
//! A comparison is two programs that speak the protocol of `protocol`: ours from the package in `benches/`, PyTorch's from
//! `benches/peers/`. Their runs alternate. The ratio is of the medians, and larger is better for us.

use crate::protocol::{Measured, median};
use crate::workspace::{Workspace, cargo};
use crate::{Result, peers, process};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Threads on both sides.
const THREADS: &str = "2";

/// A comparison: what is done, our program and its mode, PyTorch's script.
struct Comparison {
    work: &'static str,
    ours: &'static str,
    mode: &'static str,
    peer: &'static str,
}

const COMPARISONS: &[Comparison] = &[
    Comparison { work: "GPT step", ours: "compare_gpt", mode: "defer-and-fuse", peer: "bench_gpt.py" },
    Comparison { work: "GPT step", ours: "compare_gpt", mode: "defer-never", peer: "bench_gpt.py" },
    Comparison {
        work: "gelu(x*w+b)+r, layer norm",
        ours: "compare_chain",
        mode: "defer-and-fuse",
        peer: "bench_chain.py",
    },
    Comparison {
        work: "gelu(x*w+b)+r, layer norm",
        ours: "compare_chain",
        mode: "defer-never",
        peer: "bench_chain.py",
    },
];

/// What a comparison found: milliseconds, and bytes of peak growth.
struct Row {
    comparison: &'static Comparison,
    ours: Vec<f64>,
    peer: Vec<f64>,
    our_memory: f64,
    peer_memory: f64,
}

/// Runs what has `name` in its name, or everything.
pub fn run(name: Option<&str>, python: Option<PathBuf>, rounds: usize, peers_only: bool) -> Result {
    let workspace = Workspace::load()?;
    if workspace.package("benches").is_none() {
        return Err("the workspace has no package `benches`".into());
    }
    if !peers_only {
        let mut command = cargo();
        command.args(["bench", "-p", "benches", "--benches"]);
        if let Some(name) = name {
            command.args(["--", name]);
        }
        process::run(&mut command)?;
    }
    let chosen: Vec<_> = COMPARISONS.iter().filter(|c| name.is_none_or(|n| c.ours.contains(n))).collect();
    if chosen.is_empty() {
        return Ok(());
    }
    let python = peers::python(python)?;
    if let Some(load) = std::fs::read_to_string("/proc/loadavg").ok().as_deref().and_then(load)
        && load > 0.5
    {
        println!("The machine is busy (load {load}): thread pools then wait for each other, and ratios mean little.");
    }
    process::run(cargo().args(["build", "--quiet", "--release", "-p", "benches", "--bins"]))?;
    let rows = chosen
        .into_iter()
        .map(|comparison| compare(&workspace, &python, comparison, rounds.max(1)))
        .collect::<Result<Vec<_>>>()?;
    println!("\n{}", table(&rows));
    Ok(())
}

/// The load of the last minute from Linux's `loadavg`.
fn load(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

fn compare(workspace: &Workspace, python: &Path, comparison: &'static Comparison, rounds: usize) -> Result<Row> {
    let program = format!("{}{}", comparison.ours, std::env::consts::EXE_SUFFIX);
    let mut ours = Command::new(workspace.target.join("release").join(program));
    ours.args(["--interleave", "--mode", comparison.mode]).env("RAYON_NUM_THREADS", THREADS);
    let mut peer = Command::new(python);
    peer.arg(workspace.root.join("benches/peers").join(comparison.peer))
        .arg("--interleave")
        .env("OMP_NUM_THREADS", THREADS);
    let (mut ours, mut peer) = (Measured::start(&mut ours)?, Measured::start(&mut peer)?);
    let mut row = Row { comparison, ours: Vec::new(), peer: Vec::new(), our_memory: 0.0, peer_memory: 0.0 };
    let style = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len}").map_err(|e| e.to_string())?;
    let bar = ProgressBar::new(rounds as u64).with_style(style).with_message(comparison.work);
    for _ in 0..rounds {
        row.ours.push(ours.run()?);
        pause();
        row.peer.push(peer.run()?);
        pause();
        bar.inc(1);
    }
    bar.finish_and_clear();
    row.our_memory = ours.memory()?;
    row.peer_memory = peer.memory()?;
    Ok(row)
}

/// Thread pools spin for a while when their work ends; the other side must not pay for that.
fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}

/// A Markdown table, as in benches/RESULTS.md.
fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| work | mode | ours ms | PyTorch ms | ratio | our peak MB | PyTorch peak MB | share |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let (ours, peer) = (median(&mut row.ours.clone()), median(&mut row.peer.clone()));
        let mega = |bytes: f64| bytes / 1e6;
        text += &format!(
            "| {} | {} | {ours:.2} | {peer:.2} | {:.2} | {:.0} | {:.0} | {:.2} |\n",
            row.comparison.work,
            row.comparison.mode,
            peer / ours,
            mega(row.our_memory),
            mega(row.peer_memory),
            row.our_memory / row.peer_memory,
        );
    }
    text + "\nMedians of alternating runs. ratio = PyTorch / ours, larger is better; share = our peak / PyTorch's, smaller is better."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_gives_ratios_of_medians() {
        let rows = [Row {
            comparison: &COMPARISONS[0],
            ours: vec![2.0, 100.0, 2.5],
            peer: vec![5.0, 5.0, 6.0],
            our_memory: 40e6,
            peer_memory: 80e6,
        }];
        let text = table(&rows);
        assert!(text.contains("| GPT step | defer-and-fuse | 2.50 | 5.00 | 2.00 | 40 | 80 | 0.50 |"), "{text}");
    }

    #[test]
    fn the_load_is_the_first_number() {
        assert_eq!(load("1.25 0.80 0.41 2/345 6789\n"), Some(1.25));
        assert_eq!(load(""), None);
    }

    #[test]
    fn every_comparison_has_its_script() {
        for comparison in COMPARISONS {
            let script = crate::workspace::root().join("benches/peers").join(comparison.peer);
            assert!(script.exists(), "{}", script.display());
        }
    }
}
