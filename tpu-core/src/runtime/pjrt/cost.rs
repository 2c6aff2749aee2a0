//! What a program on a plugin will roughly take: for choosing whether the recording thread waits for it.

use crate::ir::{Graph, Node, Op, Type};
use crate::runtime::Cost;

/// Arithmetic of a slow device, a CPU core of 2026. Faster ones make inline runs shorter than thought, not longer.
const FLOPS_PER_SECOND: f64 = 50e9;
const BYTES_PER_SECOND: f64 = 5e9;
/// Of a call: measured 3 to 10 µs on CPU plugins.
const SECONDS_PER_RUN: f64 = 5e-6;

/// The cost of a program, a loop's body counted as a million rounds: nobody knows how many, and it must not hold up the
/// recording thread.
pub fn estimate(graph: &Graph) -> Cost {
    let size = |ty: &Type| ty.bytes().unwrap_or(0) as f64;
    let flops: f64 = graph.nodes.iter().map(|node| flops(graph, node)).sum();
    let loops = graph.nodes.iter().any(|node| matches!(node.op, Op::While { .. }));
    let flops = if loops { flops * 1e6 } else { flops };
    let main = graph.main();
    let results: f64 = graph.result_types(main).map(size).sum();
    let bytes = graph.parameter_types(main).map(size).sum::<f64>() + results;
    let seconds = SECONDS_PER_RUN + flops / FLOPS_PER_SECOND + bytes / BYTES_PER_SECOND;
    Cost { flops, bytes, seconds, peak_bytes: results as usize }
}

fn flops(graph: &Graph, node: &Node) -> f64 {
    let elements = |ty: &Type| ty.shape.elements().unwrap_or(usize::MAX) as f64;
    let results: f64 = node.types.iter().map(elements).sum();
    let operand = |i: usize| graph.ty(node.operands[i]);
    match &node.op {
        Op::Parameter { .. } | Op::Constant(_) => 0.0,
        Op::DotGeneral(dims) => {
            let contracted = dims.lhs_contract.iter().map(|&axis| operand(0).shape.size(axis) as f64);
            2.0 * results * contracted.product::<f64>()
        }
        Op::Convolution(dims) => {
            let features = operand(1).shape.size(dims.kernel_output_feature).max(1) as f64;
            2.0 * results * elements(operand(1)) / features
        }
        // Cubic in the last axis.
        Op::Cholesky { .. } | Op::TriangularSolve { .. } | Op::Qr | Op::Eigh | Op::Lu => {
            let sizes = operand(0).shape.sizes();
            results * sizes.last().map_or(1.0, |&size| size as f64)
        }
        _ => results + node.operands.iter().map(|&value| elements(graph.ty(value))).sum::<f64>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::samples;

    #[test]
    fn a_product_costs_two_operations_for_each_of_its_terms() {
        use crate::ir::{DotDims, Precision};
        let dims = DotDims {
            lhs_batch: Default::default(),
            rhs_batch: Default::default(),
            lhs_contract: [1].into_iter().collect(),
            rhs_contract: [0].into_iter().collect(),
            precision: Precision::Default,
            result: DType::F32,
        };
        let types = [Type::new(DType::F32, [8, 16]), Type::new(DType::F32, [16, 4])];
        let cost = estimate(&samples::program(&types, Op::DotGeneral(dims.into())).unwrap());
        assert_eq!(cost.flops, 2.0 * 8.0 * 16.0 * 4.0);
        assert_eq!(cost.bytes, 4.0 * (8.0 * 16.0 + 16.0 * 4.0 + 8.0 * 4.0));
    }
}
