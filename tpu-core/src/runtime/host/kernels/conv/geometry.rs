//! Where the elements of a convolution meet.

use super::super::super::scratch::{Cells, Memory};
use super::super::frame::{Frame, Side};
use super::super::phase::Axis;
use super::super::strided::{self, View};
use crate::Result;
use crate::ir::ConvDims;
use bytemuck::Pod;
use smallvec::SmallVec;

/// A convolution with its layout resolved.
pub(super) struct Geometry {
    pub axes: SmallVec<[Axis; 3]>,
    pub batch: usize,
    pub batch_stride: isize,
    /// Distance in the input from one group to the next.
    pub group_stride: isize,
    pub feature_stride: isize,
    pub groups: usize,
    /// Input features of a group.
    pub inputs: usize,
    /// Output features of a group.
    pub outputs: usize,
    /// Where the kernel's first element is, and distances of its output and input features.
    pub kernel_origin: isize,
    pub kernel_strides: (isize, isize),
    /// The output as [batch, feature, positions …].
    output: View,
    /// Whether results are computed as [feature, batch, positions …]: how a weight gradient lies.
    pub features_first: bool,
}

/// Where rows of spatial kernel elements begin.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub first: usize,
    /// From one output feature, and from one input feature, to the next.
    pub output: usize,
    pub input: usize,
}

impl Geometry {
    pub(super) fn new(dims: &ConvDims, x: &[usize], kernel: &[usize], y: &[usize]) -> Self {
        let (xs, ks, ys) = (strided::dense(x), strided::dense(kernel), strided::dense(y));
        let mut kernel_origin = 0;
        let axes = (0..dims.input_spatial.len()).map(|i| {
            let (taps, stride) = (kernel[dims.kernel_spatial[i]], ks[dims.kernel_spatial[i]]);
            let flipped = dims.reversal[i] && taps > 0;
            kernel_origin += if flipped { (taps as isize - 1) * stride } else { 0 };
            Axis {
                input: x[dims.input_spatial[i]],
                input_stride: xs[dims.input_spatial[i]],
                output: y[dims.output_spatial[i]],
                taps,
                kernel_stride: if flipped { -stride } else { stride },
                step: dims.strides[i],
                low: dims.padding[i].0,
                input_dilation: dims.input_dilation[i],
                kernel_dilation: dims.kernel_dilation[i],
            }
        });
        let axes = axes.collect();
        let order = || [dims.output_batch, dims.output_feature].into_iter().chain(dims.output_spatial.iter().copied());
        let groups = dims.feature_groups * dims.batch_groups;
        let (batch, inputs) = (y[dims.output_batch], kernel[dims.kernel_input_feature]);
        let (batch_stride, feature_stride) = (xs[dims.input_batch], xs[dims.input_feature]);
        // Feature groups move on along the features, batch groups along the batch.
        let group_stride =
            if dims.batch_groups > 1 { batch as isize * batch_stride } else { inputs as isize * feature_stride };
        let output =
            View { sizes: order().map(|a| y[a]).collect(), strides: order().map(|a| ys[a]).collect(), offset: 0 };
        let features_first = !is_dense(&output) && is_dense(&with_features_first(&output));
        Self {
            axes,
            batch,
            batch_stride,
            group_stride,
            feature_stride,
            groups,
            inputs,
            outputs: y[dims.output_feature] / groups.max(1),
            kernel_origin,
            kernel_strides: (ks[dims.kernel_output_feature], ks[dims.kernel_input_feature]),
            output,
            features_first,
        }
    }

    /// The image and the output feature of the rows of the result, of one position each per output position, in the order in which
    /// they are computed.
    pub(super) fn row(&self, number: usize) -> (usize, usize) {
        match self.features_first {
            true => (number % self.batch, number / self.batch),
            false => (number / self.features(), number % self.features()),
        }
    }

    /// Output features.
    pub(super) fn features(&self) -> usize {
        self.groups * self.outputs
    }

