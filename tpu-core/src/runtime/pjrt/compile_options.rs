//! XLA's `CompileOptionsProto`, written by hand: a handful of fields needs no protoc.

use super::lowered::ProgramOptions;

/// Options for one program on a platform. On one device it is one that any device of the client runs.
pub fn encode(platform: &str, options: &ProgramOptions) -> Vec<u8> {
    let replicas = options.replicas;
    let mut build = Vec::new();
    // device_ordinal: none chosen.
    number(&mut build, 1, -1);
    // num_replicas, num_partitions
    number(&mut build, 4, replicas as i64);
    number(&mut build, 5, 1);
    let mut all = Vec::new();
    // executable_build_options
    bytes(&mut all, 3, &build);
    if replicas == 1 {
        // compile_portable_executable: the run says which device.
        number(&mut all, 4, 1);
    }
    // Keeps XLA from leaving 16-bit floats in 32 bits between ops.
    let strict = options.common.strict_rounding.then_some(("xla_allow_excess_precision", "False"));
    let others = options.overrides.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    // Otherwise XLA takes the larger of a number and NaN for the number.
    let with_nan = (platform == "cpu").then_some(("xla_cpu_enable_fast_min_max", "False"));
    for (name, text) in strict.into_iter().chain(with_nan).chain(others) {
        // env_option_overrides
        let (mut value, mut entry) = (Vec::new(), Vec::new());
        bytes(&mut value, 1, text.as_bytes());
        bytes(&mut entry, 1, name.as_bytes());
        bytes(&mut entry, 2, &value);
        bytes(&mut all, 7, &entry);
    }
    all
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(out: &mut Vec<u8>, field: u64, value: i64) {
    varint(out, field << 3);
    varint(out, value as u64);
}

fn bytes(out: &mut Vec<u8>, field: u64, content: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::CompileOptions;

    /// The tags and values as JAX 0.10.2 writes them: `CompileOptions().SerializeAsString()` with the same settings,
    /// less the debug options, which it always writes.
    #[test]
    fn options_are_written_as_jax_writes_them() {
        let mut want = vec![0x1a, 0x0f, 0x08];
        want.extend([0xff; 9]);
        want.extend([0x01, 0x20, 0x01, 0x28, 0x01, 0x20, 0x01]);
        assert_eq!(encode("tpu", &ProgramOptions::default()), want);
        want.extend(b"\x3a\x25\x0a\x1axla_allow_excess_precision\x12\x07\x0a\x05False");
        let common = CompileOptions { strict_rounding: true };
        let mut options = ProgramOptions { common, ..ProgramOptions::default() };
        assert_eq!(encode("tpu", &options), want);
        want.extend(b"\x3a\x0b\x0a\x04name\x12\x03\x0a\x011");
        options.overrides.push(("name".into(), "1".into()));
        assert_eq!(encode("tpu", &options), want);
        // Of four replicas, 4 in place of 1, and the executable is bound to its devices.
        want[14] = 4;
        want.drain(16..18);
        options.replicas = 4;
        assert_eq!(encode("tpu", &options), want);
        let mut want = encode("tpu", &ProgramOptions::default());
        want.extend(b"\x3a\x26\x0a\x1bxla_cpu_enable_fast_min_max\x12\x07\x0a\x05False");
        assert_eq!(encode("cpu", &ProgramOptions::default()), want);
    }
}
