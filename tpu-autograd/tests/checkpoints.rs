//! Files: what is written is read back, a save that is killed damages nothing, and nothing is taken from a file that does
//! not fit.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use tpu_autograd::file::Checkpoint;
use tpu_autograd::nn::{Linear, Module, Sequential};
use tpu_autograd::optim::{AdamW, AdamWOptions, Optimizer};
use tpu_autograd::{Backward, Param};
use tpu_core::{DType, Error, ErrorKind, Literal, Result, Tensor};
use tpu_ops::Generator;

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tpu-autograd-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn model(seed: u64, width: usize) -> Result<Sequential> {
    let generator = Generator::new(seed);
    let first = Linear::new(3, width, true, DType::F32, &generator)?;
    Ok(Sequential::new().push(first).push(Linear::new(width, 1, false, DType::F32, &generator)?))
}

fn train(model: &Sequential, optimizer: &mut AdamW) -> Result<()> {
    let x = Tensor::from_vec((0..12).map(|v| v as f32 / 7.0).collect(), [4, 3])?;
    optimizer.zero_grad();
    model.forward(&x)?.square()?.mean_all()?.backward()?;
    optimizer.step()
}

fn values(model: &Sequential) -> Result<Vec<Vec<f32>>> {
    model.parameters().iter().map(|param| param.value().to_vec()).collect()
}

#[test]
fn every_dtype_is_written_and_read() -> Result<()> {
    let folder = Folder::new("dtypes");
    let mut checkpoint = Checkpoint::default();
    for dtype in DType::ALL {
        let tensor = Tensor::constant(Literal::splat(dtype, [2, 3], 1))?;
        checkpoint.tensors.insert(dtype.name().into(), tensor);
    }
    checkpoint.tensors.insert("scalar".into(), Tensor::scalar(2.5f64)?);
    checkpoint.tensors.insert("empty".into(), Tensor::zeros([0, 4], DType::F32)?);
    checkpoint.text.insert("note \"quoted\"".into(), "ünï\n".into());
    let path = folder.file("all.safetensors");
    checkpoint.save(&path)?;
    let read = Checkpoint::load(&path)?;
    assert_eq!(read.text, checkpoint.text);
    assert!(read.tensors.keys().eq(checkpoint.tensors.keys()));
    for (name, tensor) in &read.tensors {
        let written = &checkpoint.tensors[name];
        assert_eq!((tensor.ty(), tensor.to_bytes()?), (written.ty(), written.to_bytes()?), "{name}");
    }
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1, "no temporary files stay");
    Ok(())
}

#[test]
fn equal_content_is_equal_bytes() -> Result<()> {
    let folder = Folder::new("bytes");
    let write = |name: &str, order: &mut dyn Iterator<Item = usize>| -> Result<Vec<u8>> {
        let mut checkpoint = Checkpoint::default();
        for number in order {
            let dtype = [DType::F32, DType::BF16, DType::I64][number % 3];
            checkpoint.tensors.insert(format!("w{number}"), Tensor::full([number], number as i64, dtype)?);
            checkpoint.text.insert(format!("key {number}"), format!("value {number}"));
        }
        checkpoint.save(folder.file(name))?;
        Ok(std::fs::read(folder.file(name)).unwrap())
    };
    let forwards = write("forwards", &mut (0..40))?;
    let backwards = write("backwards", &mut (0..40).rev())?;
    assert!(forwards == backwards);
    // By hand from the format's description: length, header in order of keys, padding to eight, data.
    let mut checkpoint = Checkpoint::default();
    checkpoint.tensors.insert("c".into(), Tensor::from_slice(&[1.0f32])?);
    checkpoint.tensors.insert("b".into(), Tensor::from_slice(&[-1i64])?);
    checkpoint.tensors.insert("a".into(), Tensor::from_slice(&[true, false])?);
    checkpoint.text.extend([("z".into(), "1".into()), ("y".into(), "2".into())]);
    checkpoint.save(folder.file("small"))?;
    let header = concat!(
        r#"{"__metadata__":{"y":"2","z":"1"},"a":{"dtype":"BOOL","shape":[2],"data_offsets":[12,14]},"#,
        r#""b":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"c":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}"#,
    );
    let padding = header.len().next_multiple_of(8) - header.len();
    let mut expected = ((header.len() + padding) as u64).to_le_bytes().to_vec();
    expected.extend(header.bytes().chain(std::iter::repeat_n(b' ', padding)));
    expected.extend([[0xFF; 8].as_slice(), &1.0f32.to_le_bytes(), &[1, 0]].concat());
    assert_eq!(std::fs::read(folder.file("small")).unwrap(), expected);
    Ok(())
}

