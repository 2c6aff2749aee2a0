//! Where plugins and TPUs are looked for. Nothing is run or loaded for that: only folders are listed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// A place that may name a plugin.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// The environment variable, or `libtpu of Python`.
    pub source: &'static str,
    /// The plugin that it names.
    pub path: Option<PathBuf>,
}

/// The places that may name a plugin, in the order in which they count: the first that names one is used.
///
/// 1. `TPU_LIBRARY_PATH`
/// 2. `PJRT_PLUGIN_LIBRARY_PATH`
/// 3. The Python package `libtpu`, where pip puts it: in the active environment (`VIRTUAL_ENV`, `CONDA_PREFIX`), beside
///    each `python3` on `PATH`, in the user's own packages (`PYTHONUSERBASE`, else `~/.local`).
pub fn candidates() -> Vec<Candidate> {
    Machine::this().candidates()
}

/// Whether a TPU is attached to this machine.
pub fn has_tpu() -> bool {
    Machine::this().has_tpu()
}

/// File system and environment: of this process, or what a test puts in their place.
pub(crate) struct Machine<'a> {
    /// Above `dev` and `sys`.
    pub root: &'a Path,
    /// What a variable says; empty is as good as not set.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

/// Google's number as a maker of PCI devices.
const GOOGLE: &str = "0x1ae0";
/// Disks and network cards, which Google's virtual machines have too.
const OTHER_CLASSES: [&str; 2] = ["0x01", "0x02"];

impl Machine<'static> {
    /// The machine that this process runs on.
    pub fn this() -> Self {
        let variable = &|name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self { root: Path::new("/"), variable }
    }
}

impl Machine<'_> {
    fn path(&self, variable: &str) -> Option<PathBuf> {
        (self.variable)(variable).map(PathBuf::from)
    }

    /// What `TPU_BACKEND` says.
    pub fn backend(&self) -> Option<String> {
        (self.variable)("TPU_BACKEND").map(|name| name.to_string_lossy().into_owned())
    }

    /// See [`candidates`].
    pub fn candidates(&self) -> Vec<Candidate> {
        let variable = |source| Candidate { source, path: self.path(source) };
        let package = Candidate { source: "libtpu of Python", path: self.libtpu() };
        vec![variable("TPU_LIBRARY_PATH"), variable("PJRT_PLUGIN_LIBRARY_PATH"), package]
    }

    /// Whether there is the device file of an accelerator, and a PCI device that may be a TPU.
    pub fn has_tpu(&self) -> bool {
        let numbered = |folder: &str, prefix: &str| {
            let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
            names(&self.root.join(folder)).iter().any(|name| name.strip_prefix(prefix).is_some_and(is_number))
        };
        if !(numbered("dev", "accel") || numbered("dev/accel", "accel") || numbered("dev/vfio", "")) {
            return false;
        }
        let devices = self.root.join("sys/bus/pci/devices");
        names(&devices).iter().any(|name| {
            let says = |file| fs::read_to_string(devices.join(name).join(file)).unwrap_or_default();
            let class = says("class");
            says("vendor").trim() == GOOGLE && !OTHER_CLASSES.iter().any(|other| class.starts_with(other))
        })
    }

    /// The library of the Python package `libtpu`.
    fn libtpu(&self) -> Option<PathBuf> {
        let mut prefixes: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|v| self.path(v)).collect();
        let path = (self.variable)("PATH").unwrap_or_default();
        for folder in std::env::split_paths(&path) {
            let python = folder.join("python3");
            // Where it stands, and where it stands if it is a link.
            let places = [Some(python.clone()), python.canonicalize().ok()];
            if python.is_file() {
                prefixes
                    .extend(places.iter().flatten().filter_map(|place| Some(place.parent()?.parent()?.to_path_buf())));
            }
        }
        let user = self.path("PYTHONUSERBASE").or_else(|| Some(self.path("HOME")?.join(".local")));
        prefixes.extend(user);
        let libraries =
            prefixes.iter().flat_map(|prefix| packages(prefix)).map(|folder| folder.join("libtpu/libtpu.so"));
        libraries.into_iter().find(|library| library.is_file())
    }
}

/// The folders of packages of a Python that is installed under `prefix`, newest version first.
fn packages(prefix: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // Fedora has lib64; Debian has dist-packages, one of them without a version, and local/lib.
    for lib in ["lib", "lib64", "local/lib"] {
        let lib = prefix.join(lib);
        let version =
            |name: &String| name.strip_prefix("python3").map(|rest| rest.trim_start_matches('.').parse::<u32>());
        let mut versions: Vec<(u32, String)> =
            names(&lib).into_iter().filter_map(|name| Some((version(&name)?.unwrap_or(0), name))).collect();
        versions.sort();
        for (_, name) in versions.into_iter().rev() {
            found.extend(["site-packages", "dist-packages"].map(|kind| lib.join(&name).join(kind)));
        }
    }
    found
}

