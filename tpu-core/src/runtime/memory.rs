//! Memory of the host that a transfer owns while it lasts.

use crate::{Error, ErrorKind, Result};
use bytemuck::{Pod, Zeroable};
use std::any::Any;
use std::fmt;

/// Bytes of the host that a device reads or writes. A transfer takes them and gives them back: a device that does not
/// answer in time may still use them, and then they stay where they are.
///
/// ```
/// use tpu_core::runtime::HostMemory;
/// let mut memory = HostMemory::from(vec![1u8, 2]);
/// memory.bytes_mut()[0] = 3;
/// assert_eq!(memory.bytes(), [3, 2]);
/// ```
pub struct HostMemory {
    elements: Box<dyn Elements>,
    /// How many of the bytes of `elements` count.
    len: usize,
}

/// A vector of some element type, which knows how to free itself. Its elements stay where they are when it is moved.
trait Elements: Any + Send + Sync {
    fn bytes(&self) -> &[u8];
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl<T: Pod + Send + Sync> Elements for Vec<T> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(self)
    }
}

/// What aligned memory is made of.
#[repr(C, align(64))]
#[derive(Clone, Copy, Zeroable, Pod)]
struct Line([u8; HostMemory::ALIGNMENT]);

impl HostMemory {
    /// What the address of memory must be a multiple of for XLA's CPU devices to use it as it is, without a copy.
    pub const ALIGNMENT: usize = 64;

    /// Zeros on a multiple of [`ALIGNMENT`](Self::ALIGNMENT). Errors with [`ErrorKind::OutOfMemory`].
    ///
    /// ```
    /// use tpu_core::runtime::HostMemory;
    /// let memory = HostMemory::aligned(100)?;
    /// assert_eq!(memory.bytes(), [0; 100]);
    /// assert_eq!(memory.bytes().as_ptr() as usize % HostMemory::ALIGNMENT, 0);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    pub fn aligned(bytes: usize) -> Result<Self> {
        let lines = bytes.div_ceil(Self::ALIGNMENT);
        let mut elements: Vec<Line> = Vec::new();
        if elements.try_reserve_exact(lines).is_err() {
            let message = format!("of {bytes} bytes does not fit into host memory");
            return Err(Error::new(ErrorKind::OutOfMemory, "an allocation", message));
        }
        elements.resize(lines, Line::zeroed());
        Ok(Self { elements: Box::new(elements), len: bytes })
    }

    /// Takes over a vector.
    pub(crate) fn of<T: Pod + Send + Sync>(elements: Vec<T>) -> Self {
        Self { len: size_of_val(&elements[..]), elements: Box::new(elements) }
    }

    /// The vector that was taken over, if it was one of `T`.
    pub(crate) fn into_vec<T: Pod + Send + Sync>(self) -> Option<Vec<T>> {
        let any: Box<dyn Any> = self.elements;
        any.downcast().ok().map(|elements| *elements)
    }

    /// What is there.
    pub fn bytes(&self) -> &[u8] {
        &self.elements.bytes()[..self.len]
    }

    /// What is there, to be overwritten.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.elements.bytes_mut()[..self.len]
    }
}

impl From<Vec<u8>> for HostMemory {
    fn from(bytes: Vec<u8>) -> Self {
        Self::of(bytes)
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMemory({} bytes)", self.len)
    }
}

/// A transfer to the host that was started. One that is dropped goes on, and its memory stays until it is over.
#[derive(Debug)]
pub struct Reading(State);

#[derive(Debug)]
enum State {
    Done(HostMemory),
    Later(Box<dyn LaterRead>),
}

/// What fills memory later.
pub(crate) trait LaterRead: Send + fmt::Debug {
    /// Waits.
    fn wait(self: Box<Self>) -> Result<HostMemory>;
}

impl Reading {
    /// One that is over.
    pub fn done(memory: HostMemory) -> Self {
        Self(State::Done(memory))
    }

    /// One that is not.
    pub(crate) fn later(later: Box<dyn LaterRead>) -> Self {
        Self(State::Later(later))
    }

    /// Waits, and gives back the memory with the value in it. Errors if the value or the transfer failed.
    pub fn wait(self) -> Result<HostMemory> {
        match self.0 {
            State::Done(memory) => Ok(memory),
            State::Later(later) => later.wait(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_comes_back_as_what_it_was_and_in_the_same_place() {
        let elements = vec![1.0f32, -2.0];
        let place = elements.as_ptr();
        let memory = HostMemory::of(elements);
        assert_eq!(memory.bytes(), bytemuck::bytes_of(&[1.0f32, -2.0]));
        assert!(HostMemory::of(vec![1.0f32]).into_vec::<u32>().is_none());
        let elements = memory.into_vec::<f32>().unwrap();
        assert_eq!((elements.as_ptr(), &elements[..]), (place, &[1.0, -2.0][..]));
    }

    #[test]
    fn memory_that_is_not_to_be_had_is_an_error() {
        assert_eq!(HostMemory::aligned(usize::MAX).unwrap_err().kind(), ErrorKind::OutOfMemory);
        assert!(HostMemory::aligned(0).unwrap().bytes().is_empty());
    }
}
