//! Shape and order of elements.

use super::{Operand, Tensor};
use crate::ir::{Axes, Op};
use crate::lazy::mode::locate;
use crate::{Error, ErrorKind, Result, Scalar, Shape, ensure};
use smallvec::SmallVec;

/// An axis counted from the end if negative, as a plain number.
pub(crate) fn axis_of(axis: isize, rank: usize, op: &'static str) -> Result<usize> {
    let plain = if axis < 0 { axis + rank as isize } else { axis };
    ensure!(
        (0..rank as isize).contains(&plain),
        Axis,
        op,
        "requires an axis from -{rank} to {}, got {axis}",
        rank as isize - 1
    );
    Ok(plain as usize)
}

/// Distinct axes as plain numbers, in the given order.
pub(crate) fn axes_of(axes: impl IntoIterator<Item = isize>, rank: usize, op: &'static str) -> Result<Axes> {
    let mut plain = Axes::new();
    for axis in axes {
        let axis = axis_of(axis, rank, op)?;
        ensure!(!plain.contains(&axis), Axis, op, "requires distinct axes, got {axis} twice");
        plain.push(axis);
    }
    Ok(plain)
}

/// `tensor` stretched to `shape`, aligned at the last axis.
#[track_caller]
pub(crate) fn broadcast_axes(tensor: &Tensor, shape: &Shape) -> Result<Tensor> {
    let lead = shape.rank() - tensor.rank();
    let axes = (lead..shape.rank()).collect();
    Tensor::record_one(Op::BroadcastInDim { shape: shape.clone(), axes }, &[tensor.into()])
}

impl Tensor {
    /// Runs a rule of axes or sizes, and gives its error the caller's line. For libraries of operations: a rule that fails
    /// before anything is recorded names the line of the library's user.
    #[track_caller]
    pub fn checked<T>(rule: impl FnOnce() -> Result<T>) -> Result<T> {
        let location = std::panic::Location::caller();
        rule().map_err(|error| error.at(&locate(location)))
    }

