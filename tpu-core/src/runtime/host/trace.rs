//! Programs written to a folder: what they compute, how they run, where their time goes.
//!
//! One file per program, `PROCESS-NUMBER.json`, see [`HostOptions::trace`](super::HostOptions::trace) for what is in it. It is
//! written when the program is compiled, again when its runs are a power of two, and when it is dropped. A file that cannot be
//! written is logged; it fails no run.

use super::program::{Program, Step};
use crate::ir::{Graph, text, verify};
use crate::runtime::KernelInfo;
use crate::{Error, Result};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Programs that are written at most: a mode that makes a program of each op has thousands.
const PROGRAMS: usize = 512;
/// Bytes of a program's text that are kept at most.
const TEXT: usize = 1 << 20;

/// Writes programs.
#[derive(Debug)]
pub(super) struct Tracer {
    folder: PathBuf,
    programs: AtomicUsize,
}

impl Tracer {
    /// Makes the folder. Errors with `Io` when that cannot be.
    pub fn new(folder: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&folder).map_err(|error| Error::io("host", &folder, &error))?;
        Ok(Self { folder, programs: AtomicUsize::new(0) })
    }

    /// The trace of a new program, unless there are too many. `plan` is what the compiler says of it.
    pub fn start(&self, source: &Graph, plan: Json, program: &Program) -> Option<Trace> {
        let number = self.programs.fetch_add(1, Relaxed);
        if number >= PROGRAMS {
            if number == PROGRAMS {
                tracing::warn!(folder = %self.folder.display(), "{PROGRAMS} programs are traced, and no more");
            }
            return None;
        }
        let mut graph = verify::verify(source).map(text::print).unwrap_or_else(|error| error.to_string());
        let cut = graph.len() > TEXT;
        if cut {
            graph.truncate((0..=TEXT).rev().find(|&at| graph.is_char_boundary(at)).unwrap_or(0));
        }
        let trace = Trace {
            path: self.folder.join(format!("{}-{number:03}.json", std::process::id())),
            fixed: json!({ "nodes": source.nodes.len(), "graph": graph, "graph_is_cut": cut, "plan": plan }),
            kernels: program.listing(),
            times: Times::of(program),
            runs: AtomicU64::new(0),
            wall: AtomicU64::new(0),
            writing: Mutex::new(()),
        };
        trace.write();
        Some(trace)
    }
}

/// What the runs of a program, or of a block inside one, have taken.
#[derive(Debug)]
pub(super) struct Times {
    pub runs: AtomicU64,
    /// Nanoseconds of each step.
    pub steps: Box<[AtomicU64]>,
    /// The blocks of each step that is a loop or a branch, by the number of the step.
    blocks: Vec<(usize, Vec<Self>)>,
}

impl Times {
    fn of(program: &Program) -> Self {
        let blocks = program.steps.iter().enumerate().filter_map(|(number, step)| match step {
            Step::Control(step) => Some((number, step.control.programs().map(Self::of).collect())),
            _ => None,
        });
        Self {
            runs: AtomicU64::new(0),
            steps: program.steps.iter().map(|_| AtomicU64::new(0)).collect(),
            blocks: blocks.collect(),
        }
    }

    /// Those of the blocks of a step; none if it has no blocks.
    pub fn inside(&self, step: usize) -> &[Self] {
        let found = self.blocks.binary_search_by_key(&step, |(number, _)| *number);
        found.map_or(&[], |at| &self.blocks[at].1)
    }

    /// Writes the seconds of each kernel into the program's listing.
    pub fn note(&self, listing: &mut [KernelInfo]) {
        for (number, (kernel, time)) in listing.iter_mut().zip(&self.steps).enumerate() {
            kernel.seconds = time.load(Relaxed) as f64 * 1e-9;
            let mut inner = &mut kernel.inner[..];
            for block in self.inside(number) {
                let (own, rest) = std::mem::take(&mut inner).split_at_mut(block.steps.len());
                block.note(own);
                inner = rest;
            }
        }
    }

    /// Kernels with what their runs took.
    fn json(&self, kernels: &[KernelInfo]) -> Json {
        let runs = self.runs.load(Relaxed) as f64;
        let kernel = |(number, (info, time)): (usize, (&KernelInfo, &AtomicU64))| {
            let nanoseconds = time.load(Relaxed);
            // Work a nanosecond is billions of it a second.
            let rate = |work: f64| if nanoseconds == 0 { 0.0 } else { work * runs / nanoseconds as f64 };
            let mut json = json!({
                "kind": info.kind, "ops": info.ops, "reads": info.reads, "writes": info.writes,
                "bytes": info.bytes, "flops": info.flops, "nanoseconds": nanoseconds,
                "gb_per_s": rate(info.bytes), "gflop_per_s": rate(info.flops),
            });
            let mut rest = &info.inner[..];
            let blocks = self.inside(number).iter().map(|block| {
                let (own, after) = rest.split_at(block.steps.len());
                rest = after;
                json!({ "runs": block.runs.load(Relaxed), "kernels": block.json(own) })
            });
            let blocks: Vec<Json> = blocks.collect();
            if !blocks.is_empty() {
                json["inner"] = blocks.into();
            }
            json
        };
        kernels.iter().zip(&self.steps).enumerate().map(kernel).collect()
    }
}

/// What is known of one program.
#[derive(Debug)]
pub(super) struct Trace {
    path: PathBuf,
    fixed: Json,
    kernels: Vec<KernelInfo>,
    pub times: Times,
    runs: AtomicU64,
    wall: AtomicU64,
    writing: Mutex<()>,
}

impl Trace {
    /// Notes that a run is over.
    pub fn ran(&self, wall: Duration) {
        self.wall.fetch_add(wall.as_nanos() as u64, Relaxed);
        if (self.runs.fetch_add(1, Relaxed) + 1).is_power_of_two() {
            self.write();
        }
    }

    fn json(&self) -> Json {
        let mut all = self.fixed.clone();
        all["kernels"] = self.times.json(&self.kernels);
        all["runs"] = self.runs.load(Relaxed).into();
        all["wall_nanoseconds"] = self.wall.load(Relaxed).into();
        all
    }

    /// Writes the file anew, beside the old one and then in its place, so that a reader finds one or the other whole.
    fn write(&self) {
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let beside = self.path.with_extension("json.new");
        let written =
            std::fs::write(&beside, self.json().to_string()).and_then(|()| std::fs::rename(&beside, &self.path));
        if let Err(error) = written {
            tracing::warn!(path = %self.path.display(), "a trace could not be written: {error}");
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.write();
    }
}
