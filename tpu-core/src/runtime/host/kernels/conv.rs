//! Convolutions of any layout, as products of the kernel with patches of the input.
//!
//! Patches (im2col) are written for a block of output positions and a block of kernel elements at a time, so they stay
//! in the second-level cache whatever the size of the input. The blocks have fixed sizes: the bits of a result do not
//! depend on the number of threads.

use super::super::scratch::Memory;
use super::accumulate::{Accumulator, Matrix, MatrixMut, Product, known, with_accumulator};
use super::elementwise::refused;
use super::strided::{self, Strides, View};
use super::{Operand, Target, split};
use crate::Result;
use crate::ir::{Axes, ConvDims};
use smallvec::SmallVec;

/// Output positions of a block of patches.
const POSITIONS: usize = 256;
/// Kernel elements of a block of patches: 512 x 256 `f32` are half a megabyte.
const TAPS: usize = 512;

/// A convolution (cross-correlation).
pub(super) fn convolution(
    dims: &ConvDims,
    x: &Operand<'_>,
    kernel: &Operand<'_>,
    [y]: &mut [Target<'_>; 1],
    memory: Memory<'_>,
) -> Result<()> {
    for operand in [x, kernel] {
        if !known(operand.ty.dtype, dims.result) {
            return Err(refused("convolution", operand.ty.dtype));
        }
    }
    let plan = Plan::new(dims, x.sizes(), kernel.sizes(), y.ty.shape.sizes());
    with_accumulator!(x.ty.dtype, dims.result, A => {
        let (x, kernel) = (A::read(x, memory)?, A::read(kernel, memory)?);
        let kernel = strided::packed(kernel, &plan.kernel, memory)?;
        A::write(y, memory, |y| plan.run(&x, &kernel, y, memory))
    })
}

/// One spatial axis.
#[derive(Clone, Copy)]
struct Axis {
    input: usize,
    input_stride: isize,
    output: usize,
    taps: usize,
    step: i64,
    low: i64,
    input_dilation: i64,
    kernel_dilation: i64,
}

impl Axis {
    /// The axis with output positions and taps exchanged: where they meet the input is symmetric in them.
    fn exchanged(self) -> Self {
        let Self { output, taps, step, kernel_dilation, .. } = self;
        Self { output: taps, taps: output, step: kernel_dilation, kernel_dilation: step, ..self }
    }

    /// The input index under tap `tap` at output position `at`, if there is one.
    fn input_at(&self, at: usize, tap: usize) -> Option<usize> {
        let place = at as i64 * self.step + tap as i64 * self.kernel_dilation - self.low;
        let inside = place >= 0 && place % self.input_dilation == 0 && place / self.input_dilation < self.input as i64;
        inside.then(|| (place / self.input_dilation) as usize)
    }

    /// The output positions whose place under `tap` is inside the input, for an input without dilation.
    fn inside(&self, tap: usize) -> std::ops::Range<usize> {
        let shift = self.low - tap as i64 * self.kernel_dilation;
        // First position with `at * step >= shift`, first with `at * step >= shift + input`.
        let from = |place: i64| (place.max(0) as u64).div_ceil(self.step as u64).min(self.output as u64) as usize;
        from(shift)..from(shift + self.input as i64)
    }
}

/// A convolution with its layout resolved. Output positions are numbered batch first, then spatial axes.
struct Plan {
    spatial: SmallVec<[Axis; 3]>,
    /// Whether lines of patches run along kernel elements, because that makes them longer than along output positions:
    /// so in weight gradients, whose kernel is as large as an image.
    along_taps: bool,
    /// The spatial axes, exchanged when `along_taps`.
    lines: SmallVec<[Axis; 3]>,
    /// The kernel as [output feature, input feature, taps …].
    kernel: View,
    /// The output as [batch, positions …, output feature], over the target.
    output: View,
    batch_stride: isize,
    /// Distance in the input from one batch group to the next, when there are such groups.
    batch_group_stride: isize,
    feature_stride: isize,
    groups: usize,
    /// Input features of a group.
    inputs: usize,
    /// Output features of a group.
    outputs: usize,
    by_batch: bool,
}

impl Plan {
    fn new(dims: &ConvDims, x: &[usize], kernel: &[usize], y: &[usize]) -> Self {
        let (xs, ks, ys) = (strided::dense(x), strided::dense(kernel), strided::dense(y));
        let spatial: SmallVec<[Axis; 3]> = (0..dims.input_spatial.len())
            .map(|i| Axis {
                input: x[dims.input_spatial[i]],
                input_stride: xs[dims.input_spatial[i]],
                output: y[dims.output_spatial[i]],
                taps: kernel[dims.kernel_spatial[i]],
                step: dims.strides[i] as i64,
                low: dims.padding[i].0,
                input_dilation: dims.input_dilation[i] as i64,
                kernel_dilation: dims.kernel_dilation[i] as i64,
            })
            .collect();

        let along_taps = spatial.last().is_some_and(|axis| axis.taps > axis.output);
        let lines = if along_taps { spatial.iter().map(|axis| axis.exchanged()).collect() } else { spatial.clone() };

        let mut kernel_view = View { sizes: Axes::new(), strides: Strides::new(), offset: 0 };
        for axis in [dims.kernel_output_feature, dims.kernel_input_feature] {
            kernel_view.sizes.push(kernel[axis]);
            kernel_view.strides.push(ks[axis]);
        }
        for (i, &axis) in dims.kernel_spatial.iter().enumerate() {
            kernel_view.sizes.push(kernel[axis]);
            let flipped = dims.reversal[i] && kernel[axis] > 0;
            kernel_view.strides.push(if flipped { -ks[axis] } else { ks[axis] });
            kernel_view.offset += if flipped { (kernel[axis] as isize - 1) * ks[axis] } else { 0 };
        }

        let order = || {
            std::iter::once(dims.output_batch)
                .chain(dims.output_spatial.iter().copied())
                .chain(std::iter::once(dims.output_feature))
        };
        let output =
            View { sizes: order().map(|a| y[a]).collect(), strides: order().map(|a| ys[a]).collect(), offset: 0 };
        let groups = dims.feature_groups * dims.batch_groups;
        let batch = y[dims.output_batch];
        Self {
            spatial,
            along_taps,
            lines,
            kernel: kernel_view,
            output,
            batch_stride: xs[dims.input_batch],
            batch_group_stride: if dims.batch_groups > 1 { batch as isize * xs[dims.input_batch] } else { 0 },
            feature_stride: xs[dims.input_feature],
            groups,
            inputs: kernel[dims.kernel_input_feature],
            outputs: y[dims.output_feature] / groups.max(1),
            // Outputs of one batch element lie together, features outside positions: written in place.
            by_batch: dims.output_batch == 0
                && dims.output_feature == 1
                && dims.output_spatial.is_sorted()
                && batch >= 4,
        }
    }

    /// Output positions of one batch element.
    fn positions(&self) -> usize {
        self.spatial.iter().map(|axis| axis.output).product()
    }

    /// Elements of one output feature's kernel.
    fn depth(&self) -> usize {
        self.inputs * self.spatial.iter().map(|axis| axis.taps).product::<usize>()
    }

    fn run<A: Accumulator>(&self, x: &[A], kernel: &[A], y: &mut [A], memory: Memory<'_>) -> Result<()> {
        if y.is_empty() {
            return Ok(());
        }
        let (positions, features, depth) = (self.positions(), self.groups * self.outputs, self.depth());
        // An empty input may still have padding, whose zeros a kernel that is not finite makes NaN.
        if depth == 0 {
            y.fill(A::default());
            return Ok(());
        }
        let cost = depth as f64 * (A::COST + 0.3 / self.outputs as f64);
        if self.by_batch {
            split::parts(y, features * positions, cost, |first, part| {
                let mut patches = Vec::new();
                for (i, image) in part.chunks_exact_mut(features * positions).enumerate() {
                    let start = (first / (features * positions) + i) * positions;
                    for block in (0..positions).step_by(POSITIONS) {
                        let width = POSITIONS.min(positions - block);
                        self.block(x, kernel, start + block, width, &mut patches, &mut image[block..], (positions, 1));
                    }
                }
            });
            return Ok(());
        }
        // Otherwise the result is computed as [batch, positions …, feature] and then brought to its layout.
        let mut arranged = memory.filled(y.len(), A::default())?;
        split::parts(&mut arranged, features * POSITIONS, cost, |first, part| {
            let mut patches = Vec::new();
            for (i, block) in part.chunks_mut(features * POSITIONS).enumerate() {
                let start = first / features + i * POSITIONS;
                let width = block.len() / features;
                self.block(x, kernel, start, width, &mut patches, block, (1, features));
            }
        });
        strided::gather(y, &arranged, &inverse(&self.output));
        Ok(())
    }

    /// All features at the output positions `start .. start + width`, into `out` with the given steps of features and
    /// positions.
    fn block<A: Accumulator>(
        &self,
        x: &[A],
        kernel: &[A],
        start: usize,
        width: usize,
        patches: &mut Vec<A>,
        out: &mut [A],
        (feature_step, position_step): (usize, usize),
    ) {
        let depth = self.depth();
        for group in 0..self.groups {
            let weights = &kernel[group * self.outputs * depth..];
            for low in (0..depth).step_by(TAPS) {
                let taps = low..depth.min(low + TAPS);
                let k = taps.len();
                patches.resize(k * width, A::default());
                let (rows, columns) = if self.along_taps { (1, k) } else { (width, 1) };
                if self.along_taps {
                    for (row, position) in patches.chunks_exact_mut(k).zip(start..) {
                        self.patch_row(x, group, position, low, row);
                    }
                } else {
                    for (row, tap) in patches.chunks_exact_mut(width).zip(taps) {
                        self.patch_row(x, group, tap, start, row);
                    }
                }
                A::multiply(
                    Product { m: self.outputs, n: width, k },
                    Matrix { cells: &weights[low..], rows: depth, columns: 1 },
                    Matrix { cells: patches, rows, columns },
                    MatrixMut {
                        cells: &mut out[group * self.outputs * feature_step..],
                        rows: feature_step,
                        columns: position_step,
                    },
                    low > 0,
                );
            }
        }
    }

    /// The input elements that kernel element `fixed` meets at the output positions from `start`, zero outside; with
    /// `along_taps`, those that output position `fixed` meets under the kernel elements from `start`.
    fn patch_row<A: Accumulator>(&self, x: &[A], group: usize, fixed: usize, start: usize, row: &mut [A]) {
        let mut taps: SmallVec<[usize; 3]> = SmallVec::from_elem(0, self.lines.len());
        let mut rest = fixed;
        for (tap, axis) in taps.iter_mut().zip(&self.lines).rev() {
            *tap = rest % axis.taps;
            rest /= axis.taps;
        }
        let (fixed_stride, run_stride) = if self.along_taps {
            (self.batch_stride, self.feature_stride)
        } else {
            (self.feature_stride, self.batch_stride)
        };
        // Feature groups move on along the features, batch groups along the batch.
        let group_stride = match self.batch_group_stride {
            0 => self.inputs as isize * self.feature_stride,
            stride => stride,
        };
        let origin = rest as isize * fixed_stride + group as isize * group_stride;
        let Some((last, outer)) = self.lines.split_last() else {
            for (i, out) in row.iter_mut().enumerate() {
                *out = x[(origin + (start + i) as isize * run_stride) as usize];
            }
            return;
        };
        let last_tap = taps[outer.len()];
        let inside = last.inside(last_tap);
        let (mut at, mut row) = (start, row);
        while !row.is_empty() {
            let column = at % last.output;
            let width = (last.output - column).min(row.len());
            let (line, others) = row.split_at_mut(width);
            let mut number = at / last.output;
            let mut base = Some(origin);
            for (axis, &tap) in outer.iter().zip(&taps).rev() {
                let place = axis.input_at(number % axis.output, tap);
                base = base.zip(place).map(|(b, p)| b + p as isize * axis.input_stride);
                number /= axis.output;
            }
            match base.map(|b| b + number as isize * run_stride) {
                Some(base) if last.input_dilation == 1 => {
                    let from = inside.start.clamp(column, column + width) - column;
                    let to = inside.end.clamp(column + from, column + width) - column;
                    line[..from].fill(A::default());
                    line[to..].fill(A::default());
                    let line = &mut line[from..to];
                    if !line.is_empty() {
                        let place =
                            (column + from) as i64 * last.step + last_tap as i64 * last.kernel_dilation - last.low;
                        let first = base + place as isize * last.input_stride;
                        strided::read_line(line, x, first, last.step as isize * last.input_stride);
                    }
                }
                Some(base) => {
                    for (i, out) in line.iter_mut().enumerate() {
                        *out = match last.input_at(column + i, last_tap) {
                            Some(place) => x[(base + place as isize * last.input_stride) as usize],
                            None => A::default(),
                        };
                    }
                }
                None => line.fill(A::default()),
            }
            at += width;
            row = others;
        }
    }
}

/// For a dense array whose axes are those of `view` in order: the array's view in the order of the memory that `view`
/// is over.
fn inverse(view: &View) -> View {
    let own = strided::dense(&view.sizes);
    let mut order: Vec<usize> = (0..view.sizes.len()).collect();
    // Axes of size one may share a stride with a neighbour; where they go changes nothing.
    order.sort_by_key(|&axis| std::cmp::Reverse(view.strides[axis]));
    View {
        sizes: order.iter().map(|&axis| view.sizes[axis]).collect(),
        strides: order.iter().map(|&axis| own[axis]).collect(),
        offset: 0,
    }
}
