//! `cargo xtask bench cost`: prints what grows how fast, and draws it.

use benches::cost::plot::picture;
use benches::cost::{Line, Time, by_elements, by_operations};
use clap::Parser;
use std::error::Error;
use std::path::PathBuf;

/// Measures recording, scheduling, compiling and running from 1 to 10⁴ operations and from 1 to 10⁸ elements.
#[derive(Parser)]
struct Arguments {
    /// Folder for the pictures.
    #[arg(long, default_value = "benches/plots")]
    plots: PathBuf,
    /// Most operations.
    #[arg(long, default_value_t = 10_000)]
    operations: usize,
    /// Most elements.
    #[arg(long, default_value_t = 100_000_000)]
    elements: usize,
    /// Measure processor time instead of time, where that can be had: on a busy machine.
    #[arg(long)]
    processor_time: bool,
}

#[expect(clippy::print_stdout, reason = "a program that talks to its user")]
fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { plots, operations, elements, processor_time } = Arguments::parse();
    let time = if processor_time { Time::Processor } else { Time::Wall };
    std::fs::create_dir_all(&plots)?;
    let operations = by_operations(operations, time)?;
    let elements = by_elements(elements, time)?;
    let draw = |name: &str, title, sizes, lines: &[Line]| {
        let path = plots.join(name);
        std::fs::write(&path, picture(title, sizes, lines)).map(|()| println!("wrote {}", path.display()))
    };
    draw("operations.svg", "Small operations of many kinds as one program", "operations", &operations)?;
    draw("elements.svg", "gelu(x · 2 + 1) + x as one program", "elements", &elements)?;
    println!("\n| by operations | at 100 | at 1,000 | at 10,000 | steepest from 100 on |\n|---|---|---|---|---|");
    for line in &operations {
        let each = |size| line.each(size).map_or("-".into(), |each| format!("{:.2} µs each", each * 1e6));
        println!(
            "| {} | {} | {} | {} | {:.2} |",
            line.name,
            each(100),
            each(1000),
            each(10_000),
            line.worst_slope(100)
        );
    }
    println!("\n| by elements | at 1 | at 10,000 | at 10^8 | steepest from 10,000 on |\n|---|---|---|---|---|");
    for line in &elements {
        let total = |size| line.each(size).map_or("-".into(), |each| format!("{:.2} µs", each * size as f64 * 1e6));
        let (one, some, all) = (total(1), total(10_000), total(100_000_000));
        println!("| {} | {one} | {some} | {all} | {:.2} |", line.name, line.worst_slope(10_000));
    }
    let verdict = |met: bool| if met { "met" } else { "short" };
    let [recording, cutting, compiling, never] = &operations;
    let worst =
        |line: &Line| [1000, 10_000].into_iter().filter_map(|size| line.each(size)).fold(f64::NAN, f64::max) * 1e6;
    let (compile, replay) = (worst(compiling), worst(never));
    println!("\ncompiling: {compile:.1} µs per operation, at most 30: {}", verdict(compile <= 30.0));
    println!("DeferNever, replayed: {replay:.2} µs per operation, at most 1.5: {}", verdict(replay <= 1.5));
    let steepest = [recording, cutting, compiling].map(|line| line.worst_slope(100)).into_iter().fold(0.0, f64::max);
    // Caches fill up and machines have neighbours: 10,000 operations may cost twice what ten times 1,000 do.
    println!("steepest of recorder, scheduler and compiler: {steepest:.2}, linear is 1: {}", verdict(steepest <= 1.3));
    Ok(())
}
