//! Which neighbouring row programs may run at the same time, so that many small ones are shared among threads as one piece of
//! work: the update of fifty parameters, the norms of fifty gradients.

use super::memory::{ARENA, CONSTANTS, FIRST_ARGUMENT, Location, Number, Plan, Use};
use crate::runtime::host::program::{Batch, Step};
use crate::runtime::host::row::program::Cut;
use std::collections::HashMap;
use std::ops::Range;

/// Steps of a batch at most: bounds the time to compile.
const STEPS: usize = 256;

/// Bytes that a step reads or writes.
struct Span {
    bytes: Range<usize>,
    written: bool,
}

/// Memory that the steps of a batch touch, by base.
#[derive(Default)]
struct Touched(HashMap<u32, Vec<Span>>);

impl Touched {
    fn meets(&self, base: u32, span: &Span) -> bool {
        let overlap = |other: &Span| other.bytes.start < span.bytes.end && span.bytes.start < other.bytes.end;
        let list = self.0.get(&base).map_or(&[][..], Vec::as_slice);
        list.iter().any(|other| (other.written || span.written) && overlap(other))
    }
}

/// Cuts steps into batches. None contains both a step before `first` and one after.
pub(super) fn batches(
    steps: &[Step],
    uses: &[Use],
    plan: &Plan,
    bytes: &[usize],
    scratch_bytes: &[usize],
    arguments: usize,
    first: usize,
) -> Vec<Batch> {
    let first_result = FIRST_ARGUMENT + arguments as u32;
    // A result may be in the memory of an argument.
    let base_of = |at: Location| {
        let slot = at.base.checked_sub(first_result).map(|slot| &plan.slots[slot as usize]);
        slot.and_then(|slot| slot.donor).map_or(at.base, |donor| FIRST_ARGUMENT + donor as u32)
    };
    let spans = |step: usize| {
        let uses: &Use = &uses[step];
        let value = |(&value, written): (&Number, bool)| {
            let at = plan.locations[value as usize]?;
            Some((base_of(at), Span { bytes: at.offset..at.offset.saturating_add(bytes[value as usize]), written }))
        };
        let reads = uses.reads.iter().map(|value| (value, false));
        let values: Vec<_> = reads.chain(uses.writes.iter().map(|value| (value, true))).filter_map(value).collect();
        let scratch = plan.scratch[step]..plan.scratch[step] + scratch_bytes[step];
        let scratch = (ARENA, Span { bytes: scratch, written: true });
        values
            .into_iter()
            .chain([scratch])
            .filter(|(base, span)| *base != CONSTANTS && !span.bytes.is_empty())
            .collect::<Vec<_>>()
    };
    let mut batches: Vec<Batch> = Vec::new();
    let mut touched = Touched::default();
    for (index, step) in steps.iter().enumerate() {
        let together = matches!(step, Step::Rows(program, _) if program.cut != Cut::Phases);
        let new = if together { spans(index) } else { Vec::new() };
        let joins = together
            && index != first
            && batches.last().is_some_and(|batch| batch.together && batch.steps.len() < STEPS)
            && !new.iter().any(|(base, span)| touched.meets(*base, span));
        match batches.last_mut() {
            Some(batch) if joins => batch.steps.end = index + 1,
            _ => {
                touched.0.clear();
                batches.push(Batch { steps: index..index + 1, together, parallel: false });
            }
        }
        for (base, span) in new {
            touched.0.entry(base).or_default().push(span);
        }
    }
    for batch in &mut batches {
        batch.parallel = Step::are_parallel(&steps[batch.steps.clone()]);
    }
    batches
}
