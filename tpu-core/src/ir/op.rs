//! The operations: a closed set of primitives with StableHLO's names and semantics.
//!
//! An op is added only when composing existing ones is impossible or measurably slow. There is one exhaustive `match`
//! over [`Op`] per concern, without a wildcard arm: shape rule (`infer`), StableHLO text (`text`), reference
//! (`reference`), host kernel (`runtime::host`), derivative (tpu-autograd). A missing arm does not compile.
//!
//! # Semantics that StableHLO leaves open, closed here
//!
//! * Integer division by zero gives −1 (all ones), the remainder is the dividend. `MIN / −1` is `MIN`, remainder 0.
//! * Float `remainder` has the dividend's sign (C's `fmod`).
//! * Shifts by the width or more give 0, or the sign for the arithmetic right shift.
//! * `maximum`, `minimum` and their reductions give NaN when an operand is NaN.
//! * Sorting and top-k: NaN is greater than every number, −0 equals +0. Arg-reductions: the first NaN wins, then the first of equals.
//! * `gather`, `dynamic_slice` and `dynamic_update_slice` clamp start indices into range; `scatter` drops an
//!   out-of-range update as a whole, and combines several updates of one element in row-major order of updates.
//! * Reductions over zero elements give the identity of the reducer (`-inf`/lowest for maximum …).
//! * Integer arithmetic wraps.

use super::BlockId;
use super::attributes::{
    Attributes, Axes, ConvDims, CustomCall, DotDims, GatherDims, ReplicaGroups, ScatterDims, Signed, Window,
};
use crate::{DType, Literal, Shape};
use smallvec::SmallVec;
use std::sync::Arc;

