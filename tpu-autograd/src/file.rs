//! Checkpoints: named tensors and text in a safetensors file.
//!
//! Saving is atomic: the file is written under another name in the same folder, flushed to the disk, and renamed. A save
//! that is killed leaves the previous file as it was. Loading trusts nothing: a damaged or foreign file is an error that
//! names file and tensor, and nothing is changed unless everything fits.

use crate::nn::Module;
use crate::optim::Optimizer;
use safetensors::{Dtype, SafeTensors};
use serde_json::json;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use tpu_core::{DType, Error, ErrorKind, Result, Tensor, ensure};

/// Tensors by name and text by key, as a safetensors file holds them.
///
/// ```
/// use tpu_autograd::file::Checkpoint;
/// use tpu_core::Tensor;
/// let path = std::env::temp_dir().join(format!("doc-{}.safetensors", std::process::id()));
/// let mut checkpoint = Checkpoint::default();
/// checkpoint.tensors.insert("w".into(), Tensor::from_slice(&[1.0f32, 2.0])?);
/// checkpoint.text.insert("step".into(), "7".into());
/// checkpoint.save(&path)?;
/// let loaded = Checkpoint::load(&path)?;
/// assert_eq!(loaded.tensors["w"].to_vec::<f32>()?, [1.0, 2.0]);
/// assert_eq!(loaded.text["step"], "7");
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Checkpoint {
    /// Tensors by name.
    pub tensors: BTreeMap<String, Tensor>,
    /// Text by key: step, seed, settings.
    pub text: BTreeMap<String, String>,
}

/// What names of optimizer state start with in a training checkpoint.
const OPTIMIZER: &str = "optimizer.";

impl Checkpoint {
    /// The parameters and buffers of a model and the state of its optimizer. PyTorch's `state_dict` of both.
    ///
    /// ```
    /// use tpu_autograd::file::Checkpoint;
    /// use tpu_autograd::nn::{Linear, Module};
    /// use tpu_autograd::optim::{Sgd, SgdOptions};
    /// use tpu_core::DType;
    /// let model = Linear::new(4, 2, true, DType::F32, &tpu_ops::Generator::new(0))?;
    /// let optimizer = Sgd::new(model.named_parameters(), SgdOptions::default())?;
    /// let checkpoint = Checkpoint::of(&model, Some(&optimizer))?;
    /// assert_eq!(checkpoint.tensors.keys().collect::<Vec<_>>(), ["bias", "optimizer.step", "weight"]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[doc(alias = "state_dict")]
    pub fn of(model: &(impl Module + ?Sized), optimizer: Option<&dyn Optimizer>) -> Result<Self> {
        let mut checkpoint = Self::default();
        for (name, param) in model.named_state() {
            checkpoint.tensors.insert(name, param.value().detach());
        }
        if let Some(optimizer) = optimizer {
            for (name, tensor) in optimizer.state()? {
                checkpoint.tensors.insert(format!("{OPTIMIZER}{name}"), tensor);
            }
        }
        Ok(checkpoint)
    }

