//! Something that a plugin does later.
//!
//! A wait owns what the plugin may use until the event is over. If that takes too long the wait gives up with an error
//! and what it owned stays alive, on the account of the event, until the plugin says that it is done; if it never does,
//! forever. The client stays too: destroying one waits for what it has running.

use super::api::Api;
use super::client::Client;
use super::sys::{self, Args, Raw};
use crate::{Error, ErrorKind, Result};
use std::any::Any;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// An event of a plugin: something that will have been done, or will have failed.
pub struct Event {
    client: Arc<Client>,
    raw: Raw,
}

// SAFETY: the functions on events may be called from any thread, and the object is freed once, by `drop`.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// The event that a call gave. Null, where nothing is left to wait for, gives `None`.
    pub fn new(client: &Arc<Client>, raw: Raw) -> Option<Self> {
        (!raw.is_null()).then(|| Self { client: client.clone(), raw })
    }

    /// Waits for `what`, and gives back what the plugin uses until then.
    ///
    /// Errors if what the event stands for failed; also an event that is over is asked. Errors with
    /// [`ErrorKind::TimedOut`] when the client's time is over, see [`PjrtOptions::timeout`](super::PjrtOptions::timeout).
    pub fn wait<H: Send + 'static>(self, what: &str, held: H) -> Result<H> {
        match self.client.timeout {
            Some(timeout) if !self.is_ready() => match Late::watch(&self) {
                Some(late) => match late.wait(timeout) {
                    Ok(outcome) => outcome.map(|()| held),
                    Err(state) => Err(self.give_up(what, timeout.as_secs_f64(), held, state)),
                },
                // What the plugin uses must outlive its work: without a message from it, no time is too long.
                None => self.wait_forever().map(|()| held),
            },
            _ => self.wait_forever().map(|()| held),
        }
    }

    fn is_ready(&self) -> bool {
        let mut args = Args::new(sys::EventIsReady { event: self.raw, is_ready: false });
        self.client.api.call(&mut args).is_ok() && args.body.is_ready
    }

    fn wait_forever(&self) -> Result<()> {
        self.client.api.call(&mut Args::new(sys::EventAwait { event: self.raw }))
    }

    /// Leaves the event and what is held to the plugin's thread.
    fn give_up<H: Send + 'static>(self, what: &str, seconds: f64, held: H, mut state: MutexGuard<'_, State>) -> Error {
        let message = format!(
            "requires {what} on {} to end within {seconds} s (TPU_PJRT_TIMEOUT), and it has not",
            self.client.platform
        );
        std::mem::forget(self.client.clone());
        *state = State::Abandoned(Box::new((held, self)));
        Error::new(ErrorKind::TimedOut, "pjrt", message)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.client.api.free(sys::EventDestroy { event: self.raw });
    }
}

/// What the plugin's thread, which calls when an event is over, shares with the one that waits.
struct Late {
    api: Arc<Api>,
    state: Mutex<State>,
    over: Condvar,
}

enum State {
    Pending,
    /// Nobody waits any more; this lives until the plugin calls.
    Abandoned(Box<dyn Any + Send>),
    Over(Result<()>),
}

impl Late {
    /// Has the plugin call when the event is over. `None` if it cannot.
    fn watch(event: &Event) -> Option<Arc<Self>> {
        let api = event.client.api.clone();
        let late = Arc::new(Self { api, state: Mutex::new(State::Pending), over: Condvar::new() });
        let user_arg = Arc::into_raw(late.clone()).cast_mut().cast::<c_void>();
        let mut args = Args::new(sys::EventOnReady { event: event.raw, callback: Some(on_ready), user_arg });
        if event.client.api.call(&mut args).is_ok() {
            return Some(late);
        }
        // SAFETY: the plugin did not take what came from `into_raw` just now.
        drop(unsafe { Arc::from_raw(user_arg.cast_const().cast::<Self>()) });
        None
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every writer stores a whole state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outcome, or the lock under which it has not come in time.
    fn wait(&self, timeout: std::time::Duration) -> Result<Result<()>, MutexGuard<'_, State>> {
        let pending = |state: &mut State| matches!(state, State::Pending);
        let waited = self.over.wait_timeout_while(self.lock(), timeout, pending);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Over(outcome) => Ok(outcome.clone()),
            State::Pending | State::Abandoned(_) => Err(state),
        }
    }
}

/// Called by the plugin, on a thread of its own or of whoever registered it.
unsafe extern "C" fn on_ready(error: Raw, late: *mut c_void) {
    // SAFETY: `watch` made it with `into_raw`, and the plugin calls once.
    let late = unsafe { Arc::from_raw(late.cast_const().cast::<Late>()) };
    let outcome = late.api.check("Event_OnReady", error);
    let before = std::mem::replace(&mut *late.lock(), State::Over(outcome.clone()));
    late.over.notify_all();
    if let State::Abandoned(held) = before {
        tracing::warn!(?outcome, "a PJRT plugin ended what nobody waits for any more");
        drop(held);
    }
}
