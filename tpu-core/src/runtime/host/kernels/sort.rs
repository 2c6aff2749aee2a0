//! Sorting and selection. The order of one lane is found as a permutation, by key and then by position, so equal keys
//! always keep their order; then every operand is moved by it.

use super::super::scratch::{Memory, Scratch};
use super::along::around;
use super::cell::{Cell, Flag, with_ordered};
use super::elementwise::refused;
use super::movement::with_width;
use super::{Operand, Target, split};
use crate::{Error, ErrorKind, Result, bail, ensure};
use bytemuck::Pod;

/// Nanoseconds of sorting, an element of a lane of `n`.
fn cost(n: usize) -> f64 {
    3.0 * (n.max(2) as f64).log2()
}

/// A key and where it was in one integer, whose order is by key and then by position: sorting is compiled for two types
/// of integers instead of for every dtype and direction.
trait Entry: Pod + Ord + Send + Sync {
    fn new(rank: u64, position: u32) -> Self;
    fn position(self) -> u32;
}

macro_rules! entries {
    ($($entry:ty: $rank:ty),*) => {$(
        impl Entry for $entry {
            fn new(rank: u64, position: u32) -> Self {
                Self::from(rank as $rank) << 32 | Self::from(position)
            }
            fn position(self) -> u32 {
                self as u32
            }
        }
    )*};
}
entries!(u64: u32, u128: u64);

/// A key's place in the order of sorting.
trait Ranked {
    /// Entries that have room for it.
    type Entry: Entry;

    /// Greater for what sorts later: NaN after every number, zeros at one place.
    fn rank(self) -> u64;
}

macro_rules! ranked {
    (integers: $($t:ty: $entry:ty, $unsigned:ty),*) => {$(
        impl Ranked for $t {
            type Entry = $entry;
            fn rank(self) -> u64 {
                // Signed numbers are moved up until none is negative.
                (self as $unsigned).wrapping_sub(Self::MIN as $unsigned).into()
            }
        }
    )*};
    (floats: $($t:ty: $entry:ty, $unsigned:ty),*) => {$(
        impl Ranked for $t {
            type Entry = $entry;
            fn rank(self) -> u64 {
                const SIGN: $unsigned = 1 << (<$unsigned>::BITS - 1);
                if self.is_nan() {
                    return <$unsigned>::MAX.into();
                }
                // The sum has no negative zero. Among negative numbers larger bits are smaller numbers.
                let bits = (self + 0.0).to_bits();
                (if bits & SIGN == 0 { bits | SIGN } else { !bits }).into()
            }
        }
    )*};
}
ranked!(integers: u8: u64, u8, u16: u64, u16, u32: u64, u32, u64: u128, u64, i8: u64, u8, i16: u64, u16, i32: u64, u32, i64: u128, u64);
ranked!(floats: f32: u64, u32, f64: u128, u64);

impl Ranked for Flag {
    type Entry = u64;
    fn rank(self) -> u64 {
        self.get().into()
    }
}

/// Writes the entries of keys `start, start + step, …`, from position `first` of the lane on.
fn fill<T: Cell<Wide: Ranked>>(
    keys: &[T],
    descending: bool,
    (start, step): (usize, usize),
    first: usize,
    entries: &mut [<T::Wide as Ranked>::Entry],
) {
    let flip = if descending { u64::MAX } else { 0 };
    let keys = keys[start + first * step..].iter().step_by(step);
    for ((entry, key), i) in entries.iter_mut().zip(keys).zip(first as u32..) {
        *entry = Entry::new(key.widen().rank() ^ flip, i);
    }
}

fn position_limit(op: &'static str, n: usize) -> Result<()> {
    ensure!(i32::try_from(n).is_ok(), Value, op, "requires fewer than 2^31 elements along the axis, got {n}");
    Ok(())
}

