//! Which instruction set the loops use.
//!
//! Every loop has one generic source, instantiated once per level. Levels differ in speed only: loops use no contraction and
//! a fixed order of sums, so results have the same bits on all of them.

use std::sync::OnceLock;

/// An instruction-set level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Isa {
    /// What the target guarantees.
    Portable,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Isa {
    /// The best level of this machine, or the lower one that `TPU_HOST_ISA` names.
    pub(crate) fn detect() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| match std::env::var("TPU_HOST_ISA").ok().and_then(|name| Self::from_name(&name)) {
            Some(wanted) => wanted.min(Self::available()),
            None => Self::available(),
        })
    }

    /// The level of this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "portable" => Some(Self::Portable),
            "avx2" => Some(Self::Avx2),
            "avx512" => Some(Self::Avx512),
            _ => None,
        }
    }

    /// The best level that this machine has.
    pub(crate) fn available() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 =
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            match (avx2, avx512) {
                (true, true) => Self::Avx512,
                (true, false) => Self::Avx2,
                _ => Self::Portable,
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Self::Portable
    }
}
