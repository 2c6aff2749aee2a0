//! What the scheduler did, as a public interface.

pub use super::program::Cause;
use super::stream::Stream;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Why a program was cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(u8)]
pub enum Reason {
    /// A value was read by the host.
    HostRead,
    /// `synchronize` was called.
    Synchronize,
    /// `mark_step` was called, by an optimizer for example: an iteration ended.
    MarkStep,
    /// The caller asked for a value to be made real without reading it.
    Explicit,
    /// Too many operations were pending.
    SizeLimit,
    /// The results pending would need too much memory.
    MemoryLimit,
    /// The mode makes each operation a program.
    EveryOperation,
    /// Another thread used the value.
    OtherThread,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::HostRead,
        Self::Synchronize,
        Self::MarkStep,
        Self::Explicit,
        Self::SizeLimit,
        Self::MemoryLimit,
        Self::EveryOperation,
        Self::OtherThread,
    ];
}

/// Counters since the start of the process; subtract two with [`since`](Statistics::since).
///
/// ```
/// use tpu_core::{Tensor, lazy};
/// let before = lazy::statistics();
/// let x = Tensor::from_slice(&[1.0f32, 2.0])?;
/// (&x + &x).to_vec::<f32>()?;
/// let done = lazy::statistics().since(&before);
/// assert!(done.programs >= 1 && done.cuts_by(lazy::Reason::HostRead) >= 1);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Operations recorded.
    pub recorded: u64,
    /// Pending operations that cuts looked at, in the program or left behind. Well above `recorded` when few operations are
    /// cut out of many pending ones, again and again.
    pub visited: u64,
    /// Programs handed to devices.
    pub programs: u64,
    /// Of these, run on the recording thread.
    pub inline: u64,
    /// Programs found in the cache.
    pub cache_hits: u64,
    /// Programs not found in the cache.
    pub cache_misses: u64,
    /// Programs compiled from nothing.
    pub compiles: u64,
    /// Programs made for other sizes from what was compiled before, without compiling.
    pub resizes: u64,
    /// Programs loaded from a persistent [`Cache`](crate::runtime::Cache), without compiling.
    pub loads: u64,
    /// Seconds spent in these three.
    pub compile_seconds: f64,
    /// Programs dropped from the cache.
    pub evictions: u64,
    /// Programs run in part because an input had failed.
    pub partial: u64,
    cuts: [u64; Reason::ALL.len()],
}

impl Statistics {
    /// Programs cut for this reason.
    pub fn cuts_by(&self, reason: Reason) -> u64 {
        self.cuts[reason as usize]
    }

    /// What happened after `earlier` was taken.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            // A stream that ends between two looks may be missing from the later one.
            recorded: self.recorded.saturating_sub(earlier.recorded),
            visited: self.visited - earlier.visited,
            programs: self.programs - earlier.programs,
            inline: self.inline - earlier.inline,
            cache_hits: self.cache_hits - earlier.cache_hits,
            cache_misses: self.cache_misses - earlier.cache_misses,
            compiles: self.compiles - earlier.compiles,
            resizes: self.resizes - earlier.resizes,
            loads: self.loads - earlier.loads,
            compile_seconds: self.compile_seconds - earlier.compile_seconds,
            evictions: self.evictions - earlier.evictions,
            partial: self.partial - earlier.partial,
            cuts: std::array::from_fn(|at| self.cuts[at] - earlier.cuts[at]),
        }
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} programs ({} inline), cuts:", self.programs, self.inline)?;
        for reason in Reason::ALL.into_iter().filter(|&reason| self.cuts_by(reason) > 0) {
            write!(f, " {reason:?} {}", self.cuts_by(reason))?;
        }
        write!(f, "; cache: {} hits, {} misses, {} evicted", self.cache_hits, self.cache_misses, self.evictions)?;
        write!(f, "; {} compiled, {} resized", self.compiles, self.resizes)?;
        if self.loads > 0 {
            write!(f, ", {} loaded", self.loads)?;
        }
        write!(f, " in {:.3} s", self.compile_seconds)
    }
}

