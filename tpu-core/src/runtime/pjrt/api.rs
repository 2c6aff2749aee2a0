//! A loaded plugin: its function table, its version, and calls through them.

use super::sys::{self, Args, Call, Head, Raw, Text, code};
use crate::{Error, ErrorKind, Result};
use libloading::Library;
use std::error::Error as _;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The oldest version of the C API that works: of the oldest plugin tried.
pub const OLDEST: (i32, i32) = (0, 81);

/// The function table of a plugin.
pub struct Api {
    table: *const Head,
    /// Entries that the plugin says there are.
    functions: usize,
    path: PathBuf,
    /// Of its code.
    address: usize,
}

// SAFETY: the table is read only after loading, and the functions behind it may be called from any thread (the C API
// requires that of plugins).
unsafe impl Send for Api {}
// SAFETY: as above.
unsafe impl Sync for Api {}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version();
        write!(f, "{} (C API {major}.{minor}, {} functions)", self.path.display(), self.functions)
    }
}

/// A function of the table that returns an error or null.
type Function = unsafe extern "C" fn(Raw) -> Raw;
/// A function of the table that cannot fail: those about errors.
type Action = unsafe extern "C" fn(Raw);

impl Api {
    /// Loads the library at `path` and initialises the plugin in it. The library stays loaded until the process ends:
    /// plugins start threads that cannot be stopped.
    ///
    /// Errors with [`ErrorKind::Io`] if it cannot be loaded, [`ErrorKind::Unsupported`] if it is not a plugin or too old.
    pub fn load(path: &Path) -> Result<Arc<Self>> {
        // SAFETY: initialisers of the library run. Whoever names a plugin trusts it as any other code in the process.
        let library = unsafe { Library::new(path) }.map_err(|error| {
            // `error` says which call failed, its source why.
            let why = error.source().map_or(error.to_string(), ToString::to_string);
            Error::new(ErrorKind::Io, "pjrt", format!("could not load {}: {why}", path.display()))
        })?;
        // SAFETY: the type is that of the header, for every version.
        let get = unsafe { library.get::<unsafe extern "C" fn() -> *const Head>(b"GetPjrtApi\0") };
        let get = get.map_err(|_| refuse(path, "has no function GetPjrtApi: it is not a PJRT plugin"))?;
        // SAFETY: it takes nothing and gives the address of a table that is never freed, or null.
        let table = unsafe { get() };
        let address = *get as usize;
        // The table lies in the library.
        std::mem::forget(library);
        let api = Self::from_table(table, path, address)?;
        api.call(&mut Args::new(sys::PluginInitialize::default()))?;
        tracing::info!(plugin = ?api, "loaded a PJRT plugin");
        Ok(Arc::new(api))
    }

    fn from_table(table: *const Head, path: &Path, address: usize) -> Result<Self> {
        if table.is_null() {
            return Err(refuse(path, "gives no function table"));
        }
        // SAFETY: the table begins with its size.
        let size = unsafe { (*table).struct_size };
        let Some(bytes) = size.checked_sub(size_of::<Head>()) else {
            return Err(refuse(path, &format!("gives a function table of {size} bytes, which has no version")));
        };
        let api = Self { table, functions: bytes / size_of::<Option<Function>>(), path: path.into(), address };
        let version = api.version();
        if version.0 != OLDEST.0 || version < OLDEST {
            let (major, minor) = version;
            let message = format!("has C API {major}.{minor}, requires {}.{} or a later {0}", OLDEST.0, OLDEST.1);
            return Err(refuse(path, &message));
        }
        Ok(api)
    }

    /// Major and minor version of the plugin's C API.
    pub fn version(&self) -> (i32, i32) {
        // SAFETY: the table has a whole head, which `from_table` made sure of before any use of the result.
        unsafe { ((*self.table).major, (*self.table).minor) }
    }

    /// Where the plugin was loaded from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where its code lies in this process.
    pub fn address(&self) -> usize {
        self.address
    }

    /// An entry of the table, `None` if it ends before it or has null there.
    ///
    /// # Safety
    ///
    /// `F` is the type of the entry's function pointer.
    unsafe fn entry<F: Copy>(&self, index: usize) -> Option<F> {
        debug_assert_eq!(size_of::<Option<F>>(), size_of::<Option<Function>>());
        if index >= self.functions {
            return None;
        }
        // SAFETY: the entry lies within the size that the table states; entries are function pointers or null.
        unsafe { self.table.add(1).cast::<Option<F>>().add(index).read() }
    }

