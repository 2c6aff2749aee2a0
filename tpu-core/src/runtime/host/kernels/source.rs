//! Ops without operands: constants and counting.

use super::Target;
use super::cell::{Cell, with_number};
use super::elementwise::refused;
use super::movement::with_width;
use super::split;
use crate::{Literal, Result, bail, ensure};

/// The literal's elements.
pub(super) fn constant(literal: &Literal, [target]: &mut [Target<'_>; 1]) -> Result<()> {
    if !literal.is_splat() {
        ensure!(target.bytes.len() == literal.bytes().len(), Internal, "constant", "got a result of another size");
        target.bytes.copy_from_slice(literal.bytes());
        return Ok(());
    }
    with_width!(literal.dtype(), T => {
        let value: T = bytemuck::pod_read_unaligned(literal.bytes());
        split::parts(target.cells::<T>()?, 1, 0.3, |_, part| part.fill(value));
    });
    Ok(())
}

/// 0, 1, … along `axis`.
pub(super) fn iota(axis: usize, [target]: &mut [Target<'_>; 1]) -> Result<()> {
    let sizes = target.ty.shape.sizes();
    let (size, run): (usize, usize) = (sizes[axis], sizes[axis + 1..].iter().product());
    let dtype = target.ty.dtype;
    with_number!(dtype, T => {
        split::parts(target.cells::<T>()?, run, 0.5, |first, part| {
            for (i, line) in part.chunks_mut(run.max(1)).enumerate() {
                line.fill(T::from_index((first / run + i) % size));
            }
        });
    }, return Err(refused("iota", dtype)));
    Ok(())
}
