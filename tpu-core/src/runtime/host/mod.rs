//! The embedded backend: pure Rust, always there.

pub(crate) mod kernels;
