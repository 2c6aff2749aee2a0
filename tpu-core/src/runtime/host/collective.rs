//! Operations among devices that run one program in lock step.

use super::kernels::{self, Operand, Target};
use super::program::{Frame, KernelStep};
use super::scratch::{Memory, Piece};
use crate::ir::{BinaryOp, Op, Reducer, ReplicaGroups, Type};
use crate::{Error, ErrorKind, Result, bail};
use smallvec::{SmallVec, smallvec};

/// Runs one op for the devices that arrived at it. Errors with `Device` when one that belongs to them did not.
pub(super) fn run(step: &KernelStep, frames: &[Frame<'_>]) -> Result<()> {
    let meeting = Meeting { step, frames };
    match &step.op {
        Op::AllReduce { kind, groups } => meeting.by_group(groups, |group| meeting.all_reduce(*kind, group)),
        Op::ReduceScatter { kind, axis, groups } => {
            meeting.by_group(groups, |group| meeting.reduce_scatter(*kind, *axis, group))
        }
        Op::AllGather { axis, groups } => meeting.by_group(groups, |group| {
            let parts: Vec<Operand<'_>> = group.iter().map(|&at| meeting.operand(at)).collect();
            group.iter().try_for_each(|&at| meeting.kernel(&Op::Concatenate { axis: *axis }, &parts, at))
        }),
        Op::AllToAll { split_axis, concat_axis, groups } => {
            meeting.by_group(groups, |group| meeting.all_to_all(*split_axis, *concat_axis, group))
        }
        Op::CollectivePermute { pairs, .. } => meeting.permute(pairs),
        Op::ReplicaId => {
            (0..frames.len())
                .for_each(|at| meeting.result(at).bytes.copy_from_slice(&frames[at].replica.to_le_bytes()));
            Ok(())
        }
        // One partition: programs are replicated, not cut up.
        Op::PartitionId => {
            (0..frames.len()).for_each(|at| meeting.result(at).bytes.fill(0));
            Ok(())
        }
        op => bail!(Internal, op.name(), "does not concern several devices"),
    }
}

/// The devices that arrived at a step.
struct Meeting<'a> {
    step: &'a KernelStep,
    frames: &'a [Frame<'a>],
}

