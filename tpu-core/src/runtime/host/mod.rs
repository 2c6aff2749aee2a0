//! The embedded backend: pure Rust, always there.

pub(crate) mod kernels;
mod temp;
pub use temp::Host;
