//! Recording: the pending nodes of one thread on one device.
//!
//! # Protocol
//!
//! A stream belongs to the thread that records into it, yet any thread may hold its tensors, so the arena is behind a
//! lock that is uncontended as long as tensors stay on their thread.
//!
//! * Recording, cutting and submitting to the device's queue happen under the arena's lock. A cut sets the slots of the
//!   scheduled cells *after* it submitted the program: whoever sees a slot may submit a program that reads it, and the
//!   queue is first in, first out, so the value is there when that program runs.
//! * A cell that dies while pending is only counted. When all that were made are gone the arena is cleared, as nothing in
//!   it can be asked for any more; dead nodes among live ones wait for the next cut.
//! * An operand pending in another thread's stream is cut there first. Thus a program holds nodes of one thread only, in
//!   the order in which that thread recorded them, and its key does not depend on how threads interleave.
//! * Nothing is called back from under the lock: dropping nodes drops slots and programs, never cells.

use super::cell::{Cell, Origin};
use super::few::Few;
use super::slot::Slot;
use super::{Mode, Reason, limits};
use super::{boundary, cut};
use crate::ir::key::Key;
use crate::ir::{Graph, Op, Type};
use crate::literal::ScalarBytes;
use crate::{DType, Device, Error, Location, Result};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

/// The pending nodes of one thread on one device.
pub(crate) struct Stream {
    device: Device,
    /// Number of the thread that records into it.
    thread: u64,
    /// Cells of pending nodes ever made. Written under the arena's lock only.
    made: AtomicUsize,
    /// Those of them that have died or been scheduled. Nothing pending can be asked for when all have.
    gone: AtomicUsize,
    arena: Mutex<Arena>,
}

/// A recorded operation that no program holds yet.
pub(crate) struct Pending {
    pub seq: u64,
    pub op: Op,
    pub inputs: Few<Input>,
    pub types: SmallVec<[Type; 1]>,
    /// The handles of the results; a result whose handle is gone is internal.
    pub cells: Few<Weak<Cell>>,
    /// The programs that block numbers in `op` stand for.
    pub regions: Box<[Arc<Graph>]>,
    /// A scalar i32: −1, or the first bad index.
    pub check: Option<Input>,
    pub location: Location,
    /// Index into the arena's union-find forest.
    component: u32,
    /// Of the kind of operation; see `boundary`.
    pub hash: u64,
}

/// What a pending node reads.
#[derive(Clone)]
pub(crate) enum Input {
    /// A result of a node of the same arena.
    Node { seq: u64, result: u32 },
    /// A scheduled value.
    Slot(Arc<Slot>),
    /// A number, an input of the program. `spread`: over the shape of the node's result.
    Number { bytes: ScalarBytes, dtype: DType, spread: bool },
}

/// What an operation is recorded on.
#[derive(Clone, Copy)]
pub(crate) enum Operand<'a> {
    Cell(&'a Arc<Cell>),
    Number { bytes: ScalarBytes, dtype: DType, spread: bool },
}

/// What says whether an operation has failed: a scalar i32, −1 or the first bad index.
#[derive(Clone, Copy)]
pub(crate) enum Guard<'a> {
    /// It cannot fail.
    None,
    Cell(&'a Arc<Cell>),
    /// Its own result of this number.
    Result(u32),
}

/// The nodes, in order of recording.
#[derive(Default)]
pub(crate) struct Arena {
    pub nodes: Vec<Pending>,
    next: u64,
    /// Union-find forest over components; emptied with the arena.
    parents: Vec<u32>,
    /// Bytes of all results recorded since the arena was last empty.
    bytes: usize,
    /// Memory for the key of the next cut.
    pub key: Key,
}

impl Arena {
    /// The position of a node that is in the arena.
    pub fn position(&self, seq: u64) -> Option<usize> {
        let guess = (seq - self.nodes.first()?.seq.min(seq)) as usize;
        match self.nodes.get(guess) {
            Some(node) if node.seq == seq => Some(guess),
            _ => self.nodes.binary_search_by_key(&seq, |node| node.seq).ok(),
        }
    }

