//! The tables of `cargo xtask bench host`, as Markdown.

use super::program::Program;
use super::table::{BARS, Bar, Group, Measure};

/// What was measured of a case on one program.
pub struct Figure {
    /// The case's group.
    pub group: &'static Group,
    /// Kind and words.
    pub case: &'static str,
    /// Threads of the program.
    pub threads: usize,
    /// Which program.
    pub program: Program,
    /// Median of a run.
    pub milliseconds: f64,
    /// Bytes by which the peak grew, where that is counted.
    pub memory: Option<f64>,
    /// Milliseconds of a run in kernels, where that is measured.
    pub kernels: Option<Kernels>,
}

/// Milliseconds of a run in kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kernels {
    /// In those that are no products of matrices, convolutions or attention.
    pub other: f64,
    /// In all.
    pub all: f64,
}

/// Times, memory, and what was asked for.
pub fn all(figures: &[Figure], threads: &[usize]) -> String {
    let mut text = String::new();
    for &threads in threads {
        let of_threads: Vec<&Figure> = figures.iter().filter(|figure| figure.threads == threads).collect();
        text += &format!(
            "\n## Milliseconds, threads: {threads}\n\nIn brackets the ratio to ours: larger is better for us.\n"
        );
        text += &table(&of_threads, |figure| Some(figure.milliseconds), |theirs, ours| theirs / ours);
        if of_threads.iter().any(|figure| figure.memory.is_some()) {
            text += &format!(
                "\n## Peak memory in MB, threads: {threads}\n\nIn brackets our share of it: smaller is better.\n"
            );
            text += &table(&of_threads, |figure| Some(figure.memory? / 1e6), |theirs, ours| ours / theirs);
        }
        if of_threads.iter().any(|figure| figure.kernels.is_some()) {
            text += &format!(
                "\n## Milliseconds in kernels that are no products, threads: {threads}\n\nOf a step, by the clock; products are \
                 those of matrices, convolutions and attention. In brackets our share: smaller is better.\n"
            );
            text += &table(&of_threads, |figure| Some(figure.kernels?.other), |theirs, ours| ours / theirs);
            text += &format!("\n## Milliseconds in all kernels, threads: {threads}\n");
            text += &table(&of_threads, |figure| Some(figure.kernels?.all), |theirs, ours| ours / theirs);
        }
    }
    text += "\n## What was asked for\n\n| work | of | against | threads | cases | geometric mean | worst | asked | |\n|---|---|---|---|---|---|---|---|---|\n";
    for bar in BARS {
        for &threads in threads {
            text += &verdict(bar, figures, threads);
        }
    }
    text
}

/// A row per case, a column per program that has a figure.
fn table(figures: &[&Figure], value: impl Fn(&Figure) -> Option<f64>, ratio: impl Fn(f64, f64) -> f64) -> String {
    let figures: Vec<_> = figures.iter().filter_map(|figure| Some((*figure, value(figure)?))).collect();
    let programs: Vec<_> = Program::ALL
        .into_iter()
        .filter(|&program| figures.iter().any(|(figure, _)| figure.program == program))
        .collect();
    let mut text = String::from("\n| case |");
    for program in &programs {
        text += &format!(" {} |", program.name());
    }
    text += &format!("\n|---|{}\n", "---|".repeat(programs.len()));
    let mut cases: Vec<&str> = figures.iter().map(|(figure, _)| figure.case).collect();
    cases.dedup();
    for case in cases {
        let find = |program| figures.iter().find(|(figure, _)| figure.case == case && figure.program == program);
        let ours = find(Program::Ours).map(|(_, value)| *value);
        text += &format!("| {case} |");
        for &program in &programs {
            text += &match (find(program), ours) {
                (None, _) => " |".to_owned(),
                (Some((_, value)), Some(ours)) if program != Program::Ours => {
                    format!(" {} ({:.2}) |", short(*value), ratio(*value, ours))
                }
                (Some((_, value)), _) => format!(" {} |", short(*value)),
            };
        }
        text += "\n";
    }
    text
}

/// Three digits that say something.
fn short(value: f64) -> String {
    let digits = if value < 1.0 { 4 } else { (2 - value.log10().floor() as i64).max(0) as usize };
    format!("{value:.digits$}")
}

/// The ratios that a bar is about, case by case.
fn ratios(bar: &Bar, figures: &[Figure], threads: usize) -> Vec<f64> {
    let of = |case: &str, program: Program| {
        let found = figures.iter().find(|f| f.threads == threads && f.case == case && f.program == program)?;
        match bar.measure {
            Measure::Speed => Some(found.milliseconds),
            Measure::Memory => found.memory,
            Measure::Other => Some(found.kernels?.other),
        }
    };
    let subjects = figures
        .iter()
        .filter(|f| f.threads == threads && f.program == bar.subject && f.group.name.starts_with(bar.groups));
    let pairs = subjects.filter_map(|subject| Some((of(subject.case, bar.subject)?, of(subject.case, bar.peer)?)));
    pairs.map(|(ours, theirs)| if bar.measure.is_share() { ours / theirs } else { theirs / ours }).collect()
}

