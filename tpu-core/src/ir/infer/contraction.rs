//! Rules of matrix products and convolutions.

use super::window::WindowAxis;
use super::{Types, axis_set, exactly, per_axis, same_dtype, single, size, takes};
use crate::ir::support::widens;
use crate::ir::{ConvDims, DotDims, Op, Type};
use crate::{DType, Result, Shape, ensure};

pub(super) fn dot_general(op: &Op, operands: &[&Type], dims: &DotDims) -> Result<Types> {
    let [lhs, rhs] = exactly(op, operands)?;
    takes(op, "lhs", lhs)?;
    same_dtype(op, ("lhs", lhs), ("rhs", rhs))?;
    result_dtype(op, lhs.dtype, dims.result)?;
    let mut lhs_used = axis_set(op, "lhs batch axes", &dims.lhs_batch, lhs.shape.rank())?;
    lhs_used.add(op, "lhs batch and contracted axes", &dims.lhs_contract, lhs.shape.rank())?;
    let mut rhs_used = axis_set(op, "rhs batch axes", &dims.rhs_batch, rhs.shape.rank())?;
    rhs_used.add(op, "rhs batch and contracted axes", &dims.rhs_contract, rhs.shape.rank())?;
    let pairs = [("batch", &dims.lhs_batch, &dims.rhs_batch), ("contracted", &dims.lhs_contract, &dims.rhs_contract)];
    for (name, left, right) in pairs {
        ensure!(
            left.len() == right.len(),
            Axis,
            op.name(),
            "requires as many {name} axes of lhs as of rhs, got {left:?} and {right:?}"
        );
        for (&l, &r) in left.iter().zip(right) {
            ensure!(
                lhs.shape.size(l) == rhs.shape.size(r),
                Shape,
                op.name(),
                "requires equal sizes of {name} axes, {l} of lhs and {r} of rhs, got lhs {lhs} and rhs {rhs}"
            );
        }
    }
    let batch = dims.lhs_batch.iter().map(|&axis| lhs.shape.size(axis));
    let free_lhs = (0..lhs.shape.rank()).filter(|&axis| !lhs_used.contains(axis)).map(|axis| lhs.shape.size(axis));
    let free_rhs = (0..rhs.shape.rank()).filter(|&axis| !rhs_used.contains(axis)).map(|axis| rhs.shape.size(axis));
    let shape: Shape = batch.chain(free_lhs).chain(free_rhs).collect();
    super::representable(op, &shape)?;
    single(Type { dtype: dims.result, shape })
}

fn result_dtype(op: &Op, operand: DType, result: DType) -> Result<()> {
    ensure!(
        widens(operand, result),
        DType,
        op.name(),
        "requires a result of the operands' dtype or a wider one of its kind, got {result} from {operand}"
    );
    Ok(())
}

pub(super) fn convolution(op: &Op, operands: &[&Type], dims: &ConvDims) -> Result<Types> {
    let [input, kernel] = exactly(op, operands)?;
    takes(op, "input", input)?;
    same_dtype(op, ("input", input), ("kernel", kernel))?;
    result_dtype(op, input.dtype, dims.result)?;
    axes_cover(op, dims, input, kernel)?;
    let batch = input.shape.size(dims.input_batch);
    let features = kernel.shape.size(dims.kernel_output_feature);
    groups_divide(op, dims, input, kernel)?;
    let spatial = dims.input_spatial.len();
    let mut sizes = vec![0; spatial + 2];
    sizes[dims.output_batch] = batch / dims.batch_groups;
    sizes[dims.output_feature] = features;
    for i in 0..spatial {
        let along = WindowAxis {
            size: kernel.shape.size(dims.kernel_spatial[i]),
            stride: dims.strides[i],
            base_dilation: dims.input_dilation[i],
            window_dilation: dims.kernel_dilation[i],
            padding: dims.padding[i],
        };
        sizes[dims.output_spatial[i]] = along.windows(op, i, input.shape.size(dims.input_spatial[i]))?;
    }
    single(Type { dtype: dims.result, shape: sizes.into() })
}

