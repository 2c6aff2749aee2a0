//! Random programs and the comparison of backends on them: what "two backends agree" means.
//!
//! [`graphs`] makes a valid program and its arguments out of any bytes, for proptest and for fuzzing; [`compare`] runs it on a
//! backend op by op against the interpreter, within a bound for each op, and then as a whole; [`modes`] also records it
//! as a user would, in every mode. [`cases`] says how many of them a test tries.

pub mod arguments;
pub(crate) mod backward;
pub mod batch;
mod cases;
mod choices;
mod collective;
pub mod compare;
mod difference;
mod factors;
pub mod graphs;
mod grow;
pub mod modes;
pub mod tolerance;
pub mod xla;

pub use cases::cases;
