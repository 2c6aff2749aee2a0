//! Memory of one device: a pool of aligned blocks.
//!
//! Blocks that are given back are kept by size class and used again, so that a steady loop touches the same pages:
//! a fresh 64 MiB result costs more in page faults than computing it. What the pool keeps is bounded by the most that
//! was in use, and given back to the system before an allocation is refused.

use crate::runtime::MemoryStats;
use crate::{Error, ErrorKind, Result};
use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Every block starts on a multiple of this.
pub(crate) const ALIGN: usize = 64;
const PAGE: usize = 2 << 20;
/// What the pool may keep however little was ever in use.
const KEEP: usize = 64 << 20;

/// The memory of one device.
#[derive(Debug)]
pub(crate) struct Pool {
    limit: Option<usize>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Free blocks by capacity.
    free: BTreeMap<usize, Vec<Free>>,
    in_use: usize,
    peak: usize,
    pooled: usize,
    /// The most that was ever in use.
    most: usize,
}

/// A free block of a known capacity.
#[derive(Debug)]
struct Free(NonNull<u8>);
// SAFETY: a free block is owned by the pool alone.
unsafe impl Send for Free {}

/// A block of memory, given back to its pool when dropped.
#[derive(Debug)]
pub(crate) struct Block {
    at: NonNull<u8>,
    /// What was asked for.
    bytes: usize,
    /// What was allocated; 0 for a block without memory.
    capacity: usize,
    pool: Arc<Pool>,
}
// SAFETY: a block owns its memory; shared references only give its address.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

/// The capacity for `bytes`: at most an eighth more, so that similar sizes share blocks.
fn class(bytes: usize) -> usize {
    if bytes <= ALIGN {
        return ALIGN;
    }
    let step = (1usize << (usize::BITS - 1 - (bytes - 1).leading_zeros())) / 8;
    bytes.next_multiple_of(step.max(ALIGN))
}

fn layout(capacity: usize) -> Option<Layout> {
    Layout::from_size_align(capacity, if capacity >= PAGE { PAGE } else { ALIGN }).ok()
}

/// Bytes of memory that the machine has, as far as it says.
fn physical_memory() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB"));
        kib.and_then(|kib| kib.trim().parse::<usize>().ok()).map_or(isize::MAX as usize, |kib| kib.saturating_mul(1024))
    })
}

impl Pool {
    /// An empty pool.
    pub fn new(limit: Option<usize>) -> Self {
        Self { limit, state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block of at least `bytes` bytes with undefined contents. Errors with `OutOfMemory` beyond the limit, beyond
    /// the machine's memory, or when the system refuses.
    pub fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Block> {
        let block = |at, capacity| Block { at, bytes, capacity, pool: self.clone() };
        if bytes == 0 {
            return Ok(block(NonNull::<Line>::dangling().cast(), 0));
        }
        let mut state = self.state();
        let bound = self.limit.unwrap_or(usize::MAX).min(physical_memory());
        let wanted = state.in_use.saturating_add(bytes);
        if wanted > bound {
            return Err(self.refusal(bytes, &state));
        }
        let capacity = class(bytes);
        let at = match state.take(capacity) {
            Some((at, capacity)) => Some((at, capacity)),
            None => {
                // What is kept counts as memory too.
                if wanted.saturating_add(state.pooled) > bound {
                    state.release_all();
                }
                let fresh = || layout(capacity).and_then(allocate).map(|at| (at, capacity));
                fresh().or_else(|| {
                    state.release_all();
                    fresh()
                })
            }
        };
        let Some((at, capacity)) = at else { return Err(self.refusal(bytes, &state)) };
        state.in_use += bytes;
        state.peak = state.peak.max(state.in_use);
        state.most = state.most.max(state.in_use);
        Ok(block(at, capacity))
    }

    fn refusal(&self, bytes: usize, state: &State) -> Error {
        let limit = match self.limit {
            Some(limit) => format!("a limit of {limit}"),
            None => format!("{} of the machine", physical_memory()),
        };
        let message = format!("of {bytes} bytes is not possible: {} bytes in use, {limit}", state.in_use);
        Error::new(ErrorKind::OutOfMemory, "an allocation", message)
    }

    /// Memory now.
    pub fn stats(&self) -> MemoryStats {
        let state = self.state();
        MemoryStats { in_use: state.in_use, peak: state.peak, pooled: state.pooled, limit: self.limit }
    }

    /// Starts the peak anew.
    pub fn reset_peak(&self) {
        let mut state = self.state();
        state.peak = state.in_use;
    }
}

/// Memory from the system.
fn allocate(layout: Layout) -> Option<NonNull<u8>> {
    // SAFETY: capacities are at least one alignment unit, so the layout is not empty.
    NonNull::new(unsafe { alloc(layout) })
}

impl State {
    /// A free block of this capacity, or a little more.
    fn take(&mut self, capacity: usize) -> Option<(NonNull<u8>, usize)> {
        let (&found, list) =
            self.free.range_mut(capacity..=capacity + capacity / 8).find(|(_, list)| !list.is_empty())?;
        let free = list.pop()?;
        self.pooled -= found;
        Some((free.0, found))
    }

    /// Gives free blocks back to the system, largest first, until no more than `bound` bytes are kept.
    fn release_down_to(&mut self, bound: usize) {
        while self.pooled > bound {
            let Some(mut entry) = self.free.last_entry() else { return };
            let capacity = *entry.key();
            match entry.get_mut().pop() {
                Some(free) => {
                    self.pooled -= capacity;
                    release(free.0, capacity);
                }
                None => {
                    entry.remove();
                }
            }
        }
    }

    fn release_all(&mut self) {
        self.release_down_to(0);
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.release_all();
    }
}

fn release(at: NonNull<u8>, capacity: usize) {
    if let Some(layout) = layout(capacity) {
        // SAFETY: the block was allocated with the layout of its capacity and nothing uses it any more.
        unsafe { dealloc(at.as_ptr(), layout) };
    }
}

impl Block {
    /// Where it starts.
    pub fn at(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// The same, never null.
    pub fn start(&self) -> NonNull<u8> {
        self.at
    }

    /// What was asked for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.capacity == 0 {
            return;
        }
        let mut state = self.pool.state();
        state.in_use -= self.bytes;
        state.pooled += self.capacity;
        state.free.entry(self.capacity).or_default().push(Free(self.at));
        let bound = state.most.max(KEEP);
        if state.pooled > bound {
            state.release_down_to(bound);
        }
    }
}

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; ALIGN]);