/// That the axis numbers name each axis of input, kernel and output once, and that lists are per spatial axis.
fn axes_cover(op: &Op, dims: &ConvDims, input: &Type, kernel: &Type) -> Result<()> {
    let rank = input.shape.rank();
    ensure!(rank >= 2, Shape, op.name(), "requires an input of at least 2 axes, got {input}");
    ensure!(
        kernel.shape.rank() == rank,
        Shape,
        op.name(),
        "requires input and kernel of one rank, got input {input} and kernel {kernel}"
    );
    let spatial = rank - 2;
    let covers = [
        ("input axes", [dims.input_batch, dims.input_feature], &dims.input_spatial),
        ("kernel axes", [dims.kernel_input_feature, dims.kernel_output_feature], &dims.kernel_spatial),
        ("output axes", [dims.output_batch, dims.output_feature], &dims.output_spatial),
    ];
    for (name, two, rest) in covers {
        ensure!(
            rest.len() == spatial,
            Value,
            op.name(),
            "requires {spatial} spatial {name}, got {rest:?} for input {input}"
        );
        axis_set(op, name, &two, rank)?.add(op, name, rest, rank)?;
    }
    per_axis(op, "strides", &dims.strides, spatial)?;
    per_axis(op, "paddings", &dims.padding, spatial)?;
    per_axis(op, "input dilations", &dims.input_dilation, spatial)?;
    per_axis(op, "kernel dilations", &dims.kernel_dilation, spatial)?;
    per_axis(op, "reversals", &dims.reversal, spatial)
}