    /// The representative of a node's component: nodes connected through pending operands share it.
    pub fn component(&mut self, position: usize) -> u32 {
        root(&mut self.parents, self.nodes[position].component)
    }

    /// Takes all nodes out: one arena per component, in the order of their first nodes.
    fn split(&mut self) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        let mut part_of = HashMap::new();
        for node in std::mem::take(&mut self.nodes) {
            let part = *part_of.entry(root(&mut self.parents, node.component)).or_insert(parts.len());
            if part == parts.len() {
                parts.push(Self::default());
            }
            parts[part].nodes.push(node);
        }
        parts
    }

    /// Puts back what is left of the arenas that [`split`](Self::split) gave.
    fn join_parts(&mut self, parts: Vec<Self>) {
        self.nodes = parts.into_iter().flat_map(|part| part.nodes).collect();
        self.nodes.sort_unstable_by_key(|node| node.seq);
        self.settle();
    }

    /// What a node to be recorded reads; joins its component with that of a pending operand.
    #[inline]
    fn resolve(&mut self, operand: Operand<'_>, component: &mut Option<u32>) -> Input {
        match operand {
            Operand::Number { bytes, dtype, spread } => Input::Number { bytes, dtype, spread },
            Operand::Cell(cell) => match (cell.slot.get(), &cell.origin) {
                (None, &Origin::Node { seq, result }) => {
                    let at = self.position(seq).expect("a pending cell's node is in its stream's arena");
                    let theirs = self.nodes[at].component;
                    *component = Some(component.map_or(theirs, |mine| self.join(mine, theirs)));
                    Input::Node { seq, result }
                }
                (slot, _) => Input::Slot(slot.expect("neither pending nor traced").clone()),
            },
        }
    }

    fn new_component(&mut self) -> u32 {
        self.parents.push(self.parents.len() as u32);
        self.parents.len() as u32 - 1
    }

    fn join(&mut self, a: u32, b: u32) -> u32 {
        let (a, b) = (root(&mut self.parents, a), root(&mut self.parents, b));
        // The older component stays the root, so chains hang flat below it.
        let (old, new) = if a < b { (a, b) } else { (b, a) };
        self.parents[new as usize] = old;
        old
    }

    /// To be called after nodes were taken out: the forest keeps no more than twice what is left.
    pub fn settle(&mut self) {
        if self.nodes.is_empty() {
            self.parents.clear();
            self.bytes = 0;
        } else if self.parents.len() > 2 * self.nodes.len() + 64 {
            let mut names = HashMap::new();
            for node in &mut self.nodes {
                let next = names.len() as u32;
                node.component = *names.entry(root(&mut self.parents, node.component)).or_insert(next);
            }
            self.parents = (0..names.len() as u32).collect();
            self.bytes = 0;
        }
    }
}

/// The end of the way up from `at`, which is half as long the next time: n look-ups take O(n log n) steps together.
fn root(parents: &mut [u32], mut at: u32) -> u32 {
    while parents[at as usize] != at {
        let above = parents[parents[at as usize] as usize];
        parents[at as usize] = above;
        at = above;
    }
    at
}

thread_local! {
    /// This thread's streams, one per device it has used.
    static STREAMS: RefCell<Vec<Arc<Stream>>> = const { RefCell::new(Vec::new()) };
    /// This thread's number, which no other thread ever has; 0 before it is asked for.
    static THREAD: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

fn this_thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        }
        thread.get()
    })
}

/// Operations recorded into streams that are gone.
static RECORDED_BEFORE: AtomicU64 = AtomicU64::new(0);

/// Every stream there is, for `synchronize`.
static REGISTRY: Mutex<Vec<Weak<Stream>>> = Mutex::new(Vec::new());

fn registry() -> MutexGuard<'static, Vec<Weak<Stream>>> {
    REGISTRY.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Drop for Stream {
    fn drop(&mut self) {
        let recorded = self.arena.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()).next;
        let _registry = registry();
        RECORDED_BEFORE.fetch_add(recorded, Ordering::Relaxed);
    }
}

