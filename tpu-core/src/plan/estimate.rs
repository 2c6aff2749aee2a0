//! From the optimized program to an estimate of its time.
//!
//! The compiler notes for most operations how many cycles it expects ([`Instruction::estimated_cycles`]). For the others
//! (copies, gathers, custom calls) an estimate is made here: the bytes they move over the memory's bandwidth, and at least
//! what the cheapest operation with a note takes, since starting any of them takes that. Transfers that run beside the
//! computation count only where there are more of them than it can hide.

use super::chip::Chip;
use super::rounds::rounds;
use crate::runtime::pjrt::hlo::{Computation, Instruction, Module, Source};
use std::collections::{HashMap, HashSet};

/// An estimate of what one run takes. Not a measurement: a sum of what the compiler expects of each operation alone.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Estimate {
    /// Cycles that the compiler noted, loops included.
    pub cycles: u64,
    /// Seconds of one run, where the chip is known.
    pub seconds: Option<f64>,
    /// Of these, what operations take for which the compiler noted nothing.
    pub unmodelled_seconds: f64,
    /// How many such operations there are.
    pub unmodelled: usize,
    /// How many of them are among devices. The bytes count as those of memory; how long the links between devices take is
    /// in no figure.
    pub collectives: usize,
    /// Loops of which nobody knows how often they run: counted once.
    pub unbounded_loops: usize,
    /// The most expensive operations, most expensive first.
    pub operations: Vec<Operation>,
}

/// An operation of the optimized program, a fusion of many recorded ones as a rule.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Operation {
    /// The compiler's name for it.
    pub name: String,
    /// Cycles of all its runs together.
    pub cycles: u64,
    /// How often it runs.
    pub runs: u64,
    /// Where the operations in it were recorded, the place of most first.
    pub places: Vec<Place>,
}

/// Where operations were recorded.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Place {
    /// Module scope and operation, `blocks.0.mlp.fc/dot_general`.
    pub name: String,
    /// Source file.
    pub file: String,
    /// Line in it, from 1.
    pub line: u32,
}

/// How many operations are listed.
const LISTED: usize = 10;
/// Places listed for each.
const PLACES: usize = 4;
/// How deep computations may call each other: a program of a compiler has a handful of levels.
const DEPTH: usize = 64;
/// How many computations are entered: each is called from one place as a rule, and from thousands never.
const ENTERED: usize = 1 << 16;

/// Estimates a program on a chip.
///
/// `file` is where the program's text came from: operations without a place of their own have their line in it.
pub(super) fn estimate(module: &Module, chip: Option<&Chip>, file: Option<&str>) -> Estimate {
    let all = module.computations.values().flat_map(|computation| &computation.instructions);
    let start = all.filter_map(Instruction::estimated_cycles).filter(|&cycles| cycles > 0).min().unwrap_or(0);
    let mut walk =
        Walk { module, chip, start, out: Estimate::default(), operations: Vec::new(), hidden: 0.0, left: ENTERED };
    walk.run(module.entry, 1, DEPTH);
    let Walk { mut out, mut operations, hidden, .. } = walk;
    out.seconds = chip.map(|chip| (out.cycles as f64 / chip.clock() + out.unmodelled_seconds).max(hidden));
    operations.sort_by_key(|&(_, cycles, _)| std::cmp::Reverse(cycles));
    operations.truncate(LISTED);
    let listed = operations.into_iter().map(|(instruction, cycles, runs)| Operation {
        name: instruction.name.clone(),
        cycles,
        runs,
        places: places(module, instruction, file),
    });
    out.operations = listed.collect();
    out
}

struct Walk<'a> {
    module: &'a Module,
    chip: Option<&'a Chip>,
    /// Cycles of the cheapest operation.
    start: u64,
    out: Estimate,
    operations: Vec<(&'a Instruction, u64, u64)>,
    /// Seconds of transfers beside the computation.
    hidden: f64,
    /// How many computations may still be entered.
    left: usize,
}

impl<'a> Walk<'a> {
    fn run(&mut self, computation: i64, runs: u64, depth: usize) {
        let known = self.module.computations.get(&computation);
        let (Some(computation), Some(depth), Some(left)) = (known, depth.checked_sub(1), self.left.checked_sub(1))
        else {
            return;
        };
        self.left = left;
        for instruction in &computation.instructions {
            if let Some(cycles) = instruction.estimated_cycles() {
                self.add(instruction, cycles, runs);
                continue;
            }
            match &*instruction.opcode {
                "while" => {
                    let trips = instruction.trip_count().or_else(|| rounds(self.module, computation, instruction));
                    self.out.unbounded_loops += usize::from(trips.is_none());
                    let runs = runs.saturating_mul(trips.unwrap_or(1));
                    instruction.called.iter().for_each(|&called| self.run(called, runs, depth));
                }
                // Of branches all are counted: which one is taken, nobody knows.
                "call" | "conditional" => instruction.called.iter().for_each(|&called| self.run(called, runs, depth)),
                // Its result is a tuple of what is written and what is read.
                "copy-start" => self.hidden += self.transfer(instruction, 0, runs),
                "async-start" => {
                    let called = instruction.called.iter().filter_map(|called| self.module.computations.get(called));
                    let moved = called.flat_map(|computation| &computation.instructions).filter(|inner| moves(inner));
                    self.hidden += moved.map(|inner| self.transfer(inner, inner.bytes, runs)).sum::<f64>();
                }
                _ if moves(instruction) => self.unmodelled(computation, instruction, runs),
                _ => {}
            }
        }
    }

