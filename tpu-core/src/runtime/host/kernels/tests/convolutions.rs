//! Convolutions as models have them, and their gradients as autograd records them, on every instruction set: large enough that
//! every loop goes round, small enough for the interpreter.

use super::super::conv::convolution_on;
use super::{Array, Memory, Random, allowance, result_types};
use crate::ir::{ConvDims, Op, Precision, Type};
use crate::reference::evaluate_op;
use crate::runtime::host::kernels::{Operand, Target};
use crate::runtime::host::pool::Pool;
use crate::runtime::host::row::isa::Isa;
use crate::runtime::host::scratch;
use crate::{DType, Shape};
use smallvec::SmallVec;
use std::sync::Arc;

/// A convolution in PyTorch's layout.
#[derive(Clone, Copy)]
struct Case {
    batch: usize,
    inputs: usize,
    outputs: usize,
    size: &'static [usize],
    kernel: &'static [usize],
    stride: usize,
    padding: usize,
    dilation: usize,
    groups: usize,
}

const PLAIN: Case =
    Case { batch: 2, inputs: 1, outputs: 1, size: &[], kernel: &[], stride: 1, padding: 0, dilation: 1, groups: 1 };

const CASES: &[Case] = &[
    // More terms than are added at a time, rows of a tile left over.
    Case { inputs: 50, outputs: 11, size: &[9, 7], kernel: &[3, 3], padding: 1, ..PLAIN },
    Case { batch: 1, inputs: 3, outputs: 16, size: &[20, 40], kernel: &[3, 3], padding: 1, ..PLAIN },
    // Images so small that several share a block.
    Case { batch: 9, inputs: 7, outputs: 20, size: &[3, 3], kernel: &[3, 3], padding: 1, ..PLAIN },
    Case { batch: 5, inputs: 40, outputs: 34, size: &[5, 6], kernel: &[1, 1], ..PLAIN },
    Case { inputs: 6, outputs: 9, size: &[15, 18], kernel: &[3, 3], stride: 2, padding: 1, ..PLAIN },
    Case { inputs: 6, outputs: 9, size: &[8, 11], kernel: &[1, 1], stride: 2, ..PLAIN },
    Case { inputs: 4, outputs: 5, size: &[14, 17], kernel: &[3, 2], stride: 3, padding: 2, dilation: 2, ..PLAIN },
    Case { inputs: 12, outputs: 18, size: &[10, 9], kernel: &[3, 3], padding: 1, groups: 3, ..PLAIN },
    // Depthwise, with a feature or two of each.
    Case { inputs: 8, outputs: 8, size: &[13, 37], kernel: &[3, 3], padding: 1, groups: 8, ..PLAIN },
    Case { inputs: 5, outputs: 10, size: &[12, 19], kernel: &[5, 5], stride: 2, padding: 2, groups: 5, ..PLAIN },
    Case { inputs: 4, outputs: 4, size: &[11, 9], kernel: &[3, 3], padding: 2, dilation: 2, groups: 4, ..PLAIN },
    Case { batch: 3, inputs: 10, outputs: 17, size: &[300], kernel: &[5], padding: 2, ..PLAIN },
    Case { inputs: 3, outputs: 7, size: &[5, 6, 17], kernel: &[3, 3, 3], padding: 1, ..PLAIN },
    Case { inputs: 3, outputs: 3, size: &[5, 6, 9], kernel: &[3, 3, 3], stride: 2, padding: 1, groups: 3, ..PLAIN },
    // A kernel of more elements than are added at a time, more positions than are computed together.
    Case { batch: 1, outputs: 9, size: &[20, 19], kernel: &[17, 17], padding: 8, ..PLAIN },
    // Images smaller than the kernel of the weight gradient, many features.
    Case { batch: 6, inputs: 10, outputs: 70, size: &[4, 4], kernel: &[3, 3], padding: 1, ..PLAIN },
    // Channels that are copied although they have no padding: 512 bytes apart they would share places of the cache.
    Case { inputs: 20, outputs: 12, size: &[16, 8], kernel: &[1, 1], ..PLAIN },
    // Without any axis: a product of matrices.
    Case { batch: 30, inputs: 9, outputs: 7, ..PLAIN },
];

fn spread(size: usize, dilation: usize) -> i64 {
    ((size - 1) * dilation + 1) as i64
}

impl Case {
    fn output(&self) -> Vec<usize> {
        let along = |(&size, &kernel): (&usize, &usize)| {
            (size + 2 * self.padding - (kernel - 1) * self.dilation - 1) / self.stride + 1
        };
        self.size.iter().zip(self.kernel).map(along).collect()
    }