/// The names in a folder; none if it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use tempfile::TempDir;

    /// A machine made of a folder and some variables.
    struct Made {
        folder: TempDir,
        variables: HashMap<&'static str, OsString>,
    }

    impl Made {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap(), variables: HashMap::new() }
        }

        fn put(&self, file: &str, text: &str) -> PathBuf {
            let path = self.folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        }

        fn set(&mut self, variable: &'static str, value: impl Into<OsString>) {
            self.variables.insert(variable, value.into());
        }

        fn ask<T>(&self, question: impl FnOnce(&Machine) -> T) -> T {
            question(&Machine {
                root: self.folder.path(),
                variable: &|name| self.variables.get(name).cloned().filter(|value| !value.is_empty()),
            })
        }

        /// The first candidate that names something.
        fn first(&self) -> Option<(&'static str, PathBuf)> {
            let named = |candidate: Candidate| Some((candidate.source, candidate.path?));
            self.ask(|machine| machine.candidates().into_iter().find_map(named))
        }
    }

    #[test]
    fn variables_count_before_the_package_and_in_their_order() {
        let mut made = Made::new();
        assert_eq!(made.first(), None);
        let package = made.put("env/lib/python3.12/site-packages/libtpu/libtpu.so", "");
        made.set("VIRTUAL_ENV", made.folder.path().join("env"));
        assert_eq!(made.first(), Some(("libtpu of Python", package)));
        made.set("PJRT_PLUGIN_LIBRARY_PATH", "b.so");
        assert_eq!(made.first(), Some(("PJRT_PLUGIN_LIBRARY_PATH", "b.so".into())));
        made.set("TPU_LIBRARY_PATH", "");
        assert_eq!(made.first(), Some(("PJRT_PLUGIN_LIBRARY_PATH", "b.so".into())));
        made.set("TPU_LIBRARY_PATH", "a.so");
        assert_eq!(made.first(), Some(("TPU_LIBRARY_PATH", "a.so".into())));
    }

    #[test]
    fn the_package_is_found_in_environments_beside_python_and_in_the_users_own() {
        let package = |folder: &str| format!("{folder}/libtpu/libtpu.so");
        let cases = [
            ("VIRTUAL_ENV", "a", package("a/lib/python3.13/site-packages")),
            ("CONDA_PREFIX", "b", package("b/lib/python3.11/site-packages")),
            ("PATH", "c/bin", package("c/lib64/python3.14/site-packages")),
            ("PATH", "d/bin", package("d/lib/python3/dist-packages")),
            ("PATH", "e/bin", package("e/local/lib/python3.11/dist-packages")),
            ("PYTHONUSERBASE", "f", package("f/lib/python3.12/site-packages")),
            ("HOME", "g", package("g/.local/lib/python3.12/site-packages")),
        ];
        for (variable, value, file) in cases {
            let mut made = Made::new();
            let library = made.put(&file, "");
            let value = made.folder.path().join(value);
            let value = match variable {
                "PATH" => {
                    made.put(value.join("python3").to_str().unwrap(), "");
                    std::env::join_paths([made.folder.path().join("no/such/folder"), value]).unwrap()
                }
                _ => value.into(),
            };
            made.set(variable, value);
            assert_eq!(made.first(), Some(("libtpu of Python", library)), "{file}");
        }
    }

    #[test]
    fn the_newest_python_counts_and_links_are_followed() {
        let mut made = Made::new();
        for version in ["3.9", "3.11", "3.10"] {
            made.put(&format!("lib/python{version}/site-packages/libtpu/libtpu.so"), "");
        }
        // A folder of another package, and no folder at all.
        made.put("lib/python3.12/site-packages/other/libtpu.so", "");
        made.put("lib/python3.13", "");
        made.put("bin/python3.11", "");
        let link = made.folder.path().join("links/python3");
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(made.folder.path().join("bin/python3.11"), &link).unwrap();
        made.set("PATH", link.parent().unwrap());
        let (_, path) = made.first().unwrap();
        assert!(path.ends_with("lib/python3.11/site-packages/libtpu/libtpu.so"), "{path:?}");
    }

    #[test]
    fn a_tpu_is_a_device_file_and_a_pci_device_of_googles() {
        let pci = |made: &Made, vendor: &str, class: &str| {
            made.put("sys/bus/pci/devices/0000:00:05.0/vendor", &format!("{vendor}\n"));
            made.put("sys/bus/pci/devices/0000:00:05.0/class", &format!("{class}\n"));
        };
        for (file, vendor, class, want) in [
            ("dev/accel0", "0x1ae0", "0x120000", true),
            ("dev/accel/accel3", "0x1ae0", "0x120000", true),
            ("dev/vfio/12", "0x1ae0", "0xff0000", true),
            // The folder alone, Intel's accelerator, Google's network card and disk.
            ("dev/vfio/vfio", "0x1ae0", "0x120000", false),
            ("dev/accel/accel0", "0x8086", "0x120000", false),
            ("dev/vfio/0", "0x1ae0", "0x020000", false),
            ("dev/vfio/0", "0x1ae0", "0x010802", false),
            ("dev/null", "0x1ae0", "0x120000", false),
        ] {
            let made = Made::new();
            assert!(!made.ask(|machine| machine.has_tpu()));
            made.put(file, "");
            pci(&made, vendor, class);
            assert_eq!(made.ask(|machine| machine.has_tpu()), want, "{file} {vendor} {class}");
        }
    }
}
