//! The derivatives: one rule per core operation.
//!
//! A rule has two parts. [`saves`] says, when the operation is recorded, which of its operands and results the derivative
//! will read; only these stay in memory. [`gradients`] turns the gradients of the results into those of the operands, by
//! recording tensor operations, so that they can be differentiated again.
//!
//! Gradients of complex numbers follow PyTorch: the gradient of a real L with respect to z = x + iy is ∂L/∂x + i ∂L/∂y, so
//! a holomorphic function's gradient is multiplied by the conjugate of its derivative.
//!
//! Operations on floats whose gradient is zero almost everywhere, such as rounding, have that zero. These have none, and say
//! so by name when a backward pass comes to them:
//!
//! | operation | why |
//! |---|---|
//! | `while` | a backward pass needs the values of every iteration, whose number is not known when recording |
//! | `custom_call` | nothing is known of what it computes |
//! | `bitcast_convert` between floats | bits are no differentiable function of a number |
//!
//! Results of integers and bools end a history without an error, as in PyTorch. Equal extremes share a gradient evenly in
//! reductions, scatters and collectives; reductions over windows and searches for an index give it to the first of them.

mod arithmetic;
mod collective;
pub(crate) mod composite;
mod contraction;
mod control;
mod convolution;
mod fourier;
mod functions;
mod indexing;
mod layout;
mod linalg;
mod order;
mod reduction;
mod window;

use crate::history::{Node, Operation, Saved, SavedOperand};
use smallvec::SmallVec;
use tpu_core::ir::{Axes, BlockId, Graph, Op, Type};
use tpu_core::tensor::{Link, Operand};
use tpu_core::{DType, Error, ErrorKind, Literal, Result, Scalar, Shape, Tensor, bail};

/// For each operand its gradient, if it is needed and not zero.
pub(crate) type Gradients = SmallVec<[Option<Tensor>; 2]>;

/// Which operands and results a derivative reads, as bits. Their types are always known, numbers too.
#[derive(Clone, Copy, Default)]
pub(crate) struct Saves {
    operands: u64,
    results: u64,
}

impl Saves {
    const NOTHING: Self = Self { operands: 0, results: 0 };

    /// Operand `at`.
    const fn input(at: usize) -> Self {
        Self { operands: 1 << at, results: 0 }
    }

    /// Result `at`.
    const fn output(at: usize) -> Self {
        Self { operands: 0, results: 1 << at }
    }

    const fn and(self, other: Self) -> Self {
        Self { operands: self.operands | other.operands, results: self.results | other.results }
    }

    /// These, if the condition holds.
    const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NOTHING }
    }

    /// Operands from `first` on.
    const fn inputs_from(first: usize) -> Self {
        Self { operands: u64::MAX << first, results: 0 }
    }

    pub fn operand(self, at: usize) -> bool {
        // The last bit speaks for all operands from there on.
        self.operands >> at.min(63) & 1 == 1
    }

    pub fn result(self, at: usize) -> bool {
        at < 64 && self.results >> at & 1 == 1
    }
}

