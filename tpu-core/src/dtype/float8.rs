//! The two 8-bit float types, as opaque bytes; `convert` holds their arithmetic meaning.

use super::convert;
use std::fmt;

macro_rules! float8 {
    ($(#[$doc:meta])* $name:ident, $to:ident, $from:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// The value with these bits.
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// The bits of this value.
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// Rounds to the nearest value, ties to even, as PyTorch's CPU conversion does.
            pub fn from_f32(value: f32) -> Self {
                Self(convert::$from(value))
            }

            /// The exact value.
            pub fn to_f32(self) -> f32 {
                convert::$to(self.0)
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.to_f32().fmt(f)
            }
        }
    };
}

float8! {
    /// An 8-bit float with 4 exponent bits, 3 mantissa bits, one NaN pattern per sign and no infinities (OCP FP8).
    ///
    /// ```
    /// use tpu_core::F8E4M3FN;
    /// assert_eq!(F8E4M3FN::from_f32(448.0).to_f32(), 448.0);
    /// ```
    F8E4M3FN, f8e4m3fn_to_f32, f32_to_f8e4m3fn
}
float8! {
    /// An 8-bit float with 5 exponent bits and 2 mantissa bits (OCP FP8).
    ///
    /// ```
    /// use tpu_core::F8E5M2;
    /// assert_eq!(F8E5M2::from_f32(1.25).to_f32(), 1.25);
    /// ```
    F8E5M2, f8e5m2_to_f32, f32_to_f8e5m2
}
