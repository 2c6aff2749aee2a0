//! Element types of tensors and their Rust counterparts.

pub mod convert;
mod float8;

use crate::runtime::HostMemory;
pub use float8::{F8E4M3FN, F8E5M2};
use half::{bf16, f16};
use std::borrow::Cow;
use std::fmt;

/// A complex number of two `f32`, PyTorch's `complex64`.
pub type Complex64 = num_complex::Complex<f32>;

/// The element type of a tensor.
///
/// ```
/// use tpu_core::DType;
/// assert_eq!(DType::BF16.bits(), 16);
/// assert_eq!(DType::F32.to_string(), "float32");
/// assert_eq!(DType::F32.stablehlo(), "f32");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(u8)]
pub enum DType {
    /// Truth values, one byte each, 0 or 1.
    Bool,
    /// Unsigned 8-bit integers.
    U8,
    /// Unsigned 16-bit integers.
    U16,
    /// Unsigned 32-bit integers.
    U32,
    /// Unsigned 64-bit integers.
    U64,
    /// Signed 8-bit integers.
    I8,
    /// Signed 16-bit integers.
    I16,
    /// Signed 32-bit integers.
    I32,
    /// Signed 64-bit integers.
    I64,
    /// IEEE half precision.
    F16,
    /// The upper half of an `f32`.
    BF16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// 8-bit float, 4 exponent and 3 mantissa bits, no infinities (OCP FP8).
    F8E4M3FN,
    /// 8-bit float, 5 exponent and 2 mantissa bits (OCP FP8).
    F8E5M2,
    /// Two `f32`: real and imaginary part.
    Complex64,
}

/// What kind of number a dtype holds; rules that do not depend on width ask for this.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Kind {
    /// `bool`.
    Bool,
    /// `u8` to `u64`.
    Unsigned,
    /// `i8` to `i64`.
    Signed,
    /// All real floating types, 8-bit ones included.
    Float,
    /// `complex64`.
    Complex,
}

/// `(dtype, PyTorch name, StableHLO name, bits, kind)`: one row per dtype.
const TABLE: [(DType, &str, &str, u32, Kind); 16] = [
    (DType::Bool, "bool", "i1", 8, Kind::Bool),
    (DType::U8, "uint8", "ui8", 8, Kind::Unsigned),
    (DType::U16, "uint16", "ui16", 16, Kind::Unsigned),
    (DType::U32, "uint32", "ui32", 32, Kind::Unsigned),
    (DType::U64, "uint64", "ui64", 64, Kind::Unsigned),
    (DType::I8, "int8", "i8", 8, Kind::Signed),
    (DType::I16, "int16", "i16", 16, Kind::Signed),
    (DType::I32, "int32", "i32", 32, Kind::Signed),
    (DType::I64, "int64", "i64", 64, Kind::Signed),
    (DType::F16, "float16", "f16", 16, Kind::Float),
    (DType::BF16, "bfloat16", "bf16", 16, Kind::Float),
    (DType::F32, "float32", "f32", 32, Kind::Float),
    (DType::F64, "float64", "f64", 64, Kind::Float),
    (DType::F8E4M3FN, "float8_e4m3fn", "f8E4M3FN", 8, Kind::Float),
    (DType::F8E5M2, "float8_e5m2", "f8E5M2", 8, Kind::Float),
    (DType::Complex64, "complex64", "complex<f32>", 64, Kind::Complex),
];

impl DType {
    /// Every dtype, in declaration order.
    pub const ALL: [Self; 16] = {
        let mut all = [Self::Bool; 16];
        let mut i = 0;
        while i < 16 {
            all[i] = TABLE[i].0;
            i += 1;
        }
        all
    };