/// What a rule works on.
pub(crate) struct Context<'a> {
    op: &'a Op,
    operands: &'a [Type],
    results: &'a [Type],
    arrived: &'a [Option<Tensor>],
    needs: &'a [bool],
    /// Whether the operation's indices were checked.
    checked: bool,
    /// What the operation's block numbers stand for.
    blocks: SmallVec<[(&'a Graph, BlockId); 2]>,
    saved_operands: SmallVec<[SavedOperand; 2]>,
    saved_results: SmallVec<[Option<Tensor>; 1]>,
}

impl<'a> Context<'a> {
    /// With `histories`, saved values get theirs back, for gradients of gradients.
    pub fn new(
        node: &Node,
        operation: &'a Operation,
        saved: Saved,
        arrived: &'a [Option<Tensor>],
        needs: &'a [bool],
        histories: Option<&Link>,
    ) -> Self {
        let (mut saved_operands, mut saved_results) = (saved.operands, saved.results);
        if let Some(own) = histories {
            for (operand, parent) in saved_operands.iter_mut().zip(&node.parents) {
                if let SavedOperand::Tensor(tensor) = operand {
                    *tensor = tensor.with_history(parent.clone());
                }
            }
            for (number, result) in saved_results.iter_mut().enumerate() {
                if let Some(tensor) = result.as_mut().filter(|tensor| tensor.dtype().is_differentiable()) {
                    let link = Link { history: own.history.clone(), result: number as u32 };
                    *tensor = tensor.with_history(Some(link));
                }
            }
        }
        let (operands, results) = (&operation.operands[..], &operation.results[..]);
        let (op, checked) = (&operation.op, operation.checked);
        let blocks = operation.regions.iter().map(|region| (&**region, region.main())).collect();
        Self { op, operands, results, arrived, needs, checked, blocks, saved_operands, saved_results }
    }

    /// The only gradient of an operation of one result.
    fn grad(&self) -> Result<&Tensor> {
        self.grad_of(0).ok_or_else(|| self.missing("gradient", 0))
    }

    /// The gradient of a result, if it is not zero.
    fn grad_of(&self, result: usize) -> Option<&Tensor> {
        self.arrived.get(result)?.as_ref()
    }

    /// The gradient of a result.
    fn grad_or_zeros(&self, result: usize) -> Result<Tensor> {
        match self.grad_of(result) {
            Some(gradient) => Ok(gradient.clone()),
            None => Tensor::zeros(&self.results[result].shape, self.results[result].dtype),
        }
    }

    /// Whether an operand's gradient is needed.
    fn needs(&self, operand: usize) -> bool {
        self.needs[operand]
    }

    /// A saved operand as it was recorded: a tensor or a number.
    fn operand(&self, at: usize) -> Result<Operand<'_>> {
        match &self.saved_operands[at] {
            SavedOperand::Tensor(tensor) => Ok(Operand::Tensor(tensor)),
            &SavedOperand::Number(number) => Ok(Operand::Number(number)),
            &SavedOperand::Scalar(dtype, number) => Ok(Operand::Scalar(dtype, number)),
            SavedOperand::TypeOnly => Err(self.missing("operand", at)),
        }
    }

    /// A saved operand as a tensor, numbers spread over their shape.
    fn input(&self, at: usize) -> Result<Tensor> {
        match self.operand(at)? {
            Operand::Tensor(tensor) => Ok(tensor.clone()),
            Operand::Number(number) | Operand::Scalar(_, number) => {
                Tensor::full(&self.operands[at].shape, number, self.operands[at].dtype)
            }
        }
    }

    /// A saved result.
    fn output(&self, at: usize) -> Result<&Tensor> {
        self.saved_results[at].as_ref().ok_or_else(|| self.missing("result", at))
    }

    fn missing(&self, what: &str, at: usize) -> Error {
        Error::new(ErrorKind::Internal, self.op.name(), format!("requires {what} {at} for its derivative"))
    }

    /// The gradient of an operation of one operand.
    fn one(&self, gradient: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Gradients> {
        Ok(SmallVec::from_iter([Some(gradient(self.grad()?)?)]))
    }

    /// The gradients of an operation of two operands, as far as they are needed.
    fn two(
        &self,
        first: impl FnOnce(&Tensor) -> Result<Tensor>,
        second: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Gradients> {
        let gradient = self.grad()?;
        let first = if self.needs(0) { Some(first(gradient)?) } else { None };
        let second = if self.needs(1) { Some(second(gradient)?) } else { None };
        Ok(SmallVec::from_iter([first, second]))
    }

    /// No gradient for any operand.
    fn none(&self) -> Gradients {
        SmallVec::from_elem(None, self.operands.len())
    }

    fn no_derivative<T>(&self, why: &str) -> Result<T> {
        bail!(Unsupported, self.op.name(), "has no derivative{why}")
    }
}

/// What an operation's derivative reads. `needs`: whose gradients it may be asked for.
pub(crate) fn saves(op: &Op, needs: &[bool]) -> Saves {
    match op {
        Op::Unary(kind) => functions::saves(*kind),
        Op::Binary(kind) => arithmetic::saves(*kind, needs),
        Op::Select => Saves::input(0),
        Op::Clamp => Saves::inputs_from(0),
        Op::Reduce { kind, .. } => reduction::saves(*kind),
        Op::ArgReduce { .. } => Saves::output(1),
        Op::ReduceWindow { kind, .. } => window::saves(*kind),
        Op::SelectAndScatter { .. } => Saves::input(0),
        Op::Cumulative { kind, .. } => reduction::cumulative_saves(*kind),
        Op::DotGeneral(_) | Op::Convolution(_) => Saves::input(0).when(needs[1]).and(Saves::input(1).when(needs[0])),
        Op::Gather(_) => Saves::input(1),
        Op::Scatter(dims) => indexing::scatter_saves(dims),
        Op::DynamicSlice { .. } => Saves::inputs_from(1),
        Op::DynamicUpdateSlice => Saves::inputs_from(2),
        Op::Sort { .. } => Saves::input(0),
        Op::TopK { .. } => Saves::output(1),
        Op::Cholesky { .. } => Saves::output(0),
        Op::TriangularSolve { .. } => Saves::input(0).and(Saves::output(0).when(needs[0])),
        Op::Qr | Op::Eigh | Op::Lu => Saves::output(0).and(Saves::output(1)).and(Saves::output(2)),
        Op::AllReduce { kind, .. } | Op::ReduceScatter { kind, .. } => reduction::saves(*kind),
        Op::Case { .. } => Saves::inputs_from(0),
        Op::Composite { name, .. } => composite::saves(name),
        Op::Parameter { .. }
        | Op::Constant(_)
        | Op::Iota { .. }
        | Op::Compare(_)
        | Op::Complex
        | Op::Convert(_)
        | Op::BitcastConvert(_)
        | Op::ReducePrecision { .. }
        | Op::BroadcastInDim { .. }
        | Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Slice { .. }
        | Op::Pad { .. }
        | Op::Concatenate { .. }
        | Op::Reverse(_)
        | Op::RngBits(_)
        | Op::Fft { .. }
        | Op::While { .. }
        | Op::AllGather { .. }
        | Op::AllToAll { .. }
        | Op::CollectivePermute { .. }
        | Op::ReplicaId
        | Op::PartitionId
        | Op::CustomCall(_)
        | Op::OptimizationBarrier => Saves::NOTHING,
    }
}

/// The gradients of an operation's operands.
pub(crate) fn gradients(cx: &Context<'_>) -> Result<Gradients> {
    match cx.op {
        Op::Unary(kind) => functions::gradients(cx, *kind),
        Op::Binary(kind) => arithmetic::gradients(cx, *kind),
        Op::Select => arithmetic::select(cx),
        Op::Clamp => arithmetic::clamp(cx),
        Op::Complex => cx.two(|g| g.real(), |g| g.imag()),
        Op::Convert(_) => cx.one(|g| convert(g, cx.operands[0].dtype)),
        Op::ReducePrecision { .. } => cx.one(|g| Ok(g.clone())),
        Op::BroadcastInDim { axes, .. } => cx.one(|g| layout::narrow_to(g, &cx.operands[0].shape, axes)),
        Op::Reshape(_) => cx.one(|g| g.reshape(&cx.operands[0].shape)),
        Op::Transpose(axes) => cx.one(|g| layout::transpose_back(g, axes)),
        Op::Slice { start, strides, .. } => layout::slice(cx, start, strides),
        Op::DynamicSlice { .. } => layout::dynamic_slice(cx),
        Op::DynamicUpdateSlice => layout::dynamic_update_slice(cx),
        Op::Pad { low, high, interior } => layout::pad(cx, low, high, interior),
        Op::Concatenate { axis } => layout::concatenate(cx, *axis),
        Op::Reverse(axes) => cx.one(|g| g.flip(axes.iter().map(|&axis| axis as isize))),
        Op::Reduce { kind, axes } => reduction::gradients(cx, *kind, axes),
        Op::ArgReduce { axis, .. } => reduction::arg_reduce(cx, *axis),
        Op::ReduceWindow { kind, window } => window::gradients(cx, *kind, window),
        Op::SelectAndScatter { select, window } => window::select_and_scatter(cx, *select, window),
        Op::Cumulative { kind, axis, reverse } => reduction::cumulative(cx, *kind, *axis, *reverse),
        Op::DotGeneral(dims) => contraction::gradients(cx, dims),
        Op::Convolution(dims) => convolution::gradients(cx, dims),
        Op::Gather(dims) => indexing::gather(cx, dims),
        Op::Scatter(dims) => indexing::scatter(cx, dims),
        Op::Sort { axis, descending, .. } => order::sort(cx, *axis, *descending),
        Op::TopK { .. } => order::top_k(cx),
        Op::Fft { kind, lengths } => fourier::gradients(cx, *kind, lengths),
        Op::Cholesky { lower } => linalg::cholesky(cx, *lower),
        Op::TriangularSolve { left, lower, unit_diagonal, transpose } => {
            linalg::triangular_solve(cx, *left, *lower, *unit_diagonal, *transpose)
        }
        Op::Qr => linalg::qr(cx),
        Op::Eigh => linalg::eigh(cx),
        Op::Lu => linalg::lu(cx),
        Op::AllReduce { kind, groups } => collective::all_reduce(cx, *kind, groups),
        Op::AllGather { axis, groups } => collective::all_gather(cx, *axis, groups),
        Op::ReduceScatter { kind, axis, groups } => collective::reduce_scatter(cx, *kind, *axis, groups),
        Op::AllToAll { split_axis, concat_axis, groups } => {
            collective::all_to_all(cx, *split_axis, *concat_axis, groups)
        }
        Op::CollectivePermute { pairs, channel } => collective::permute(cx, pairs, *channel),
        Op::OptimizationBarrier => Ok(cx.arrived.iter().cloned().collect()),
        Op::Composite { name, attributes, .. } => composite::gradients(cx, name, attributes),
        Op::Case { .. } => control::case(cx),
        Op::While { .. } => cx.no_derivative(
            ": a backward pass needs the values of every iteration, whose number is not known; unroll the loop, or run it \
             without gradients",
        ),
        Op::BitcastConvert(_) => {
            cx.no_derivative(": bits are no differentiable function of a number; detach its operand")
        }
        Op::CustomCall(_) => cx.no_derivative(": nothing is known of what it computes; detach its operands"),
        // Of dtypes without derivatives, or without operands: never asked.
        Op::Parameter { .. }
        | Op::Constant(_)
        | Op::Iota { .. }
        | Op::Compare(_)
        | Op::RngBits(_)
        | Op::ReplicaId
        | Op::PartitionId => Ok(cx.none()),
    }
}

/// A number that is part of the rule: baked into programs, spread over the type of `like`.
fn constant(like: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
    Tensor::constant(Literal::splat(like.dtype(), like.shape(), value))
}

/// A baked scalar.
fn scalar(dtype: DType, value: impl Into<Scalar>) -> Result<Tensor> {
    Tensor::constant(Literal::splat(dtype, Shape::scalar(), value))
}

/// A constant times a tensor.
fn scaled(tensor: &Tensor, by: f64) -> Result<Tensor> {
    tensor.mul(&constant(tensor, by)?)
}

/// The complex conjugate; real numbers are theirs.
fn conjugate(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() { x.real()?.complex(&x.imag()?.neg()?) } else { Ok(x.clone()) }
}

/// Real numbers as complex ones.
fn complexed(x: &Tensor) -> Result<Tensor> {
    x.complex(&constant(x, 0)?)
}

/// A gradient in the dtype of the operand; of a complex one the real part, if the operand is real.
fn convert(gradient: &Tensor, dtype: DType) -> Result<Tensor> {
    match (gradient.dtype().is_complex(), dtype.is_complex()) {
        (true, false) => gradient.real()?.to_dtype(dtype),
        _ => gradient.to_dtype(dtype),
    }
}

/// Repeated along new axes, or axes of size one: operand axis `i` is result axis `axes[i]`.
fn broadcast(x: &Tensor, shape: &Shape, axes: Axes) -> Result<Tensor> {
    let op = Op::BroadcastInDim { shape: shape.clone(), axes };
    Ok(Tensor::record(op, &[x.into()])?.swap_remove(0))
}

/// Records an operation of one result.
fn record(op: Op, operands: &[&Tensor]) -> Result<Tensor> {
    let operands: SmallVec<[Operand<'_>; 4]> = operands.iter().map(|&operand| operand.into()).collect();
    Ok(Tensor::record(op, &operands)?.swap_remove(0))
}
