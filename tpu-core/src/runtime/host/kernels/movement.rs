//! Ops that move elements and compute nothing. They see elements as integers of the same width.

use super::strided::{self, View};
use super::{Operand, Target, split};
use crate::ir::{Axes, Op};
use crate::{DType, Result, bail, ensure};
use bytemuck::Pod;

/// Runs `$body` with `$T` standing for the unsigned integer as wide as an element of `$dtype`.
macro_rules! with_width {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.bits() {
            8 => {
                type $T = u8;
                $body
            }
            16 => {
                type $T = u16;
                $body
            }
            32 => {
                type $T = u32;
                $body
            }
            64 => {
                type $T = u64;
                $body
            }
            bits => bail!(Internal, "host kernel", "cannot move elements of {bits} bits"),
        }
    };
}

pub(super) use with_width;

/// Same bytes.
pub(super) fn copy(x: &Operand<'_>, [y]: &mut [Target<'_>; 1]) -> Result<()> {
    ensure!(x.bytes.len() == y.bytes.len(), Internal, "reshape", "requires equal sizes, got {} and {}", x.ty, y.ty);
    split::parts(y.bytes, 4096, 0.1, |first, part| part.copy_from_slice(&x.bytes[first..first + part.len()]));
    Ok(())
}

/// Operand axis `i` becomes result axis `axes[i]`; sizes of one stretch.
pub(super) fn broadcast(axes: &Axes, x: &Operand<'_>, [y]: &mut [Target<'_>; 1]) -> Result<()> {
    let from = strided::dense(x.sizes());
    let mut view = View::dense(y.ty.shape.sizes());
    view.strides.fill(0);
    for (axis, &to) in axes.iter().enumerate() {
        view.strides[to] = if x.sizes()[axis] == 1 { 0 } else { from[axis] };
    }
    gather(x, y, &view)
}

/// Result axis `i` is operand axis `permutation[i]`.
pub(super) fn transpose(permutation: &Axes, x: &Operand<'_>, [y]: &mut [Target<'_>; 1]) -> Result<()> {
    let from = strided::dense(x.sizes());
    let mut view = View::dense(y.ty.shape.sizes());
    view.strides = permutation.iter().map(|&axis| from[axis]).collect();
    gather(x, y, &view)
}

/// Every `strides`-th element from `start`.
pub(super) fn slice(start: &[usize], strides: &[usize], x: &Operand<'_>, [y]: &mut [Target<'_>; 1]) -> Result<()> {
    let from = strided::dense(x.sizes());
    let mut view = View::dense(y.ty.shape.sizes());
    for axis in 0..from.len() {
        view.offset += start[axis] as isize * from[axis];
        view.strides[axis] = strides[axis] as isize * from[axis];
    }
    gather(x, y, &view)
}

/// Order along `axes` reversed.
pub(super) fn reverse(axes: &Axes, x: &Operand<'_>, [y]: &mut [Target<'_>; 1]) -> Result<()> {
    let mut view = View::dense(x.sizes());
    for &axis in axes {
        view.offset += (x.sizes()[axis] as isize - 1) * view.strides[axis];
        view.strides[axis] = -view.strides[axis];
    }
    gather(x, y, &view)
}

/// Fills `y` with the elements of `x` that `view` names.
fn gather(x: &Operand<'_>, y: &mut Target<'_>, view: &View) -> Result<()> {
    with_width!(x.ty.dtype, T => strided::gather(y.cells::<T>()?, x.cells::<T>()?, view));
    Ok(())
}

/// Reads elements of an index array, from one on and so far apart, as `i64`; unsigned values beyond it become its largest.
pub(super) type IndexReader = fn(&[u8], usize, usize, &mut [i64]);

/// How indices of a dtype are read.
pub(super) fn index_reader(dtype: DType) -> Result<IndexReader> {
    fn all<T: Pod>(bytes: &[u8], first: usize, step: usize, out: &mut [i64], widen: impl Fn(T) -> i64) {
        let from = &bytemuck::cast_slice::<u8, T>(bytes)[first..];
        match step {
            1 => out.iter_mut().zip(from).for_each(|(out, &v)| *out = widen(v)),
            _ => out.iter_mut().enumerate().for_each(|(i, out)| *out = widen(from[i * step])),
        }
    }
    Ok(match dtype {
        DType::U8 => |x, first, step, out| all::<u8>(x, first, step, out, i64::from),
        DType::U16 => |x, first, step, out| all::<u16>(x, first, step, out, i64::from),
        DType::U32 => |x, first, step, out| all::<u32>(x, first, step, out, i64::from),
        DType::U64 => |x, first, step, out| all::<u64>(x, first, step, out, |v| v.min(i64::MAX as u64) as i64),
        DType::I8 => |x, first, step, out| all::<i8>(x, first, step, out, i64::from),
        DType::I16 => |x, first, step, out| all::<i16>(x, first, step, out, i64::from),
        DType::I32 => |x, first, step, out| all::<i32>(x, first, step, out, i64::from),
        DType::I64 => |x, first, step, out| all::<i64>(x, first, step, out, |v| v),
        other => bail!(Internal, "host kernel", "requires integer indices, got {other}"),
    })
}

