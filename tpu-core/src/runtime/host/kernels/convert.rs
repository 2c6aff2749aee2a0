//! Conversions between dtypes, and the same bits read as another.

use super::{Operand, Target, split};
use crate::Result;
use crate::dtype::convert;
use std::sync::OnceLock;

/// The elements as the result's dtype, by PyTorch's rules.
pub(super) fn convert(x: &Operand<'_>, [y]: &mut [Target<'_>; 1]) -> Result<()> {
    let (source, target) = (x.ty.dtype, y.ty.dtype);
    let (wide, narrow) = (source.bits() as usize / 8, target.bits() as usize / 8);
    let failure = OnceLock::new();
    split::parts(y.bytes, narrow, 1.0 / narrow as f64, |first, part| {
        let (start, count) = (first / narrow, part.len() / narrow);
        if let Err(error) = convert::convert(source, &x.bytes[start * wide..(start + count) * wide], target, part) {
            failure.get_or_init(|| error);
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
}