/// An operation. Operands and their number are in the doc of each variant; a result's dtype and shape follow from
/// them by the shape rule in `infer`.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    // ---- sources: no operands
    /// The block's parameter number `index`, of the given type.
    Parameter {
        /// Position among the block's parameters.
        index: usize,
        /// Its type.
        ty: super::Type,
    },
    /// A value baked into the program.
    Constant(Arc<Literal>),
    /// Numbers 0, 1, … along `axis`, repeated along the others.
    Iota {
        /// The axis that counts.
        axis: usize,
        /// Element type: integer, float or complex.
        dtype: DType,
        /// Result shape.
        shape: Shape,
    },

    // ---- elementwise: operands of one shape
    /// (x)
    Unary(UnaryOp),
    /// (lhs, rhs), of one dtype.
    Binary(BinaryOp),
    /// (lhs, rhs) → bool. Comparisons with NaN are false, `Ne` is true.
    Compare(Comparison),
    /// (predicate: bool, on_true, on_false)
    Select,
    /// (low, x, high): `minimum(maximum(x, low), high)`.
    Clamp,
    /// (real: f32, imaginary: f32) → complex64
    Complex,
    /// (x) → `dtype`, by PyTorch's conversion rules.
    Convert(DType),
    /// (x) → the same bits read as `dtype`. Of equal width: same shape. To a narrower type: one more, minor axis; to a
    /// wider one: the minor axis, of the ratio's size, is gone. Little endian.
    BitcastConvert(DType),
    /// (x): rounded to a float with fewer bits and back, as `reduce_precision`.
    ReducePrecision {
        /// Exponent bits, at least 1.
        exponent_bits: u32,
        /// Mantissa bits.
        mantissa_bits: u32,
    },

    // ---- shape
    /// (x): operand axis `i` becomes result axis `axes[i]` (increasing not required, distinct); sizes of one stretch.
    BroadcastInDim {
        /// Result shape.
        shape: Shape,
        /// For each operand axis the result axis.
        axes: Axes,
    },
    /// (x): same elements in row-major order, new shape.
    Reshape(Shape),
    /// (x): result axis `i` is operand axis `permutation[i]`.
    Transpose(Axes),
    /// (x): elements `start, start + stride, … < limit` of each axis.
    Slice {
        /// First index per axis.
        start: Axes,
        /// One past the last index per axis.
        limit: Axes,
        /// Step per axis, at least 1.
        strides: Axes,
    },
    /// (x, start per axis: scalar integers of one dtype …): a window of `sizes`, start clamped into range.
    DynamicSlice {
        /// Window sizes.
        sizes: Axes,
    },
    /// (x, update, start per axis …): `x` with the window at the clamped start replaced.
    DynamicUpdateSlice,
    /// (x, value: scalar): `interior` elements between neighbours, `low` and `high` at the ends, negative ones cut.
    Pad {
        /// Elements before, may be negative.
        low: Signed,
        /// Elements after, may be negative.
        high: Signed,
        /// Elements between neighbours.
        interior: Axes,
    },
    /// (x₀, x₁, …): joined along `axis`; at least one operand.
    Concatenate {
        /// The axis that grows.
        axis: usize,
    },
    /// (x): order along each of the axes reversed.
    Reverse(Axes),

    // ---- reductions
    /// (x): `axes` removed. Over one element that element, over none the identity of `kind`.
    Reduce {
        /// What combines elements.
        kind: Reducer,
        /// Axes that vanish, increasing.
        axes: Axes,
    },
    /// (x) → (value, index: i64): extreme along one axis, which is removed. The first of equals, NaN wins.
    ArgReduce {
        /// Maximum or minimum.
        kind: Extreme,
        /// The axis that vanishes.
        axis: usize,
    },
    /// (x): a reduction over each window; padding holds the identity.
    ReduceWindow {
        /// What combines elements.
        kind: Reducer,
        /// The window, one entry per axis.
        window: Arc<Window>,
    },
    /// (x, source): each element of `source` is added to the result at the place of its window's first extreme in `x`; result shaped as `x`.
    SelectAndScatter {
        /// Which element of a window is selected.
        select: Extreme,
        /// The window, one entry per axis, without dilation.
        window: Arc<Window>,
    },
    /// (x): running reduction along one axis, inclusive.
    Cumulative {
        /// What combines elements.
        kind: Reducer,
        /// The axis it runs along.
        axis: usize,
        /// From the end to the start.
        reverse: bool,
    },

    // ---- contractions
    /// (lhs, rhs): result axes are batch, free lhs, free rhs.
    DotGeneral(Arc<DotDims>),
    /// (input, kernel): a cross-correlation. As in StableHLO, padding and the places between dilated input elements are zeros
    /// that are multiplied as any element is: under an infinite or NaN kernel element they give NaN. Places between
    /// dilated kernel elements are skipped.
    Convolution(Arc<ConvDims>),

    // ---- indexing
    /// (x, indices: integer)
    Gather(Arc<GatherDims>),
    /// (x, indices: integer, updates)
    Scatter(Arc<ScatterDims>),
    /// (keys, values …) → all sorted along `axis` by the first operand.
    Sort {
        /// The axis.
        axis: usize,
        /// Largest first; NaN counts as the largest.
        descending: bool,
        /// Equal keys keep their order.
        stable: bool,
    },
    /// (x) → (values, indices: i32): the `k` extreme elements along the last axis, best first, first of equals first.
    TopK {
        /// How many.
        k: usize,
        /// Largest or smallest.
        largest: bool,
    },

    // ---- random bits
    /// (seed: scalar u64, offset: scalar u64) → u32 bits of Philox 4x32-10: element `i` (row-major) is lane `i mod 4`
    /// of counter `offset + i/4`, key `seed`.
    RngBits(Shape),

    // ---- linear algebra over the last two axes, others are batch
    /// (x): Fourier transform over the last axes.
    Fft {
        /// Direction and kind.
        kind: FftKind,
        /// Transform lengths of the last axes, one to three.
        lengths: Axes,
    },
    /// (x): the triangular factor; only that triangle of `x` is read, the other of the result is 0. A matrix that is not
    /// positive definite gives NaN in the whole triangle: no part of it looks like an answer.
    Cholesky {
        /// `x = L Lᵀ` instead of `Uᵀ U`.
        lower: bool,
    },
    /// (a, b): solves `op(a) x = b`, or `x op(a) = b`.
    TriangularSolve {
        /// `a` stands on the left.
        left: bool,
        /// Which triangle of `a` is read.
        lower: bool,
        /// Diagonal taken as ones.
        unit_diagonal: bool,
        /// `op`.
        transpose: TransposeKind,
    },
    /// `(x [m, n]) → (q [m, k], r [k, n])`, `k = min(m, n)`; LAPACK's Householder signs.
    Qr,
    /// `(x [n, n]) → (eigenvalues [n], vectors [n, n])`: ascending and real, in columns; the lower triangle is read, of the
    /// diagonal the real parts. If something there is not finite, all results are NaN.
    Eigh,
    /// `(x [m, n]) → (lu [m, n], pivots [k]: i32 from 0, permutation [m]: i32)`; partial pivoting.
    Lu,

    // ---- control flow; blocks see only their parameters
    /// (initial values …) → as many: while `cond(values)` is true, `values = body(values)`.
    While {
        /// Block from the values to a scalar bool.
        cond: BlockId,
        /// Block from the values to the values.
        body: BlockId,
    },
    /// (index: scalar i32, arguments …): the results of branch `index`, of the last one when out of range.
    Case {
        /// Blocks of the arguments, all with the same result types.
        branches: SmallVec<[BlockId; 2]>,
    },

    // ---- several devices
    /// (x): reduced over each group of replicas.
    AllReduce {
        /// What combines.
        kind: Reducer,
        /// Which devices form groups.
        groups: Arc<ReplicaGroups>,
    },
    /// (x): all of the group's operands, joined along `axis`.
    AllGather {
        /// The axis that grows.
        axis: usize,
        /// Which devices form groups.
        groups: Arc<ReplicaGroups>,
    },
    /// (x): reduced, then split along `axis` so that each device keeps its part.
    ReduceScatter {
        /// What combines.
        kind: Reducer,
        /// The axis that shrinks.
        axis: usize,
        /// Which devices form groups.
        groups: Arc<ReplicaGroups>,
    },
    /// (x): split along one axis, exchanged within the group, joined along another.
    AllToAll {
        /// The axis that shrinks.
        split_axis: usize,
        /// The axis that grows.
        concat_axis: usize,
        /// Which devices form groups.
        groups: Arc<ReplicaGroups>,
    },
    /// (x): device `to` gets the operand of device `from`; a device that gets none has zeros.
    CollectivePermute {
        /// (from, to) pairs.
        pairs: Arc<[(u32, u32)]>,
        /// Channel number, 0 for none.
        channel: u64,
    },
    /// () → u32 scalar: this replica's number.
    ReplicaId,
    /// () → u32 scalar: this partition's number.
    PartitionId,

    // ---- the rest
    /// (operands …) → the given types: a function that the target knows by name.
    CustomCall(Arc<CustomCall>),
    /// (x …) → the same values; nothing is moved or merged across it.
    OptimizationBarrier,
    /// (operands …) → results of `body`: a named composition. A backend may inline it or have a kernel for the name,
    /// autograd may override its derivative; the body says what it means.
    Composite {
        /// A dotted name such as `tpu.softmax`.
        name: Arc<str>,
        /// Constants of the composition, in order.
        attributes: Arc<Attributes>,
        /// Its definition.
        body: BlockId,
    },
}

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl $name {
            /// Every variant.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name in StableHLO or CHLO text, without the dialect.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }
    };
}

