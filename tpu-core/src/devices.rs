//! What devices there are, and which one new tensors go to when nobody says.

use crate::runtime::pjrt::{Candidate, Machine, candidates};
use crate::{Device, Error, ErrorKind, Result};
use std::fmt;
use std::path::PathBuf;

/// A place where devices are looked for.
#[derive(Clone, Debug)]
pub struct Found {
    /// `host`, or what may name a plugin, see [`candidates`].
    pub source: &'static str,
    /// The plugin that it names.
    pub path: Option<PathBuf>,
    /// The devices there, or why they are not used.
    pub devices: Result<Vec<Device>>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source)?;
        if let Some(path) = &self.path {
            write!(f, " ({})", path.display())?;
        }
        match &self.devices {
            Ok(devices) => write!(f, ": {devices:?}"),
            Err(error) => write!(f, ": not used: {error}"),
        }
    }
}

/// Every place where devices are looked for, the host and then plugins in the order in which they count, with what is there
/// or why it is not used. Loads the plugin that counts.
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
    for Candidate { source, path } in candidates() {
        let devices = match (&path, first) {
            (None, _) => Err(Error::new(ErrorKind::Device, source, "names no plugin")),
            (Some(_), Some(first)) => {
                Err(Error::new(ErrorKind::Device, source, format!("does not count, since {first} names a plugin")))
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

/// The device for new tensors where nobody says, see [`Device::current`].
pub(crate) fn choose(machine: &Machine) -> Result<Device> {
    let (device, why) = match machine.backend().as_deref() {
        Some("host") => (Device::host()?, "TPU_BACKEND=host".to_string()),
        Some("pjrt") => match plugin(machine) {
            Some((source, path)) => (Device::pjrt(&path)?, format!("TPU_BACKEND=pjrt, {source}")),
            None => {
                let names: Vec<_> = machine.candidates().iter().map(|candidate| candidate.source).collect();
                let message = format!("requires a plugin with TPU_BACKEND=pjrt, got none from {}", names.join(", "));
                return Err(Error::new(ErrorKind::Device, "device", message));
            }
        },
        Some(name) => {
            let message = format!("requires a backend that is there (host, pjrt), got TPU_BACKEND={name}");
            return Err(Error::new(ErrorKind::Device, "device", message));
        }
        None if machine.has_tpu() => match plugin(machine).map(|(source, path)| (source, Device::pjrt(path))) {
            Some((source, Ok(device))) => (device, format!("a TPU is attached, {source}")),
            Some((source, Err(error))) => {
                tracing::warn!(%error, source, "a TPU is attached and cannot be used");
                (Device::host()?, "the TPU that is attached cannot be used".into())
            }
            None => (Device::host()?, "a TPU is attached, and no plugin for it is found".into()),
        },
        None => (Device::host()?, "no TPU is attached".into()),
    };
    tracing::info!(%device, %why, "new tensors go to this device");
    Ok(device)
}

/// The plugin that counts, and what names it.
fn plugin(machine: &Machine) -> Option<(&'static str, PathBuf)> {
    machine.candidates().into_iter().find_map(|Candidate { source, path }| Some((source, path?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The choice with these variables, on a machine with a TPU or without.
    fn choice(tpu: bool, variables: &[(&str, &str)]) -> Result<Device> {
        let folder = tempfile::tempdir().unwrap();
        if tpu {
            let device = folder.path().join("sys/bus/pci/devices/0000:00:04.0");
            for (file, text) in [("vendor", "0x1ae0"), ("class", "0x120000")] {
                fs::create_dir_all(&device).unwrap();
                fs::write(device.join(file), text).unwrap();
            }
            fs::create_dir_all(folder.path().join("dev")).unwrap();
            fs::write(folder.path().join("dev/accel0"), "").unwrap();
        }
        let variable = |name: &str| variables.iter().find(|known| known.0 == name).map(|known| known.1.into());
        choose(&Machine { root: folder.path(), variable: &variable })
    }

    #[test]
    fn host_is_chosen_unless_something_says_otherwise() {
        let host = Device::host().unwrap();
        assert_eq!(choice(false, &[]).unwrap(), host);
        // A plugin that is named only counts if it is asked for.
        assert_eq!(choice(false, &[("TPU_LIBRARY_PATH", "no/such/plugin.so")]).unwrap(), host);
        assert_eq!(choice(true, &[("TPU_BACKEND", "host")]).unwrap(), host);
        // A TPU without what it needs.
        assert_eq!(choice(true, &[]).unwrap(), host);
        assert_eq!(choice(true, &[("TPU_LIBRARY_PATH", "no/such/plugin.so")]).unwrap(), host);
    }

    #[test]
    fn what_was_asked_for_and_is_not_there_is_an_error() {
        let error = |variables: &[_]| choice(true, variables).unwrap_err();
        let named = error(&[("TPU_BACKEND", "pjrt"), ("PJRT_PLUGIN_LIBRARY_PATH", "no/such/plugin.so")]);
        assert_eq!(named.kind(), ErrorKind::Io, "{named}");
        let none = error(&[("TPU_BACKEND", "pjrt")]);
        assert_eq!(none.kind(), ErrorKind::Device);
        assert!(none.message().ends_with("TPU_LIBRARY_PATH, PJRT_PLUGIN_LIBRARY_PATH, libtpu of Python"), "{none}");
        let unknown = error(&[("TPU_BACKEND", "cuda")]);
        assert!(unknown.message().ends_with("got TPU_BACKEND=cuda"), "{unknown}");
    }
}
