//! Being measured: the line protocol, time, memory, and the numbers that every program starts from.
//!
//! Knows no library: `benches/peers/rust` has the same module, so both sides are measured by the same code. Errors are
//! messages.

pub mod clock;
pub mod numbers;
pub mod parameters;
pub mod protocol;
pub mod resident;

pub use numbers::{integers, numbers};
pub use parameters::Parameters;
pub use protocol::{Work, serve};

/// A message says what was required.
pub type Result<T> = std::result::Result<T, String>;