/// A line of the last table; none where nothing was measured.
fn verdict(bar: &Bar, figures: &[Figure], threads: usize) -> String {
    let ratios = ratios(bar, figures, threads);
    if ratios.is_empty() {
        return String::new();
    }
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let share = bar.measure.is_share();
    let worst = ratios.iter().copied().fold(f64::NAN, |a, b| if share { a.max(b) } else { a.min(b) });
    let reached = |value: f64, asked: f64| if share { value <= asked } else { value >= asked };
    let met = reached(mean, bar.mean) && bar.each.is_none_or(|each| reached(worst, each));
    let sign = if share { "≤" } else { "≥" };
    let asked = match bar.each {
        Some(each) if each == bar.mean => format!("each {sign} {each}"),
        Some(each) => format!("{sign} {}, each {sign} {each}", bar.mean),
        None => format!("{sign} {}", bar.mean),
    };
    let what = match bar.measure {
        Measure::Speed => "speed",
        Measure::Memory => "peak memory",
        Measure::Other => "time in kernels that are no products",
    };
    format!(
        "| {}: {what} | {} | {} | {threads} | {} | {mean:.2} | {worst:.2} | {asked} | {} |\n",
        bar.groups,
        bar.subject.name(),
        bar.peer.name(),
        ratios.len(),
        if met { "met" } else { "short" }
    )
}

#[cfg(test)]
mod tests {
    use super::super::table::GROUPS;
    use super::*;

    fn figure(group: &str, at: usize, program: Program, milliseconds: f64, memory: Option<f64>) -> Figure {
        let group = GROUPS.iter().find(|known| known.name == group).unwrap();
        Figure { group, case: group.cases[at], threads: 1, program, milliseconds, memory, kernels: None }
    }

    #[test]
    fn a_mean_can_be_met_while_a_case_falls_short() {
        let mut figures = vec![
            figure("matmul f32", 0, Program::Ours, 2.0, None),
            figure("matmul f32", 0, Program::PyTorch, 1.5, None),
            figure("matmul f32", 1, Program::Ours, 10.0, None),
            figure("matmul f32", 1, Program::PyTorch, 30.0, None),
        ];
        let text = all(&figures, &[1]);
        assert!(text.contains("| matmul dtype=f32 m=512 k=512 n=512 | 10.0 | 30.0 (3.00) |"), "{text}");
        // √(0.75 · 3) = 1.5.
        let line = "| matmul f32: speed | ours | PyTorch | 1 | 2 | 1.50 | 0.75 | ≥ 0.9, each ≥ 0.8 | short |";
        assert!(text.contains(line), "{text}");
        figures[1].milliseconds = 1.6;
        assert!(all(&figures, &[1]).contains("| 0.80 | ≥ 0.9, each ≥ 0.8 | met |"));
    }

    #[test]
    fn memory_is_a_share_and_smaller_is_better() {
        let figures = [
            figure("step MLP", 0, Program::Ours, 2.0, Some(60e6)),
            figure("step MLP", 0, Program::PyTorch, 2.2, Some(100e6)),
        ];
        let text = all(&figures, &[1]);
        assert!(text.contains("| 60.0 | 100 (0.60) |"), "{text}");
        assert!(
            text.contains("| step: peak memory | ours | PyTorch | 1 | 1 | 0.60 | 0.60 | each ≤ 0.7 | met |"),
            "{text}"
        );
        assert!(text.contains("| step: speed | ours | PyTorch | 1 | 1 | 1.10 | 1.10 | each ≥ 1.2 | short |"), "{text}");
    }

    #[test]
    fn kernels_that_are_no_products_are_compared_with_the_other_mode() {
        let with = |program, other| Figure {
            kernels: Some(Kernels { other, all: 50.0 }),
            ..figure("step MLP", 0, program, 60.0, None)
        };
        let text = all(&[with(Program::Ours, 3.0), with(Program::Never, 5.0)], &[1]);
        assert!(text.contains("| 3.00 | 5.00 (0.60) |"), "{text}");
        let line = "| step: time in kernels that are no products | ours | DeferNever | 1 | 1 | 0.60 | 0.60 | each ≤ 0.5 | short |";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!([0.01234, 1.234, 12.34, 123.4, 1234.0].map(short), ["0.0123", "1.23", "12.3", "123", "1234"]);
    }
}
