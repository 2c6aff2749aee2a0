//! Something that a plugin does later.
//!
//! A wait owns what the plugin may use until the event is over. If that takes too long the wait gives up with an error
//! and what it owned stays alive, on the account of the event, until the plugin says that it is done; if it never does, or
//! cannot, forever. The client stays too: destroying one waits for what it has running.

use super::api::Api;
use super::client::Client;
use super::sys::{self, Args, Raw};
use crate::{Error, ErrorKind, Result};
use std::any::Any;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a plugin may use as long as the process lives: clients with something that hangs, as closing one waits for that,
/// and what no event will say is free again.
static NEVER_FREED: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());

fn never_free(held: impl Send + 'static) {
    NEVER_FREED.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(held));
}

/// Keeps forever what a plugin may use, since it gave no event that says when it is done, and gives the error for that.
pub fn keep_without_event(what: &'static str, held: impl Send + 'static) -> Error {
    let message = format!("requires an event that says when {what} is over, and the plugin gave none");
    let error = Error::new(ErrorKind::Execution, "pjrt", message);
    keep_forever(what, &error, held);
    error
}

fn keep_forever(what: &'static str, error: &Error, held: impl Send + 'static) {
    tracing::warn!(%error, what, "memory that a PJRT plugin may still use is never freed");
    never_free(held);
}

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
        let timeout = match self.client.timeout {
            Some(timeout) if !self.is_ready() => timeout,
            _ => return self.wait_forever().map(|()| held),
        };
        match Late::watch(&self) {
            Ok(late) => match late.wait(timeout) {
                Ok(outcome) => outcome.map(|()| held),
                Err(mut state) => {
                    let error = self.timed_out(what, timeout);
                    never_free(self.client.clone());
                    *state = State::Left(what, Box::new((held, self.object)));
                    Err(error)
                }
            },
            // It does not call when it is done, so it is asked.
            Err(_) if self.becomes_ready(timeout) => self.wait_forever().map(|()| held),
            Err(_) => {
                let error = self.timed_out(what, timeout);
                keep_forever(what, &error, (held, self.client.clone(), self.object));
                Err(error)
            }
        }
    }

    /// Keeps what the plugin uses alive until the event is over, without waiting for it, unless the plugin has
    /// [no function](Self::can_call) to say so. If it has and that fails, nobody will know when the event is over: an error, and what
    /// is held is never freed.
    pub fn keep<H: Send + 'static>(self, what: &'static str, held: H) -> Result<()> {
        let late = match Late::watch(&self) {
            Ok(late) => late,
            Err(error) if Self::can_call(&self.client.api) => {
                keep_forever(what, &error, held);
                return Err(error);
            }
            Err(_) => return self.wait(what, held).map(drop),
        };
        let mut state = late.lock();
        if let State::Pending = *state {
            *state = State::Left(what, Box::new((held, self.object)));
        }
        Ok(())
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

    /// Asks again and again whether the event is over, for some time.
    fn becomes_ready(&self, timeout: Duration) -> bool {
        const LONGEST: Duration = Duration::from_millis(5);
        let (start, mut pause) = (Instant::now(), Duration::from_micros(20));
        while !self.is_ready() {
            if start.elapsed() >= timeout {
                return false;
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(LONGEST);
        }
        true
    }

    fn timed_out(&self, what: &str, timeout: Duration) -> Error {
        let message = format!(
            "requires {what} on {} to end within {} s (TPU_PJRT_TIMEOUT), and it has not",
            self.client.platform,
            timeout.as_secs_f64()
        );
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
    /// Has the plugin call when the event is over. Errors if it cannot.
    fn watch(event: &Event) -> Result<Arc<Self>> {
        let api = event.client.api.clone();
        let late = Arc::new(Self { api, state: Mutex::new(State::Pending), over: Condvar::new() });
        let user_arg = Arc::into_raw(late.clone()).cast_mut().cast::<c_void>();
        let mut args = Args::new(sys::EventOnReady { event: event.object.raw, callback: Some(on_ready), user_arg });
        if let Err(error) = event.client.api.call(&mut args) {
            // SAFETY: the plugin did not take what came from `into_raw` just now.
            drop(unsafe { Arc::from_raw(user_arg.cast_const().cast::<Self>()) });
            return Err(error);
        }
        Ok(late)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every writer stores a whole state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outcome, or the lock under which it has not come in time.
    fn wait(&self, timeout: Duration) -> Result<Result<()>, MutexGuard<'_, State>> {
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