struct Counters {
    visited: AtomicU64,
    queued: AtomicU64,
    inline: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    compiles: AtomicU64,
    resizes: AtomicU64,
    loads: AtomicU64,
    compile_nanos: AtomicU64,
    evictions: AtomicU64,
    partial: AtomicU64,
    cuts: [AtomicU64; Reason::ALL.len()],
}

static COUNTERS: Counters = Counters {
    visited: AtomicU64::new(0),
    queued: AtomicU64::new(0),
    inline: AtomicU64::new(0),
    hits: AtomicU64::new(0),
    misses: AtomicU64::new(0),
    compiles: AtomicU64::new(0),
    resizes: AtomicU64::new(0),
    loads: AtomicU64::new(0),
    compile_nanos: AtomicU64::new(0),
    evictions: AtomicU64::new(0),
    partial: AtomicU64::new(0),
    cuts: [const { AtomicU64::new(0) }; Reason::ALL.len()],
};

/// The latest causes of cache misses and compiles.
static CAUSES: Mutex<Vec<Cause>> = Mutex::new(Vec::new());
const CAUSES_KEPT: usize = 64;

/// The counters now.
pub fn statistics() -> Statistics {
    let c = &COUNTERS;
    let inline = c.inline.load(Relaxed);
    Statistics {
        recorded: Stream::recorded(),
        visited: c.visited.load(Relaxed),
        programs: inline + c.queued.load(Relaxed),
        inline,
        cache_hits: c.hits.load(Relaxed),
        cache_misses: c.misses.load(Relaxed),
        compiles: c.compiles.load(Relaxed),
        resizes: c.resizes.load(Relaxed),
        loads: c.loads.load(Relaxed),
        compile_seconds: c.compile_nanos.load(Relaxed) as f64 * 1e-9,
        evictions: c.evictions.load(Relaxed),
        partial: c.partial.load(Relaxed),
        cuts: std::array::from_fn(|at| c.cuts[at].load(Relaxed)),
    }
}

/// Why the latest programs were not in the cache, oldest first, each followed by the [fact](Cause::Sizes) for which it was
/// compiled though an executable for other sizes was there; at most 64.
pub fn compile_causes() -> Vec<Cause> {
    CAUSES.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
}

pub(crate) fn visited(nodes: usize) {
    COUNTERS.visited.fetch_add(nodes as u64, Relaxed);
}
pub(crate) fn ran(inline: bool) {
    if inline { &COUNTERS.inline } else { &COUNTERS.queued }.fetch_add(1, Relaxed);
}
pub(crate) fn cut(reason: Reason) {
    COUNTERS.cuts[reason as usize].fetch_add(1, Relaxed);
}
pub(crate) fn cache_hit() {
    COUNTERS.hits.fetch_add(1, Relaxed);
}
pub(crate) fn cache_miss(cause: Cause) {
    COUNTERS.misses.fetch_add(1, Relaxed);
    self::cause(cause);
}
/// Keeps a cause among the latest.
pub(crate) fn cause(cause: Cause) {
    tracing::debug!("program cache: {cause}");
    let mut causes = CAUSES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if causes.len() == CAUSES_KEPT {
        causes.remove(0);
    }
    causes.push(cause);
}
/// How an executable came about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Made {
    Compiled,
    Resized,
    Loaded,
}

pub(crate) fn made(how: Made, took: Duration) {
    let counter = match how {
        Made::Compiled => &COUNTERS.compiles,
        Made::Resized => &COUNTERS.resizes,
        Made::Loaded => &COUNTERS.loads,
    };
    counter.fetch_add(1, Relaxed);
    COUNTERS.compile_nanos.fetch_add(took.as_nanos() as u64, Relaxed);
}
pub(crate) fn evicted() {
    COUNTERS.evictions.fetch_add(1, Relaxed);
}
pub(crate) fn partial() {
    COUNTERS.partial.fetch_add(1, Relaxed);
}
