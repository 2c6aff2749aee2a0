//! Random programs: the host backend against the interpreter, op by op within stated bounds, then fused and as a whole
//! bit for bit, compiled as it is and recorded in every mode. Programs with collectives run on several devices of the host.
//! Where `cargo xtask plugins` has put XLA for CPU, the host against that too; [`oracles`] says whether it has.

use crate::Outcome;
use crate::bytes::Bytes;
use crate::driver::Target;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tpu_core::Device;
use tpu_core::ir::Graph;
use tpu_core::reference::Array;
use tpu_core::runtime::host::{Host, HostOptions};
use tpu_core::runtime::pjrt::Pjrt;
use tpu_core::testing::compare::compare_replicas;
use tpu_core::testing::graphs::{Config, generate_replicas};
use tpu_core::testing::modes::compare_in_every_mode;
use tpu_core::testing::xla;

/// The target.
pub const TARGET: Target = Target { name: "graphs", longest: 400, run };

/// The same without the plugin, which takes a second for a case.
#[cfg(test)]
const HOST_ONLY: Target = Target { run: |bytes| on_host(bytes).map(drop), ..TARGET };

/// On how many devices a program runs, by its first byte.
const DEVICES: [usize; 8] = [1, 1, 1, 1, 1, 2, 3, MOST_DEVICES];
const MOST_DEVICES: usize = 4;

/// A graph with its arguments on each device.
type Case = (Graph, Vec<Vec<Array>>);

fn run(bytes: Bytes<'_>) -> Outcome {
    let case = on_host(bytes)?;
    let Some(plugin) = plugin()? else { return Ok(()) };
    let found = xla::graphs(host()?, plugin, std::slice::from_ref(&case), 1).wrong;
    let Some((_, message)) = found.into_iter().next() else { return Ok(()) };
    Err(format!("on XLA: {message}\nprogram: {:#?}", case.0))
}

/// The case, if the host agrees with the interpreter on it.
fn on_host(mut bytes: Bytes<'_>) -> Result<Case, String> {
    let devices = *bytes.pick(&DEVICES);
    let (graph, rows) = generate_replicas(bytes.rest(), &Config::default(), devices);
    let outcome = match &rows[..] {
        [arguments] => {
            let host = Device::host().map_err(|error| error.to_string())?;
            compare_in_every_mode(&host, &graph, arguments)
        }
        rows => compare_replicas(host()?, &graph, rows),
    };
    match outcome {
        Ok(_) => Ok((graph, rows)),
        Err(message) => Err(format!("{message}\nprogram: {graph:#?}")),
    }
}

/// The host with as many devices as a program has at most.
fn host() -> Result<&'static Host, String> {
    static HOST: OnceLock<Result<Host, String>> = OnceLock::new();
    let open = || {
        let options = HostOptions { devices: MOST_DEVICES, ..HostOptions::default() };
        Host::new(options).map_err(|error| error.to_string())
    };
    HOST.get_or_init(open).as_ref().map_err(Clone::clone)
}

/// Where `cargo xtask plugins` puts XLA for CPU.
fn path() -> PathBuf {
    let file = "plugins/lammps-jax-pjrt-cpu/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so";
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(file)
}

/// XLA for CPU, if it is there.
fn plugin() -> Result<Option<&'static Pjrt>, String> {
    static PLUGIN: OnceLock<Result<Option<Pjrt>, String>> = OnceLock::new();
    let open = || {
        if !path().is_file() {
            return Ok(None);
        }
        Pjrt::open(path(), &xla::unoptimized(MOST_DEVICES)).map(Some).map_err(|error| error.to_string())
    };
    PLUGIN.get_or_init(open).as_ref().map(Option::as_ref).map_err(Clone::clone)
}

/// What the host is compared with here.
///
/// # Errors
/// The plugin is there and cannot be opened.
pub fn oracles() -> Result<String, String> {
    Ok(match plugin()? {
        Some(plugin) => format!("the interpreter and XLA for CPU, {}", plugin.platform_version()),
        None => format!("the interpreter; not XLA, as {} is not there: run `cargo xtask plugins`", path().display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_agrees_with_the_interpreter_on_random_programs_in_every_mode() {
        crate::driver::test(HOST_ONLY, 1, 60).unwrap();
    }

    #[test]
    fn the_host_agrees_with_xla_on_random_programs() {
        crate::driver::test(TARGET, 2, 3).unwrap();
    }
}
