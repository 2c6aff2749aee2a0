//! Shape rules: from an op and its operand types to its result types.
//!
//! [`infer`] runs whenever an operation is recorded, so the rules of elementwise operations allocate nothing and
//! format nothing unless they fail. A rule checks one condition at a time, in the order in which a reader of the
//! message would ask: number of operands, dtypes, ranks, attributes, sizes.

mod collective;
mod contraction;
mod control;
mod elementwise;
mod indexing;
mod linalg;
mod reduce;
mod shape_ops;
mod sort;
mod window;

use super::{BlockId, Graph, Op, Type, support};
use crate::{DType, Error, ErrorKind, Result, Shape, ensure};
use smallvec::SmallVec;
use std::sync::Arc;

/// Types of the blocks that an op owns; from a graph, or from programs that stand for blocks 0, 1, ….
pub trait Signatures {
    /// Types of a block's parameters.
    fn parameters(&self, block: BlockId) -> Vec<Type>;
    /// Types of a block's results.
    fn results(&self, block: BlockId) -> Vec<Type>;
}

impl Signatures for Graph {
    fn parameters(&self, block: BlockId) -> Vec<Type> {
        self.parameter_types(block).cloned().collect()
    }
    fn results(&self, block: BlockId) -> Vec<Type> {
        self.result_types(block).cloned().collect()
    }
}

impl Signatures for [Arc<Graph>] {
    fn parameters(&self, block: BlockId) -> Vec<Type> {
        let graph = &self[block.0 as usize];
        graph.parameter_types(graph.main()).cloned().collect()
    }
    fn results(&self, block: BlockId) -> Vec<Type> {
        let graph = &self[block.0 as usize];
        graph.result_types(graph.main()).cloned().collect()
    }
}

/// Result types of one operation.
type Types = SmallVec<[Type; 1]>;

/// The most axes a tensor can have, as in PyTorch and NumPy. Sets of axes fit into one word.
pub const MAX_RANK: usize = 64;

