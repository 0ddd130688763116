//! What can be wrong with a registration.

use std::fmt;

/// A family that can't be registered: which, and why; where another one is in the way, which.
#[derive(Debug)]
pub struct Error {
    family: String,
    kind: ErrorKind,
}

#[derive(Debug)]
pub(crate) enum ErrorKind {
    Name(&'static str),
    Label(String, &'static str),
    Unit(String),
    Bounds(String),
    Taken(String),
    Differs(&'static str, String),
}

impl Error {
    #[cold]
    pub(crate) fn new(family: impl Into<String>, kind: ErrorKind) -> Self {
        Error { family: family.into(), kind }
    }

    /// Whether another family has the name already.
    pub fn is_taken(&self) -> bool {
        matches!(self.kind, ErrorKind::Taken(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "can't register {}: ", self.family)?;
        match &self.kind {
            ErrorKind::Name(reason) => write!(f, "the name {reason}"),
            ErrorKind::Label(label, reason) => write!(f, "the label {label:?} {reason}"),
            ErrorKind::Unit(unit) => {
                write!(f, "the name has to end in its unit, _{unit}, before any _total")
            }
            ErrorKind::Bounds(reason) => f.write_str(reason),
            ErrorKind::Taken(by) => write!(f, "{by} is registered already"),
            ErrorKind::Differs(what, from) => {
                write!(f, "its {what} differs from that of {from}, which has the same name")
            }
        }
    }
}

impl std::error::Error for Error {}
