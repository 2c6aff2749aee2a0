//! Losses. Of float16 and bfloat16 operands they compute in float32 and round once, after the reduction.

mod binary;
mod cross_entropy;
mod distance;
mod likelihood;
mod margin;

pub use binary::{BceWithLogits, bce_loss, bce_with_logits};
pub use cross_entropy::{CrossEntropy, NllLoss, cross_entropy, nll_loss};
pub use distance::{huber_loss, l1_loss, mse_loss, smooth_l1_loss};
pub use likelihood::{GaussianNll, PoissonNll, gaussian_nll_loss, kl_div, poisson_nll_loss};
pub use margin::{
    cosine_embedding_loss, cosine_similarity, hinge_embedding_loss, margin_ranking_loss, pairwise_distance,
    soft_margin_loss, triplet_margin_loss,
};

use crate::composite::widened;
use crate::require;
use tpu_core::{Result, Tensor, ensure};

/// What becomes of the losses of single elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reduction {
    /// Their mean; NaN of none.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// They stay as they are.
    None,
    /// Their sum divided by the size of the first axis. PyTorch's `batchmean`, which only `kl_div` has there.
    BatchMean,
}

/// Losses, reduced.
#[track_caller]
fn reduce(losses: &Tensor, reduction: Reduction) -> Result<Tensor> {
    match reduction {
        Reduction::Mean => losses.mean_all(),
        Reduction::Sum => losses.sum_all(),
        Reduction::None => Ok(losses.clone()),
        Reduction::BatchMean => losses.sum_all()?.div(losses.sizes().first().copied().unwrap_or(1) as f64),
    }
}

/// Two operands of one float dtype that broadcast, in the dtype that they are computed in.
#[track_caller]
fn pair(op: &'static str, input: &Tensor, target: &Tensor) -> Result<(Tensor, Tensor)> {
    Tensor::checked(|| {
        require::float(op, "an input", input)?;
        require::same_dtype(op, ("input", input), ("target", target))
    })?;
    Ok((widened(input)?, widened(target)?))
}

/// [`pair`] of one shape.
#[track_caller]
fn equal_pair(op: &'static str, input: &Tensor, target: &Tensor) -> Result<(Tensor, Tensor)> {
    Tensor::checked(|| {
        let (a, b) = (input.shape(), target.shape());
        ensure!(a == b, Shape, op, "requires input and target of one shape, got {a} and {b}");
        Ok(())
    })?;
    pair(op, input, target)
}
