//! What a plugin can compile for without having it: devices described by a name such as `v5e:2x2`.

use super::api::{self, Api};
use super::attribute::{self, Attribute};
use super::sys::{self, Args, Raw};
use crate::{Error, ErrorKind, Result, ensure};
use std::fmt;
use std::sync::Arc;

/// A plugin's description of devices, which need not be there.
pub struct Topology {
    pub api: Arc<Api>,
    raw: Raw,
    pub name: String,
    /// What the plugin says of itself, its version first of all.
    pub platform_version: String,
    /// The plugin's name for the kind of its devices.
    pub device_kind: String,
    /// How many devices it has.
    pub devices: usize,
    attributes: Vec<(String, Attribute)>,
}

// SAFETY: the functions on topologies may be called from any thread; the object is freed once, by `drop`.
unsafe impl Send for Topology {}
// SAFETY: as above.
unsafe impl Sync for Topology {}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {}, {:?}", self.name, self.devices, self.device_kind, self.attributes)
    }
}

impl Topology {
    /// Asks the plugin for the topology of this name. Errors with [`ErrorKind::Value`] for a name it does not know.
    pub fn new(api: &Arc<Api>, name: &str) -> Result<Arc<Self>> {
        let mut args = Args::new(sys::TopologyDescriptionCreate {
            topology_name: name.as_ptr().cast(),
            topology_name_size: name.len(),
            ..Default::default()
        });
        api.call(&mut args)?;
        let raw = args.body.topology;
        ensure!(!raw.is_null(), Execution, "PJRT_TopologyDescription_Create", "gave no topology for {name}");
        // From here on `drop` frees the topology if something fails.
        let mut topology = Self {
            api: api.clone(),
            raw,
            name: name.into(),
            platform_version: String::new(),
            device_kind: String::new(),
            devices: 0,
            attributes: Vec::new(),
        };
        topology.ask()?;
        Ok(Arc::new(topology))
    }

    /// Version, devices and attributes.
    fn ask(&mut self) -> Result<()> {
        let topology = self.raw;
        let mut version = Args::new(sys::TopologyDescriptionPlatformVersion { topology, ..Default::default() });
        self.api.call(&mut version)?;
        // SAFETY: the text lives as long as the topology.
        self.platform_version =
            unsafe { api::text_of(version.body.platform_version, version.body.platform_version_size) };
        let mut all = Args::new(sys::TopologyDescriptionGetDeviceDescriptions { topology, ..Default::default() });
        self.api.call(&mut all)?;
        // SAFETY: the list lives as long as the topology.
        let descriptions = unsafe { api::list_of(all.body.descriptions, all.body.num_descriptions) };
        self.devices = descriptions.len();
        let Some(&device_description) = descriptions.first() else {
            let message = format!("requires devices to compile for, got none in {}", self.name);
            return Err(Error::new(ErrorKind::Device, "a topology", message));
        };
        let mut kind = Args::new(sys::DeviceDescriptionKind { device_description, ..Default::default() });
        self.api.call(&mut kind)?;
        // SAFETY: the text lives as long as the description, which is as long as the topology does.
        self.device_kind = unsafe { api::text_of(kind.body.device_kind, kind.body.device_kind_size) };
        let mut args = Args::new(sys::TopologyDescriptionAttributes { topology, ..Default::default() });
        self.api.call(&mut args)?;
        // SAFETY: the attributes live as long as the topology.
        self.attributes = unsafe { attribute::attributes_of(args.body.attributes, args.body.num_attributes) };
        let mut args = Args::new(sys::DeviceDescriptionAttributes { device_description, ..Default::default() });
        self.api.call(&mut args)?;
        // SAFETY: the attributes live as long as the description.
        self.attributes.extend(unsafe { attribute::attributes_of(args.body.attributes, args.body.num_attributes) });
        Ok(())
    }

    /// The object, for calls that take it.
    pub fn raw(&self) -> Raw {
        self.raw
    }

    /// An attribute of the topology or, if it has none of that name, of its first device.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        self.api.free(sys::TopologyDescriptionDestroy { topology: self.raw });
    }
}
