//! Where in the user's program an operation was recorded.

use std::fmt;
use std::sync::Arc;

/// A place in the user's source, Rust or foreign, with the module scope it was recorded under.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Location {
    site: Site,
    scope: Option<Arc<str>>,
}

#[derive(Clone, PartialEq, Eq, Default)]
enum Site {
    #[default]
    Unknown,
    Rust(&'static std::panic::Location<'static>),
    Foreign(Arc<Frame>),
}

#[derive(PartialEq, Eq)]
struct Frame {
    file: String,
    line: u32,
    function: String,
}

impl Location {
    /// A place nobody knows.
    pub const UNKNOWN: Self = Self { site: Site::Unknown, scope: None };

    /// The line that called the enclosing `#[track_caller]` function.
    #[track_caller]
    pub fn caller() -> Self {
        Self::rust(std::panic::Location::caller())
    }

    /// A line of a Rust program.
    pub const fn rust(site: &'static std::panic::Location<'static>) -> Self {
        Self { site: Site::Rust(site), scope: None }
    }

    /// A frame of another language, for example of a Python program.
    pub fn foreign(file: impl Into<String>, line: u32, function: impl Into<String>) -> Self {
        let frame = Frame { file: file.into(), line, function: function.into() };
        Self { site: Site::Foreign(Arc::new(frame)), scope: None }
    }

    /// The same place under a module scope such as `blocks.3.attention`.
    pub fn with_scope(self, scope: Option<Arc<str>>) -> Self {
        Self { scope, ..self }
    }

    /// The source file.
    pub fn file(&self) -> Option<&str> {
        match &self.site {
            Site::Unknown => None,
            Site::Rust(site) => Some(site.file()),
            Site::Foreign(frame) => Some(&frame.file),
        }
    }

    /// The line, from 1.
    pub fn line(&self) -> Option<u32> {
        match &self.site {
            Site::Unknown => None,
            Site::Rust(site) => Some(site.line()),
            Site::Foreign(frame) => Some(frame.line),
        }
    }

    /// The module scope.
    pub fn scope(&self) -> Option<&str> {
        self.scope.as_deref()
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.site {
            Site::Unknown => f.write_str("an unknown place")?,
            Site::Rust(site) => write!(f, "{}:{}:{}", site.file(), site.line(), site.column())?,
            Site::Foreign(frame) => write!(f, "{}:{} in {}", frame.file, frame.line, frame.function)?,
        }
        match &self.scope {
            Some(scope) => write!(f, " ({scope})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
