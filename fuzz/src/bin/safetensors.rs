//! `cargo xtask fuzz safetensors`: see `fuzz::checkpoint`.

fn main() -> std::process::ExitCode {
    fuzz::driver::main(fuzz::checkpoint::TARGET)
}
