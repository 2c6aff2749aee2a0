//! Which loop serves which op on which element type.

use super::isa::Isa;
use super::loops::{
    Fold, FoldKernels, Kernel, Map1, Map2, fold_kernels, map1_kernel, map1_scalar_kernel, map2_kernel,
    map2_kernel_modes, map2_scalar_kernel, select_kernel, select_kernel_modes, splat_kernel,
};
use super::math;
use crate::DType;
use crate::ir::{BinaryOp, Comparison, Reducer, UnaryOp};
use crate::runtime::host::kernels::erf_inv;
use half::{bf16, f16};

/// How an element is held in a tile. bf16 and f16 values are held as f32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cell {
    F32,
    F64,
    I32,
    I64,
    U32,
    /// A byte, 0 or 1.
    Bool,
}

impl Cell {
    /// How elements of `dtype` are held; `None` when row programs do not compute with them.
    pub(crate) fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F32 | DType::BF16 | DType::F16 => Some(Self::F32),
            DType::F64 => Some(Self::F64),
            DType::I32 => Some(Self::I32),
            DType::I64 => Some(Self::I64),
            DType::U32 => Some(Self::U32),
            DType::Bool => Some(Self::Bool),
            _ => None,
        }
    }

    /// The cells that elements are read into: those they are held in, or i32 for small integers, which are only converted.
    pub(crate) fn loaded(dtype: DType) -> Option<Self> {
        match dtype {
            DType::U8 | DType::I8 | DType::U16 | DType::I16 => Some(Self::I32),
            dtype => Self::of(dtype),
        }
    }

    /// Bytes of one.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 => 8,
            Self::Bool => 1,
        }
    }
}

macro_rules! map1 {
    ($($name:ident($x:ident: $t:ty) -> $u:ty $(, heavy $heavy:literal)? $(, rare $rare:expr => $other:expr)? => $e:expr;)*) => {$(
        struct $name;
        impl Map1<$t, $u> for $name {
            $(const HEAVY: bool = $heavy;)?
            #[inline(always)]
            fn map($x: $t) -> $u { $e }
            $(
                const RARE: bool = true;
                #[inline(always)]
                fn is_rare($x: $t) -> bool { $rare }
                #[inline(always)]
                fn map_rare($x: $t) -> $u { $other }
            )?
        }
    )*};
}

