//! A compiled program and its runs.
//!
//! A run fills a table of base addresses (temporaries, constants, arguments, results) and calls the steps in order; nothing
//! is looked up or formatted per step, and only plain kernels take memory of their own, from the pool.

use super::buffer::HostBuffer;
use super::compile::memory::{CONSTANTS, FIRST_ARGUMENT, Location, Slot};
use super::copy::StridedCopy;
use super::dot::Dot;
use super::kernels::{Operand, Target};
use super::pool::{Aligned, Block, Pool};
use super::row::program::RowProgram;
use super::row::run::Bases;
use super::scratch::{Memory, Piece};
use super::{copy, dot, kernels, row};
use crate::ir::{Op, Type};
use crate::runtime::{Argument, Buffer, KernelInfo, Outcome};
use crate::{Error, ErrorKind, Result};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;

/// Work below this is not split among threads.
const PARALLEL_NANOSECONDS: f64 = 60_000.0;

/// One op run by a plain kernel.
#[derive(Clone)]
pub(super) struct KernelStep {
    pub op: Op,
    pub operands: SmallVec<[(Type, Location); 4]>,
    pub results: SmallVec<[(Type, Location); 1]>,
    /// Offset and bytes of its memory among the temporaries.
    pub scratch: (usize, usize),
}

/// One step of a program.
pub(super) enum Step {
    /// A row program and the offset of its scratch memory among the temporaries.
    Rows(Box<RowProgram>, usize),
    Dot(Box<Dot>),
    Copy(StridedCopy),
    Kernel(Box<KernelStep>),
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

/// A compiled program.
pub(super) struct Program {
    pub steps: Vec<Step>,
    pub constants: Aligned,
    pub parameters: Vec<Type>,
    pub arena_bytes: usize,
    pub slots: Vec<Slot>,
    pub results: Vec<(Type, Source)>,
    pub checks: Vec<Location>,
    /// The step before which all checks are known; `None` without checks.
    pub check_end: Option<usize>,
    pub kernels: Vec<KernelInfo>,
    pub flops: f64,
    pub bytes: f64,
    pub peak_bytes: usize,
}

impl Step {
    /// Estimated nanoseconds on one thread.
    pub fn nanoseconds(&self) -> f64 {
        match self {
            Self::Rows(program, _) => program.nanoseconds,
            Self::Dot(dot) => dot.flops() / 50.0,
            Self::Copy(copy) => copy.elements() as f64,
            Self::Kernel(step) => {
                let elements = |list: &[(Type, Location)]| {
                    list.iter().map(|(ty, _)| ty.shape.elements().unwrap_or(0) as f64).sum::<f64>()
                };
                elements(&step.operands) + elements(&step.results)
            }
        }
    }

