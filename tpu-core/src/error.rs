//! The one error type of the stack.

use crate::Location;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

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
}

impl Error {
    /// An error of operation `op`; `message` continues the sentence that starts with its name.
    pub fn new(kind: ErrorKind, op: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner { kind, op: op.into(), message: message.into(), location: Location::UNKNOWN }))
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
