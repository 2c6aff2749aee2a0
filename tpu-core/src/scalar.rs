//! A number that is not yet of any tensor's dtype.

use crate::{Complex64, DType};
use half::{bf16, f16};

/// A number as the user wrote it. As an operand it takes the dtype of the tensor beside it.
///
/// Integers keep all 64 bits, so that `i64` and `u64` tensors lose nothing.
///
/// ```
/// use tpu_core::Scalar;
/// assert_eq!(Scalar::from(3), Scalar::Int(3));
/// assert_eq!(Scalar::from(0.5f32), Scalar::Float(0.5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer above `i64::MAX` (smaller ones are [`Scalar::Int`]).
    UInt(u64),
    /// A real number.
    Float(f64),
    /// A complex number: real and imaginary part.
    Complex(f64, f64),
}

macro_rules! scalars {
    ($($t:ty => |$v:ident| $e:expr),* $(,)?) => {$(
        impl From<$t> for Scalar {
            fn from($v: $t) -> Self { $e }
        }
    )*};
}
scalars! {
    bool => |v| Self::Bool(v),
    u8 => |v| Self::Int(v.into()), u16 => |v| Self::Int(v.into()), u32 => |v| Self::Int(v.into()),
    i8 => |v| Self::Int(v.into()), i16 => |v| Self::Int(v.into()), i32 => |v| Self::Int(v.into()),
    i64 => |v| Self::Int(v),
    u64 => |v| i64::try_from(v).map_or(Self::UInt(v), Self::Int),
    usize => |v| Self::from(v as u64),
    isize => |v| Self::Int(v as i64),
    f32 => |v| Self::Float(v.into()), f64 => |v| Self::Float(v),
    f16 => |v| Self::Float(v.into()), bf16 => |v| Self::Float(v.into()),
    Complex64 => |v| Self::Complex(v.re.into(), v.im.into()),
}

impl Scalar {
    /// Whether a tensor of `dtype` can take this number without changing what it is: a float operand does not fit an
    /// integer tensor, an integer must be in range. Floats round, as they do everywhere.
    pub fn fits(self, dtype: DType) -> bool {
        use crate::dtype::Kind;
        let (low, high) = match dtype.kind() {
            Kind::Float => return !matches!(self, Self::Complex(..)),
            Kind::Complex => return true,
            Kind::Bool => return matches!(self, Self::Bool(_) | Self::Int(0 | 1)),
            Kind::Unsigned => (0i128, (1i128 << dtype.bits()) - 1),
            Kind::Signed => (-(1i128 << (dtype.bits() - 1)), (1i128 << (dtype.bits() - 1)) - 1),
        };
        let value = match self {
            Self::Bool(v) => v as i128,
            Self::Int(v) => v as i128,
            Self::UInt(v) => v as i128,
            Self::Float(_) | Self::Complex(..) => return false,
        };
        (low..=high).contains(&value)
    }
}
