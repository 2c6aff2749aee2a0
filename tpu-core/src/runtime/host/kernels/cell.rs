//! Elements as the kernels compute with them.
//!
//! A [`Cell`] is an element as it lies in memory. It is widened before arithmetic and narrowed after: the 16- and 8-bit
//! floats compute in `f32`, everything else as itself. Bools are stored as bytes, so they are the byte type [`Flag`].

use super::wide::Wide;
use crate::{Complex64, F8E4M3FN, F8E5M2};
use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

/// A truth value as it lies in memory: 0 is false, everything else true; kernels write 0 and 1.
#[derive(Clone, Copy, Default, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct Flag(u8);

impl Flag {
    /// The stored form.
    pub(super) const fn new(value: bool) -> Self {
        Self(value as u8)
    }

    /// The value.
    pub(super) const fn get(self) -> bool {
        self.0 != 0
    }
}

impl PartialEq for Flag {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

/// An element in memory.
pub(super) trait Cell: Pod + Send + Sync + Default + PartialEq {
    /// What it computes as.
    type Wide: Wide;

    /// The same value.
    fn widen(self) -> Self::Wide;

    /// Rounded to nearest.
    fn narrow(wide: Self::Wide) -> Self;

    /// The number `index`, rounded or wrapped.
    fn from_index(index: usize) -> Self;
}

macro_rules! cells {
    (as themselves: $($t:ty: |$i:ident| $from_index:expr;)*) => {$(
        impl Cell for $t {
            type Wide = Self;
            fn widen(self) -> Self { self }
            fn narrow(wide: Self) -> Self { wide }
            fn from_index($i: usize) -> Self { $from_index }
        }
    )*};
    (as f32: $($t:ty),*) => {$(
        impl Cell for $t {
            type Wide = f32;
            fn widen(self) -> f32 { self.to_f32() }
            fn narrow(wide: f32) -> Self { Self::from_f32(wide) }
            fn from_index(index: usize) -> Self { Self::from_f32(index as f32) }
        }
    )*};
}
cells! {
    as themselves:
    Flag: |i| Self::new(i != 0);
    u8: |i| i as Self; u16: |i| i as Self; u32: |i| i as Self; u64: |i| i as Self;
    i8: |i| i as Self; i16: |i| i as Self; i32: |i| i as Self; i64: |i| i as Self;
    f32: |i| i as Self; f64: |i| i as Self;
    Complex64: |i| Self::new(i as f32, 0.0);
}
cells! { as f32: f16, bf16, F8E4M3FN, F8E5M2 }

/// Runs `$body` with `$T` standing for the cell type of `$dtype`: the dtypes that all kernels know, those named, or
/// `$otherwise` for the rest.
macro_rules! with_cell {
    ($dtype:expr, $T:ident => $body:expr, { $($named:ident: $cell:ty),+ }, $($rest:ident)|+ => $otherwise:expr) => {{
        macro_rules! arm {
            ($t:ty) => {{
                type $T = $t;
                $body
            }};
        }
        use $crate::DType as D;
        match $dtype {
            D::Bool => arm!($crate::runtime::host::kernels::cell::Flag),
            D::U8 => arm!(u8),
            D::U16 => arm!(u16),
            D::U32 => arm!(u32),
            D::U64 => arm!(u64),
            D::I8 => arm!(i8),
            D::I16 => arm!(i16),
            D::I32 => arm!(i32),
            D::I64 => arm!(i64),
            D::F16 => arm!(half::f16),
            D::BF16 => arm!(half::bf16),
            D::F32 => arm!(f32),
            D::F64 => arm!(f64),
            $(D::$named => arm!($cell),)+
            $(D::$rest)|+ => $otherwise,
        }
    }};
}
pub(super) use with_cell;

/// [`with_cell`] for dtypes with arithmetic: the 8-bit floats have none.
macro_rules! with_number {
    ($dtype:expr, $T:ident => $body:expr, $otherwise:expr) => {
        $crate::runtime::host::kernels::cell::with_cell!(
            $dtype, $T => $body, { Complex64: $crate::Complex64 }, F8E4M3FN | F8E5M2 => $otherwise
        )
    };
}
pub(super) use with_number;

/// [`with_cell`] for dtypes with an order: complex numbers have none, the 8-bit floats have.
macro_rules! with_ordered {
    ($dtype:expr, $T:ident => $body:expr, $otherwise:expr) => {
        $crate::runtime::host::kernels::cell::with_cell!(
            $dtype, $T => $body, { F8E4M3FN: $crate::F8E4M3FN, F8E5M2: $crate::F8E5M2 }, Complex64 => $otherwise
        )
    };
}
pub(super) use with_ordered;
