//! Making a view real: a strided copy into dense memory.

use rayon::prelude::*;
use smallvec::SmallVec;

/// A copy of elements of any width.
#[derive(Clone, Debug)]
pub(crate) struct StridedCopy {
    pub src_base: u32,
    /// In bytes.
    pub src_offset: usize,
    pub dst_base: u32,
    pub dst_offset: usize,
    pub bytes: usize,
    /// Sizes and source strides in elements, outermost first; no axis of size one, neighbours joined where one stride
    /// describes both.
    pub axes: SmallVec<[(usize, usize); 4]>,
}

/// Side of the square that is transposed at a time.
const BLOCK: usize = 16;

impl StridedCopy {
    /// Joins neighbouring axes.
    pub fn axes(sizes: &[usize], strides: &[usize]) -> SmallVec<[(usize, usize); 4]> {
        let mut axes: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        for (&size, &stride) in sizes.iter().zip(strides).filter(|(size, _)| **size != 1) {
            match axes.last_mut() {
                Some(last) if last.1 == stride * size => *last = (last.0 * size, stride),
                _ => axes.push((size, stride)),
            }
        }
        axes
    }

    /// Elements.
    pub fn elements(&self) -> usize {
        self.axes.iter().map(|axis| axis.0).product()
    }
}

#[derive(Clone, Copy)]
struct Shared(*mut u8, *const u8);
// SAFETY: tasks write disjoint parts and the source is only read.
unsafe impl Sync for Shared {}

/// Runs a copy. With `parallel`, in the current thread pool.
///
/// # Safety
///
/// The bases are good for what the copy reads and writes, and the two do not overlap.
pub(crate) unsafe fn run(copy: &StridedCopy, bases: &[*mut u8], parallel: bool) {
    let shared = Shared(
        bases[copy.dst_base as usize].wrapping_add(copy.dst_offset),
        bases[copy.src_base as usize].wrapping_add(copy.src_offset),
    );
    let copy_typed = match copy.bytes {
        1 => typed::<u8>,
        2 => typed::<u16>,
        4 => typed::<u32>,
        _ => typed::<u64>,
    };
    // SAFETY: passed on to the caller.
    unsafe { copy_typed(copy, shared, parallel) };
}

unsafe fn typed<T: Copy>(copy: &StridedCopy, shared: Shared, parallel: bool) {
    let (cols, step) = copy.axes.last().copied().unwrap_or((1, 1));
    let outer = &copy.axes[..copy.axes.len().saturating_sub(1)];
    // The axis beside which the source is dense, if it is not the last one: swapped in squares with the last.
    let across = (step != 1 && step != 0).then(|| outer.iter().rposition(|axis| axis.1 == 1)).flatten();
    let strip = if across.is_some() { BLOCK } else { 1 };
    let rows: usize = outer.iter().map(|axis| axis.0).product();
    // Unit: `strip` neighbours along `across` for one position of the other outer axes.
    let across_size = across.map_or(1, |axis| outer[axis].0);
    let strips = across_size.div_ceil(strip);
    let units = rows / across_size.max(1) * strips;
    let unit = |index: usize| {
        let shared = &shared;
        let (mut rest, first) = (index / strips, index % strips * strip);
        let (mut from, mut to, mut place, mut across_place) = (0, 0, cols, 0);
        for (axis, &(size, stride)) in outer.iter().enumerate().rev() {
            if Some(axis) == across {
                across_place = place;
                from += first * stride;
                to += first * place;
            } else {
                from += rest % size * stride;
                to += rest % size * place;
                rest /= size;
            }
            place *= size;
        }
        let (src, dst) = (shared.1.cast::<T>().wrapping_add(from), shared.0.cast::<T>().wrapping_add(to));
        // SAFETY: passed on to the caller; units are disjoint in the destination.
        unsafe {
            match across {
                None => row(src, step, dst, cols),
                Some(_) => {
                    let n = strip.min(across_size - first);
                    for col in 0..cols {
                        for i in 0..n {
                            let x = src.add(col * step + i).read_unaligned();
                            dst.add(i * across_place + col).write_unaligned(x);
                        }
                    }
                }
            }
        }
    };
    if units == 0 {
        return;
    }
    let threads = if parallel { rayon::current_num_threads() } else { 1 };
    if threads == 1 || units == 1 {
        return (0..units).for_each(unit);
    }
    let parts = (threads * 4).min(units);
    (0..parts).into_par_iter().for_each(|part| (units * part / parts..units * (part + 1) / parts).for_each(unit));
}

unsafe fn row<T: Copy>(src: *const T, step: usize, dst: *mut T, cols: usize) {
    // SAFETY: passed on to the caller.
    unsafe {
        match step {
            1 => std::ptr::copy_nonoverlapping(src, dst, cols),
            0 => {
                let x = src.read_unaligned();
                (0..cols).for_each(|i| dst.add(i).write_unaligned(x));
            }
            _ => (0..cols).for_each(|i| dst.add(i).write_unaligned(src.add(i * step).read_unaligned())),
        }
    }
}