#[test]
fn a_tensor_named_like_the_text_is_an_error() -> Result<()> {
    let folder = Folder::new("name");
    let mut checkpoint = Checkpoint::default();
    checkpoint.tensors.insert("__metadata__".into(), Tensor::scalar(1f32)?);
    let error = checkpoint.save(folder.file("never")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
    assert!(error.message().contains("__metadata__"), "{error}");
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
    Ok(())
}

#[test]
fn training_goes_on_bit_for_bit() -> Result<()> {
    let folder = Folder::new("resume");
    let straight = model(1, 4)?;
    let mut optimizer = AdamW::new(straight.named_parameters(), AdamWOptions::default())?;
    for _ in 0..3 {
        train(&straight, &mut optimizer)?;
    }
    Checkpoint::of(&straight, Some(&optimizer))?.save(folder.file("step3"))?;
    for _ in 0..3 {
        train(&straight, &mut optimizer)?;
    }
    let resumed = model(2, 4)?;
    let mut other = AdamW::new(resumed.named_parameters(), AdamWOptions::default())?;
    Checkpoint::load(folder.file("step3"))?.restore(&resumed, Some(&mut other))?;
    for _ in 0..3 {
        train(&resumed, &mut other)?;
    }
    assert_eq!(values(&straight)?, values(&resumed)?);
    Ok(())
}

#[test]
fn a_checkpoint_of_another_model_changes_nothing() -> Result<()> {
    let folder = Folder::new("foreign");
    let target = model(1, 4)?;
    let before = values(&target)?;
    let refuse = |checkpoint: &Checkpoint, part: &str| -> Result<()> {
        let error = checkpoint.restore(&target, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format);
        assert!(error.message().contains(part), "{error}");
        assert_eq!(values(&target)?, before);
        Ok(())
    };
    let path = folder.file("wide");
    Checkpoint::of(&model(1, 5)?, None)?.save(&path)?;
    refuse(&Checkpoint::load(&path)?, "0.weight")?;
    let good = Checkpoint::of(&target, None)?;
    let mut missing = good.clone();
    missing.tensors.remove("1.weight");
    refuse(&missing, "1.weight")?;
    let mut more = good.clone();
    more.tensors.insert("2.weight".into(), Tensor::scalar(0f32)?);
    refuse(&more, "2.weight")?;
    let mut other = good.clone();
    other.tensors.insert("1.weight".into(), Tensor::zeros([1, 4], DType::F64)?);
    refuse(&other, "float64")?;
    // A state that does not fit the optimizer leaves the parameters alone too.
    let mut optimizer = AdamW::new(target.named_parameters(), AdamWOptions::default())?;
    let error = good.restore(&target, Some(&mut optimizer)).unwrap_err();
    assert!(error.message().contains("step"), "{error}");
    assert_eq!(values(&target)?, before);
    Ok(())
}

#[test]
fn damaged_and_truncated_files_are_named_errors() -> Result<()> {
    let folder = Folder::new("damaged");
    let path = folder.file("good");
    Checkpoint::of(&model(1, 4)?, None)?.save(&path)?;
    let good = std::fs::read(&path).unwrap();
    let damaged = folder.file("bad");
    let load = |bytes: &[u8]| -> Result<Checkpoint> {
        std::fs::write(&damaged, bytes).unwrap();
        Checkpoint::load(&damaged)
    };
    let is_named = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Format);
        assert!(error.message().contains("bad"), "{error}");
    };
    for length in (0..good.len()).step_by(7).chain([good.len() - 1]) {
        is_named(load(&good[..length]).unwrap_err());
    }
    // A header that says it is as large as memory, a little larger than the file, or larger than is sane.
    for length in [u64::MAX, good.len() as u64, 200_000_000] {
        let mut bytes = good.clone();
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        is_named(load(&bytes).unwrap_err());
    }
    // Any changed byte of the header gives an error or another header, never a panic.
    let header = 8 + u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    for at in 8..header {
        let mut bytes = good.clone();
        bytes[at] ^= 0x15;
        let _ = load(&bytes);
    }
    let header = br#"{"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}"#;
    let huge: Vec<u8> = (header.len() as u64).to_le_bytes().iter().chain(header).copied().collect();
    is_named(load(&huge).unwrap_err());
    let header = br#"{"w":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}"#;
    let strange: Vec<u8> = (header.len() as u64).to_le_bytes().iter().chain(header).chain(&[0]).copied().collect();
    let error = load(&strange).unwrap_err();
    assert!(error.message().contains('w') && error.message().contains("F4"), "{error}");
    assert_eq!(Checkpoint::load(folder.file("none")).unwrap_err().kind(), ErrorKind::Io);
    Ok(())
}