/// Functions with the same definition for f32 and f64.
macro_rules! both_floats {
    ($($name:ident($x:ident) => $e:expr;)*) => {$(
        struct $name;
        impl Map1<f32, f32> for $name {
            #[inline(always)]
            fn map($x: f32) -> f32 { $e }
        }
        impl Map1<f64, f64> for $name {
            #[inline(always)]
            fn map($x: f64) -> f64 { $e }
        }
    )*};
}
both_floats! {
    Abs(x) => x.abs();
    Neg(x) => -x;
    Floor(x) => x.floor();
    Ceil(x) => x.ceil();
    RoundEven(x) => x.round_ties_even();
    RoundAway(x) => x.round();
    Sqrt(x) => x.sqrt();
    Rsqrt(x) => 1.0 / x.sqrt();
    Sign(x) => if x > 0.0 { 1.0 } else if x < 0.0 { -1.0 } else { x };
}
map1! {
    Exp32(x: f32) -> f32, heavy true => math::exp(x);
    Expm132(x: f32) -> f32, heavy true => math::expm1(x);
    Log32(x: f32) -> f32, heavy true => math::log(x);
    Log1p32(x: f32) -> f32, heavy true => math::log1p(x);
    Logistic32(x: f32) -> f32, heavy true => math::logistic(x);
    Tanh32(x: f32) -> f32, heavy true => math::tanh(x);
    Erf32(x: f32) -> f32, heavy true => math::erf(x);
    Sin32(x: f32) -> f32, heavy true, rare math::is_far(x) => f64::from(x).sin() as f32 => math::sin(x);
    Cos32(x: f32) -> f32, heavy true, rare math::is_far(x) => f64::from(x).cos() as f32 => math::cos(x);
    Tan32(x: f32) -> f32 => f64::from(x).tan() as f32;
    Cbrt32(x: f32) -> f32 => f64::from(x).cbrt() as f32;
    ErfInv32(x: f32) -> f32, heavy true => math::erf_inv(x);
    Exp64(x: f64) -> f64 => x.exp();
    Expm164(x: f64) -> f64 => x.exp_m1();
    Log64(x: f64) -> f64 => x.ln();
    Log1p64(x: f64) -> f64 => x.ln_1p();
    Logistic64(x: f64) -> f64 => { let e = (-x.abs()).exp(); (if x < 0.0 { e } else { 1.0 }) / (1.0 + e) };
    Tanh64(x: f64) -> f64 => x.tanh();
    Erf64(x: f64) -> f64 => libm::erf(x);
    Sin64(x: f64) -> f64 => x.sin();
    Cos64(x: f64) -> f64 => x.cos();
    Tan64(x: f64) -> f64 => x.tan();
    Cbrt64(x: f64) -> f64 => x.cbrt();
    ErfInv64(x: f64) -> f64 => erf_inv(x);
    IsFinite32(x: f32) -> u8 => (x.abs() < f32::INFINITY) as u8;
    IsFinite64(x: f64) -> u8 => (x.abs() < f64::INFINITY) as u8;
    NotBool(x: u8) -> u8 => x ^ 1;
    Copy8(x: u8) -> u8 => x;
    Copy16(x: u16) -> u16 => x;
    Copy32(x: u32) -> u32 => x;
    Copy64(x: u64) -> u64 => x;
    RoundBf16(x: f32) -> f32 => widen_bf16(narrow_bf16(x));
    RoundF16(x: f32) -> f32, heavy true => widen_f16(narrow_f16(x));
    LoadBf16(x: u16) -> f32 => widen_bf16(x);
    LoadF16(x: u16) -> f32, heavy true => widen_f16(x);
    StoreBf16(x: f32) -> u16 => narrow_bf16(x);
    StoreF16(x: f32) -> u16, heavy true => narrow_f16(x);
}

