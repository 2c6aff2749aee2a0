//! Elementwise operations.

use super::layout::broadcast_axes;
use super::{Operand, Tensor};
use crate::ir::{BinaryOp, Comparison, Op, UnaryOp};
use crate::lazy::mode::locate;
use crate::{DType, Error, ErrorKind, Result, Scalar, Shape};

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident = $op:ident),* $(,)?) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Result<Self> {
                Self::record_one(Op::Unary(UnaryOp::$op), &[self.into()])
            }
        )*}
    };
}

unary! {
    /// Absolute value; of complex numbers the magnitude, as float32.
    abs = Abs,
    /// −x
    neg = Neg,
    /// −1, 0 or 1.
    sign = Sign,
    /// The largest integer not above x.
    floor = Floor,
    /// The smallest integer not below x.
    ceil = Ceil,
    /// The nearest integer, ties to even.
    round = RoundNearestEven,
    /// eˣ
    exp = Exp,
    /// eˣ − 1, exact near 0.
    expm1 = Expm1,
    /// Natural logarithm.
    log = Log,
    /// ln(1 + x), exact near 0.
    log1p = Log1p,
    /// 1 / (1 + e⁻ˣ)
    sigmoid = Logistic,
    /// Hyperbolic tangent.
    tanh = Tanh,
    /// Sine of radians.
    sin = Sin,
    /// Cosine of radians.
    cos = Cos,
    /// Tangent of radians.
    tan = Tan,
    /// Square root.
    sqrt = Sqrt,
    /// 1 / √x
    rsqrt = Rsqrt,
    /// Cube root.
    cbrt = Cbrt,
    /// Error function.
    erf = Erf,
    /// Inverse error function.
    erf_inv = ErfInv,
    /// Whether neither NaN nor infinite → bool.
    is_finite = IsFinite,
    /// Bitwise complement of integers, negation of bools.
    not = Not,
    /// Number of one bits.
    popcount = PopulationCount,
    /// Number of leading zero bits.
    leading_zeros = CountLeadingZeros,
    /// Real part → float32.
    real = Real,
    /// Imaginary part → float32.
    imag = Imag,
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $op:ident),* $(,)?) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// Operands broadcast; a number takes this tensor's dtype. Errors if shapes do not broadcast or dtypes differ.
            #[track_caller]
            pub fn $name<'a>(&self, rhs: impl Into<Operand<'a>>) -> Result<Self> {
                broadcast_pair(Op::Binary(BinaryOp::$op), self.into(), rhs.into())
            }
        )*}
    };
}

binary! {
    /// x + y; of bools: or.
    add = Add,
    /// x − y
    sub = Subtract,
    /// x · y; of bools: and.
    mul = Multiply,
    /// x / y; integers round towards zero.
    div = Divide,
    /// x − y · trunc(x / y): the remainder with the sign of x, PyTorch's `fmod`.
    rem = Remainder,
    /// xʸ
    pow = Power,
    /// Angle of the point (y = self, x = rhs), in radians.
    atan2 = Atan2,
    /// The larger one, NaN if one is.
    maximum = Maximum,
    /// The smaller one, NaN if one is.
    minimum = Minimum,
    /// Bitwise and of integers and bools.
    bitwise_and = And,
    /// Bitwise or of integers and bools.
    bitwise_or = Or,
    /// Bitwise exclusive or of integers and bools.
    bitwise_xor = Xor,
    /// x · 2ʸ of integers.
    shift_left = ShiftLeft,
    /// x / 2ʸ of integers, rounded down; keeps the sign.
    shift_right = ShiftRightArithmetic,
    /// x / 2ʸ of integers taken as unsigned.
    shift_right_logical = ShiftRightLogical,
}

macro_rules! compare {
    ($($(#[$doc:meta])* $name:ident = $op:ident),* $(,)?) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name<'a>(&self, rhs: impl Into<Operand<'a>>) -> Result<Self> {
                broadcast_pair(Op::Compare(Comparison::$op), self.into(), rhs.into())
            }
        )*}
    };
}

compare! {
    /// x = y → bool
    eq = Eq,
    /// x ≠ y → bool
    ne = Ne,
    /// x < y → bool
    lt = Lt,
    /// x ≤ y → bool
    le = Le,
    /// x > y → bool
    gt = Gt,
    /// x ≥ y → bool
    ge = Ge,
}

