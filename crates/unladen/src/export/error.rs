//! What can be wrong with an export.

use std::fmt;

/// An export that failed, or did so in part: why, and what becomes of the points.
#[derive(Debug)]
pub struct Error {
    exporter: &'static str,
    reason: Reason,
    message: String,
    is_kept: bool,
}

/// Why points did not get there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Nobody answered, or not in time.
    Unreachable,
    /// The other side said that it can't take them now.
    Busy,
    /// The other side took none of them and will not.
    Refused,
    /// The other side took some and will not take the others.
    Partial,
    /// An earlier failure has to be waited for.
    Waiting,
    /// Writing failed.
    Io,
    /// Nothing came of it in the time there was.
    Timeout,
    /// The exporter panicked.
    Panic,
}

impl Reason {
    /// As the label of a metric.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Unreachable => "unreachable",
            Reason::Busy => "busy",
            Reason::Refused => "refused",
            Reason::Partial => "partial",
            Reason::Waiting => "waiting",
            Reason::Io => "io",
            Reason::Timeout => "timeout",
            Reason::Panic => "panic",
        }
    }
}

impl Error {
    /// An export by `exporter` that failed for `reason`; `message` says what happened and what to do.
    #[cold]
    pub fn new(exporter: &'static str, reason: Reason, message: impl Into<String>) -> Self {
        Error { exporter, reason, message: message.into(), is_kept: false }
    }

    /// The same where the points wait for another attempt.
    #[must_use]
    pub fn kept(self) -> Self {
        Error { is_kept: true, ..self }
    }

    /// The same with what came before it.
    pub(super) fn after(mut self, before: &Error) -> Self {
        self.message = format!("{}; before that: {}", self.message, before.message);
        self
    }

    /// Why.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Whether the points wait for another attempt.
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} export: {}", self.exporter, self.message)?;
        if self.is_kept { f.write_str("; will be tried again") } else { Ok(()) }
    }
}

impl std::error::Error for Error {}