fn groups_divide(op: &Op, dims: &ConvDims, input: &Type, kernel: &Type) -> Result<()> {
    let (groups, batch_groups) = (dims.feature_groups, dims.batch_groups);
    for (name, count) in [("feature groups", groups), ("batch groups", batch_groups)] {
        let range = 1..=i64::MAX as usize;
        ensure!(range.contains(&count), Value, op.name(), "requires {name} from 1 to 2^63 - 1, got {count}");
    }
    ensure!(
        groups == 1 || batch_groups == 1,
        Value,
        op.name(),
        "requires one of feature groups and batch groups to be 1, got {groups} and {batch_groups}"
    );
    let batch = input.shape.size(dims.input_batch);
    ensure!(
        batch.is_multiple_of(batch_groups),
        Shape,
        op.name(),
        "requires a batch divisible by {batch_groups} batch groups, got {batch} of input {input}"
    );
    let per_group = kernel.shape.size(dims.kernel_input_feature);
    let features = input.shape.size(dims.input_feature);
    let expected = size(op, dims.input_feature, per_group as i128 * groups as i128)?;
    ensure!(
        features == expected,
        Shape,
        op.name(),
        "requires input features equal to kernel input features times {groups} groups, got input {input} and kernel \
         {kernel}"
    );
    let outputs = kernel.shape.size(dims.kernel_output_feature);
    for (name, count) in [("feature", groups), ("batch", batch_groups)] {
        ensure!(
            outputs.is_multiple_of(count),
            Shape,
            op.name(),
            "requires output features divisible by {count} {name} groups, got {outputs} of kernel {kernel}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::DType::*;
    use crate::ir::*;
    use smallvec::smallvec;
    use std::sync::Arc;

    fn matmul() -> DotDims {
        DotDims {
            lhs_batch: smallvec![0],
            rhs_batch: smallvec![0],
            lhs_contract: smallvec![2],
            rhs_contract: smallvec![1],
            precision: Precision::Default,
            result: F32,
        }
    }

    fn dot(dims: DotDims, lhs: Type, rhs: Type) -> String {
        shown(Op::DotGeneral(Arc::new(dims)), &[lhs, rhs])
    }

    #[test]
    fn dot_general_gives_batch_then_free_axes() {
        assert_eq!(dot(matmul(), f32s(&[2, 3, 4]), f32s(&[2, 4, 5])), "float32[2, 3, 5]");
        assert_eq!(dot(matmul(), f32s(&[2, 3, 0]), f32s(&[2, 0, 5])), "float32[2, 3, 5]");
        let wide = |result| DotDims { result, ..matmul() };
        assert_eq!(dot(wide(I32), ty(I8, &[2, 3, 4]), ty(I8, &[2, 4, 5])), "int32[2, 3, 5]");
        assert_eq!(dot(wide(F16), ty(F8E4M3FN, &[2, 3, 4]), ty(F8E4M3FN, &[2, 4, 5])), "float16[2, 3, 5]");
        let outer = DotDims { lhs_contract: smallvec![], rhs_contract: smallvec![], ..matmul() };
        assert_eq!(dot(outer, f32s(&[2, 3]), f32s(&[2, 5])), "float32[2, 3, 5]");
    }

    #[test]
    fn dot_general_rejects_axes_sizes_and_dtypes() {
        let (lhs, rhs) = (|| f32s(&[2, 3, 4]), || f32s(&[2, 4, 5]));
        assert_eq!(
            dot(matmul(), lhs(), f32s(&[2, 3, 5])),
            "Shape: dot_general requires equal sizes of contracted axes, 2 of lhs and 1 of rhs, got lhs float32[2, 3, 4] \
             and rhs float32[2, 3, 5]"
        );
        assert_eq!(
            dot(matmul(), lhs(), f32s(&[1, 4, 5])),
            "Shape: dot_general requires equal sizes of batch axes, 0 of lhs and 0 of rhs, got lhs float32[2, 3, 4] and \
             rhs float32[1, 4, 5]"
        );
        assert_eq!(
            dot(DotDims { lhs_contract: smallvec![0], ..matmul() }, lhs(), rhs()),
            "Axis: dot_general requires distinct lhs batch and contracted axes, got 0 twice"
        );
        assert_eq!(
            dot(DotDims { rhs_contract: smallvec![3], ..matmul() }, lhs(), rhs()),
            "Axis: dot_general requires rhs batch and contracted axes below the rank 3, got [3]"
        );
        assert_eq!(
            dot(DotDims { rhs_contract: smallvec![], ..matmul() }, lhs(), rhs()),
            "Axis: dot_general requires as many contracted axes of lhs as of rhs, got [2] and []"
        );
        assert_eq!(
            dot(DotDims { result: BF16, ..matmul() }, lhs(), rhs()),
            "DType: dot_general requires a result of the operands' dtype or a wider one of its kind, got bfloat16 from \
             float32"
        );
        assert_eq!(
            dot(matmul(), lhs(), ty(F64, &[2, 4, 5])),
            "DType: dot_general requires operands of one dtype, got lhs float32[2, 3, 4] and rhs float64[2, 4, 5]"
        );
    }

    /// NCHW input and output, OIHW kernel, as in PyTorch.
    fn nchw() -> ConvDims {
        ConvDims {
            input_batch: 0,
            input_feature: 1,
            input_spatial: smallvec![2, 3],
            kernel_input_feature: 1,
            kernel_output_feature: 0,
            kernel_spatial: smallvec![2, 3],
            output_batch: 0,
            output_feature: 1,
            output_spatial: smallvec![2, 3],
            strides: smallvec![1, 1],
            padding: smallvec![(0, 0), (0, 0)],
            input_dilation: smallvec![1, 1],
            kernel_dilation: smallvec![1, 1],
            reversal: smallvec![false, false],
            feature_groups: 1,
            batch_groups: 1,
            precision: Precision::Default,
            result: F32,
        }
    }

    fn conv(dims: ConvDims, input: &[usize], kernel: &[usize]) -> String {
        shown(Op::Convolution(Arc::new(dims)), &[f32s(input), f32s(kernel)])
    }

    /// Shapes from torch.nn.functional.conv2d.
    #[test]
    fn convolution_gives_pytorchs_shapes() {
        assert_eq!(conv(nchw(), &[2, 3, 8, 9], &[4, 3, 3, 2]), "float32[2, 4, 6, 8]");
        let strided = ConvDims { strides: smallvec![2, 3], padding: smallvec![(1, 1), (2, 2)], ..nchw() };
        assert_eq!(conv(strided, &[2, 3, 8, 9], &[4, 3, 3, 2]), "float32[2, 4, 4, 4]");
        let dilated = ConvDims { kernel_dilation: smallvec![2, 1], feature_groups: 3, ..nchw() };
        assert_eq!(conv(dilated, &[2, 3, 8, 9], &[6, 1, 3, 2]), "float32[2, 6, 4, 8]");
        // conv_transpose2d of kernel 3, stride 2: the input is dilated and padded by 2.
        let transposed = ConvDims { input_dilation: smallvec![2, 2], padding: smallvec![(2, 2); 2], ..nchw() };
        assert_eq!(conv(transposed, &[1, 3, 4, 4], &[5, 3, 3, 3]), "float32[1, 5, 9, 9]");
        assert_eq!(conv(ConvDims { batch_groups: 2, ..nchw() }, &[4, 3, 8, 9], &[4, 3, 3, 2]), "float32[2, 4, 6, 8]");
        assert_eq!(conv(nchw(), &[0, 3, 8, 9], &[4, 3, 3, 2]), "float32[0, 4, 6, 8]");
    }

    #[test]
    fn convolution_rejects_what_does_not_fit() {
        assert_eq!(
            conv(nchw(), &[2, 3, 8, 9], &[4, 2, 3, 2]),
            "Shape: convolution requires input features equal to kernel input features times 1 groups, got input \
             float32[2, 3, 8, 9] and kernel float32[4, 2, 3, 2]"
        );
        assert_eq!(
            conv(ConvDims { feature_groups: 3, ..nchw() }, &[2, 3, 8, 9], &[4, 1, 3, 2]),
            "Shape: convolution requires output features divisible by 3 feature groups, got 4 of kernel \
             float32[4, 1, 3, 2]"
        );
        assert_eq!(
            conv(ConvDims { batch_groups: 3, ..nchw() }, &[4, 3, 8, 9], &[3, 3, 3, 2]),
            "Shape: convolution requires a batch divisible by 3 batch groups, got 4 of input float32[4, 3, 8, 9]"
        );
        assert_eq!(
            conv(ConvDims { batch_groups: 2, feature_groups: 2, ..nchw() }, &[4, 4, 8, 9], &[4, 2, 3, 2]),
            "Value: convolution requires one of feature groups and batch groups to be 1, got 2 and 2"
        );
        assert_eq!(
            conv(ConvDims { feature_groups: 0, ..nchw() }, &[4, 4, 8, 9], &[4, 2, 3, 2]),
            "Value: convolution requires feature groups from 1 to 2^63 - 1, got 0"
        );
        assert_eq!(
            conv(ConvDims { output_feature: 0, ..nchw() }, &[2, 3, 8, 9], &[4, 3, 3, 2]),
            "Axis: convolution requires distinct output axes, got 0 twice"
        );
        assert_eq!(
            conv(ConvDims { strides: smallvec![1], ..nchw() }, &[2, 3, 8, 9], &[4, 3, 3, 2]),
            "Value: convolution requires 2 strides, one per axis, got [1]"
        );
        assert_eq!(
            conv(nchw(), &[2, 3, 8, 9], &[4, 3, 0, 2]),
            "Value: convolution requires window sizes from 1 to 2^63 - 1, got 0 along axis 0"
        );
        assert_eq!(
            conv(nchw(), &[2, 3, 8, 9], &[4, 3, 3]),
            "Shape: convolution requires input and kernel of one rank, got input float32[2, 3, 8, 9] and kernel \
             float32[4, 3, 3]"
        );
    }
}
