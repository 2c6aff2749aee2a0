//! Random programs: the host backend against the interpreter, op by op within stated bounds, then fused and as a whole
//! bit for bit.

use crate::Outcome;
use crate::bytes::Bytes;
use crate::driver::Target;
use std::sync::OnceLock;
use tpu_core::runtime::host::Host;
use tpu_core::testing::compare::compare;
use tpu_core::testing::graphs::{Config, generate};

/// The target.
pub const TARGET: Target = Target { name: "graphs", longest: 400, run };

fn run(bytes: Bytes<'_>) -> Outcome {
    static HOST: OnceLock<Result<Host, tpu_core::Error>> = OnceLock::new();
    let host = HOST.get_or_init(Host::from_env).as_ref().map_err(ToString::to_string)?;
    let (graph, arguments) = generate(bytes.rest(), &Config::default());
    compare(host, &graph, &arguments).map(|_| ()).map_err(|message| format!("{message}\nprogram: {graph:#?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_agrees_with_the_interpreter_on_random_programs() {
        crate::driver::test(TARGET, 1, 60).unwrap();
    }
}
