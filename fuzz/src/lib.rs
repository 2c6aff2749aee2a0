//! Fuzz targets as plain programs over a byte-driven generator, for stable Rust.
//!
//! A target turns any bytes into a case and checks it against an oracle that shares no code with what it tests. The
//! [`driver`] feeds it random bytes, saves the input of a failing case and replays it. Each target is a program in
//! `src/bin/`; a short run with a fixed seed is a test beside the target.

pub mod bytes;
pub mod checkpoint;
pub mod driver;
pub mod graphs;
pub mod indexing;
pub mod plain;
pub mod scheduler;

/// What a case says: nothing, or how it failed.
pub type Outcome = Result<(), String>;

/// Fails a case unless the condition holds.
#[macro_export]
macro_rules! check {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}