named! {
    /// Elementwise functions of one operand.
    UnaryOp {
        /// |x|; of a complex number its magnitude, as f32. The least signed integer stays itself.
        Abs = "abs",
        /// −x
        Neg = "negate",
        /// −1, 0 or 1; NaN and signed zeros stay. Complex: x / |x|, 0 at 0.
        Sign = "sign",
        /// Largest integer not above.
        Floor = "floor",
        /// Smallest integer not below.
        Ceil = "ceil",
        /// Nearest integer, ties to even.
        RoundNearestEven = "round_nearest_even",
        /// Nearest integer, ties away from zero.
        RoundNearestAfz = "round_nearest_afz",
        /// eˣ
        Exp = "exponential",
        /// eˣ − 1
        Expm1 = "exponential_minus_one",
        /// ln x
        Log = "log",
        /// ln(1 + x)
        Log1p = "log_plus_one",
        /// 1 / (1 + e⁻ˣ)
        Logistic = "logistic",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// Sine.
        Sin = "sine",
        /// Cosine.
        Cos = "cosine",
        /// Tangent.
        Tan = "tan",
        /// √x
        Sqrt = "sqrt",
        /// 1 / √x
        Rsqrt = "rsqrt",
        /// ∛x
        Cbrt = "cbrt",
        /// Error function (CHLO).
        Erf = "erf",
        /// Inverse error function (CHLO).
        ErfInv = "erf_inv",
        /// Whether neither NaN nor infinite → bool.
        IsFinite = "is_finite",
        /// Bitwise complement; of a bool its negation.
        Not = "not",
        /// Number of one bits.
        PopulationCount = "popcnt",
        /// Number of leading zero bits.
        CountLeadingZeros = "count_leading_zeros",
        /// Real part → f32.
        Real = "real",
        /// Imaginary part → f32.
        Imag = "imag",
    }
}

