//! Values on a device of a plugin, and transfers between them and host memory.

use super::client::Client;
use super::event::{self, Event};
use super::sys::{self, Args, MemoryLayout, Raw, TiledLayout};
use crate::ir::Type;
use crate::runtime::{Buffer, HostMemory, LaterRead, Reading};
use crate::{DType, Error, ErrorKind, Result, ensure};
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A value on a device.
pub struct PjrtBuffer {
    client: Arc<Client>,
    raw: Raw,
    device: usize,
    ty: Type,
    /// What the device's account was told; 0 once a run has taken the memory.
    bytes: AtomicUsize,
}

// SAFETY: the functions on buffers may be called from any thread; the buffer is freed once, by `drop`.
unsafe impl Send for PjrtBuffer {}
// SAFETY: as above.
unsafe impl Sync for PjrtBuffer {}

impl fmt::Debug for PjrtBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PjrtBuffer({} on {}:{})", self.ty, self.client.platform, self.device)
    }
}

/// Less is copied at once: that takes less time than keeping account of memory that is lent, about a microsecond.
const COPIED: usize = 16 << 10;

/// The name of a dtype in the header, behind `PJRT_Buffer_Type_`.
fn buffer_type_name(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Bool => "PRED",
        DType::U8 => "U8",
        DType::U16 => "U16",
        DType::U32 => "U32",
        DType::U64 => "U64",
        DType::I8 => "S8",
        DType::I16 => "S16",
        DType::I32 => "S32",
        DType::I64 => "S64",
        DType::F16 => "F16",
        DType::BF16 => "BF16",
        DType::F32 => "F32",
        DType::F64 => "F64",
        DType::F8E4M3FN => "F8E4M3FN",
        DType::F8E5M2 => "F8E5M2",
        DType::Complex64 => "C64",
    })
}

/// The number of a dtype's buffer type.
fn buffer_type(dtype: DType) -> Result<i32> {
    let name = buffer_type_name(dtype);
    let number = name.and_then(|name| sys::BUFFER_TYPES.iter().position(|&known| known == name));
    match number {
        Some(number) => Ok(number as i32),
        None => Err(Error::new(ErrorKind::Unsupported, "pjrt", format!("has no buffers of {dtype}"))),
    }
}

/// The bytes of a value on the host.
fn bytes_of(ty: &Type) -> Result<usize> {
    ty.bytes().ok_or_else(|| {
        let message = format!("of {ty} is impossible: it has more bytes than there are addresses");
        Error::new(ErrorKind::OutOfMemory, "an allocation", message)
    })
}

/// The error for a plugin that gives no buffer.
pub fn no_buffer(ty: &Type) -> Error {
    Error::new(ErrorKind::Execution, "pjrt", format!("gave no buffer for a value of {ty}"))
}

fn check_bytes(ty: &Type, bytes: &[u8]) -> Result<()> {
    let size = bytes_of(ty)?;
    ensure!(size == bytes.len(), Shape, "upload", "requires the {size} bytes of {ty}, got {}", bytes.len());
    Ok(())
}

fn dims_of(ty: &Type) -> Vec<i64> {
    ty.shape.sizes().iter().map(|&size| size as i64).collect()
}

impl PjrtBuffer {
    /// Takes over a buffer that a call gave; `None` if it gave none.
    pub fn new(client: &Arc<Client>, raw: Raw, device: usize, ty: Type) -> Option<Self> {
        if raw.is_null() {
            return None;
        }
        let bytes = ty.bytes().unwrap_or(0);
        if let Some(device) = client.devices.get(device) {
            device.add(bytes);
        }
        Some(Self { client: client.clone(), raw, device, ty, bytes: bytes.into() })
    }

    /// Says that a run has taken the memory, which counts as its results' from now on.
    pub fn give_away(&self) {
        let bytes = self.bytes.swap(0, Relaxed);
        if let Some(device) = self.client.devices.get(self.device) {
            device.remove(bytes);
        }
    }

    /// Copies row-major elements to a device.
    pub fn upload(client: &Arc<Client>, device: usize, ty: &Type, bytes: &[u8]) -> Result<Self> {
        check_bytes(ty, bytes)?;
        // The plugin has read the bytes when the call returns, so that borrowing them is enough.
        let during_call = sys::semantics::IMMUTABLE_ONLY_DURING_CALL;
        let (raw, done) = Self::start_upload(client, device, ty, &ty.dtype.canonical(bytes), during_call)?;
        let buffer = Self::new(client, raw, device, ty.clone()).ok_or_else(|| no_buffer(ty))?;
        match done {
            Some(done) => done.wait(UPLOAD, buffer),
            None => Ok(buffer),
        }
    }

