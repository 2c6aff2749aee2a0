//! A compiled program and its runs.
//!
//! A run fills a table of base addresses (temporaries, constants, arguments, results) and calls the steps in order; nothing
//! is looked up or formatted per step, and only plain kernels take memory of their own, from the pool.

use super::arguments::{Arguments, Held};
use super::attention::{self, Attention};
use super::buffer::{HostBuffer, bytes_of};
use super::compile::memory::{CONSTANTS, FIRST_ARGUMENT, Location, Slot};
use super::control::ControlStep;
use super::copy::StridedCopy;
use super::dot::Dot;
use super::kernels::{Operand, Target};
use super::pool::{Aligned, Block, Pool};
use super::row::program::RowProgram;
use super::row::run::Bases;
use super::scratch::{Memory, Piece};
use super::trace::Times;
use super::{collective, copy, dot, kernels, row};
use crate::ir::{Op, Type};
use crate::runtime::{Buffer, KernelInfo, Outcome};
use crate::{Error, ErrorKind, Result};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Work below this is not split among threads.
const PARALLEL_NANOSECONDS: f64 = 60_000.0;

/// Types of values and where they are.
pub(super) type Located = SmallVec<[(Type, Location); 4]>;

/// One op run by a plain kernel.
#[derive(Clone)]
pub(super) struct KernelStep {
    pub op: Op,
    pub operands: Located,
    pub results: Located,
    /// Offset and bytes of its memory among the temporaries.
    pub scratch: (usize, usize),
}

/// One step of a program.
pub(super) enum Step {
    /// A row program and the offset of its scratch memory among the temporaries.
    Rows(Box<RowProgram>, usize),
    Dot(Box<Dot>),
    Attention(Box<Attention>),
    Copy(StridedCopy),
    Kernel(Box<KernelStep>),
    /// A loop or a branch.
    Control(Box<ControlStep>),
    /// An op among the devices that run the program together.
    Collective(Box<KernelStep>),
}

/// Where a result comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// Computed into this slot.
    Slot(usize),
    /// An argument as it is.
    Argument(usize),
    /// The constants, from this byte on.
    Constant(usize),
}

/// Steps that run one after the other, or, if they are row programs that do not depend on each other, together.
pub(super) struct Batch {
    pub steps: Range<usize>,
    /// Whether they may run together.
    pub together: bool,
    /// Whether they are worth splitting among threads.
    pub parallel: bool,
}

/// What a kernel is called, whatever its sizes.
pub(super) struct KernelName {
    pub kind: String,
    pub ops: Vec<String>,
    pub reads: usize,
    pub writes: usize,
}

/// What a kernel does in one run.
pub(super) struct Work {
    /// Bytes of the values that it reads and writes.
    pub bytes: f64,
    pub flops: f64,
}

/// A compiled program.
pub(super) struct Program {
    pub steps: Vec<Step>,
    /// Of all steps, in their order.
    pub batches: Vec<Batch>,
    pub constants: Arc<Aligned>,
    pub parameters: Vec<Type>,
    pub arena_bytes: usize,
    pub slots: Vec<Slot>,
    pub results: Vec<(Type, Source)>,
    pub checks: Vec<Location>,
    /// The step before which all checks are known; `None` without checks.
    pub check_end: Option<usize>,
    /// Of all steps.
    pub names: Arc<[KernelName]>,
    pub work: Vec<Work>,
    pub flops: f64,
    pub bytes: f64,
    pub peak_bytes: usize,
    /// For people; null unless asked for.
    pub description: serde_json::Value,
}

impl Step {
    /// Estimated nanoseconds on one thread.
    pub fn nanoseconds(&self) -> f64 {
        match self {
            Self::Rows(program, _) => program.nanoseconds,
            Self::Dot(dot) => dot.flops() / 50.0,
            Self::Attention(attention) => attention.flops() / 50.0,
            Self::Copy(copy) => copy.elements() as f64,
            Self::Kernel(step) | Self::Collective(step) => {
                let elements = |list: &[(Type, Location)]| {
                    list.iter().map(|(ty, _)| ty.shape.elements().unwrap_or(0) as f64).sum::<f64>()
                };
                let cost = kernels::cost(&step.op, step.operands.first().map(|(ty, _)| ty));
                cost * (elements(&step.operands) + elements(&step.results))
            }
            Self::Control(step) => step.control.nanoseconds(),
        }
    }

