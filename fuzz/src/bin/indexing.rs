//! `cargo xtask fuzz indexing`: see `fuzz::indexing`.

fn main() -> std::process::ExitCode {
    fuzz::driver::main(fuzz::indexing::TARGET)
}
