//! Where the value of a scheduled program result arrives.

use crate::ir::Type;
use crate::runtime::Buffer;
use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};

/// A value that is scheduled, ready, failed or given away. Whoever holds the `Arc` may use the value; a program whose
/// cut holds the only one may overwrite it (donation).
pub(crate) struct Slot {
    ty: Type,
    state: Mutex<State>,
    arrived: Condvar,
    /// Threads that wait for it. Changed under the lock of `state` only, and a system call is saved where there are none.
    waiting: AtomicUsize,
    /// The value this one replaces in a mutable cell; see [`Slot::restored`].
    replaces: OnceLock<Weak<Slot>>,
}

enum State {
    Scheduled,
    Ready(Arc<dyn Buffer>),
    /// The first error. The value that this one was to replace lives as long as somebody holds the failed one.
    Failed(Error, Option<Arc<Slot>>),
    /// The buffer went to a program as donor.
    Donated,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({})", self.ty)
    }
}

impl Slot {
    /// A slot whose value comes later.
    pub fn scheduled(ty: Type) -> Arc<Self> {
        Self::with(ty, State::Scheduled)
    }

    /// A slot that holds its value.
    pub fn ready(buffer: Arc<dyn Buffer>) -> Arc<Self> {
        Self::with(buffer.ty().clone(), State::Ready(buffer))
    }

    fn with(ty: Type, state: State) -> Arc<Self> {
        Arc::new(Self {
            ty,
            state: Mutex::new(state),
            arrived: Condvar::new(),
            waiting: AtomicUsize::new(0),
            replaces: OnceLock::new(),
        })
    }

    pub fn ty(&self) -> &Type {
        &self.ty
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic cannot leave the state half written: every writer stores a whole state.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn fulfil(&self, buffer: Arc<dyn Buffer>) {
        self.arrive(State::Ready(buffer));
    }

    fn arrive(&self, state: State) {
        let mut guard = self.lock();
        let before = std::mem::replace(&mut *guard, state);
        let waiting = self.waiting.load(Relaxed) > 0;
        drop(guard);
        if waiting {
            self.arrived.notify_all();
        }
        drop(before);
    }

    /// To be called while the failed program's inputs are held: what it was to overwrite is intact, and kept.
    pub fn fail(&self, error: Error) {
        let replaced = self.replaces.get().and_then(Weak::upgrade);
        self.arrive(State::Failed(error, replaced));
    }

    /// Waits for the value.
    pub fn wait(&self) -> Result<Arc<dyn Buffer>> {
        let mut state = self.lock();
        loop {
            match &*state {
                State::Scheduled => {}
                State::Ready(buffer) => return Ok(buffer.clone()),
                State::Failed(error, _) => return Err(error.clone()),
                State::Donated => return Err(Error::new(ErrorKind::Internal, "read", "of a donated value")),
            }
            self.waiting.fetch_add(1, Relaxed);
            state = self.arrived.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            self.waiting.fetch_sub(1, Relaxed);
        }
    }

    /// The error, if the value has failed. Does not wait.
    pub fn error(&self) -> Option<Error> {
        match &*self.lock() {
            State::Failed(error, _) => Some(error.clone()),
            _ => None,
        }
    }

    /// Whether the value is still to come.
    pub fn is_scheduled(&self) -> bool {
        matches!(*self.lock(), State::Scheduled)
    }

    /// Whether the buffer went to a program.
    pub fn is_given_away(&self) -> bool {
        matches!(*self.lock(), State::Donated)
    }

    /// Takes the buffer for donation, leaving `Donated`; [`fulfil`](Self::fulfil) gives it back.
    pub fn take(&self) -> Result<Arc<dyn Buffer>> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Donated) {
            State::Ready(buffer) => Ok(buffer),
            State::Failed(error, replaced) => {
                *state = State::Failed(error.clone(), replaced);
                Err(error)
            }
            other => {
                *state = other;
                Err(Error::new(ErrorKind::Internal, "run", "reads a value that is not ready"))
            }
        }
    }

    /// Says that this value takes the place of `old` in a mutable cell. The first call counts.
    pub fn set_replaces(&self, old: Weak<Self>) {
        let _ = self.replaces.set(old);
        if let State::Failed(_, replaced) = &mut *self.lock() {
            *replaced = self.replaces.get().and_then(Weak::upgrade);
        }
    }

    /// If this value has failed: the last good value that it, or a failed predecessor, was to replace.
    pub fn restored(&self) -> Option<Arc<Self>> {
        let mut old = match &*self.lock() {
            State::Failed(_, replaced) => replaced.clone()?,
            State::Scheduled | State::Ready(_) | State::Donated => return None,
        };
        loop {
            let older = match &*old.lock() {
                State::Ready(_) => None,
                State::Failed(_, replaced) => Some(replaced.clone()?),
                State::Scheduled | State::Donated => return None,
            };
            match older {
                None => return Some(old),
                Some(older) => old = older,
            }
        }
    }
}
