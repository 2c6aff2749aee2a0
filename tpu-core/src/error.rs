//! The one error type of the stack.

use crate::Location;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, for programs that react to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Operand shapes do not fit the operation.
    Shape,
    /// An operand has a dtype the operation does not take.
    DType,
    /// An axis is out of range or repeated.
    Axis,
    /// An index is out of range, found when recording or while running.
    Index,
    /// An attribute or a number has a value the operation does not take.
    Value,
    /// Operands live on different devices, or the device does not exist.
    Device,
    /// An allocation was refused: too large, over the limit, or not to be had.
    OutOfMemory,
    /// The backend does not support the operation; the message names both.
    Unsupported,
    /// Text, a file or a checkpoint is damaged or of another format or model.
    Format,
    /// Reading or writing a file failed.
    Io,
    /// The backend or a plugin failed while running.
    Execution,
    /// A plugin did not end what it began in the time it is given.
    TimedOut,
    /// A rule of the IR was broken: a fault of this library, please report it.
    Internal,
}

/// An error: *op* requires *condition*, got *facts*, at *the caller's line*.
///
/// Cheap to clone: every value that depends on a failed operation carries the first error.
///
/// ```
/// use tpu_core::{Error, ErrorKind};
/// let error = Error::new(ErrorKind::Shape, "dot_general", "requires equal contracted sizes, got 3 and 4");
/// assert_eq!(error.kind(), ErrorKind::Shape);
/// assert_eq!(error.to_string(), "dot_general requires equal contracted sizes, got 3 and 4");
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    op: Cow<'static, str>,
    message: String,
    location: Location,
    /// When the user was last told of it, by [`TOLD`]; 0 before. One for all clones.
    told: Arc<AtomicU64>,
    /// When it was made, by [`MADE`].
    made: u64,
}

/// How many errors there have been.
static MADE: AtomicU64 = AtomicU64::new(0);

/// How often users have been told of an error of a value.
static TOLD: AtomicU64 = AtomicU64::new(0);

impl Error {
    /// An error of operation `op`; `message` continues the sentence that starts with its name.
    pub fn new(kind: ErrorKind, op: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        let (op, message, location) = (op.into(), message.into(), Location::UNKNOWN);
        let (told, made) = (Arc::default(), MADE.fetch_add(1, SeqCst));
        Self(Arc::new(Inner { kind, op, message, location, told, made }))
    }

    /// The same error with the user's source line, unless it already has one.
    pub fn at(mut self, location: &Location) -> Self {
        if self.0.location.file().is_none() {
            Arc::make_mut(&mut self.0).location = location.clone();
        }
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operation that failed, by its StableHLO or public name.
    pub fn op(&self) -> &str {
        &self.0.op
    }

    /// The condition and the facts, without operation and place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The user's line that recorded the failed operation.
    pub fn location(&self) -> &Location {
        &self.0.location
    }

    /// Says that the user is told of this error: reads that return the error of a failed value do so, and so does whoever else
    /// returns one. Clones are the same error.
    pub fn report(&self) {
        self.0.told.fetch_max(TOLD.fetch_add(1, SeqCst) + 1, SeqCst);
    }

    /// When it was made: errors of one device's programs in the order of the programs and of their operations.
    pub(crate) fn made(&self) -> u64 {
        self.0.made
    }

    /// When the user was last told of it: a number above what [`told_so_far`](Self::told_so_far) was until then; 0 before.
    pub(crate) fn told(&self) -> u64 {
        self.0.told.load(SeqCst)
    }

    pub(crate) fn told_so_far() -> u64 {
        TOLD.load(SeqCst)
    }

    /// An error of reading or writing `path`.
    pub fn io(op: &'static str, path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::new(ErrorKind::Io, op, format!("could not use {}: {error}", path.display()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { op, message, location, .. } = &*self.0;
        write!(f, "{op} {message}")?;
        match location.file() {
            Some(_) => write!(f, ", at {location}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}

/// `bail!(Kind, op, "message {}", facts)`: returns an error from the enclosing function.
#[macro_export]
macro_rules! bail {
    ($kind:ident, $op:expr, $($message:tt)*) => {
        return Err($crate::Error::new($crate::ErrorKind::$kind, $op, format!($($message)*)))
    };
}

/// `ensure!(condition, Kind, op, "message {}", facts)`: [`bail!`] unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $kind:ident, $op:expr, $($message:tt)*) => {
        if !$condition {
            $crate::bail!($kind, $op, $($message)*);
        }
    };
}
