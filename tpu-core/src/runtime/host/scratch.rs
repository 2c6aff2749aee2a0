//! Memory that a kernel needs while it runs, from the device's pool, whose limit and statistics so count it.
//!
//! Whatever grows with the operands is taken from here. Buffers of a fixed size, such as a block of patches, and lists of a few
//! numbers per axis are not worth it.
//!
//! Most kernels ask the pool when they run, and fail if it refuses. A kernel that must not fail, because donated memory may have
//! been written before it, has its memory planned with the temporaries of the program and is given that piece.

use super::pool::{ALIGN, Block, Pool};
use crate::{Error, ErrorKind, Result};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory that the compiler planned for one step.
pub(crate) struct Piece {
    at: *mut u8,
    bytes: usize,
    /// Bytes handed out.
    used: AtomicUsize,
}
// SAFETY: bytes of the piece are handed out once each, whichever thread asks.
unsafe impl Sync for Piece {}

impl Piece {
    /// No memory.
    pub const fn none() -> Self {
        Self { at: std::ptr::null_mut(), bytes: 0, used: AtomicUsize::new(0) }
    }

    /// # Safety
    ///
    /// The bytes from `at`, which is aligned to [`ALIGN`], are nobody else's as long as the piece lives.
    pub unsafe fn new(at: *mut u8, bytes: usize) -> Self {
        Self { at, bytes, used: AtomicUsize::new(0) }
    }

    /// Bytes of the piece that were not handed out yet.
    fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        let bytes = bytes.checked_next_multiple_of(ALIGN)?;
        let next = |used: usize| used.checked_add(bytes).filter(|&end| end <= self.bytes);
        let from = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        NonNull::new(self.at.wrapping_add(from))
    }
}

/// Where a kernel takes its memory from.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'m> {
    pool: &'m Arc<Pool>,
    piece: &'m Piece,
}

impl<'m> Memory<'m> {
    /// The memory of a device, after what was planned.
    pub fn new(pool: &'m Arc<Pool>, piece: &'m Piece) -> Self {
        Self { pool, piece }
    }

    /// `len` elements, all `value`. Errors with `OutOfMemory` as any allocation of the pool.
    pub fn filled<T: Copy>(self, len: usize, value: T) -> Result<Scratch<'m, T>> {
        const { assert!(align_of::<T>() <= ALIGN, "pieces and blocks are aligned well enough") };
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| {
            let message = format!("of {len} elements is not possible: they have more bytes than there are addresses");
            Error::new(ErrorKind::OutOfMemory, "an allocation", message)
        })?;
        let (at, block) = match self.piece.take(bytes) {
            Some(at) => (at, None),
            None => {
                let block = self.pool.allocate(bytes)?;
                (block.start(), Some(block))
            }
        };
        let at = at.cast::<T>();
        for i in 0..len {
            // SAFETY: the memory is new, aligned for `T` by the assertion above, and has room for `len` elements.
            unsafe { at.add(i).write(value) };
        }
        Ok(Scratch { at, len, _block: block, planned: PhantomData })
    }
}

/// Bytes to plan so that these arrays find room.
pub(crate) fn planned(arrays: &[usize]) -> usize {
    arrays.iter().map(|bytes| bytes.next_multiple_of(ALIGN)).fold(0, usize::saturating_add)
}

/// Elements in a planned piece, or in a block of the pool that is given back when this is dropped.
pub(crate) struct Scratch<'m, T> {
    at: NonNull<T>,
    len: usize,
    _block: Option<Block>,
    planned: PhantomData<&'m mut [T]>,
}
// SAFETY: the elements are this value's own, as those of a `Vec` are.
unsafe impl<T: Send> Send for Scratch<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Scratch<'_, T> {}

impl<T> Deref for Scratch<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `Memory::filled` wrote that many elements; they are this value's own.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Scratch<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

/// Elements where they are, or brought to other places or another type.
pub(crate) enum Cells<'a, T> {
    There(&'a [T]),
    Brought(Scratch<'a, T>),
}

impl<T> Deref for Cells<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match self {
            Self::There(cells) => cells,
            Self::Brought(cells) => cells,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_memory_counts_against_the_limit_while_it_lives() {
        let (pool, none) = (Arc::new(Pool::new(Some(1000))), Piece::none());
        let mut numbers = Memory::new(&pool, &none).filled(100, 7u64).unwrap();
        assert_eq!(pool.stats().in_use, 800);
        numbers[99] = 8;
        assert_eq!((numbers[0], numbers[99], numbers.len()), (7, 8, 100));
        let refused = Memory::new(&pool, &none).filled(100, (1u8, 2u16)).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
        drop(numbers);
        assert_eq!(pool.stats().in_use, 0);
        let refused = Memory::new(&pool, &none).filled(usize::MAX, 0u64).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
    }

    #[test]
    fn planned_memory_is_handed_out_before_the_pool_is_asked() {
        let pool = Arc::new(Pool::new(Some(0)));
        let bytes = planned(&[3 * 8, 100]);
        assert_eq!(bytes, 64 + 128);
        let mut lines = vec![[0u64; 8]; bytes / 64 + 1];
        let at = lines.as_mut_ptr().cast::<u8>();
        let at = at.wrapping_add(at.align_offset(ALIGN));
        // SAFETY: aligned, with a line to spare for that, and `lines` is not used while the piece lives.
        let piece = unsafe { Piece::new(at, bytes) };
        let memory = Memory::new(&pool, &piece);
        let (mut first, second) = (memory.filled(3, 1i64).unwrap(), memory.filled(100, 2u8).unwrap());
        first[2] = 5;
        assert_eq!((&first[..], second[0], second[99]), (&[1, 1, 5][..], 2, 2));
        assert_eq!(memory.filled(1, 0u8).err().unwrap().kind(), ErrorKind::OutOfMemory);
    }
}
