//! Where every value is: arguments, constants, results, and temporaries at planned offsets of one piece of memory.

use crate::runtime::host::pool::ALIGN;
use crate::{Error, ErrorKind, Result};

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

/// The number of a value of a program.
pub(super) type Number = u32;
/// No value, no slot.
const NONE: u32 = u32::MAX;

/// What a step does with memory.
#[derive(Default)]
pub(super) struct Use {
    pub reads: Vec<Number>,
    pub writes: Vec<Number>,
    /// Pairs (written, read) that may share memory.
    pub in_place: Vec<(Number, Number)>,
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
    /// Of each value that is in memory.
    pub locations: Vec<Option<Location>>,
    /// Offset of each step's scratch memory in the arena.
    pub scratch: Vec<usize>,
    pub arena_bytes: usize,
    pub slots: Vec<Slot>,
    /// Most bytes of temporaries and results alive at one time.
    pub peak_bytes: usize,
}

/// What the planner is told of a program, whatever its sizes.
pub(super) struct Request {
    steps: Vec<Use>,
    /// The values of the parameters.
    arguments: Vec<Number>,
    /// For each value whether it is one of them.
    is_argument: Vec<bool>,
    /// Computed values that are results, each once: those with a slot.
    results: Vec<Number>,
    /// For each value whether it is a result.
    is_result: Vec<bool>,
    /// The last step that a check depends on, if there are checks.
    pub last_check: Option<usize>,
    /// Whether arguments have to be as they were when a step fails.
    careful: bool,
    /// For each value the last step that needs it.
    last: Vec<Option<usize>>,
    /// For each value the number of its slot.
    slot_of: Vec<u32>,
}

impl Request {
    /// A program of so many `values`: what its steps do, which values are its arguments, its results and its checks. `careful`:
    /// whether arguments have to be as they were when a step fails.
    pub fn new(
        values: usize,
        steps: Vec<Use>,
        arguments: Vec<Number>,
        results: &[Number],
        checks: &[Number],
        careful: bool,
    ) -> Self {
        let mut last = vec![None; values];
        let mut written = vec![None; values];
        for (step, uses) in steps.iter().enumerate() {
            for &value in uses.reads.iter().chain(&uses.writes) {
                last[value as usize] = Some(step);
            }
            uses.writes.iter().for_each(|&value| written[value as usize] = Some(step));
        }
        // Checks are read when the last of them is there.
        let last_check = checks.iter().filter_map(|&value| written[value as usize]).max();
        for &value in checks {
            last[value as usize] = last[value as usize].map(|step| step.max(last_check.unwrap_or(0)));
        }
        let (mut is_argument, mut is_result) = (vec![false; values], vec![false; values]);
        arguments.iter().for_each(|&value| is_argument[value as usize] = true);
        let mut slot_of = vec![NONE; values];
        let mut computed = Vec::new();
        for &value in results {
            let seen = std::mem::replace(&mut is_result[value as usize], true);
            if !seen && !is_argument[value as usize] {
                slot_of[value as usize] = computed.len() as u32;
                computed.push(value);
            }
        }
        Self { steps, arguments, is_argument, results: computed, is_result, last_check, careful, last, slot_of }
    }

    /// How many values the program has, in memory or not.
    pub fn values(&self) -> usize {
        self.last.len()
    }

    /// What each step does.
    pub fn steps(&self) -> &[Use] {
        &self.steps
    }

