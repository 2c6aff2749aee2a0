//! Our side of the comparisons with PyTorch; the protocol is in `benches/peers/README.md`.

pub mod chain;
pub mod protocol;
pub mod resident;
