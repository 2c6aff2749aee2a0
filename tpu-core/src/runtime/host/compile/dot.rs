//! Products whose operands are read by strides.

use super::size::{Size, Values};
use super::view::{Axes, View, linear};
use crate::ir::{DotDims, Graph, NodeId, Op, Type};
use crate::runtime::host::dot::{Dot, Matrix, own};
use crate::runtime::host::row::isa::Isa;
use crate::runtime::host::skinny::FEW;
use crate::{DType, ir};

/// The axes of an operand that are neither batch nor contracted.
fn free_axes(rank: usize, batch: &[usize], contract: &[usize]) -> ir::Axes {
    (0..rank).filter(|axis| !batch.contains(axis) && !contract.contains(axis)).collect()
}

/// Elements and the one stride of some axes.
fn joined(view: &View, axes: &[usize]) -> Option<(Size, Size)> {
    let sizes: Axes = axes.iter().map(|&axis| view.sizes[axis]).collect();
    let strides: Axes = axes.iter().map(|&axis| view.strides[axis]).collect();
    Some((sizes.iter().product(), linear(&sizes, &strides)?))
}

/// Whether an operand is a matrix with one stride each way, per batch.
pub(super) fn is_matrix(view: &View, batch: &[usize], contract: &[usize]) -> bool {
    use super::view::Root;
    let Some((rows, down)) = joined(view, &free_axes(view.sizes.len(), batch, contract)) else { return false };
    let Some((cols, along)) = joined(view, contract) else { return false };
    // One of the strides is 1 for the fast paths of `gemm`; repeated elements are not worth a special case.
    let fast = down == 1 || along == 1 || rows == 1 || cols == 1;
    let repeated = (down == 0 && rows > 1) || (along == 0 && cols > 1);
    matches!(view.root, Root::Value(_)) && fast && !repeated
}

/// Whether `gemm` takes a path for this product whose order of sums depends on the strides: the ones for small results,
/// vectors and short sums. Our own products have one order.
pub(super) fn depends_on_layout(graph: &Graph, id: NodeId) -> bool {
    let node = &graph[id];
    let Op::DotGeneral(dims) = &node.op else { return false };
    let size = |operand: usize, axes: &[usize]| {
        axes.iter().map(|&axis| Size::dim(graph.ty(node.operands[operand]).shape.size(axis))).product::<Size>()
    };
    let rank = |operand: usize| graph.ty(node.operands[operand]).shape.rank();
    let m = size(0, &free_axes(rank(0), &dims.lhs_batch, &dims.lhs_contract));
    let n = size(1, &free_axes(rank(1), &dims.rhs_batch, &dims.rhs_contract));
    let k = size(0, &dims.lhs_contract);
    match graph.ty(node.operands[0]).dtype {
        DType::BF16 | DType::F16 => false,
        factors if own(factors) => false,
        DType::F32 => k <= 2 || (m > FEW && n > FEW && m * n <= 256),
        _ => m * n <= 256 || m <= 1 || n <= 1 || k <= 2,
    }
}

/// The order of axes in which an operand is a matrix per batch, if its own is not one: batch, free, contracted.
pub(super) fn matrix_order(ty: &Type, batch: &[usize], contract: &[usize]) -> Option<ir::Axes> {
    let view = View::dense(NodeId(0).into(), ty);
    if is_matrix(&view, batch, contract) {
        return None;
    }
    let free = free_axes(ty.shape.rank(), batch, contract);
    Some(batch.iter().chain(&free).chain(contract).copied().collect())
}

/// A product of two views, with the places of their roots still to be given.
pub(super) fn dot(dims: &DotDims, factors: DType, [lhs, rhs]: &[View; 2], isa: Isa, values: &Values) -> Option<Dot> {
    let (lhs, rhs) = (lhs.at(values), rhs.at(values));
    let operand = |view: &View, batch: &ir::Axes, contract: &ir::Axes, left: bool| {
        let (rows, down) = joined(view, &free_axes(view.sizes.len(), batch, contract))?;
        let (_, along) = joined(view, contract)?;
        let batch = batch.iter().map(|&axis| values.of(view.strides[axis])).collect();
        let (row, col) = if left { (down, along) } else { (along, down) };
        let offset = values.of(view.offset) * (factors.bits() as usize / 8);
        Some((values.of(rows), Matrix { base: 0, offset, row: values.of(row), col: values.of(col), batch }))
    };
    let (m, left) = operand(&lhs, &dims.lhs_batch, &dims.lhs_contract, true)?;
    let (n, right) = operand(&rhs, &dims.rhs_batch, &dims.rhs_contract, false)?;
    let k = dims.lhs_contract.iter().map(|&axis| values.of(lhs.sizes[axis])).product();
    let batch = dims.lhs_batch.iter().map(|&axis| values.of(lhs.sizes[axis])).collect();
    let result = dims.result;
    Some(Dot { factors, result, batch, m, n, k, lhs: left, rhs: right, out_base: 0, out_offset: 0, isa, laid: None })
}
