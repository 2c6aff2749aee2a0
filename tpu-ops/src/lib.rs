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
pub mod recurrent;
mod require;
pub mod rotary;
pub mod scan;
pub mod softmax;

pub use activation::{
    Gelu, celu, elu, gelu, glu, hardshrink, hardsigmoid, hardswish, hardtanh, leaky_relu, logsigmoid, mish, prelu,
    relu, relu6, selu, sigmoid, silu, softplus, softshrink, softsign, tanh, tanhshrink, threshold,
};
pub use attention::{Attention, scaled_dot_product_attention};
pub use convolution::{
    Conv, Conv1d, Conv2d, Conv3d, ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Padding,
    conv_transpose1d, conv_transpose2d, conv_transpose3d, conv1d, conv2d, conv3d,
};
pub use dropout::dropout;
pub use einsum::einsum;
pub use embedding::{embedding, embedding_padded, one_hot};
pub use indexing::{
    argmax, argsort, cumsum, index_add, masked_fill, scatter, scatter_add, scatter_reduce, select, sort, take_along,
    topk,
};
pub use linear::linear;
pub use loss::{
    BceWithLogits, CrossEntropy, GaussianNll, NllLoss, PoissonNll, Reduction, bce_loss, bce_with_logits,
    cosine_embedding_loss, cosine_similarity, cross_entropy, gaussian_nll_loss, hinge_embedding_loss, huber_loss,
    kl_div, l1_loss, margin_ranking_loss, mse_loss, nll_loss, pairwise_distance, poisson_nll_loss, smooth_l1_loss,
    soft_margin_loss, triplet_margin_loss,
};
pub use normalization::{BatchNorm, Normalized, batch_norm, group_norm, instance_norm, layer_norm, rms_norm};
pub use pooling::{
    AvgPool, AvgPool1d, AvgPool2d, AvgPool3d, MaxPool, MaxPool1d, MaxPool2d, MaxPool3d, adaptive_avg_pool1d,
    adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d,
    avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d,
};
pub use random::{Generator, bernoulli, manual_seed, multinomial, normal, randint, randperm, uniform};
pub use recurrent::{LstmOutput, Nonlinearity, gru_layer, lstm_layer, rnn_layer};
pub use rotary::{Pairs, rotary, rotary_angles};
pub use scan::Scan;
pub use softmax::{log_softmax, logsumexp, softmax};
