//! Groups with an output feature or two, as in depthwise convolutions: lines of the input times one kernel element after the
//! other.

use super::super::accumulate::Accumulator;
use super::super::phase::{Phase, frame};
use super::super::split;
use super::super::strided::Odometer;
use super::Job;
use super::geometry::Rows;
use super::tile::{Correlation, Lines};
use crate::Result;

/// Computes the outputs into `y`, which lies as `Geometry::row` says.
pub(super) fn lines<A: Accumulator>(job: Job<'_, A>, phases: &[Phase], y: &mut [A]) -> Result<()> {
    let Job { geometry, kernels, x, kernel, memory } = job;
    let frame = frame(phases, true);
    let (length, inputs, positions) = (frame.len(), geometry.inputs, geometry.positions());
    // For each phase the kernel's elements, where the frames meet them, and lines of positions.
    let phases = phases.iter().map(|phase| {
        let (features, within) = ((0..inputs).map(|feature| feature * length), phase.offsets(&frame));
        let offsets = features.flat_map(|feature| within.iter().map(move |offset| feature + offset));
        let (columns, jump) = phase.axes.last().map_or((1, 1), |axis| (axis.count, axis.jump));
        (phase.taps(), offsets.collect::<Vec<_>>(), phase.lines(&frame), columns, jump)
    });
    let phases: Vec<_> = phases.filter(|phase| !phase.0.is_empty()).collect();
    let cost = geometry.depth() as f64 * 2.0 * A::COST;
    split::try_parts(y, positions, cost, |first, part| {
        // Registers are filled whole at the end of a line too.
        let mut frames = memory.filled(inputs * length + 4 * kernels.lanes, A::default())?;
        let mut weights = memory.filled(geometry.depth(), A::default())?;
        let mut framed = None;
        for (number, y) in part.chunks_exact_mut(positions).enumerate() {
            let (image, feature) = geometry.row(first / positions + number);
            let group = feature / geometry.outputs;
            if framed != Some((image, group)) {
                for (f, channel) in frames.chunks_exact_mut(length).take(inputs).enumerate() {
                    let origin = geometry.origin(image, group) + f as isize * geometry.feature_stride;
                    frame.fill(channel, x, origin);
                }
                framed = Some((image, group));
            }
            let start = geometry.kernel_origin + feature as isize * geometry.kernel_strides.0;
            for (taps, offsets, lines, columns, jump) in &phases {
                let weights = &mut weights[..offsets.len()];
                for (f, weights) in weights.chunks_exact_mut(taps.len()).enumerate() {
                    let start = start + f as isize * geometry.kernel_strides.1;
                    weights.iter_mut().zip(taps).for_each(|(weight, tap)| *weight = kernel[(start + tap) as usize]);
                }
                let (len, jump, in_order) = (*columns, *jump, lines.len() * columns == positions);
                let mut all = Lines { x: &frames, offsets, weights, lines, y, len, jump, in_order };
                // SAFETY: the kernels are those of this processor.
                unsafe { (kernels.lines)(&mut all) }
            }
        }
        Ok(())
    })
}

/// The same for a kernel as large as an image.
pub(super) fn weights<A: Accumulator>(job: Job<'_, A>, y: &mut [A]) -> Result<()> {
    let Job { geometry, kernels, x, kernel, memory } = job;
    let frame = geometry.frame(true);
    let (kernel, kernel_rows) = geometry.rows_of_kernel(kernel, memory)?;
    let (inputs, taps, positions) = (geometry.inputs, geometry.taps(), geometry.positions());
    let last = geometry.axes.len() - 1;
    let mut offsets = vec![0];
    for (axis, along) in geometry.axes.iter().enumerate() {
        let place = |p: usize| frame.place(axis, p * along.step);
        offsets = offsets.iter().flat_map(|&offset| (0..along.output).map(move |p| offset + place(p))).collect();
    }
    // Rows along the axis before the last one; what is outside them is gone through one by one.
    let rows = if last > 0 { geometry.axes[last - 1].taps } else { 1 };
    let sizes: Vec<usize> = geometry.axes[..last.saturating_sub(1)].iter().map(|axis| axis.taps).collect();
    let step = |axis: usize| geometry.axes[axis].kernel_dilation * frame.step(axis);
    let strides: Vec<isize> = (0..sizes.len()).map(|axis| step(axis) as isize).collect();
    let row_step = if last > 0 { step(last - 1) } else { 0 };
    let len = geometry.axes[last].taps;
    let cost = geometry.depth() as f64 * 2.0 * A::COST;
    split::try_parts(y, positions, cost, |first, part| {
        let mut frames = memory.filled(frame.len(), A::default())?;
        let mut sums = memory.filled(positions * kernels.lanes, A::default())?;
        for (number, y) in part.chunks_exact_mut(positions).enumerate() {
            let (image, feature) = geometry.row(first / positions + number);
            sums.fill(A::default());
            for f in 0..inputs {
                let origin = geometry.origin(image, feature / geometry.outputs) + f as isize * geometry.feature_stride;
                frame.fill(&mut frames, x, origin);
                let mut at = Odometer::new(&sizes, &strides, 0, 0);
                let Rows { first, output, input } = kernel_rows;
                let row = first + feature * output + f * input;
                for g in kernel[row..row + taps].chunks_exact(rows * len) {
                    let mut all = Correlation {
                        g: g.as_ptr(),
                        x: frames[at.position as usize..].as_ptr(),
                        offsets: &offsets,
                        rows,
                        len,
                        steps: (len, row_step),
                        sums: &mut sums,
                    };
                    // SAFETY: a frame has a place for each kernel element at each position, by its length; the kernels are
                    // those of this processor.
                    unsafe { (kernels.correlation)(&mut all) }
                    at.advance();
                }
            }
            for (y, sums) in y.iter_mut().zip(sums.chunks_exact_mut(kernels.lanes)) {
                *y = halved(sums);
            }
        }
        Ok(())
    })
}

/// The sum of a power of two of numbers.
fn halved<A: Accumulator>(numbers: &mut [A]) -> A {
    let mut count = numbers.len();
    while count > 1 {
        count /= 2;
        for i in 0..count {
            numbers[i] = numbers[i].plus(numbers[i + count]);
        }
    }
    numbers[0]
}