    /// Has a device use memory as it is, or copy it later.
    pub fn upload_owned(client: &Arc<Client>, device: usize, ty: &Type, memory: HostMemory) -> Result<Self> {
        let bytes = memory.bytes();
        check_bytes(ty, bytes)?;
        let as_they_are = matches!(ty.dtype.canonical(bytes), Cow::Borrowed(_));
        if bytes.len() < COPIED || !as_they_are || !Event::can_call(&client.api) {
            return Self::upload(client, device, ty, bytes);
        }
        let semantics = if (bytes.as_ptr() as usize).is_multiple_of(HostMemory::ALIGNMENT) {
            // Nobody else has the memory, so the device may write to it as well, when it is donated.
            sys::semantics::MUTABLE_ZERO_COPY
        } else {
            sys::semantics::IMMUTABLE_UNTIL_TRANSFER_COMPLETES
        };
        let (raw, done) = Self::start_upload(client, device, ty, bytes, semantics)?;
        let buffer = Self::new(client, raw, device, ty.clone());
        // Whatever the buffer is: from here on the memory lives until the plugin is done with it.
        match done {
            Some(done) => done.keep(UPLOAD, memory)?,
            None => return Err(event::keep_without_event(UPLOAD, memory)),
        }
        buffer.ok_or_else(|| no_buffer(ty))
    }

    /// Starts a transfer of bytes that live and stay as they are for as long as `semantics` says.
    fn start_upload(
        client: &Arc<Client>,
        device: usize,
        ty: &Type,
        bytes: &[u8],
        semantics: i32,
    ) -> Result<(Raw, Option<Event>)> {
        let dims = dims_of(ty);
        let mut args = Args::new(sys::ClientBufferFromHostBuffer {
            client: client.raw(),
            data: bytes.as_ptr().cast(),
            r#type: buffer_type(ty.dtype)?,
            dims: dims.as_ptr(),
            num_dims: dims.len(),
            host_buffer_semantics: semantics,
            device: client.device(device)?.raw,
            ..Default::default()
        });
        client.api.call(&mut args)?;
        Ok((args.body.buffer, Event::new(client, args.body.done_with_host_buffer)))
    }

    /// The object, for calls that take it.
    pub fn raw(&self) -> Raw {
        self.raw
    }

    /// The number of the device it is on.
    pub fn device(&self) -> usize {
        self.device
    }

    /// Whether it belongs to this client.
    pub fn is_of(&self, client: &Arc<Client>) -> bool {
        Arc::ptr_eq(&self.client, client)
    }

    /// Starts copying to the host. The target must live until the event is over.
    fn start_copy(&self, target: &mut [u8]) -> Result<Option<Event>> {
        let order: Vec<i64> = (0..self.ty.shape.rank() as i64).rev().collect();
        let tiled = TiledLayout {
            struct_size: size_of::<TiledLayout>(),
            minor_to_major: order.as_ptr(),
            minor_to_major_size: order.len(),
            ..Default::default()
        };
        // Row-major, whatever the device's layout.
        let layout = Args::new(MemoryLayout { tiled, r#type: 0 });
        let mut args = Args::new(sys::BufferToHostBuffer {
            src: self.raw,
            host_layout: &raw const layout,
            dst: target.as_mut_ptr().cast(),
            dst_size: target.len(),
            ..Default::default()
        });
        self.client.api.call(&mut args)?;
        Ok(Event::new(&self.client, args.body.event))
    }

    /// Errors unless `room` is what the value takes on the host.
    fn check_room(&self, room: usize) -> Result<()> {
        let (size, ty) = (bytes_of(&self.ty)?, &self.ty);
        ensure!(room == size, Shape, "read", "requires room for the {size} bytes of {ty}, got {room}");
        Ok(())
    }
}

impl Buffer for PjrtBuffer {
    fn ty(&self) -> &Type {
        &self.ty
    }

    fn read(&self, target: &mut [u8]) -> Result<()> {
        self.check_room(target.len())?;
        let memory = self.start_read(HostMemory::from(vec![0; target.len()]))?.wait()?;
        target.copy_from_slice(memory.bytes());
        Ok(())
    }

    fn start_read(&self, mut target: HostMemory) -> Result<Reading> {
        self.check_room(target.bytes().len())?;
        if target.bytes().is_empty() {
            // Nothing to copy, and a null target would ask for the size.
            return Ok(Reading::done(target));
        }
        Ok(match self.start_copy(target.bytes_mut())? {
            Some(done) => Reading::later(Box::new(PendingRead(Some((done, target))))),
            None => Reading::done(target),
        })
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// A copy to the host under way, and where it goes; `None` once it is waited for.
struct PendingRead(Option<(Event, HostMemory)>);

const READ: &str = "a transfer to the host";
const UPLOAD: &str = "an upload";

impl fmt::Debug for PendingRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(READ)
    }
}

impl LaterRead for PendingRead {
    fn wait(mut self: Box<Self>) -> Result<HostMemory> {
        let (done, target) = self.0.take().ok_or_else(|| Error::new(ErrorKind::Internal, "read", "waits twice"))?;
        done.wait(READ, target)
    }
}

impl Drop for PendingRead {
    fn drop(&mut self) {
        if let Some((done, target)) = self.0.take() {
            // A failure is logged, and nobody waits for it.
            let _ = done.keep(READ, target);
        }
    }
}

impl Drop for PjrtBuffer {
    fn drop(&mut self) {
        self.give_away();
        self.client.api.free(sys::BufferDestroy { buffer: self.raw });
    }
}