/// The loop of a function of one element, by the cell it works on; `None` when there is none.
pub(crate) fn unary(isa: Isa, op: UnaryOp, cell: Cell) -> Option<Kernel> {
    macro_rules! of {
        ($f:ident: $t:ty, $u:ty) => {
            Some(map1_kernel::<$t, $u, $f>(isa))
        };
    }
    macro_rules! slow {
        ($f:ident: $t:ty) => {
            Some(map1_scalar_kernel::<$t, $f>())
        };
    }
    match (cell, op) {
        (Cell::F32, UnaryOp::Abs) => of!(Abs: f32, f32),
        (Cell::F32, UnaryOp::Neg) => of!(Neg: f32, f32),
        (Cell::F32, UnaryOp::Sign) => of!(Sign: f32, f32),
        (Cell::F32, UnaryOp::Floor) => of!(Floor: f32, f32),
        (Cell::F32, UnaryOp::Ceil) => of!(Ceil: f32, f32),
        (Cell::F32, UnaryOp::RoundNearestEven) => of!(RoundEven: f32, f32),
        (Cell::F32, UnaryOp::RoundNearestAfz) => of!(RoundAway: f32, f32),
        (Cell::F32, UnaryOp::Exp) => of!(Exp32: f32, f32),
        (Cell::F32, UnaryOp::Expm1) => of!(Expm132: f32, f32),
        (Cell::F32, UnaryOp::Log) => of!(Log32: f32, f32),
        (Cell::F32, UnaryOp::Log1p) => of!(Log1p32: f32, f32),
        (Cell::F32, UnaryOp::Logistic) => of!(Logistic32: f32, f32),
        (Cell::F32, UnaryOp::Tanh) => of!(Tanh32: f32, f32),
        (Cell::F32, UnaryOp::Sin) => of!(Sin32: f32, f32),
        (Cell::F32, UnaryOp::Cos) => of!(Cos32: f32, f32),
        (Cell::F32, UnaryOp::Tan) => slow!(Tan32: f32),
        (Cell::F32, UnaryOp::Sqrt) => of!(Sqrt: f32, f32),
        (Cell::F32, UnaryOp::Rsqrt) => of!(Rsqrt: f32, f32),
        (Cell::F32, UnaryOp::Cbrt) => slow!(Cbrt32: f32),
        (Cell::F32, UnaryOp::Erf) => of!(Erf32: f32, f32),
        (Cell::F32, UnaryOp::ErfInv) => of!(ErfInv32: f32, f32),
        (Cell::F32, UnaryOp::IsFinite) => of!(IsFinite32: f32, u8),
        (Cell::F64, UnaryOp::Abs) => of!(Abs: f64, f64),
        (Cell::F64, UnaryOp::Neg) => of!(Neg: f64, f64),
        (Cell::F64, UnaryOp::Sign) => of!(Sign: f64, f64),
        (Cell::F64, UnaryOp::Floor) => of!(Floor: f64, f64),
        (Cell::F64, UnaryOp::Ceil) => of!(Ceil: f64, f64),
        (Cell::F64, UnaryOp::RoundNearestEven) => of!(RoundEven: f64, f64),
        (Cell::F64, UnaryOp::RoundNearestAfz) => of!(RoundAway: f64, f64),
        (Cell::F64, UnaryOp::Exp) => slow!(Exp64: f64),
        (Cell::F64, UnaryOp::Expm1) => slow!(Expm164: f64),
        (Cell::F64, UnaryOp::Log) => slow!(Log64: f64),
        (Cell::F64, UnaryOp::Log1p) => slow!(Log1p64: f64),
        (Cell::F64, UnaryOp::Logistic) => slow!(Logistic64: f64),
        (Cell::F64, UnaryOp::Tanh) => slow!(Tanh64: f64),
        (Cell::F64, UnaryOp::Sin) => slow!(Sin64: f64),
        (Cell::F64, UnaryOp::Cos) => slow!(Cos64: f64),
        (Cell::F64, UnaryOp::Tan) => slow!(Tan64: f64),
        (Cell::F64, UnaryOp::Sqrt) => of!(Sqrt: f64, f64),
        (Cell::F64, UnaryOp::Rsqrt) => of!(Rsqrt: f64, f64),
        (Cell::F64, UnaryOp::Cbrt) => slow!(Cbrt64: f64),
        (Cell::F64, UnaryOp::Erf) => slow!(Erf64: f64),
        (Cell::F64, UnaryOp::ErfInv) => slow!(ErfInv64: f64),
        (Cell::F64, UnaryOp::IsFinite) => of!(IsFinite64: f64, u8),
        (Cell::Bool, UnaryOp::Not) => of!(NotBool: u8, u8),
        _ => None,
    }
}

macro_rules! map2 {
    ($($name:ident($x:ident, $y:ident) for $($t:ty),+ => $e:expr;)*) => {$(
        pub(super) struct $name;
        $(impl Map2<$t, $t> for $name {
            #[inline(always)]
            fn map($x: $t, $y: $t) -> $t { $e }
        })+
    )*};
}
map2! {
    AddF(x, y) for f32, f64 => x + y;
    SubF(x, y) for f32, f64 => x - y;
    MulF(x, y) for f32, f64 => x * y;
    DivF(x, y) for f32, f64 => x / y;
    RemF(x, y) for f32, f64 => x % y;
    MaxF(x, y) for f32, f64 => { let m = if x > y { x } else { y }; if x.is_nan() { x } else { m } };
    MinF(x, y) for f32, f64 => { let m = if x < y { x } else { y }; if x.is_nan() { x } else { m } };
    Pow64(x, y) for f64 => x.powf(y);
    Pow32(x, y) for f32 => f64::from(x).powf(y.into()) as f32;
    Atan264(x, y) for f64 => x.atan2(y);
    Atan232(x, y) for f32 => f64::from(x).atan2(y.into()) as f32;
    AddI(x, y) for i32, i64 => x.wrapping_add(y);
    SubI(x, y) for i32, i64 => x.wrapping_sub(y);
    MulI(x, y) for i32, i64 => x.wrapping_mul(y);
    MaxI(x, y) for i32, i64 => if x > y { x } else { y };
    MinI(x, y) for i32, i64 => if x < y { x } else { y };
    And(x, y) for u32, u8 => x & y;
    Or(x, y) for u32, u8 => x | y;
    Xor(x, y) for u8 => x ^ y;
    Shl32(x, y) for u32 => if y < 32 { x << (y & 31) } else { 0 };
    Shr32(x, y) for u32 => if y < 32 { x >> (y & 31) } else { 0 };
}

