//! Elements put together from several places.

use super::program::{Assembly, Window};

/// Neighbouring elements of the whole that is put together.
#[derive(Clone, Copy)]
pub(super) struct Line {
    pub first: usize,
    pub count: usize,
}

/// Writes the elements of a line.
///
/// # Safety
///
/// The bases are good for what the assembly reads, `dst` for `line.count` elements; they do not overlap.
pub(super) unsafe fn run(assembly: &Assembly, bases: &[*mut u8], dst: *mut u8, line: Line) {
    let typed = match assembly.bytes {
        1 => typed::<u8>,
        2 => typed::<u16>,
        4 => typed::<u32>,
        _ => typed::<u64>,
    };
    // SAFETY: passed on to the caller.
    unsafe { typed(assembly, bases, dst, line) }
}

unsafe fn typed<T: Copy>(assembly: &Assembly, bases: &[*mut u8], dst: *mut u8, line: Line) {
    let dst = dst.cast::<T>();
    if let Some(fill) = &assembly.fill {
        // SAFETY: passed on to the caller.
        let x = unsafe { bases[fill.base as usize].wrapping_add(fill.offset).cast::<T>().read_unaligned() };
        for i in 0..line.count {
            // SAFETY: passed on to the caller: i < count.
            unsafe { dst.add(i).write_unaligned(x) };
        }
    }
    for window in &assembly.windows {
        // SAFETY: passed on to the caller.
        unsafe { read(window, bases[window.base as usize].cast::<T>(), dst, line) };
    }
}

/// Copies what a window has of the line, run by run of the innermost axis.
unsafe fn read<T: Copy>(window: &Window, src: *const T, dst: *mut T, line: Line) {
    let Some((inner, outer)) = window.axes.split_last() else { return };
    let mut done = 0;
    while done < line.count {
        let at = line.first + done;
        let (mut rest, start) = (at / inner.size, at % inner.size);
        let n = (inner.size - start).min(line.count - done);
        let mut from = window.offset as isize;
        let mut inside = true;
        for axis in outer.iter().rev() {
            match (rest % axis.size).checked_sub(axis.low) {
                Some(index) if index < axis.count => from += index as isize * axis.step,
                _ => inside = false,
            }
            rest /= axis.size;
        }
        let (begin, end) = (start.max(inner.low), (start + n).min(inner.low + inner.count));
        if inside && begin < end {
            from += (begin - inner.low) as isize * inner.step;
            // SAFETY: the elements are of the window and of the line.
            unsafe { copy(src.wrapping_offset(from), inner.step, dst.add(done + begin - start), end - begin) };
        }
        done += n;
    }
}

unsafe fn copy<T: Copy>(src: *const T, step: isize, dst: *mut T, n: usize) {
    if step == 1 {
        // SAFETY: passed on to the caller; bytes, so that alignment does not matter.
        return unsafe { std::ptr::copy_nonoverlapping(src.cast::<u8>(), dst.cast::<u8>(), n * size_of::<T>()) };
    }
    for i in 0..n {
        // SAFETY: passed on to the caller: i < n.
        unsafe { dst.add(i).write_unaligned(src.wrapping_offset(i as isize * step).read_unaligned()) };
    }
}
