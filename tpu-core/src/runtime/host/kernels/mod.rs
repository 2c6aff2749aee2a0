//! Plain loops for every op that the fused row programs do not take: one kernel per op, dense operands in, dense
//! results out.
//!
//! [`run`] is called from inside the thread pool. A kernel splits its work only when that pays, always by elements of
//! the result, and combines elements in an order that does not depend on the split: the same bits for any number of
//! threads.
//!
//! Types and attributes have passed the shape rules; a kernel still refuses what it does not know, with an error of
//! kind `Internal`, rather than compute something else.

mod accumulate;
mod along;
mod cell;
mod conv;
mod convert;
mod dot;
mod elementwise;
mod fft;
mod frame;
mod gather;
mod index;
mod linalg;
mod movement;
mod phase;
mod random;
mod reduce;
mod scatter;
mod selection;
mod sort;
mod source;
mod split;
mod strided;
mod wide;
mod window;

pub(in crate::runtime::host) use wide::erf_inv;

#[cfg(test)]
mod tests;

use super::scratch::Memory;
use crate::ir::{Op, Type};
use crate::{Error, ErrorKind, Result, bail};
use bytemuck::Pod;

/// A dense row-major operand. Its bytes start on a 64-byte boundary.
#[derive(Clone, Copy)]
pub(crate) struct Operand<'a> {
    /// What it is.
    pub ty: &'a Type,
    /// Its elements.
    pub bytes: &'a [u8],
}

/// Memory for a dense row-major result: contents undefined before, wholly written after. Its bytes start on a 64-byte
/// boundary.
pub(crate) struct Target<'a> {
    /// What it is.
    pub ty: &'a Type,
    /// Where its elements go.
    pub bytes: &'a mut [u8],
}

impl<'a> Operand<'a> {
    /// The elements as `T`, a plain type of the dtype's size.
    fn cells<T: Pod>(&self) -> Result<&'a [T]> {
        if self.bytes.is_empty() {
            return Ok(&[]);
        }
        bytemuck::try_cast_slice(self.bytes).map_err(|_| misfit::<T>(self.ty, self.bytes))
    }

    /// The sizes of the axes.
    fn sizes(&self) -> &'a [usize] {
        self.ty.shape.sizes()
    }
}

impl Target<'_> {
    /// The elements as `T`, a plain type of the dtype's size.
    fn cells<T: Pod>(&mut self) -> Result<&mut [T]> {
        if self.bytes.is_empty() {
            return Ok(&mut []);
        }
        let error = misfit::<T>(self.ty, self.bytes);
        bytemuck::try_cast_slice_mut(self.bytes).map_err(|_| error)
    }
}

fn misfit<T>(ty: &Type, bytes: &[u8]) -> Error {
    let (n, size, align) = (bytes.len(), size_of::<T>(), align_of::<T>());
    let message = format!("cannot read {ty} in {n} bytes as elements of {size} bytes on {align}-byte boundaries");
    Error::new(ErrorKind::Internal, "host kernel", message)
}

/// The operands as an array, or an error that says how many there are.
fn operands<'a, 'b, const N: usize>(op: &Op, list: &'b [Operand<'a>]) -> Result<&'b [Operand<'a>; N]> {
    list.try_into()
        .map_err(|_| Error::new(ErrorKind::Internal, op.name(), format!("requires {N} operands, got {}", list.len())))
}

/// The results as an array, or an error that says how many there are.
fn results<'a, 'b, const N: usize>(op: &Op, list: &'b mut [Target<'a>]) -> Result<&'b mut [Target<'a>; N]> {
    let message = format!("requires {N} results, got {}", list.len());
    list.try_into().map_err(|_| Error::new(ErrorKind::Internal, op.name(), message))
}

/// Whether [`run`] has a kernel for `op`. The others are the executor's: it binds parameters, inlines composites, enters
/// blocks, lets devices meet, and knows nobody else's functions.
#[cfg(test)]
pub(crate) fn has_kernel(op: &Op) -> bool {
    match op {
        Op::Constant(_)
        | Op::Iota { .. }
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Compare(_)
        | Op::Select
        | Op::Clamp
        | Op::Complex
        | Op::Convert(_)
        | Op::BitcastConvert(_)
        | Op::ReducePrecision { .. }
        | Op::BroadcastInDim { .. }
        | Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Slice { .. }
        | Op::DynamicSlice { .. }
        | Op::DynamicUpdateSlice
        | Op::Pad { .. }
        | Op::Concatenate { .. }
        | Op::Reverse(_)
        | Op::Reduce { .. }
        | Op::ArgReduce { .. }
        | Op::ReduceWindow { .. }
        | Op::SelectAndScatter { .. }
        | Op::Cumulative { .. }
        | Op::DotGeneral(_)
        | Op::Convolution(_)
        | Op::Gather(_)
        | Op::Scatter(_)
        | Op::Sort { .. }
        | Op::TopK { .. }
        | Op::RngBits(_)
        | Op::Fft { .. }
        | Op::Cholesky { .. }
        | Op::TriangularSolve { .. }
        | Op::Qr
        | Op::Eigh
        | Op::Lu
        | Op::OptimizationBarrier => true,
        Op::Parameter { .. }
        | Op::Composite { .. }
        | Op::While { .. }
        | Op::Case { .. }
        | Op::AllReduce { .. }
        | Op::AllGather { .. }
        | Op::ReduceScatter { .. }
        | Op::AllToAll { .. }
        | Op::CollectivePermute { .. }
        | Op::ReplicaId
        | Op::PartitionId
        | Op::CustomCall(_) => false,
    }
}

