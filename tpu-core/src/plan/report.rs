//! Plans as text for people.

use super::{Batch, Figures, Plan};
use std::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, device_kind, devices, used, .. } = self;
        writeln!(f, "{target}: {used} of {devices} × {device_kind}")?;
        let took = self.compile_time.as_secs_f64();
        match &self.outcome {
            Ok(figures) => {
                writeln!(f, "  compiles    in {took:.1} s here")?;
                self.show(figures, f)
            }
            Err(refusal) if refusal.is_out_of_memory() => writeln!(f, "  does not fit: {refusal}"),
            Err(refusal) => writeln!(f, "  does not compile: {refusal}"),
        }
    }
}

impl Plan {
    fn show(&self, figures: &Figures, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { flops, memory, estimate, .. } = figures;
        let of = self.device_memory.map_or(String::new(), |all| {
            format!(" of {}, {:.1} %", bytes(all), 100.0 * memory.peak as f64 / all as f64)
        });
        writeln!(f, "  memory      {} at the peak{of}", bytes(memory.peak))?;
        writeln!(
            f,
            "              arguments {}, outputs {} ({} of them in memory of arguments), temporaries {}, code {}",
            bytes(memory.arguments),
            bytes(memory.outputs),
            bytes(memory.aliased),
            bytes(memory.temporaries),
            bytes(memory.code)
        )?;
        writeln!(f, "  work        {}, {} read and written", operations(*flops), bytes(figures.bytes as u64))?;
        let (Some(chip), Some(seconds)) = (&self.chip, estimate.seconds) else {
            writeln!(f, "  step time   {} cycles, an estimate; the clock is not known here", estimate.cycles)?;
            return self.show_operations(figures, f);
        };
        let clock = chip.clock() / 1e9;
        writeln!(f, "  step time   {}, an estimate: {} cycles at {clock:.2} GHz", time(seconds), estimate.cycles)?;
        if estimate.unmodelled > 0 {
            let (taken, count) = (time(estimate.unmodelled_seconds), estimate.unmodelled);
            writeln!(
                f,
                "              and {taken} for operations that the compiler has no figure for, {count} of them"
            )?;
        }
        if estimate.collectives > 0 {
            let count = estimate.collectives;
            writeln!(
                f,
                "              operations among devices, {count} of them, without the time of links between devices"
            )?;
        }
        if estimate.unbounded_loops > 0 {
            writeln!(f, "              {} loops of unknown length are counted once", estimate.unbounded_loops)?;
        }
        let share = figures.share_of_peak(chip).unwrap_or(0.0);
        let peak = chip.flops_per_second / 1e12;
        writeln!(f, "  of the peak {:.1} % of {peak:.0} TFLOP/s (bf16), by that estimate", 100.0 * share)?;
        self.show_operations(figures, f)
    }

    fn show_operations(&self, figures: &Figures, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(chip) = self.chip else { return Ok(()) };
        let all = figures.estimate.seconds.unwrap_or(0.0).max(f64::MIN_POSITIVE);
        writeln!(f, "  most expensive")?;
        for operation in &figures.estimate.operations {
            let share = 100.0 * operation.cycles as f64 / chip.clock() / all;
            let runs = if operation.runs > 1 { format!(", {} runs", operation.runs) } else { String::new() };
            writeln!(f, "    {share:4.1} %  {} ({} cycles{runs})", operation.name, operation.cycles)?;
            for place in &operation.places {
                writeln!(f, "            {}:{} {}", place.file, place.line, place.name)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tried = self.compilations;
        match (&self.fits, self.too_large) {
            (Some((batch, _)), Some(too_large)) => {
                write!(f, "largest batch {batch}; {too_large} does not fit ({tried} programs compiled)")
            }
            (Some((batch, _)), None) => write!(f, "batch {batch} fits, as all that were tried ({tried})"),
            (None, _) => write!(f, "no batch that was tried fits ({tried} programs compiled)"),
        }
    }
}

/// Plans of one program side by side, as a table of Markdown.
pub fn table(plans: &[Plan]) -> String {
    let mut out = "| target | peak memory | of the device's | FLOP | step time (estimate) | of peak (estimate) |\n\
                   |---|---|---|---|---|---|\n"
        .to_string();
    for plan in plans {
        let row = match &plan.outcome {
            Ok(figures) => {
                let peak = figures.memory.peak;
                let share = |part: f64| format!("{:.1} %", 100.0 * part);
                let of = plan.device_memory.map_or("?".into(), |all| share(peak as f64 / all as f64));
                let seconds = figures.estimate.seconds.map_or("?".into(), time);
                let part = plan.chip.and_then(|chip| figures.share_of_peak(&chip)).map_or("?".into(), share);
                format!("{} | {of} | {} | {seconds} | {part}", bytes(peak), operations(figures.flops))
            }
            Err(refusal) => format!("{refusal} | | | |"),
        };
        out += &format!("| {} | {row} |\n", plan.target);
    }
    out
}

fn scaled(number: f64, units: [&str; 5]) -> String {
    let mut number = number;
    for unit in &units[..4] {
        if number < 1000.0 {
            return if *unit == units[0] { format!("{number:.0} {unit}") } else { format!("{number:.1} {unit}") };
        }
        number /= 1000.0;
    }
    format!("{number:.1} {}", units[4])
}

fn bytes(number: u64) -> String {
    scaled(number as f64, ["B", "kB", "MB", "GB", "TB"])
}

fn operations(number: f64) -> String {
    scaled(number, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"])
}

fn time(seconds: f64) -> String {
    scaled(seconds * 1e9, ["ns", "µs", "ms", "s", "ks"])
}
