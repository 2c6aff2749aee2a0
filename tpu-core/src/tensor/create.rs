//! Making tensors.

use super::record::record_on;
use super::{Operand, Tensor};
use crate::ir::{Op, Type};
use crate::lazy::cell::Cell;
use crate::lazy::slot::Slot;
use crate::lazy::stream::Stream;
use crate::lazy::{mode::locate, trace};
use crate::runtime::{Buffer, HostMemory};
use crate::{DType, Device, Element, Error, ErrorKind, Literal, Result, Scalar, Shape, ensure};
use std::sync::Arc;

impl Tensor {
    /// A tensor of one axis from elements, on the [current device](Device::current).
    ///
    /// ```
    /// use tpu_core::Tensor;
    /// assert_eq!(Tensor::from_slice(&[1i64, 2, 3])?.sizes(), [3]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn from_slice<T: Element>(values: &[T]) -> Result<Self> {
        Self::from_bytes(T::DTYPE, values.len(), bytemuck::cast_slice(values))
    }

    /// A tensor from elements in row-major order, on the [current device](Device::current). Errors unless there are as
    /// many elements as the shape has.
    ///
    /// ```
    /// use tpu_core::Tensor;
    /// assert_eq!(Tensor::from_vec(vec![1f32, 2.0, 3.0, 4.0], [2, 2])?.sizes(), [2, 2]);
    /// let error = Tensor::from_vec(vec![1f32, 2.0, 3.0], [2, 2]).unwrap_err();
    /// assert_eq!(error.message(), "requires as many elements as float32[2, 2] has, got 3");
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn from_vec<T: Element>(values: Vec<T>, shape: impl Into<Shape>) -> Result<Self> {
        Self::checked(|| {
            let (ty, count) = (Type::new(T::DTYPE, shape), values.len());
            let fits = ty.shape.elements() == Some(count);
            ensure!(fits, Shape, "from_vec", "requires as many elements as {ty} has, got {count}");
            let memory = T::into_memory(values);
            Self::upload("from_vec", |device| device.runtime().upload_owned(device.ordinal(), &ty, memory))
        })
    }

    /// A tensor from raw little-endian elements in row-major order, on the [current device](Device::current). Of a `bool`, any
    /// byte but 0 is true, as NumPy and PyTorch read them. Errors unless there are as many bytes as the type has.
    ///
    /// ```
    /// use tpu_core::{DType, Tensor};
    /// let x = Tensor::from_bytes(DType::Bool, 3, &[0, 1, 2])?;
    /// assert_eq!(x.to_bytes()?, [0, 1, 1]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn from_bytes(dtype: DType, shape: impl Into<Shape>, bytes: &[u8]) -> Result<Self> {
        let location = locate(std::panic::Location::caller());
        let ty = Type::new(dtype, shape);
        let upload = |device: &Device| device.runtime().upload(device.ordinal(), &ty, bytes);
        let checked = check_bytes("from_bytes", &ty, bytes.len());
        checked.and_then(|()| Self::upload("from_bytes", upload)).map_err(|error| error.at(&location))
    }

    /// As [`from_bytes`](Self::from_bytes), of memory that the device may keep: it copies later or, where it can, not at all.
    /// XLA's CPU devices use [aligned](HostMemory::aligned) memory as it is.
    ///
    /// ```
    /// use tpu_core::runtime::HostMemory;
    /// use tpu_core::{DType, Tensor};
    /// let mut memory = HostMemory::aligned(4)?;
    /// memory.bytes_mut().copy_from_slice(&[1, 2, 3, 4]);
    /// assert_eq!(Tensor::from_memory(DType::U8, [2, 2], memory)?.to_vec::<u8>()?, [1, 2, 3, 4]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn from_memory(dtype: DType, shape: impl Into<Shape>, memory: HostMemory) -> Result<Self> {
        let location = locate(std::panic::Location::caller());
        let ty = Type::new(dtype, shape);
        let checked = check_bytes("from_memory", &ty, memory.bytes().len());
        let upload = |device: &Device| device.runtime().upload_owned(device.ordinal(), &ty, memory);
        checked.and_then(|()| Self::upload("from_memory", upload)).map_err(|error| error.at(&location))
    }

    /// A tensor of what `upload` puts on the current device.
    fn upload(op: &'static str, upload: impl FnOnce(&Device) -> Result<Arc<dyn Buffer>>) -> Result<Self> {
        ensure!(
            trace::current().is_none(),
            Value,
            op,
            "requires a thread that is not tracing a composite or a loop: use Tensor::constant there"
        );
        let device = Device::current()?;
        device.queue().check_process()?;
        let buffer = upload(&device)?;
        Ok(Self::from_cell(Cell::given(Stream::current(&device), Slot::ready(buffer))))
    }

    /// A tensor of rank 0.
    #[track_caller]
    pub fn scalar<T: Element>(value: T) -> Result<Self> {
        Self::from_bytes(T::DTYPE, (), bytemuck::bytes_of(&value))
    }

    /// A value baked into programs: another value makes another program. For numbers that never change.
    #[track_caller]
    pub fn constant(literal: Literal) -> Result<Self> {
        Self::record_one(Op::Constant(literal.into()), &[])
    }

    /// Every element `value`. The value is an input of programs: another one makes no other program.
    ///
    /// ```
    /// use tpu_core::{DType, Tensor};
    /// assert_eq!(Tensor::full([2], 0.5, DType::F32)?.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn full(shape: impl Into<Shape>, value: impl Into<Scalar>, dtype: DType) -> Result<Self> {
        let spread = Op::BroadcastInDim { shape: shape.into(), axes: Default::default() };
        Self::record_one(spread, &[Operand::Scalar(dtype, value.into())])
    }

    /// Zeros.
    #[track_caller]
    pub fn zeros(shape: impl Into<Shape>, dtype: DType) -> Result<Self> {
        Self::constant(Literal::splat(dtype, shape, 0))
    }

    /// Ones.
    #[track_caller]
    pub fn ones(shape: impl Into<Shape>, dtype: DType) -> Result<Self> {
        Self::constant(Literal::splat(dtype, shape, 1))
    }

    /// Zeros of this tensor's shape and dtype, on its device.
    #[track_caller]
    pub fn zeros_like(&self) -> Result<Self> {
        Self::constant_on(self.device(), Literal::splat(self.dtype(), self.shape(), 0))
    }

    /// Ones of this tensor's shape and dtype, on its device.
    #[track_caller]
    pub fn ones_like(&self) -> Result<Self> {
        Self::constant_on(self.device(), Literal::splat(self.dtype(), self.shape(), 1))
    }

    /// [`constant`](Self::constant) on a device.
    #[track_caller]
    pub(crate) fn constant_on(device: &Device, literal: Literal) -> Result<Self> {
        record_on(device, Op::Constant(literal.into()))
    }

    /// [`iota`](Self::iota) on a device.
    #[track_caller]
    pub(crate) fn iota_on(device: &Device, shape: impl Into<Shape>, axis: usize, dtype: DType) -> Result<Self> {
        record_on(device, Op::Iota { axis, dtype, shape: shape.into() })
    }

    /// Numbers 0, 1, … along `axis`, repeated along the other axes.
    #[track_caller]
    pub fn iota(shape: impl Into<Shape>, axis: usize, dtype: DType) -> Result<Self> {
        Self::record_one(Op::Iota { axis, dtype, shape: shape.into() }, &[])
    }

    /// The numbers `start, start + step, …` before `end`, as PyTorch's `arange`. Element `i` is `start + i * step`,
    /// computed in `dtype`. Errors if `step` is zero or leads away from `end`.
    ///
    /// ```
    /// use tpu_core::{DType, Tensor};
    /// assert_eq!(Tensor::arange(1, 7, 2, DType::I64)?.to_vec::<i64>()?, [1, 3, 5]);
    /// assert_eq!(Tensor::arange(0.0, 1.0, 0.25, DType::F32)?.to_vec::<f32>()?, [0.0, 0.25, 0.5, 0.75]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn arange(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
        dtype: DType,
    ) -> Result<Self> {
        let location = locate(std::panic::Location::caller());
        let (start, step) = (start.into(), step.into());
        let len = arange_len(start, end.into(), step).map_err(|error| error.at(&location))?;
        let counted = Self::iota(len, 0, dtype)?;
        let scaled = if step == Scalar::Int(1) { counted } else { counted.mul(step)? };
        if start == Scalar::Int(0) { Ok(scaled) } else { scaled.add(start) }
    }

    /// The identity matrix of `n` rows.
    #[track_caller]
    pub fn eye(n: usize, dtype: DType) -> Result<Self> {
        let rows = Self::iota([n, n], 0, DType::I64)?;
        rows.eq(&Self::iota([n, n], 1, DType::I64)?)?.to_dtype(dtype)
    }

    /// Philox random bits, u32: element `i` in row-major order is lane `i mod 4` of counter `offset + i/4` under key
    /// `seed`. Both are inputs of the program.
    ///
    /// ```
    /// use tpu_core::Tensor;
    /// let bits = Tensor::rng_bits(7, 0, [8])?.to_vec::<u32>()?;
    /// assert_eq!(bits[4..], Tensor::rng_bits(7, 1, [4])?.to_vec::<u32>()?[..]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn rng_bits(seed: u64, offset: u64, shape: impl Into<Shape>) -> Result<Self> {
        let operands = [Operand::Scalar(DType::U64, seed.into()), Operand::Scalar(DType::U64, offset.into())];
        Self::record_one(Op::RngBits(shape.into()), &operands)
    }
}

