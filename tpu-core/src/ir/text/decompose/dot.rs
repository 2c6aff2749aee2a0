//! Products of 64-bit integers.
//!
//! XLA for TPU has only elementwise ones. These are the products of all pairs, summed; they are fused with the sum and
//! never in memory.

use super::Builder;
use crate::Shape;
use crate::ir::infer::MAX_RANK;
use crate::ir::{BinaryOp, DotDims, Op, Reducer, Value};
use smallvec::SmallVec;

/// `op`, whose dimension numbers are `dims`.
pub(super) fn of_64_bits(build: &mut Builder, op: &Op, dims: &DotDims, operands: &[Value]) -> Value {
    let sides =
        [(operands[0], &dims.lhs_batch, &dims.lhs_contract), (operands[1], &dims.rhs_batch, &dims.rhs_contract)];
    let free = sides.map(|(x, batch, contract)| {
        let axes = 0..build.ty(x).shape.rank();
        axes.filter(|axis| !batch.contains(axis) && !contract.contains(axis)).collect::<SmallVec<[usize; 4]>>()
    });
    let sizes = |side: usize, axes: &[usize]| {
        let shape = build.ty(sides[side].0).shape;
        axes.iter().map(|&axis| shape.size(axis)).collect::<SmallVec<[usize; 4]>>()
    };
    // Batch, what is free in one, what is free in the other, contracted.
    let parts = [sizes(0, &dims.lhs_batch), sizes(0, &free[0]), sizes(1, &free[1]), sizes(0, &dims.lhs_contract)];
    let all: Shape = parts.concat().into_iter().collect();
    if all.rank() > MAX_RANK {
        return build.push(op.clone(), operands);
    }
    let batch = dims.lhs_batch.len();
    let kept = all.rank() - dims.lhs_contract.len();
    let spread = [0, 1].map(|side| {
        let (x, batches, contracts) = sides[side];
        let order = batches.iter().chain(&free[side]).chain(contracts).copied().collect();
        let x = build.convert(x, dims.result);
        let x = build.push(Op::Transpose(order), &[x]);
        let first = [batch, batch + free[0].len()][side];
        let axes: Vec<usize> = (0..batch).chain(first..first + free[side].len()).chain(kept..all.rank()).collect();
        build.spread(x, &all, &axes)
    });
    let products = build.binary(BinaryOp::Multiply, spread[0], spread[1]);
    let axes = (kept..all.rank()).collect();
    if kept == all.rank() { products } else { build.push(Op::Reduce { kind: Reducer::Sum, axes }, &[products]) }
}

#[cfg(test)]
mod tests {
    use super::super::decompose;
    use crate::DType;
    use crate::ir::{DotDims, Op, Precision, Type};
    use crate::reference::{Array, evaluate, evaluate_op};
    use std::sync::Arc;

    #[test]
    fn products_of_64_bits_give_what_the_op_gives() {
        let array = |sizes: &[usize], dtype| {
            let count: usize = sizes.iter().product();
            let words: Vec<u64> = (1..=count as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
            match dtype {
                DType::I64 => Array::new(sizes, &words.iter().map(|&word| word as i64).collect::<Vec<_>>()),
                DType::I32 => Array::new(sizes, &words.iter().map(|&word| word as i32).collect::<Vec<_>>()),
                _ => Array::new(sizes, &words),
            }
            .unwrap()
        };
        let dims = |batch: [&[usize]; 2], contract: [&[usize]; 2], result| DotDims {
            lhs_batch: batch[0].into(),
            rhs_batch: batch[1].into(),
            lhs_contract: contract[0].into(),
            rhs_contract: contract[1].into(),
            precision: Precision::Highest,
            result,
        };
        let cases: [(DotDims, &[usize], &[usize], DType); 5] = [
            (dims([&[], &[]], [&[1], &[0]], DType::I64), &[3, 4], &[4, 5], DType::I64),
            (dims([&[2, 0], &[1, 3]], [&[1], &[2]], DType::U64), &[2, 4, 3, 5], &[6, 3, 4, 2], DType::U64),
            (dims([&[], &[]], [&[0, 2], &[1, 0]], DType::I64), &[3, 4, 2], &[2, 3, 5], DType::I32),
            (dims([&[], &[]], [&[], &[]], DType::I64), &[3], &[2], DType::I64),
            (dims([&[0], &[0]], [&[1], &[1]], DType::U64), &[2, 0], &[2, 0, 3], DType::U64),
        ];
        for (dims, lhs, rhs, dtype) in cases {
            let op = Op::DotGeneral(Arc::new(dims));
            let operands = [array(lhs, dtype), array(rhs, dtype)];
            let types: Vec<&Type> = operands.iter().map(Array::ty).collect();
            let graph = decompose(&op, &types).expect("products of 64 bits");
            let got = evaluate(&graph, &operands).unwrap().results;
            assert_eq!(got, evaluate_op(&op, &operands).unwrap(), "{op:?}");
        }
    }
}
