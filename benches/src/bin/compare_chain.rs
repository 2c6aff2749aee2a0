//! Our side of `benches/peers/bench_chain.py`.

use benches::chain::Chain;
use benches::protocol::{Arguments, serve};
use benches::resident::Peak;
use clap::Parser;

#[derive(Parser)]
struct Options {
    /// Rows and columns.
    #[arg(long, default_value_t = 4096)]
    size: usize,
    #[command(flatten)]
    arguments: Arguments,
}

fn main() -> tpu_core::Result<()> {
    let Options { size, arguments } = Options::parse();
    arguments.mode.scope(|| {
        Chain::new(64)?.run()?;
        let peak = Peak::start();
        let chain = Chain::new(size)?;
        serve(&arguments, &peak, || chain.run())
    })
}
