//! Where the tests of plugins find them. Each test program uses some of it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

/// XLA for CPU, the newest.
pub const CPU: &str = "lammps-jax-pjrt-cpu/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so";
/// XLA for CPU, the oldest that must work.
pub const OLD_CPU: &str = "xla-cpu-pjrt/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so";
/// Google's TPU compiler.
pub const TPU: &str = "libtpu/libtpu/libtpu.so";

/// A plugin that `cargo xtask plugins` fetches. Where it is not there, a test says so and is skipped, except in CI.
pub fn plugin(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/plugins").join(file);
    if path.is_file() {
        return Some(path);
    }
    let message = format!("{} is not there: run `cargo xtask plugins`", path.display());
    assert!(std::env::var_os("CI").is_none(), "{message}");
    eprintln!("skipped: {message}");
    None
}
