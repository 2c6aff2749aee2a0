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

/// Clients with something that hangs: closing one waits for that.
static NEVER_CLOSED: Mutex<Vec<Arc<Client>>> = Mutex::new(Vec::new());

/// An event of a plugin: something that will have been done, or will have failed.
pub struct Event {
    client: Arc<Client>,
    object: Object,
}

/// The object, freed when dropped. It does not hold the client, which the plugin's thread must not be the last to drop.
struct Object {
    api: Arc<Api>,
    raw: Raw,
}

// SAFETY: the functions on events may be called from any thread, and the object is freed once, by `drop`.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Drop for Object {
    fn drop(&mut self) {
        self.api.free(sys::EventDestroy { event: self.raw });
    }
}

impl Event {
    /// The event that a call gave. Null, where nothing is left to wait for, gives `None`.
    pub fn new(client: &Arc<Client>, raw: Raw) -> Option<Self> {
        (!raw.is_null()).then(|| Self { client: client.clone(), object: Object { api: client.api.clone(), raw } })
    }

    /// Waits for `what`, and gives back what the plugin uses until then.
    ///
    /// Errors if what the event stands for failed; also an event that is over is asked. Errors with
    /// [`ErrorKind::TimedOut`] when the client's time is over, see [`PjrtOptions::timeout`](super::PjrtOptions::timeout).
    pub fn wait<H: Send + 'static>(self, what: &'static str, held: H) -> Result<H> {
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

    /// Keeps what the plugin uses alive until the event is over, without waiting for it, unless the plugin cannot
    /// [say so](Self::can_call).
    pub fn keep<H: Send + 'static>(self, what: &'static str, held: H) {
        let Some(late) = Late::watch(&self) else {
            if let Err(error) = self.wait_forever() {
                tracing::warn!(%error, what, "a PJRT plugin failed");
            }
            return;
        };
        let mut state = late.lock();
        if let State::Pending = *state {
            *state = State::Left(what, Box::new((held, self.object)));
        }
    }

    /// Whether the plugin can say when an event is over.
    pub fn can_call(api: &Api) -> bool {
        api.has::<sys::EventOnReady>()
    }

    fn is_ready(&self) -> bool {
        let mut args = Args::new(sys::EventIsReady { event: self.object.raw, is_ready: false });
        self.client.api.call(&mut args).is_ok() && args.body.is_ready
    }

    fn wait_forever(&self) -> Result<()> {
        self.client.api.call(&mut Args::new(sys::EventAwait { event: self.object.raw }))
    }

    /// Leaves the event and what is held to the plugin's thread.
    fn give_up<H: Send + 'static>(
        self,
        what: &'static str,
        seconds: f64,
        held: H,
        mut state: MutexGuard<'_, State>,
    ) -> Error {
        let message = format!(
            "requires {what} on {} to end within {seconds} s (TPU_PJRT_TIMEOUT), and it has not",
            self.client.platform
        );
        NEVER_CLOSED.lock().unwrap_or_else(PoisonError::into_inner).push(self.client.clone());
        *state = State::Left(what, Box::new((held, self.object)));
        Error::new(ErrorKind::TimedOut, "pjrt", message)
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
    /// Nobody waits for this; what the plugin uses lives until it calls.
    Left(&'static str, Box<dyn Any + Send>),
    Over(Result<()>),
}

impl Late {
    /// Has the plugin call when the event is over. `None` if it cannot.
    fn watch(event: &Event) -> Option<Arc<Self>> {
        let api = event.client.api.clone();
        let late = Arc::new(Self { api, state: Mutex::new(State::Pending), over: Condvar::new() });
        let user_arg = Arc::into_raw(late.clone()).cast_mut().cast::<c_void>();
        let mut args = Args::new(sys::EventOnReady { event: event.object.raw, callback: Some(on_ready), user_arg });
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
            State::Pending | State::Left(..) => Err(state),
        }
    }
}

/// Called by the plugin, on a thread of its own or of whoever registered it.
unsafe extern "C" fn on_ready(error: Raw, late: *mut c_void) {
    // SAFETY: `watch` made it with `into_raw`, and the plugin calls once.
    let late = unsafe { Arc::from_raw(late.cast_const().cast::<Late>()) };
    let outcome = late.api.check("Event_OnReady", error);
    let error = outcome.as_ref().err().cloned();
    let before = std::mem::replace(&mut *late.lock(), State::Over(outcome));
    late.over.notify_all();
    if let State::Left(what, held) = before {
        if let Some(error) = error {
            tracing::warn!(%error, what, "what nobody waits for failed");
        }
        drop(held);
    }
}
