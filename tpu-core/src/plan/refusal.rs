//! Why a target's compiler does not take a program.

use crate::{Error, ErrorKind};
use std::fmt;

/// Why a program cannot be compiled for a target.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refusal {
    /// The compiler's error; of kind [`ErrorKind::OutOfMemory`] if the program does not fit.
    pub error: Error,
    /// Bytes that it would need, if it does not fit and the compiler says how many.
    pub needed: Option<u64>,
    /// Bytes that there are, as above.
    pub available: Option<u64>,
}

impl Refusal {
    pub(super) fn new(error: Error) -> Self {
        let sizes = (error.kind() == ErrorKind::OutOfMemory).then(|| sizes(error.message())).flatten();
        let (needed, available) = sizes.unzip();
        Self { error, needed, available }
    }

    /// Whether the program would compile for a device with more memory.
    pub fn is_out_of_memory(&self) -> bool {
        self.error.kind() == ErrorKind::OutOfMemory
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(needed), Some(available)) = (self.needed, self.available) {
            let gigabytes = |bytes: u64| bytes as f64 / 1e9;
            return write!(f, "needs {:.2} GB, the device has {:.2} GB", gigabytes(needed), gigabytes(available));
        }
        // What follows the first line explains the compiler's insides.
        f.write_str(self.error.message().lines().next().unwrap_or_default())
    }
}

/// Needed and available bytes of `… Used 24.00G of 15.75G hbm. …` or `… 24.00G exceeds available HBM (15.75G) …`.
fn sizes(message: &str) -> Option<(u64, u64)> {
    let used = || {
        let (needed, rest) = message.split_once("Used ")?.1.split_once(" of ")?;
        Some((bytes(needed)?, bytes(rest)?))
    };
    let exceeds = || {
        let (before, rest) = message.split_once(" exceeds available ")?;
        let available = rest.split_once('(')?.1;
        Some((bytes(before.rsplit([' ', '(', '=']).next()?)?, bytes(available)?))
    };
    used().or_else(exceeds)
}

/// The size that a text begins with: `15.75G…` is in units of 2³⁰.
fn bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = match text[end..].chars().next() {
        Some('K') => 1u64 << 10,
        Some('M') => 1 << 20,
        Some('G') => 1 << 30,
        Some('T') => 1 << 40,
        Some('P') => 1 << 50,
        Some('E') => 1 << 60,
        _ => 1,
    };
    let number: f64 = text[..end].parse().ok()?;
    Some((number * unit as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_and_available_memory_are_read_from_what_compilers_say() {
        let messages = [
            (
                "failed: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 24.00G of 15.75G hbm. Exceeded",
                (24.0, 15.75),
            ),
            ("CompileTimeHbmOom: … 24.00G exceeds available HBM (15.75G)", (24.0, 15.75)),
            ("total memory required for HLO temporaries (2.00T) exceeds available HBM (15.75G).", (2048.0, 15.75)),
        ];
        for (message, (needed, available)) in messages {
            let refusal = Refusal::new(Error::new(ErrorKind::OutOfMemory, "PJRT_Compile", message));
            let bytes = |gigabytes: f64| Some((gigabytes * (1u64 << 30) as f64) as u64);
            assert_eq!((refusal.needed, refusal.available), (bytes(needed), bytes(available)), "{message}");
        }
        for message in ["", "Used of", "Used 1.2.3G of 4G", "exceeds available ()", "x exceeds available HBM (1G)"] {
            let refusal = Refusal::new(Error::new(ErrorKind::OutOfMemory, "PJRT_Compile", message));
            assert_eq!((refusal.needed, refusal.available), (None, None), "{message}");
        }
        // A size in another error says nothing of memory.
        let other = Refusal::new(Error::new(ErrorKind::Value, "PJRT_Compile", messages[0].0));
        assert_eq!(other.needed, None);
    }
}
