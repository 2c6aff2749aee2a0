//! Reading values: what cuts.

use super::Tensor;
use crate::lazy::mode::locate;
use crate::lazy::{Outcome, Reason};
use crate::{Element, Error, ErrorKind, Result, ensure};
use std::sync::Arc;

impl Tensor {
    /// All elements in row-major order. Cuts, and waits for the value. Errors if `T` is not the element type, or with
    /// the first error that the value depends on.
    ///
    /// ```
    /// use tpu_core::Tensor;
    /// assert_eq!(Tensor::from_slice(&[1u8, 2])?.add(1)?.to_vec::<u8>()?, [2, 3]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let location = locate(std::panic::Location::caller());
        self.read().map_err(|error| error.at(&location))
    }

    fn read<T: Element>(&self) -> Result<Vec<T>> {
        let dtype = self.dtype();
        ensure!(T::DTYPE == dtype, DType, "to_vec", "requires elements of {dtype}, asked for {}", T::DTYPE);
        let buffer = self.cell.wait(Reason::HostRead)?;
        let values = T::fill(self.elements(), |memory| buffer.start_read(memory)?.wait());
        values.unwrap_or_else(|| Err(self.no_memory()))
    }

    /// All elements as raw little-endian bytes in row-major order. Cuts, and waits for the value.
    #[track_caller]
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let location = locate(std::panic::Location::caller());
        let read = || {
            let buffer = self.cell.wait(Reason::HostRead)?;
            let len = self.ty().bytes().ok_or_else(|| self.no_memory())?;
            <u8 as Element>::fill(len, |memory| buffer.start_read(memory)?.wait())
                .unwrap_or_else(|| Err(self.no_memory()))
        };
        read().map_err(|error: Error| error.at(&location))
    }

    fn no_memory(&self) -> Error {
        Error::new(ErrorKind::OutOfMemory, "to_vec", format!("of {} does not fit into host memory", self.ty()))
    }

    /// The element of a tensor that has exactly one. Cuts, and waits for the value.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        let location = locate(std::panic::Location::caller());
        let read = || {
            let elements = self.elements();
            ensure!(elements == 1, Shape, "item", "requires exactly one element, got {}", self.ty());
            Ok(self.read()?[0])
        };
        read().map_err(|error| error.at(&location))
    }

    /// Makes the value real without waiting for it: cuts and queues.
    #[track_caller]
    pub fn realize(&self) -> Result<()> {
        let location = locate(std::panic::Location::caller());
        self.cell.schedule(Reason::Explicit).map(|_| ()).map_err(|error| error.at(&location))
    }

    /// Makes the value real and waits for it, without copying it to the host.
    #[track_caller]
    pub fn wait(&self) -> Result<()> {
        let location = locate(std::panic::Location::caller());
        self.cell.wait(Reason::Explicit).map(|_| ()).map_err(|error| error.at(&location))
    }

    /// The error of a value that has failed. Neither cuts nor waits: `None` also for values still to come.
    pub fn error(&self) -> Option<Error> {
        self.cell.slot.get()?.error()
    }

    /// Whether computing this value fails, to be asked later. It does not hold the value, and nothing is cut or waited for.
    pub fn outcome(&self) -> Outcome {
        let succession = match self.cell.slot.get() {
            Some(slot) => slot.succession(),
            None => self.cell.succession.get_or_init(Default::default),
        };
        Outcome::new(succession.clone())
    }

    /// Says that this value takes the place of `old` in a mutable cell such as a parameter. If computing it fails,
    /// [`restored`](Self::restored) finds the old value, even if the failed program was to overwrite it.
    pub fn replaces(&self, old: &Self) {
        match (old.cell.slot.get(), self.cell.slot.get()) {
            (Some(old), Some(slot)) => slot.set_replaces(old),
            // A value takes the place of another once.
            (Some(old), None) => {
                self.cell.succession.get_or_init(Default::default).set_old(Arc::downgrade(old));
            }
            // Both become one program, which fails as a whole: what the first was to replace.
            (None, None) if !Arc::ptr_eq(&self.cell, &old.cell) => {
                if let Some(older) = old.cell.succession.get().and_then(|succession| succession.old()) {
                    self.cell.succession.get_or_init(Default::default).set_old(Arc::downgrade(&older));
                }
            }
            (None, _) => {}
        }
    }

    /// If this value has failed and [`replaced`](Self::replaces) one that is intact: that one. Waits for a program that
    /// is already on its way, whose results fail one after the other; cuts nothing.
    pub fn restored(&self) -> Option<Self> {
        let slot = self.cell.slot.get()?;
        slot.wait().err()?;
        let old = slot.restored()?;
        Some(Self::from_cell(crate::lazy::cell::Cell::given(self.cell.stream.clone(), old)))
    }
}
