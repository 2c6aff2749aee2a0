//! A plugin's client: its devices, and what lives as long as they do.

use super::api::{self, Api};
use super::attribute::{Attribute, attributes_of};
use super::options::{self, OptionValue};
use super::sys::{self, Args, NamedValue, Raw};
use crate::runtime::MemoryStats;
use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// A client and its devices. Buffers and executables hold it.
pub struct Client {
    pub api: Arc<Api>,
    raw: Raw,
    /// How long an event may take; `None`: as long as it likes.
    pub timeout: Option<Duration>,
    pub platform: String,
    pub platform_version: String,
    pub devices: Vec<Device>,
}

/// A device of this process.
pub struct Device {
    pub raw: Raw,
    /// The plugin's name for what it is.
    pub kind: String,
    /// Of our buffers that are alive; what is told where the plugin keeps no account.
    in_use: AtomicUsize,
    peak: AtomicUsize,
}

// SAFETY: the functions on clients and devices may be called from any thread; the client is freed once, by `drop`, when
// nothing that it made is left, and devices live as long as it does.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?}: {} devices", self.platform, self.api, self.devices.len())
    }
}

impl Client {
    /// Starts a client. Options are checked here, since wrong ones make plugins end the process.
    pub fn new(api: Arc<Api>, options: &[(String, OptionValue)], timeout: Option<Duration>) -> Result<Arc<Self>> {
        for (name, value) in options {
            options::check(name, value)?;
        }
        let options: Vec<NamedValue> = options.iter().map(|(name, value)| options::named_value(name, value)).collect();
        // The options outlive the call; no callbacks: one process.
        let mut args = Args::new(sys::ClientCreate {
            create_options: options.as_ptr(),
            num_options: options.len(),
            ..Default::default()
        });
        api.call(&mut args)?;
        let raw = args.body.client;
        if raw.is_null() {
            return Err(Error::new(ErrorKind::Execution, "PJRT_Client_Create", "gave no client"));
        }
        // From here on `drop` frees the client if something fails.
        let (platform, platform_version) = Default::default();
        let mut client = Self { api, raw, timeout, platform, platform_version, devices: Vec::new() };
        client.ask()?;
        Ok(Arc::new(client))
    }

    /// Name, version and devices.
    fn ask(&mut self) -> Result<()> {
        let mut name = Args::new(sys::ClientPlatformName { client: self.raw, ..Default::default() });
        self.api.call(&mut name)?;
        // SAFETY: the text lives as long as the client.
        self.platform = unsafe { api::text_of(name.body.platform_name, name.body.platform_name_size) }.to_lowercase();
        let mut version = Args::new(sys::ClientPlatformVersion { client: self.raw, ..Default::default() });
        self.api.call(&mut version)?;
        let (text, len) = (version.body.platform_version, version.body.platform_version_size);
        // SAFETY: as above.
        self.platform_version = unsafe { api::text_of(text, len) };
        let mut devices = Args::new(sys::ClientAddressableDevices { client: self.raw, ..Default::default() });
        self.api.call(&mut devices)?;
        let (list, len) = (devices.body.addressable_devices, devices.body.num_addressable_devices);
        // SAFETY: the list lives as long as the client.
        for raw in unsafe { api::list_of(list, len) } {
            let kind = self.kind(raw)?;
            self.devices.push(Device { raw, kind, in_use: AtomicUsize::new(0), peak: AtomicUsize::new(0) });
        }
        if self.devices.is_empty() {
            let message = format!("of {} has no devices in this process", self.api.path().display());
            return Err(Error::new(ErrorKind::Device, "pjrt", message));
        }
        Ok(())
    }

    fn kind(&self, device: Raw) -> Result<String> {
        let device_description = self.description(device)?;
        let mut args = Args::new(sys::DeviceDescriptionKind { device_description, ..Default::default() });
        self.api.call(&mut args)?;
        // SAFETY: the text lives as long as the device.
        Ok(unsafe { api::text_of(args.body.device_kind, args.body.device_kind_size) })
    }

    /// What the plugin says of itself.
    pub fn attributes(&self) -> Vec<(String, Attribute)> {
        let mut args = Args::new(sys::PluginAttributes::default());
        match self.api.call(&mut args) {
            // SAFETY: the attributes live as long as the process.
            Ok(()) => unsafe { attributes_of(args.body.attributes, args.body.num_attributes) },
            Err(_) => Vec::new(),
        }
    }

    /// What the plugin says of a device.
    pub fn device_attributes(&self, number: usize) -> Result<Vec<(String, Attribute)>> {
        let device_description = self.description(self.device(number)?.raw)?;
        let mut args = Args::new(sys::DeviceDescriptionAttributes { device_description, ..Default::default() });
        self.api.call(&mut args)?;
        // SAFETY: the attributes live as long as the device.
        Ok(unsafe { attributes_of(args.body.attributes, args.body.num_attributes) })
    }

    /// The plugin's description of a device.
    pub fn description(&self, device: Raw) -> Result<Raw> {
        let mut args = Args::new(sys::DeviceGetDescription { device, ..Default::default() });
        self.api.call(&mut args)?;
        Ok(args.body.device_description)
    }

    /// The object, for calls that take it.
    pub fn raw(&self) -> Raw {
        self.raw
    }

    /// A device by its number.
    pub fn device(&self, number: usize) -> Result<&Device> {
        self.devices.get(number).ok_or_else(|| {
            let message = format!("has devices 0 to {}, got {number}", self.devices.len() - 1);
            Error::new(ErrorKind::Device, self.platform.clone(), message)
        })
    }

    /// What the plugin says of a device's memory; where it keeps no account, the bytes of our buffers.
    pub fn memory(&self, number: usize) -> MemoryStats {
        let Some(device) = self.devices.get(number) else { return MemoryStats::default() };
        let own = MemoryStats {
            in_use: device.in_use.load(Relaxed),
            peak: device.peak.load(Relaxed),
            ..MemoryStats::default()
        };
        let mut args = Args::new(sys::DeviceMemoryStats { device: device.raw, ..Default::default() });
        if self.api.call(&mut args).is_err() {
            return own;
        }
        let body = args.body;
        let bytes = |number: i64| usize::try_from(number).unwrap_or(0);
        let set = |number: i64, is_set: bool| is_set.then(|| bytes(number));
        MemoryStats {
            in_use: bytes(body.bytes_in_use),
            peak: set(body.peak_bytes_in_use, body.peak_bytes_in_use_is_set).unwrap_or(own.peak),
            pooled: set(body.pool_bytes, body.pool_bytes_is_set).unwrap_or(0),
            limit: set(body.bytes_limit, body.bytes_limit_is_set),
        }
    }
}

impl Device {
    /// Counts a buffer that came to be.
    pub fn add(&self, bytes: usize) {
        let now = self.in_use.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(now, Relaxed);
    }

    /// Counts a buffer that is gone.
    pub fn remove(&self, bytes: usize) {
        self.in_use.fetch_sub(bytes, Relaxed);
    }

    /// Starts the peak of our own account anew.
    pub fn reset_peak(&self) {
        self.peak.store(self.in_use.load(Relaxed), Relaxed);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.api.free(sys::ClientDestroy { client: self.raw });
    }
}