/// Whether binary loops of a cell exist for operands of one element per row. The others need such an operand repeated
/// first: they are rare, and each loop is compiled for every instruction set.
pub(crate) fn has_modes(cell: Cell) -> bool {
    cell == Cell::F32
}

/// The loop of a function of two elements; `modes`: which of them is one per row, both false unless `has_modes`.
pub(crate) fn binary(isa: Isa, op: BinaryOp, cell: Cell, modes: [bool; 2]) -> Option<Kernel> {
    macro_rules! of {
        ($f:ident: $t:ty) => {
            Some(map2_kernel::<$t, $t, $f>(isa))
        };
    }
    macro_rules! modes {
        ($f:ident) => {
            Some(map2_kernel_modes::<f32, f32, $f>(isa, modes))
        };
    }
    macro_rules! slow {
        ($f:ident: $t:ty) => {
            Some(map2_scalar_kernel::<$t, $f>(modes))
        };
    }
    match (cell, op) {
        (Cell::F32, BinaryOp::Add) => modes!(AddF),
        (Cell::F32, BinaryOp::Subtract) => modes!(SubF),
        (Cell::F32, BinaryOp::Multiply) => modes!(MulF),
        (Cell::F32, BinaryOp::Divide) => modes!(DivF),
        (Cell::F32, BinaryOp::Maximum) => modes!(MaxF),
        (Cell::F32, BinaryOp::Minimum) => modes!(MinF),
        (Cell::F32, BinaryOp::Remainder) => slow!(RemF: f32),
        (Cell::F32, BinaryOp::Power) => slow!(Pow32: f32),
        (Cell::F32, BinaryOp::Atan2) => slow!(Atan232: f32),
        (Cell::F64, BinaryOp::Add) => of!(AddF: f64),
        (Cell::F64, BinaryOp::Subtract) => of!(SubF: f64),
        (Cell::F64, BinaryOp::Multiply) => of!(MulF: f64),
        (Cell::F64, BinaryOp::Divide) => of!(DivF: f64),
        (Cell::F64, BinaryOp::Maximum) => of!(MaxF: f64),
        (Cell::F64, BinaryOp::Minimum) => of!(MinF: f64),
        (Cell::F64, BinaryOp::Remainder) => slow!(RemF: f64),
        (Cell::F64, BinaryOp::Power) => slow!(Pow64: f64),
        (Cell::F64, BinaryOp::Atan2) => slow!(Atan264: f64),
        (Cell::I32, BinaryOp::Add) => of!(AddI: i32),
        (Cell::I32, BinaryOp::Subtract) => of!(SubI: i32),
        (Cell::I32, BinaryOp::Multiply) => of!(MulI: i32),
        (Cell::I32, BinaryOp::Maximum) => of!(MaxI: i32),
        (Cell::I32, BinaryOp::Minimum) => of!(MinI: i32),
        (Cell::I64, BinaryOp::Add) => of!(AddI: i64),
        (Cell::I64, BinaryOp::Subtract) => of!(SubI: i64),
        (Cell::I64, BinaryOp::Multiply) => of!(MulI: i64),
        (Cell::I64, BinaryOp::Maximum) => of!(MaxI: i64),
        (Cell::I64, BinaryOp::Minimum) => of!(MinI: i64),
        (Cell::U32, BinaryOp::And) => of!(And: u32),
        (Cell::U32, BinaryOp::Or) => of!(Or: u32),
        (Cell::U32, BinaryOp::ShiftLeft) => of!(Shl32: u32),
        (Cell::U32, BinaryOp::ShiftRightLogical) => of!(Shr32: u32),
        (Cell::Bool, BinaryOp::Add | BinaryOp::Maximum | BinaryOp::Or) => of!(Or: u8),
        (Cell::Bool, BinaryOp::Multiply | BinaryOp::Minimum | BinaryOp::And) => of!(And: u8),
        (Cell::Bool, BinaryOp::Xor) => of!(Xor: u8),
        _ => None,
    }
}

