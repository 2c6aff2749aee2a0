//! Values on a host device.

use super::pool::{Block, Pool};
use crate::ir::Type;
use crate::runtime::Buffer;
use crate::{Error, ErrorKind, Result};
use std::any::Any;
use std::sync::Arc;

/// A dense row-major value in a block of a device's pool. Its contents never change while more than one reference to the
/// block exists.
#[derive(Debug)]
pub(crate) struct HostBuffer {
    ty: Type,
    block: Arc<Block>,
}

/// Bytes of a value, or an error that names it.
pub(crate) fn bytes_of(ty: &Type) -> Result<usize> {
    ty.bytes().ok_or_else(|| {
        let message = format!("of {ty} is not possible: it has more bytes than there are addresses");
        Error::new(ErrorKind::OutOfMemory, "an allocation", message)
    })
}

impl HostBuffer {
    /// A value in a block that holds its elements.
    pub fn new(ty: Type, block: Arc<Block>) -> Self {
        Self { ty, block }
    }

    /// A copy of row-major elements; of a `bool`, any byte but 0 is true.
    pub fn upload(pool: &Arc<Pool>, ty: &Type, bytes: &[u8]) -> Result<Self> {
        let size = bytes_of(ty)?;
        if size != bytes.len() {
            let message = format!("requires the {size} bytes of {ty}, got {}", bytes.len());
            return Err(Error::new(ErrorKind::Shape, "upload", message));
        }
        let bytes = ty.dtype.canonical(bytes);
        let block = pool.allocate(size)?;
        // SAFETY: the block is new and has `size` bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), block.at(), size) };
        Ok(Self::new(ty.clone(), Arc::new(block)))
    }

    /// The memory.
    pub fn block(&self) -> &Arc<Block> {
        &self.block
    }
}

impl Buffer for HostBuffer {
    fn ty(&self) -> &Type {
        &self.ty
    }

    fn read(&self, target: &mut [u8]) -> Result<()> {
        let size = bytes_of(&self.ty)?;
        if target.len() != size {
            let message = format!("requires room for the {size} bytes of {}, got {}", self.ty, target.len());
            return Err(Error::new(ErrorKind::Shape, "read", message));
        }
        // SAFETY: the block holds the value's bytes; nobody writes to it while this reference exists.
        unsafe { std::ptr::copy_nonoverlapping(self.block.at(), target.as_mut_ptr(), size) };
        Ok(())
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
