//! The operator library: what networks are made of, composed from the primitives of `tpu-core`.
//!
//! An op is a function of tensors. Its documentation gives shapes, dtypes, the formula, errors and PyTorch's name for it.
//! Shape and dtype errors surface at the call and name the caller's line; an index out of range is an error when the
//! value is read.
//!
//! Ops are of three tiers:
//!
//! 1. methods of [`Tensor`](tpu_core::Tensor): primitives, closed under differentiation;
//! 2. functions of this crate, written in primitives;
//! 3. those of them that are recorded as one named composite (`tpu.softmax`, `tpu.attention` …), so that a backend may
//!    have a kernel for the name and autograd a derivative. Their bodies say what they mean to everybody else.
//!
//! # Precision
//!
//! Nothing is promoted: operands have one dtype. Of float16 and bfloat16 operands softmax, norms, losses and activations
//! compute in float32 and round once, at the end. Products of float32 are float32 unless a
//! [`Precision`](tpu_core::Precision) says that a target may round the operands first.
//!
//! ```
//! use tpu_core::{DType, Tensor};
//! use tpu_ops::{linear, relu, softmax};
//! let x = Tensor::ones([2, 3], DType::F32)?;
//! let weight = Tensor::full([4, 3], 0.5, DType::F32)?;
//! let y = softmax(&relu(&linear(&x, &weight, None)?)?, -1)?;
//! assert_eq!(y.to_vec::<f32>()?, [0.25; 8]);
//! # Ok::<(), tpu_core::Error>(())
//! ```

pub mod activation;
pub mod attention;
mod composite;
pub mod convolution;
pub mod dropout;
pub mod einsum;
pub mod embedding;
pub mod indexing;
pub mod linear;
pub mod loss;
pub mod normalization;
mod place;
pub mod pooling;
pub mod random;
mod require;
pub mod rotary;
pub mod softmax;

pub use activation::{Gelu, gelu, relu, sigmoid, silu, tanh};
pub use attention::{Attention, scaled_dot_product_attention};
pub use convolution::{Conv2d, Padding, conv2d};
pub use dropout::dropout;
pub use einsum::einsum;
pub use embedding::{embedding, embedding_padded, one_hot};
pub use indexing::{argmax, cumsum, masked_fill, select, take_along, topk};
pub use linear::linear;
pub use loss::{CrossEntropy, Reduction, cross_entropy, mse_loss};
pub use normalization::{layer_norm, rms_norm};
pub use pooling::{AvgPool2d, MaxPool2d, avg_pool2d, max_pool2d};
pub use random::{Generator, bernoulli, manual_seed, multinomial, normal, randint, randperm, uniform};
pub use rotary::{Pairs, rotary, rotary_angles};
pub use softmax::{log_softmax, logsumexp, softmax};
