//! How far two backends' results of one op, on the same operands, may be apart.
//!
//! The bounds are theorems about rounding, not experience. `u` is half the distance from 1 to the next number of the type that is
//! computed in: `f32` for all floats up to 32 bits, `f64` for `f64`.

use crate::DType;
use crate::ir::{BinaryOp, Op, Reducer, UnaryOp};

/// A bound on the difference of two results.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Tolerance {
    /// The same bits, but for the payload of a NaN.
    Bits,
    /// The same numbers: signed zeros are equal.
    Numbers,
    /// So many steps from number to number of the result's type.
    Ulps(u64),
    /// Sums of so many terms. In any order of additions the result is within `(terms − 1) · u · Σ|x|` of the exact one (Higham, *Accuracy and
    /// Stability of Numerical Algorithms*, section 4.2), `terms · u · Σ|x y|` for products; twice that for complex ones; and a step for the last rounding.
    /// Where `Σ|x|` leaves the range, an order may overflow and another not: anything goes.
    Sum {
        /// Number of terms.
        terms: usize,
    },
    /// Products of so many factors: a relative error of `factors · u` unless some order of them leaves the range of normal numbers.
    Product {
        /// Number of factors.
        factors: usize,
    },
    /// The inverse error function by way of `w = −ln(1 − x²)` with `x²` rounded: `w` is off by `u / (1 − x²)`, and so the
    /// result, which grows at most as `√w`, by half of that over `w`, relatively; and so many steps.
    OfRoundedSquare(u64),
    /// Complex results: so many `u` of the modulus, in each part, when operands and result are of moderate size.
    Modulus(f64),
    /// Factors, decompositions and solutions: what all results together must satisfy, within the error that a computation in the
    /// dtype may make; see `backward` and `factors`.
    Backward,
    /// Not for its op to say: the ops inside it are judged, or nobody knows what it computes.
    Several,
}

/// The bound for each op: the one table. `dtype` is that of the first operand, or of the result if there is none, `terms` how many operand elements a result element is made of.
pub fn tolerance(op: &Op, dtype: DType, terms: usize) -> Tolerance {
    use Tolerance::{Bits, Numbers, Several};
    match op {
        Op::Unary(op) => unary(*op, dtype),
        Op::Binary(op) => binary(*op, dtype),
        Op::Clamp => Numbers,
        Op::Reduce { kind, .. } | Op::ReduceWindow { kind, .. } | Op::Cumulative { kind, .. } => {
            reducer(*kind, dtype, terms)
        }
        Op::AllReduce { kind, .. } | Op::ReduceScatter { kind, .. } => reducer(*kind, dtype, terms),
        Op::Scatter(dims) => dims.combiner.map_or(Bits, |kind| reducer(kind, dtype, terms)),
        Op::DotGeneral(_) | Op::Convolution(_) | Op::SelectAndScatter { .. } => sum(dtype, terms),
        // Of n terms, but each stage of a fast transform rounds its twiddle factors too: log₂ n stages of a few u are below 4 n u.
        Op::Fft { .. } => Tolerance::Sum { terms: 4 * terms },
        // −0 and +0 are equal keys and may change places only if nothing else moves with them.
        Op::ArgReduce { .. } | Op::Sort { .. } | Op::TopK { .. } => Numbers,
        Op::Cholesky { .. } | Op::TriangularSolve { .. } | Op::Qr | Op::Eigh | Op::Lu => Tolerance::Backward,
        Op::While { .. } | Op::Case { .. } | Op::Composite { .. } | Op::CustomCall(_) => Several,
        Op::Parameter { .. } | Op::Constant(_) | Op::Iota { .. } | Op::RngBits(_) => Bits,
        Op::Compare(_) | Op::Select | Op::Complex | Op::Convert(_) | Op::BitcastConvert(_) => Bits,
        Op::ReducePrecision { .. } | Op::BroadcastInDim { .. } | Op::Reshape(_) | Op::Transpose(_) => Bits,
        Op::Slice { .. } | Op::DynamicSlice { .. } | Op::DynamicUpdateSlice | Op::Pad { .. } => Bits,
        Op::Concatenate { .. } | Op::Reverse(_) | Op::Gather(_) | Op::OptimizationBarrier => Bits,
        Op::AllGather { .. } | Op::AllToAll { .. } | Op::CollectivePermute { .. } => Bits,
        Op::ReplicaId | Op::PartitionId => Bits,
    }
}

