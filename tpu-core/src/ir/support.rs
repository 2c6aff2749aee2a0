//! Which dtypes each operation takes: the table that `infer` consults. `support.txt` beside this file shows it.
//!
//! The dtype of an operation here is that of the operand that carries the data: the first one, of `select`,
//! `clamp` and `case` the second, of a source the result's. It is what StableHLO allows, less what PyTorch gives no meaning to. The 8-bit
//! floats are for storage: they convert, move, compare and multiply matrices into a wider type, nothing else.

use super::op::{BinaryOp, Comparison, FftKind, Op, Reducer, UnaryOp};
use crate::DType;
use std::fmt;

/// A set of dtypes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DTypes(u32);

impl DTypes {
    /// `bool`.
    pub const BOOL: Self = Self::of(&[DType::Bool]);
    /// Unsigned integers.
    pub const UNSIGNED: Self = Self::of(&[DType::U8, DType::U16, DType::U32, DType::U64]);
    /// Signed integers.
    pub const SIGNED: Self = Self::of(&[DType::I8, DType::I16, DType::I32, DType::I64]);
    /// All integers.
    pub const INTEGER: Self = Self::UNSIGNED.or(Self::SIGNED);
    /// The floats that have arithmetic: of 16, 32 and 64 bits.
    pub const FLOAT: Self = Self::of(&[DType::F16, DType::BF16, DType::F32, DType::F64]);
    /// The 8-bit floats.
    pub const FLOAT8: Self = Self::of(&[DType::F8E4M3FN, DType::F8E5M2]);
    /// Complex numbers.
    pub const COMPLEX: Self = Self::of(&[DType::Complex64]);
    /// What dense linear algebra is done in.
    pub const SOLVER: Self = Self::of(&[DType::F32, DType::F64, DType::Complex64]);
    /// Every dtype.
    pub const ALL: Self = Self::of(&DType::ALL);

    /// The set of these dtypes.
    pub const fn of(dtypes: &[DType]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < dtypes.len() {
            bits |= 1 << dtypes[i] as u32;
            i += 1;
        }
        Self(bits)
    }

    /// The union.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The dtypes that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether a dtype is in the set.
    pub const fn contains(self, dtype: DType) -> bool {
        self.0 >> dtype as u32 & 1 == 1
    }

    const fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Display for DTypes {
    /// Families by name, other members one by one: `bool, integer or float`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("any");
        }
        let families = [
            (Self::BOOL, "bool"),
            (Self::INTEGER, "integer"),
            (Self::SIGNED, "signed integer"),
            (Self::FLOAT, "float"),
            (Self::FLOAT8, "float8"),
            (Self::COMPLEX, "complex"),
        ];
        let (mut rest, mut names) = (*self, Vec::new());
        for (family, name) in families {
            if rest.includes(family) {
                rest = rest.without(family);
                names.push(name);
            }
        }
        names.extend(DType::ALL.into_iter().filter(|&dtype| rest.contains(dtype)).map(DType::name));
        match names.split_last() {
            Some((last, [])) => f.write_str(last),
            Some((last, head)) => write!(f, "{} or {last}", head.join(", ")),
            None => f.write_str("no"),
        }
    }
}

impl fmt::Debug for DTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whether `op` takes data of this dtype.
///
/// ```
/// use tpu_core::DType;
/// use tpu_core::ir::{Op, UnaryOp, support::supported};
/// assert!(supported(&Op::Unary(UnaryOp::Exp), DType::BF16));
/// assert!(!supported(&Op::Unary(UnaryOp::Exp), DType::I32));
/// ```
pub fn supported(op: &Op, dtype: DType) -> bool {
    dtypes(op).contains(dtype)
}

const NUMBER: DTypes = DTypes::INTEGER.or(DTypes::FLOAT).or(DTypes::COMPLEX);
const ORDERED: DTypes = DTypes::BOOL.or(DTypes::INTEGER).or(DTypes::FLOAT);
const BITS: DTypes = DTypes::BOOL.or(DTypes::INTEGER);
const ANALYTIC: DTypes = DTypes::FLOAT.or(DTypes::COMPLEX);

