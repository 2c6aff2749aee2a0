//! The scheduler: records operations, cuts them into programs, finds the programs in a cache, queues them.
//!
//! A tensor operation appends a node to the recording thread's stream. A cut turns the nodes that belong
//! together into one program: when the host reads a value, at the end of an iteration ([`mark_step`]), at a limit. The
//! program's [key](crate::ir::key) leads to a cached executable; the device's queue runs it.
//! Nothing here knows an operation by name.

mod boundary;
pub(crate) mod cell;
mod cut;
pub(crate) mod few;
mod fork;
pub(crate) mod job;
pub(crate) mod mode;
pub(crate) mod outcome;
pub(crate) mod program;
pub(crate) mod queue;
pub(crate) mod slot;
mod stats;
pub(crate) mod stream;
pub(crate) mod trace;

pub use mode::{Mode, at_caller, checks_indices, foreign_caller, scope, strict_rounding, unchecked_indices};
pub use outcome::Outcome;
pub use stats::{Cause, Reason, Statistics, compile_causes, statistics};

use crate::Result;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use stream::Stream;

/// Ends an iteration: everything this thread has pending becomes programs, one for each set of connected operations,
/// queued without waiting. Optimizers call it; a loop that marks its steps has one program per step.
pub fn mark_step() {
    for stream in Stream::of_thread() {
        stream.cut_all(Reason::MarkStep);
    }
}

/// Cuts everything that any thread has pending and waits until all devices are done.
///
/// Errors only if a device cannot be waited for; failed programs show when their values are read.
pub fn synchronize() -> Result<()> {
    let streams = Stream::all();
    for stream in &streams {
        stream.cut_all(Reason::Synchronize);
    }
    streams.iter().try_for_each(|stream| stream.device().queue().drain())
}

/// Number of operations that this thread has recorded and no program holds yet.
pub fn pending() -> usize {
    Stream::of_thread().iter().map(|stream| stream.pending()).sum()
}

/// When pending operations are cut without anybody asking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Pending operations of a thread.
    pub nodes: usize,
    /// Bytes that all results recorded since the last cut would take if all were real.
    pub bytes: usize,
}

static NODES: AtomicUsize = AtomicUsize::new(1 << 15);
static BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The limits in force: 32,768 operations and no bound on bytes, unless set.
pub fn limits() -> Limits {
    Limits { nodes: NODES.load(Relaxed), bytes: BYTES.load(Relaxed) }
}

/// Sets the limits for all threads.
pub fn set_limits(limits: Limits) {
    NODES.store(limits.nodes.max(1), Relaxed);
    BYTES.store(limits.bytes, Relaxed);
}