    /// Convolution, gradient of the input and gradient of the kernel, each with the sizes of its operands.
    fn passes(&self) -> [(ConvDims, [Vec<usize>; 2]); 3] {
        let rank = self.size.len();
        let all = |value: usize| SmallVec::from_elem(value, rank);
        let with = |lead: [usize; 2], rest: &[usize]| lead.into_iter().chain(rest.iter().copied()).collect::<Vec<_>>();
        let padding = self.padding as i64;
        let spatial: SmallVec<[usize; 6]> = (2..2 + rank).collect();
        let forward = ConvDims {
            input_batch: 0,
            input_feature: 1,
            input_spatial: spatial.iter().copied().collect(),
            kernel_input_feature: 1,
            kernel_output_feature: 0,
            kernel_spatial: spatial.iter().copied().collect(),
            output_batch: 0,
            output_feature: 1,
            output_spatial: spatial.iter().copied().collect(),
            strides: all(self.stride),
            padding: SmallVec::from_elem((padding, padding), rank),
            input_dilation: all(1),
            kernel_dilation: all(self.dilation),
            reversal: SmallVec::from_elem(false, rank),
            feature_groups: self.groups,
            batch_groups: 1,
            precision: Precision::Highest,
            result: DType::F32,
        };
        let lengths = self.size.iter().zip(self.kernel).zip(self.output());
        let lengths = lengths.map(|((&size, &kernel), output)| {
            (size as i64, spread(kernel, self.dilation), spread(output, self.stride))
        });
        let back = lengths.clone().map(|(size, reach, given)| {
            let before = reach - padding - 1;
            (before, size + reach - 1 - given - before)
        });
        let input = ConvDims {
            kernel_input_feature: 0,
            kernel_output_feature: 1,
            strides: all(1),
            padding: back.collect(),
            input_dilation: all(self.stride),
            reversal: SmallVec::from_elem(true, rank),
            ..forward.clone()
        };
        let kernel = ConvDims {
            input_batch: 1,
            input_feature: 0,
            kernel_input_feature: 0,
            kernel_output_feature: 1,
            output_batch: 1,
            output_feature: 0,
            strides: all(self.dilation),
            padding: lengths.map(|(size, reach, given)| (padding, given - size + reach - padding - 1)).collect(),
            kernel_dilation: all(self.stride),
            feature_groups: 1,
            batch_groups: self.groups,
            ..forward.clone()
        };
        let (x, y) = (with([self.batch, self.inputs], self.size), with([self.batch, self.outputs], &self.output()));
        let weight = with([self.outputs, self.inputs / self.groups], self.kernel);
        let swapped = with([self.outputs / self.groups, self.inputs], self.kernel);
        [(forward, [x.clone(), weight]), (input, [y.clone(), swapped]), (kernel, [x, y])]
    }
}

/// The result on so many threads.
fn computed(isa: Isa, threads: usize, dims: &ConvDims, inputs: &[Array], ty: &Type) -> Array {
    let memory: Vec<Memory> = inputs.iter().map(|x| Memory::of(x.bytes())).collect();
    let operands: Vec<Operand<'_>> =
        inputs.iter().zip(&memory).map(|(x, m)| Operand { ty: x.ty(), bytes: m.bytes() }).collect();
    let mut output = Memory::new(ty.bytes().expect("small"));
    let mut target = Target { ty, bytes: output.bytes_mut() };
    let (pool, piece) = (Arc::new(Pool::new(None)), scratch::Piece::none());
    let workers = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
    let run =
        || convolution_on(isa, dims, &operands[0], &operands[1], &mut target, scratch::Memory::new(&pool, &piece));
    workers.install(run).expect("a kernel");
    Array::from_bytes(ty.clone(), output.bytes().to_vec()).expect("as many bytes")
}

#[test]
fn every_instruction_set_agrees_with_the_reference_on_any_number_of_threads() {
    let mut random = Random(11);
    for (number, case) in CASES.iter().enumerate() {
        for (pass, (dims, sizes)) in ["forward", "input", "kernel"].into_iter().zip(case.passes()) {
            let op = Op::Convolution(Arc::new(dims.clone()));
            let types = sizes.map(|sizes| Type::new(DType::F32, Shape::from(&sizes[..])));
            let inputs = random.operands(&op, &types, false);
            let want = &evaluate_op(&op, &inputs).expect("the reference")[0];
            let ty = &result_types(&op, &inputs).expect("a type")[0];
            let (relative, absolute) = allowance(&op, &inputs, ty);
            let want: Vec<f64> = want.cast_vec();
            for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
                if isa > Isa::available() {
                    continue;
                }
                let one = computed(isa, 1, &dims, &inputs, ty);
                for (at, (got, want)) in one.cast_vec::<f64>().into_iter().zip(&want).enumerate() {
                    let near = (got - want).abs() <= relative * want.abs() + absolute;
                    assert!(near, "case {number}, {pass}, {isa:?}: element {at} is {got}, not {want}");
                }
                for threads in [2, 4] {
                    let more = computed(isa, threads, &dims, &inputs, ty);
                    assert!(more.bytes() == one.bytes(), "case {number}, {pass}, {isa:?} differs on {threads} threads");
                }
            }
        }
    }
}

#[test]
fn what_lies_outside_a_line_is_not_multiplied() {
    // An infinity in one corner of an image reaches only the results whose window has the corner.
    let case = Case { batch: 1, inputs: 2, outputs: 2, size: &[6, 5], kernel: &[3, 3], padding: 1, groups: 2, ..PLAIN };
    for groups in [1, 2] {
        for (dims, sizes) in (Case { groups, ..case }).passes() {
            let op = Op::Convolution(Arc::new(dims.clone()));
            let [x, kernel] = sizes.map(|sizes| Shape::from(&sizes[..]));
            let mut values = vec![1f32; x.elements().expect("small")];
            values[29] = f32::INFINITY;
            let ones = vec![1f32; kernel.elements().expect("small")];
            let inputs = [Array::new(x, &values).expect("fits"), Array::new(kernel, &ones).expect("fits")];
            let want = evaluate_op(&op, &inputs).expect("the reference")[0].cast_vec::<f64>();
            let ty = &result_types(&op, &inputs).expect("a type")[0];
            for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| isa <= Isa::available()) {
                assert_eq!(computed(isa, 1, &dims, &inputs, ty).cast_vec::<f64>(), want, "{isa:?}, {groups} groups");
            }
        }
    }
}
