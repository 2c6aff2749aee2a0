//! The value behind a tensor handle: where it comes from and, once scheduled, where it arrives.

use super::outcome::Succession;
use super::slot::Slot;
use super::stream::Stream;
use super::trace::Trace;
use crate::ir::{Type, Value};
use crate::lazy::Reason;
use crate::runtime::Buffer;
use crate::{Error, ErrorKind, Result, bail};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Shared by all clones of a tensor. Its existence is what makes a pending value live at a cut.
pub(crate) struct Cell {
    pub ty: Type,
    pub stream: Arc<Stream>,
    pub origin: Origin,
    /// Set by the cut that schedules the value, after the program is in the device's queue.
    pub slot: OnceLock<Arc<Slot>>,
    /// What the value is to a mutable cell; handed on to the slot.
    pub succession: OnceLock<Arc<Succession>>,
}

/// Where a value comes from.
pub(crate) enum Origin {
    /// A result of a recorded node of the stream.
    Node { seq: u64, result: u32 },
    /// Given by the user; the slot is set from the start.
    Given,
    /// A value of a program being traced. Boxed, as the size of a cell decides how fast its memory is had.
    Trace(Box<(Arc<Trace>, Value)>),
}

impl Cell {
    /// A value that is there already.
    pub fn given(stream: Arc<Stream>, slot: Arc<Slot>) -> Arc<Self> {
        Arc::new(Self {
            ty: slot.ty().clone(),
            stream,
            origin: Origin::Given,
            slot: slot.into(),
            succession: OnceLock::new(),
        })
    }

    /// The slot, after making sure that the value is scheduled.
    pub fn schedule(self: &Arc<Self>, reason: Reason) -> Result<&Arc<Slot>> {
        if self.slot.get().is_none() {
            if matches!(self.origin, Origin::Trace(..)) {
                bail!(Value, "read", "requires a value, got an argument of a program that is being traced");
            }
            self.stream.cut_for(self, reason);
        }
        self.slot.get().ok_or_else(|| Error::new(ErrorKind::Internal, "cut", "left a value unscheduled"))
    }

    /// Waits for the value, cutting if need be.
    pub fn wait(self: &Arc<Self>, reason: Reason) -> Result<Arc<dyn Buffer>> {
        let slot = self.schedule(reason)?;
        self.stream.device().queue().check_process()?;
        slot.wait().inspect_err(|error| self.stream.report(error))
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        if let (Origin::Node { .. }, None) = (&self.origin, self.slot.get()) {
            self.stream.release();
        }
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match (self.slot.get(), &self.origin) {
            (Some(slot), _) => match slot.error() {
                Some(_) => "failed",
                None => "scheduled",
            },
            (None, Origin::Trace(..)) => "traced",
            (None, _) => "pending",
        };
        write!(f, "{} on {}, {state}", self.ty, self.stream.device())
    }
}