    fn add(&mut self, instruction: &'a Instruction, cycles: u64, runs: u64) {
        let cycles = cycles.saturating_mul(runs);
        self.out.cycles = self.out.cycles.saturating_add(cycles);
        self.operations.push((instruction, cycles, runs));
    }

    fn unmodelled(&mut self, computation: &Computation, instruction: &'a Instruction, runs: u64) {
        self.out.unmodelled += 1;
        self.out.collectives += usize::from(is_collective(&instruction.opcode));
        let Some(chip) = self.chip else { return };
        let least = self.start as f64 / chip.clock() * runs as f64;
        // What picks elements reads as many as it writes; of anything else, all of its operands.
        const PICKS: [&str; 5] = ["copy", "gather", "slice", "reshape", "transpose"];
        let read = if PICKS.iter().any(|word| instruction.name.starts_with(word) || instruction.opcode == *word) {
            instruction.bytes
        } else {
            instruction.operands.iter().map(|&operand| computation.bytes_of(operand)).fold(0, u64::saturating_add)
        };
        let seconds = self.transfer(instruction, read, runs).max(least);
        self.out.unmodelled_seconds += seconds;
        self.operations.push((instruction, (seconds * chip.clock()) as u64, runs));
    }

    /// Seconds that the memory takes for what an operation reads and writes.
    fn transfer(&self, instruction: &Instruction, read: u64, runs: u64) -> f64 {
        let Some(chip) = self.chip else { return 0.0 };
        read.saturating_add(instruction.bytes) as f64 * runs as f64 / chip.bytes_per_second
    }
}

/// Whether an operation does something when the program runs. Scalars are computed beside everything else.
fn moves(instruction: &Instruction) -> bool {
    const NOTHING: [&str; 6] = ["parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"];
    const SCALAR: u64 = 16;
    // What ends a transfer was counted where it starts.
    let opcode = &*instruction.opcode;
    instruction.bytes > SCALAR && !NOTHING.contains(&opcode) && !opcode.ends_with("-done")
}

/// Whether an operation, or the start of one, is among devices.
fn is_collective(opcode: &str) -> bool {
    const COLLECTIVES: [&str; 6] =
        ["all-gather", "all-reduce", "all-to-all", "collective-broadcast", "collective-permute", "reduce-scatter"];
    COLLECTIVES.contains(&opcode.strip_suffix("-start").unwrap_or(opcode))
}

/// What MLIR's parser calls the file of an operation whose text says none.
const NO_FILE: &str = "-";

/// The places of the operations in an instruction: the one that the compiler names for the whole, which is the costliest as
/// a rule, then the most frequent.
fn places(module: &Module, whole: &Instruction, file: Option<&str>) -> Vec<Place> {
    let mut counts: HashMap<&Source, usize> = HashMap::new();
    let mut seen = HashSet::new();
    let mut next = vec![whole];
    while let Some(instruction) = next.pop() {
        let has_file = !instruction.source.file.is_empty();
        if has_file && (&*instruction.source.file != NO_FILE || file.is_some()) {
            *counts.entry(&instruction.source).or_default() += 1;
        }
        for called in &instruction.called {
            if seen.insert(*called)
                && let Some(computation) = module.computations.get(called)
            {
                next.extend(&computation.instructions);
            }
        }
    }
    // One entry for each line, named by its most frequent operation.
    let mut counts: Vec<(&Source, usize)> = counts.into_iter().collect();
    let rank = |&(source, count): &(&Source, usize)| (*source != whole.source, std::cmp::Reverse(count));
    counts.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| key(a.0).cmp(&key(b.0))));
    let mut lines = HashSet::new();
    counts.retain(|(source, _)| lines.insert((&source.file, source.line)));
    let place = |(source, _): (&Source, usize)| Place {
        name: source.name.to_string(),
        file: if &*source.file == NO_FILE { file.unwrap_or(NO_FILE) } else { &source.file }.to_string(),
        line: source.line,
    };
    counts.into_iter().take(PLACES).map(place).collect()
}

