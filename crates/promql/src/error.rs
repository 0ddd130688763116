//! Why a query has no answer.

use std::fmt;

/// Why a query has no answer. The texts are those of Prometheus, because clients compare them.
#[derive(Debug)]
pub enum QueryError {
    /// It ran longer than its timeout.
    Timeout,
    /// It was cancelled.
    Cancelled,
    /// It would hold more samples than it may.
    TooManySamples,
    /// It cannot be evaluated on these series.
    Execution(String),
    /// The store could not be read.
    Storage(store::Error),
}

impl QueryError {
    /// It cannot be evaluated, for this reason.
    #[cold]
    pub(crate) fn execution(reason: impl Into<String>) -> Self {
        QueryError::Execution(reason.into())
    }
}

impl From<store::Error> for QueryError {
    fn from(error: store::Error) -> Self {
        QueryError::Storage(error)
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::Timeout => f.write_str("query timed out in expression evaluation"),
            QueryError::Cancelled => f.write_str("query was canceled in expression evaluation"),
            QueryError::TooManySamples => f.write_str(
                "query processing would load too many samples into memory in query execution",
            ),
            QueryError::Execution(reason) => f.write_str(reason),
            QueryError::Storage(error) => write!(f, "expanding series: {error}"),
        }
    }
}

impl std::error::Error for QueryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            QueryError::Storage(error) => Some(error),
            _ => None,
        }
    }
}
