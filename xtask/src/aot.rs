//! `cargo xtask aot`: full steps of training a CNN and the GPT compiled for generations of TPU. The GPT takes a minute or two per
//! target, which is why the tests compile smaller ones.

use crate::workspace::{Workspace, cargo};
use crate::{Result, plugins, process};
use std::path::Path;
use std::process::Command;

/// One topology of each generation that is sold, smallest first.
pub const TARGETS: &str = "v4:2x2x1,v5e:1x1,v5p:1x1x1,v6e:1x1,tpu7x:1x1x1";

/// Fetches the compiler, compiles the CNN of the tests at full size, builds the GPT's example and plans its step at the default
/// sizes in each dtype. Fails if a step does not compile for one of the targets. `libtpu` is another compiler than the fetched one.
pub fn run(targets: &str, libtpu: Option<&Path>) -> Result {
    let workspace = Workspace::load()?;
    if libtpu.is_none() {
        plugins::run()?;
    }
    let tests = ["test", "--release", "-p", "examples", "--test", "aot", "a_step_of_a_cnn", "--", "--nocapture"];
    // The tests' own compiler and targets.
    process::run(cargo().args(tests).env("TPU_TEST_FULL", "1"))?;
    process::run(cargo().args(["build", "--release", "-p", "examples", "--example", "train_gpt"]))?;
    let program = workspace.target.join("release/examples").join(format!("train_gpt{}", std::env::consts::EXE_SUFFIX));
    for dtype in ["f32", "bf16"] {
        println!("\n== a step of training in {dtype}");
        let mut command = Command::new(&program);
        command.current_dir(&workspace.root).args(["--plan", targets, "--dtype", dtype]);
        if let Some(path) = libtpu {
            command.env("TPU_LIBRARY_PATH", path);
        }
        process::run(&mut command)?;
    }
    Ok(())
}
