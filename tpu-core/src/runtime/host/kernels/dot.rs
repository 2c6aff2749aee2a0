//! Matrix products of all dtypes. Operands are brought to [batch, free, contracted] order unless they are so already.

use super::super::scratch::{Cells, Memory};
use super::accumulate::{Accumulator, Matrix, MatrixMut, Product, known, with_accumulator};
use super::elementwise::refused;
use super::strided::{self, View};
use super::{Operand, Target, split};
use crate::Result;
use crate::ir::DotDims;

/// Rows of a product that one call computes: fixed, so that the bits do not depend on who computes what.
const ROWS: usize = 128;

/// Result axes are batch, free lhs, free rhs.
pub(super) fn dot_general(
    dims: &DotDims,
    lhs: &Operand<'_>,
    rhs: &Operand<'_>,
    [y]: &mut [Target<'_>; 1],
    memory: Memory<'_>,
) -> Result<()> {
    for operand in [lhs, rhs] {
        if !known(operand.ty.dtype, dims.result) {
            return Err(refused("dot_general", operand.ty.dtype));
        }
    }
    with_accumulator!(lhs.ty.dtype, dims.result, A => product::<A>(dims, lhs, rhs, y, memory))
}

fn product<A: Accumulator>(
    dims: &DotDims,
    lhs: &Operand<'_>,
    rhs: &Operand<'_>,
    y: &mut Target<'_>,
    memory: Memory<'_>,
) -> Result<()> {
    let size = |operand: &Operand<'_>, axes: &[usize]| axes.iter().map(|&a| operand.sizes()[a]).product::<usize>();
    let lhs_free = free(lhs, &dims.lhs_batch, &dims.lhs_contract);
    let rhs_free = free(rhs, &dims.rhs_batch, &dims.rhs_contract);
    let (batch, k) = (size(lhs, &dims.lhs_batch), size(lhs, &dims.lhs_contract));
    let (m, n) = (size(lhs, &lhs_free), size(rhs, &rhs_free));

    let a = arranged::<A>(lhs, &[&dims.lhs_batch, &lhs_free, &dims.lhs_contract], memory)?;
    let b = arranged::<A>(rhs, &[&dims.rhs_batch, &dims.rhs_contract, &rhs_free], memory)?;
    A::write(y, memory, |c| {
        if k == 0 || c.is_empty() {
            c.fill(A::default());
            return Ok(());
        }
        // Parts are whole blocks of rows; blocks start anew in each matrix of the batch.
        let rows = ROWS.min(m);
        let unit = if m.is_multiple_of(rows) { rows * n } else { m * n };
        split::parts(c, unit, k as f64 * A::COST, |first, part| {
            let (mut row, mut part) = (first / n, part);
            while !part.is_empty() {
                let (matrix, inside) = (row / m, row % m);
                let height = rows.min(m - inside);
                let (block, rest) = part.split_at_mut(height * n);
                A::multiply(
                    Product { m: height, n, k },
                    Matrix { cells: &a[(matrix * m + inside) * k..], rows: k, columns: 1 },
                    Matrix { cells: &b[matrix * k * n..], rows: n, columns: 1 },
                    MatrixMut { cells: block, rows: n, columns: 1 },
                    false,
                );
                row += height;
                part = rest;
            }
        });
        debug_assert_eq!(c.len(), batch * m * n);
        Ok(())
    })
}

/// Axes that are neither batch nor contracted.
fn free(x: &Operand<'_>, batch: &[usize], contract: &[usize]) -> Vec<usize> {
    (0..x.sizes().len()).filter(|axis| !batch.contains(axis) && !contract.contains(axis)).collect()
}

/// The elements with axes in the order of the lists.
fn arranged<'a, A: Accumulator>(x: &Operand<'a>, order: &[&[usize]], memory: Memory<'a>) -> Result<Cells<'a, A>> {
    let order: Vec<usize> = order.iter().flat_map(|axes| axes.iter().copied()).collect();
    let strides = strided::dense(x.sizes());
    let view = View {
        sizes: order.iter().map(|&axis| x.sizes()[axis]).collect(),
        strides: order.iter().map(|&axis| strides[axis]).collect(),
        offset: 0,
    };
    strided::packed(A::read(x, memory)?, &view, memory)
}
