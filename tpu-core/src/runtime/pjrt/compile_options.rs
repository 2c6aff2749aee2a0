//! XLA's `CompileOptionsProto`, written by hand: a handful of fields needs no protoc.

use super::lowered::ProgramOptions;
use super::parallel::Parallel;
use crate::runtime::CompileOptions;

/// Options for one program on a platform. On one device it is one that any device of the client runs.
pub fn encode(platform: &str, options: &ProgramOptions) -> Vec<u8> {
    write(platform, options, Parallel { replicas: options.replicas, ..Parallel::ONE }, false)
}

/// The same for devices that need not be there, where replica or partition `i` is device `i`: without being told so, libtpu
/// ends the process on some collectives with a channel.
pub fn encode_ahead(platform: &str, common: CompileOptions, parallel: Parallel) -> Vec<u8> {
    write(platform, &ProgramOptions { common, ..Default::default() }, parallel, parallel.devices() > 1)
}

fn write(platform: &str, options: &ProgramOptions, parallel: Parallel, assigned: bool) -> Vec<u8> {
    let Parallel { replicas, partitions, shardy } = parallel;
    let mut build = Vec::new();
    // device_ordinal: none chosen.
    number(&mut build, 1, -1);
    // num_replicas, num_partitions
    number(&mut build, 4, replicas as i64);
    number(&mut build, 5, partitions as i64);
    if partitions > 1 {
        // use_spmd_partitioning
        number(&mut build, 6, 1);
    }
    if assigned {
        // device_assignment
        bytes(&mut build, 9, &assignment(replicas, partitions));
    }
    if shardy {
        // use_shardy_partitioner
        number(&mut build, 19, 1);
    }
    let mut all = Vec::new();
    // executable_build_options
    bytes(&mut all, 3, &build);
    if parallel.devices() == 1 {
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

/// XLA's `DeviceAssignmentProto` of devices in order.
fn assignment(replicas: usize, partitions: usize) -> Vec<u8> {
    let mut all = Vec::new();
    // replica_count, computation_count
    number(&mut all, 1, replicas as i64);
    number(&mut all, 2, partitions as i64);
    for partition in 0..partitions {
        let (mut devices, mut computation) = (Vec::new(), Vec::new());
        (0..replicas).for_each(|replica| varint(&mut devices, (replica * partitions + partition) as u64));
        // replica_device_ids of computation_devices
        bytes(&mut computation, 1, &devices);
        bytes(&mut all, 3, &computation);
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

    /// The same of the options that JAX compiles a program of four partitions with, less what has nothing to do with them.
    #[test]
    fn partitions_are_written_as_jax_writes_them() {
        let assignment =
            b"\x4a\x18\x08\x01\x10\x04\x1a\x03\x0a\x01\x00\x1a\x03\x0a\x01\x01\x1a\x03\x0a\x01\x02\x1a\x03\x0a\x01\x03";
        let mut want = vec![0x1a, 0x2e, 0x08];
        want.extend([0xff; 9]);
        want.extend([0x01, 0x20, 0x01, 0x28, 0x04, 0x30, 0x01]);
        want.extend(assignment);
        want.extend([0x98, 0x01, 0x01]);
        let parallel = Parallel { partitions: 4, shardy: true, ..Parallel::ONE };
        assert_eq!(encode_ahead("tpu", CompileOptions::default(), parallel), want);
    }
}
