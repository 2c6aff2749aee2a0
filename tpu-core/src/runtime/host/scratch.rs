//! Memory that a kernel needs while it runs, from the device's pool, whose limit and statistics so count it.
//!
//! Whatever grows with the operands is taken from here. Buffers of a fixed size, such as a block of patches, and lists of a few
//! numbers per axis are not worth it.

use super::pool::{ALIGN, Block, Pool};
use crate::{Error, ErrorKind, Result};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Where a kernel takes its memory from.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a>(&'a Arc<Pool>);

impl<'a> Memory<'a> {
    /// The memory of a device.
    pub fn new(pool: &'a Arc<Pool>) -> Self {
        Self(pool)
    }

    /// `len` elements, all `value`. Errors with `OutOfMemory` as any allocation of the pool.
    pub fn filled<T: Copy>(self, len: usize, value: T) -> Result<Scratch<T>> {
        const { assert!(align_of::<T>() <= ALIGN, "blocks are aligned well enough") };
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| {
            let message = format!("of {len} elements is not possible: they have more bytes than there are addresses");
            Error::new(ErrorKind::OutOfMemory, "an allocation", message)
        })?;
        let block = self.0.allocate(bytes)?;
        let at = block.at().cast::<T>();
        for i in 0..len {
            // SAFETY: the block is new, aligned for `T` by the assertion above, and has room for `len` elements.
            unsafe { at.add(i).write(value) };
        }
        Ok(Scratch { block, len, elements: PhantomData })
    }
}

/// Elements in a block of the pool, given back when dropped.
pub(crate) struct Scratch<T> {
    block: Block,
    len: usize,
    elements: PhantomData<T>,
}

impl<T> Deref for Scratch<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `Memory::filled` wrote that many elements; the block is this value's own.
        unsafe { std::slice::from_raw_parts(self.block.at().cast(), self.len) }
    }
}

impl<T> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.block.at().cast(), self.len) }
    }
}

/// Elements where they are, or brought to other places or another type.
pub(crate) enum Cells<'a, T> {
    There(&'a [T]),
    Brought(Scratch<T>),
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
        let pool = Arc::new(Pool::new(Some(1000)));
        let mut numbers = Memory::new(&pool).filled(100, 7u64).unwrap();
        assert_eq!(pool.stats().in_use, 800);
        numbers[99] = 8;
        assert_eq!((numbers[0], numbers[99], numbers.len()), (7, 8, 100));
        let refused = Memory::new(&pool).filled(100, (1u8, 2u16)).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
        drop(numbers);
        assert_eq!(pool.stats().in_use, 0);
        let refused = Memory::new(&pool).filled(usize::MAX, 0u64).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
    }
}