impl Stream {
    /// The stream that this thread records into for a device.
    pub fn current(device: &Device) -> Arc<Self> {
        STREAMS.with(|streams| {
            let mut streams = streams.borrow_mut();
            if let Some(stream) = streams.iter().find(|stream| stream.device == *device) {
                return stream.clone();
            }
            let stream = Arc::new(Self {
                device: device.clone(),
                thread: this_thread(),
                made: AtomicUsize::new(0),
                gone: AtomicUsize::new(0),
                arena: Mutex::default(),
            });
            let mut registry = registry();
            registry.retain(|known| known.strong_count() > 0);
            registry.push(Arc::downgrade(&stream));
            streams.push(stream.clone());
            stream
        })
    }

    /// Whether this is what [`current`](Self::current) gives for its device.
    pub fn is_current(&self) -> bool {
        self.thread == this_thread()
    }

    /// Operations recorded so far, by all threads. Counted by the streams, as one counter for all would be the slowest
    /// part of recording on several threads.
    pub fn recorded() -> u64 {
        let registry = registry();
        let streams: Vec<_> = registry.iter().filter_map(Weak::upgrade).collect();
        let sum = streams.iter().map(|stream| stream.lock().next).sum::<u64>();
        let sum = sum + RECORDED_BEFORE.load(Ordering::Relaxed);
        // Before the streams: the last handle of one may be among them, and its `drop` takes the lock.
        drop(registry);
        sum
    }

    /// All streams of this thread.
    pub fn of_thread() -> Vec<Arc<Self>> {
        STREAMS.with(|streams| streams.borrow().clone())
    }

    /// All streams of all threads.
    pub fn all() -> Vec<Arc<Self>> {
        registry().iter().filter_map(Weak::upgrade).collect()
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    fn lock(&self) -> MutexGuard<'_, Arena> {
        // Backends run behind `catch_unwind`; a panic elsewhere under the lock leaves whole nodes.
        self.arena.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Records an operation whose result types the shape rule gave, and cuts if the mode or a limit says so. `lower` says
    /// what each operand is.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub fn record<'a, O: Copy>(
        self: &Arc<Self>,
        op: Op,
        operands: &[O],
        lower: impl Fn(O) -> Operand<'a>,
        types: SmallVec<[Type; 1]>,
        regions: &[Arc<Graph>],
        check: Guard<'a>,
        location: Location,
    ) -> Result<Few<Arc<Cell>>> {
        let checked = match check {
            Guard::Cell(cell) => Some(Operand::Cell(cell)),
            Guard::None | Guard::Result(_) => None,
        };
        for operand in operands.iter().copied().map(&lower).chain(checked) {
            if let Operand::Cell(cell) = operand
                && !Arc::ptr_eq(&cell.stream, self)
            {
                cell.schedule(Reason::OtherThread)?;
            }
        }
        let mut guard = self.lock();
        let arena = &mut *guard;
        let seq = arena.next;
        arena.next += 1;
        let mut component = None;
        let inputs = Few::map(operands, |&operand| arena.resolve(lower(operand), &mut component));
        let check = match check {
            Guard::None => None,
            Guard::Cell(cell) => Some(arena.resolve(Operand::Cell(cell), &mut component)),
            Guard::Result(result) => Some(Input::Node { seq, result }),
        };
        let component = component.unwrap_or_else(|| arena.new_component());
        let mut result = 0;
        let cells = Few::map(&types, |ty| {
            let origin = Origin::Node { seq, result };
            result += 1;
            let (slot, succession) = (OnceLock::new(), OnceLock::new());
            Arc::new(Cell { ty: ty.clone(), stream: self.clone(), origin, slot, succession })
        });
        let weak = Few::map(&cells, Arc::downgrade);
        // Not one step, as the lock keeps other writers away.
        self.made.store(self.made.load(Ordering::Relaxed) + cells.len(), Ordering::Relaxed);
        let hash = boundary::hash(&op, &types);
        arena.bytes = types.iter().fold(arena.bytes, |sum, ty| sum.saturating_add(ty.bytes().unwrap_or(0)));
        let regions = regions.into();
        arena.nodes.push(Pending { seq, op, inputs, types, cells: weak, regions, check, location, component, hash });
        let (nodes, bytes) = (arena.nodes.len(), arena.bytes);
        let limits = limits();
        if Mode::current() != Mode::DeferAndFuse || nodes >= limits.nodes || bytes > limits.bytes {
            self.cut_if_due(guard, &cells)?;
        }
        Ok(cells)
    }

