//! Memory of the host that a transfer owns while it lasts.

use bytemuck::Pod;
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
pub struct HostMemory(Box<dyn Elements>);

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

impl HostMemory {
    /// Takes over a vector.
    pub(crate) fn of<T: Pod + Send + Sync>(elements: Vec<T>) -> Self {
        Self(Box::new(elements))
    }

    /// The vector that was taken over, if it was one of `T`.
    pub(crate) fn into_vec<T: Pod + Send + Sync>(self) -> Option<Vec<T>> {
        let any: Box<dyn Any> = self.0;
        any.downcast().ok().map(|elements| *elements)
    }

    /// What is there.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// What is there, to be overwritten.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

impl From<Vec<u8>> for HostMemory {
    fn from(bytes: Vec<u8>) -> Self {
        Self::of(bytes)
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMemory({} bytes)", self.bytes().len())
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
}