/// The operand in whose memory [`run`] may be asked to leave the result: it is given without bytes then, and its elements are
/// those of the target.
pub(crate) fn in_place(op: &Op) -> Option<usize> {
    matches!(op, Op::DynamicUpdateSlice | Op::Scatter(_)).then_some(0)
}

/// Estimated nanoseconds for each element of operands and results.
pub(crate) fn cost(op: &Op, operand: Option<&Type>) -> f64 {
    let last = || operand.and_then(|ty| ty.shape.sizes().last()).map_or(1.0, |&size| size as f64);
    match op {
        Op::Cholesky { .. } | Op::TriangularSolve { .. } | Op::Qr | Op::Lu => last().max(1.0),
        Op::Eigh => 6.0 * last().max(1.0),
        Op::Fft { .. } => 30.0,
        _ => 1.0,
    }
}

/// Bytes that [`run`] takes from the piece planned for it: of the kernels that must not fail though they need memory.
pub(crate) fn planned_bytes(op: &Op, operands: &[&Type], result: &Type) -> usize {
    match op {
        Op::Gather(dims) => gather::gather_bytes(dims, operands[1].shape.sizes(), result),
        Op::Scatter(dims) => scatter::scatter_bytes(dims, operands[1].shape.sizes(), operands[2].shape.rank()),
        _ => 0,
    }
}

/// Whether [`run`] may fail on operands that the verifier accepts. Kernels that move elements or map them one by one cannot:
/// what memory they need is planned.
pub(crate) fn can_fail(op: &Op) -> bool {
    !matches!(
        op,
        Op::Constant(_)
            | Op::Iota { .. }
            | Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Select
            | Op::Clamp
            | Op::Complex
            | Op::Convert(_)
            | Op::BitcastConvert(_)
            | Op::ReducePrecision { .. }
            | Op::BroadcastInDim { .. }
            | Op::Reshape(_)
            | Op::Transpose(_)
            | Op::Slice { .. }
            | Op::DynamicSlice { .. }
            | Op::DynamicUpdateSlice
            | Op::Pad { .. }
            | Op::Concatenate { .. }
            | Op::Reverse(_)
            | Op::Gather(_)
            | Op::Scatter(_)
            | Op::RngBits(_)
            | Op::OptimizationBarrier
    )
}