/// Where a window of `sizes` starts in an array of `bounds`: each start clamped so that the window fits.
fn clamped_start(op: &Op, starts: &[Operand<'_>], bounds: &[usize], sizes: &[usize]) -> Result<Axes> {
    ensure!(starts.len() == bounds.len(), Internal, op.name(), "requires one start per axis, got {}", starts.len());
    let clamp = |axis: usize| -> Result<usize> {
        let room = bounds[axis].saturating_sub(sizes[axis]);
        let scalar = starts[axis].ty.shape.rank() == 0;
        ensure!(scalar, Internal, op.name(), "requires scalar starts, got {}", starts[axis].ty);
        let mut start = [0];
        index_reader(starts[axis].ty.dtype)?(starts[axis].bytes, 0, 1, &mut start);
        Ok(start[0].clamp(0, room as i64) as usize)
    };
    (0..bounds.len()).map(clamp).collect()
}

/// A window at a start that is an operand.
pub(super) fn dynamic_slice(op: &Op, inputs: &[Operand<'_>], [y]: &mut [Target<'_>; 1]) -> Result<()> {
    let [x, starts @ ..] = inputs else { bail!(Internal, op.name(), "requires an operand") };
    let start = clamped_start(op, starts, x.sizes(), y.ty.shape.sizes())?;
    let mut view = View { sizes: y.ty.shape.sizes().into(), ..View::dense(x.sizes()) };
    view.offset = start.iter().zip(&view.strides).map(|(&s, &stride)| s as isize * stride).sum();
    gather(x, y, &view)
}

/// The operand with a window replaced.
pub(super) fn dynamic_update_slice(op: &Op, inputs: &[Operand<'_>], target: &mut [Target<'_>; 1]) -> Result<()> {
    let [x, update, starts @ ..] = inputs else { bail!(Internal, op.name(), "requires an operand and an update") };
    let start = clamped_start(op, starts, x.sizes(), update.sizes())?;
    // Else the result is in the operand's memory.
    if !x.bytes.is_empty() {
        copy(x, target)?;
    }
    let [y] = target;
    let mut to = View { sizes: update.sizes().into(), ..View::dense(x.sizes()) };
    to.offset = start.iter().zip(&to.strides).map(|(&s, &stride)| s as isize * stride).sum();
    let from = View::dense(update.sizes());
    with_width!(x.ty.dtype, T => strided::copy(y.cells::<T>()?, &to, update.cells::<T>()?, &from));
    Ok(())
}

/// Elements spread out by `interior`, shifted by `low`; the rest is `value`.
pub(super) fn pad(
    low: &[i64],
    interior: &[usize],
    x: &Operand<'_>,
    value: &Operand<'_>,
    [y]: &mut [Target<'_>; 1],
) -> Result<()> {
    let (mut from, mut to) = (View::dense(x.sizes()), View::dense(y.ty.shape.sizes()));
    for axis in 0..from.sizes.len() {
        let (size, room, step) = (x.sizes()[axis] as i64, y.ty.shape.size(axis) as i64, interior[axis] as i64 + 1);
        // Operand indices `first .. last` are those whose place `low + index * step` lies in the result.
        let steps_to = |place: i64| (place - low[axis]).max(0) as u64;
        let first = (steps_to(0).div_ceil(step as u64) as i64).min(size);
        let last = (steps_to(room).div_ceil(step as u64) as i64).clamp(first, size);
        from.sizes[axis] = (last - first) as usize;
        from.offset += first as isize * from.strides[axis];
        to.sizes[axis] = (last - first) as usize;
        to.offset += (low[axis] + first * step) as isize * to.strides[axis];
        to.strides[axis] *= step as isize;
    }
    with_width!(x.ty.dtype, T => pad_cells::<T>(x.cells()?, &from, value.cells()?, y.cells()?, &to));
    Ok(())
}

fn pad_cells<T: Pod + Send + Sync>(x: &[T], from: &View, value: &[T], y: &mut [T], to: &View) {
    let value = value[0];
    split::parts(y, 1, 0.3, |_, part| part.fill(value));
    strided::copy(y, to, x, from);
}

/// Operands one after the other along `axis`.
pub(super) fn concatenate(axis: usize, inputs: &[Operand<'_>], [y]: &mut [Target<'_>; 1]) -> Result<()> {
    let width = y.ty.dtype.bits() as usize / 8;
    let row = y.ty.shape.sizes()[axis..].iter().product::<usize>() * width;
    // Each operand as its bytes and the bytes it gives to one row of the result.
    let pieces: Vec<(&[u8], usize)> =
        inputs.iter().map(|x| (x.bytes, x.sizes()[axis..].iter().product::<usize>() * width)).collect();
    if row == 0 {
        return Ok(());
    }
    split::parts(y.bytes, row, 0.15, |first, part| {
        for (i, line) in part.chunks_exact_mut(row).enumerate() {
            let (mut line, number) = (line, first / row + i);
            for &(bytes, len) in &pieces {
                let (piece, rest) = line.split_at_mut(len);
                piece.copy_from_slice(&bytes[number * len..(number + 1) * len]);
                line = rest;
            }
        }
    });
    Ok(())
}
