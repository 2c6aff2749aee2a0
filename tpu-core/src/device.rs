//! Devices, and which one new tensors go to.

use crate::devices;
use crate::lazy::program::Programs;
use crate::lazy::queue::Queue;
use crate::runtime::host::Host;
use crate::runtime::pjrt::{Machine, Pjrt, PjrtOptions};
use crate::runtime::{Backend, MemoryStats};
use crate::{Result, ensure};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

/// A device that tensors live on: one of a backend's, with a queue of its own. Cheap to clone; two handles are equal if
/// they mean the same device.
///
/// ```
/// use tpu_core::{Device, Tensor};
/// let x = Tensor::from_slice(&[1.0f32, 2.0])?;
/// assert_eq!(x.device(), &Device::host()?);
/// assert_eq!(x.device().to_string(), "host:0");
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    backend: Arc<dyn Backend>,
    ordinal: usize,
    queue: Queue,
    programs: Arc<Programs>,
}

static HOST: OnceLock<Result<Vec<Device>>> = OnceLock::new();
/// The devices of each plugin that was opened by its path.
static PLUGINS: Mutex<Option<HashMap<PathBuf, Vec<Device>>>> = Mutex::new(None);
static DEFAULT: RwLock<Option<Device>> = RwLock::new(None);

thread_local! {
    static SCOPED: RefCell<Option<Device>> = const { RefCell::new(None) };
}

impl Device {
    /// The devices of a backend.
    pub fn open(backend: Arc<dyn Backend>) -> Vec<Self> {
        let programs = Arc::new(Programs::new(backend.clone()));
        (0..backend.device_count())
            .map(|ordinal| {
                let queue = Queue::new(backend.clone(), ordinal);
                Self(Arc::new(Inner { backend: backend.clone(), ordinal, queue, programs: programs.clone() }))
            })
            .collect()
    }

    /// The first device of the embedded host backend, as the environment configures it (see [`Host::from_env`]).
    pub fn host() -> Result<Self> {
        Ok(Self::hosts()?[0].clone())
    }

    /// All devices of the embedded host backend: one, unless `TPU_HOST_DEVICES` says more.
    pub fn hosts() -> Result<&'static [Self]> {
        let opened = HOST.get_or_init(|| Ok(Self::open(Arc::new(Host::from_env()?))));
        opened.as_deref().map_err(Clone::clone)
    }

    /// The first device of the PJRT plugin at `path`, see [`runtime::pjrt`](crate::runtime::pjrt). The plugin is loaded
    /// once, with the default options of its client; [`open`](Self::open) makes devices with others.
    ///
    /// Errors if the plugin cannot be used, see [`Pjrt::open`].
    ///
    /// ```
    /// use tpu_core::{Device, ErrorKind};
    /// assert_eq!(Device::pjrt("no/such/plugin.so").unwrap_err().kind(), ErrorKind::Io);
    /// ```
    pub fn pjrt(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::pjrts(path)?.swap_remove(0))
    }

    /// All devices of the PJRT plugin at `path`; as [`pjrt`](Self::pjrt), the same ones at each call.
    pub fn pjrts(path: impl AsRef<Path>) -> Result<Vec<Self>> {
        // What is only a name is looked up by the loader.
        let path = path.as_ref().canonicalize().unwrap_or_else(|_| path.as_ref().into());
        // Held while loading, so that two threads do not start two clients.
        let mut plugins = PLUGINS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let plugins = plugins.get_or_insert_default();
        if let Some(devices) = plugins.get(&path) {
            return Ok(devices.clone());
        }
        let devices = Self::open(Arc::new(Pjrt::open(&path, &PjrtOptions::default())?));
        plugins.insert(path, devices.clone());
        Ok(devices)
    }

    /// The device that new tensors of this thread go to. The first of these that there is:
    ///
    /// 1. That of the innermost [`scope`](Self::scope).
    /// 2. The process's [default](Self::set_default).
    /// 3. What `TPU_BACKEND` names: `host`, or `pjrt` for the plugin of the first of the
    ///    [candidates](crate::runtime::pjrt::candidates). Errors if that cannot be used.
    /// 4. If a [TPU is attached](crate::runtime::pjrt::has_tpu), that plugin.
    /// 5. Host.
    ///
    /// What 3 to 5 choose is logged, with the reason, and is the process's default from then on.
    pub fn current() -> Result<Self> {
        if let Some(device) = SCOPED.with(|scoped| scoped.borrow().clone()) {
            return Ok(device);
        }
        if let Some(device) = &*DEFAULT.read().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            return Ok(device.clone());
        }
        // Held while choosing, so that one thread chooses and the others wait.
        let mut default = DEFAULT.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(device) = &*default {
            return Ok(device.clone());
        }
        let device = devices::choose(&Machine::this())?;
        *default = Some(device.clone());
        Ok(device)
    }

    /// Makes new tensors of all threads go to this device, unless in a [`scope`](Self::scope).
    pub fn set_default(&self) {
        *DEFAULT.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(self.clone());
    }

    /// Runs `f` with new tensors of this thread going to this device.
    pub fn scope<T>(&self, f: impl FnOnce() -> T) -> T {
        struct Restore(Option<Device>);
        impl Drop for Restore {
            fn drop(&mut self) {
                SCOPED.with(|scoped| *scoped.borrow_mut() = self.0.take());
            }
        }
        let _restore = Restore(SCOPED.with(|scoped| scoped.replace(Some(self.clone()))));
        f()
    }

    /// The backend's name.
    pub fn backend(&self) -> &str {
        self.0.backend.name()
    }

    /// The device's number among those of its backend.
    pub fn ordinal(&self) -> usize {
        self.0.ordinal
    }

    /// Memory of this device, in bytes.
    pub fn memory(&self) -> MemoryStats {
        self.0.backend.memory(self.0.ordinal)
    }

    /// Starts the peak of [`memory`](Self::memory) anew from what is in use.
    pub fn reset_peak_memory(&self) {
        self.0.backend.reset_peak_memory(self.0.ordinal);
    }

    /// Cuts what all threads have pending on any device, and waits until this device is done.
    pub fn synchronize(&self) -> Result<()> {
        crate::lazy::synchronize()?;
        self.0.queue.drain()
    }

    /// Sets the most compiled programs to keep for this device's backend; the least recently used are dropped. The
    /// default is 1,024.
    pub fn set_program_cache_bound(&self, programs: usize) {
        self.0.programs.set_bound(programs);
    }

    /// How many compiled programs are kept for this device's backend.
    pub fn cached_programs(&self) -> usize {
        self.0.programs.len()
    }

    /// Drops all compiled programs of this device's backend.
    pub fn clear_program_cache(&self) {
        self.0.programs.clear();
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.0.queue
    }

    pub(crate) fn programs(&self) -> &Programs {
        &self.0.programs
    }

    pub(crate) fn runtime(&self) -> &dyn Backend {
        &*self.0.backend
    }

    /// Errors unless both are the same device.
    pub(crate) fn ensure_same(&self, other: &Self, op: &'static str) -> Result<()> {
        ensure!(self == other, Device, op, "requires operands on one device, got {self} and {other}");
        Ok(())
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.backend(), self.0.ordinal)
    }
}
impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
