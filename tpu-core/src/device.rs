//! Devices, and which one new tensors go to.

use crate::lazy::program::Programs;
use crate::lazy::queue::Queue;
use crate::runtime::host::Host;
use crate::runtime::pjrt::{self, Pjrt, PjrtOptions};
use crate::runtime::{Backend, MemoryStats};
use crate::{Error, ErrorKind, Result, ensure};
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

    /// The device that new tensors of this thread go to: that of the innermost [`scope`](Self::scope), else the process's
    /// [default](Self::set_default), else the backend that `TPU_BACKEND` names, `host` or `pjrt`, else host. The
    /// [plugin](crate::runtime::pjrt) of `pjrt` is the one in `TPU_LIBRARY_PATH`, else in `PJRT_PLUGIN_LIBRARY_PATH`.
    pub fn current() -> Result<Self> {
        if let Some(device) = SCOPED.with(|scoped| scoped.borrow().clone()) {
            return Ok(device);
        }
        if let Some(device) = &*DEFAULT.read().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            return Ok(device.clone());
        }
        let device = Self::from_env()?;
        tracing::info!(%device, "new tensors go to this device");
        device.set_default();
        Ok(device)
    }

    fn from_env() -> Result<Self> {
        match std::env::var("TPU_BACKEND") {
            Err(_) => Self::host(),
            Ok(name) if name == "host" => Self::host(),
            Ok(name) if name == "pjrt" => match pjrt::candidates().into_iter().find_map(|(_, path)| path) {
                Some(path) => Self::pjrt(path),
                None => {
                    let names = pjrt::candidates().map(|(name, _)| name).join(" or ");
                    let message = format!("requires the path of a plugin in {names} with TPU_BACKEND=pjrt");
                    Err(Error::new(ErrorKind::Device, "device", message))
                }
            },
            Ok(name) => {
                let message = format!("requires a backend that is there (host, pjrt), got TPU_BACKEND={name}");
                Err(Error::new(ErrorKind::Device, "device", message))
            }
        }
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

/// A place where devices are looked for.
#[derive(Clone, Debug)]
pub struct Found {
    /// `host`, or the variable that may name a plugin.
    pub source: &'static str,
    /// The path that it names.
    pub path: Option<PathBuf>,
    /// The devices there, or why they are not used.
    pub devices: Result<Vec<Device>>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source)?;
        if let Some(path) = &self.path {
            write!(f, "={}", path.display())?;
        }
        match &self.devices {
            Ok(devices) => write!(f, ": {devices:?}"),
            Err(error) => write!(f, ": not used: {error}"),
        }
    }
}

/// Every place where devices are looked for, in the order in which they count, with what is there or why it is not used.
/// Loads the plugin that the environment names.
///
/// ```
/// let found = tpu_core::devices();
/// assert_eq!(found[0].source, "host");
/// assert!(!found[0].devices.as_ref().unwrap().is_empty());
/// ```
pub fn devices() -> Vec<Found> {
    let host = Device::hosts().map(<[Device]>::to_vec);
    let mut all = vec![Found { source: "host", path: None, devices: host }];
    let mut first: Option<&str> = None;
    for (source, path) in pjrt::candidates() {
        let devices = match (&path, first) {
            (None, _) => Err(Error::new(ErrorKind::Device, source, "is not set")),
            (Some(_), Some(first)) => {
                Err(Error::new(ErrorKind::Device, source, format!("does not count, since {first} is set")))
            }
            (Some(path), None) => {
                first = Some(source);
                Device::pjrts(path)
            }
        };
        all.push(Found { source, path, devices });
    }
    all
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
