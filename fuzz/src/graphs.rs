//! Random programs: the host backend against the interpreter, op by op within stated bounds, then fused and as a whole
//! bit for bit, compiled as it is and recorded in every mode.

use crate::Outcome;
use crate::bytes::Bytes;
use crate::driver::Target;
use tpu_core::Device;
use tpu_core::testing::graphs::{Config, generate};
use tpu_core::testing::modes::compare_in_every_mode;

/// The target.
pub const TARGET: Target = Target { name: "graphs", longest: 400, run };

fn run(bytes: Bytes<'_>) -> Outcome {
    let host = Device::host().map_err(|error| error.to_string())?;
    let (graph, arguments) = generate(bytes.rest(), &Config::default());
    let outcome = compare_in_every_mode(&host, &graph, &arguments);
    outcome.map(|_| ()).map_err(|message| format!("{message}\nprogram: {graph:#?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_agrees_with_the_interpreter_on_random_programs_in_every_mode() {
        crate::driver::test(TARGET, 1, 60).unwrap();
    }
}
