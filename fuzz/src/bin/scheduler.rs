//! `cargo xtask fuzz scheduler`: see `fuzz::scheduler`.

fn main() -> std::process::ExitCode {
    fuzz::driver::main(fuzz::scheduler::TARGET)
}