/// Errors unless a value of this type has so many bytes.
fn check_bytes(op: &'static str, ty: &Type, got: usize) -> Result<()> {
    let want = ty.bytes();
    let said = || want.map_or("more than memory can address".into(), |want| want.to_string());
    ensure!(want == Some(got), Shape, op, "requires as many bytes as {ty} has, got {got} for {}", said());
    Ok(())
}

/// Number of elements of a range.
fn arange_len(start: Scalar, end: Scalar, step: Scalar) -> Result<usize> {
    let bad = |why: &str| {
        let message = format!("requires {why}, got start {start:?}, end {end:?}, step {step:?}");
        Error::new(ErrorKind::Value, "arange", message)
    };
    let integer = |number: Scalar| match number {
        Scalar::Bool(v) => Some(v as i128),
        Scalar::Int(v) => Some(v as i128),
        Scalar::UInt(v) => Some(v as i128),
        Scalar::Float(_) | Scalar::Complex(..) => None,
    };
    let real = |number: Scalar| match number {
        Scalar::Float(v) => Some(v),
        other => integer(other).map(|v| v as f64),
    };
    if let (Some(start), Some(end), Some(step)) = (integer(start), integer(end), integer(step)) {
        if step == 0 || (end - start) * step.signum() < 0 {
            return Err(bad("a step that is not zero and leads to the end"));
        }
        let len = (end - start + step - step.signum()) / step;
        return usize::try_from(len).map_err(|_| bad("fewer elements"));
    }
    match (real(start), real(end), real(step)) {
        (Some(a), Some(b), Some(step)) => {
            let len = ((b - a) / step).ceil();
            if !len.is_finite() || step == 0.0 || len < 0.0 {
                return Err(bad("finite numbers and a step that is not zero and leads to the end"));
            }
            if len >= isize::MAX as f64 { Err(bad("fewer elements")) } else { Ok(len as usize) }
        }
        _ => Err(bad("real numbers")),
    }
}
