//! Composites with a derivative of their own: fewer operations and less to save than that of their bodies. All others are
//! recorded operation by operation.
//!
//! 16-bit floats are computed in float32 and rounded once, as in the bodies.

mod activation;
mod attention;
mod loss;
mod norm;
mod recurrent;
mod softmax;

use super::{Context, Gradients, Saves};
use tpu_core::ir::Attributes;
use tpu_core::{DType, Result, Tensor};

/// A composite with a rule here.
#[derive(Clone, Copy)]
enum Known {
    Softmax,
    LogSoftmax,
    LogSumExp,
    Gelu,
    Silu,
    LayerNorm,
    RmsNorm,
    BatchNorm,
    BinaryCrossEntropy,
    Attention,
    Lstm,
    Gru,
    Rnn,
}

impl Known {
    fn find(name: &str) -> Option<Self> {
        Some(match name {
            "tpu.softmax" => Self::Softmax,
            "tpu.log_softmax" => Self::LogSoftmax,
            "tpu.logsumexp" => Self::LogSumExp,
            "tpu.gelu" => Self::Gelu,
            "tpu.silu" => Self::Silu,
            "tpu.layer_norm" => Self::LayerNorm,
            "tpu.rms_norm" => Self::RmsNorm,
            "tpu.batch_norm" => Self::BatchNorm,
            "tpu.binary_cross_entropy" => Self::BinaryCrossEntropy,
            "tpu.attention" => Self::Attention,
            "tpu.lstm" => Self::Lstm,
            "tpu.gru" => Self::Gru,
            "tpu.rnn" => Self::Rnn,
            _ => return None,
        })
    }
}

/// Whether there is a rule for the composite of this name.
pub(crate) fn is_known(name: &str) -> bool {
    Known::find(name).is_some()
}

pub(super) fn saves(name: &str) -> Saves {
    match Known::find(name) {
        Some(Known::Softmax | Known::LogSoftmax) => Saves::output(0),
        Some(Known::LogSumExp) => Saves::inputs_from(0).and(Saves::output(0)),
        Some(Known::Attention) => Saves::inputs_from(0).and(Saves::output(0)).and(Saves::output(1)),
        Some(Known::Gelu | Known::Silu) => Saves::input(0),
        // Not the bias, which only moves.
        Some(Known::LayerNorm | Known::RmsNorm | Known::BatchNorm) => Saves::input(0).and(Saves::input(1)),
        Some(Known::BinaryCrossEntropy) => Saves::inputs_from(0),
        // Weight and first state, outputs, and what was kept besides the last states.
        Some(Known::Lstm) => Saves::input(1).and(Saves::input(2)).and(outputs(&[0, 3, 4])),
        Some(Known::Gru) => Saves::input(1).and(Saves::input(2)).and(outputs(&[0, 2])),
        Some(Known::Rnn) => Saves::input(1).and(Saves::input(2)).and(outputs(&[0])),
        None => Saves::NOTHING,
    }
}

fn outputs(numbers: &[usize]) -> Saves {
    numbers.iter().fold(Saves::NOTHING, |saves, &number| saves.and(Saves::output(number)))
}

pub(super) fn gradients(cx: &Context<'_>, name: &str, attributes: &Attributes) -> Result<Gradients> {
    match Known::find(name) {
        Some(Known::Softmax) => softmax::softmax(cx, attributes),
        Some(Known::LogSoftmax) => softmax::log_softmax(cx, attributes),
        Some(Known::LogSumExp) => softmax::logsumexp(cx, attributes),
        Some(Known::Gelu) => activation::gelu(cx, attributes),
        Some(Known::Silu) => activation::silu(cx),
        Some(Known::LayerNorm) => norm::layer_norm(cx, attributes),
        Some(Known::RmsNorm) => norm::rms_norm(cx, attributes),
        Some(Known::BatchNorm) => norm::batch_norm(cx, attributes),
        Some(Known::BinaryCrossEntropy) => loss::binary_cross_entropy(cx),
        Some(Known::Attention) => attention::gradients(cx, attributes),
        Some(Known::Lstm) => recurrent::lstm(cx, attributes),
        Some(Known::Gru) => recurrent::gru(cx, attributes),
        Some(Known::Rnn) => recurrent::rnn(cx, attributes),
        None => cx.no_derivative(&format!(" as {name}")),
    }
}

/// The dtype that floats are computed in: float32 for the 16-bit ones.
fn accumulator(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}

fn widened(x: &Tensor) -> Result<Tensor> {
    x.to_dtype(accumulator(x.dtype()))
}
