//! A naive interpreter of the whole op set: the oracle that every other backend is tested against.
//!
//! Plain loops over indices, one op at a time, every intermediate value kept; it shares no code with the host backend but
//! the conversions between dtypes and the random bits, which have tables of their own. What it computes:
//!
//! * Elementwise ops round to the dtype after every op. `f16`, `bf16` and the 8-bit floats are computed in `f32`.
//!   Transcendental functions of `f32` and narrower are computed in `f64` and rounded.
//! * Sums over many terms (reductions, matrix products, convolutions, Fourier transforms) are more exact than a backend must be:
//!   floats up to `f32` are added in `f64`, `f64` with compensation, and rounded once. So a backend is compared within a bound
//!   that speaks of its own roundings only.
//! * Linear algebra of `f32` is computed in `f64` and rounded.

mod array;
mod backend;
mod collective;
mod contract;
mod elementwise;
mod fft;
mod index;
mod indexing;
mod linalg;
mod movement;
mod number;
mod reduce;
mod run;
pub(crate) mod special;
mod window;

pub use array::Array;
pub use backend::ReferenceBackend;
pub use run::{Evaluated, evaluate, evaluate_op, evaluate_spmd};