/// Runs one op. Errors with `OutOfMemory` when what it needs beside operands and results is not to be had.
pub(crate) fn run(op: &Op, inputs: &[Operand<'_>], outputs: &mut [Target<'_>], memory: Memory<'_>) -> Result<()> {
    match op {
        Op::Constant(literal) => source::constant(literal, results::<1>(op, outputs)?),
        Op::Iota { axis, .. } => source::iota(*axis, results::<1>(op, outputs)?),
        Op::Unary(f) => {
            let [x] = operands(op, inputs)?;
            elementwise::unary(*f, x, results::<1>(op, outputs)?)
        }
        Op::Binary(f) => {
            let [x, y] = operands(op, inputs)?;
            elementwise::binary(*f, x, y, results::<1>(op, outputs)?)
        }
        Op::Compare(f) => {
            let [x, y] = operands(op, inputs)?;
            elementwise::compare(*f, x, y, results::<1>(op, outputs)?)
        }
        Op::Select => elementwise::select(op, operands(op, inputs)?, results::<1>(op, outputs)?),
        Op::Clamp => elementwise::clamp(operands(op, inputs)?, results::<1>(op, outputs)?),
        Op::Complex => {
            let [re, im] = operands(op, inputs)?;
            elementwise::complex(re, im, results::<1>(op, outputs)?)
        }
        Op::Convert(_) => {
            let [x] = operands(op, inputs)?;
            convert::convert(x, results::<1>(op, outputs)?)
        }
        Op::ReducePrecision { exponent_bits, mantissa_bits } => {
            let [x] = operands(op, inputs)?;
            elementwise::reduce_precision(*exponent_bits, *mantissa_bits, x, results::<1>(op, outputs)?)
        }
        Op::BroadcastInDim { axes, .. } => {
            let [x] = operands(op, inputs)?;
            movement::broadcast(axes, x, results::<1>(op, outputs)?)
        }
        // Bits are little endian in memory whatever the width: a bitcast moves nothing.
        Op::Reshape(_) | Op::BitcastConvert(_) => {
            let [x] = operands(op, inputs)?;
            movement::copy(x, results::<1>(op, outputs)?)
        }
        Op::Transpose(permutation) => {
            let [x] = operands(op, inputs)?;
            movement::transpose(permutation, x, results::<1>(op, outputs)?)
        }
        Op::Slice { start, strides, .. } => {
            let [x] = operands(op, inputs)?;
            movement::slice(start, strides, x, results::<1>(op, outputs)?)
        }
        Op::DynamicSlice { .. } => movement::dynamic_slice(op, inputs, results::<1>(op, outputs)?),
        Op::DynamicUpdateSlice => movement::dynamic_update_slice(op, inputs, results::<1>(op, outputs)?),
        Op::Pad { low, interior, .. } => {
            let [x, value] = operands(op, inputs)?;
            movement::pad(low, interior, x, value, results::<1>(op, outputs)?)
        }
        Op::Concatenate { axis } => movement::concatenate(*axis, inputs, results::<1>(op, outputs)?),
        Op::Reverse(axes) => {
            let [x] = operands(op, inputs)?;
            movement::reverse(axes, x, results::<1>(op, outputs)?)
        }
        Op::Reduce { kind, axes } => {
            let [x] = operands(op, inputs)?;
            reduce::reduce(*kind, axes, x, results::<1>(op, outputs)?)
        }
        Op::ArgReduce { kind, axis } => {
            let [x] = operands(op, inputs)?;
            along::arg_reduce(*kind, *axis, x, results::<2>(op, outputs)?)
        }
        Op::ReduceWindow { kind, window } => {
            let [x] = operands(op, inputs)?;
            window::reduce_window(*kind, window, x, results::<1>(op, outputs)?, memory)
        }
        Op::SelectAndScatter { select, window } => {
            selection::select_and_scatter(*select, window, operands(op, inputs)?, results::<1>(op, outputs)?, memory)
        }
        Op::Cumulative { kind, axis, reverse } => {
            let [x] = operands(op, inputs)?;
            along::cumulative(*kind, *axis, *reverse, x, results::<1>(op, outputs)?, memory)
        }
        Op::DotGeneral(dims) => {
            let [lhs, rhs] = operands(op, inputs)?;
            dot::dot_general(dims, lhs, rhs, results::<1>(op, outputs)?, memory)
        }
        Op::Convolution(dims) => {
            let [x, kernel] = operands(op, inputs)?;
            conv::convolution(dims, x, kernel, results::<1>(op, outputs)?, memory)
        }
        Op::Gather(dims) => {
            let [x, indices] = operands(op, inputs)?;
            gather::gather(dims, x, indices, results::<1>(op, outputs)?, memory)
        }
        Op::Scatter(dims) => scatter::scatter(dims, operands(op, inputs)?, results::<1>(op, outputs)?, memory),
        Op::Sort { axis, descending, .. } => sort::sort(*axis, *descending, inputs, outputs, memory),
        Op::TopK { k, largest } => {
            let [x] = operands(op, inputs)?;
            sort::top_k(*k, *largest, x, results::<2>(op, outputs)?, memory)
        }
        Op::RngBits(_) => {
            let [seed, offset] = operands(op, inputs)?;
            random::bits(seed, offset, results::<1>(op, outputs)?)
        }
        Op::Fft { kind, lengths } => {
            let [x] = operands(op, inputs)?;
            fft::fft(*kind, lengths, x, results::<1>(op, outputs)?, memory)
        }
        Op::Cholesky { lower } => {
            let [x] = operands(op, inputs)?;
            linalg::cholesky(op, *lower, x, results::<1>(op, outputs)?, memory)
        }
        Op::TriangularSolve { left, lower, unit_diagonal, transpose } => {
            let (left, lower, unit_diagonal, transpose) = (*left, *lower, *unit_diagonal, *transpose);
            let solve = linalg::Solve { left, lower, unit_diagonal, transpose };
            linalg::triangular_solve(op, solve, operands(op, inputs)?, results::<1>(op, outputs)?, memory)
        }
        Op::Qr => {
            let [x] = operands(op, inputs)?;
            linalg::qr(op, x, results::<2>(op, outputs)?, memory)
        }
        Op::Eigh => {
            let [x] = operands(op, inputs)?;
            linalg::eigh(op, x, results::<2>(op, outputs)?, memory)
        }
        Op::Lu => {
            let [x] = operands(op, inputs)?;
            linalg::lu(op, x, results::<3>(op, outputs)?, memory)
        }
        Op::OptimizationBarrier => {
            for (x, y) in inputs.iter().zip(outputs) {
                y.bytes.copy_from_slice(x.bytes);
            }
            Ok(())
        }
        Op::Parameter { .. }
        | Op::Composite { .. }
        | Op::While { .. }
        | Op::Case { .. }
        | Op::AllReduce { .. }
        | Op::AllGather { .. }
        | Op::ReduceScatter { .. }
        | Op::AllToAll { .. }
        | Op::CollectivePermute { .. }
        | Op::ReplicaId
        | Op::PartitionId
        | Op::CustomCall(_) => bail!(Internal, op.name(), "has no kernel"),
    }
}