#[test]
fn a_value_that_failed_is_not_saved_over_a_good_file() -> Result<()> {
    let folder = Folder::new("failed");
    let path = folder.file("kept");
    let mut checkpoint = Checkpoint::default();
    checkpoint.tensors.insert("w".into(), Tensor::scalar(1f32)?);
    checkpoint.save(&path)?;
    let good = std::fs::read(&path).unwrap();
    let bad = Tensor::from_slice(&[1f32])?.take(&Tensor::from_slice(&[9i64])?, 0)?;
    checkpoint.tensors.insert("w".into(), bad);
    assert_eq!(checkpoint.save(&path).unwrap_err().kind(), ErrorKind::Index);
    assert_eq!(std::fs::read(&path).unwrap(), good);
    assert_eq!(checkpoint.save(folder.file("no/such/folder")).unwrap_err().kind(), ErrorKind::Index);
    checkpoint.tensors.insert("w".into(), Tensor::scalar(1f32)?);
    assert_eq!(checkpoint.save(folder.file("no/such/folder")).unwrap_err().kind(), ErrorKind::Io);
    Ok(())
}

const CHILD: &str = "TPU_AUTOGRAD_TEST_SAVES_TO";

/// Not a test of its own: what the next one runs in another process, saving one checkpoint after another until killed.
#[test]
fn child_that_saves_without_end() -> Result<()> {
    let Ok(path) = std::env::var(CHILD) else { return Ok(()) };
    let param = Param::new(Tensor::zeros([256, 1024], DType::F32)?);
    for step in 0u64.. {
        let mut checkpoint = Checkpoint::default();
        param.set(Tensor::full([256, 1024], step as f32, DType::F32)?)?;
        checkpoint.tensors.insert("w".into(), param.value().detach());
        checkpoint.text.insert("step".into(), step.to_string());
        checkpoint.save(&path)?;
    }
    Ok(())
}

#[test]
fn a_killed_save_leaves_the_previous_file() -> Result<()> {
    let folder = Folder::new("killed");
    let path = folder.file("checkpoint");
    for round in 0..8u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_saves_without_end"])
            .env(CHILD, &path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Once the first file is there, some time later, in the middle of a save or between two.
        while !path.exists() {
            assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_micros(700 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let read = Checkpoint::load(&path)?;
        let step: f32 = read.text["step"].parse().unwrap();
        assert!(read.tensors["w"].to_vec::<f32>()?.iter().all(|&value| value == step));
        std::fs::remove_file(&path).unwrap();
    }
    Ok(())
}
