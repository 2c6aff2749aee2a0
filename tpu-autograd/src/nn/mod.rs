//! Modules: functions with named parameters. Names are PyTorch's, so that checkpoints can be exchanged.

mod activation;
mod attention;
mod batch_norm;
mod conv;
mod embedding;
pub mod init;
mod linear;
mod norm;
mod pooling;
mod recurrent;
mod sequential;

pub use activation::PRelu;
pub use attention::{CausalSelfAttention, MultiHeadAttention};
pub use batch_norm::{
    BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d,
    Running,
};
pub use conv::{
    Conv, Conv1d, Conv1dOptions, Conv2d, Conv2dOptions, Conv3d, Conv3dOptions, ConvOptions, ConvTranspose,
    ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, ConvTransposeOptions,
};
pub use embedding::Embedding;
pub use linear::Linear;
pub use norm::{GroupNorm, LayerNorm, RmsNorm};
pub use pooling::{
    AdaptiveAvgPool, AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool, AdaptiveMaxPool1d,
    AdaptiveMaxPool2d, AdaptiveMaxPool3d, AvgPool, AvgPool1d, AvgPool2d, AvgPool3d, MaxPool, MaxPool1d, MaxPool2d,
    MaxPool3d,
};
pub use recurrent::{Cell, Gru, GruCell, Lstm, LstmCell, Recurrent, RecurrentOptions, Rnn, RnnCell, Weights};
pub use sequential::{Dropout, Flatten, Function, Sequential};

use crate::Param;
use std::cell;
use tpu_core::{Result, Tensor, lazy};

/// A function of one tensor with parameters.
///
/// ```
/// use tpu_autograd::nn::{Linear, Module, Visitor, call};
/// use tpu_core::{DType, Result, Tensor};
/// use tpu_ops::Generator;
///
/// struct Mlp { fc1: Linear, fc2: Linear }
/// impl Module for Mlp {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         call("fc2", &self.fc2, &tpu_ops::relu(&call("fc1", &self.fc1, x)?)?)
///     }
///     fn visit(&self, visitor: &mut Visitor<'_>) {
///         visitor.module("fc1", &self.fc1);
///         visitor.module("fc2", &self.fc2);
///     }
/// }
///
/// let generator = Generator::new(0);
/// let mlp = Mlp {
///     fc1: Linear::new(2, 8, true, DType::F32, &generator)?,
///     fc2: Linear::new(8, 1, true, DType::F32, &generator)?,
/// };
/// let names: Vec<String> = mlp.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]);
/// assert_eq!(mlp.forward(&Tensor::zeros([3, 2], DType::F32)?)?.sizes(), [3, 1]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
pub trait Module {
    /// The function.
    fn forward(&self, x: &Tensor) -> Result<Tensor>;

    /// Shows all parameters and inner modules to a visitor, in a fixed order.
    fn visit(&self, visitor: &mut Visitor<'_>);

    /// All parameters with their dotted names, each cell once, by its first name.
    fn named_parameters(&self) -> Vec<(String, Param)> {
        named(self, |kind| kind == Kind::Parameter)
    }

    /// All buffers with their dotted names, each cell once: what a module keeps that no gradient changes, such as running
    /// statistics.
    fn named_buffers(&self) -> Vec<(String, Param)> {
        named(self, |kind| kind == Kind::Buffer)
    }

    /// Parameters and buffers as they come, with PyTorch's names in its `state_dict`: what a checkpoint holds.
    fn named_state(&self) -> Vec<(String, Param)> {
        named(self, |_| true)
    }

    /// All parameters, each cell once.
    fn parameters(&self) -> Vec<Param> {
        self.named_parameters().into_iter().map(|(_, param)| param).collect()
    }

    /// Forgets all gradients.
    fn zero_grad(&self) {
        self.parameters().iter().for_each(Param::zero_grad);
    }
}

fn named(module: &(impl Module + ?Sized), wanted: fn(Kind) -> bool) -> Vec<(String, Param)> {
    let mut found: Vec<(String, Param)> = Vec::new();
    let mut add = |kind: Kind, name: &str, param: &Param| {
        if wanted(kind) && !found.iter().any(|(_, known)| known.is(param)) {
            found.push((name.to_owned(), param.clone()));
        }
    };
    module.visit(&mut Visitor { prefix: String::new(), found: &mut add });
    found
}

/// What a cell of a module is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Parameter,
    Buffer,
}

/// What [`Module::visit`] shows parameters, buffers and inner modules to.
pub struct Visitor<'a> {
    prefix: String,
    found: &'a mut dyn FnMut(Kind, &str, &Param),
}

impl Visitor<'_> {
    /// A parameter of the module itself.
    pub fn param(&mut self, name: &str, param: &Param) {
        (self.found)(Kind::Parameter, &format!("{}{name}", self.prefix), param);
    }

    /// A parameter that may be missing.
    pub fn optional(&mut self, name: &str, param: Option<&Param>) {
        if let Some(param) = param {
            self.param(name, param);
        }
    }

    /// A buffer of the module itself: see [`Module::named_buffers`].
    pub fn buffer(&mut self, name: &str, buffer: &Param) {
        (self.found)(Kind::Buffer, &format!("{}{name}", self.prefix), buffer);
    }

    /// An inner module; its parameters' names start with `name` and a dot.
    pub fn module(&mut self, name: &str, module: &(impl Module + ?Sized)) {
        let length = self.prefix.len();
        self.prefix.push_str(name);
        self.prefix.push('.');
        module.visit(self);
        self.prefix.truncate(length);
    }
}

/// Runs an inner module under its name: errors and reports show it beside the source line.
pub fn call(name: &str, module: &(impl Module + ?Sized), x: &Tensor) -> Result<Tensor> {
    lazy::scope(name, || module.forward(x))
}

thread_local! {
    static TRAINING: cell::Cell<bool> = const { cell::Cell::new(true) };
}

/// Whether modules of this thread behave as in training: dropout drops. True outside of [`evaluating`].
pub fn is_training() -> bool {
    TRAINING.with(cell::Cell::get)
}

/// Runs `f` with modules of this thread behaving as in evaluation: dropout does nothing. PyTorch's `model.eval()`.
pub fn evaluating<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            TRAINING.with(|training| training.set(self.0));
        }
    }
    let _restore = Restore(TRAINING.with(|training| training.replace(false)));
    f()
}
