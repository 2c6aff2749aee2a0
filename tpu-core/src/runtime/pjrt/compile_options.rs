//! XLA's `CompileOptionsProto`, written by hand: four fields of it need no protoc.

use crate::runtime::CompileOptions;

/// Options for one program on one device, which any device of the client runs.
pub fn encode(options: CompileOptions) -> Vec<u8> {
    let mut build = Vec::new();
    // device_ordinal: none chosen.
    number(&mut build, 1, -1);
    // num_replicas, num_partitions
    number(&mut build, 4, 1);
    number(&mut build, 5, 1);
    let mut all = Vec::new();
    // executable_build_options
    bytes(&mut all, 3, &build);
    // compile_portable_executable: the run says which device.
    number(&mut all, 4, 1);
    if options.strict_rounding {
        // env_option_overrides: keeps XLA from leaving 16-bit floats in 32 bits between ops.
        let (mut value, mut entry) = (Vec::new(), Vec::new());
        bytes(&mut value, 1, b"False");
        bytes(&mut entry, 1, b"xla_allow_excess_precision");
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

    /// The tags and values as JAX 0.10.2 writes them: `CompileOptions().SerializeAsString()` with the same settings,
    /// less the debug options, which it always writes.
    #[test]
    fn options_are_written_as_jax_writes_them() {
        let mut want = vec![0x1a, 0x0f, 0x08];
        want.extend([0xff; 9]);
        want.extend([0x01, 0x20, 0x01, 0x28, 0x01, 0x20, 0x01]);
        assert_eq!(encode(CompileOptions::default()), want);
        want.extend(b"\x3a\x25\x0a\x1axla_allow_excess_precision\x12\x07\x0a\x05False");
        assert_eq!(encode(CompileOptions { strict_rounding: true }), want);
    }
}