    /// Whether the plugin has a function.
    pub fn has<T: Call>(&self) -> bool {
        // SAFETY: all entries but the three of `check` return an error; it is not called.
        unsafe { self.entry::<Function>(T::INDEX) }.is_some()
    }

    /// Calls a function of the table. Errors with [`ErrorKind::Unsupported`] if the plugin does not have it, else with
    /// what the plugin answers.
    pub fn call<T: Call>(&self, args: &mut Args<T>) -> Result<()> {
        // SAFETY: all entries but the three of `check` return an error.
        let Some(function) = (unsafe { self.entry::<Function>(T::INDEX) }) else {
            let (major, minor) = self.version();
            let message = format!("is not implemented by {} (C API {major}.{minor})", self.path.display());
            return Err(Error::new(ErrorKind::Unsupported, format!("PJRT_{}", T::NAME), message));
        };
        // SAFETY: the struct is the one that this entry takes, with its size in it, and lives through the call. What its
        // pointers point to lives through the call by the borrows of our callers, each of which says so.
        let error = unsafe { function((&raw mut *args).cast()) };
        self.check(T::NAME, error)
    }

    /// The error that a plugin gave, which it frees; nothing if there is none.
    pub fn check(&self, name: &str, error: Raw) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        let mut message = Args::new(sys::ErrorMessage { error, ..Default::default() });
        let mut number = Args::new(sys::ErrorGetCode { error, ..Default::default() });
        let mut destroy = Args::new(sys::ErrorDestroy { error });
        let mut text = "without a message".to_string();
        // SAFETY: the first returns nothing, see the header.
        if let Some(function) = unsafe { self.entry::<Action>(sys::ErrorMessage::INDEX) } {
            // SAFETY: the error is alive until it is destroyed below.
            unsafe { function((&raw mut message).cast()) };
            // SAFETY: the text belongs to the error.
            text = unsafe { text_of(message.body.message, message.body.message_size) };
        }
        // What this one returns is the error of asking for the code, which leaves the code 0.
        // SAFETY: the type is that of the header.
        if let Some(function) = unsafe { self.entry::<Function>(sys::ErrorGetCode::INDEX) } {
            // SAFETY: as above.
            unsafe { function((&raw mut number).cast()) };
        }
        // SAFETY: it returns nothing, see the header.
        if let Some(function) = unsafe { self.entry::<Action>(sys::ErrorDestroy::INDEX) } {
            // SAFETY: the error is not used any more.
            unsafe { function((&raw mut destroy).cast()) };
        }
        let kind = kind_of(number.body.code);
        Err(Error::new(kind, format!("PJRT_{name}"), format!("failed: {text} (code {})", number.body.code)))
    }

    /// Calls a function that frees something, where nobody can be told of an error.
    pub fn free<T: Call>(&self, body: T) {
        if let Err(error) = self.call(&mut Args::new(body)) {
            tracing::warn!(%error, "a PJRT plugin could not free an object");
        }
    }
}

fn refuse(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Unsupported, "pjrt", format!("cannot use {}: it {why}", path.display()))
}

/// What kind of error of ours a plugin's code is.
fn kind_of(number: i32) -> ErrorKind {
    match number {
        code::INVALID_ARGUMENT => ErrorKind::Value,
        code::NOT_FOUND => ErrorKind::Device,
        code::RESOURCE_EXHAUSTED => ErrorKind::OutOfMemory,
        code::UNIMPLEMENTED => ErrorKind::Unsupported,
        _ => ErrorKind::Execution,
    }
}

/// A copy of a plugin's text.
///
/// # Safety
///
/// `start` is null or points to `len` bytes.
pub unsafe fn text_of(start: Text, len: usize) -> String {
    // SAFETY: the caller's promise.
    String::from_utf8_lossy(unsafe { bytes_of(start, len) }).into_owned()
}

/// A plugin's bytes.
///
/// # Safety
///
/// `start` is null or points to `len` bytes that live as long as the result is used.
pub unsafe fn bytes_of<'a>(start: Text, len: usize) -> &'a [u8] {
    if start.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start.cast(), len) }
}

/// A plugin's list of objects or numbers.
///
/// # Safety
///
/// `start` is null or points to `len` of them.
pub unsafe fn list_of<T: Copy>(start: *const T, len: usize) -> Vec<T> {
    if start.is_null() || len == 0 {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start, len) }.to_vec()
}
