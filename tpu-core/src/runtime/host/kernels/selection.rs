//! The selection that undoes a maximum or minimum over windows.
//!
//! Windows are gone through line by line, those that lie wholly inside the operand's line many at a time.

use super::super::row::isa::Isa;
use super::super::scratch::Memory;
use super::along::beats;
use super::cell::{Cell, with_ordered};
use super::elementwise::refused;
use super::phase::{Phase, PhaseAxis, phases};
use super::wide::Wide;
use super::window::Planes;
use super::{Operand, Target, split};
use crate::ir::{Extreme, Window};
use crate::{DType, Result};
use std::any::TypeId;
use std::ops::Range;

/// Each element of `source` added at the place of its window's first extreme in `x`.
pub(super) fn select_and_scatter(
    select: Extreme,
    window: &Window,
    [x, source]: &[Operand<'_>; 2],
    [y]: &mut [Target<'_>; 1],
    memory: Memory<'_>,
) -> Result<()> {
    select_and_scatter_on(Isa::of_process(), select, window, [x, source], y, memory)
}

/// The same with the loops of one instruction set.
pub(super) fn select_and_scatter_on(
    isa: Isa,
    select: Extreme,
    window: &Window,
    [x, source]: [&Operand<'_>; 2],
    y: &mut Target<'_>,
    memory: Memory<'_>,
) -> Result<()> {
    if y.bytes.is_empty() {
        return Ok(());
    }
    let planes = Planes::new(window, x.sizes(), source.sizes());
    // Dilations are one, so there is one phase; none where there are no windows.
    let phases = phases(&planes.axes, false);
    let lines = match phases.first().filter(|_| !source.bytes.is_empty()) {
        Some(phase) => Lines::new(phase),
        None => Lines::default(),
    };
    // The loops of f32 are compiled for instruction sets, others are rare.
    if x.ty.dtype == DType::F32 {
        return scatter(loops_of_f32(isa, select), &planes, &lines, x.cells()?, source.cells()?, y.cells()?, memory);
    }
    with_ordered!(x.ty.dtype, T => {
        let line = match select {
            Extreme::Max => line::<T, true>,
            Extreme::Min => line::<T, false>,
        };
        scatter::<T>(line, &planes, &lines, x.cells()?, source.cells()?, y.cells()?, memory)
    }, Err(refused("select_and_scatter", x.ty.dtype)))
}

/// The windows of a plane: all planes have the same.
#[derive(Default)]
struct Lines {
    lines: Vec<Line>,
    /// Elements of a window along a line, by their distance from the window's first place, which may be outside.
    taps: Vec<isize>,
    /// Elements of a line of the operand, and from one window to the next.
    width: usize,
    step: usize,
    /// Windows of a line, and those of them that lie inside it.
    columns: usize,
    inside: Range<usize>,
}

/// A line of windows.
struct Line {
    /// Where lines of the operand begin that its windows meet.
    rows: Vec<usize>,
    /// Elements of a window in order, by their distance from its place in the first line.
    places: Vec<isize>,
}

impl Line {
    fn new(rows: Vec<usize>, taps: &[isize]) -> Self {
        let places = rows.iter().flat_map(|&row| taps.iter().map(move |tap| row as isize + tap)).collect();
        Self { rows, places }
    }
}

impl Lines {
    fn new(phase: &Phase) -> Self {
        let Some((last, outer)) = phase.axes.split_last() else {
            // One element and one window.
            let lines = vec![Line { rows: vec![0], places: vec![0] }];
            return Self { lines, taps: vec![0], width: 1, step: 1, columns: 1, inside: 0..1 };
        };
        // The elements of an axis that window `at` meets, as distances in the plane.
        let met = |axis: &PhaseAxis, at: usize| -> Vec<usize> {
            let places = axis.taps.iter().map(|&(_, base)| base + (at * axis.step) as i64);
            let inside = places.filter(|place| (0..axis.input as i64).contains(place));
            inside.map(|place| place as usize * axis.input_stride as usize).collect()
        };
        let mut rows = vec![vec![0]];
        for axis in outer {
            let along: Vec<Vec<usize>> = (0..axis.count).map(|at| met(axis, at)).collect();
            let joined = |rows: &Vec<usize>, along: &Vec<usize>| {
                rows.iter().flat_map(|row| along.iter().map(move |place| row + place)).collect::<Vec<usize>>()
            };
            rows = rows
                .iter()
                .flat_map(|rows| along.iter().map(|along| joined(rows, along)).collect::<Vec<_>>())
                .collect();
        }
        let taps: Vec<isize> = last.taps.iter().map(|&(_, base)| base as isize).collect();
        let (low, high) = (taps.iter().min().copied().unwrap_or(0), taps.iter().max().copied().unwrap_or(0));
        let first = (-low).max(0).unsigned_abs().div_ceil(last.step);
        let room = last.input as isize - high;
        let end = if room > 0 { (room.unsigned_abs() - 1) / last.step + 1 } else { 0 };
        let end = end.min(last.count);
        Self {
            lines: rows.into_iter().map(|rows| Line::new(rows, &taps)).collect(),
            taps,
            width: last.input,
            step: last.step,
            columns: last.count,
            inside: first.min(end)..end,
        }
    }
}

/// Adds a line of elements at the places that its windows select, for one plane.
///
/// # Safety
///
/// The processor has the instruction set that the function was chosen for.
type AddLine<T> = unsafe fn(&Lines, &Line, &[T], &[T], &mut [<T as Cell>::Wide]);

fn loops_of_f32(isa: Isa, select: Extreme) -> AddLine<f32> {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        unsafe fn avx2<const MAX: bool>(lines: &Lines, of: &Line, x: &[f32], source: &[f32], sums: &mut [f32]) {
            line::<f32, MAX>(lines, of, x, source, sums);
        }
        if isa >= Isa::Avx2 {
            return match select {
                Extreme::Max => avx2::<true>,
                Extreme::Min => avx2::<false>,
            };
        }
    }
    let _ = isa;
    match select {
        Extreme::Max => line::<f32, true>,
        Extreme::Min => line::<f32, false>,
    }
}

fn scatter<T: Cell<Wide: PartialOrd + Cell>>(
    add: AddLine<T>,
    planes: &Planes,
    lines: &Lines,
    x: &[T],
    source: &[T],
    y: &mut [T],
    memory: Memory<'_>,
) -> Result<()> {
    let taps = lines.lines.iter().map(|line| line.places.len()).max().unwrap_or(0);
    let cost = 0.5 + (taps + 4) as f64 * 0.3 * planes.windows as f64 / planes.elements as f64;
    split::try_parts(y, planes.elements, cost, |first, part| {
        let wide = TypeId::of::<T>() == TypeId::of::<T::Wide>();
        let zero = T::Wide::from_index(0);
        let mut sums = memory.filled(if wide { 0 } else { planes.elements }, zero)?;
        let plane = |number: usize, sums: &mut [T::Wide]| {
            let x = &x[number * planes.elements..][..planes.elements];
            let source = &source[number * planes.windows..][..planes.windows];
            sums.fill(zero);
            for (line, source) in lines.lines.iter().zip(source.chunks_exact(lines.columns.max(1))) {
                // SAFETY: the loops are those of this processor.
                unsafe { add(lines, line, x, source, sums) };
            }
        };
        for (number, y) in (first / planes.elements..).zip(part.chunks_exact_mut(planes.elements)) {
            if wide {
                // Elements that are what they are summed in, in their place.
                plane(number, bytemuck::cast_slice_mut(y));
                continue;
            }
            plane(number, &mut sums);
            y.iter_mut().zip(sums.iter()).for_each(|(y, &sum)| *y = T::narrow(sum));
        }
        Ok(())
    })
}

/// Windows that are looked at together.
const TOGETHER: usize = 8;

#[inline(always)]
fn line<T: Cell<Wide: PartialOrd>, const MAX: bool>(
    lines: &Lines,
    of: &Line,
    x: &[T],
    source: &[T],
    sums: &mut [T::Wide],
) {
    let inside = &lines.inside;
    edge::<T, MAX>(lines, of, x, source, sums, 0..inside.start);
    // Beyond the last place of a window.
    let end = of.places.iter().max().map_or(0, |&place| place + (TOGETHER * lines.step) as isize);
    let mut column = inside.start;
    while column < inside.end {
        // The last ones are looked at with those before them.
        let first = column.min(inside.end.saturating_sub(TOGETHER));
        let next = inside.end.min(first + TOGETHER);
        let fits = first >= inside.start && first + TOGETHER <= inside.end;
        let whole = fits && (first * lines.step) as isize + end <= x.len() as isize;
        match lines.step {
            1 if whole => together::<T, MAX, 1>(of, x, source, sums, first, column - first),
            2 if whole => together::<T, MAX, 2>(of, x, source, sums, first, column - first),
            _ => edge::<T, MAX>(lines, of, x, source, sums, column..next.max(column + 1)),
        }
        column = next.max(column + 1);
    }
    edge::<T, MAX>(lines, of, x, source, sums, inside.end..lines.columns);
}

/// Windows that may reach beyond the line, one by one.
#[inline(always)]
fn edge<T: Cell<Wide: PartialOrd>, const MAX: bool>(
    lines: &Lines,
    of: &Line,
    x: &[T],
    source: &[T],
    sums: &mut [T::Wide],
    columns: Range<usize>,
) {
    let kind = if MAX { Extreme::Max } else { Extreme::Min };
    for column in columns {
        let mut best: Option<(T::Wide, usize)> = None;
        for row in &of.rows {
            for tap in &lines.taps {
                let place = (column * lines.step) as isize + tap;
                if (0..lines.width as isize).contains(&place) {
                    let at = row + place as usize;
                    let x = x[at].widen();
                    if best.is_none_or(|(best, _)| beats(kind, x, best)) {
                        best = Some((x, at));
                    }
                }
            }
        }
        if let Some((_, at)) = best {
            sums[at] = sums[at].plus(source[column].widen());
        }
    }
}

/// Windows `STEP` elements apart that lie inside the line, but for those that are done.
#[inline(always)]
fn together<T: Cell<Wide: PartialOrd>, const MAX: bool, const STEP: usize>(
    of: &Line,
    x: &[T],
    source: &[T],
    sums: &mut [T::Wide],
    first: usize,
    done: usize,
) {
    let kind = if MAX { Extreme::Max } else { Extreme::Min };
    let elements = |place: isize| -> [T::Wide; TOGETHER] {
        let x = &x[(place + (first * STEP) as isize) as usize..][..TOGETHER * STEP];
        let mut elements = [T::default().widen(); TOGETHER];
        // Of whole chunks, for which the compiler has vectors.
        elements.iter_mut().zip(x.chunks_exact(STEP)).for_each(|(element, x)| *element = x[0].widen());
        elements
    };
    let Some((&place, places)) = of.places.split_first() else { return };
    let (mut best, mut which) = (elements(place), [0u32; TOGETHER]);
    for (number, &place) in (1..).zip(places) {
        let x = elements(place);
        for lane in 0..TOGETHER {
            let better = beats(kind, x[lane], best[lane]);
            best[lane] = if better { x[lane] } else { best[lane] };
            which[lane] = if better { number } else { which[lane] };
        }
    }
    for (lane, (source, which)) in source[first..first + TOGETHER].iter().zip(which).enumerate().skip(done) {
        let at = (of.places[which as usize] + ((first + lane) * STEP) as isize) as usize;
        sums[at] = sums[at].plus(source.widen());
    }
}
