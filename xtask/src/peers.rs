//! `cargo xtask peers`: the Python environment that comparisons with PyTorch and JAX run in.

use crate::workspace::Workspace;
use crate::{Result, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What goes into it. PyTorch and JAX are the versions whose numbers the tests and results quote; the others follow them.
const REQUIREMENTS: &[&str] = &["torch==2.15.0", "jax==0.10.2", "numpy>=2,<3", "safetensors>=0.5"];
const MODULES: &[&str] = &["jax", "numpy", "safetensors", "torch"];
const FOLDER: &str = "peers";

/// The Python inside an environment.
fn python_in(folder: &Path) -> PathBuf {
    if cfg!(windows) { folder.join("Scripts/python.exe") } else { folder.join("bin/python") }
}

/// Makes the environment, or finds that it is already complete.
pub fn make() -> Result {
    let folder = Workspace::load()?.target.join(FOLDER);
    let python = python_in(&folder);
    if check(&python, MODULES).is_ok() {
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
    .map_err(|e| {
        format!("{e}\npip could not install PyTorch and JAX: this needs the network and 6 GB of free space")
    })?;
    check(&python, MODULES).map(|()| println!("{}: ready", folder.display()))
}

/// The Python with PyTorch: the given one, or that of [`make`].
pub fn with_torch(given: Option<PathBuf>) -> Result<PathBuf> {
    find(given, "torch", "--python")
}

/// The Python with JAX: the given one, or that of [`make`].
pub fn with_jax(given: Option<PathBuf>) -> Result<PathBuf> {
    find(given, "jax", "--jax-python")
}

fn find(given: Option<PathBuf>, module: &str, flag: &str) -> Result<PathBuf> {
    let python = match given {
        Some(python) => python,
        None => python_in(&Workspace::load()?.target.join(FOLDER)),
    };
    match check(&python, &["numpy", module]) {
        Ok(()) => Ok(python),
        Err(e) => Err(format!("needs a Python with {module}: run `cargo xtask peers` first, or give {flag} ({e})")),
    }
}

fn check(python: &Path, modules: &[&str]) -> Result {
    process::output(Command::new(python).args(["-c", &format!("import {}", modules.join(", "))])).map(drop)
}