named! {
    /// Elementwise functions of two operands of one type.
    BinaryOp {
        /// x + y; of bools: or.
        Add = "add",
        /// x − y
        Subtract = "subtract",
        /// x · y; of bools: and.
        Multiply = "multiply",
        /// x / y; integers round towards zero.
        Divide = "divide",
        /// x − y · trunc(x / y)
        Remainder = "remainder",
        /// xʸ; integers: negative exponents give 0 unless x is ±1.
        Power = "power",
        /// Angle of the point (y = lhs, x = rhs).
        Atan2 = "atan2",
        /// The larger, NaN if any is; of bools: or.
        Maximum = "maximum",
        /// The smaller, NaN if any is; of bools: and.
        Minimum = "minimum",
        /// Bitwise and.
        And = "and",
        /// Bitwise or.
        Or = "or",
        /// Bitwise exclusive or.
        Xor = "xor",
        /// x · 2ʸ
        ShiftLeft = "shift_left",
        /// Sign-extending right shift.
        ShiftRightArithmetic = "shift_right_arithmetic",
        /// Zero-filling right shift.
        ShiftRightLogical = "shift_right_logical",
    }
}

named! {
    /// How two elements are compared. Complex numbers take only `Eq` and `Ne`.
    Comparison {
        /// Equal.
        Eq = "EQ",
        /// Not equal.
        Ne = "NE",
        /// Less.
        Lt = "LT",
        /// Less or equal.
        Le = "LE",
        /// Greater.
        Gt = "GT",
        /// Greater or equal.
        Ge = "GE",
    }
}

named! {
    /// What combines the elements of a reduction or a scatter; a closed set instead of regions.
    Reducer {
        /// Sum, from 0; of bools: or.
        Sum = "add",
        /// Product, from 1; of bools: and.
        Product = "multiply",
        /// Maximum, from the lowest value; NaN wins.
        Max = "maximum",
        /// Minimum, from the highest value; NaN wins.
        Min = "minimum",
        /// Bitwise and, from all ones.
        And = "and",
        /// Bitwise or, from 0.
        Or = "or",
        /// Bitwise exclusive or, from 0.
        Xor = "xor",
    }
}

named! {
    /// Which end of the order an arg-reduction takes.
    Extreme {
        /// The largest.
        Max = "GE",
        /// The smallest.
        Min = "LE",
    }
}

named! {
    /// Kinds of Fourier transforms, unnormalised forwards, divided by the length backwards.
    FftKind {
        /// complex → complex
        Fft = "FFT",
        /// complex → complex, inverse
        Ifft = "IFFT",
        /// real → complex, the last axis of length n/2 + 1
        Rfft = "RFFT",
        /// complex → real, inverse
        Irfft = "IRFFT",
    }
}

named! {
    /// What is done to the matrix of a triangular solve.
    TransposeKind {
        /// As it is.
        None = "NO_TRANSPOSE",
        /// Transposed.
        Transpose = "TRANSPOSE",
        /// Conjugated and transposed.
        Adjoint = "ADJOINT",
    }
}

