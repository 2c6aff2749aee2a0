//! Modules made of functions and of modules.

use super::{Module, Visitor, call, is_training};
use tpu_core::{Result, Tensor};
use tpu_ops::Generator;

/// Modules one after the other, named `0`, `1`, …. PyTorch's `nn.Sequential`.
///
/// ```
/// use tpu_autograd::nn::{Function, Linear, Module, Sequential};
/// use tpu_core::{DType, Tensor};
/// let generator = tpu_ops::Generator::new(0);
/// let model = Sequential::new()
///     .push(Linear::new(2, 8, true, DType::F32, &generator)?)
///     .push(Function(tpu_ops::relu))
///     .push(Linear::new(8, 1, false, DType::F32, &generator)?);
/// assert_eq!(model.forward(&Tensor::zeros([4, 2], DType::F32)?)?.sizes(), [4, 1]);
/// assert_eq!(model.named_parameters()[2].0, "2.weight");
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[derive(Default)]
pub struct Sequential(Vec<Box<dyn Module + Send + Sync>>);

impl Sequential {
    /// No module yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more module at the end.
    pub fn push(mut self, module: impl Module + Send + Sync + 'static) -> Self {
        self.0.push(Box::new(module));
        self
    }
}

impl Module for Sequential {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        for (at, module) in self.0.iter().enumerate() {
            x = call(&at.to_string(), &**module, &x)?;
        }
        Ok(x)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (at, module) in self.0.iter().enumerate() {
            visitor.module(&at.to_string(), &**module);
        }
    }
}

/// A function without parameters as a module.
#[derive(Clone, Copy, Debug)]
pub struct Function<F>(pub F);

impl<F: Fn(&Tensor) -> Result<Tensor>> Module for Function<F> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        (self.0)(x)
    }

    fn visit(&self, _visitor: &mut Visitor<'_>) {}
}

/// Zeros elements at random in training, as [`tpu_ops::dropout()`]; nothing when [`evaluating`](super::evaluating).
#[derive(Clone, Debug)]
pub struct Dropout {
    /// Probability of a zero.
    pub p: f64,
    /// Where random numbers come from, if not from the current generator.
    pub generator: Option<Generator>,
}

impl Dropout {
    /// With random numbers of the current generator.
    pub fn new(p: f64) -> Self {
        Self { p, generator: None }
    }
}

impl Module for Dropout {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        tpu_ops::dropout(x, self.p, is_training(), self.generator.as_ref())
    }

    fn visit(&self, _visitor: &mut Visitor<'_>) {}
}

/// The axes from `first` to `last` as one. PyTorch's `nn.Flatten`, whose defaults are 1 and −1.
#[derive(Clone, Copy, Debug)]
pub struct Flatten {
    /// The first axis of those.
    pub first: isize,
    /// The last axis of those.
    pub last: isize,
}

impl Default for Flatten {
    fn default() -> Self {
        Self { first: 1, last: -1 }
    }
}

impl Module for Flatten {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.flatten(self.first, self.last)
    }

    fn visit(&self, _visitor: &mut Visitor<'_>) {}
}
