//! Parameters: the one mutable cell of the stack below torch-compat.

use crate::history::Node;
use crate::mode::is_grad_enabled;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use tpu_core::lazy::Outcome;
use tpu_core::tensor::Link;
use tpu_core::{DType, Error, Result, Shape, Tensor, ensure};

/// A tensor that training changes: a cell with the current value and the gradient that backward passes have added up.
/// Clones are the same cell.
///
/// ```
/// use tpu_autograd::{Backward, Param};
/// use tpu_core::Tensor;
/// let w = Param::new(Tensor::from_slice(&[3.0f32])?);
/// w.value().square()?.sum_all()?.backward()?;
/// w.set(&w.value().detach() - w.grad().unwrap() * 0.5)?;
/// assert_eq!(w.value().to_vec::<f32>()?, [0.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Param(Arc<Cell>);

pub(crate) struct Cell {
    /// Where the histories of all values of this parameter end.
    leaf: Link,
    state: Mutex<State>,
}

struct State {
    /// Nobody else in this crate holds it, so that the program that computes the next one can overwrite it.
    value: Tensor,
    /// What becomes of the value, if it was set.
    outcome: Option<Outcome>,
    grad: Option<Tensor>,
    requires_grad: bool,
}

impl Param {
    /// A parameter with this value. The caller gives it away: as long as it keeps a clone, the first update needs new
    /// memory.
    pub fn new(value: Tensor) -> Self {
        let requires_grad = value.dtype().is_differentiable();
        Self(Arc::new_cyclic(|cell: &Weak<Cell>| Cell {
            leaf: Node::leaf(cell.clone()),
            state: Mutex::new(State { value: value.detach(), outcome: None, grad: None, requires_grad }),
        }))
    }

    /// A cell that requires no gradient: what a module keeps besides its parameters, such as running statistics.
    pub fn buffer(value: Tensor) -> Self {
        let buffer = Self::new(value);
        buffer.0.lock().requires_grad = false;
        // What fails here fails for whoever reads it.
        let _ = buffer.realize();
        buffer
    }

    /// The current value, with a history that leads here if the parameter requires gradients and they are
    /// [enabled](crate::no_grad).
    ///
    /// If the step that gave this value fails while running, whatever is computed from it fails with that step's error, until
    /// the user is told of it: by reading such a value, saving it, or by [`Optimizer::step`](crate::optim::Optimizer::step). From
    /// then on this is the value before that step.
    pub fn value(&self) -> Tensor {
        let mut state = self.0.lock();
        state.restore();
        let history = (state.requires_grad && is_grad_enabled()).then(|| self.0.leaf.clone());
        state.value.with_history(history)
    }

    /// The current value with its leaf, whatever is enabled.
    pub(crate) fn leaf(&self) -> Tensor {
        let mut state = self.0.lock();
        state.restore();
        state.value.with_history(Some(self.0.leaf.clone()))
    }

    /// Replaces the value; a history that `value` has is dropped. Errors if its type is not that of the parameter.
    ///
    /// The memory of the old value is free for the program that computes the new one, unless somebody holds a clone.
    pub fn set(&self, value: Tensor) -> Result<()> {
        let mut state = self.0.lock();
        let (want, got) = (state.value.ty(), value.ty());
        ensure!(want == got, Shape, "set", "requires a value of the parameter's type {want}, got {got}");
        value.replaces(&state.value);
        state.outcome = Some(value.outcome());
        state.value = value.detach();
        Ok(())
    }

    /// What becomes of the current value, if it was set.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.0.lock().outcome.clone()
    }

    /// Makes the value real, so that there is one to go back to if the first step fails. As long as it is only recorded, it
    /// would be part of that step.
    pub(crate) fn realize(&self) -> Result<()> {
        self.0.lock().value.realize()
    }

    /// The error of a value that has failed and has none before it to go back to.
    pub(crate) fn lost(&self) -> Option<Error> {
        self.value().error()
    }

    /// What backward passes have added up since the last [`zero_grad`](Self::zero_grad).
    pub fn grad(&self) -> Option<Tensor> {
        self.0.lock().grad.clone()
    }

    /// Replaces the gradient. Errors if its type is not that of the parameter.
    pub fn set_grad(&self, grad: Option<Tensor>) -> Result<()> {
        let mut state = self.0.lock();
        if let Some(grad) = &grad {
            let (want, got) = (state.value.ty(), grad.ty());
            ensure!(want == got, Shape, "set_grad", "requires a gradient of the parameter's type {want}, got {got}");
        }
        state.grad = grad.map(|grad| grad.detach());
        Ok(())
    }

    /// Takes the gradient, leaving none.
    pub fn take_grad(&self) -> Option<Tensor> {
        self.0.lock().grad.take()
    }

    /// Forgets the gradient.
    pub fn zero_grad(&self) {
        drop(self.take_grad());
    }

    /// Whether backward passes come here.
    pub fn requires_grad(&self) -> bool {
        self.0.lock().requires_grad
    }

    /// Freezes or unfreezes the parameter. Errors for dtypes without derivatives.
    pub fn set_requires_grad(&self, requires_grad: bool) -> Result<()> {
        let dtype = self.dtype();
        ensure!(
            !requires_grad || dtype.is_differentiable(),
            DType,
            "set_requires_grad",
            "requires a float or complex dtype, got {dtype}"
        );
        self.0.lock().requires_grad = requires_grad;
        Ok(())
    }

    /// The shape, which never changes.
    pub fn shape(&self) -> Shape {
        self.0.lock().value.shape().clone()
    }

    /// The element type, which never changes.
    pub fn dtype(&self) -> DType {
        self.0.lock().value.dtype()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.0.lock().value.elements()
    }

    /// Whether both are the same cell.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Cell {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every writer stores whole values.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds to the gradient.
    pub fn accumulate(&self, gradient: Tensor) -> Result<()> {
        let mut state = self.lock();
        if state.requires_grad {
            let sum = match &state.grad {
                Some(sum) => sum.add(&gradient)?,
                None => gradient,
            };
            state.grad = Some(sum);
        }
        Ok(())
    }
}

impl State {
    /// Goes back to the value before a step that failed, if the user knows that it has.
    fn restore(&mut self) {
        let told = |outcome: &Outcome| outcome.error().is_some_and(|error| outcome.was_told(&error));
        if self.outcome.as_ref().is_some_and(told)
            && let Some(restored) = self.value.restored()
        {
            (self.value, self.outcome) = (restored, None);
        }
    }
}

impl fmt::Debug for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock();
        let grad = if state.grad.is_some() { ", with gradient" } else { "" };
        write!(f, "Param({}{grad})", state.value.ty())
    }
}

/// The same value as a leaf of a history: what is computed from it can be differentiated with respect to it by
/// [`grad`](crate::grad). Errors for dtypes without derivatives.
pub fn requires_grad(tensor: &Tensor) -> Result<Tensor> {
    let dtype = tensor.dtype();
    ensure!(dtype.is_differentiable(), DType, "requires_grad", "requires a float or complex dtype, got {dtype}");
    Ok(tensor.with_history(Some(Node::leaf(Weak::new()))))
}
