//! Type promotion: <https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc>.

use tpu_core::dtype::Kind;
use tpu_core::{DType, Error, ErrorKind, Result, Scalar, Tensor};

/// What promotion sees of an operand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Operand {
    /// A tensor with axes.
    Tensor(DType),
    /// A tensor without axes: decides only where it is of a higher kind (bool, integer, float, complex) than tensors with axes.
    Scalar(DType),
    /// A number: decides only where it is of a higher kind than all tensors. As a dtype it is bool, int64, float32 or complex64.
    Number(Scalar),
}

impl From<&Tensor> for Operand {
    fn from(tensor: &Tensor) -> Self {
        if tensor.rank() > 0 { Self::Tensor(tensor.dtype()) } else { Self::Scalar(tensor.dtype()) }
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl From<$number> for Operand {
            fn from(number: $number) -> Self {
                Self::Number(number.into())
            }
        }
    )*};
}
numbers!(Scalar bool i32 i64 f64);

/// The smallest dtype that both convert to in PyTorch's lattice. PyTorch's `promote_types`.
///
/// Errors (kind `DType`) where PyTorch has none: 8-bit floats with another dtype, and uint16 to uint64 with integers, bool or
/// complex numbers; (kind `Unsupported`) where it is complex128, which is no dtype here.
///
/// ```
/// use tpu_core::DType;
/// use tpu_torch_compat::promote_types;
/// assert_eq!(promote_types(DType::U8, DType::I8)?, DType::I16);
/// assert_eq!(promote_types(DType::F16, DType::BF16)?, DType::F32);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn promote_types(a: DType, b: DType) -> Result<DType> {
    Tensor::checked(|| promote("promote_types", Type::Here(a), Type::Here(b))?.here("promote_types"))
}

/// The dtype that an operation of these operands computes in. PyTorch's `result_type`, for any number of operands.
///
/// Errors as of [`promote_types`], on complex32 and bcomplex32 too, and of no operands.
///
/// ```
/// use tpu_core::DType;
/// use tpu_torch_compat::{Operand, result_type};
/// assert_eq!(result_type(&[Operand::Tensor(DType::U8), Operand::Scalar(DType::I64)])?, DType::U8);
/// assert_eq!(result_type(&[Operand::Tensor(DType::F16), 1.5.into()])?, DType::F16);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn result_type(operands: &[Operand]) -> Result<DType> {
    const OP: &str = "result_type";
    Tensor::checked(|| {
        let (mut tensors, mut scalars, mut numbers) = (None, None, None);
        for operand in operands {
            let (category, dtype) = match *operand {
                Operand::Tensor(dtype) => (&mut tensors, dtype),
                Operand::Scalar(dtype) => (&mut scalars, dtype),
                Operand::Number(number) => (&mut numbers, number_dtype(number)),
            };
            *category = Some(match *category {
                Some(so_far) => promote(OP, so_far, Type::Here(dtype))?,
                None => Type::Here(dtype),
            });
        }
        let result = combine(OP, tensors, combine(OP, scalars, numbers)?)?;
        let none = || Error::new(ErrorKind::Value, OP, "requires at least one operand, got none");
        result.ok_or_else(none)?.here(OP)
    })
}

/// The dtype a number has when no tensor says otherwise.
fn number_dtype(number: Scalar) -> DType {
    match number {
        Scalar::Bool(_) => DType::Bool,
        Scalar::Int(_) | Scalar::UInt(_) => DType::I64,
        Scalar::Float(_) => DType::F32,
        Scalar::Complex(..) => DType::Complex64,
    }
}

/// A dtype of PyTorch's that promotion meets on its way.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Type {
    Here(DType),
    Complex32,
    BComplex32,
    Complex128,
}

impl Type {
    /// The dtype, if there is one in this stack.
    fn here(self, op: &'static str) -> Result<DType> {
        match self {
            Self::Here(dtype) => Ok(dtype),
            other => {
                let message = format!("gives {}, which is not supported", other.name());
                Err(Error::new(ErrorKind::Unsupported, op, message))
            }
        }
    }

