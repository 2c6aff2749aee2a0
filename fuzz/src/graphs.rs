//! Random programs: the host backend against the interpreter, op by op within stated bounds, then fused and as a whole
//! bit for bit, compiled as it is and recorded in every mode. Where `cargo xtask plugins` has put XLA for CPU, the host
//! against that too.

use crate::Outcome;
use crate::bytes::Bytes;
use crate::driver::Target;
use std::path::Path;
use std::sync::OnceLock;
use tpu_core::Device;
use tpu_core::ir::Graph;
use tpu_core::reference::Array;
use tpu_core::runtime::host::Host;
use tpu_core::runtime::pjrt::{OptionValue, Pjrt, PjrtOptions};
use tpu_core::testing::graphs::{Config, generate};
use tpu_core::testing::modes::compare_in_every_mode;
use tpu_core::testing::xla;

/// The target.
pub const TARGET: Target = Target { name: "graphs", longest: 400, run };

/// The same without the plugin, which takes a second for a case.
#[cfg(test)]
const HOST_ONLY: Target = Target { run: |bytes| on_host(bytes).map(drop), ..TARGET };

fn run(bytes: Bytes<'_>) -> Outcome {
    let case = on_host(bytes)?;
    let Some(plugin) = plugin()? else { return Ok(()) };
    let host = Host::from_env().map_err(|error| error.to_string())?;
    let found = xla::graphs(&host, plugin, std::slice::from_ref(&case), 1).wrong;
    let Some((_, message)) = found.into_iter().next() else { return Ok(()) };
    Err(format!("on XLA: {message}\nprogram: {:#?}", case.0))
}

/// The case, if the host agrees with the interpreter on it.
fn on_host(bytes: Bytes<'_>) -> Result<(Graph, Vec<Array>), String> {
    let host = Device::host().map_err(|error| error.to_string())?;
    let (graph, arguments) = generate(bytes.rest(), &Config::default());
    match compare_in_every_mode(&host, &graph, &arguments) {
        Ok(_) => Ok((graph, arguments)),
        Err(message) => Err(format!("{message}\nprogram: {graph:#?}")),
    }
}

/// XLA for CPU, if it is there.
fn plugin() -> Result<Option<&'static Pjrt>, String> {
    static PLUGIN: OnceLock<Result<Option<Pjrt>, String>> = OnceLock::new();
    let opened = PLUGIN.get_or_init(|| {
        let file = "plugins/lammps-jax-pjrt-cpu/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(file);
        if !path.is_file() {
            return Ok(None);
        }
        let client = vec![("cpu_device_count".to_string(), OptionValue::Int(1))];
        let options = PjrtOptions { client, ..PjrtOptions::default() };
        Pjrt::open(path, &options).map(Some).map_err(|error| error.to_string())
    });
    opened.as_ref().map(Option::as_ref).map_err(Clone::clone)
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