fn sum(dtype: DType, terms: usize) -> Tolerance {
    if dtype.is_differentiable() { Tolerance::Sum { terms } } else { Tolerance::Bits }
}

fn reducer(kind: Reducer, dtype: DType, terms: usize) -> Tolerance {
    match kind {
        Reducer::Sum => sum(dtype, terms),
        Reducer::Product if dtype.is_differentiable() => Tolerance::Product { factors: terms },
        Reducer::Product | Reducer::And | Reducer::Or | Reducer::Xor => Tolerance::Bits,
        Reducer::Max | Reducer::Min => Tolerance::Numbers,
    }
}

/// Steps for a function that a backend computes within `f32` steps in `f32`, against a correctly rounded one. An `f16` or `bf16` result differs
/// by a step where the two fall on different sides of a tie. In `f64` both sides use a library of at most 2 ulp, 4 for the rare functions.
fn function(dtype: DType, f32: u64) -> Tolerance {
    match dtype {
        DType::F32 => Tolerance::Ulps(f32),
        DType::F64 => Tolerance::Ulps(2 * f32),
        DType::Complex64 => Tolerance::Modulus(64.0),
        _ => Tolerance::Ulps(1),
    }
}

fn unary(op: UnaryOp, dtype: DType) -> Tolerance {
    match op {
        // Required of the host: 2 ulp, so 3 steps from the rounded exact value.
        UnaryOp::Exp | UnaryOp::Log | UnaryOp::Tanh | UnaryOp::Erf | UnaryOp::Sin | UnaryOp::Cos => function(dtype, 3),
        UnaryOp::Expm1 | UnaryOp::Log1p | UnaryOp::Logistic | UnaryOp::Tan | UnaryOp::Cbrt => function(dtype, 4),
        UnaryOp::ErfInv => function(dtype, 8),
        // Two roundings.
        UnaryOp::Rsqrt => function(dtype, 2),
        UnaryOp::Abs if dtype.is_complex() => Tolerance::Ulps(2),
        UnaryOp::Sqrt | UnaryOp::Sign if dtype.is_complex() => Tolerance::Modulus(16.0),
        UnaryOp::Abs | UnaryOp::Neg | UnaryOp::Sign | UnaryOp::Floor | UnaryOp::Ceil => Tolerance::Bits,
        UnaryOp::RoundNearestEven | UnaryOp::RoundNearestAfz | UnaryOp::Sqrt => Tolerance::Bits,
        UnaryOp::IsFinite | UnaryOp::Not | UnaryOp::PopulationCount | UnaryOp::CountLeadingZeros => Tolerance::Bits,
        UnaryOp::Real | UnaryOp::Imag => Tolerance::Bits,
    }
}

fn binary(op: BinaryOp, dtype: DType) -> Tolerance {
    match op {
        BinaryOp::Add | BinaryOp::Subtract => Tolerance::Bits,
        BinaryOp::Multiply if dtype.is_complex() => Tolerance::Modulus(8.0),
        BinaryOp::Divide if dtype.is_complex() => Tolerance::Modulus(32.0),
        BinaryOp::Power if dtype.is_differentiable() => function(dtype, 4),
        BinaryOp::Atan2 => function(dtype, 4),
        BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::Remainder | BinaryOp::Power => Tolerance::Bits,
        BinaryOp::Maximum | BinaryOp::Minimum => Tolerance::Numbers,
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => Tolerance::Bits,
        BinaryOp::ShiftLeft | BinaryOp::ShiftRightArithmetic | BinaryOp::ShiftRightLogical => Tolerance::Bits,
    }
}