    /// PyTorch's name, without the `torch.` prefix.
    pub const fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// The element type as StableHLO text spells it.
    pub const fn stablehlo(self) -> &'static str {
        TABLE[self as usize].2
    }

    /// The dtype with this StableHLO spelling.
    pub fn from_stablehlo(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.2 == name).map(|row| row.0)
    }

    /// Size of one element in bits. A sub-byte type would answer less than 8, so sizes are always asked in bits.
    pub const fn bits(self) -> u32 {
        TABLE[self as usize].3
    }

    /// Bytes that `elements` elements take, `None` when the number does not fit in memory addresses.
    ///
    /// ```
    /// # use tpu_core::DType;
    /// assert_eq!(DType::F32.bytes_for(3), Some(12));
    /// assert_eq!(DType::F64.bytes_for(usize::MAX), None);
    /// ```
    pub const fn bytes_for(self, elements: usize) -> Option<usize> {
        match elements.checked_mul(self.bits() as usize) {
            Some(bits) if bits <= isize::MAX as usize => Some(bits.div_ceil(8)),
            _ => None,
        }
    }

    /// Element bytes from outside as they are kept: of a `bool`, any byte but 0 is true and becomes 1. Other dtypes have no
    /// bytes that mean the same.
    pub(crate) fn canonical(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Bool if bytes.iter().any(|&byte| byte > 1) => bytes.iter().map(|&byte| u8::from(byte != 0)).collect(),
            _ => Cow::Borrowed(bytes),
        }
    }

    /// What kind of number this is.
    pub const fn kind(self) -> Kind {
        TABLE[self as usize].4
    }

    /// Whether this is one of the real floating types.
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), Kind::Float)
    }

    /// Whether this is a signed or unsigned integer type; `bool` is not.
    pub const fn is_integer(self) -> bool {
        matches!(self.kind(), Kind::Signed | Kind::Unsigned)
    }

    /// Whether every number of this dtype is an index into `size` elements.
    ///
    /// ```
    /// use tpu_core::DType;
    /// assert!(DType::U8.is_always_index(256) && !DType::U8.is_always_index(255));
    /// assert!(!DType::I8.is_always_index(256));
    /// ```
    pub const fn is_always_index(self, size: usize) -> bool {
        matches!(self.kind(), Kind::Unsigned) && self.bits() < usize::BITS && size >> self.bits() > 0
    }

    /// Whether this is `complex64`.
    pub const fn is_complex(self) -> bool {
        matches!(self.kind(), Kind::Complex)
    }

    /// Whether derivatives exist: real floats and complex numbers.
    pub const fn is_differentiable(self) -> bool {
        self.is_float() || self.is_complex()
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that is the element type of a tensor. Sealed: the set is that of [`DType`].
pub trait Element:
    convert::Cast + Copy + Default + PartialEq + fmt::Debug + Send + Sync + 'static + bytemuck::NoUninit + sealed::Sealed
{
    /// The dtype of a tensor of these elements.
    const DTYPE: DType;

    /// Copies raw little-endian element bytes, of any alignment, into values. Bytes of a `bool` other than 0 read as
    /// true. A trailing partial element is ignored.
    fn read_bytes(bytes: &[u8]) -> Vec<Self>;

    /// The vector's bytes as memory of the host, in the same place where the bits of all bytes are elements.
    fn into_memory(values: Vec<Self>) -> HostMemory;

    /// A vector of `len` elements whose bytes `fill` writes. `None` when there is not that much memory.
    fn fill(len: usize, fill: impl FnOnce(HostMemory) -> crate::Result<HostMemory>)
    -> Option<crate::Result<Vec<Self>>>;
}

/// `len` default values, `None` when there is not that much memory.
fn try_zeroed<T: Copy + Default>(len: usize) -> Option<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).ok()?;
    values.resize(len, T::default());
    Some(values)
}

/// The vector after `fill` has had it.
fn filled<T: bytemuck::Pod + Send + Sync>(
    values: Vec<T>,
    fill: impl FnOnce(HostMemory) -> crate::Result<HostMemory>,
) -> crate::Result<Vec<T>> {
    let other = || crate::Error::new(crate::ErrorKind::Internal, "read", "requires the memory back that it lent");
    fill(HostMemory::of(values))?.into_vec().ok_or_else(other)
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
            fn read_bytes(bytes: &[u8]) -> Vec<Self> {
                bytes.chunks_exact(size_of::<Self>()).map(bytemuck::pod_read_unaligned).collect()
            }
            fn fill(
                len: usize,
                fill: impl FnOnce(HostMemory) -> crate::Result<HostMemory>,
            ) -> Option<crate::Result<Vec<Self>>> {
                Some(filled(try_zeroed::<Self>(len)?, fill))
            }
            fn into_memory(values: Vec<Self>) -> HostMemory {
                HostMemory::of(values)
            }
        }
    )*};
}
elements! {
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    f16 => F16, bf16 => BF16, f32 => F32, f64 => F64,
    F8E4M3FN => F8E4M3FN, F8E5M2 => F8E5M2, Complex64 => Complex64,
}

impl sealed::Sealed for bool {}
impl Element for bool {
    const DTYPE: DType = DType::Bool;
    fn read_bytes(bytes: &[u8]) -> Vec<Self> {
        bytes.iter().map(|&byte| byte != 0).collect()
    }
    fn fill(
        len: usize,
        fill: impl FnOnce(HostMemory) -> crate::Result<HostMemory>,
    ) -> Option<crate::Result<Vec<Self>>> {
        let bytes = filled(try_zeroed::<u8>(len)?, fill);
        Some(bytes.map(|bytes| Self::read_bytes(&bytes)))
    }
    fn into_memory(values: Vec<Self>) -> HostMemory {
        HostMemory::from(values.into_iter().map(u8::from).collect::<Vec<_>>())
    }
}

/// Runs `$body` with the type alias `$T` standing for the Rust type of `$dtype`.
///
/// ```
/// use tpu_core::{DType, with_element};
/// let size = with_element!(DType::I16, T => size_of::<T>());
/// assert_eq!(size, 2);
/// ```
#[macro_export]
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr) => {{
        macro_rules! arm {
            ($t:ty) => {{
                type $T = $t;
                $body
            }};
        }
        match $dtype {
            $crate::DType::Bool => arm!(bool),
            $crate::DType::U8 => arm!(u8),
            $crate::DType::U16 => arm!(u16),
            $crate::DType::U32 => arm!(u32),
            $crate::DType::U64 => arm!(u64),
            $crate::DType::I8 => arm!(i8),
            $crate::DType::I16 => arm!(i16),
            $crate::DType::I32 => arm!(i32),
            $crate::DType::I64 => arm!(i64),
            $crate::DType::F16 => arm!($crate::dtype::half::f16),
            $crate::DType::BF16 => arm!($crate::dtype::half::bf16),
            $crate::DType::F32 => arm!(f32),
            $crate::DType::F64 => arm!(f64),
            $crate::DType::F8E4M3FN => arm!($crate::F8E4M3FN),
            $crate::DType::F8E5M2 => arm!($crate::F8E5M2),
            $crate::DType::Complex64 => arm!($crate::Complex64),
            #[allow(unreachable_patterns)]
            other => unreachable!("no Rust element type for {other}"),
        }
    }};
}

/// The crate of the 16-bit float types, for the users of [`Element`].
pub use half;