/// Growing aligned memory of one thread, contents undefined.
pub(crate) struct Aligned(Vec<Line>);

impl Default for Aligned {
    fn default() -> Self {
        Self::new()
    }
}

impl Aligned {
    /// No memory yet.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// A copy of bytes, on an aligned address.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut memory = Self::new();
        let at = memory.reserve(bytes.len());
        // SAFETY: `reserve` gives that many bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
        memory
    }

    /// A copy of all bytes, up to the end of the last line.
    pub fn to_vec(&self) -> Vec<u8> {
        self.0.iter().flat_map(|line| line.0).collect()
    }

    /// At least `bytes` bytes.
    pub fn reserve(&mut self, bytes: usize) -> *mut u8 {
        let lines = bytes.div_ceil(ALIGN);
        if self.0.len() < lines {
            self.0.resize(lines, Line([0; ALIGN]));
        }
        self.0.as_mut_ptr().cast()
    }

    /// Where it starts.
    pub fn at(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }
}

impl std::fmt::Debug for Aligned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len() * ALIGN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_given_back_is_used_again_and_counted_once() {
        let pool = Arc::new(Pool::new(None));
        let first = pool.allocate(5000).unwrap();
        let at = first.at();
        assert_eq!(at as usize % ALIGN, 0);
        assert_eq!(pool.stats().in_use, 5000);
        drop(first);
        assert_eq!((pool.stats().in_use, pool.stats().peak), (0, 5000));
        assert!(pool.stats().pooled >= 5000);
        let again = pool.allocate(4990).unwrap();
        assert_eq!(again.at(), at);
        pool.reset_peak();
        assert_eq!(pool.stats().peak, 4990);
    }

    #[test]
    fn allocations_beyond_the_limit_or_the_machine_are_errors_that_name_sizes() {
        let pool = Arc::new(Pool::new(Some(1 << 20)));
        let held = pool.allocate(1 << 19).unwrap();
        let error = pool.allocate((1 << 19) + 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(error.message().contains("524289 bytes") && error.message().contains("1048576"), "{error}");
        drop(held);
        // What the pool keeps does not count against the limit.
        assert!(pool.allocate(1 << 20).is_ok());
        let unlimited = Arc::new(Pool::new(None));
        assert_eq!(unlimited.allocate(1 << 62).unwrap_err().kind(), ErrorKind::OutOfMemory);
    }

    #[test]
    fn classes_waste_at_most_an_eighth_and_are_aligned() {
        for bytes in (1..5000).chain([123_456, 1 << 30, (1 << 30) + 1]) {
            let class = class(bytes);
            assert!(class >= bytes && class.is_multiple_of(ALIGN));
            assert!(class - bytes < (bytes / 8).max(ALIGN), "{bytes} {class}");
        }
    }
}
