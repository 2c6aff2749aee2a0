//! Where every value is: arguments, constants, results, and temporaries at planned offsets of one piece of memory.

use crate::ir::Value;
use crate::runtime::host::pool::ALIGN;
use crate::{Error, ErrorKind, Result};
use std::collections::HashMap;

/// Number of the temporaries' memory among the bases of a run.
pub(crate) const ARENA: u32 = 2;
/// Number of the constants' memory.
pub(crate) const CONSTANTS: u32 = 3;
/// Number of the first argument; results follow the arguments.
pub(crate) const FIRST_ARGUMENT: u32 = 4;

/// A place in memory: base and byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Location {
    pub base: u32,
    pub offset: usize,
}

/// What a step does with memory.
pub(super) struct Use {
    pub reads: Vec<Value>,
    pub writes: Vec<Value>,
    pub scratch: usize,
    /// Pairs (written, read) that may share memory.
    pub in_place: Vec<(Value, Value)>,
    /// Whether the step copies what it does not find in place.
    pub copies: bool,
    /// Whether the step may fail while running.
    pub fallible: bool,
}

/// Memory of a result.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub bytes: usize,
    /// The argument whose memory it takes when that is donated.
    pub donor: Option<usize>,
}

/// The plan.
pub(super) struct Plan {
    pub locations: HashMap<Value, Location>,
    /// Offset of each step's scratch memory in the arena.
    pub scratch: Vec<usize>,
    pub arena_bytes: usize,
    pub slots: Vec<Slot>,
    /// The slot of each value that is a result.
    pub slot_of: HashMap<Value, usize>,
    /// Most bytes of temporaries and results alive at one time.
    pub peak_bytes: usize,
}

/// What the planner is told.
pub(super) struct Request<'a> {
    pub steps: &'a [Use],
    /// Bytes of a value, checked to be possible.
    pub bytes: &'a dyn Fn(Value) -> usize,
    /// The arguments, by the value of their parameter.
    pub arguments: &'a HashMap<Value, usize>,
    /// Computed values that are results.
    pub results: &'a [Value],
    /// Arguments that are results as they are.
    pub kept: &'a [Value],
    /// Values of checks: read when the last of them is there.
    pub checks: &'a [Value],
    /// The last step that a check depends on, if there are checks.
    pub last_check: Option<usize>,
    /// Whether arguments have to be as they were when a step fails.
    pub careful: bool,
}

/// Memory of one temporary, or of several that take it over from one another.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Steps that need it.
    first: usize,
    last: usize,
    bytes: usize,
    offset: usize,
}

/// Blocks up to this number are placed the largest first; more of them in order of time, as the search for a place would
/// take too long otherwise.
const BY_SIZE: usize = 1 << 13;

/// Gives each block the lowest offset at which it meets no other of the same time, large ones first: so small ones go
/// between them and not the other way round. Returns the bytes of all, or `None` if they have no address.
fn place(blocks: &mut [Block]) -> Option<usize> {
    let by_size = blocks.len() <= BY_SIZE;
    let mut order: Vec<usize> = (0..blocks.len()).filter(|&at| blocks[at].bytes > 0).collect();
    if by_size {
        order.sort_by_key(|&at| std::cmp::Reverse(blocks[at].bytes));
    } else {
        order.sort_by_key(|&at| blocks[at].first);
    }
    let mut placed: Vec<Block> = Vec::new();
    let mut end = 0;
    for at in order {
        let mut block = blocks[at];
        let bytes = block.bytes.checked_next_multiple_of(ALIGN)?;
        if !by_size {
            placed.retain(|other| other.last >= block.first);
        }
        for other in placed.iter().filter(|other| other.first <= block.last && block.first <= other.last) {
            // They are in order of offset: what is free before this one starts where the earlier ones end.
            if other.offset >= block.offset.checked_add(bytes)? {
                break;
            }
            block.offset = block.offset.max(other.offset + other.bytes);
        }
        end = end.max(block.offset.checked_add(bytes)?);
        blocks[at].offset = block.offset;
        block.bytes = bytes;
        placed.insert(placed.partition_point(|other| other.offset <= block.offset), block);
    }
    Some(end)
}