struct Eq;
struct Ne;
struct Lt;
struct Le;
macro_rules! comparisons {
    ($($t:ty),*) => {$(
        comparisons!(@one $t, Eq ==, Ne !=, Lt <, Le <=);
    )*};
    (@one $t:ty, $($name:ident $op:tt),*) => {$(
        impl Map2<$t, u8> for $name {
            #[inline(always)]
            fn map(x: $t, y: $t) -> u8 { (x $op y) as u8 }
        }
    )*};
}
comparisons!(f32, f64, i32, i64, u32, u8);

/// The loop of `eq`, `ne`, `lt` or `le` (greater is less with operands exchanged); `modes` as for binary loops.
pub(crate) fn compare(isa: Isa, op: Comparison, cell: Cell, modes: [bool; 2]) -> Option<Kernel> {
    macro_rules! of {
        ($f:ident) => {
            Some(match cell {
                Cell::F32 => map2_kernel_modes::<f32, u8, $f>(isa, modes),
                Cell::F64 => map2_kernel::<f64, u8, $f>(isa),
                Cell::I32 => map2_kernel::<i32, u8, $f>(isa),
                Cell::I64 => map2_kernel::<i64, u8, $f>(isa),
                Cell::U32 => map2_kernel::<u32, u8, $f>(isa),
                Cell::Bool => map2_kernel::<u8, u8, $f>(isa),
            })
        };
    }
    match op {
        Comparison::Eq => of!(Eq),
        Comparison::Ne => of!(Ne),
        Comparison::Lt => of!(Lt),
        Comparison::Le => of!(Le),
        Comparison::Gt | Comparison::Ge => None,
    }
}

/// The loop of a selection between cells; `modes` says which of the two is one element per row: both false unless the
/// cell has four bytes.
pub(crate) fn select(isa: Isa, cell: Cell, modes: [bool; 2]) -> Kernel {
    match cell.size() {
        1 => select_kernel::<u8>(isa),
        4 => select_kernel_modes::<u32>(isa, modes),
        _ => select_kernel::<u64>(isa),
    }
}

/// The loop that repeats one cell per row.
pub(crate) fn splat(isa: Isa, cell: Cell) -> Kernel {
    match cell.size() {
        1 => splat_kernel::<u8>(isa),
        4 => splat_kernel::<u32>(isa),
        _ => splat_kernel::<u64>(isa),
    }
}

/// The loop that copies elements of `bytes` bytes.
pub(crate) fn copy(isa: Isa, bytes: usize) -> Kernel {
    match bytes {
        1 => map1_kernel::<u8, u8, Copy8>(isa),
        2 => map1_kernel::<u16, u16, Copy16>(isa),
        4 => map1_kernel::<u32, u32, Copy32>(isa),
        _ => map1_kernel::<u64, u64, Copy64>(isa),
    }
}

struct Cast;
macro_rules! casts {
    ($($from:ty => $($to:ty),+;)*) => {$($(
        impl Map1<$from, $to> for Cast {
            #[inline(always)]
            fn map(x: $from) -> $to { x as $to }
        }
    )+)*};
}
casts! {
    f32 => f64;
    f64 => f32;
    i32 => f32, f64, i64, u32;
    i64 => f32, f64, i32, u32;
    u32 => f32, f64, i64, i32;
    u8 => f32, f64, i32, i64, u32;
    i8 => i32;
    u16 => i32;
    i16 => i32;
}
struct NonZero;
macro_rules! non_zero {
    ($($from:ty),*) => {$(
        impl Map1<$from, u8> for NonZero {
            #[inline(always)]
            fn map(x: $from) -> u8 { (x != (0 as $from)) as u8 }
        }
    )*};
}
non_zero!(f32, f64, i32, i64, u32);