/// The dtypes that `op` takes.
pub fn dtypes(op: &Op) -> DTypes {
    match op {
        Op::Parameter { .. } | Op::Constant(_) => DTypes::ALL,
        Op::Iota { .. } => NUMBER,
        Op::Unary(op) => unary(*op),
        Op::Binary(op) => binary(*op),
        Op::Compare(Comparison::Eq | Comparison::Ne) => DTypes::ALL,
        Op::Compare(_) => DTypes::ALL.without(DTypes::COMPLEX),
        Op::Select => DTypes::ALL,
        Op::Clamp => ORDERED,
        Op::Complex => DTypes::of(&[DType::F32]),
        Op::Convert(_) => DTypes::ALL,
        // In StableHLO a bool has one bit and a complex number no other representation.
        Op::BitcastConvert(_) => DTypes::ALL.without(DTypes::BOOL).without(DTypes::COMPLEX),
        Op::ReducePrecision { .. } => DTypes::FLOAT,
        Op::BroadcastInDim { .. } | Op::Reshape(_) | Op::Transpose(_) | Op::Slice { .. } => DTypes::ALL,
        Op::DynamicSlice { .. } | Op::DynamicUpdateSlice | Op::Pad { .. } => DTypes::ALL,
        Op::Concatenate { .. } | Op::Reverse(_) => DTypes::ALL,
        Op::Reduce { kind, .. } | Op::ReduceWindow { kind, .. } | Op::Cumulative { kind, .. } => reducer(*kind),
        Op::ArgReduce { .. } => ORDERED,
        Op::SelectAndScatter { .. } => DTypes::INTEGER.or(DTypes::FLOAT),
        Op::DotGeneral(_) => NUMBER.or(DTypes::FLOAT8),
        Op::Convolution(_) => NUMBER,
        Op::Gather(_) => DTypes::ALL,
        Op::Scatter(dims) => dims.combiner.map_or(DTypes::ALL, reducer),
        Op::Sort { .. } => ORDERED,
        Op::TopK { .. } => DTypes::INTEGER.or(DTypes::FLOAT),
        Op::RngBits(_) => DTypes::of(&[DType::U64]),
        Op::Fft { kind: FftKind::Rfft, .. } => DTypes::of(&[DType::F32]),
        Op::Fft { kind: FftKind::Fft | FftKind::Ifft | FftKind::Irfft, .. } => DTypes::COMPLEX,
        Op::Cholesky { .. } | Op::TriangularSolve { .. } | Op::Qr | Op::Eigh | Op::Lu => DTypes::SOLVER,
        Op::While { .. } | Op::Case { .. } => DTypes::ALL,
        Op::AllReduce { kind, .. } | Op::ReduceScatter { kind, .. } => reducer(*kind),
        Op::AllGather { .. } | Op::AllToAll { .. } | Op::CollectivePermute { .. } => DTypes::ALL,
        Op::ReplicaId | Op::PartitionId => DTypes::of(&[DType::U32]),
        Op::CustomCall(_) | Op::OptimizationBarrier | Op::Composite { .. } => DTypes::ALL,
    }
}

const fn unary(op: UnaryOp) -> DTypes {
    use UnaryOp::*;
    match op {
        Abs | Sign => DTypes::SIGNED.or(ANALYTIC),
        Neg => NUMBER,
        Floor | Ceil | RoundNearestEven | RoundNearestAfz => DTypes::FLOAT,
        Exp | Expm1 | Log | Log1p | Logistic | Tanh | Sin | Cos | Tan | Sqrt | Rsqrt => ANALYTIC,
        Cbrt | Erf | ErfInv | IsFinite => DTypes::FLOAT,
        Not => BITS,
        PopulationCount | CountLeadingZeros => DTypes::INTEGER,
        Real | Imag => DTypes::COMPLEX,
    }
}

