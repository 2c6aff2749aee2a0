//! Our side of the comparisons with other libraries: `benches/peers/README.md`.

pub mod cases;
pub mod cost;
pub mod kernels;
pub mod measure;
pub mod mix;
