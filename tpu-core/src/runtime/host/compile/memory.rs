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
}

/// Free pieces of the arena, by offset.
#[derive(Default)]
struct Arena {
    free: Vec<(usize, usize)>,
    end: usize,
}

impl Arena {
    /// The smallest free piece that is large enough, or the end.
    fn take(&mut self, bytes: usize) -> Option<usize> {
        let bytes = bytes.checked_next_multiple_of(ALIGN)?;
        let fitting = self.free.iter().enumerate().filter(|(_, piece)| piece.1 >= bytes);
        if let Some((index, &(at, size))) = fitting.min_by_key(|(_, piece)| piece.1) {
            if size == bytes {
                self.free.remove(index);
            } else {
                self.free[index] = (at + bytes, size - bytes);
            }
            return Some(at);
        }
        // A free piece at the end grows.
        match self.free.last().copied() {
            Some((at, size)) if at + size == self.end => {
                self.free.pop();
                self.end = at.checked_add(bytes)?;
                Some(at)
            }
            _ => {
                let at = self.end;
                self.end = at.checked_add(bytes)?;
                Some(at)
            }
        }
    }

    fn give(&mut self, at: usize, bytes: usize) {
        let bytes = bytes.next_multiple_of(ALIGN);
        if bytes == 0 {
            return;
        }
        let index = self.free.partition_point(|piece| piece.0 < at);
        self.free.insert(index, (at, bytes));
        if index + 1 < self.free.len() && at + bytes == self.free[index + 1].0 {
            self.free[index].1 += self.free.remove(index + 1).1;
        }
        if index > 0 && self.free[index - 1].0 + self.free[index - 1].1 == at {
            self.free[index - 1].1 += self.free.remove(index).1;
        }
    }
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
    let mut donors = Donors::new(request, &last);
    let mut arena = Arena::default();
    let refused = || {
        let message = "for the temporaries of a program is not possible: they have more bytes than there are addresses";
        Error::new(ErrorKind::OutOfMemory, "an allocation", message)
    };
    let mut ending: Vec<Vec<Value>> = vec![Vec::new(); request.steps.len()];
    for (step, uses) in request.steps.iter().enumerate() {
        let mut taken: Vec<Value> = Vec::new();
        for &value in &uses.writes {
            if let Some(&slot) = plan.slot_of.get(&value) {
                plan.slots[slot].donor = donors.find(step, value, uses, request);
                continue;
            }
            let bytes = (request.bytes)(value);
            let ends = last.get(&value).copied().unwrap_or(step);
            // The memory of a temporary that this step reads for the last time.
            let dying = uses.in_place.iter().find(|(written, read)| {
                *written == value
                    && last.get(read) == Some(&step)
                    && !taken.contains(read)
                    && plan.locations.get(read).is_some_and(|at| at.base == ARENA)
                    && (request.bytes)(*read) == bytes
            });
            let at = match dying {
                Some(&(_, read)) => {
                    taken.push(read);
                    plan.locations[&read].offset
                }
                None => arena.take(bytes).ok_or_else(refused)?,
            };
            plan.locations.insert(value, Location { base: ARENA, offset: at });
            ending[ends].push(value);
        }
        let scratch = arena.take(uses.scratch).ok_or_else(refused)?;
        plan.scratch.push(scratch);
        arena.give(scratch, uses.scratch);
        for value in std::mem::take(&mut ending[step]) {
            if !taken.contains(&value) {
                arena.give(plan.locations[&value].offset, (request.bytes)(value));
            }
        }
    }
    plan.arena_bytes = arena.end;
    let results = plan.slots.iter().filter(|slot| slot.donor.is_none()).map(|slot| slot.bytes);
    plan.peak_bytes = results.fold(arena.end, usize::saturating_add);
    Ok(plan)
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
        let fallible = request.steps.iter().rposition(|step| step.fallible);
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

    #[test]
    fn the_arena_gives_the_smallest_fitting_piece_and_joins_neighbours() {
        let mut arena = Arena::default();
        let at: Vec<usize> = [64, 128, 64, 256].iter().map(|&n| arena.take(n).unwrap()).collect();
        assert_eq!(at, [0, 64, 192, 256]);
        arena.give(at[1], 128);
        arena.give(at[3], 256);
        assert_eq!(arena.take(100), Some(64));
        arena.give(64, 128);
        arena.give(at[2], 64);
        assert_eq!(arena.free, [(64, 448)]);
        assert_eq!(arena.take(1000), Some(64));
        assert_eq!(arena.end, 64 + 1024);
        assert_eq!(arena.take(usize::MAX), None);
    }
}
