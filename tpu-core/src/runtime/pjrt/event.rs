//! Something that a plugin does later.

use super::api::Api;
use super::sys::{self, Args, Raw};
use crate::Result;
use std::sync::Arc;

/// An event of a plugin: something that will have been done, or will have failed.
pub struct Event {
    api: Arc<Api>,
    raw: Raw,
}

// SAFETY: the functions on events may be called from any thread, and the object is freed once, by `drop`.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// The event that a call gave. Null, where nothing is left to wait for, gives `None`.
    pub fn new(api: &Arc<Api>, raw: Raw) -> Option<Self> {
        (!raw.is_null()).then(|| Self { api: api.clone(), raw })
    }

    /// Waits, and errors if what it stands for failed. An event that is over is asked for its error all the same.
    pub fn wait(&self) -> Result<()> {
        self.api.call(&mut Args::new(sys::EventAwait { event: self.raw }))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.api.free(sys::EventDestroy { event: self.raw });
    }
}