/// All operands along `axis`, by the first.
pub(super) fn sort(
    axis: usize,
    descending: bool,
    inputs: &[Operand<'_>],
    outputs: &mut [Target<'_>],
    memory: Memory<'_>,
) -> Result<()> {
    let Some(keys) = inputs.first() else { bail!(Internal, "sort", "requires an operand") };
    let shape = around(keys.sizes(), axis);
    position_limit("sort", shape.1)?;
    let dtype = keys.ty.dtype;
    let permutation = with_ordered!(dtype, T => {
        let keys = keys.cells::<T>()?;
        permutation(shape, &|lane, first, entries| fill(keys, descending, lane, first, entries), memory)?
    }, return Err(refused("sort", dtype)));
    for (x, y) in inputs.iter().zip(outputs) {
        with_width!(x.ty.dtype, T => permute::<T>(x.cells()?, &permutation, shape, y.cells()?));
    }
    Ok(())
}

/// Writes entries of one lane, given by its start and step, from a position on.
type Fill<'a, E> = &'a (dyn Fn((usize, usize), usize, &mut [E]) + Sync);

/// For each lane (outer axes, then inner ones) the positions in sorted order.
fn permutation<'m, E: Entry>(
    (before, n, after): (usize, usize, usize),
    fill: Fill<'_, E>,
    memory: Memory<'m>,
) -> Result<Scratch<'m, u32>> {
    let mut permutation = memory.filled(before * n * after, 0u32)?;
    split::try_parts(&mut permutation, n, cost(n), |first, part| {
        let mut entries = memory.filled(n, E::zeroed())?;
        for (lane, positions) in part.chunks_exact_mut(n.max(1)).enumerate() {
            let lane = first / n + lane;
            fill((lane / after * n * after + lane % after, after), 0, &mut entries);
            entries.sort_unstable();
            for (position, entry) in positions.iter_mut().zip(entries.iter()) {
                *position = entry.position();
            }
        }
        Ok(())
    })?;
    Ok(permutation)
}

fn permute<T: Pod + Send + Sync>(x: &[T], permutation: &[u32], (_, n, after): (usize, usize, usize), y: &mut [T]) {
    let slab = n * after;
    split::parts(y, 1, 2.0, |first, part| {
        for (i, y) in part.iter_mut().enumerate() {
            let (outer, inside) = ((first + i) / slab, (first + i) % slab);
            let (place, column) = (inside / after, inside % after);
            let from = permutation[(outer * after + column) * n + place] as usize;
            *y = x[outer * slab + from * after + column];
        }
    });
}

/// The `k` best elements along the last axis and where they are.
pub(super) fn top_k(
    k: usize,
    largest: bool,
    x: &Operand<'_>,
    out: &mut [Target<'_>; 2],
    memory: Memory<'_>,
) -> Result<()> {
    let (dtype, Some(&n)) = (x.ty.dtype, x.sizes().last()) else {
        return Err(Error::new(ErrorKind::Internal, "top_k", "requires an axis"));
    };
    position_limit("top_k", n)?;
    let [values, positions] = out;
    let positions = positions.cells::<i32>()?;
    if k == 0 {
        return Ok(());
    }
    with_ordered!(dtype, T => {
        let keys = x.cells::<T>()?;
        best(k, n, &|lane, first, entries| fill(keys, largest, lane, first, entries), positions, memory)?;
    }, return Err(refused("top_k", dtype)));
    with_width!(dtype, T => {
        let x = x.cells::<T>()?;
        split::parts(values.cells::<T>()?, 1, 1.0, |first, part| {
            for (i, value) in part.iter_mut().enumerate() {
                *value = x[(first + i) / k * n + positions[first + i] as usize];
            }
        });
    });
    Ok(())
}

/// Elements of a row that are looked at together.
const BLOCK: usize = 1024;

/// For each row of `n` elements the positions of the `k` that sort first, in order. Only what sorts before the `k`th of those
/// seen so far is kept.
fn best<E: Entry>(k: usize, n: usize, fill: Fill<'_, E>, positions: &mut [i32], memory: Memory<'_>) -> Result<()> {
    let room = k.saturating_add(k.max(4 * BLOCK)).min(n);
    split::try_parts(positions, k, 2.0 * n as f64 / k as f64 + cost(k), |first, part| {
        let mut block = memory.filled(BLOCK.min(n), E::zeroed())?;
        // Each entry of a block is written before it is known whether it stays.
        let mut kept = memory.filled(room.saturating_add(BLOCK), E::zeroed())?;
        for (row, positions) in part.chunks_exact_mut(k).enumerate() {
            let (mut count, mut last) = (0, None);
            for at in (0..n).step_by(BLOCK) {
                let block = &mut block[..BLOCK.min(n - at)];
                fill(((first / k + row) * n, 1), at, block);
                if count > room {
                    last = Some(*kept[..count].select_nth_unstable(k - 1).1);
                    count = k;
                }
                match last {
                    None => {
                        kept[count..count + block.len()].copy_from_slice(block);
                        count += block.len();
                    }
                    Some(last) => {
                        for &entry in block.iter() {
                            kept[count] = entry;
                            count += usize::from(entry < last);
                        }
                    }
                }
            }
            if k < count {
                kept[..count].select_nth_unstable(k - 1);
            }
            kept[..k].sort_unstable();
            for (position, entry) in positions.iter_mut().zip(kept.iter()) {
                *position = entry.position() as i32;
            }
        }
        Ok(())
    })
}
