//! PyTorch's training run of a GPT, repeated on XLA for CPU.
#![allow(clippy::print_stderr, reason = "a test that does not run says so")]

#[path = "curve/mod.rs"]
mod recorded;

use recorded::{Recorded, assert_close, assert_same_buffers};
use std::path::Path;
use tpu_core::Device;

const PLUGIN: &str = "lammps-jax-pjrt-cpu/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so";

#[test]
fn a_plugin_follows_pytorch_and_the_host_with_one_program_a_step() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/plugins").join(PLUGIN);
    if !path.is_file() {
        let message = format!("{} is not there: run `cargo xtask plugins`", path.display());
        assert!(std::env::var_os("CI").is_none(), "{message}");
        return eprintln!("skipped: {message}");
    }
    let run = Recorded::load("gpt");
    let there = Device::pjrt(path).unwrap().scope(|| run.repeat()).expect("training runs");
    assert_close(&there.losses, &run.losses, "in PyTorch");
    assert_same_buffers(&there, &run);
    let (steps, done) = (there.losses.len() as u64 - 2, there.done);
    assert_eq!((done.programs, done.cache_hits, done.compiles), (steps, steps, 0), "{done}");
    let here = Device::host().unwrap().scope(|| run.repeat()).expect("training runs");
    let on_host: Vec<f64> = here.losses.into_iter().map(f64::from).collect();
    assert_close(&there.losses, &on_host, "on the host");
}