/// The loop of a conversion between cells; `None` when row programs leave it to the plain kernels, as they do for
/// floats to integers.
pub(crate) fn convert(isa: Isa, from: Cell, to: Cell) -> Option<Kernel> {
    macro_rules! of {
        ($t:ty, $u:ty) => {
            Some(map1_kernel::<$t, $u, Cast>(isa))
        };
    }
    match (from, to) {
        (a, b) if a == b => Some(copy(isa, a.size())),
        (Cell::F32, Cell::F64) => of!(f32, f64),
        (Cell::F64, Cell::F32) => of!(f64, f32),
        (Cell::I32, Cell::F32) => of!(i32, f32),
        (Cell::I32, Cell::F64) => of!(i32, f64),
        (Cell::I32, Cell::I64) => of!(i32, i64),
        (Cell::I32, Cell::U32) => of!(i32, u32),
        (Cell::I64, Cell::F32) => of!(i64, f32),
        (Cell::I64, Cell::F64) => of!(i64, f64),
        (Cell::I64, Cell::I32) => of!(i64, i32),
        (Cell::I64, Cell::U32) => of!(i64, u32),
        (Cell::U32, Cell::F32) => of!(u32, f32),
        (Cell::U32, Cell::F64) => of!(u32, f64),
        (Cell::U32, Cell::I64) => of!(u32, i64),
        (Cell::U32, Cell::I32) => of!(u32, i32),
        (Cell::Bool, Cell::F32) => of!(u8, f32),
        (Cell::Bool, Cell::F64) => of!(u8, f64),
        (Cell::Bool, Cell::I32) => of!(u8, i32),
        (Cell::Bool, Cell::I64) => of!(u8, i64),
        (Cell::Bool, Cell::U32) => of!(u8, u32),
        (Cell::F32, Cell::Bool) => Some(map1_kernel::<f32, u8, NonZero>(isa)),
        (Cell::F64, Cell::Bool) => Some(map1_kernel::<f64, u8, NonZero>(isa)),
        (Cell::I32, Cell::Bool) => Some(map1_kernel::<i32, u8, NonZero>(isa)),
        (Cell::I64, Cell::Bool) => Some(map1_kernel::<i64, u8, NonZero>(isa)),
        (Cell::U32, Cell::Bool) => Some(map1_kernel::<u32, u8, NonZero>(isa)),
        _ => None,
    }
}

/// The exact f32 of bf16 bits.
#[inline(always)]
pub(crate) fn widen_bf16(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}

/// The nearest bf16, ties to even; NaN stays NaN.
#[inline(always)]
pub(crate) fn narrow_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    if x.is_nan() { (bits >> 16) as u16 | 0x40 } else { rounded }
}

/// The exact f32 of f16 bits, without branches: the exponent is moved by a product, which is exact for denormals too.
#[inline(always)]
pub(crate) fn widen_f16(x: u16) -> f32 {
    let magnitude = u32::from(x & 0x7fff) << 13;
    // 2^112: what the exponents' biases differ by.
    let scaled = f32::from_bits(magnitude) * f32::from_bits(0x7780_0000);
    let special = f32::from_bits(magnitude | 0x7f80_0000);
    let y = if magnitude >= 0x0f80_0000 { special } else { scaled };
    f32::from_bits(y.to_bits() | (u32::from(x & 0x8000) << 16))
}

/// The nearest f16, ties to even; overflow gives infinity, NaN stays NaN.
#[inline(always)]
pub(crate) fn narrow_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = f32::from_bits(bits & 0x7fff_ffff);
    // Normal: round the mantissa to 10 bits in place.
    let m = magnitude.to_bits();
    let normal = (m.wrapping_add(0xfff + ((m >> 13) & 1)).wrapping_sub(112 << 23) >> 13) as u16;
    // Denormal: adding 2^-1 aligns the last place of the sum with 2^-24.
    let denormal = ((magnitude + 0.5).to_bits().wrapping_sub(0.5f32.to_bits())) as u16;
    let y = if magnitude < 6.103_515_6e-5 { denormal } else { normal };
    let y = if magnitude >= 65520.0 { 0x7c00 } else { y };
    let y = if x.is_nan() { 0x7e00 | ((bits >> 13) & 0x1ff) as u16 } else { y };
    sign | y
}

