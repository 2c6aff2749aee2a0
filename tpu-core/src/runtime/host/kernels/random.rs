//! Random bits.

use super::{Operand, Target, split};
use crate::Result;
use crate::random::random_group;

/// Philox bits: element `i` is lane `i mod 4` of counter `offset + i/4` under the key `seed`.
pub(super) fn bits(seed: &Operand<'_>, offset: &Operand<'_>, [y]: &mut [Target<'_>; 1]) -> Result<()> {
    let (seed, offset) = (seed.cells::<u64>()?[0], offset.cells::<u64>()?[0]);
    split::parts(y.cells::<u32>()?, 4, 3.0, |first, part| {
        for (i, four) in part.chunks_mut(4).enumerate() {
            four.copy_from_slice(&random_group(seed, offset, (first / 4 + i) as u64)[..four.len()]);
        }
    });
    Ok(())
}
