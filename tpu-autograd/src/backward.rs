//! Asking for gradients.

use crate::param::Param;
use crate::tape::{self, Options, Reached};
use tpu_core::tensor::Link;
use tpu_core::{Error, ErrorKind, Result, Tensor, ensure};

/// Backward passes from a tensor.
pub trait Backward {
    /// Adds the gradient of this tensor, which must have one element, to the [gradient](Param::grad) of each parameter
    /// that it depends on. What the history saved is freed: a second pass over it is an error.
    ///
    /// Errors by name on the way through an operation without a derivative: `while`, whose number of iterations is not known
    /// when recording, `custom_call`, and a bitcast from floats to floats. Unroll, or detach their operands.
    ///
    /// ```
    /// use tpu_autograd::{Backward, Param};
    /// use tpu_core::Tensor;
    /// let w = Param::new(Tensor::from_slice(&[1.0f32, 2.0])?);
    /// w.value().square()?.sum_all()?.backward()?;
    /// assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    fn backward(&self) -> Result<()>;

    /// The same, leaving what the history saved in place for another pass.
    fn backward_retain_graph(&self) -> Result<()>;

    /// The same from a tensor of any shape, given the gradient that it has itself.
    fn backward_from(&self, gradient: &Tensor) -> Result<()>;
}

impl Backward for Tensor {
    fn backward(&self) -> Result<()> {
        accumulate(one(self)?, false)
    }

    fn backward_retain_graph(&self) -> Result<()> {
        accumulate(one(self)?, true)
    }

    fn backward_from(&self, gradient: &Tensor) -> Result<()> {
        accumulate(seed(self, gradient)?, false)
    }
}

/// Settings of [`grad`].
#[derive(Clone, Copy, Default, Debug)]
pub struct GradOptions {
    /// Gradients get a history, so that they can be differentiated again. Retains what was saved.
    pub create_graph: bool,
    /// What the history saved stays for another pass.
    pub retain_graph: bool,
    /// An input that the outputs do not depend on gets zeros, instead of being an error.
    pub allow_unused: bool,
}

/// The gradients of the sum of `outputs` with respect to `inputs`, in their shapes. Inputs are any tensors with a history:
/// values of parameters, results of [`requires_grad`](crate::requires_grad), intermediate values. Nothing is accumulated.
///
/// ```
/// use tpu_autograd::{GradOptions, grad, requires_grad};
/// use tpu_core::Tensor;
/// let x = requires_grad(&Tensor::scalar(3.0f64)?)?;
/// let y = x.mul(&x)?.mul(&x)?;
/// let create_graph = GradOptions { create_graph: true, ..GradOptions::default() };
/// let first = grad(&[&y], &[&x], create_graph)?.remove(0);
/// let second = grad(&[&first], &[&x], GradOptions::default())?.remove(0);
/// assert_eq!((first.item::<f64>()?, second.item::<f64>()?), (27.0, 18.0));
/// # Ok::<(), tpu_core::Error>(())
/// ```
pub fn grad(outputs: &[&Tensor], inputs: &[&Tensor], options: GradOptions) -> Result<Vec<Tensor>> {
    let ones = outputs.iter().map(|output| output.ones_like()).collect::<Result<Vec<_>>>()?;
    grad_from(outputs, &ones.iter().collect::<Vec<_>>(), inputs, options)
}

/// [`grad`] given the gradients that the outputs have themselves: a vector-Jacobian product.
pub fn grad_from(
    outputs: &[&Tensor],
    gradients: &[&Tensor],
    inputs: &[&Tensor],
    options: GradOptions,
) -> Result<Vec<Tensor>> {
    let (want, got) = (outputs.len(), gradients.len());
    ensure!(want == got, Value, "grad", "requires one gradient per output, got {got} for {want}");
    let mut seeds = Vec::with_capacity(outputs.len());
    for (&output, &gradient) in outputs.iter().zip(gradients) {
        // An output without history contributes nothing.
        if output.history().is_some() {
            seeds.push(seed(output, gradient)?);
        }
    }
    let mut wanted: Vec<Link> = Vec::with_capacity(inputs.len());
    for (number, input) in inputs.iter().enumerate() {
        wanted.push(input.history().cloned().ok_or_else(|| {
            let message = format!("requires inputs with a history, got none for input {number}, {}", input.ty());
            Error::new(ErrorKind::Value, "grad", message)
        })?);
    }
    let retain = options.retain_graph || options.create_graph;
    let walk = Options { create_graph: options.create_graph, retain, stop: false };
    let reached = tape::to_links(&seeds, &wanted, walk)?;
    let gradients = reached.into_iter().zip(inputs).enumerate().map(|(number, (reached, input))| match reached {
        Reached::Gradient(gradient) => Ok(gradient),
        Reached::Zero => input.detach().zeros_like(),
        Reached::No if options.allow_unused => input.detach().zeros_like(),
        Reached::No => {
            let message = format!("requires outputs that depend on every input, got input {number} unused");
            Err(Error::new(ErrorKind::Value, "grad", message))
        }
    });
    gradients.collect()
}

/// Runs `loss` and gives its value, without history, and its gradients with respect to `params`, zeros where it does not
/// depend on one. Gradients kept in the parameters are left alone.
///
/// ```
/// use tpu_autograd::{Param, value_and_grad};
/// use tpu_core::Tensor;
/// let w = Param::new(Tensor::from_slice(&[1.0f32, 2.0])?);
/// let (loss, gradients) = value_and_grad(&[&w], || w.value().square()?.sum_all())?;
/// assert_eq!(loss.item::<f32>()?, 5.0);
/// assert_eq!(gradients[0].to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
pub fn value_and_grad(params: &[&Param], loss: impl FnOnce() -> Result<Tensor>) -> Result<(Tensor, Vec<Tensor>)> {
    let loss = loss()?;
    let one = one(&loss)?;
    let values: Vec<Tensor> = params.iter().map(|param| param.leaf()).collect();
    let options = GradOptions { allow_unused: true, ..GradOptions::default() };
    let gradients = grad_from(&[&loss], &[&one.1], &values.iter().collect::<Vec<_>>(), options)?;
    Ok((loss.detach(), gradients))
}

/// The start of a walk from a tensor of one element.
fn one(output: &Tensor) -> Result<(Link, Tensor)> {
    let elements = output.elements();
    ensure!(
        elements == 1,
        Shape,
        "backward",
        "requires a tensor of one element, got {}: give the gradient it has itself",
        output.ty()
    );
    seed(output, &output.detach().ones_like()?)
}

fn seed(output: &Tensor, gradient: &Tensor) -> Result<(Link, Tensor)> {
    let (want, got) = (output.ty(), gradient.ty());
    ensure!(want == got, Shape, "backward", "requires a gradient of the output's type {want}, got {got}");
    let link = output.history().cloned().ok_or_else(|| {
        let message = format!("requires a tensor that depends on a parameter, got {want} without history");
        Error::new(ErrorKind::Value, "backward", message)
    })?;
    Ok((link, gradient.clone()))
}

fn accumulate(seed: (Link, Tensor), retain: bool) -> Result<()> {
    let leaves = tape::to_leaves(&[seed], Options { create_graph: false, retain, stop: false })?;
    for (cell, gradient) in leaves {
        if let Some(param) = cell.upgrade() {
            param.accumulate(gradient)?;
        }
    }
    Ok(())
}