    /// Output positions of one image.
    pub(super) fn positions(&self) -> usize {
        self.axes.iter().map(|axis| axis.output).product()
    }

    /// Spatial elements of the kernel.
    pub(super) fn taps(&self) -> usize {
        self.axes.iter().map(|axis| axis.taps).product()
    }

    /// Products of one result.
    pub(super) fn depth(&self) -> usize {
        self.inputs * self.taps()
    }

    /// Whether the kernel is longer than the output, as in weight gradients, and patches of the input would cost more than its
    /// short lines.
    pub(super) fn kernel_is_large(&self) -> bool {
        let short = |taps: usize| taps < 8 && self.outputs >= 64;
        self.axes.last().is_some_and(|axis| axis.taps > axis.output && !short(axis.taps))
    }

    /// Whether the output lies as it is computed.
    pub(super) fn is_ordered(&self) -> bool {
        self.features_first || is_dense(&self.output)
    }

    /// The computed output in the order of the output's memory.
    pub(super) fn inverse(&self) -> View {
        let own = strided::dense(&self.output.sizes);
        let mut order: Vec<usize> = (0..own.len()).collect();
        // Axes of size one may share a stride with a neighbour; where they go changes nothing.
        order.sort_by_key(|&axis| std::cmp::Reverse(self.output.strides[axis]));
        View {
            sizes: order.iter().map(|&axis| self.output.sizes[axis]).collect(),
            strides: order.iter().map(|&axis| own[axis]).collect(),
            offset: 0,
        }
    }

    /// The kernel with the spatial elements of a feature in a row, and where the first row begins and distances of output and input
    /// features: itself if its elements lie like that.
    pub(super) fn rows_of_kernel<'a, A: Pod + Send + Sync>(
        &self,
        kernel: &'a [A],
        memory: Memory<'a>,
    ) -> Result<(Cells<'a, A>, Rows)> {
        let axes = || self.axes.iter().map(|axis| (axis.taps, axis.kernel_stride));
        let taps = View {
            sizes: axes().map(|axis| axis.0).collect(),
            strides: axes().map(|axis| axis.1).collect(),
            offset: 0,
        };
        if is_dense(&taps) {
            let (output, input) = self.kernel_strides;
            let rows = Rows { first: self.kernel_origin as usize, output: output as usize, input: input as usize };
            return Ok((Cells::There(kernel), rows));
        }
        let features = [(self.features(), self.kernel_strides.0), (self.inputs, self.kernel_strides.1)];
        let all = || features.into_iter().chain(axes());
        let view = View {
            sizes: all().map(|axis| axis.0).collect(),
            strides: all().map(|axis| axis.1).collect(),
            offset: self.kernel_origin,
        };
        let rows = Rows { first: 0, output: self.depth(), input: self.taps() };
        Ok((strided::packed(Cells::There(kernel), &view, memory)?, rows))
    }

    /// Where the group of an image begins in the input.
    pub(super) fn origin(&self, image: usize, group: usize) -> isize {
        image as isize * self.batch_stride + group as isize * self.group_stride
    }

    /// The frame of whole images, holes of a dilated input included; the last axis split by the distance of kernel elements if
    /// `split`.
    pub(super) fn frame(&self, split: bool) -> Frame {
        let sides = self.axes.iter().map(|axis| Side {
            input: axis.input,
            stride: axis.input_stride,
            dilation: axis.input_dilation,
            low: axis.low,
            length: (axis.output - 1) * axis.step + (axis.taps - 1) * axis.kernel_dilation + 1,
        });
        Frame::new(sides.collect(), self.axes.last().filter(|_| split).map_or(1, |axis| axis.kernel_dilation))
    }
}

fn is_dense(view: &View) -> bool {
    let view = view.simplified();
    view.sizes.len() == 1 && view.strides[0] == 1
}

fn with_features_first(output: &View) -> View {
    let mut output = output.clone();
    output.sizes.swap(0, 1);
    output.strides.swap(0, 1);
    output
}