    /// Cuts as the mode or a limit demands after recording a node.
    #[cold]
    fn cut_if_due(&self, mut arena: MutexGuard<'_, Arena>, cells: &[Arc<Cell>]) -> Result<()> {
        let mode = Mode::current();
        if mode != Mode::DeferAndFuse {
            let node = arena.nodes.last().expect("just recorded");
            // Values that cost no memory to repeat are no programs of their own.
            if node.op.is_free() {
                return Ok(());
            }
            let last = arena.nodes.len() - 1;
            let component = arena.component(last);
            cut::component(self, &mut arena, component, &[], Reason::EveryOperation);
            drop(arena);
            if mode == Mode::DeferNeverAndLaunchBlocking {
                for slot in cells.iter().filter_map(|cell| cell.slot.get()) {
                    slot.wait().inspect_err(|error| self.report(error))?;
                }
            }
            return Ok(());
        }
        let limits = limits();
        if arena.nodes.len() >= limits.nodes {
            self.cut_at_boundary(&mut arena, Reason::SizeLimit);
        } else if arena.bytes > limits.bytes {
            self.cut_at_boundary(&mut arena, Reason::MemoryLimit);
            arena.bytes = 0;
        }
        Ok(())
    }

    /// Cuts everything up to the last place where the recorded operations start to repeat.
    fn cut_at_boundary(&self, arena: &mut Arena, reason: Reason) {
        let end = boundary::find(&arena.nodes);
        let last = arena.nodes[end - 1].seq;
        cut::prefix(self, arena, last, reason);
    }

    /// Schedules one value and what belongs with it.
    pub fn cut_for(&self, cell: &Arc<Cell>, reason: Reason) {
        let mut arena = self.lock();
        let Origin::Node { seq, result } = cell.origin else { return };
        if cell.slot.get().is_some() {
            return;
        }
        if let Some(at) = arena.position(seq) {
            let component = arena.component(at);
            cut::component(self, &mut arena, component, &[(seq, result)], reason);
        }
    }

    /// Schedules everything pending, one program per component.
    pub fn cut_all(&self, reason: Reason) {
        let mut arena = self.lock();
        // Each component in an arena of its own, so that its cut looks at no other's nodes.
        let mut parts = arena.split();
        for part in &mut parts {
            cut::all(self, part, reason);
        }
        arena.join_parts(parts);
    }

    /// Schedules everything pending as one program, connected or not.
    pub fn cut_together(&self, reason: Reason) {
        let mut arena = self.lock();
        if let Some(last) = arena.nodes.last().map(|node| node.seq) {
            cut::prefix(self, &mut arena, last, reason);
        }
    }

    /// A pending cell died.
    pub fn release(&self) {
        let gone = self.gone.fetch_add(1, Ordering::AcqRel) + 1;
        if gone == self.made.load(Ordering::Relaxed) {
            let mut arena = self.lock();
            // Recorded meanwhile: the next cut deals with it.
            let none_left = self.gone.load(Ordering::Acquire) == self.made.load(Ordering::Relaxed);
            if none_left && !arena.nodes.iter().any(|node| node.op.has_side_effect()) {
                arena.nodes.clear();
                arena.settle();
            }
        }
    }

    /// Pending cells became scheduled.
    pub fn scheduled(&self, cells: usize) {
        self.gone.fetch_add(cells, Ordering::AcqRel);
    }

    /// The user is told of the error of a value. What failed with it has failed by then too, so that what is done next does
    /// not depend on how far the device has come.
    pub fn report(&self, error: &Error) {
        self.device.queue().catch_up();
        error.report();
    }

    /// Number of pending nodes.
    pub fn pending(&self) -> usize {
        self.lock().nodes.len()
    }
}
