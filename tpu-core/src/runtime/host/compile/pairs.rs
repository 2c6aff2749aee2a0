//! Joins two operations of a group where only the second reads the first.

use super::lower::Lowering;
use super::lowered::{Step, What};
use crate::runtime::host::row::pairs::{Single, pair};

/// Makes one instruction of each sum, difference or product and the one that alone reads it.
pub(super) fn join(lowering: &mut Lowering<'_>) {
    let mut uses = vec![0usize; lowering.locals.len()];
    let steps = lowering.steps.iter().flat_map(|step| step.src.iter().copied());
    let (folds, columns) =
        (lowering.folds.iter().map(|fold| fold.src), lowering.columns.iter().map(|column| column.src));
    steps.chain(folds).chain(columns).for_each(|local| uses[local] += 1);
    // The step that computes a value that may become a part of another step.
    let mut maker = vec![None; lowering.locals.len()];
    let mut joined = vec![false; lowering.steps.len()];
    for at in 0..lowering.steps.len() {
        let step = &lowering.steps[at];
        let pair = step.src.iter().enumerate().find_map(|(place, &x)| {
            let first: usize = maker[x]?;
            Some((first, together(lowering, &lowering.steps[first], step, place)?))
        });
        match pair {
            Some((first, pair)) => {
                joined[first] = true;
                lowering.steps[at] = pair;
            }
            None => {
                let alone = uses[step.dst] == 1 && lowering.locals[step.dst].spot.is_none();
                if step.arithmetic.is_some() && step.full && alone {
                    maker[step.dst] = Some(at);
                }
            }
        }
    }
    let mut at = 0..;
    lowering.steps.retain(|_| !joined[at.next().unwrap_or_default()]);
}

/// `second`, with `first` in place of its operand number `place`.
fn together(lowering: &Lowering<'_>, first: &Step, second: &Step, place: usize) -> Option<Step> {
    let ((inner, singles), (outer, outer_singles)) = (first.arithmetic?, second.arithmetic?);
    if first.phase != second.phase || !second.full {
        return None;
    }
    let other = 1 - place;
    let single = Single { first: singles, other: outer_singles[other] };
    let kernel = pair(lowering.isa(), inner, outer, place == 1, single)?;
    let src = [first.src[0], first.src[1], second.src[other]].into();
    Some(Step { what: What::Loop(kernel), src, arithmetic: None, ..second.clone() })
}
