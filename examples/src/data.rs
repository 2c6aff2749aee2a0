//! Text to learn, as bytes: where it comes from, and the batches drawn from it.

use std::path::{Path, PathBuf};
use tpu_core::random::random_group;
use tpu_core::{Error, ErrorKind, Result, Tensor};

/// A text whose last tenth is held out: the model never trains on it.
#[derive(Clone, Debug)]
pub struct Corpus {
    train: Vec<u8>,
    held_out: Vec<u8>,
}

impl Corpus {
    /// Splits a text. Errors unless both parts hold at least one window of `context + 1` bytes.
    pub fn new(mut text: Vec<u8>, context: usize) -> Result<Self> {
        let held_out = text.split_off(text.len() - text.len() / 10);
        if held_out.len() <= context {
            let message = format!(
                "requires a text of more than {} bytes, got {}",
                10 * (context + 1),
                text.len() + held_out.len()
            );
            return Err(Error::new(ErrorKind::Value, "corpus", message));
        }
        Ok(Self { train: text, held_out })
    }

    /// Bytes to train on and bytes held out.
    pub fn sizes(&self) -> (usize, usize) {
        (self.train.len(), self.held_out.len())
    }

    /// The batch of a step: u8 `[batch, context + 1]`, windows at random places. It depends on nothing but `seed` and
    /// `step`, so a resumed run goes on with the batches that it would have had.
    pub fn batch(&self, seed: u64, step: u64, batch: usize, context: usize) -> Result<Tensor> {
        let places = (self.train.len() - context) as u64;
        let groups = batch.div_ceil(4) as u64;
        let words = (0..groups).flat_map(|group| random_group(seed, step * groups, group));
        // Lemire's reduction: a 32-bit word times the number of places, the high half taken.
        let starts = words.take(batch).map(|word| ((word as u64 * places) >> 32) as usize);
        windows(&self.train, starts, context)
    }

    /// Batches that cover the held-out text in evenly spaced windows: at most `most` of them, all that fit if `most` is 0.
    pub fn held_out(&self, most: usize, batch: usize, context: usize) -> Result<Vec<Tensor>> {
        let fitting = (self.held_out.len() - 1) / context;
        let wanted = if most == 0 { fitting } else { fitting.min(most * batch) };
        // Whole batches only, as another size would be another program; a small text repeats its first windows.
        let count = wanted.next_multiple_of(batch);
        let starts: Vec<usize> = (0..count).map(|at| (at % wanted) * fitting / wanted * context).collect();
        starts.chunks(batch).map(|starts| windows(&self.held_out, starts.iter().copied(), context)).collect()
    }
}

fn windows(text: &[u8], starts: impl Iterator<Item = usize>, context: usize) -> Result<Tensor> {
    let mut bytes = Vec::new();
    let mut count = 0;
    for start in starts {
        bytes.extend_from_slice(&text[start..start + context + 1]);
        count += 1;
    }
    Tensor::from_vec(bytes, [count, context + 1])
}

/// The text in a file.
pub fn file(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path)
        .map_err(|error| Error::new(ErrorKind::Io, "text", format!("{} could not be read: {error}", path.display())))
}

/// Shakespeare's plays and poems. Errors, naming the command that fetches them, if they are not there.
pub fn shakespeare() -> Result<Vec<u8>> {
    let path = workspace().join("target/data/shakespeare.txt");
    if !path.exists() {
        let message = format!("requires {}: run `cargo xtask data shakespeare` first", path.display());
        return Err(Error::new(ErrorKind::Io, "text", message));
    }
    file(&path)
}

/// All Rust and Markdown sources of this workspace, one after the other, in order of their names.
pub fn sources() -> Result<Vec<u8>> {
    let mut files = Vec::new();
    let mut folders = vec![workspace()];
    while let Some(folder) = folders.pop() {
        let fail =
            |error| Error::new(ErrorKind::Io, "text", format!("{} could not be read: {error}", folder.display()));
        for entry in std::fs::read_dir(&folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") || name.ends_with(".md") {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut text = Vec::new();
    for path in files {
        text.extend(file(&path)?);
    }
    Ok(text)
}

/// The top folder of the workspace.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus() -> Corpus {
        Corpus::new((0..2000u32).map(|at| (at % 251) as u8).collect(), 8).unwrap()
    }

    #[test]
    fn the_last_tenth_is_held_out() {
        assert_eq!(corpus().sizes(), (1800, 200));
        let held_out = corpus().held_out(0, 4, 8).unwrap();
        assert_eq!(held_out.len(), 6);
        assert_eq!(held_out[0].to_vec::<u8>().unwrap()[0], (1800 % 251) as u8);
        assert_eq!(corpus().held_out(1, 4, 8).unwrap().len(), 1);
    }

    #[test]
    fn a_batch_depends_on_seed_and_step_only_and_its_rows_are_windows() {
        let text = corpus();
        let batch = |seed, step| text.batch(seed, step, 5, 8).unwrap().to_vec::<u8>().unwrap();
        assert_eq!(batch(1, 7), batch(1, 7));
        assert_ne!(batch(1, 7), batch(1, 8));
        assert_ne!(batch(1, 7), batch(2, 7));
        for row in batch(3, 0).chunks(9) {
            assert!(row.windows(2).all(|pair| pair[1] as u32 == (pair[0] as u32 + 1) % 251));
        }
    }

    #[test]
    fn a_text_that_is_too_short_is_an_error() {
        let error = Corpus::new(vec![0; 80], 8).unwrap_err();
        assert_eq!(error.to_string(), "corpus requires a text of more than 90 bytes, got 80");
    }

    #[test]
    fn the_sources_hold_this_file() {
        let text = sources().unwrap();
        assert!(String::from_utf8_lossy(&text).contains("fn the_sources_hold_this_file"));
    }
}