/// The result types of `op` on `operands`, or an error that names the op, the condition and the facts.
///
/// ```
/// use tpu_core::ir::{BinaryOp, Graph, Op, Type, infer::infer};
/// use tpu_core::DType;
/// let (lhs, rhs) = (Type::new(DType::F32, [2, 3]), Type::new(DType::F32, [3]));
/// let error = infer(&Op::Binary(BinaryOp::Add), &[&lhs, &rhs], &Graph::new()).unwrap_err();
/// assert_eq!(error.to_string(), "add requires operands of one shape, got lhs float32[2, 3] and rhs float32[3]");
/// ```
pub fn infer<S: Signatures + ?Sized>(op: &Op, operands: &[&Type], blocks: &S) -> Result<SmallVec<[Type; 1]>> {
    match op {
        Op::Parameter { ty, .. } => source(op, operands, ty.clone()),
        Op::Constant(literal) => source(op, operands, Type::new(literal.dtype(), literal.shape())),
        Op::Iota { axis, dtype, shape } => shape_ops::iota(op, operands, *axis, *dtype, shape),

        Op::Unary(kind) => elementwise::unary(op, *kind, operands),
        Op::Binary(_) => elementwise::binary(op, operands),
        Op::Compare(_) => elementwise::compare(op, operands),
        Op::Select => elementwise::select(op, operands),
        Op::Clamp => elementwise::clamp(op, operands),
        Op::Complex => elementwise::complex(op, operands),
        Op::Convert(dtype) => elementwise::convert(op, operands, *dtype),
        Op::BitcastConvert(dtype) => elementwise::bitcast_convert(op, operands, *dtype),
        Op::ReducePrecision { exponent_bits, mantissa_bits } => {
            elementwise::reduce_precision(op, operands, *exponent_bits, *mantissa_bits)
        }

        Op::BroadcastInDim { shape, axes } => shape_ops::broadcast_in_dim(op, operands, shape, axes),
        Op::Reshape(shape) => shape_ops::reshape(op, operands, shape),
        Op::Transpose(permutation) => shape_ops::transpose(op, operands, permutation),
        Op::Slice { start, limit, strides } => shape_ops::slice(op, operands, start, limit, strides),
        Op::DynamicSlice { sizes } => indexing::dynamic_slice(op, operands, sizes),
        Op::DynamicUpdateSlice => indexing::dynamic_update_slice(op, operands),
        Op::Pad { low, high, interior } => shape_ops::pad(op, operands, low, high, interior),
        Op::Concatenate { axis } => shape_ops::concatenate(op, operands, *axis),
        Op::Reverse(axes) => shape_ops::reverse(op, operands, axes),

        Op::Reduce { axes, .. } => reduce::reduce(op, operands, axes),
        Op::ArgReduce { axis, .. } => reduce::arg_reduce(op, operands, *axis),
        Op::ReduceWindow { window, .. } => reduce::reduce_window(op, operands, window),
        Op::SelectAndScatter { window, .. } => reduce::select_and_scatter(op, operands, window),
        Op::Cumulative { axis, .. } => reduce::cumulative(op, operands, *axis),

        Op::DotGeneral(dims) => contraction::dot_general(op, operands, dims),
        Op::Convolution(dims) => contraction::convolution(op, operands, dims),

        Op::Gather(dims) => indexing::gather(op, operands, dims),
        Op::Scatter(dims) => indexing::scatter(op, operands, dims),
        Op::Sort { axis, .. } => sort::sort(op, operands, *axis),
        Op::TopK { k, .. } => sort::top_k(op, operands, *k),

        Op::RngBits(shape) => shape_ops::rng_bits(op, operands, shape),

        Op::Fft { kind, lengths } => linalg::fft(op, operands, *kind, lengths),
        Op::Cholesky { .. } => linalg::cholesky(op, operands),
        Op::TriangularSolve { left, .. } => linalg::triangular_solve(op, operands, *left),
        Op::Qr => linalg::qr(op, operands),
        Op::Eigh => linalg::eigh(op, operands),
        Op::Lu => linalg::lu(op, operands),

        Op::While { cond, body } => control::while_loop(op, operands, *cond, *body, blocks),
        Op::Case { branches } => control::case(op, operands, branches, blocks),

        Op::AllReduce { groups, .. } => collective::all_reduce(op, operands, groups),
        Op::AllGather { axis, groups } => collective::all_gather(op, operands, *axis, groups),
        Op::ReduceScatter { axis, groups, .. } => collective::reduce_scatter(op, operands, *axis, groups),
        Op::AllToAll { split_axis, concat_axis, groups } => {
            collective::all_to_all(op, operands, *split_axis, *concat_axis, groups)
        }
        Op::CollectivePermute { pairs, channel } => collective::collective_permute(op, operands, pairs, *channel),
        Op::ReplicaId | Op::PartitionId => source(op, operands, Type::new(DType::U32, Shape::scalar())),

        Op::CustomCall(call) => control::custom_call(op, call),
        Op::OptimizationBarrier => Ok(operands.iter().copied().cloned().collect()),
        Op::Composite { name, attributes, body } => control::composite(op, operands, name, attributes, *body, blocks),
    }
}

/// One result.
#[inline]
fn single(ty: Type) -> Result<Types> {
    Ok(SmallVec::from_buf([ty]))
}

/// The result of an op without operands.
fn source(op: &Op, operands: &[&Type], ty: Type) -> Result<Types> {
    let [] = exactly(op, operands)?;
    representable(op, &ty.shape)?;
    single(ty)
}

/// The operands, if there are `N`.
#[inline]
fn exactly<'a, const N: usize>(op: &Op, operands: &[&'a Type]) -> Result<[&'a Type; N]> {
    <[&Type; N]>::try_from(operands).map_err(|_| {
        let plural = if N == 1 { "" } else { "s" };
        Error::new(ErrorKind::Value, op.name(), format!("requires {N} operand{plural}, got {}", operands.len()))
    })
}

