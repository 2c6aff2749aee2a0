//! `cargo xtask peers`: the Python environment that comparisons with PyTorch run in.

use crate::workspace::Workspace;
use crate::{Result, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What goes into it. PyTorch is the version whose numbers the tests quote; the others follow it.
const REQUIREMENTS: &[&str] = &["torch==2.15.0", "numpy>=2,<3", "safetensors>=0.5"];
const FOLDER: &str = "peers";

/// The Python inside an environment.
fn python_in(folder: &Path) -> PathBuf {
    if cfg!(windows) { folder.join("Scripts/python.exe") } else { folder.join("bin/python") }
}

/// Makes the environment, or finds that it is already complete.
pub fn make() -> Result {
    let folder = Workspace::load()?.target.join(FOLDER);
    let python = python_in(&folder);
    if check(&python).is_ok() {
        println!("{}: already there", folder.display());
        return Ok(());
    }
    println!(
        "Makes {} and installs {} with pip: about 5 GB to download and unpack.",
        folder.display(),
        REQUIREMENTS.join(", ")
    );
    process::run(Command::new("python3").args(["-m", "venv"]).arg(&folder)).map_err(|e| {
        format!("{e}\nneeds Python 3.11 with its venv module as `python3` (on Debian: the package python3-venv)")
    })?;
    process::run(
        Command::new(&python).args(["-m", "pip", "install", "--disable-pip-version-check"]).args(REQUIREMENTS),
    )
    .map_err(|e| format!("{e}\npip could not install PyTorch: this needs the network and 6 GB of free space"))?;
    check(&python).map(|()| println!("{}: ready", folder.display()))
}

/// The Python to compare with: the given one, or that of [`make`].
pub fn python(given: Option<PathBuf>) -> Result<PathBuf> {
    let python = match given {
        Some(python) => python,
        None => python_in(&Workspace::load()?.target.join(FOLDER)),
    };
    match check(&python) {
        Ok(()) => Ok(python),
        Err(e) => Err(format!("needs a Python with PyTorch: run `cargo xtask peers` first, or give --python ({e})")),
    }
}

fn check(python: &Path) -> Result {
    process::output(Command::new(python).args(["-c", "import numpy, safetensors, torch"])).map(drop)
}