/// Plans memory. Errors with `OutOfMemory` when the sum has no address.
pub(super) fn plan(request: &Request<'_>) -> Result<Plan> {
    let mut last: HashMap<Value, usize> = HashMap::new();
    for (step, uses) in request.steps.iter().enumerate() {
        for &value in uses.reads.iter().chain(&uses.writes) {
            last.insert(value, step);
        }
    }
    for &value in request.checks {
        last.entry(value).and_modify(|step| *step = (*step).max(request.last_check.unwrap_or(0)));
    }
    let mut plan = Plan {
        locations: HashMap::new(),
        scratch: Vec::with_capacity(request.steps.len()),
        arena_bytes: 0,
        slots: Vec::new(),
        slot_of: HashMap::new(),
        peak_bytes: 0,
    };
    for (&value, &index) in request.arguments {
        plan.locations.insert(value, Location { base: FIRST_ARGUMENT + index as u32, offset: 0 });
    }
    let first_result = FIRST_ARGUMENT + request.arguments.len() as u32;
    for &value in request.results {
        if plan.slot_of.contains_key(&value) {
            continue;
        }
        let slot = plan.slots.len();
        plan.slots.push(Slot { bytes: (request.bytes)(value), donor: None });
        plan.slot_of.insert(value, slot);
        plan.locations.insert(value, Location { base: first_result + slot as u32, offset: 0 });
    }
    let leading = leading_to(request, &last, &plan.slot_of);
    let mut begun = vec![false; plan.slots.len()];
    let mut donors = Donors::new(request, &last);
    let mut blocks: Vec<Block> = Vec::new();
    let mut block_of: HashMap<Value, usize> = HashMap::new();
    let mut scratch: Vec<usize> = Vec::with_capacity(request.steps.len());
    let add = |blocks: &mut Vec<Block>, first, last, bytes| {
        blocks.push(Block { first, last, bytes, offset: 0 });
        blocks.len() - 1
    };
    for (step, uses) in request.steps.iter().enumerate() {
        for &value in &uses.writes {
            if let Some(&slot) = plan.slot_of.get(&value).or(leading.get(&value)) {
                if !std::mem::replace(&mut begun[slot], true) {
                    plan.slots[slot].donor = donors.find(step, value, uses, request);
                }
                plan.locations.insert(value, Location { base: first_result + slot as u32, offset: 0 });
                continue;
            }
            let bytes = (request.bytes)(value);
            let ends = last.get(&value).copied().unwrap_or(step);
            // The block of a temporary that this step reads for the last time, and that nothing else took.
            let dying =
                uses.in_place.iter().filter(|(written, _)| *written == value && ends > step).find_map(|(_, read)| {
                    let block = *block_of.get(read)?;
                    (blocks[block].last == step && (request.bytes)(*read) == bytes).then_some(block)
                });
            let block = dying.unwrap_or_else(|| add(&mut blocks, step, ends, bytes));
            blocks[block].last = ends;
            block_of.insert(value, block);
        }
        scratch.push(add(&mut blocks, step, step, uses.scratch));
    }
    plan.arena_bytes = place(&mut blocks).ok_or_else(|| {
        let message = "for the temporaries of a program is not possible: they have more bytes than there are addresses";
        Error::new(ErrorKind::OutOfMemory, "an allocation", message)
    })?;
    for (value, block) in block_of {
        plan.locations.insert(value, Location { base: ARENA, offset: blocks[block].offset });
    }
    plan.scratch = scratch.into_iter().map(|block| blocks[block].offset).collect();
    let results = plan.slots.iter().filter(|slot| slot.donor.is_none()).map(|slot| slot.bytes);
    plan.peak_bytes = results.fold(plan.arena_bytes, usize::saturating_add);
    Ok(plan)
}