    /// The slot of a value that is a result.
    pub fn slot_of(&self, value: Number) -> Option<usize> {
        Some(self.slot_of[value as usize]).filter(|&slot| slot != NONE).map(|slot| slot as usize)
    }
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

/// Plans memory for `bytes` of each value and of each step's scratch memory. Errors with `OutOfMemory` when the sum has no
/// address.
pub(super) fn plan(request: &Request, bytes: &[usize], scratch_bytes: &[usize]) -> Result<Plan> {
    let values = bytes.len();
    let mut locations: Vec<Option<Location>> = vec![None; values];
    for (index, &value) in request.arguments.iter().enumerate() {
        locations[value as usize] = Some(Location { base: FIRST_ARGUMENT + index as u32, offset: 0 });
    }
    let first_result = FIRST_ARGUMENT + request.arguments.len() as u32;
    let mut slots: Vec<Slot> =
        request.results.iter().map(|&value| Slot { bytes: bytes[value as usize], donor: None }).collect();
    let slot_of = leading_to(request, bytes);
    let mut begun = vec![false; slots.len()];
    let mut donors = Donors::new(request, bytes);
    let mut blocks: Vec<Block> = Vec::with_capacity(2 * request.steps.len());
    let mut block_of: Vec<u32> = vec![NONE; values];
    let mut scratch: Vec<usize> = Vec::with_capacity(request.steps.len());
    let add = |blocks: &mut Vec<Block>, first, last, bytes| {
        blocks.push(Block { first, last, bytes, offset: 0 });
        blocks.len() - 1
    };
    for (step, uses) in request.steps.iter().enumerate() {
        for &value in &uses.writes {
            let number = value as usize;
            let slot = slot_of[number];
            if slot != NONE {
                if !std::mem::replace(&mut begun[slot as usize], true) {
                    slots[slot as usize].donor = donors.find(step, value, uses, bytes);
                }
                locations[number] = Some(Location { base: first_result + slot, offset: 0 });
                continue;
            }
            let ends = request.last[number].unwrap_or(step);
            // The block of a temporary that this step reads for the last time, and that nothing else took.
            // What nothing reads later takes one only where no other result of the step may.
            let lasting = ends > step || uses.copies;
            let dying =
                uses.in_place.iter().filter(|(written, _)| *written == value && lasting).find_map(|&(_, read)| {
                    let block = Some(block_of[read as usize]).filter(|&block| block != NONE)? as usize;
                    (blocks[block].last == step && bytes[read as usize] == bytes[number]).then_some(block)
                });
            let block = dying.unwrap_or_else(|| add(&mut blocks, step, ends, bytes[number]));
            blocks[block].last = ends;
            block_of[number] = block as u32;
        }
        scratch.push(add(&mut blocks, step, step, scratch_bytes[step]));
    }
    let arena_bytes = place(&mut blocks).ok_or_else(|| {
        let message = "for the temporaries of a program is not possible: they have more bytes than there are addresses";
        Error::new(ErrorKind::OutOfMemory, "an allocation", message)
    })?;
    for (location, &block) in locations.iter_mut().zip(&block_of).filter(|(_, block)| **block != NONE) {
        *location = Some(Location { base: ARENA, offset: blocks[block as usize].offset });
    }
    let scratch = scratch.into_iter().map(|block| blocks[block].offset).collect();
    let results = slots.iter().filter(|slot| slot.donor.is_none()).map(|slot| slot.bytes);
    let peak_bytes = results.fold(arena_bytes, usize::saturating_add);
    Ok(Plan { locations, scratch, arena_bytes, slots, peak_bytes })
}

/// The slot of each value: of results, and of temporaries that are in the memory of a result from the start, since the steps
/// from there to the result would copy them into it, one after the other.
fn leading_to(request: &Request, bytes: &[usize]) -> Vec<u32> {
    let mut slot_of = request.slot_of.clone();
    for (step, uses) in request.steps.iter().enumerate().rev().filter(|(_, uses)| uses.copies) {
        for &(written, read) in &uses.in_place {
            let (slot, read) = (slot_of[written as usize], read as usize);
            // Neither an argument nor a result.
            let temporary = slot_of[read] == NONE && !request.is_argument[read];
            let same_size = bytes[read] == bytes[written as usize];
            if slot != NONE && temporary && same_size && request.last[read] == Some(step) {
                slot_of[read] = slot;
            }
        }
    }
    slot_of
}

/// Arguments that results may take the memory of.
struct Donors {
    /// Argument, its number, bytes and last use; arguments that are not used are free from the start.
    all: Vec<(Number, usize, usize, Option<usize>)>,
    /// Nothing donated is written before this step is over.
    after: Option<usize>,
}

impl Donors {
    fn new(request: &Request, bytes: &[usize]) -> Self {
        let arguments = request.arguments.iter().enumerate();
        // Not those that are results as they are.
        let all = arguments.filter(|(_, value)| !request.is_result[**value as usize]);
        let all = all.map(|(index, &value)| (value, index, bytes[value as usize], request.last[value as usize]));
        let fallible = request.steps.iter().rposition(|step| step.fallible && request.careful);
        Self { all: all.collect(), after: fallible.max(request.last_check) }
    }

    /// The argument whose memory the result `value` of `step` may take.
    fn find(&mut self, step: usize, value: Number, uses: &Use, bytes: &[usize]) -> Option<usize> {
        if self.after.is_some_and(|after| step <= after) {
            return None;
        }
        let bytes = bytes[value as usize];
        let same_place = |read: Number| uses.in_place.contains(&(value, read));
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