named! {
    /// How exactly a target must multiply.
    Precision {
        /// The target's fastest: on TPUs bf16 products of f32.
        Default = "DEFAULT",
        /// In between.
        High = "HIGH",
        /// Full f32.
        Highest = "HIGHEST",
    }
}

impl Op {
    /// StableHLO's name of the operation, as errors and statistics show it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Parameter { .. } => "parameter",
            Self::Constant(_) => "constant",
            Self::Iota { .. } => "iota",
            Self::Unary(op) => op.name(),
            Self::Binary(op) => op.name(),
            Self::Compare(_) => "compare",
            Self::Select => "select",
            Self::Clamp => "clamp",
            Self::Complex => "complex",
            Self::Convert(_) => "convert",
            Self::BitcastConvert(_) => "bitcast_convert",
            Self::ReducePrecision { .. } => "reduce_precision",
            Self::BroadcastInDim { .. } => "broadcast_in_dim",
            Self::Reshape(_) => "reshape",
            Self::Transpose(_) => "transpose",
            Self::Slice { .. } => "slice",
            Self::DynamicSlice { .. } => "dynamic_slice",
            Self::DynamicUpdateSlice => "dynamic_update_slice",
            Self::Pad { .. } => "pad",
            Self::Concatenate { .. } => "concatenate",
            Self::Reverse(_) => "reverse",
            Self::Reduce { .. } => "reduce",
            Self::ArgReduce { .. } => "arg_reduce",
            Self::ReduceWindow { .. } => "reduce_window",
            Self::SelectAndScatter { .. } => "select_and_scatter",
            Self::Cumulative { .. } => "cumulative",
            Self::DotGeneral(_) => "dot_general",
            Self::Convolution(_) => "convolution",
            Self::Gather(_) => "gather",
            Self::Scatter(_) => "scatter",
            Self::Sort { .. } => "sort",
            Self::TopK { .. } => "top_k",
            Self::RngBits(_) => "rng_bits",
            Self::Fft { .. } => "fft",
            Self::Cholesky { .. } => "cholesky",
            Self::TriangularSolve { .. } => "triangular_solve",
            Self::Qr => "qr",
            Self::Eigh => "eigh",
            Self::Lu => "lu",
            Self::While { .. } => "while",
            Self::Case { .. } => "case",
            Self::AllReduce { .. } => "all_reduce",
            Self::AllGather { .. } => "all_gather",
            Self::ReduceScatter { .. } => "reduce_scatter",
            Self::AllToAll { .. } => "all_to_all",
            Self::CollectivePermute { .. } => "collective_permute",
            Self::ReplicaId => "replica_id",
            Self::PartitionId => "partition_id",
            Self::CustomCall(_) => "custom_call",
            Self::OptimizationBarrier => "optimization_barrier",
            Self::Composite { .. } => "composite",
        }
    }

    /// The blocks this operation owns.
    pub fn blocks(&self) -> SmallVec<[BlockId; 2]> {
        match self {
            Self::While { cond, body } => SmallVec::from_slice(&[*cond, *body]),
            Self::Case { branches } => branches.clone(),
            Self::Composite { body, .. } => SmallVec::from_slice(&[*body]),
            _ => SmallVec::new(),
        }
    }

    /// The same operation with its blocks renumbered.
    pub fn map_blocks(&mut self, mut map: impl FnMut(BlockId) -> BlockId) {
        match self {
            Self::While { cond, body } => {
                *cond = map(*cond);
                *body = map(*body);
            }
            Self::Case { branches } => branches.iter_mut().for_each(|b| *b = map(*b)),
            Self::Composite { body, .. } => *body = map(*body),
            _ => {}
        }
    }

    /// Whether repeating it costs less than keeping its result: broadcasts, counters and constants of one value.
    pub fn is_free(&self) -> bool {
        match self {
            Self::BroadcastInDim { .. } | Self::Iota { .. } => true,
            Self::Constant(literal) => literal.is_splat() || literal.shape().rank() == 0,
            _ => false,
        }
    }

    /// Whether it must run even if nothing reads its results.
    pub fn has_side_effect(&self) -> bool {
        matches!(self, Self::CustomCall(call) if call.has_side_effect)
    }
}
