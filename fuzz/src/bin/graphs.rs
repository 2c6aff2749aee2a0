//! `cargo xtask fuzz graphs`: see `fuzz::graphs`.

fn main() -> std::process::ExitCode {
    fuzz::driver::main(fuzz::graphs::TARGET)
}
