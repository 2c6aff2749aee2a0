//! Which instruction set the loops use.
//!
//! Every loop has one generic source, instantiated once per level. Levels differ in speed only: loops use no contraction and
//! a fixed order of sums, so results have the same bits on all of them.

use crate::{Result, bail};
use std::fmt;
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
    /// The level that `TPU_HOST_ISA` names, else the best of this machine. Errors with `Value` when it names none, or one
    /// that the machine does not have.
    pub(crate) fn from_env() -> Result<Self> {
        match std::env::var_os("TPU_HOST_ISA") {
            Some(name) => Self::named(&name.to_string_lossy()),
            None => Ok(Self::available()),
        }
    }

    /// The same for kernels that no device's level reaches. A name that is not good has been refused by the device.
    pub(crate) fn of_process() -> Self {
        static LEVEL: OnceLock<Isa> = OnceLock::new();
        *LEVEL.get_or_init(|| Self::from_env().unwrap_or_else(|_| Self::available()))
    }

    /// The level of this name, if this machine has it.
    pub(crate) fn named(name: &str) -> Result<Self> {
        let best = Self::available();
        match Self::from_name(name) {
            Some(level) if level <= best => Ok(level),
            Some(level) => bail!(Value, "host", "requires a machine with {level}, got TPU_HOST_ISA={name} and {best}"),
            None => bail!(Value, "host", "requires portable, avx2 or avx512 in TPU_HOST_ISA, got {name:?}"),
        }
    }

    /// The level of this name.
    fn from_name(name: &str) -> Option<Self> {
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

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_level_is_chosen_by_its_name_and_anything_else_is_an_error_that_says_what_there_is() {
        for level in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
            match Isa::named(&level.to_string()) {
                Ok(chosen) => assert_eq!(chosen, level),
                Err(error) => {
                    assert!(level > Isa::available() && error.kind() == ErrorKind::Value, "{error}");
                    assert!(error.message().contains(&Isa::available().to_string()), "{error}");
                }
            }
        }
        for name in ["", "AVX2", "sse4"] {
            let error = Isa::named(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Value);
            assert!(error.message().contains("portable, avx2 or avx512"), "{error}");
        }
    }
}
