//! Random tensors: counter-based, so a seed and an offset say every element, on every backend and in every mode.
//!
//! The formulas from seed and offset to numbers are those of [`tpu_core::random`].

mod distribution;
mod generator;
mod sample;

pub(crate) use distribution::below;
pub use distribution::{bernoulli, bernoulli_like, normal, uniform};
pub use generator::{Generator, manual_seed};
pub use sample::{multinomial, randint, randperm};

use tpu_core::{Result, Shape, Tensor};

/// Random u32 of a shape, with counters of their own from the generator, else from the current one.
#[track_caller]
fn bits(shape: &Shape, generator: Option<&Generator>) -> Result<Tensor> {
    let words = shape.elements().unwrap_or(usize::MAX);
    let (seed, offset) = match generator {
        Some(generator) => generator.reserve(words),
        None => Generator::current().reserve(words),
    };
    Tensor::rng_bits(seed, offset, shape)
}

/// The same with two words an element, in a new last axis: the high and the low one.
#[track_caller]
fn double_bits(shape: &Shape, generator: Option<&Generator>) -> Result<Tensor> {
    bits(&shape.sizes().iter().copied().chain([2]).collect(), generator)
}
