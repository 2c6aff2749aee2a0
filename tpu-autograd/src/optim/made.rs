//! Updates whose programs may still fail.
//!
//! A program that fails while running, for an index out of range say, fails after the update that recorded it has returned. No
//! update waits for its own program; each looks at the one before the last instead, which has ended by the time that another
//! one can be queued. So a failure is reported two updates later, on every machine and in every mode, unless a read or a save
//! has told of it before. Everything computed from it in between has failed with it.

use std::collections::VecDeque;
use tpu_core::Error;
use tpu_core::lazy::Outcome;

/// How often each parameter had been updated before an update.
#[derive(Clone)]
pub(super) struct Before {
    pub steps: u64,
    /// Of each count.
    pub counts: Vec<u64>,
    pub count_of: Vec<usize>,
}

/// An update that was recorded.
pub(super) struct Made {
    pub before: Before,
    /// Of the parameters that it gave a value.
    pub outcomes: Vec<Outcome>,
}

/// The first update that failed.
pub(super) struct Failed {
    pub before: Before,
    pub error: Error,
    /// The user knows already.
    pub told: bool,
}

/// The last updates, oldest first. Those before them are known to be good.
#[derive(Default)]
pub(super) struct Updates(VecDeque<Made>);

impl Updates {
    pub fn push(&mut self, made: Made) {
        self.0.push_back(made);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The first one that failed, if it is known or time to know. Forgets those that were good.
    pub fn settle(&mut self) -> Option<Failed> {
        while self.0.len() > 1 {
            let made = &self.0[0];
            if let Some(error) = made.outcomes.iter().find_map(Outcome::wait) {
                let told = made.outcomes.iter().all(|outcome| outcome.was_told(&error));
                return Some(Failed { before: made.before.clone(), error, told });
            }
            if !made.outcomes.iter().all(|outcome| outcome.is_scheduled() || outcome.is_gone()) {
                break;
            }
            let gone = made.outcomes.iter().all(Outcome::is_gone);
            let before = self.0.pop_front().map(|made| made.before);
            // It was in one program with the next, which fails or not for both.
            if gone && let (Some(before), Some(next)) = (before, self.0.front_mut()) {
                next.before = before;
            }
        }
        self.told()
    }

    /// The first one that failed with an error that the user was told of since. Not what is found by chance: after telling, all
    /// that failed with it has failed.
    pub fn told(&self) -> Option<Failed> {
        self.0.iter().find_map(|made| {
            let told = |outcome: &Outcome| outcome.error().filter(|error| outcome.was_told(error));
            let error = made.outcomes.iter().find_map(told)?;
            Some(Failed { before: made.before.clone(), error, told: true })
        })
    }
}
