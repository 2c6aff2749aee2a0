//! Programs written to a folder: what they compute, how they run, where their time goes.
//!
//! One file per program, `PROCESS-NUMBER.json`, see [`HostOptions::trace`](super::HostOptions::trace) for what is in it. It is
//! written when the program is compiled, again when its runs are a power of two, and when it is dropped. A file that cannot be
//! written is logged; it fails no run.

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
    pub fn start(&self, source: &Graph, plan: Json, kernels: &[KernelInfo]) -> Option<Trace> {
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
            kernels: kernels.to_vec(),
            nanoseconds: kernels.iter().map(|_| AtomicU64::new(0)).collect(),
            runs: AtomicU64::new(0),
            wall: AtomicU64::new(0),
            writing: Mutex::new(()),
        };
        trace.write();
        Some(trace)
    }
}

/// What is known of one program.
#[derive(Debug)]
pub(super) struct Trace {
    path: PathBuf,
    fixed: Json,
    kernels: Vec<KernelInfo>,
    /// Spent in each kernel by all runs.
    pub nanoseconds: Box<[AtomicU64]>,
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

    /// Seconds spent in a kernel.
    pub fn seconds(&self, kernel: usize) -> f64 {
        self.nanoseconds[kernel].load(Relaxed) as f64 * 1e-9
    }

    fn json(&self) -> Json {
        let runs = self.runs.load(Relaxed);
        let kernel = |(at, info): (usize, &KernelInfo)| {
            let nanoseconds = self.nanoseconds[at].load(Relaxed);
            // Work a nanosecond is billions of it a second.
            let rate = |work: f64| if nanoseconds == 0 { 0.0 } else { work * runs as f64 / nanoseconds as f64 };
            json!({
                "kind": info.kind, "ops": info.ops, "reads": info.reads, "writes": info.writes,
                "bytes": info.bytes, "flops": info.flops, "nanoseconds": nanoseconds,
                "gb_per_s": rate(info.bytes), "gflop_per_s": rate(info.flops),
            })
        };
        let mut all = self.fixed.clone();
        all["kernels"] = self.kernels.iter().enumerate().map(kernel).collect();
        all["runs"] = runs.into();
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