/// Temporaries that are in the memory of a result from the start, since the steps from there to the result would copy them
/// into it, one after the other.
fn leading_to(
    request: &Request<'_>,
    last: &HashMap<Value, usize>,
    slot_of: &HashMap<Value, usize>,
) -> HashMap<Value, usize> {
    let mut leading: HashMap<Value, usize> = HashMap::new();
    for (step, uses) in request.steps.iter().enumerate().rev().filter(|(_, uses)| uses.copies) {
        for &(written, read) in &uses.in_place {
            let Some(&slot) = slot_of.get(&written).or(leading.get(&written)) else { continue };
            let temporary = !slot_of.contains_key(&read) && !request.arguments.contains_key(&read);
            let same_size = (request.bytes)(read) == (request.bytes)(written);
            if temporary && same_size && last.get(&read) == Some(&step) {
                leading.insert(read, slot);
            }
        }
    }
    leading
}

/// Arguments that results may take the memory of.
struct Donors {
    /// Argument, bytes and last use; arguments that are not used are free from the start.
    all: Vec<(Value, usize, usize, Option<usize>)>,
    /// Nothing donated is written before this step is over.
    after: Option<usize>,
}

impl Donors {
    fn new(request: &Request<'_>, last: &HashMap<Value, usize>) -> Self {
        let mut all: Vec<_> = request
            .arguments
            .iter()
            .filter(|(value, _)| !request.kept.contains(value))
            .map(|(&value, &index)| (value, index, (request.bytes)(value), last.get(&value).copied()))
            .collect();
        all.sort_by_key(|donor| donor.1);
        let fallible = request.steps.iter().rposition(|step| step.fallible && request.careful);
        Self { all, after: fallible.max(request.last_check) }
    }

    /// The argument whose memory the result `value` of `step` may take.
    fn find(&mut self, step: usize, value: Value, uses: &Use, request: &Request<'_>) -> Option<usize> {
        if self.after.is_some_and(|after| step <= after) {
            return None;
        }
        let bytes = (request.bytes)(value);
        let same_place = |read: Value| uses.in_place.contains(&(value, read));
        let mut position = self.all.iter().position(|d| d.2 == bytes && d.3 == Some(step) && same_place(d.0));
        if position.is_none() {
            position = self.all.iter().position(|d| d.2 == bytes && bytes > 0 && d.3.is_none_or(|end| end < step));
        }
        position.map(|at| self.all.remove(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(first: usize, last: usize, bytes: usize) -> Block {
        Block { first, last, bytes, offset: 0 }
    }

    #[test]
    fn blocks_of_the_same_time_do_not_meet() {
        // Sizes and times from a small generator; no outcome of ours is expected, only what a plan must keep.
        let mut state = 7u32;
        let mut next = |below: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as usize % below
        };
        let sizes: Vec<(usize, usize, usize)> = (0..300).map(|_| (next(100), next(20), next(1000))).collect();
        for many in [1, 40] {
            let list = (0..many).flat_map(|_| &sizes).map(|&(first, long, bytes)| block(first, first + long, bytes));
            let mut blocks: Vec<Block> = list.collect();
            assert_eq!(blocks.len() > BY_SIZE, many > 1);
            let end = place(&mut blocks).unwrap();
            for (at, a) in blocks.iter().enumerate() {
                assert!(a.offset % ALIGN == 0 && a.offset + a.bytes <= end);
                for b in &blocks[..at] {
                    let same_time = a.first <= b.last && b.first <= a.last;
                    let apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
                    assert!(!same_time || apart || a.bytes == 0 || b.bytes == 0, "{a:?} meets {b:?}");
                }
            }
        }
    }

    #[test]
    fn a_small_block_does_not_keep_a_large_one_from_the_place_of_another() {
        // In order of time the small one, placed in what the first large one left, would push the second up.
        let mut blocks = [block(0, 1, 640), block(2, 4, 64), block(3, 5, 640)];
        assert_eq!(place(&mut blocks), Some(704));
        assert_eq!(place(&mut [block(0, 0, usize::MAX)]), None);
        assert_eq!(place(&mut [block(0, 0, usize::MAX - 63), block(0, 0, 64)]), None);
    }
}