fn key(source: &Source) -> (&str, u32, &str) {
    (&source.file, source.line, &source.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(name: &str, opcode: &str, bytes: u64, config: &str, called: &[i64]) -> Instruction {
        let (name, opcode, config) = (name.into(), opcode.into(), config.into());
        Instruction { name, opcode, bytes, config, called: called.into(), ..Instruction::default() }
    }

    fn module(computations: Vec<Vec<Instruction>>) -> Module {
        let number = |(id, instructions): (usize, Vec<Instruction>)| (id as i64, Computation::new(instructions));
        Module { entry: 0, computations: computations.into_iter().enumerate().map(number).collect() }
    }

    const TEN: &str = r#"{"estimated_cycles":"10"}"#;

    #[test]
    fn loops_multiply_and_what_has_no_figure_takes_the_time_of_its_bytes() {
        let chip = Chip::of("v5e:1x1").unwrap();
        let program = module(vec![
            vec![
                instruction("p", "parameter", 1 << 30, "", &[]),
                instruction("f", "fusion", 64, TEN, &[2]),
                instruction("w", "while", 64, r#"{"known_trip_count":{"n":"7"}}"#, &[1]),
                instruction("u", "while", 64, "", &[1]),
                instruction("copy.1", "copy", 819_000, "", &[]),
                instruction("copy.2", "copy", 4, "", &[]),
                instruction("copy.3", "copy", 32, "", &[]),
            ],
            vec![instruction("g", "fusion", 64, TEN, &[])],
            // Inside of a fusion nothing counts by itself.
            vec![instruction("inner", "add", 1 << 30, TEN, &[])],
        ]);
        let estimate = estimate(&program, Some(chip), None);
        assert_eq!((estimate.cycles, estimate.unbounded_loops, estimate.unmodelled), (10 + 70 + 10, 1, 2));
        // Read and written at 819 GB/s: 2 µs; the small one takes the 10 cycles that anything takes.
        let want = 2e-6 + 10.0 / chip.clock();
        assert!((estimate.unmodelled_seconds / want - 1.0).abs() < 1e-9, "{estimate:?}");
        let want = want + 90.0 / chip.clock();
        assert!((estimate.seconds.unwrap() / want - 1.0).abs() < 1e-9, "{estimate:?}");
        let names: Vec<&str> = estimate.operations.iter().map(|operation| &*operation.name).collect();
        assert_eq!(names[..2], ["copy.1", "g"]);
    }

    #[test]
    fn operations_among_devices_are_counted_once() {
        let chip = Chip::of("v5e:1x1").unwrap();
        let program = module(vec![vec![
            instruction("f", "fusion", 64, TEN, &[]),
            instruction("all-reduce", "all-reduce", 819_000, "", &[]),
            instruction("collective-permute-start", "collective-permute-start", 819_000, "", &[]),
            instruction("collective-permute-done", "collective-permute-done", 819_000, "", &[]),
        ]]);
        let estimate = estimate(&program, Some(chip), None);
        assert_eq!((estimate.unmodelled, estimate.collectives), (2, 2));
    }

    #[test]
    fn transfers_beside_the_computation_count_when_it_cannot_hide_them() {
        let chip = Chip::of("v5e:1x1").unwrap();
        let of = |bytes| {
            let start = instruction("copy-start", "copy-start", bytes, "", &[]);
            let program = module(vec![vec![start, instruction("f", "fusion", 64, TEN, &[])]]);
            estimate(&program, Some(chip), None).seconds.unwrap()
        };
        assert_eq!(of(2 * 819), 10.0 / chip.clock());
        assert!((of(2 * 819_000_000) / 2e-3 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn computations_that_call_themselves_end() {
        let program = module(vec![vec![instruction("c", "call", 8, "", &[0, 0])]]);
        let estimate = estimate(&program, None, None);
        assert_eq!((estimate.cycles, estimate.seconds), (0, None));
    }

    #[test]
    fn places_begin_with_the_one_that_the_compiler_names() {
        let at = |line, name: &str| Source { name: name.into(), file: "a.rs".into(), line };
        let with = |source| Instruction { source, ..instruction("x", "add", 64, "", &[]) };
        let fusion = Instruction { source: at(3, "dot"), ..instruction("f", "fusion", 64, TEN, &[1]) };
        let unnamed = Source { file: NO_FILE.into(), line: 9, ..Source::default() };
        let inner = [at(1, "add"), at(2, "mul"), at(2, "mul"), at(2, "exp"), at(3, "dot"), unnamed, Source::default()];
        let program = module(vec![vec![fusion], inner.map(with).into()]);
        let lines = |file| {
            let estimate = estimate(&program, None, file);
            estimate.operations[0].places.iter().map(|place| (place.line, place.name.clone())).collect::<Vec<_>>()
        };
        let named = |line, name: &str| (line, name.to_string());
        assert_eq!(lines(None), [named(3, "dot"), named(2, "mul"), named(1, "add")]);
        assert!(lines(Some("b.mlir")).contains(&named(9, "")));
    }
}