const fn binary(op: BinaryOp) -> DTypes {
    use BinaryOp::*;
    match op {
        Add | Multiply => NUMBER.or(DTypes::BOOL),
        Subtract | Divide | Power => NUMBER,
        Remainder => DTypes::INTEGER.or(DTypes::FLOAT),
        Atan2 => DTypes::FLOAT,
        Maximum | Minimum => ORDERED,
        And | Or | Xor => BITS,
        ShiftLeft | ShiftRightArithmetic | ShiftRightLogical => DTypes::INTEGER,
    }
}

const fn reducer(kind: Reducer) -> DTypes {
    match kind {
        Reducer::Sum | Reducer::Product => NUMBER.or(DTypes::BOOL),
        Reducer::Max | Reducer::Min => ORDERED,
        Reducer::And | Reducer::Or | Reducer::Xor => BITS,
    }
}

/// Whether a contraction of `operand` elements may give `result`: the same dtype, or a wider one of the same kind,
/// or a wider signed integer for unsigned ones. The 8-bit floats give only wider floats.
pub fn widens(operand: DType, result: DType) -> bool {
    use crate::dtype::Kind;
    if operand == result {
        return !DTypes::FLOAT8.contains(operand);
    }
    let kinds = (operand.kind(), result.kind());
    operand.bits() < result.bits() && (kinds.0 == kinds.1 || kinds == (Kind::Unsigned, Kind::Signed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::samples::{program, rows};
    use std::fmt::Write;

    /// One line per op, one column per dtype.
    fn render() -> String {
        let names: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.stablehlo()).collect();
        let mut text = format!("{:27}{}\n", "", names.join(" "));
        for row in rows() {
            write!(text, "{:27}", row.name).unwrap();
            for dtype in DType::ALL {
                let mark = if supported(&row.apply(dtype).1, dtype) { "x" } else { "." };
                write!(text, "{mark:<width$} ", width = dtype.stablehlo().len()).unwrap();
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }

    #[test]
    fn the_table_is_the_committed_one() {
        let table = render();
        assert!(table == include_str!("support.txt"), "support.txt differs from the table:\n{table}");
    }

    #[test]
    fn the_shape_rule_takes_exactly_the_dtypes_of_the_table() {
        for row in rows() {
            for dtype in DType::ALL {
                let (types, op) = row.apply(dtype);
                let (listed, result) = (supported(&op, dtype), program(&types, op));
                if matches!(row.name.as_str(), "replica_id" | "partition_id") {
                    continue; // No operand: the dtype of the row is the result's.
                }
                match result {
                    Ok(_) => assert!(listed, "{} takes {dtype}, the table says no", row.name),
                    Err(error) => {
                        assert!(!listed, "{} of {dtype}: {error}", row.name);
                        assert_eq!(error.kind(), crate::ErrorKind::DType, "{error}");
                    }
                }
            }
        }
    }

    #[test]
    fn names_of_sets_read_as_families() {
        assert_eq!(ORDERED.to_string(), "bool, integer or float");
        assert_eq!(DTypes::SIGNED.or(ANALYTIC).to_string(), "signed integer, float or complex");
        assert_eq!(DTypes::SOLVER.to_string(), "complex, float32 or float64");
        assert_eq!(DTypes::of(&[DType::F32]).to_string(), "float32");
        assert_eq!(DTypes::ALL.to_string(), "any");
    }

    #[test]
    fn accumulators_are_wider_and_of_the_same_kind() {
        use DType::*;
        for (operand, result) in [(I8, I32), (U8, I32), (U8, U32), (BF16, F32), (F8E5M2, F32), (F32, F64), (I8, I8)] {
            assert!(widens(operand, result), "{operand} to {result}");
        }
        for (operand, result) in [(I32, I8), (I8, U32), (F32, BF16), (F16, BF16), (F8E5M2, F8E5M2), (I8, F32)] {
            assert!(!widens(operand, result), "{operand} to {result}");
        }
    }
}