impl Tensor {
    /// Elements of `on_true` where this bool tensor is true, of `on_false` elsewhere. All broadcast; at least one of the two
    /// is a tensor.
    ///
    /// ```
    /// use tpu_core::Tensor;
    /// let x = Tensor::from_slice(&[-1.0f32, 2.0])?;
    /// assert_eq!(x.gt(0.0)?.select(&x, 0.0)?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn select<'a>(&self, on_true: impl Into<Operand<'a>>, on_false: impl Into<Operand<'a>>) -> Result<Self> {
        let (on_true, on_false) = (on_true.into(), on_false.into());
        broadcast_all(Op::Select, &[self.into(), on_true, on_false])
    }

    /// `minimum(maximum(x, low), high)`, bounds broadcast.
    #[track_caller]
    pub fn clamp<'a>(&self, low: impl Into<Operand<'a>>, high: impl Into<Operand<'a>>) -> Result<Self> {
        broadcast_all(Op::Clamp, &[low.into(), self.into(), high.into()])
    }

    /// The elements converted, by PyTorch's rules; the tensor itself if it has that dtype.
    #[track_caller]
    pub fn to_dtype(&self, dtype: DType) -> Result<Self> {
        if self.dtype() == dtype {
            return Ok(self.clone());
        }
        Self::record_one(Op::Convert(dtype), &[self.into()])
    }

    /// The same bits as another dtype. To a narrower one: one more, minor axis; to a wider one: the minor axis vanishes.
    #[track_caller]
    pub fn bitcast(&self, dtype: DType) -> Result<Self> {
        Self::record_one(Op::BitcastConvert(dtype), &[self.into()])
    }

    /// Complex numbers of this real part, both float32 of one shape.
    #[track_caller]
    pub fn complex(&self, imaginary: &Self) -> Result<Self> {
        Self::record_one(Op::Complex, &[self.into(), imaginary.into()])
    }

    /// x · x
    #[track_caller]
    pub fn square(&self) -> Result<Self> {
        self.mul(self)
    }

    /// 1 / x
    #[track_caller]
    pub fn recip(&self) -> Result<Self> {
        Self::binary_number(BinaryOp::Divide, 1.into(), self)
    }

    /// `number ∘ rhs`.
    #[track_caller]
    pub(crate) fn binary_number(op: BinaryOp, number: Scalar, rhs: &Self) -> Result<Self> {
        Self::record_one(Op::Binary(op), &[Operand::Number(number), rhs.into()])
    }
}

/// Records an elementwise op of two operands, the first a tensor, after broadcasting.
#[track_caller]
fn broadcast_pair(op: Op, lhs: Operand<'_>, rhs: Operand<'_>) -> Result<Tensor> {
    match (lhs, rhs) {
        (Operand::Tensor(a), Operand::Tensor(b)) if a.shape() != b.shape() => broadcast_all(op, &[lhs, rhs]),
        _ => Tensor::record_one(op, &[lhs, rhs]),
    }
}

/// Records an elementwise op after broadcasting its tensors to one shape.
#[track_caller]
pub(crate) fn broadcast_all(op: Op, operands: &[Operand<'_>]) -> Result<Tensor> {
    let location = std::panic::Location::caller();
    let mut shape: Option<Shape> = None;
    for operand in operands {
        let Operand::Tensor(tensor) = operand else { continue };
        shape = Some(match shape {
            None => tensor.shape().clone(),
            Some(so_far) if so_far == *tensor.shape() => so_far,
            Some(so_far) => Shape::broadcast(&so_far, tensor.shape()).ok_or_else(|| {
                let message = format!("requires shapes that broadcast, got {so_far} and {}", tensor.shape());
                Error::new(ErrorKind::Shape, op.name(), message).at(&locate(location))
            })?,
        });
    }
    let Some(shape) = shape else { return Tensor::record_one(op, operands) };
    let mut widened: Vec<Option<Tensor>> = Vec::with_capacity(operands.len());
    // No closure: that would be the caller.
    for operand in operands {
        widened.push(match operand {
            Operand::Tensor(tensor) if *tensor.shape() != shape => Some(broadcast_axes(tensor, &shape)?),
            _ => None,
        });
    }
    let operands: Vec<Operand<'_>> =
        operands.iter().zip(&widened).map(|(&narrow, wide)| wide.as_ref().map_or(narrow, Into::into)).collect();
    Tensor::record_one(op, &operands)
}
