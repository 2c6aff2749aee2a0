//! The tensor: an immutable, cheap-to-clone handle of a value that is pending, scheduled, ready or failed.

mod contraction;
mod control;
mod create;
mod display;
mod elementwise;
mod gather;
mod history;
mod index;
mod layout;
mod operators;
mod read;
mod record;
mod reduce;
mod sort;

pub use history::{History, Link, Recorded};
pub use index::{IndexItem, NewAxis, Rest, step};
pub use record::Operand;
#[cfg(any(feature = "reference", test))]
pub(crate) use record::{Check, record};

use crate::ir::{Type, Value};
use crate::lazy::cell::{Cell, Origin};
use crate::lazy::stream::Stream;
use crate::lazy::trace::Trace;
use crate::{DType, Device, Shape};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// An n-dimensional array of one dtype on one device.
///
/// Operations are recorded, not run: they become programs when a value is read, when an optimizer ends a step, or when
/// [`lazy::mark_step`](crate::lazy::mark_step) is called. Shape and dtype errors surface at the call, with its line.
///
/// Methods return `Result`. The infix operators `+ - * / %`, unary `-` and `!` panic where the method of the same
/// meaning errors, as slices panic on an index.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
/// let y = (&x * 2.0 + 1.0).sum([-1], false)?;
/// assert_eq!(y.to_vec::<f32>()?, [15.0, 33.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Tensor {
    cell: Arc<Cell>,
    history: Option<Link>,
}

impl Tensor {
    /// The sizes.
    pub fn shape(&self) -> &Shape {
        &self.cell.ty.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.cell.ty.dtype
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape().rank()
    }

    /// The sizes as plain numbers.
    pub fn sizes(&self) -> &[usize] {
        self.shape().sizes()
    }

    /// Dtype and sizes together.
    pub fn ty(&self) -> &Type {
        &self.cell.ty
    }

    /// Number of elements; `usize::MAX` when there are more.
    pub fn elements(&self) -> usize {
        self.shape().elements().unwrap_or(usize::MAX)
    }

    /// Where it lives.
    pub fn device(&self) -> &Device {
        self.cell.stream.device()
    }

    pub(crate) fn from_cell(cell: Arc<Cell>) -> Self {
        Self { cell, history: None }
    }

    /// A value of a program being traced.
    pub(crate) fn traced(device: &Device, trace: &Arc<Trace>, value: Value, ty: Type) -> Self {
        Self::from_cell(Arc::new(Cell {
            ty,
            stream: Stream::current(device),
            origin: Origin::Trace(Box::new((trace.clone(), value))),
            slot: OnceLock::new(),
            succession: OnceLock::new(),
        }))
    }

    /// What this tensor is in the given trace.
    pub(crate) fn value_in(&self, trace: &Arc<Trace>) -> Option<Value> {
        match &self.cell.origin {
            Origin::Trace(traced) if Arc::ptr_eq(&traced.0, trace) => Some(traced.1),
            _ => None,
        }
    }

    /// An axis counted from the end if negative, as a plain number. The error of one out of range is that of `op`.
    pub fn axis(&self, axis: isize, op: &'static str) -> crate::Result<usize> {
        layout::axis_of(axis, self.rank(), op)
    }
}

impl fmt::Debug for Tensor {
    /// Metadata only; never cuts. [`Display`](fmt::Display) shows the elements.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let history = if self.history.is_some() { ", with history" } else { "" };
        write!(f, "Tensor({:?}{history})", self.cell)
    }
}
