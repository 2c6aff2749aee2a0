//! What a compiled program depends on beside the program: the plugin, the kind of its devices, where they are.

use super::api::{self, Api};
use super::client::Client;
use super::sys::{self, Args, Raw};
use crate::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The environment variables that plugins' compilers obey, with their values.
pub fn variables() -> String {
    format!("{:?}", ["XLA_FLAGS", "LIBTPU_INIT_ARGS"].map(std::env::var_os))
}

/// What a program that is compiled ahead of time is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    pub platform: String,
    /// The plugin's name for the kind of device.
    pub kind: String,
    /// Of the platform; the compiler names its build in it.
    pub version: String,
    /// Of a CPU.
    pub processor: String,
}

impl Target {
    pub fn new(platform: &str, kind: &str, version: &str) -> Self {
        let processor = if platform == "cpu" { processor() } else { String::new() };
        Self { platform: platform.into(), kind: kind.into(), version: version.into(), processor }
    }
}

impl Client {
    /// What executables depend on, see [`Pjrt::identity`](super::Pjrt::identity).
    pub fn identity(&self) -> Result<String> {
        let (major, minor) = self.api.version();
        let kinds: Vec<&str> = self.devices.iter().map(|device| device.kind.as_str()).collect();
        let mut attributes = self.attributes();
        attributes.sort_by(|a, b| a.0.cmp(&b.0));
        let mut text = format!("{} {}\n", self.platform, self.platform_version);
        text += &format!("C API {major}.{minor}, {}\n{kinds:?}\n{attributes:?}\n", stamp(&self.api)?);
        if self.platform == "cpu" {
            text += &processor();
        }
        Ok(text)
    }

    /// Which devices the first `replicas` are, see [`Pjrt::placement`](super::Pjrt::placement).
    pub fn placement(&self, replicas: usize) -> String {
        let devices = self.devices.iter().enumerate().take(replicas);
        devices.map(|(number, device)| format!("{:?}\n", self.place(number, device.raw))).collect()
    }

    /// Number among all devices, process and attributes of a device, as far as the plugin tells.
    fn place(&self, number: usize, device: Raw) -> impl std::fmt::Debug + use<> {
        let Ok(device_description) = self.description(device) else { return (None, None, Vec::new()) };
        let mut id = Args::new(sys::DeviceDescriptionId { device_description, ..Default::default() });
        let id = self.api.call(&mut id).ok().map(|()| id.body.id);
        let mut process = Args::new(sys::DeviceDescriptionProcessIndex { device_description, ..Default::default() });
        let process = self.api.call(&mut process).ok().map(|()| process.body.process_index);
        let mut attributes = self.device_attributes(number).unwrap_or_default();
        attributes.sort_by(|a, b| a.0.cmp(&b.0));
        (id, process, attributes)
    }

    /// What programs that were compiled ahead of time must be for.
    pub fn target(&self) -> Target {
        // Of the topology, as that is whom a compiler without devices asks; a client may say more of itself.
        let version = self.topology_version().unwrap_or_else(|_| self.platform_version.clone());
        Target::new(&self.platform, &self.devices[0].kind, &version)
    }

    fn topology_version(&self) -> Result<String> {
        let mut args = Args::new(sys::ClientTopologyDescription { client: self.raw(), ..Default::default() });
        self.api.call(&mut args)?;
        let topology = args.body.topology;
        let mut version = Args::new(sys::TopologyDescriptionPlatformVersion { topology, ..Default::default() });
        self.api.call(&mut version)?;
        // SAFETY: the text lives as long as the topology, which is the client's.
        Ok(unsafe { api::text_of(version.body.platform_version, version.body.platform_version_size) })
    }
}

/// Size and time of the plugin's file: plugins do not always change their version when they change.
fn stamp(api: &Api) -> Result<String> {
    let unknown = |why: String| {
        let message = format!("requires the file of the plugin {}, {why}", api.path().display());
        Error::new(ErrorKind::Io, "the identity of a plugin", message)
    };
    let file = file(api).ok_or_else(|| unknown("which the system does not name".into()))?;
    let data = std::fs::metadata(&file).map_err(|error| unknown(format!("got {}: {error}", file.display())))?;
    let modified = data.modified().ok().and_then(|time| Some(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()));
    Ok(format!("{} bytes of {modified:?}", data.len()))
}

/// The file that is mapped where the plugin's code lies. Its name is no help: a loader finds a name without a folder by rules
/// of its own, and another file may have taken the place of the one that was loaded.
fn file(api: &Api) -> Option<PathBuf> {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
        // Not Linux. A path is a file's; of a name nothing is known.
        return api.path().components().nth(1).map(|_| api.path().into());
    };
    mapped(&maps, api.address()).map(Into::into)
}

/// The file at an address in a process, by the system's list of what is mapped where.
fn mapped(maps: &str, address: usize) -> Option<&Path> {
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let within =
            usize::from_str_radix(from, 16).ok()? <= address && address < usize::from_str_radix(to, 16).ok()?;
        // Permissions, offset, device and inode stand before the path.
        within.then(|| rest.find('/').map(|at| Path::new(&rest[at..])))?
    })
}

/// Model and instruction sets of the processor, where the system tells.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let lines = text.split("\n\n").next().unwrap_or_default().lines();
    let lines = lines.filter(|line| ["model name", "flags", "Features"].iter().any(|word| line.starts_with(word)));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as the manual page proc_pid_maps(5) has them.
    const MAPS: &str = "\
00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/dbus-daemon
00e03000-00e24000 rw-p 00000000 00:00 0           [heap]
35b1800000-35b1820000 r-xp 00000000 08:02 135522  /usr/lib64/ld 2.15.so
f2c6ff8c000-7f2c7078c000 rw-p 00000000 00:00 0    [stack:986]
7fffb2c0d000-7fffb2c2e000 rw-p 00000000 00:00 0
";

    #[test]
    fn the_file_at_an_address_is_that_of_its_mapping() {
        let of = |address| mapped(MAPS, address).and_then(Path::to_str);
        assert_eq!(of(0x400000), Some("/usr/bin/dbus-daemon"));
        assert_eq!(of(0x452000), None);
        assert_eq!(of(0x35b1801234), Some("/usr/lib64/ld 2.15.so"));
        assert_eq!(of(0xe03000), None);
        assert_eq!(of(0x7fffb2c0d000), None);
        assert_eq!(mapped("no such line\n-\n 1-2", 1), None);
    }
}
