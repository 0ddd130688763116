//! What can go wrong when a profiler is started or read.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// Why a profiler could not start, or could not do what it was asked.
#[derive(Debug)]
pub struct Error {
    what: Cow<'static, str>,
    source: Option<io::Error>,
}

impl Error {
    /// With words that say what was tried and what to do.
    #[cold]
    pub(crate) fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Error { what: what.into(), source: None }
    }

    /// With what the system said.
    #[cold]
    pub(crate) fn system(what: impl Into<Cow<'static, str>>, source: io::Error) -> Self {
        Error { what: what.into(), source: Some(source) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            None => f.write_str(&self.what),
            Some(source) => write!(f, "{}: {source}", self.what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
