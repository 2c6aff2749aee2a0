//! Reductions over windows, and the selection that undoes them.
//!
//! Whole lines of windows go through the elements of a window together, over a copy of the operand with what is around it.

use super::super::scratch::{Memory, Scratch};
use super::along::beats;
use super::cell::{Cell, with_number, with_ordered};
use super::elementwise::refused;
use super::frame::Frame;
use super::phase::{Axis, Phase, frame, phases};
use super::strided;
use super::wide::{Combine, Wide};
use super::{Operand, Target, split};
use crate::Result;
use crate::ir::{Extreme, Reducer, Window};

/// Windows over planes that are independent of each other: the axes behind the leading ones along which windows do not reach.
struct Planes {
    /// Elements of a plane of the operand, windows over it.
    elements: usize,
    windows: usize,
    axes: Vec<Axis>,
}

impl Planes {
    fn new(window: &Window, x: &[usize], windows: &[usize]) -> Self {
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
        let frame = frame(phases);
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

/// Each element of `source` added at the place of its window's first extreme in `x`.
pub(super) fn select_and_scatter(
    select: Extreme,
    window: &Window,
    [x, source]: &[Operand<'_>; 2],
    [y]: &mut [Target<'_>; 1],
    memory: Memory<'_>,
) -> Result<()> {
    let (name, dtype) = ("select_and_scatter", x.ty.dtype);
    if y.bytes.is_empty() {
        return Ok(());
    }
    let reducer = match select {
        Extreme::Max => Reducer::Max,
        Extreme::Min => Reducer::Min,
    };
    let planes = Planes::new(window, x.sizes(), source.sizes());
    // Dilations are one, so there is one phase; none where there are no windows.
    let phases = phases(&planes.axes, false);
    let phase = phases.first().filter(|_| !source.bytes.is_empty());
    with_ordered!(dtype, T => {
        let add = <T as Cell>::Wide::reducer::<T>(Reducer::Sum).ok_or_else(|| refused(name, dtype))?;
        let worst = <T as Cell>::Wide::reducer::<T>(reducer).ok_or_else(|| refused(name, dtype))?.identity;
        let Some(phase) = phase else {
            y.cells::<T>()?.fill(T::narrow(add.identity));
            return Ok(());
        };
        let around = Surroundings::new(&phases);
        let lines = Lines::new(phase, &around.frame);
        let selection = Selection { select, worst, add, planes: &planes, phase, around, lines };
        selection.scatter(x.cells()?, source.cells()?, y.cells()?, memory)
    }, Err(refused(name, dtype)))
}

/// No element of a window selected.
const NONE: u32 = u32::MAX;

struct Selection<'a, T: Cell> {
    select: Extreme,
    /// What no element is worse than.
    worst: T::Wide,
    add: Combine<T>,
    planes: &'a Planes,
    phase: &'a Phase,
    around: Surroundings,
    lines: Lines,
}

impl<T: Cell<Wide: PartialOrd>> Selection<'_, T> {
    fn scatter(&self, x: &[T], source: &[T], y: &mut [T], memory: Memory<'_>) -> Result<()> {
        let (planes, phase, lines) = (self.planes, self.phase, &self.lines);
        // In a plane, where the first window of each line starts, and each element of a window beyond that.
        let along = &phase.axes;
        let starts = phase.over_lines(|axis, window| (window * along[axis].step) as isize * along[axis].input_stride);
        let offsets = phase.over_taps(|axis, tap| along[axis].taps[tap].1 as isize * along[axis].input_stride);
        let step = along.last().map_or(0, |axis| axis.step as isize * axis.input_stride);
        let inside = self.inside(memory)?;
        let cost = 2.0 + 2.0 * (lines.offsets.len() * planes.windows) as f64 / planes.elements as f64;
        split::try_parts(y, planes.elements, cost, |first, part| {
            let mut frame = self.around.filled(T::narrow(self.worst), memory)?;
            let mut sums = memory.filled(planes.elements, self.add.identity)?;
            let mut best = memory.filled(lines.columns, self.worst)?;
            let mut at = memory.filled(lines.columns, NONE)?;
            for (number, y) in part.chunks_exact_mut(planes.elements).enumerate() {
                let number = first / planes.elements + number;
                let x = self.around.of(&x[number * planes.elements..][..planes.elements], &mut frame);
                let source = &source[number * planes.windows..][..planes.windows];
                sums.fill(self.add.identity);
                for ((from, to), start) in lines.lines.iter().zip(&starts) {
                    best.fill(self.worst);
                    at.fill(NONE);
                    for (number, offset) in (0..).zip(&lines.offsets) {
                        self.select(&mut best, &mut at, &x[from + offset..][..lines.columns], number);
                    }
                    for (column, (&source, &at)) in source[*to..].iter().zip(at.iter()).enumerate() {
                        let first = || lines.offsets.iter().position(|offset| inside[from + offset + column] == 1);
                        let Some(at) = (if at == NONE { first() } else { Some(at as usize) }) else { continue };
                        let sum = &mut sums[(start + offsets[at] + column as isize * step) as usize];
                        *sum = (self.add.apply)(*sum, source.widen());
                    }
                }
                y.iter_mut().zip(sums.iter()).for_each(|(y, &sum)| *y = T::narrow(sum));
            }
            Ok(())
        })
    }

    /// For each place of the frame whether it is an element of the plane: windows of nothing but the worst select the first.
    fn inside<'m>(&self, memory: Memory<'m>) -> Result<Scratch<'m, u8>> {
        let Surroundings { frame, in_place } = &self.around;
        let mut inside = memory.filled(frame.len(), u8::from(*in_place))?;
        if !in_place {
            let ones = memory.filled(self.planes.elements, 1)?;
            frame.fill(&mut inside, &ones, 0);
        }
        Ok(inside)
    }

    /// Remembers element `number` of each window where it is better than the best so far.
    fn select(&self, best: &mut [T::Wide], at: &mut [u32], x: &[T], number: u32) {
        match self.select {
            Extreme::Max => select(Extreme::Max, best, at, x, number),
            Extreme::Min => select(Extreme::Min, best, at, x, number),
        }
    }
}

#[inline(always)]
fn select<T: Cell<Wide: PartialOrd>>(kind: Extreme, best: &mut [T::Wide], at: &mut [u32], x: &[T], number: u32) {
    for ((best, at), x) in best.iter_mut().zip(at).zip(x) {
        let x = x.widen();
        let better = beats(kind, x, *best);
        *best = if better { x } else { *best };
        *at = if better { number } else { *at };
    }
}
