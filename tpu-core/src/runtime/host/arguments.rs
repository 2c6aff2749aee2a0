//! What a program reads, and memory that it may write over: arguments from outside, the values of a loop, values that are lent.

use super::buffer::HostBuffer;
use super::pool::Block;
use crate::ir::Type;
use crate::runtime::{Argument, Buffer};
use crate::{Error, ErrorKind, Result};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;

/// Memory of a value.
pub(super) enum Held {
    /// A block, which others may hold too.
    Block(Arc<Block>),
    /// A place in the memory of the program around.
    Place(*mut u8),
}

impl Held {
    pub fn at(&self) -> *mut u8 {
        match self {
            Self::Block(block) => block.at(),
            Self::Place(at) => *at,
        }
    }
}

/// The arguments of one run.
pub(super) trait Arguments {
    fn count(&self) -> usize;

    /// Where the elements of an argument are, if it is of this type. They are written to only after [`is_free`](Self::is_free)
    /// agreed.
    fn address(&self, index: usize, ty: &Type) -> Result<*mut u8>;

    /// Whether nobody else reads an argument's memory, so that a result may be written over it.
    fn is_free(&self, index: usize) -> bool;

    /// Takes the memory of an argument that a result was written over.
    fn take(&mut self, index: usize) -> Option<Held>;

    /// The memory of an argument for a result that is equal to it; `None` if that has to be a copy.
    fn share(&mut self, index: usize) -> Option<Held>;
}

/// A scalar argument on an aligned address.
type Cell = [u64; 1];

/// Arguments as the interface of backends has them.
pub(super) struct FromOutside<'a> {
    list: &'a mut [Argument],
    scalars: SmallVec<[Cell; 8]>,
}

impl<'a> FromOutside<'a> {
    pub fn new(list: &'a mut [Argument]) -> Self {
        let any = list.iter().any(|argument| matches!(argument, Argument::Scalar(_)));
        let scalars = if any { list.iter().map(scalar_cell).collect() } else { SmallVec::new() };
        Self { list, scalars }
    }
}

impl Arguments for FromOutside<'_> {
    fn count(&self) -> usize {
        self.list.len()
    }

    fn address(&self, index: usize, ty: &Type) -> Result<*mut u8> {
        let wrong = |got: &dyn std::fmt::Display| {
            let message = format!("requires {ty} as argument {index}, got {got}");
            Error::new(ErrorKind::Internal, "a program", message)
        };
        match &self.list[index] {
            Argument::Shared(buffer) | Argument::Donated(buffer) => match host_buffer(buffer) {
                Some(host) if buffer.ty() == ty => Ok(host.block().at()),
                Some(_) => Err(wrong(buffer.ty())),
                None => Err(wrong(&"a buffer of another backend")),
            },
            Argument::Scalar(bytes) => {
                let same = ty.bytes() == Some(bytes.as_slice().len());
                if same {
                    Ok(self.scalars[index].as_ptr().cast_mut().cast())
                } else {
                    Err(wrong(&"a scalar of another size"))
                }
            }
            Argument::Taken => Err(wrong(&"what an earlier run took")),
        }
    }

    fn is_free(&self, index: usize) -> bool {
        let Argument::Donated(buffer) = &self.list[index] else { return false };
        Arc::strong_count(buffer) == 1 && host_buffer(buffer).is_some_and(|host| is_sole(host.block()))
    }

    fn take(&mut self, index: usize) -> Option<Held> {
        match std::mem::replace(&mut self.list[index], Argument::Taken) {
            Argument::Donated(buffer) => host_buffer(&buffer).map(|host| Held::Block(host.block().clone())),
            other => {
                self.list[index] = other;
                None
            }
        }
    }

    fn share(&mut self, index: usize) -> Option<Held> {
        match &self.list[index] {
            Argument::Shared(buffer) | Argument::Donated(buffer) => {
                host_buffer(buffer).map(|host| Held::Block(host.block().clone()))
            }
            Argument::Scalar(_) | Argument::Taken => None,
        }
    }
}

fn scalar_cell(argument: &Argument) -> Cell {
    let mut cell = [0u64];
    if let Argument::Scalar(bytes) = argument {
        let bytes = bytes.as_slice();
        bytemuck::bytes_of_mut(&mut cell)[..bytes.len()].copy_from_slice(bytes);
    }
    cell
}

/// The concrete buffer behind an argument.
fn host_buffer(buffer: &Arc<dyn Buffer>) -> Option<&HostBuffer> {
    let any: &dyn Any = &**buffer;
    any.downcast_ref()
}

/// Whether nobody else holds a block.
fn is_sole(block: &Arc<Block>) -> bool {
    let sole = Arc::strong_count(block) == 1;
    // What earlier holders read, on whatever thread, they read before they let go.
    std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
    sole
}

/// The values that a loop hands to its body: the body's to write over. `None` is what it has taken.
pub(super) struct State(pub SmallVec<[Option<Held>; 8]>);

impl State {
    pub fn at(&self, index: usize) -> *mut u8 {
        self.0[index].as_ref().map_or(std::ptr::null_mut(), Held::at)
    }
}

impl Arguments for State {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn address(&self, index: usize, _: &Type) -> Result<*mut u8> {
        Ok(self.at(index))
    }

    fn is_free(&self, index: usize) -> bool {
        match &self.0[index] {
            Some(Held::Block(block)) => is_sole(block),
            Some(Held::Place(_)) => true,
            None => false,
        }
    }

    fn take(&mut self, index: usize) -> Option<Held> {
        self.0[index].take()
    }

    fn share(&mut self, index: usize) -> Option<Held> {
        match &self.0[index] {
            Some(Held::Block(block)) => Some(Held::Block(block.clone())),
            // A place is one value's: the next result that is equal to this argument is a copy.
            Some(Held::Place(_)) => self.0[index].take(),
            None => None,
        }
    }
}

/// Values that a block only reads. Results that are equal to one of them are where it is.
pub(super) struct Lent(pub SmallVec<[*mut u8; 8]>);

impl Arguments for Lent {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn address(&self, index: usize, _: &Type) -> Result<*mut u8> {
        Ok(self.0[index])
    }

    fn is_free(&self, _: usize) -> bool {
        false
    }

    fn take(&mut self, _: usize) -> Option<Held> {
        None
    }

    fn share(&mut self, index: usize) -> Option<Held> {
        Some(Held::Place(self.0[index]))
    }
}