/// The first operand and the others.
fn at_least_one<'a, 'b>(op: &Op, operands: &'b [&'a Type]) -> Result<(&'a Type, &'b [&'a Type])> {
    match operands {
        [first, rest @ ..] => Ok((first, rest)),
        [] => Err(Error::new(ErrorKind::Value, op.name(), "requires at least 1 operand, got 0")),
    }
}

/// That the data operand, called `name`, has a dtype that the op takes.
#[inline]
fn takes(op: &Op, name: &str, ty: &Type) -> Result<()> {
    let dtypes = support::dtypes(op);
    ensure!(dtypes.contains(ty.dtype), DType, op.name(), "requires {name} of {dtypes} dtype, got {ty}");
    Ok(())
}

/// That two operands have one dtype.
#[inline]
fn same_dtype(op: &Op, lhs: (&str, &Type), rhs: (&str, &Type)) -> Result<()> {
    let ((left, a), (right, b)) = (lhs, rhs);
    ensure!(a.dtype == b.dtype, DType, op.name(), "requires operands of one dtype, got {left} {a} and {right} {b}");
    Ok(())
}

/// That two operands have one shape.
#[inline]
fn same_shape(op: &Op, lhs: (&str, &Type), rhs: (&str, &Type)) -> Result<()> {
    let ((left, a), (right, b)) = (lhs, rhs);
    ensure!(a.shape == b.shape, Shape, op.name(), "requires operands of one shape, got {left} {a} and {right} {b}");
    Ok(())
}

/// That an operand is an integer.
fn is_integer(op: &Op, name: &str, ty: &Type) -> Result<()> {
    ensure!(ty.dtype.is_integer(), DType, op.name(), "requires {name} of integer dtype, got {ty}");
    Ok(())
}

/// That an axis exists; `name` says which attribute names it, `ty` what it is an axis of.
fn has_axis(op: &Op, name: &str, axis: usize, ty: &Type) -> Result<()> {
    let rank = ty.shape.rank();
    ensure!(axis < rank, Axis, op.name(), "requires {name} below the rank {rank} of {ty}, got {axis}");
    Ok(())
}

/// A set of axes below [`MAX_RANK`].
#[derive(Clone, Copy, Default)]
struct AxisSet(u64);

impl AxisSet {
    /// Adds axes that must be below `rank` and not in the set yet.
    fn add(&mut self, op: &Op, name: &str, axes: &[usize], rank: usize) -> Result<()> {
        ensure!(rank <= MAX_RANK, Shape, op.name(), "requires at most {MAX_RANK} axes, got {rank}");
        for &axis in axes {
            ensure!(axis < rank, Axis, op.name(), "requires {name} below the rank {rank}, got {axes:?}");
            ensure!(!self.contains(axis), Axis, op.name(), "requires distinct {name}, got {axis} twice");
            self.0 |= 1 << axis;
        }
        Ok(())
    }

    fn contains(self, axis: usize) -> bool {
        axis < MAX_RANK && self.0 >> axis & 1 == 1
    }
}

/// The set of distinct axes below `rank`.
fn axis_set(op: &Op, name: &str, axes: &[usize], rank: usize) -> Result<AxisSet> {
    let mut set = AxisSet::default();
    set.add(op, name, axes, rank)?;
    Ok(set)
}

/// That a list is increasing.
fn increasing(op: &Op, name: &str, axes: &[usize]) -> Result<()> {
    ensure!(axes.is_sorted_by(|a, b| a < b), Axis, op.name(), "requires increasing {name}, got {axes:?}");
    Ok(())
}

/// That an attribute has one entry per axis.
fn per_axis<T: std::fmt::Debug>(op: &Op, name: &str, list: &[T], rank: usize) -> Result<()> {
    ensure!(list.len() == rank, Value, op.name(), "requires {rank} {name}, one per axis, got {list:?}");
    Ok(())
}

/// That a shape can be written down: at most [`MAX_RANK`] axes with sizes below 2^63.
fn representable(op: &Op, shape: &Shape) -> Result<()> {
    let rank = shape.rank();
    ensure!(rank <= MAX_RANK, Shape, op.name(), "requires at most {MAX_RANK} axes, got {rank}");
    for &size in shape.sizes() {
        ensure!(i64::try_from(size).is_ok(), Shape, op.name(), "requires sizes below 2^63, got {size}");
    }
    Ok(())
}

/// A computed size, if it is one.
fn size(op: &Op, axis: usize, computed: i128) -> Result<usize> {
    match i64::try_from(computed) {
        Ok(size @ 0..) => Ok(size as usize),
        _ => {
            let message = format!("requires a size from 0 to 2^63 - 1 of result axis {axis}, got {computed}");
            Err(Error::new(ErrorKind::Shape, op.name(), message))
        }
    }
}

#[cfg(test)]
mod testing {
    use super::*;

    /// A type from its usual spelling: `ty(DType::F32, &[2, 3])`.
    pub fn ty(dtype: DType, sizes: &[usize]) -> Type {
        Type::new(dtype, sizes)
    }

    pub fn f32s(sizes: &[usize]) -> Type {
        ty(DType::F32, sizes)
    }

    /// Result types as text, separated by blanks, or the error.
    pub fn shown(op: Op, operands: &[Type]) -> String {
        let operands: Vec<&Type> = operands.iter().collect();
        match infer(&op, &operands, &Graph::new()) {
            Ok(types) => types.iter().map(Type::to_string).collect::<Vec<_>>().join(" "),
            Err(error) => format!("{error:?}"),
        }
    }
}
