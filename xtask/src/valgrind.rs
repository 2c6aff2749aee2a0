//! `cargo xtask valgrind`: what the plugin backend does with memory, under valgrind.
//!
//! The programs are the tests with the fake plugin, which drive every path of `runtime/pjrt` and write late, to what must
//! still be there. Host kernels run at the level that valgrind knows the instructions of.

use crate::workspace::cargo;
use crate::{Result, process};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

const TESTS: &[&str] = &["pjrt_fake", "pjrt_reliability"];

/// Runs them one after the other; the first that valgrind complains of ends it.
pub fn run() -> Result {
    process::output(Command::new("valgrind").arg("--version"))
        .map_err(|e| format!("needs valgrind: {e}\nOn Debian: install valgrind."))?;
    let mut build = cargo();
    build.args(["test", "--package", "tpu-core", "--no-run", "--message-format", "json"]);
    build.args(TESTS.iter().flat_map(|name| ["--test", name]));
    let programs = programs(&process::output(&mut build)?);
    if programs.len() != TESTS.len() {
        return Err(format!("cargo must have built {TESTS:?}, it built {programs:?}"));
    }
    for program in programs {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--error-exitcode=1", "--leak-check=full", "--show-leak-kinds=definite"]);
        valgrind.arg("--errors-for-leak-kinds=definite").arg(program).arg("--test-threads=1");
        process::run(valgrind.env("TPU_HOST_ISA", "portable"))?;
    }
    Ok(())
}

/// The programs that cargo says it has built.
fn programs(messages: &str) -> Vec<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_those_that_cargo_names() {
        let messages = r#"{"reason":"compiler-artifact","executable":null}
not json
{"reason":"compiler-artifact","executable":"target/debug/deps/pjrt_fake-1"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(programs(messages), [PathBuf::from("target/debug/deps/pjrt_fake-1")]);
    }
}
