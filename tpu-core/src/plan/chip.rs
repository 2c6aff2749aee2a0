//! What is known of each generation of TPU and not told by its compiler.

/// A generation of TPU, per device: what the compiler calls a device is a TensorCore up to v4 and from tpu7x on, a chip of
/// one or two in between.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Chip {
    /// What topology names begin with.
    pub name: &'static str,
    /// A small topology of it.
    pub(super) topology: &'static str,
    /// Most bf16 operations per second, as Google's documentation of Cloud TPU gives it (cloud.google.com/tpu/docs/v5e and
    /// the pages beside it, "peak compute per chip").
    pub flops_per_second: f64,
    /// Bytes per second of its memory, from there too.
    pub bytes_per_second: f64,
    /// bf16 operations that its matrix units complete in a cycle: two per multiplier.
    flops_per_cycle: f64,
}

/// Devices per chip, peak of a chip, bandwidth of a chip, matrix units of a device and their side. The clock that follows
/// from these is the published one where there is one: 700, 940 and 1050 MHz for v2, v3 and v4.
const fn chip(
    topology: &'static str,
    name: &'static str,
    devices: f64,
    teraflops: f64,
    gigabytes: f64,
    units: f64,
    side: f64,
) -> Chip {
    Chip {
        name,
        topology,
        flops_per_second: teraflops * 1e12 / devices,
        bytes_per_second: gigabytes * 1e9 / devices,
        flops_per_cycle: 2.0 * units * side * side,
    }
}

/// All generations that libtpu compiles for.
pub(super) const CHIPS: &[Chip] = &[
    chip("v2:2x2", "v2", 2.0, 46.0, 700.0, 1.0, 128.0),
    chip("v3:2x2", "v3", 2.0, 123.0, 900.0, 2.0, 128.0),
    chip("v4:2x2x1", "v4", 2.0, 275.0, 1228.0, 4.0, 128.0),
    chip("v5e:1x1", "v5e", 1.0, 197.0, 819.0, 4.0, 128.0),
    chip("v5p:1x1x1", "v5p", 1.0, 459.0, 2765.0, 8.0, 128.0),
    chip("v6e:1x1", "v6e", 1.0, 918.0, 1640.0, 4.0, 256.0),
    chip("tpu7x:1x1x1", "tpu7x", 2.0, 2307.0, 7380.0, 4.0, 256.0),
];

impl Chip {
    /// The chip of a topology such as `v5e:2x2`.
    pub(super) fn of(topology: &str) -> Option<&'static Self> {
        let name = topology.split(':').next().unwrap_or(topology);
        CHIPS.iter().find(|chip| chip.name == name)
    }

    /// Cycles per second.
    pub fn clock(&self) -> f64 {
        self.flops_per_second / self.flops_per_cycle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jouppi et al., "TPU v4" (ISCA 2023), table 4, and "Ten Lessons" (ISCA 2021), table 1: clocks in MHz.
    #[test]
    fn the_clock_that_follows_from_peak_and_units_is_the_published_one() {
        for (name, megahertz) in [("v2", 700.0), ("v3", 940.0), ("v4", 1050.0)] {
            let clock = Chip::of(&format!("{name}:2x2")).unwrap().clock() / 1e6;
            // Both figures are rounded to three digits.
            assert!((clock / megahertz - 1.0).abs() < 0.005, "{name}: {clock}");
        }
        assert_eq!(Chip::of("v99:1x1"), None);
    }
}
