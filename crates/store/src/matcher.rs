//! Conditions on one label of a series.

use std::fmt;

use crate::pattern::{Pattern, PatternError};

/// How a matcher compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchOp {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `=~`
    Match,
    /// `!~`
    NotMatch,
}

impl MatchOp {
    /// The operator as PromQL writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            MatchOp::Equal => "=",
            MatchOp::NotEqual => "!=",
            MatchOp::Match => "=~",
            MatchOp::NotMatch => "!~",
        }
    }
}

/// A condition on the value of one label; an absent label has the value `""`.
#[derive(Clone, Debug)]
pub struct Matcher {
    name: String,
    op: MatchOp,
    value: String,
    pattern: Option<Pattern>,
}

impl Matcher {
    /// Builds a matcher; a pattern that RE2 would refuse is an error.
    pub fn new(op: MatchOp, name: &str, value: &str) -> Result<Self, PatternError> {
        let pattern = match op {
            MatchOp::Match | MatchOp::NotMatch => Some(Pattern::new(value)?),
            MatchOp::Equal | MatchOp::NotEqual => None,
        };
        Ok(Matcher { name: name.to_owned(), op, value: value.to_owned(), pattern })
    }

    /// `name="value"`.
    pub fn equal(name: &str, value: &str) -> Self {
        Matcher {
            name: name.to_owned(),
            op: MatchOp::Equal,
            value: value.to_owned(),
            pattern: None,
        }
    }

    /// The label's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it compares.
    pub fn op(&self) -> MatchOp {
        self.op
    }

    /// What it compares with: a value or the source of a pattern.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The compiled pattern of `=~` and `!~`.
    pub fn pattern(&self) -> Option<&Pattern> {
        self.pattern.as_ref()
    }

    /// Whether a label of this value passes.
    pub fn matches(&self, value: &str) -> bool {
        match (self.op, &self.pattern) {
            (MatchOp::Equal, _) => self.value == value,
            (MatchOp::NotEqual, _) => self.value != value,
            (MatchOp::Match, Some(pattern)) => pattern.is_match(value),
            (MatchOp::NotMatch, Some(pattern)) => !pattern.is_match(value),
            (MatchOp::Match | MatchOp::NotMatch, None) => {
                unreachable!("a matcher of a pattern is built with it")
            }
        }
    }

    /// Whether a series without the label passes.
    pub fn matches_empty(&self) -> bool {
        self.matches("")
    }
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.op == other.op && self.value == other.value
    }
}

impl Eq for Matcher {}

/// `name="value"`, with Go's quoting.
impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if crate::labels::is_legacy_name(&self.name) {
            f.write_str(&self.name)?;
        } else {
            write!(f, "{:?}", self.name)?;
        }
        write!(f, "{}{:?}", self.op.as_str(), self.value)
    }
}
