//! What can go wrong in the store.

use std::fmt;

/// An error of the store: what could not be done, on which file, and why.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    context: String,
}

#[derive(Debug)]
enum Kind {
    Io(std::io::Error),
    Corrupt(String),
    Locked,
    Full,
    Closed,
}

impl Error {
    /// The disk refused.
    #[cold]
    pub fn io(context: impl Into<String>, error: std::io::Error) -> Self {
        Error { kind: Kind::Io(error), context: context.into() }
    }

    /// The disk holds something else than what was written there.
    #[cold]
    pub fn corrupt(context: impl Into<String>, reason: impl Into<String>) -> Self {
        Error { kind: Kind::Corrupt(reason.into()), context: context.into() }
    }

    /// Somebody else works on the same directory.
    #[cold]
    pub fn locked(context: impl Into<String>) -> Self {
        Error { kind: Kind::Locked, context: context.into() }
    }

    /// A bound of the store is reached; the context says which.
    #[cold]
    pub fn full(context: impl Into<String>) -> Self {
        Error { kind: Kind::Full, context: context.into() }
    }

    /// The store was closed.
    #[cold]
    pub fn closed() -> Self {
        Error { kind: Kind::Closed, context: "store".to_owned() }
    }

    /// Whether a bound of the store is reached.
    pub fn is_full(&self) -> bool {
        matches!(self.kind, Kind::Full)
    }

    /// Whether another process holds the data directory.
    pub fn is_locked(&self) -> bool {
        matches!(self.kind, Kind::Locked)
    }

    /// Whether a file that should be there isn't.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(&self.kind, Kind::Io(error) if error.kind() == std::io::ErrorKind::NotFound)
    }

    /// Whether the data is damaged, as opposed to unreachable.
    pub fn is_corrupt(&self) -> bool {
        matches!(self.kind, Kind::Corrupt(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Io(error) => write!(f, "{}: {error}", self.context),
            Kind::Corrupt(reason) => write!(f, "{}: corrupt: {reason}", self.context),
            Kind::Full => write!(f, "{}", self.context),
            Kind::Closed => write!(f, "{}: it was closed", self.context),
            Kind::Locked => write!(
                f,
                "{}: another process uses this data directory; stop it or choose another one",
                self.context
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            Kind::Io(error) => Some(error),
            Kind::Corrupt(_) | Kind::Locked | Kind::Full | Kind::Closed => None,
        }
    }
}
