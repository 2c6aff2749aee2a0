//! Pooling over images.

use super::{Result, Run, tensor};
use crate::measure::Parameters;
use tpu_autograd::{GradOptions, grad_from, requires_grad};
use tpu_core::DType;
use tpu_ops::{AvgPool2d, MaxPool2d, avg_pool2d, max_pool2d};

/// `[batch, channels, size, size]` by square windows; `pass` is `forward`, or `gradients`: that of the input.
pub(super) fn pooling(parameters: &Parameters) -> Result<Run> {
    let [batch, channels, size] = parameters.sizes(["batch", "channels", "size"])?;
    let [kernel, stride, padding] =
        [parameters.size("kernel")?, parameters.size("stride")?, parameters.size_or("padding", 0)?];
    let max = parameters.choice("op", &[("max", true), ("mean", false)])?;
    let (window, stride, padding) = ([kernel; 2], Some([stride; 2]), [padding; 2]);
    let pool = move |x: &tpu_core::Tensor| match max {
        true => max_pool2d(x, window, MaxPool2d { stride, padding, ..MaxPool2d::default() }),
        false => avg_pool2d(x, window, AvgPool2d { stride, padding, ..AvgPool2d::default() }),
    };
    let x = tensor([batch, channels, size, size], 1, 1.0, DType::F32)?;
    match parameters.text("pass")? {
        "forward" => Ok(Box::new(move || Ok(vec![pool(&x)?]))),
        "gradients" => {
            let x = requires_grad(&x)?;
            let y = pool(&x)?;
            let gradient = tensor(y.sizes().to_vec(), 2, 1.0, DType::F32)?;
            // The backward pass alone: the history stays, the forward pass is done.
            y.wait()?;
            let retain = GradOptions { retain_graph: true, ..GradOptions::default() };
            Ok(Box::new(move || grad_from(&[&y], &[&gradient], &[&x], retain)))
        }
        other => Err(format!("requires pass forward or gradients, got `{other}`").into()),
    }
}