    /// Whether it, or a step inside it, is worth splitting.
    fn is_parallel(&self) -> bool {
        match self {
            Self::Control(step) => step.control.programs().any(Program::is_parallel),
            step => step.nanoseconds() > PARALLEL_NANOSECONDS,
        }
    }

    /// Whether steps that run together, or one that runs alone, are worth splitting.
    pub fn are_parallel(steps: &[Self]) -> bool {
        steps.iter().any(Self::is_parallel)
            || (steps.len() > 1 && steps.iter().map(Self::nanoseconds).sum::<f64>() > PARALLEL_NANOSECONDS)
    }

    /// `inside` are the times of the blocks of a loop or a branch.
    fn run(&self, frames: &[Frame<'_>], threads: bool, inside: &[Times]) -> Result<()> {
        match self {
            Self::Control(step) => step.run(frames, threads, inside),
            Self::Collective(step) => collective::run(step, frames),
            step => {
                let parallel = threads && step.is_parallel();
                frames.iter().try_for_each(|frame| step.run_alone(frame, parallel))
            }
        }
    }

    /// Runs steps of a batch together in the current thread pool.
    fn run_together(steps: &[Self], frame: &Frame<'_>) {
        let programs: SmallVec<[(&RowProgram, Bases<'_>); 64]> = steps
            .iter()
            .filter_map(|step| match step {
                Self::Rows(program, scratch) => {
                    let scratch = frame.arena.at().wrapping_add(*scratch);
                    Some((&**program, Bases { all: &frame.bases[..], scratch }))
                }
                _ => None,
            })
            .collect();
        // SAFETY: as for a row program that runs alone; the compiler put only steps into a batch that do not write what another
        // one touches, and none that is cut by phases.
        unsafe { row::run::run_together(&programs) };
    }

    /// Runs what concerns one device.
    fn run_alone(&self, frame: &Frame<'_>, parallel: bool) -> Result<()> {
        let (bases, arena) = (&frame.bases[..], frame.arena.at());
        match self {
            // SAFETY: the compiler derived all places from the sizes of the values behind the bases, and planned memory so
            // that only values that are dead, or read at the same elements before, are overwritten.
            Self::Rows(program, scratch) => unsafe {
                row::run::run(program, Bases { all: bases, scratch: arena.wrapping_add(*scratch) }, parallel);
            },
            // SAFETY: as above; the result of a product is never planned onto an operand.
            Self::Dot(step) => unsafe {
                let laid = step.laid.and_then(|number| frame.laid.get(number));
                dot::run(step, bases, laid.map(|block| block.at().cast_const().cast()), parallel);
            },
            // SAFETY: as above; neither are those of attention.
            Self::Attention(step) => unsafe { attention::run(step, bases, parallel) },
            // SAFETY: as above; neither is that of a copy.
            Self::Copy(step) => unsafe { copy::run(step, bases, parallel) },
            Self::Kernel(step) => return run_kernel(step, frame),
            Self::Control(_) | Self::Collective(_) => {}
        }
        Ok(())
    }
}

fn run_kernel(step: &KernelStep, frame: &Frame<'_>) -> Result<()> {
    // The operand in whose memory the result is, if the plan and the arguments of this run made it so.
    let in_place = kernels::in_place(&step.op)
        .filter(|&operand| frame.at(step.operands[operand].1) == frame.at(step.results[0].1));
    let operands: SmallVec<[Operand<'_>; 4]> = step
        .operands
        .iter()
        .enumerate()
        .map(|(index, (ty, location))| {
            let bytes = if in_place == Some(index) { 0 } else { ty.bytes().unwrap_or(0) };
            // SAFETY: the location holds a dense value of this type, which no one writes during the step.
            Operand { ty, bytes: unsafe { std::slice::from_raw_parts(frame.at(*location), bytes) } }
        })
        .collect();
    let mut results: SmallVec<[Target<'_>; 1]> = step
        .results
        .iter()
        .map(|(ty, location)| {
            // SAFETY: the location is this result's own memory.
            let bytes = unsafe { std::slice::from_raw_parts_mut(frame.at(*location), ty.bytes().unwrap_or(0)) };
            Target { ty, bytes }
        })
        .collect();
    let (offset, bytes) = step.scratch;
    // SAFETY: the compiler planned these bytes, on an aligned offset, for this step alone.
    let piece = unsafe { Piece::new(frame.arena.at().wrapping_add(offset), bytes) };
    kernels::run(&step.op, &operands, &mut results, Memory::new(frame.pool, &piece))
}

/// One device's part in a run.
pub(super) struct Call<'a> {
    /// Its number among those that run the program.
    pub replica: u32,
    /// Its memory.
    pub pool: &'a Arc<Pool>,
    pub arguments: &'a mut dyn Arguments,
    /// Right operands of products that were laid in panels before.
    pub laid: &'a [Block],
}

/// One device's values during a run.
pub(super) struct Frame<'a> {
    pub replica: u32,
    pub pool: &'a Arc<Pool>,
    bases: SmallVec<[*mut u8; 32]>,
    arena: Block,
    /// Memory of the computed results. Those that may take that of a free argument get theirs once all checks are known.
    slots: SmallVec<[Option<Held>; 8]>,
    /// Results that no step computes, ready from the start.
    given: SmallVec<[Option<Held>; 8]>,
    checks: Vec<i32>,
    laid: &'a [Block],
}

impl Frame<'_> {
    /// Where a value is.
    pub fn at(&self, location: Location) -> *mut u8 {
        self.bases[location.base as usize].wrapping_add(location.offset)
    }
}

/// What a run gives one device.
pub(super) struct Given {
    pub results: SmallVec<[Held; 8]>,
    pub checks: Vec<i32>,
}

impl Program {
    /// The kernels, without those of blocks inside.
    fn kernels(&self) -> Vec<KernelInfo> {
        let kernel = |(name, work): (&KernelName, &Work)| KernelInfo {
            kind: name.kind.clone(),
            ops: name.ops.clone(),
            reads: name.reads,
            writes: name.writes,
            bytes: work.bytes,
            flops: work.flops,
            ..KernelInfo::default()
        };
        self.names.iter().zip(&self.work).map(kernel).collect()
    }

    /// Estimated nanoseconds on one thread.
    pub fn nanoseconds(&self) -> f64 {
        self.steps.iter().map(Step::nanoseconds).sum()
    }

    /// Whether a run should use the thread pool.
    pub fn is_parallel(&self) -> bool {
        self.batches.iter().any(|batch| batch.parallel)
    }

    /// The kernels, with those of blocks inside.
    pub fn listing(&self) -> Vec<KernelInfo> {
        let list = self.kernels().into_iter().zip(&self.steps).map(|(kernel, step)| match step {
            Step::Control(step) => {
                KernelInfo { inner: step.control.programs().flat_map(Self::listing).collect(), ..kernel }
            }
            _ => kernel,
        });
        list.collect()
    }

    /// Runs the program for these devices together, in the current thread pool if `threads`. Adds what it takes to `times`.
    ///
    /// Fails before an argument from outside is written to.
    pub fn run(&self, calls: &mut [Call<'_>], threads: bool, times: Option<&Times>) -> Result<SmallVec<[Given; 1]>> {
        if let Some(times) = times {
            times.runs.fetch_add(1, Relaxed);
        }
        // Pushed one by one: collecting moves each several times, which takes longer than a small program.
        let mut frames: SmallVec<[Frame<'_>; 1]> = SmallVec::new();
        for call in calls.iter_mut() {
            frames.push(self.enter(call)?);
        }
        let (before, after) = self.batches.split_at(self.batches_before_checks());
        before.iter().try_for_each(|batch| self.run_batch(batch, &frames, threads, times))?;
        for (frame, call) in frames.iter_mut().zip(&*calls) {
            self.settle(frame, call)?;
        }
        after.iter().try_for_each(|batch| self.run_batch(batch, &frames, threads, times))?;
        let mut given = SmallVec::new();
        for (frame, call) in frames.iter_mut().zip(calls) {
            given.push(self.leave(frame, call)?);
        }
        Ok(given)
    }

    /// Numbers products of the body of a loop whose right operand is the same in each round, so that it is laid in panels once.
    pub fn find_laid(&mut self) {
        let stays = |base: u32| {
            let index = (base as usize).checked_sub(FIRST_ARGUMENT as usize);
            let result = index.and_then(|index| Some((index, self.results.get(index)?.1)));
            matches!(result, Some((index, Source::Argument(given))) if given == index)
        };
        let mut count = 0;
        for step in &mut self.steps {
            if let Step::Dot(dot) = step
                && dot.may_be_laid()
                && stays(dot.rhs.base)
            {
                dot.laid = Some(count);
                count += 1;
            }
        }
    }

    /// These operands, laid in panels. The arguments of the loop are `at` their addresses. None at all where memory is short.
    pub fn lay(&self, at: impl Fn(usize) -> *mut u8, pool: &Arc<Pool>, threads: bool) -> SmallVec<[Block; 1]> {
        let mut all = SmallVec::new();
        for step in &self.steps {
            if let Step::Dot(dot) = step
                && dot.laid.is_some()
            {
                let Ok(block) = pool.allocate(dot.numbers_laid() * size_of::<f32>()) else { return SmallVec::new() };
                let base = at((dot.rhs.base - FIRST_ARGUMENT) as usize);
                // SAFETY: the argument is as the compiler derived the product from; the block has room for its panels.
                unsafe { dot.lay(base, block.at().cast(), threads) };
                all.push(block);
            }
        }
        all
    }

    fn batches_before_checks(&self) -> usize {
        let end = self.check_end.unwrap_or(0);
        self.batches.partition_point(|batch| batch.steps.start < end)
    }

    fn run_batch(&self, batch: &Batch, frames: &[Frame<'_>], threads: bool, times: Option<&Times>) -> Result<()> {
        let steps = &self.steps[batch.steps.clone()];
        if threads && batch.parallel && steps.len() > 1 {
            let start = times.map(|times| (times, Instant::now()));
            frames.iter().for_each(|frame| Step::run_together(steps, frame));
            if let Some((times, start)) = start {
                // Each has its share by what it was estimated to take.
                let spent =
                    start.elapsed().as_nanos() as f64 / steps.iter().map(Step::nanoseconds).sum::<f64>().max(1e-9);
                for (time, step) in times.steps[batch.steps.clone()].iter().zip(steps) {
                    time.fetch_add((spent * step.nanoseconds()) as u64, Relaxed);
                }
            }
            return Ok(());
        }
        for (number, step) in batch.steps.clone().zip(steps) {
            let start = times.map(|times| (&times.steps[number], Instant::now()));
            step.run(frames, threads, times.map_or(&[], |times| times.inside(number)))?;
            if let Some((time, start)) = start {
                time.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
            }
        }
        Ok(())
    }

    fn enter<'a>(&self, call: &mut Call<'a>) -> Result<Frame<'a>> {
        let (pool, arguments) = (call.pool, &mut *call.arguments);
        if arguments.count() != self.parameters.len() {
            let message = format!("requires {} arguments, got {}", self.parameters.len(), arguments.count());
            return Err(Error::new(ErrorKind::Internal, "a program", message));
        }
        let arena = pool.allocate(self.arena_bytes)?;
        let mut bases: SmallVec<[*mut u8; 32]> =
            SmallVec::with_capacity(FIRST_ARGUMENT as usize + self.parameters.len() + self.slots.len());
        bases.extend([std::ptr::null_mut(), std::ptr::null_mut(), arena.at(), self.constants.at().cast_mut()]);
        debug_assert_eq!(bases.len(), FIRST_ARGUMENT as usize);
        for (index, ty) in self.parameters.iter().enumerate() {
            bases.push(arguments.address(index, ty)?);
        }
        let mut slots: SmallVec<[Option<Held>; 8]> = SmallVec::with_capacity(self.slots.len());
        for slot in &self.slots {
            let waits = slot.donor.is_some_and(|donor| arguments.is_free(donor));
            let held = if waits { None } else { Some(Held::Block(Arc::new(pool.allocate(slot.bytes)?))) };
            bases.push(held.as_ref().map_or(std::ptr::null_mut(), Held::at));
            slots.push(held);
        }
        let mut given: SmallVec<[Option<Held>; 8]> = SmallVec::with_capacity(self.results.len());
        for (ty, source) in &self.results {
            given.push(match *source {
                Source::Slot(_) => None,
                Source::Constant(offset) => Some(copy_of(pool, bases[CONSTANTS as usize].wrapping_add(offset), ty)?),
                Source::Argument(index) => match arguments.share(index) {
                    Some(held) => Some(held),
                    None => Some(copy_of(pool, bases[FIRST_ARGUMENT as usize + index], ty)?),
                },
            });
        }
        Ok(Frame { replica: call.replica, pool, bases, arena, slots, given, checks: Vec::new(), laid: call.laid })
    }

    /// Reads the checks, and gives memory to the results that had to wait for them.
    fn settle(&self, frame: &mut Frame<'_>, call: &Call<'_>) -> Result<()> {
        // SAFETY: a check is a scalar i32 in memory, computed by now.
        let read = |at: &Location| unsafe { frame.at(*at).cast::<i32>().read_unaligned() };
        frame.checks = self.checks.iter().map(read).collect();
        let passed = frame.checks.iter().all(|&check| check < 0);
        for (index, slot) in self.slots.iter().enumerate() {
            if frame.slots[index].is_some() {
                continue;
            }
            let donor = slot.donor.filter(|&donor| passed && call.arguments.is_free(donor));
            frame.bases[FIRST_ARGUMENT as usize + self.parameters.len() + index] = match donor {
                Some(donor) => frame.bases[FIRST_ARGUMENT as usize + donor],
                None => {
                    let block = Arc::new(frame.pool.allocate(slot.bytes)?);
                    let at = block.at();
                    frame.slots[index] = Some(Held::Block(block));
                    at
                }
            };
        }
        Ok(())
    }

    fn leave(&self, frame: &mut Frame<'_>, call: &mut Call<'_>) -> Result<Given> {
        for (held, slot) in frame.slots.iter_mut().zip(&self.slots) {
            if let (None, Some(donor)) = (&held, slot.donor) {
                *held = call.arguments.take(donor);
            }
        }
        let mut results = SmallVec::with_capacity(self.results.len());
        let mut places: SmallVec<[*mut u8; 8]> = SmallVec::new();
        for ((ty, source), given) in self.results.iter().zip(&mut frame.given) {
            results.push(match (given.take(), source) {
                (Some(held), _) => held,
                (None, Source::Slot(slot)) => match &frame.slots[*slot] {
                    Some(Held::Block(block)) => Held::Block(block.clone()),
                    // Two results may be one value, but a place is one result's.
                    Some(Held::Place(at)) if places.contains(at) => copy_of(frame.pool, *at, ty)?,
                    Some(Held::Place(at)) => {
                        places.push(*at);
                        Held::Place(*at)
                    }
                    None => return Err(missing()),
                },
                (None, _) => return Err(missing()),
            });
        }
        Ok(Given { results, checks: std::mem::take(&mut frame.checks) })
    }

    /// What a run gave, as the interface of backends has it.
    pub fn outcome(&self, given: Given) -> Result<Outcome> {
        let buffer = |(held, (ty, _)): (Held, &(Type, Source))| match held {
            Held::Block(block) => Ok(Arc::new(HostBuffer::new(ty.clone(), block)) as Arc<dyn Buffer>),
            Held::Place(_) => Err(missing()),
        };
        let results = given.results.into_iter().zip(&self.results).map(buffer).collect::<Result<_>>()?;
        Ok(Outcome { results, checks: given.checks })
    }
}

fn missing() -> Error {
    Error::new(ErrorKind::Internal, "a program", "has a result that nothing computes")
}

fn copy_of(pool: &Arc<Pool>, from: *const u8, ty: &Type) -> Result<Held> {
    let block = pool.allocate(bytes_of(ty)?)?;
    // SAFETY: a value of this type is at `from`; the block is new.
    unsafe { std::ptr::copy_nonoverlapping(from, block.at(), block.bytes()) };
    Ok(Held::Block(Arc::new(block)))
}
