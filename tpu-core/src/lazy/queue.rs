//! The executor of a device: one program at a time, first in, first out.
//!
//! # Protocol
//!
//! `running` is true while some thread runs a program of this device: the executor's own thread, or a recording thread
//! that found the queue empty and a program small enough to run itself. Programs start in the order of submission: a
//! program is run inline only if nothing is queued or running, and the executor starts the next one only when nothing
//! runs. Submitting waits while too much is in flight, so a loop that never reads cannot run ahead of the device
//! without bound.
//!
//! Who waits is told only of what it waits for, the executor that a program can start and others that one has ended: waking
//! a thread costs more than a small program takes.
//!
//! The executor's thread starts with the first queued program and ends with the device. At process exit it is not
//! waited for: results nobody can read any more are not computed. A forked child has no executor; using a device that its
//! parent opened is an error there, not a hang.

use super::job::Job;
use super::{fork, stats};
use crate::runtime::Backend;
use crate::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Programs expected to take less, in seconds, run on the recording thread.
const INLINE: f64 = 100e-6;
/// Programs queued or running at one time.
const IN_FLIGHT: usize = 2;
/// Bytes that queued and running programs may need together, unless there is only one.
const IN_FLIGHT_BYTES: usize = 4 << 30;

pub(crate) struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    backend: Arc<dyn Backend>,
    device: usize,
    /// Of the process that has the executor's thread.
    generation: u32,
    state: Mutex<State>,
    /// A queued program may start, or the queue is closed: what the executor waits for.
    startable: Condvar,
    /// A program ended: what others wait for.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<(Job, usize)>,
    running: bool,
    /// Bytes that queued and running jobs need.
    bytes: usize,
    /// Jobs that have ended.
    done: u64,
    /// Threads that wait for a program to end.
    waiting: usize,
    started: bool,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Jobs run outside the lock and catch panics.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits until a program has ended.
    fn wait<'a>(&self, mut guard: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        guard.waiting += 1;
        let mut guard = self.ended.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
        guard.waiting -= 1;
        guard
    }

    /// Runs a job that was marked running, and unmarks it.
    fn run(&self, job: Job, bytes: usize) {
        job.run(&*self.backend, self.device);
        let mut state = self.lock();
        state.running = false;
        state.bytes -= bytes;
        state.done += 1;
        let (startable, waiting) = (!state.jobs.is_empty(), state.waiting > 0);
        drop(state);
        if startable {
            self.startable.notify_one();
        }
        if waiting {
            self.ended.notify_all();
        }
    }

    /// The executor's thread.
    fn serve(&self) {
        loop {
            let mut state = self.lock();
            let (job, bytes) = loop {
                if state.closed {
                    return;
                }
                if !state.running
                    && let Some(next) = state.jobs.pop_front()
                {
                    break next;
                }
                state = self.startable.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            };
            state.running = true;
            drop(state);
            self.run(job, bytes);
        }
    }
}

impl Queue {
    pub fn new(backend: Arc<dyn Backend>, device: usize) -> Self {
        fork::watch();
        let shared = Shared {
            backend,
            device,
            generation: fork::generation(),
            state: Mutex::default(),
            startable: Condvar::new(),
            ended: Condvar::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Errors in a forked child of the process that opened the device.
    pub fn check_process(&self) -> Result<()> {
        if fork::generation() == self.shared.generation {
            return Ok(());
        }
        let message = "requires the process that opened it, got a forked child, which has none of its threads: start \
                       the child anew (spawn) or open devices after the fork";
        Err(Error::new(ErrorKind::Device, "device", message))
    }

    /// Runs the job now, or queues it.
    pub fn submit(&self, job: Job) {
        if let Err(error) = self.check_process() {
            return job.fail_all(&error);
        }
        let cost = job.program.compiled().map(|executable| executable.cost());
        let bytes = cost.map_or(0, |cost| cost.peak_bytes);
        let mut state = self.shared.lock();
        if cost.is_some_and(|cost| cost.seconds < INLINE) && !state.running && state.jobs.is_empty() {
            state.running = true;
            state.bytes += bytes;
            drop(state);
            stats::ran(true);
            return self.shared.run(job, bytes);
        }
        stats::ran(false);
        loop {
            let in_flight = state.jobs.len() + state.running as usize;
            let fits = state.bytes.saturating_add(bytes) <= IN_FLIGHT_BYTES;
            if in_flight == 0 || (in_flight < IN_FLIGHT && fits) {
                break;
            }
            state = self.shared.wait(state);
        }
        if !state.started {
            let shared = self.shared.clone();
            let name = format!("{}:{}", self.shared.backend.name(), self.shared.device);
            match std::thread::Builder::new().name(name).spawn(move || shared.serve()) {
                Ok(_) => state.started = true,
                // No thread to be had: the recording thread does the work.
                Err(_) => {
                    while state.running || !state.jobs.is_empty() {
                        state = self.shared.wait(state);
                    }
                    state.running = true;
                    state.bytes += bytes;
                    drop(state);
                    return self.shared.run(job, bytes);
                }
            }
        }
        state.bytes += bytes;
        state.jobs.push_back((job, bytes));
        drop(state);
        self.shared.startable.notify_one();
    }

    /// Waits until what is queued or running now has ended.
    pub fn catch_up(&self) {
        if self.check_process().is_err() {
            return;
        }
        let mut state = self.shared.lock();
        let end = state.done + state.jobs.len() as u64 + u64::from(state.running);
        while state.done < end {
            state = self.shared.wait(state);
        }
    }

    /// Waits until nothing is queued or running.
    pub fn drain(&self) -> Result<()> {
        self.check_process()?;
        let mut state = self.shared.lock();
        while state.running || !state.jobs.is_empty() {
            state = self.shared.wait(state);
        }
        Ok(())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // In a forked child another thread of the parent may have held the lock.
        if self.check_process().is_ok() {
            let mut state = self.shared.lock();
            state.closed = true;
            // Values still scheduled must not leave a reader waiting.
            for (job, _) in state.jobs.drain(..) {
                job.fail_all(&Error::new(ErrorKind::Device, "device", "was closed with programs pending"));
            }
            drop(state);
            self.shared.startable.notify_one();
            self.shared.ended.notify_all();
        }
    }
}
