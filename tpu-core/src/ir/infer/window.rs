//! Sizes of windowed operations.

use super::size;
use crate::ir::Op;
use crate::{Result, ensure};

/// What a window does along one axis.
#[derive(Clone, Copy)]
pub(super) struct WindowAxis {
    pub(super) size: usize,
    pub(super) stride: usize,
    pub(super) base_dilation: usize,
    pub(super) window_dilation: usize,
    pub(super) padding: (i64, i64),
}

impl WindowAxis {
    /// How many windows fit along `axis` of the given operand size.
    pub(super) fn windows(&self, op: &Op, axis: usize, operand: usize) -> Result<usize> {
        let factors = [
            ("window sizes", self.size),
            ("strides", self.stride),
            ("base dilations", self.base_dilation),
            ("window dilations", self.window_dilation),
        ];
        for (name, factor) in factors {
            ensure!(
                (1..=i64::MAX as usize).contains(&factor),
                Value,
                op.name(),
                "requires {name} from 1 to 2^63 - 1, got {factor} along axis {axis}"
            );
        }
        let (low, high) = self.padding;
        let padded = dilated(operand, self.base_dilation) + low as i128 + high as i128;
        let window = dilated(self.size, self.window_dilation);
        let count = if padded < window { 0 } else { (padded - window) / self.stride as i128 + 1 };
        size(op, axis, count)
    }
}

/// The extent of `size` elements with `dilation − 1` holes between them.
fn dilated(size: usize, dilation: usize) -> i128 {
    if size == 0 { 0 } else { (size as i128 - 1) * dilation as i128 + 1 }
}
