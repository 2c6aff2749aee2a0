//! Where a stream of recorded operations repeats itself.
//!
//! A loop that neither reads nor marks its steps is cut by the size limit. Cutting wherever the limit happens to fall
//! would give a new program each time; so the cut snaps to a place that recurs once per iteration. A rolling hash over
//! the last [`WINDOW`] operations names each place; among the places of the last period the one with the smallest hash
//! is taken, which is the same place whatever the phase of the limit.

use super::stream::Pending;
use crate::ir::{Op, Type};

const WINDOW: usize = 16;
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// What tells a place from another: the kind of operation, the result's rank and dtype.
pub(crate) fn hash(op: &Op, types: &[Type]) -> u64 {
    types.iter().fold((op.code() as u64 + 1).wrapping_mul(BASE), |hash, ty| {
        (hash ^ ((ty.dtype as u64) << 8 | ty.shape.rank() as u64)).wrapping_mul(BASE)
    })
}

/// How many of the pending nodes to cut: up to the last recurring place, all of them if nothing recurs.
pub(crate) fn find(nodes: &[Pending]) -> usize {
    recurring(&nodes.iter().map(|node| node.hash).collect::<Vec<_>>())
}

fn recurring(ops: &[u64]) -> usize {
    let len = ops.len();
    let top = BASE.wrapping_pow(WINDOW as u32);
    let mut rolling = 0u64;
    // places[i]: the hash of the window that ends before operation i.
    let mut places = vec![0; len + 1];
    for (i, &op) in ops.iter().enumerate() {
        rolling = rolling.wrapping_mul(BASE).wrapping_add(op);
        if i >= WINDOW {
            rolling = rolling.wrapping_sub(top.wrapping_mul(ops[i - WINDOW]));
        }
        places[i + 1] = rolling;
    }
    let Some(previous) = (WINDOW..len).rev().find(|&place| places[place] == places[len]) else {
        return len;
    };
    (previous + 1..=len).min_by_key(|&place| places[place].rotate_left(32)).unwrap_or(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `phase` operations before a loop of `period` different ones.
    fn looped(phase: usize, period: usize, len: usize) -> Vec<u64> {
        (0..len).map(|i| (((i + phase) % period) as u64).wrapping_mul(BASE) ^ 7).collect()
    }

    #[test]
    fn the_cut_falls_on_the_same_place_of_the_loop_whatever_the_phase() {
        let period = 37;
        let place = |phase| (recurring(&looped(phase, period, 1000)) + phase) % period;
        let first = place(0);
        for phase in 1..period {
            assert_eq!(place(phase), first, "phase {phase}");
        }
    }

    #[test]
    fn less_than_one_period_is_left_behind() {
        for period in [1, 2, 16, 17, 300] {
            assert!(1000 - recurring(&looped(5, period, 1000)) < period.max(1));
        }
    }

    #[test]
    fn without_recurrence_everything_is_cut() {
        let ops: Vec<u64> = (0..1000u64).map(|i| i.wrapping_mul(i).wrapping_mul(BASE)).collect();
        assert_eq!(recurring(&ops), 1000);
        assert_eq!(recurring(&[]), 0);
    }
}