/// The loop that reads elements of a dtype into wider cells, for those that have no cells of their own.
pub(crate) fn load(isa: Isa, dtype: DType) -> Option<Kernel> {
    match dtype {
        DType::BF16 => Some(map1_kernel::<u16, f32, LoadBf16>(isa)),
        DType::F16 => Some(map1_kernel::<u16, f32, LoadF16>(isa)),
        DType::U8 => Some(map1_kernel::<u8, i32, Cast>(isa)),
        DType::I8 => Some(map1_kernel::<i8, i32, Cast>(isa)),
        DType::U16 => Some(map1_kernel::<u16, i32, Cast>(isa)),
        DType::I16 => Some(map1_kernel::<i16, i32, Cast>(isa)),
        _ => None,
    }
}

/// The loop that rounds f32 cells to elements of a 16-bit float type.
pub(crate) fn store_half(isa: Isa, dtype: DType) -> Kernel {
    match dtype {
        DType::BF16 => map1_kernel::<f32, u16, StoreBf16>(isa),
        _ => map1_kernel::<f32, u16, StoreF16>(isa),
    }
}

/// The loop that rounds f32 cells to a 16-bit float type and back.
pub(crate) fn round_half(isa: Isa, dtype: DType) -> Kernel {
    match dtype {
        DType::BF16 => map1_kernel::<f32, f32, RoundBf16>(isa),
        _ => map1_kernel::<f32, f32, RoundF16>(isa),
    }
}

macro_rules! float_folds {
    ($($t:ident),*) => {$(
        impl Fold<$t> for AddF {
            const IDENTITY: $t = 0.0;
        }
        impl Fold<$t> for MulF {
            const IDENTITY: $t = 1.0;
        }
        impl Fold<$t> for MaxF {
            const IDENTITY: $t = $t::NEG_INFINITY;
        }
        impl Fold<$t> for MinF {
            const IDENTITY: $t = $t::INFINITY;
        }
    )*};
}
float_folds!(f32, f64);
/// Of positions: the first index that is out of range.
impl Fold<i32> for MinI {
    const IDENTITY: i32 = i32::MAX;
}

/// The loops of a reduction; `None` when row programs leave it to the plain kernels.
pub(crate) fn fold(isa: Isa, kind: Reducer, cell: Cell) -> Option<FoldKernels> {
    match (cell, kind) {
        (Cell::F32, Reducer::Sum) => Some(fold_kernels::<f32, AddF>(isa)),
        (Cell::F32, Reducer::Product) => Some(fold_kernels::<f32, MulF>(isa)),
        (Cell::F32, Reducer::Max) => Some(fold_kernels::<f32, MaxF>(isa)),
        (Cell::F32, Reducer::Min) => Some(fold_kernels::<f32, MinF>(isa)),
        (Cell::F64, Reducer::Sum) => Some(fold_kernels::<f64, AddF>(isa)),
        (Cell::F64, Reducer::Product) => Some(fold_kernels::<f64, MulF>(isa)),
        (Cell::F64, Reducer::Max) => Some(fold_kernels::<f64, MaxF>(isa)),
        (Cell::F64, Reducer::Min) => Some(fold_kernels::<f64, MinF>(isa)),
        (Cell::I32, Reducer::Min) => Some(fold_kernels::<i32, MinI>(isa)),
        _ => None,
    }
}

/// Writes `first`, `first + step`, … as elements of `dtype` held in cells, for `iota`.
///
/// # Safety
///
/// `out` is good for `n` cells.
pub(crate) unsafe fn count(dtype: DType, first: usize, step: usize, out: *mut u8, n: usize) {
    macro_rules! write {
        ($t:ty, |$value:ident| $element:expr) => {
            for i in 0..n {
                let $value = first + i * step;
                // SAFETY: passed on to the caller: i < n.
                unsafe { out.cast::<$t>().add(i).write_unaligned($element) };
            }
        };
    }
    match dtype {
        DType::F32 => write!(f32, |value| value as f32),
        DType::BF16 => write!(f32, |value| bf16::from_f32(value as f32).to_f32()),
        DType::F16 => write!(f32, |value| f16::from_f32(value as f32).to_f32()),
        DType::F64 => write!(f64, |value| value as f64),
        DType::I32 | DType::U32 => write!(u32, |value| value as u32),
        _ => write!(u64, |value| value as u64),
    }
}