    /// Writes the file, or leaves what was there. Waits for the values. The same content gives the same bytes.
    ///
    /// If a step failed while running, and neither a read nor [`Optimizer::step`] has told of it yet, this is that step's error,
    /// and nothing is written. A checkpoint made [of](Self::of) the model from then on has what was before that step.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let io = |error: std::io::Error| Error::io("save", path, &error);
        // A file without tensors could not be read back.
        ensure!(!self.tensors.is_empty(), Value, "save", "requires at least one tensor, got none");
        let mut tensors = Vec::with_capacity(self.tensors.len());
        for (name, tensor) in &self.tensors {
            // Errors of the computation show here, before anything is written.
            tensor.wait()?;
            let dtype = file_dtype(tensor.dtype()).ok_or_else(|| {
                let message = format!("requires dtypes that safetensors has, got {} for {name}", tensor.ty());
                Error::new(ErrorKind::DType, "save", message)
            })?;
            tensors.push((name.as_str(), dtype, tensor));
        }
        // Widest first, so that every tensor is aligned in the file.
        tensors.sort_by_key(|&(name, dtype, _)| (Reverse(dtype), name));
        let header = header(&tensors, &self.text)?;
        let temporary = temporary_beside(path);
        let remove = Remove(&temporary);
        let mut file = BufWriter::new(File::create_new(&temporary).map_err(io)?);
        file.write_all(&header).map_err(io)?;
        for (_, _, tensor) in tensors {
            file.write_all(&tensor.to_bytes()?).map_err(io)?;
        }
        file.flush().map_err(io)?;
        file.get_ref().sync_all().map_err(io)?;
        fs::rename(&temporary, path).map_err(io)?;
        std::mem::forget(remove);
        // The rename itself is on the disk once the folder is. Some file systems cannot sync folders.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let Ok(folder) = File::open(folder) {
            let _ = folder.sync_all();
        }
        Ok(())
    }

    /// Reads a file. Tensors go to the [current device](tpu_core::Device::current).
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let damaged = |what: String| {
            Error::new(
                ErrorKind::Format,
                "load",
                format!("requires a whole safetensors file, got {}: {what}", path.display()),
            )
        };
        let bytes = read(path)?;
        let (_, metadata) = SafeTensors::read_metadata(&bytes).map_err(|error| damaged(error.to_string()))?;
        let file = SafeTensors::deserialize(&bytes).map_err(|error| damaged(error.to_string()))?;
        let mut checkpoint = Self::default();
        for (name, view) in file.iter() {
            let dtype = core_dtype(view.dtype()).ok_or_else(|| {
                damaged(format!("tensor {name} has the dtype {:?}, which is none here", view.dtype()))
            })?;
            let tensor = Tensor::from_bytes(dtype, view.shape(), view.data())
                .map_err(|error| damaged(format!("tensor {name}: {error}")))?;
            checkpoint.tensors.insert(name.to_owned(), tensor);
        }
        checkpoint.text.extend(metadata.metadata().clone().unwrap_or_default());
        Ok(checkpoint)
    }

    /// Gives the parameters and buffers of a model, and its optimizer, the values of this checkpoint. Errors, and changes nothing,
    /// unless there is a tensor of the right type for each of them and the state is one of this optimizer. Other tensors
    /// are errors too: they belong to another model.
    ///
    /// ```
    /// use tpu_autograd::file::Checkpoint;
    /// use tpu_autograd::nn::Linear;
    /// use tpu_core::DType;
    /// let [trained, fresh] = [0, 1].map(|seed| Linear::new(4, 2, true, DType::F32, &tpu_ops::Generator::new(seed)));
    /// let (trained, fresh) = (trained?, fresh?);
    /// Checkpoint::of(&trained, None)?.restore(&fresh, None)?;
    /// assert_eq!(fresh.weight.value().to_vec::<f32>()?, trained.weight.value().to_vec::<f32>()?);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[doc(alias = "load_state_dict")]
    pub fn restore(&self, model: &(impl Module + ?Sized), optimizer: Option<&mut dyn Optimizer>) -> Result<()> {
        let bad = |what: String| Error::new(ErrorKind::Format, "restore", what);
        let params = model.named_state();
        let mut values = Vec::with_capacity(params.len());
        for (name, param) in &params {
            let tensor = self.tensors.get(name);
            let tensor =
                tensor.ok_or_else(|| bad(format!("requires a checkpoint of this model, got none with {name}")))?;
            let (shape, dtype) = (param.shape(), param.dtype());
            if *tensor.shape() != shape || tensor.dtype() != dtype {
                return Err(bad(format!("requires {name} to be {dtype}{shape}, got {}", tensor.ty())));
            }
            values.push(tensor);
        }
        let known = |name: &str| name.starts_with(OPTIMIZER) || params.iter().any(|(param, _)| param == name);
        if let Some(other) = self.tensors.keys().find(|name| !known(name)) {
            return Err(bad(format!("requires a checkpoint of this model, got one with {other}")));
        }
        if let Some(optimizer) = optimizer {
            let own =
                |(name, tensor): (&String, &Tensor)| Some((name.strip_prefix(OPTIMIZER)?.to_owned(), tensor.clone()));
            optimizer.load_state(&self.tensors.iter().filter_map(own).collect())?;
        }
        // Types fit: nothing below can fail.
        params.iter().zip(values).try_for_each(|((_, param), value)| param.set(value.clone()))
    }
}