    /// The same elements in row-major order under another shape. Errors unless it has as many elements.
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        if shape == *self.shape() {
            return Ok(self.clone());
        }
        Self::record_one(Op::Reshape(shape), &[self.into()])
    }

    /// Stretched to `shape`: aligned at the last axis, sizes of one repeat.
    ///
    /// ```
    /// use tpu_core::Tensor;
    /// let x = Tensor::from_slice(&[1i32, 2])?.broadcast_to([2, 2])?;
    /// assert_eq!(x.to_vec::<i32>()?, [1, 2, 1, 2]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        if shape == *self.shape() {
            return Ok(self.clone());
        }
        Self::checked(|| {
            let fits = Shape::broadcast(self.shape(), &shape).as_ref() == Some(&shape);
            ensure!(fits, Shape, "broadcast_to", "requires a shape that {} stretches to, got {shape}", self.shape());
            Ok(())
        })?;
        broadcast_axes(self, &shape)
    }

    /// Axes reordered: axis `i` of the result is axis `axes[i]` of this tensor.
    #[track_caller]
    pub fn permute(&self, axes: impl IntoIterator<Item = isize>) -> Result<Self> {
        let axes = Self::checked(|| axes_of(axes, self.rank(), "permute"))?;
        if axes.len() == self.rank() && axes.iter().enumerate().all(|(i, &axis)| i == axis) {
            return Ok(self.clone());
        }
        Self::record_one(Op::Transpose(axes), &[self.into()])
    }

    /// Two axes swapped.
    #[track_caller]
    pub fn transpose(&self, a: isize, b: isize) -> Result<Self> {
        let (a, b) = Self::checked(|| Ok((self.axis(a, "transpose")?, self.axis(b, "transpose")?)))?;
        let mut axes: SmallVec<[isize; 6]> = (0..self.rank() as isize).collect();
        axes.swap(a, b);
        self.permute(axes)
    }

    /// The last two axes swapped.
    #[track_caller]
    pub fn t(&self) -> Result<Self> {
        self.transpose(-2, -1)
    }

    /// A new axis of size one at `axis`, which counts from the end of the result if negative.
    #[track_caller]
    pub fn unsqueeze(&self, axis: isize) -> Result<Self> {
        let axis = Self::checked(|| axis_of(axis, self.rank() + 1, "unsqueeze"))?;
        let mut sizes: SmallVec<[usize; 6]> = SmallVec::from_slice(self.sizes());
        sizes.insert(axis, 1);
        self.reshape(&sizes[..])
    }

    /// Without the axis, if its size is one; unchanged otherwise, as in PyTorch.
    #[track_caller]
    pub fn squeeze(&self, axis: isize) -> Result<Self> {
        let axis = Self::checked(|| self.axis(axis, "squeeze"))?;
        if self.shape().size(axis) != 1 {
            return Ok(self.clone());
        }
        let mut sizes: SmallVec<[usize; 6]> = SmallVec::from_slice(self.sizes());
        sizes.remove(axis);
        self.reshape(&sizes[..])
    }

    /// Axes `first` to `last`, inclusive, merged into one.
    #[track_caller]
    pub fn flatten(&self, first: isize, last: isize) -> Result<Self> {
        if self.rank() == 0 {
            return self.reshape(1);
        }
        let (first, last) = Self::checked(|| {
            let (first, last) = (self.axis(first, "flatten")?, self.axis(last, "flatten")?);
            ensure!(
                first <= last,
                Axis,
                "flatten",
                "requires the first axis not behind the last, got {first} and {last}"
            );
            Ok((first, last))
        })?;
        let sizes = self.sizes();
        let merged = Shape::from(&sizes[first..=last]).elements();
        let merged = Self::checked(|| {
            merged.ok_or_else(|| Error::new(ErrorKind::Shape, "flatten", format!("of {} is too large", self.shape())))
        })?;
        let shape: Shape =
            sizes[..first].iter().copied().chain([merged]).chain(sizes[last + 1..].iter().copied()).collect();
        self.reshape(shape)
    }

    /// Elements `start, start + step, …` before `end` of one axis.
    #[track_caller]
    pub fn slice(&self, axis: isize, start: usize, end: usize, step: usize) -> Result<Self> {
        let axis = Self::checked(|| self.axis(axis, "slice"))?;
        let mut low: Axes = SmallVec::from_elem(0, self.rank());
        let mut limit: Axes = SmallVec::from_slice(self.sizes());
        let mut strides: Axes = SmallVec::from_elem(1, self.rank());
        (low[axis], limit[axis], strides[axis]) = (start, end, step);
        Self::record_one(Op::Slice { start: low, limit, strides }, &[self.into()])
    }

    /// `len` elements of one axis from `start` on, PyTorch's `narrow`.
    #[track_caller]
    pub fn narrow(&self, axis: isize, start: usize, len: usize) -> Result<Self> {
        self.slice(axis, start, start.saturating_add(len), 1)
    }

    /// Cut into pieces of the given sizes along one axis; they must add up to its size.
    #[track_caller]
    pub fn split(&self, axis: isize, sizes: &[usize]) -> Result<Vec<Self>> {
        let plain = Self::checked(|| {
            let plain = self.axis(axis, "split")?;
            let total = sizes.iter().try_fold(0usize, |sum, &size| sum.checked_add(size));
            let have = self.shape().size(plain);
            ensure!(total == Some(have), Shape, "split", "requires sizes that add up to {have}, got {sizes:?}");
            Ok(plain)
        })?;
        let mut start = 0;
        let mut parts = Vec::with_capacity(sizes.len());
        for &size in sizes {
            parts.push(self.narrow(plain as isize, start, size)?);
            start += size;
        }
        Ok(parts)
    }

    /// Cut into `chunks` pieces along one axis, the last ones smaller or missing if it does not divide, as in PyTorch.
    #[track_caller]
    pub fn chunk(&self, chunks: usize, axis: isize) -> Result<Vec<Self>> {
        let sizes = Self::checked(|| {
            ensure!(chunks > 0, Value, "chunk", "requires at least one chunk, got 0");
            let size = self.shape().size(self.axis(axis, "chunk")?);
            let each = size.div_ceil(chunks).max(1);
            Ok((0..size.max(1)).step_by(each).map(|at| each.min(size - at)).collect::<Vec<_>>())
        })?;
        self.split(axis, &sizes)
    }

    /// A window of the given sizes whose start is a tensor value or a number per axis, clamped into range. Another start is
    /// no other program.
    #[track_caller]
    pub fn dynamic_slice(&self, start: &[Operand<'_>], sizes: &[usize]) -> Result<Self> {
        let mut operands: SmallVec<[Operand<'_>; 6]> = SmallVec::from_slice(&[self.into()]);
        operands.extend(start.iter().map(start_operand));
        Self::record_one(Op::DynamicSlice { sizes: SmallVec::from_slice(sizes) }, &operands)
    }

    /// This tensor with the window at `start`, clamped into range, replaced by `update`.
    #[track_caller]
    pub fn dynamic_update_slice(&self, update: &Self, start: &[Operand<'_>]) -> Result<Self> {
        let mut operands: SmallVec<[Operand<'_>; 6]> = SmallVec::from_slice(&[self.into(), update.into()]);
        operands.extend(start.iter().map(start_operand));
        Self::record_one(Op::DynamicUpdateSlice, &operands)
    }

    /// `value` put before, between and after the elements: `(low, high, interior)` per axis. Negative numbers cut.
    ///
    /// ```
    /// use tpu_core::Tensor;
    /// let x = Tensor::from_slice(&[1i32, 2])?.pad(&[(1, 2, 0)], 9)?;
    /// assert_eq!(x.to_vec::<i32>()?, [9, 1, 2, 9, 9]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn pad(&self, amounts: &[(i64, i64, usize)], value: impl Into<Scalar>) -> Result<Self> {
        let op = Op::Pad {
            low: amounts.iter().map(|amount| amount.0).collect(),
            high: amounts.iter().map(|amount| amount.1).collect(),
            interior: amounts.iter().map(|amount| amount.2).collect(),
        };
        Self::record_one(op, &[self.into(), Operand::Scalar(self.dtype(), value.into())])
    }

    /// Tensors joined along an axis. Errors unless there is at least one and all other sizes and dtypes agree.
    #[track_caller]
    pub fn concat(tensors: &[&Self], axis: isize) -> Result<Self> {
        let axis = match tensors.first() {
            Some(first) => Self::checked(|| first.axis(axis, "concatenate"))?,
            None => 0,
        };
        let operands: SmallVec<[Operand<'_>; 4]> = tensors.iter().map(|&tensor| tensor.into()).collect();
        Self::record_one(Op::Concatenate { axis }, &operands)
    }

    /// Tensors of one shape joined along a new axis.
    #[track_caller]
    pub fn stack(tensors: &[&Self], axis: isize) -> Result<Self> {
        let mut wide = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            wide.push(tensor.unsqueeze(axis)?);
        }
        Self::concat(&wide.iter().collect::<Vec<_>>(), axis)
    }

    /// Order along the axes reversed.
    #[track_caller]
    pub fn flip(&self, axes: impl IntoIterator<Item = isize>) -> Result<Self> {
        let axes = Self::checked(|| axes_of(axes, self.rank(), "flip"))?;
        Self::record_one(Op::Reverse(axes), &[self.into()])
    }

    /// The triangle on and below the diagonal `k` of the last two axes; zero elsewhere.
    #[track_caller]
    pub fn tril(&self, k: i64) -> Result<Self> {
        let (rows, columns) = self.row_column("tril")?;
        columns.le(&rows.add(k)?)?.select(self, 0)
    }

    /// The triangle on and above the diagonal `k` of the last two axes; zero elsewhere.
    #[track_caller]
    pub fn triu(&self, k: i64) -> Result<Self> {
        let (rows, columns) = self.row_column("triu")?;
        columns.ge(&rows.add(k)?)?.select(self, 0)
    }

    #[track_caller]
    fn row_column(&self, op: &'static str) -> Result<(Self, Self)> {
        let rank = self.rank();
        Self::checked(|| {
            ensure!(rank >= 2, Shape, op, "requires at least two axes, got {}", self.shape());
            Ok(())
        })?;
        let matrix = Shape::from(&self.sizes()[rank - 2..]);
        let rows = Self::iota_on(self.device(), &matrix, 0, crate::DType::I64)?;
        Ok((rows, Self::iota_on(self.device(), &matrix, 1, crate::DType::I64)?))
    }
}

/// A number as a start index is a scalar input of the program.
fn start_operand<'a>(start: &Operand<'a>) -> Operand<'a> {
    match *start {
        Operand::Number(number) => Operand::Scalar(crate::DType::I64, number),
        other => other,
    }
}
