//! Regular expressions with RE2's syntax and meaning, matched against the whole text.

use std::fmt;
use std::sync::Arc;

use regex_automata::meta::Regex;

/// A compiled, fully anchored pattern. Cloning is cheap.
#[derive(Clone)]
pub struct Pattern {
    source: Arc<str>,
    regex: Regex,
}

impl Pattern {
    /// Compiles `source` as Prometheus does: RE2 syntax, `.` matches a newline, anchored at both ends.
    pub fn new(source: &str) -> Result<Self, PatternError> {
        let anchored = format!("^(?s:{source})$");
        let regex = Regex::new(&anchored).map_err(|error| PatternError {
            source: source.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Pattern { source: Arc::from(source), regex })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Whether the whole of `text` matches.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.source)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Pattern {}

/// Why a pattern was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    source: String,
    reason: String,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.reason, self.source)
    }
}

impl std::error::Error for PatternError {}
