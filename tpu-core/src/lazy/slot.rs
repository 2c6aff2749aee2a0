//! Where the value of a scheduled program result arrives.

use super::outcome::Succession;
use crate::ir::Type;
use crate::runtime::Buffer;
use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

/// A value that is scheduled, ready, failed or given away. Whoever holds the `Arc` may use the value; a program whose
/// cut holds the only one may overwrite it (donation).
pub(crate) struct Slot {
    ty: Type,
    state: Mutex<State>,
    arrived: Condvar,
    /// Threads that wait for it. Changed under the lock of `state` only, and a system call is saved where there are none.
    waiting: AtomicUsize,
    /// What this value is to a mutable cell.
    succession: OnceLock<Arc<Succession>>,
}

enum State {
    /// Where the program was on its way before anybody said what the value is to replace, which it need not read: that.
    Scheduled(Option<Arc<Slot>>),
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
        Self::with(ty, State::Scheduled(None))
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
            succession: OnceLock::new(),
        })
    }

    pub fn ty(&self) -> &Type {
        &self.ty
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave the state half written: every writer stores a whole state.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn fulfil(&self, buffer: Arc<dyn Buffer>) {
        self.arrive(State::Ready(buffer));
    }

    fn arrive(&self, state: State) {
        self.arrive_at(self.lock(), state);
    }

    fn arrive_at(&self, mut guard: MutexGuard<'_, State>, state: State) {
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
        let guard = self.lock();
        // Under the lock, so that whoever asks for the outcome meanwhile learns of it either way.
        let replaced = self.succession.get().and_then(|succession| {
            succession.fail(&error);
            succession.old()
        });
        self.arrive_at(guard, State::Failed(error, replaced));
    }

    /// Waits for the value.
    pub fn wait(&self) -> Result<Arc<dyn Buffer>> {
        let mut state = self.lock();
        loop {
            match &*state {
                State::Scheduled(_) => {}
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
        matches!(*self.lock(), State::Scheduled(_))
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

    /// Takes over what was said of the value before it was scheduled.
    pub fn inherit(self: &Arc<Self>, succession: Arc<Succession>) {
        succession.set_new(self);
        let _ = self.succession.set(succession);
    }

    /// What this value is to a mutable cell.
    pub fn succession(self: &Arc<Self>) -> &Arc<Succession> {
        let succession = self.succession.get_or_init(|| {
            let new = Arc::<Succession>::default();
            new.set_new(self);
            new
        });
        if let State::Failed(error, _) = &*self.lock() {
            succession.fail(error);
        }
        succession
    }

    /// Says that this value, which is scheduled, takes the place of `old` in a mutable cell. The first call counts.
    pub fn set_replaces(self: &Arc<Self>, old: &Arc<Self>) {
        if Arc::ptr_eq(self, old) || !self.succession().set_old(Arc::downgrade(old)) {
            return;
        }
        match &mut *self.lock() {
            State::Scheduled(replaced) | State::Failed(_, replaced) => *replaced = Some(old.clone()),
            State::Ready(_) | State::Donated => {}
        }
    }

    /// If this value has failed: the last good value that it, or a failed predecessor, was to replace.
    pub fn restored(&self) -> Option<Arc<Self>> {
        let mut old = match &*self.lock() {
            State::Failed(_, replaced) => replaced.clone()?,
            State::Scheduled(_) | State::Ready(_) | State::Donated => return None,
        };
        loop {
            let older = match &*old.lock() {
                State::Ready(_) => None,
                State::Failed(_, replaced) => Some(replaced.clone()?),
                State::Scheduled(_) | State::Donated => return None,
            };
            match older {
                None => return Some(old),
                Some(older) => old = older,
            }
        }
    }
}
