//! Checkpoint files from damaged or foreign hands: loading them is an error or gives what the file says, and never takes
//! memory beyond what the file's size explains.

use crate::bytes::Bytes;
use crate::driver::Target;
use crate::{Outcome, check};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use tpu_autograd::file::Checkpoint;
use tpu_autograd::nn::{Linear, Module};
use tpu_core::{DType, ErrorKind, Tensor};
use tpu_ops::Generator;

/// The target.
pub const TARGET: Target = Target { name: "safetensors", longest: 200, run };

/// Address space that loading a file of a few hundred bytes may take: threads and pools, but no tensor that is not there.
const ROOM: u64 = 1 << 30;

fn run(mut bytes: Bytes<'_>) -> Outcome {
    let file = Temporary::new();
    let content = match bytes.below(3) {
        0 => damaged(&mut bytes)?,
        1 => written(&mut bytes),
        _ => bytes.rest().to_vec(),
    };
    std::fs::write(&file.0, &content).map_err(|error| error.to_string())?;
    let before = address_space();
    let loaded = Checkpoint::load(&file.0);
    let grown = address_space().saturating_sub(before);
    check!(grown < ROOM, "loading {} bytes took {grown} bytes of address space", content.len());
    match loaded {
        Err(error) => {
            check!(error.kind() == ErrorKind::Format, "must be an error of the format, is: {error}");
        }
        Ok(checkpoint) => {
            let data: usize = checkpoint.tensors.values().map(|tensor| tensor.ty().bytes().unwrap_or(usize::MAX)).sum();
            check!(data <= content.len(), "{} bytes cannot hold tensors of {data}", content.len());
            if checkpoint.tensors.is_empty() {
                check!(checkpoint.save(&file.0).is_err(), "a checkpoint without tensors must not be saved");
            } else {
                same_after_saving(&checkpoint, &file.0)?;
            }
            restore(&checkpoint)?;
        }
    }
    Ok(())
}

/// A valid file with some bytes changed, cut out, doubled or cut off.
fn damaged(bytes: &mut Bytes<'_>) -> Result<Vec<u8>, String> {
    let mut content = valid()?.to_vec();
    for _ in 0..1 + bytes.below(6) {
        if content.is_empty() {
            break;
        }
        // Mostly in the header.
        let reach = if bytes.one_in(4) { content.len() } else { content.len().min(200) };
        let at = bytes.below(reach);
        match bytes.below(7) {
            0 => content[at] = bytes.byte(),
            1 => content[at] ^= 1 << bytes.below(8),
            2 => content.truncate(at),
            3 => drop(content.drain(at..(at + 1 + bytes.below(9)).min(content.len()))),
            4 => content.insert(at, b"0123456789[]{},:\"-e."[bytes.below(20)]),
            5 => content.splice(0..content.len().min(8), bytes.word().to_le_bytes()).for_each(drop),
            _ => content.extend(std::iter::repeat_n(0, bytes.below(40))),
        }
    }
    Ok(content)
}

/// A header made of plausible parts, with numbers that overflow at times.
fn written(bytes: &mut Bytes<'_>) -> Vec<u8> {
    const NUMBERS: [&str; 12] = [
        "0",
        "1",
        "2",
        "4",
        "8",
        "16",
        "-1",
        "1.5",
        "4294967296",
        "9223372036854775807",
        "18446744073709551615",
        "1e30",
    ];
    let mut header = String::from("{");
    for at in 0..bytes.below(4) {
        let dtype = bytes.pick(&["F32", "U8", "BOOL", "I64", "F8_E4M3", "C64", "F4", "F64", "X"]);
        let shape: Vec<&str> = (0..bytes.below(4)).map(|_| *bytes.pick(&NUMBERS)).collect();
        let (low, high) = (bytes.pick(&NUMBERS), bytes.pick(&NUMBERS));
        let name = bytes.pick(&["weight", "bias", "a", "__metadata__"]);
        let comma = if at > 0 { "," } else { "" };
        header += &format!(
            "{comma}\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":[{}],\"data_offsets\":[{low},{high}]}}",
            shape.join(",")
        );
    }
    header.push('}');
    let length = if bytes.one_in(6) { bytes.word() } else { header.len() as u64 };
    let mut content = length.to_le_bytes().to_vec();
    content.extend(header.bytes());
    content.extend(std::iter::repeat_n(bytes.byte(), bytes.below(40)));
    content
}

/// A checkpoint as we write it.
fn valid() -> Result<&'static [u8], String> {
    static VALID: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let made = VALID.get_or_init(|| {
        let make = || {
            let file = Temporary::new();
            let mut checkpoint = Checkpoint::of(&model()?, None)?;
            checkpoint.tensors.insert("optimizer.step".into(), Tensor::scalar(3i64)?);
            checkpoint.text.insert("step".into(), "3".into());
            checkpoint.save(&file.0)?;
            std::fs::read(&file.0).map_err(|error| tpu_core::Error::io("read", &file.0, &error))
        };
        make().map_err(|error: tpu_core::Error| error.to_string())
    });
    made.as_deref().map_err(Clone::clone)
}

fn model() -> tpu_core::Result<Linear> {
    Linear::new(2, 3, true, DType::F32, &Generator::new(1))
}

/// What was loaded, saved and loaded again, is the same.
fn same_after_saving(checkpoint: &Checkpoint, path: &Path) -> Outcome {
    let again = checkpoint.save(path).and_then(|()| Checkpoint::load(path)).map_err(|error| error.to_string())?;
    check!(again.text == checkpoint.text, "text must be {:?}, is {:?}", checkpoint.text, again.text);
    check!(again.tensors.len() == checkpoint.tensors.len(), "tensors were lost");
    for (name, tensor) in &checkpoint.tensors {
        let other = again.tensors.get(name).ok_or_else(|| format!("tensor {name} was lost"))?;
        let same = other.ty() == tensor.ty() && other.to_bytes().ok() == tensor.to_bytes().ok();
        check!(same, "tensor {name} must be {tensor}, is {other}");
    }
    Ok(())
}

/// A model takes all values of a checkpoint or none.
fn restore(checkpoint: &Checkpoint) -> Outcome {
    let model = model().map_err(|error| error.to_string())?;
    let values =
        || -> Vec<Option<Vec<u8>>> { model.parameters().iter().map(|param| param.value().to_bytes().ok()).collect() };
    let before = values();
    match checkpoint.restore(&model, None) {
        Ok(()) => {
            let given = ["weight", "bias"].map(|name| checkpoint.tensors.get(name).and_then(|t| t.to_bytes().ok()));
            check!(values() == given, "the model must have the checkpoint's values");
        }
        Err(_) => check!(values() == before, "a checkpoint of another model must change nothing"),
    }
    Ok(())
}

/// The most address space that this process has had, in bytes (Linux; elsewhere 0).
fn address_space() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// A file that goes when it is no longer used.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("fuzz-{}-{}.safetensors", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // It may never have been written.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_are_errors_and_whole_ones_come_back() {
        crate::driver::test(TARGET, 1, 300).unwrap();
    }
}
