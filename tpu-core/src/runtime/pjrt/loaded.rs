//! Executables that a plugin holds: compiled from text, or loaded from bytes.

use super::api::{self, Api};
use super::client::Client;
use super::sys::{self, Args, Raw};
use crate::{Result, ensure};
use std::sync::Arc;

/// An executable of the plugin that its devices can run, freed when dropped.
pub struct Loaded {
    client: Arc<Client>,
    raw: Raw,
}

// SAFETY: the functions on executables may be called from any thread; the object is freed once, by `drop`.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.client.api.free(sys::LoadedExecutableDestroy { executable: self.raw });
    }
}

/// The part of an executable that does not run, which answers questions.
struct Unloaded<'a> {
    client: &'a Client,
    raw: Raw,
}

impl Drop for Unloaded<'_> {
    fn drop(&mut self) {
        self.client.api.free(sys::ExecutableDestroy { executable: self.raw });
    }
}

/// StableHLO text as a plugin takes it. It refers to the text, which has to outlive it.
pub(super) fn program(text: &str) -> Args<sys::Program> {
    const FORMAT: &str = "mlir";
    Args::new(sys::Program {
        code: text.as_ptr().cast(),
        code_size: text.len(),
        format: FORMAT.as_ptr().cast(),
        format_size: FORMAT.len(),
    })
}

/// The bytes of an executable that is not loaded.
pub(super) fn serialize(api: &Api, executable: Raw) -> Result<Vec<u8>> {
    let mut args = Args::new(sys::ExecutableSerialize { executable, ..Default::default() });
    api.call(&mut args)?;
    let body = args.body;
    // SAFETY: the bytes live until the deleter is called.
    let bytes = unsafe { api::bytes_of(body.serialized_bytes, body.serialized_bytes_size) }.to_vec();
    if let Some(delete) = body.serialized_executable_deleter {
        // SAFETY: it is called once, with the object that came with it.
        unsafe { delete(body.serialized_executable) };
    }
    Ok(bytes)
}

impl Loaded {
    /// Has the plugin compile StableHLO text; `options` is a `CompileOptionsProto`.
    pub fn compile(client: &Arc<Client>, text: &str, options: &[u8]) -> Result<Self> {
        let program = program(text);
        // Text, options and program outlive the call, which is as long as the plugin needs them.
        let mut args = Args::new(sys::ClientCompile {
            client: client.raw(),
            program: &raw const program,
            compile_options: options.as_ptr().cast(),
            compile_options_size: options.len(),
            ..Default::default()
        });
        client.api.call(&mut args)?;
        let raw = args.body.executable;
        ensure!(!raw.is_null(), Execution, "PJRT_Client_Compile", "gave no executable");
        Ok(Self { client: client.clone(), raw })
    }

    /// Has the plugin load what [`serialize`](Self::serialize) gave.
    pub fn deserialize(client: &Arc<Client>, bytes: &[u8]) -> Result<Self> {
        // The bytes outlive the call.
        let mut args = Args::new(sys::ExecutableDeserializeAndLoad {
            client: client.raw(),
            serialized_executable: bytes.as_ptr().cast(),
            serialized_executable_size: bytes.len(),
            ..Default::default()
        });
        client.api.call(&mut args)?;
        let raw = args.body.loaded_executable;
        ensure!(!raw.is_null(), Execution, "PJRT_Executable_DeserializeAndLoad", "gave no executable");
        Ok(Self { client: client.clone(), raw })
    }

    /// The object, for calls that take it.
    pub fn raw(&self) -> Raw {
        self.raw
    }

    /// Whose it is.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    fn unloaded(&self) -> Result<Unloaded<'_>> {
        let mut args =
            Args::new(sys::LoadedExecutableGetExecutable { loaded_executable: self.raw, ..Default::default() });
        self.client.api.call(&mut args)?;
        let raw = args.body.executable;
        ensure!(!raw.is_null(), Execution, "PJRT_LoadedExecutable_GetExecutable", "gave no executable");
        Ok(Unloaded { client: &self.client, raw })
    }

    /// How many results it has.
    pub fn outputs(&self) -> Result<usize> {
        let executable = self.unloaded()?;
        let mut args = Args::new(sys::ExecutableNumOutputs { executable: executable.raw, ..Default::default() });
        self.client.api.call(&mut args)?;
        Ok(args.body.num_outputs)
    }

    /// Its bytes, for the same plugin in the same version on the same kind of device.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        let executable = self.unloaded()?;
        serialize(&self.client.api, executable.raw)
    }

    /// What tells it from other programs: bytes, not text.
    pub fn fingerprint(&self) -> Result<Vec<u8>> {
        let executable = self.unloaded()?;
        let mut args = Args::new(sys::ExecutableFingerprint { executable: executable.raw, ..Default::default() });
        self.client.api.call(&mut args)?;
        let (start, len) = (args.body.executable_fingerprint, args.body.executable_fingerprint_size);
        // SAFETY: the bytes live as long as the executable, and are copied before it goes.
        Ok(unsafe { api::bytes_of(start, len) }.to_vec())
    }

    /// The numbers of the devices that run it, in the order in which a run lists them.
    pub fn devices(&self) -> Result<Vec<usize>> {
        let mut args =
            Args::new(sys::LoadedExecutableAddressableDevices { executable: self.raw, ..Default::default() });
        self.client.api.call(&mut args)?;
        // SAFETY: the list lives as long as the executable.
        let list = unsafe { api::list_of(args.body.addressable_devices, args.body.num_addressable_devices) };
        let number = |raw: &Raw| self.client.devices.iter().position(|device| device.raw == *raw);
        let numbers: Option<Vec<usize>> = list.iter().map(number).collect();
        numbers.ok_or_else(|| {
            let message = format!("gave a program for devices that are not of this process: {list:?}");
            crate::Error::new(crate::ErrorKind::Execution, "pjrt", message)
        })
    }
}