impl<'a> Meeting<'a> {
    /// What device number `at` of the meeting brings.
    fn operand(&self, at: usize) -> Operand<'a> {
        let (ty, location) = &self.step.operands[0];
        let from = self.frames[at].at(*location);
        // SAFETY: the location holds a dense value of this type, which no one writes during the step.
        Operand { ty, bytes: unsafe { std::slice::from_raw_parts(from, ty.bytes().unwrap_or(0)) } }
    }

    /// Where its result goes.
    fn result(&self, at: usize) -> Target<'a> {
        let (ty, location) = &self.step.results[0];
        let to = self.frames[at].at(*location);
        // SAFETY: the location is this result's own memory, and each caller is done with one before it takes another.
        Target { ty, bytes: unsafe { std::slice::from_raw_parts_mut(to, ty.bytes().unwrap_or(0)) } }
    }

    /// Computes the result of a device by a kernel.
    fn kernel(&self, op: &Op, operands: &[Operand<'_>], at: usize) -> Result<()> {
        kernels::run(op, operands, &mut [self.result(at)], self.memory(at, &Piece::none()))
    }

    fn memory<'m>(&'m self, at: usize, piece: &'m Piece) -> Memory<'m> {
        Memory::new(self.frames[at].pool, piece)
    }

    /// The place in the meeting of a device.
    fn find(&self, device: u32) -> Result<usize> {
        self.frames.iter().position(|frame| frame.replica == device).ok_or_else(|| {
            let message = format!("requires device {device}, which did not arrive: {} did", self.frames.len());
            Error::new(ErrorKind::Device, self.step.op.name(), message)
        })
    }

    /// Calls `exchange` with each group that has a device here, all of whose devices have to be.
    fn by_group(&self, groups: &ReplicaGroups, mut exchange: impl FnMut(&[usize]) -> Result<()>) -> Result<()> {
        for frame in self.frames {
            if !groups.groups.iter().any(|group| group.contains(&frame.replica)) {
                bail!(Device, self.step.op.name(), "has no group with device {}", frame.replica);
            }
        }
        for group in &groups.groups {
            if group.iter().any(|&device| self.find(device).is_ok()) {
                exchange(&group.iter().map(|&device| self.find(device)).collect::<Result<SmallVec<[usize; 8]>>>()?)?;
            }
        }
        Ok(())
    }

    /// Reduces the operands of a group, which become the rows of one value.
    fn reduced(&self, kind: Reducer, group: &[usize], to: Target<'_>) -> Result<()> {
        let none = Piece::none();
        let memory = self.memory(group[0], &none);
        let (ty, each) = (&self.step.operands[0].0, self.operand(group[0]).bytes.len());
        if ty.dtype.is_complex() && kind == Reducer::Product {
            // Reductions start from 1, which spreads a NaN or an infinity to the other part of a complex factor.
            to.bytes.copy_from_slice(self.operand(group[0]).bytes);
            let mut so_far = memory.filled(each, 0u8)?;
            for &at in &group[1..] {
                so_far.copy_from_slice(to.bytes);
                let factors = [Operand { ty, bytes: &so_far }, self.operand(at)];
                kernels::run(&Op::Binary(BinaryOp::Multiply), &factors, &mut [Target { ty, bytes: to.bytes }], memory)?;
            }
            return Ok(());
        }
        let mut rows = memory.filled(each * group.len(), 0u8)?;
        for (&at, row) in group.iter().zip(rows.chunks_exact_mut(each.max(1))) {
            row.copy_from_slice(self.operand(at).bytes);
        }
        let sizes = std::iter::once(group.len()).chain(ty.shape.sizes().iter().copied());
        let stacked = Type { dtype: ty.dtype, shape: sizes.collect() };
        let op = Op::Reduce { kind, axes: smallvec![0] };
        kernels::run(&op, &[Operand { ty: &stacked, bytes: &rows }], &mut [to], memory)
    }

    fn all_reduce(&self, kind: Reducer, group: &[usize]) -> Result<()> {
        self.reduced(kind, group, self.result(group[0]))?;
        for &at in &group[1..] {
            // SAFETY: results are memory of their own, on different devices; the first one is there.
            self.result(at).bytes.copy_from_slice(self.result(group[0]).bytes);
        }
        Ok(())
    }

    fn reduce_scatter(&self, kind: Reducer, axis: usize, group: &[usize]) -> Result<()> {
        let none = Piece::none();
        let ty = &self.step.operands[0].0;
        let mut whole = self.memory(group[0], &none).filled(ty.bytes().unwrap_or(0), 0u8)?;
        self.reduced(kind, group, Target { ty, bytes: &mut whole })?;
        let whole = Operand { ty, bytes: &whole };
        group.iter().enumerate().try_for_each(|(rank, &at)| {
            let slice = part(ty, axis, rank, group.len());
            self.kernel(&slice, &[whole], at)
        })
    }

    fn all_to_all(&self, split_axis: usize, concat_axis: usize, group: &[usize]) -> Result<()> {
        let ty = &self.step.operands[0].0;
        let sizes = ty.shape.sizes().iter().enumerate();
        let sizes = sizes.map(|(axis, &size)| if axis == split_axis { size / group.len() } else { size });
        let piece = Type { dtype: ty.dtype, shape: sizes.collect() };
        let each = piece.bytes().unwrap_or(0);
        let none = Piece::none();
        for (rank, &at) in group.iter().enumerate() {
            let memory = self.memory(at, &none);
            // Each piece on an aligned address.
            let mut pieces = group.iter().map(|_| memory.filled(each, 0u8)).collect::<Result<Vec<_>>>()?;
            for (&from, bytes) in group.iter().zip(&mut pieces) {
                let slice = part(ty, split_axis, rank, group.len());
                kernels::run(&slice, &[self.operand(from)], &mut [Target { ty: &piece, bytes }], memory)?;
            }
            let pieces: Vec<Operand<'_>> = pieces.iter().map(|bytes| Operand { ty: &piece, bytes }).collect();
            self.kernel(&Op::Concatenate { axis: concat_axis }, &pieces, at)?;
        }
        Ok(())
    }

    fn permute(&self, pairs: &[(u32, u32)]) -> Result<()> {
        (0..self.frames.len()).try_for_each(|at| {
            let to = self.result(at).bytes;
            match pairs.iter().find(|pair| pair.1 == self.frames[at].replica) {
                Some(&(from, _)) => to.copy_from_slice(self.operand(self.find(from)?).bytes),
                None => to.fill(0),
            }
            Ok(())
        })
    }
}

/// The op that takes part number `rank` of `count` equal parts along an axis.
fn part(ty: &Type, axis: usize, rank: usize, count: usize) -> Op {
    let sizes = ty.shape.sizes();
    let (mut start, mut limit) = (smallvec![0; sizes.len()], crate::ir::Axes::from_slice(sizes));
    let size = sizes[axis] / count;
    (start[axis], limit[axis]) = (rank * size, (rank + 1) * size);
    Op::Slice { start, limit, strides: smallvec![1; sizes.len()] }
}
