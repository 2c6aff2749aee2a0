//! The embedded backend: pure Rust, always there.
