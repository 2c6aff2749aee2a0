//! Reductions over windows.
//!
//! Whole lines of windows go through the elements of a window together, over a copy of the operand with what is around it.

use super::super::scratch::{Memory, Scratch};
use super::cell::{Cell, with_number};
use super::elementwise::refused;
use super::frame::Frame;
use super::phase::{Axis, Phase, frame, phases};
use super::strided;
use super::wide::{Combine, Wide};
use super::{Operand, Target, split};
use crate::Result;
use crate::ir::{Reducer, Window};

/// Windows over planes that are independent of each other: the axes behind the leading ones along which windows do not reach.
pub(super) struct Planes {
    /// Elements of a plane of the operand, windows over it.
    pub elements: usize,
    pub windows: usize,
    pub axes: Vec<Axis>,
}

impl Planes {
    pub(super) fn new(window: &Window, x: &[usize], windows: &[usize]) -> Self {
        let strides = strided::dense(x);
        let alone = |axis: &usize| {
            let steps = [window.sizes[*axis], window.strides[*axis], window.base_dilations[*axis]];
            steps == [1; 3] && window.padding[*axis] == (0, 0)
        };
        let lead = (0..x.len().saturating_sub(1)).take_while(alone).count();
        let axis = |axis: usize| Axis {
            input: x[axis],
            input_stride: strides[axis],
            output: windows[axis],
            taps: window.sizes[axis],
            kernel_stride: 0,
            step: window.strides[axis],
            low: window.padding[axis].0,
            input_dilation: window.base_dilations[axis],
            kernel_dilation: window.window_dilations[axis],
        };
        Self {
            elements: x[lead..].iter().product(),
            windows: windows[lead..].iter().product(),
            axes: (lead..x.len()).map(axis).collect(),
        }
    }
}

/// A plane and what is around it.
struct Surroundings {
    frame: Frame,
    /// Whether a plane is its own frame.
    in_place: bool,
}

impl Surroundings {
    fn new(phases: &[Phase]) -> Self {
        let frame = frame(phases, true);
        Self { in_place: frame.is_image(), frame }
    }

    /// A frame that holds `around` everywhere.
    fn filled<'m, T: Cell>(&self, around: T, memory: Memory<'m>) -> Result<Scratch<'m, T>> {
        memory.filled(if self.in_place { 0 } else { self.frame.len() }, around)
    }

    /// The plane in its frame, whose surroundings are there.
    fn of<'a, T: Cell>(&self, x: &'a [T], frame: &'a mut [T]) -> &'a [T] {
        if self.in_place {
            return x;
        }
        self.frame.fill(frame, x, 0);
        frame
    }
}

/// The windows of one phase.
struct Lines {
    /// For each element of a window where the first one of a line has it.
    offsets: Vec<usize>,
    /// Where lines of windows start in the frame and in the windows of a plane.
    lines: Vec<(usize, usize)>,
    columns: usize,
    jump: usize,
}

impl Lines {
    fn new(phase: &Phase, frame: &Frame) -> Self {
        let (columns, jump) = phase.axes.last().map_or((1, 1), |axis| (axis.count, axis.jump));
        Self { offsets: phase.offsets(frame), lines: phase.lines(frame), columns, jump }
    }
}

/// A reduction over each window; the identity where a window meets only padding.
pub(super) fn reduce_window(
    kind: Reducer,
    window: &Window,
    x: &Operand<'_>,
    [y]: &mut [Target<'_>; 1],
    memory: Memory<'_>,
) -> Result<()> {
    let dtype = x.ty.dtype;
    if y.bytes.is_empty() {
        return Ok(());
    }
    let planes = Planes::new(window, x.sizes(), y.ty.shape.sizes());
    let phases = phases(&planes.axes, false);
    let around = Surroundings::new(&phases);
    let lines: Vec<Lines> = phases.iter().map(|phase| Lines::new(phase, &around.frame)).collect();
    with_number!(dtype, T => {
        let combine = <T as Cell>::Wide::reducer::<T>(kind).ok_or_else(|| refused("reduce_window", dtype))?;
        reduce_planes::<T>(&combine, &planes, &around, &lines, x.cells()?, y.cells()?, memory)
    }, Err(refused("reduce_window", dtype)))
}

fn reduce_planes<T: Cell>(
    combine: &Combine<T>,
    planes: &Planes,
    around: &Surroundings,
    lines: &[Lines],
    x: &[T],
    y: &mut [T],
    memory: Memory<'_>,
) -> Result<()> {
    let volume = lines.iter().map(|lines| lines.offsets.len()).max().unwrap_or(0);
    split::try_parts(y, planes.windows, 1.0 + 0.5 * volume as f64, |first, part| {
        let mut frame = around.filled(T::narrow(combine.identity), memory)?;
        let columns = lines.iter().map(|lines| lines.columns).max().unwrap_or(0);
        let mut sums = memory.filled(columns, combine.identity)?;
        for (number, y) in part.chunks_exact_mut(planes.windows).enumerate() {
            let x = &x[(first / planes.windows + number) * planes.elements..][..planes.elements];
            let x = around.of(x, &mut frame);
            for lines in lines {
                let sums = &mut sums[..lines.columns];
                for &(from, to) in &lines.lines {
                    sums.fill(combine.identity);
                    for offset in &lines.offsets {
                        (combine.fold_into)(sums, &x[from + offset..][..lines.columns]);
                    }
                    let y = y[to..].iter_mut().step_by(lines.jump);
                    y.zip(sums.iter()).for_each(|(y, &sum)| *y = T::narrow(sum));
                }
            }
        }
        Ok(())
    })
}
