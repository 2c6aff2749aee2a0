//! Rust-native TPU tensors: record operations, fuse them into programs, run them on the embedded host backend or on
//! any device that a backend serves.
//!
//! Everything goes one way, whatever the mode, the front end or the device:
//!
//! ```text
//! record  →  cut  →  key  →  cache  →  compile  →  run
//! (tensor)  (lazy)   (lazy)   (lazy)   (runtime)   (runtime)
//! ```
//!
//! `ARCHITECTURE.md` at the top of the repository is the map.

pub mod device;
mod devices;
pub mod dtype;
pub mod error;
pub mod ir;
pub mod lazy;
pub mod literal;
pub mod location;
pub mod plan;
pub mod random;
#[cfg(any(feature = "reference", test))]
pub mod reference;
pub mod runtime;
pub mod scalar;
pub mod shape;
pub mod tensor;
#[cfg(any(feature = "reference", test))]
pub mod testing;

pub use device::Device;
pub use devices::{Found, devices};
pub use dtype::{Complex64, DType, Element, F8E4M3FN, F8E5M2};
pub use error::{Error, ErrorKind, Result};
pub use ir::Precision;
pub use lazy::Mode;
pub use literal::Literal;
pub use location::Location;
pub use scalar::Scalar;
pub use shape::{Dim, Shape};
pub use tensor::Tensor;
