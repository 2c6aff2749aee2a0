//! Rows of operands as f32, where they are or brought to memory of the thread, and masks.

use super::{LANES, Lanes, Matrices, Run};
use crate::DType;
use crate::runtime::host::tile::COLUMNS;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Rows of f32 in memory: the first element and the step from row to row.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub start: *const f32,
    pub step: usize,
}

/// Columns of whole panels.
pub(super) fn padded(width: usize) -> usize {
    width.next_multiple_of(COLUMNS)
}

impl Matrices {
    /// Elements from the start to the matrix at this point.
    #[inline(always)]
    fn skip(&self, point: &[usize]) -> usize {
        self.lead.iter().zip(point).map(|(step, at)| step * at).sum()
    }

    /// The address of an element. The caller's bases are good for it.
    fn at<T>(&self, run: &Run<'_>, point: &[usize], row: usize, column: usize) -> *const T {
        let start = run.bases.0[self.base as usize].wrapping_add(self.offset).cast::<T>().cast_const();
        start.wrapping_add(self.skip(point) + row * self.row + column * self.column)
    }

    /// `count` rows from `first` on: where they are if that are adjacent f32, or in `memory`.
    ///
    /// # Safety
    ///
    /// The matrix has these rows, and their columns are adjacent, or only one.
    pub(super) unsafe fn rows(
        &self,
        run: &Run<'_>,
        point: &[usize],
        (first, count, width): (usize, usize, usize),
        memory: &mut [f32],
    ) -> Rows {
        if self.dtype == DType::F32 {
            return Rows { start: self.at(run, point, first, 0), step: self.row };
        }
        for (row, memory) in memory.chunks_exact_mut(width).take(count).enumerate() {
            // SAFETY: passed on to the caller.
            unsafe { self.widen(run, point, (first + row, 0), memory) };
        }
        Rows { start: memory.as_ptr(), step: width }
    }

    /// `count` rows from `first` on as panels of [`COLUMNS`] columns, `rows` rows each; zeros beyond what there is.
    ///
    /// Rows that are far apart would meet in the same sets of the cache when the products read them. To copy a block is a small
    /// part of the products with it.
    ///
    /// # Safety
    ///
    /// As for [`rows`](Self::rows).
    pub(super) unsafe fn panels(
        &self,
        run: &Run<'_>,
        point: &[usize],
        (first, count, width): (usize, usize, usize),
        rows: usize,
        memory: &mut [f32],
    ) {
        for (panel, memory) in memory.chunks_exact_mut(rows * COLUMNS).take(width.div_ceil(COLUMNS)).enumerate() {
            let column = panel * COLUMNS;
            let columns = COLUMNS.min(width - column);
            let (there, beyond) = memory.split_at_mut(count * COLUMNS);
            beyond.fill(0.0);
            for (row, memory) in there.as_chunks_mut::<COLUMNS>().0.iter_mut().enumerate() {
                // SAFETY: passed on to the caller.
                unsafe {
                    // Of a known length nearly always: a copy of two registers.
                    if columns == COLUMNS {
                        self.widen(run, point, (first + row, column), memory);
                    } else {
                        memory[columns..].fill(0.0);
                        self.widen(run, point, (first + row, column), &mut memory[..columns]);
                    }
                }
            }
        }
    }

    /// Adjacent elements as f32.
    #[inline(always)]
    unsafe fn widen(&self, run: &Run<'_>, point: &[usize], (row, column): (usize, usize), to: &mut [f32]) {
        // SAFETY: passed on to the caller.
        unsafe {
            match self.dtype {
                DType::BF16 => {
                    let from = std::slice::from_raw_parts(self.at::<bf16>(run, point, row, column), to.len());
                    from.convert_to_f32_slice(to);
                }
                DType::F16 => {
                    let from = std::slice::from_raw_parts(self.at::<f16>(run, point, row, column), to.len());
                    from.convert_to_f32_slice(to);
                }
                _ => to.copy_from_slice(std::slice::from_raw_parts(self.at::<f32>(run, point, row, column), to.len())),
            }
        }
    }

    /// Applies this mask to scores: those of queries from `query` on, `queries` of them in use, and keys from `key` on.
    ///
    /// # Safety
    ///
    /// The mask has these elements.
    pub(super) unsafe fn mask(
        &self,
        run: &Run<'_>,
        point: &[usize],
        (query, queries): (usize, usize),
        key: usize,
        scores: &mut [Lanes],
    ) {
        const HIDDEN: f32 = f32::NEG_INFINITY;
        let place = (point, query, queries, key);
        // SAFETY: passed on to the caller.
        unsafe {
            match self.dtype {
                DType::Bool => self.change(run, place, scores, |x, seen: u8| if seen != 0 { x } else { HIDDEN }),
                DType::BF16 => self.change(run, place, scores, |x, y: bf16| x + y.to_f32()),
                DType::F16 => self.change(run, place, scores, |x, y: f16| x + y.to_f32()),
                _ => self.change(run, place, scores, |x, y: f32| x + y),
            }
        }
    }

    unsafe fn change<T: Copy>(
        &self,
        run: &Run<'_>,
        (point, query, queries, key): (&[usize], usize, usize, usize),
        scores: &mut [Lanes],
        with: impl Fn(f32, T) -> f32,
    ) {
        let start = self.at::<T>(run, point, query, key);
        for (at, scores) in scores.iter_mut().enumerate() {
            for (lane, x) in scores[..queries].iter_mut().enumerate() {
                // SAFETY: passed on to the caller.
                let with_it = unsafe { *start.wrapping_add(lane * self.row + at * self.column) };
                *x = with(*x * run.of.scale, with_it);
            }
        }
    }
}

/// Panels of `rows` rows with sixteen rows side by side: of each sixteen rows all columns, one after the other.
pub(super) fn side_by_side(panels: &[f32], rows: usize, to: &mut [f32]) {
    let columns = panels.len() / rows;
    for (at, panel) in panels.chunks_exact(rows * COLUMNS).enumerate() {
        for (group, from) in panel.chunks_exact(LANES * COLUMNS).enumerate() {
            let start = (group * columns + at * COLUMNS) * LANES;
            let to = to[start..][..COLUMNS * LANES].as_chunks_mut::<LANES>().0;
            for (lane, from) in from.as_chunks::<COLUMNS>().0.iter().enumerate() {
                for (to, &x) in to.iter_mut().zip(from) {
                    to[lane] = x;
                }
            }
        }
    }
}