    fn is_complex(self) -> bool {
        !matches!(self, Self::Here(dtype) if !dtype.is_complex())
    }

    fn is_float(self) -> bool {
        matches!(self, Self::Here(dtype) if dtype.is_float())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Here(dtype) => dtype.name(),
            Self::Complex32 => "complex32",
            Self::BComplex32 => "bcomplex32",
            Self::Complex128 => "complex128",
        }
    }
}

fn is_float8(dtype: DType) -> bool {
    dtype.is_float() && dtype.bits() == 8
}

/// uint16 to uint64, which PyTorch promotes with floats only.
fn is_wide_unsigned(dtype: DType) -> bool {
    dtype.kind() == Kind::Unsigned && dtype.bits() > 8
}

/// The join of two dtypes.
fn promote(op: &'static str, a: Type, b: Type) -> Result<Type> {
    use Type::{Complex128, Here};
    if a == b {
        return Ok(a);
    }
    let refused = || {
        let message = format!("requires dtypes that promote, got {} and {}", a.name(), b.name());
        Error::new(ErrorKind::DType, op, message)
    };
    let (x, y) = match (a, b) {
        (Here(x), Here(y)) => (x, y),
        (Here(other), _) | (_, Here(other)) if is_float8(other) || is_wide_unsigned(other) => return Err(refused()),
        // Operands are dtypes of this stack: of those that are not, only complex128 arises from joining them.
        _ => return Ok(Complex128),
    };
    if is_float8(x) || is_float8(y) {
        return Err(refused());
    }
    let result = match ((x.kind(), x), (y.kind(), y)) {
        ((Kind::Complex, _), (_, other)) | ((_, other), (Kind::Complex, _)) => match other {
            DType::F64 => return Ok(Complex128),
            other if is_wide_unsigned(other) => return Err(refused()),
            _ => DType::Complex64,
        },
        ((Kind::Float, x), (Kind::Float, y)) if x.bits() == y.bits() => DType::F32,
        ((Kind::Float, x), (Kind::Float, y)) => wider(x, y),
        ((Kind::Float, float), _) | (_, (Kind::Float, float)) => float,
        ((_, x), (_, y)) if is_wide_unsigned(x) || is_wide_unsigned(y) => return Err(refused()),
        ((Kind::Bool, _), (_, other)) | ((_, other), (Kind::Bool, _)) => other,
        // uint8 needs the next wider signed one.
        ((Kind::Unsigned, _), (_, DType::I8)) | ((_, DType::I8), (Kind::Unsigned, _)) => DType::I16,
        ((_, x), (_, y)) => wider(x, y),
    };
    Ok(Here(result))
}

fn wider(a: DType, b: DType) -> DType {
    if a.bits() >= b.bits() { a } else { b }
}

/// What a category of operands becomes beside a lower one.
fn combine(op: &'static str, high: Option<Type>, low: Option<Type>) -> Result<Option<Type>> {
    let (Some(high), Some(low)) = (high, low) else { return Ok(high.or(low)) };
    if high.is_complex() {
        return Ok(Some(high));
    }
    if high.is_float() {
        return if low.is_complex() { complex_of(op, high).map(Some) } else { Ok(Some(high)) };
    }
    if low.is_complex() {
        // Not the join: PyTorch gives complex64 for uint16 beside a complex scalar, though the two have none.
        return Ok(Some(low));
    }
    let rises = high == Type::Here(DType::Bool) || low.is_float();
    if rises { promote(op, high, low).map(Some) } else { Ok(Some(high)) }
}

/// The complex dtype with parts of this float dtype.
fn complex_of(op: &'static str, float: Type) -> Result<Type> {
    match float {
        Type::Here(DType::F16) => Ok(Type::Complex32),
        Type::Here(DType::BF16) => Ok(Type::BComplex32),
        Type::Here(DType::F32) => Ok(Type::Here(DType::Complex64)),
        Type::Here(DType::F64) => Ok(Type::Complex128),
        other => {
            let message = format!("requires a float dtype that has a complex one, got {}", other.name());
            Err(Error::new(ErrorKind::DType, op, message))
        }
    }
}