/// The whole file; a size that memory cannot hold is an error.
fn read(path: &Path) -> Result<Vec<u8>> {
    let io = |error: std::io::Error| Error::io("load", path, &error);
    let mut file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    let mut bytes = Vec::new();
    let room = usize::try_from(length).ok().and_then(|length| bytes.try_reserve_exact(length).ok());
    if room.is_none() {
        let message = format!("of {}, {length} bytes, does not fit into memory", path.display());
        return Err(Error::new(ErrorKind::OutOfMemory, "load", message));
    }
    file.read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

/// A name in the same folder that no other save uses.
fn temporary_beside(path: &Path) -> PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{}.partial", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    path.with_file_name(name)
}

/// Removes the file of a save that did not come to its end.
struct Remove<'a>(&'a Path);

impl Drop for Remove<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0);
    }
}

/// What no tensor can be named: the header keeps its text there.
const TEXT: &str = "__metadata__";

/// Readers refuse a longer header.
const LONGEST: usize = 100_000_000;

/// The start of a safetensors file: the length of the header and the header, which says what follows.
///
/// Not by the crate that reads it, which writes text in the order of a hash table, another one each time.
fn header(tensors: &[(&str, Dtype, &Tensor)], text: &BTreeMap<String, String>) -> Result<Vec<u8>> {
    let mut entries = BTreeMap::new();
    if !text.is_empty() {
        entries.insert(TEXT, json!(text).to_string());
    }
    let mut end = 0usize;
    for &(name, dtype, tensor) in tensors {
        ensure!(
            name != TEXT,
            Value,
            "save",
            "requires another name for a tensor than {TEXT}, which is that of the text"
        );
        let (start, shape) = (end, json!(tensor.sizes()));
        end = start.saturating_add(tensor.ty().bytes().unwrap_or(usize::MAX));
        entries.insert(name, format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}"#));
    }
    let entries: Vec<String> = entries.iter().map(|(name, entry)| format!("{}:{entry}", json!(name))).collect();
    let mut header = format!("{{{}}}", entries.join(",")).into_bytes();
    // Data starts at a multiple of eight.
    header.resize(header.len().next_multiple_of(8), b' ');
    let length = header.len();
    ensure!(length <= LONGEST, Value, "save", "requires names and text of at most {LONGEST} bytes, got {length}");
    Ok((length as u64).to_le_bytes().into_iter().chain(header).collect())
}

macro_rules! dtypes {
    ($($core:ident = $file:ident),* $(,)?) => {
        fn core_dtype(dtype: Dtype) -> Option<DType> {
            match dtype {
                $(Dtype::$file => Some(DType::$core),)*
                _ => None,
            }
        }
        fn file_dtype(dtype: DType) -> Option<Dtype> {
            match dtype {
                $(DType::$core => Some(Dtype::$file),)*
                _ => None,
            }
        }
    };
}
dtypes! {
    Bool = BOOL, U8 = U8, U16 = U16, U32 = U32, U64 = U64, I8 = I8, I16 = I16, I32 = I32, I64 = I64,
    F16 = F16, BF16 = BF16, F32 = F32, F64 = F64, F8E4M3FN = F8_E4M3, F8E5M2 = F8_E5M2, Complex64 = C64,
}