    fn run(&self, bases: &[*mut u8], arena: *mut u8, pool: &Arc<Pool>, threads: bool) -> Result<()> {
        let parallel = threads && self.nanoseconds() > PARALLEL_NANOSECONDS;
        match self {
            // SAFETY: the compiler derived all places from the sizes of the values behind the bases, and planned memory so
            // that only values that are dead, or read at the same elements before, are overwritten.
            Self::Rows(program, scratch) => unsafe {
                row::run::run(program, Bases { all: bases, scratch: arena.wrapping_add(*scratch) }, parallel);
            },
            // SAFETY: as above; the result of a product is never planned onto an operand.
            Self::Dot(step) => unsafe { dot::run(step, bases, parallel) },
            // SAFETY: as above; neither is that of a copy.
            Self::Copy(step) => unsafe { copy::run(step, bases, parallel) },
            Self::Kernel(step) => return run_kernel(step, bases, arena, pool),
        }
        Ok(())
    }
}

fn run_kernel(step: &KernelStep, bases: &[*mut u8], arena: *mut u8, pool: &Arc<Pool>) -> Result<()> {
    let at = |location: &Location| bases[location.base as usize].wrapping_add(location.offset);
    let operands: SmallVec<[Operand<'_>; 4]> = step
        .operands
        .iter()
        .map(|(ty, location)| {
            // SAFETY: the location holds a dense value of this type, which no one writes during the step.
            let bytes = unsafe { std::slice::from_raw_parts(at(location), ty.bytes().unwrap_or(0)) };
            Operand { ty, bytes }
        })
        .collect();
    let mut results: SmallVec<[Target<'_>; 1]> = step
        .results
        .iter()
        .map(|(ty, location)| {
            // SAFETY: the location is this result's own memory.
            let bytes = unsafe { std::slice::from_raw_parts_mut(at(location), ty.bytes().unwrap_or(0)) };
            Target { ty, bytes }
        })
        .collect();
    let (offset, bytes) = step.scratch;
    // SAFETY: the compiler planned these bytes, on an aligned offset, for this step alone.
    let piece = unsafe { Piece::new(arena.wrapping_add(offset), bytes) };
    kernels::run(&step.op, &operands, &mut results, Memory::new(pool, &piece))
}

/// The concrete buffer behind an argument.
fn host_buffer(buffer: &Arc<dyn Buffer>) -> Option<&HostBuffer> {
    let any: &dyn Any = &**buffer;
    any.downcast_ref()
}

/// The block of a donated argument, if the run may write to it.
fn donated(argument: &Argument) -> Option<&Arc<Block>> {
    let Argument::Donated(buffer) = argument else { return None };
    let block = host_buffer(buffer)?.block();
    let sole = Arc::strong_count(buffer) == 1 && Arc::strong_count(block) == 1;
    // What earlier holders read, on whatever thread, they read before they let go.
    std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
    sole.then_some(block)
}

/// A scalar argument on an aligned address.
type Cell = [u64; 1];

impl Program {
    /// Estimated nanoseconds on one thread.
    pub fn nanoseconds(&self) -> f64 {
        self.steps.iter().map(Step::nanoseconds).sum()
    }

    /// Whether a run should use the thread pool.
    pub fn is_parallel(&self) -> bool {
        self.steps.iter().any(|step| step.nanoseconds() > PARALLEL_NANOSECONDS)
    }

    /// Runs the program with the memory of `pool`, in the current thread pool if `threads`.
    pub fn run(&self, pool: &Arc<Pool>, arguments: &mut [Argument], threads: bool) -> Result<Outcome> {
        if arguments.len() != self.parameters.len() {
            let message = format!("requires {} arguments, got {}", self.parameters.len(), arguments.len());
            return Err(Error::new(ErrorKind::Internal, "a program", message));
        }
        let scalars: SmallVec<[Cell; 8]> = arguments.iter().map(scalar_cell).collect();
        let mut bases: SmallVec<[*mut u8; 32]> = SmallVec::with_capacity(FIRST_ARGUMENT as usize + arguments.len());
        let arena = pool.allocate(self.arena_bytes)?;
        bases.extend([std::ptr::null_mut(), std::ptr::null_mut(), arena.at(), self.constants.at().cast_mut()]);
        debug_assert_eq!(bases.len(), FIRST_ARGUMENT as usize);
        for (index, (argument, ty)) in arguments.iter().zip(&self.parameters).enumerate() {
            bases.push(argument_address(index, argument, ty, &scalars[index])?);
        }
        let first_result = bases.len();
        // Results that may take the memory of a donated argument get theirs once all checks are known.
        let mut blocks: SmallVec<[Option<Arc<Block>>; 8]> = SmallVec::with_capacity(self.slots.len());
        for slot in &self.slots {
            let donor = slot.donor.is_some_and(|donor| donated(&arguments[donor]).is_some());
            let block = if donor { None } else { Some(Arc::new(pool.allocate(slot.bytes)?)) };
            bases.push(block.as_ref().map_or(std::ptr::null_mut(), |block| block.at()));
            blocks.push(block);
        }
        let check_end = self.check_end.unwrap_or(0);
        for step in &self.steps[..check_end] {
            step.run(&bases, arena.at(), pool, threads)?;
        }
        let checks: Vec<i32> = self
            .checks
            .iter()
            // SAFETY: a check is a scalar i32 in memory, computed by now.
            .map(|at| unsafe { bases[at.base as usize].wrapping_add(at.offset).cast::<i32>().read_unaligned() })
            .collect();
        let passed = checks.iter().all(|&check| check < 0);
        for (index, slot) in self.slots.iter().enumerate() {
            if blocks[index].is_none() {
                let donor = slot.donor.filter(|_| passed).and_then(|donor| donated(&arguments[donor]));
                match donor {
                    Some(block) => bases[first_result + index] = block.at(),
                    None => {
                        let block = Arc::new(pool.allocate(slot.bytes)?);
                        bases[first_result + index] = block.at();
                        blocks[index] = Some(block);
                    }
                }
            }
        }
        for step in &self.steps[check_end..] {
            step.run(&bases, arena.at(), pool, threads)?;
        }
        for (block, slot) in blocks.iter_mut().zip(&self.slots) {
            if let (None, Some(donor)) = (&block, slot.donor) {
                *block = take(&mut arguments[donor]);
            }
        }
        let results = self
            .results
            .iter()
            .map(|(ty, source)| {
                let block = match source {
                    Source::Slot(slot) => blocks[*slot].clone(),
                    Source::Argument(index) => argument_block(&arguments[*index]),
                    Source::Constant(_) => None,
                };
                let block = match block {
                    Some(block) => block,
                    None => {
                        let from = match source {
                            Source::Constant(offset) => bases[CONSTANTS as usize].wrapping_add(*offset),
                            Source::Argument(index) => bases[FIRST_ARGUMENT as usize + index],
                            Source::Slot(slot) => bases[first_result + slot],
                        };
                        copy_of(pool, from, ty)?
                    }
                };
                Ok(Arc::new(HostBuffer::new(ty.clone(), block)) as Arc<dyn Buffer>)
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Outcome { results, checks })
    }
}

fn copy_of(pool: &Arc<Pool>, from: *const u8, ty: &Type) -> Result<Arc<Block>> {
    let block = pool.allocate(super::buffer::bytes_of(ty)?)?;
    // SAFETY: a constant or scalar argument of this type is at `from`; the block is new.
    unsafe { std::ptr::copy_nonoverlapping(from, block.at(), block.bytes()) };
    Ok(Arc::new(block))
}

fn scalar_cell(argument: &Argument) -> Cell {
    let mut cell = [0u64];
    if let Argument::Scalar(bytes) = argument {
        let bytes = bytes.as_slice();
        bytemuck::bytes_of_mut(&mut cell)[..bytes.len()].copy_from_slice(bytes);
    }
    cell
}

/// Where an argument's elements are. It is written to only after `donated` agreed.
fn argument_address(index: usize, argument: &Argument, ty: &Type, cell: &Cell) -> Result<*mut u8> {
    let wrong = |got: &dyn std::fmt::Display| {
        let message = format!("requires {ty} as argument {index}, got {got}");
        Error::new(ErrorKind::Internal, "a program", message)
    };
    match argument {
        Argument::Shared(buffer) | Argument::Donated(buffer) => match host_buffer(buffer) {
            Some(host) if buffer.ty() == ty => Ok(host.block().at()),
            Some(_) => Err(wrong(buffer.ty())),
            None => Err(wrong(&"a buffer of another backend")),
        },
        Argument::Scalar(bytes) => {
            let same = ty.bytes() == Some(bytes.as_slice().len());
            if same { Ok(cell.as_ptr().cast_mut().cast()) } else { Err(wrong(&"a scalar of another size")) }
        }
        Argument::Taken => Err(wrong(&"what an earlier run took")),
    }
}

/// The block that a result shares with an argument.
fn argument_block(argument: &Argument) -> Option<Arc<Block>> {
    match argument {
        Argument::Shared(buffer) | Argument::Donated(buffer) => host_buffer(buffer).map(|host| host.block().clone()),
        Argument::Scalar(_) | Argument::Taken => None,
    }
}

/// Takes the block of a donated argument.
fn take(argument: &mut Argument) -> Option<Arc<Block>> {
    match std::mem::replace(argument, Argument::Taken) {
        Argument::Donated(buffer) => host_buffer(&buffer).map(|host| host.block().clone()),
        other => {
            *argument = other;
            None
        }
    }
}
