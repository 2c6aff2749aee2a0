//! What becomes of a value that takes the place of another in a mutable cell, known also when both are gone.

use super::slot::Slot;
use crate::Error;
use std::sync::{Arc, OnceLock, Weak};

/// Of one value: shared by its handle, its slot and those who ask what became of it. Holds neither the value nor the one before,
/// so that programs can overwrite them.
#[derive(Default, Debug)]
pub(crate) struct Succession {
    /// The value whose place it takes.
    old: OnceLock<Weak<Slot>>,
    /// Where it arrives, once scheduled.
    new: OnceLock<Weak<Slot>>,
    failed: OnceLock<Error>,
}

impl Succession {
    /// Whether this was the first.
    pub fn set_old(&self, old: Weak<Slot>) -> bool {
        self.old.set(old).is_ok()
    }

    pub fn old(&self) -> Option<Arc<Slot>> {
        self.old.get()?.upgrade()
    }

    pub fn set_new(&self, new: &Arc<Slot>) {
        let _ = self.new.set(Arc::downgrade(new));
    }

    pub fn fail(&self, error: &Error) {
        let _ = self.failed.set(error.clone());
    }
}

/// Whether computing a value has failed: what [`Tensor::outcome`](crate::Tensor::outcome) gives. It does not hold the value, whose
/// memory is free for others as if nobody had asked.
#[derive(Clone, Debug)]
pub struct Outcome {
    succession: Arc<Succession>,
    /// How often the user had been told of errors when this was asked for.
    since: u64,
}

impl Outcome {
    pub(crate) fn new(succession: Arc<Succession>) -> Self {
        Self { succession, since: Error::told_so_far() }
    }

    /// Whether a program holds the value: before that nothing can be known.
    pub fn is_scheduled(&self) -> bool {
        self.succession.new.get().is_some()
    }

    /// Whether the value never was a result of a program and never will be: it was replaced before. To be asked of the only
    /// outcome of it that is left.
    pub fn is_gone(&self) -> bool {
        !self.is_scheduled() && Arc::strong_count(&self.succession) == 1
    }

    /// The error of the value. Neither cuts nor waits: `None` also if it is still to come.
    pub fn error(&self) -> Option<Error> {
        self.succession.failed.get().cloned()
    }

    /// The error of the value, after waiting for it if it is scheduled. Cuts nothing.
    pub fn wait(&self) -> Option<Error> {
        if let Some(slot) = self.succession.new.get().and_then(Weak::upgrade) {
            // An error is told of below.
            let _ = slot.wait();
        }
        self.error()
    }

    /// Whether the user was told of the error after this was asked for: before, nobody could know what failed with it here.
    pub fn was_told(&self, error: &Error) -> bool {
        error.told() > self.since
    }
}
