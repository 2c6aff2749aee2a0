//! `cargo xtask fuzz graphs`: see `fuzz::graphs`.

use std::process::ExitCode;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports to its user")]
fn main() -> ExitCode {
    match fuzz::graphs::oracles() {
        Ok(oracles) => println!("graphs: the host against {oracles}"),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    fuzz::driver::main(fuzz::graphs::TARGET)
}
