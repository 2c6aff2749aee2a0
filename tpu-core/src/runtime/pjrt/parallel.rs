//! On how many devices a program runs, and how they share it.

use crate::{Error, ErrorKind, Result, ensure};

/// The devices of a program. Either all run it with values of their own (replicas), or the compiler divides its values
/// among them (partitions).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parallel {
    pub replicas: usize,
    pub partitions: usize,
    /// Partitions are told by the dialect `sdy`, else by `mhlo.sharding`.
    pub shardy: bool,
}

impl Parallel {
    /// One device.
    pub const ONE: Self = Self { replicas: 1, partitions: 1, shardy: false };

    /// What a module says of itself in `mhlo.num_replicas` and `mhlo.num_partitions`, as JAX writes them; one device where
    /// it says nothing. `code` is the module without the contents of strings and without blanks.
    ///
    /// Errors with [`ErrorKind::Unsupported`] if a number is not one of devices.
    pub fn of_module(code: &str) -> Result<Self> {
        let number = |name: &str| {
            let Some((_, behind)) = code.split_once(&format!("{name}=")) else { return Ok(1) };
            let digits = behind.len() - behind.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let number = behind[..digits].parse().ok().filter(|number| (1..=MOST).contains(number));
            number.ok_or_else(|| {
                let given: String = behind.chars().take(16).collect();
                let message = format!("requires a number of devices from 1 to {MOST} in {name}, got {given}");
                Error::new(ErrorKind::Unsupported, "a program", message)
            })
        };
        let (replicas, partitions) = (number("mhlo.num_replicas")?, number("mhlo.num_partitions")?);
        Self::new(replicas, partitions, code.contains("sdy."))
    }

    /// Errors with [`ErrorKind::Unsupported`] for no devices or too many, and for replicas of partitions.
    pub fn new(replicas: usize, partitions: usize, shardy: bool) -> Result<Self> {
        let known = (1..=MOST).contains(&replicas);
        ensure!(known, Unsupported, "a program", "requires from 1 to {MOST} replicas, got {replicas}");
        ensure!(
            replicas == 1 || partitions == 1,
            Unsupported,
            "a program",
            "requires replicas or partitions, got {replicas} replicas of {partitions} partitions"
        );
        Ok(Self { replicas, partitions, shardy })
    }

    /// How many devices there are.
    pub fn devices(&self) -> usize {
        self.replicas * self.partitions
    }
}

/// More devices than any slice of TPUs has.
const MOST: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_says_on_how_many_devices_it_is() {
        let of = |code| Parallel::of_module(code).map(|all| (all.replicas, all.partitions, all.shardy));
        assert_eq!(
            of("module@jit_fattributes{mhlo.num_partitions=4:i32,mhlo.num_replicas=1:i32}{").unwrap(),
            (1, 4, false)
        );
        assert_eq!(of("module{}").unwrap(), (1, 1, false));
        assert_eq!(of("mhlo.num_replicas=8:i32 sdy.mesh@mesh").unwrap(), (8, 1, true));
        for bad in [
            "mhlo.num_replicas=0:",
            "mhlo.num_replicas=-1",
            "mhlo.num_partitions=99999999999999999999",
            "mhlo.num_partitions=x",
        ] {
            assert_eq!(of(bad).unwrap_err().kind(), ErrorKind::Unsupported, "{bad}");
        }
        assert!(
            of("mhlo.num_partitions=2,mhlo.num_replicas=2")
                .unwrap_err()
                .message()
                .contains("2 replicas of 2 partitions")
        );
    }
}
