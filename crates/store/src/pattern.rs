//! Regular expressions with RE2's syntax and meaning, matched against the whole text.
//!
//! 1. [`re2`] reads the pattern as Go's `regexp/syntax` does and writes it in the syntax of
//!    `regex-syntax`, with every difference in meaning spelled out; what RE2 refuses is refused.
//! 2. [`shape`] looks at the parsed pattern for the forms that selectors mostly have (a few literals,
//!    a prefix, `.*`), which need no regular expression, and which postings can be looked up by.
//! 3. Everything else runs on `regex-automata`, whose time is linear in the text.

mod re2;
mod shape;
mod template;

use std::fmt;
use std::sync::Arc;

use regex_automata::meta::Regex;
use regex_automata::util::captures::Captures as Slots;
use regex_syntax::hir::{Hir, Look};

use shape::Shape;
pub use template::Template;

/// Bytes that a compiled pattern may take; a larger one is refused.
const COMPILED_LIMIT: usize = 16 << 20;

/// A compiled, fully anchored pattern. Cloning is cheap.
#[derive(Clone)]
pub struct Pattern {
    inner: Arc<Inner>,
}

struct Inner {
    source: Box<str>,
    shape: Shape,
    regex: Regex,
    group_names: Vec<Option<Box<str>>>,
}

impl Pattern {
    /// Compiles `source` as Prometheus does: RE2's syntax, `.` matches a newline, both ends anchored.
    ///
    /// # Errors
    /// What RE2 refuses, in the words of Go's `regexp`, and a pattern that needs more than 16 MiB.
    pub fn new(source: &str) -> Result<Self, PatternError> {
        let translated = re2::translate(source)?;
        let hir = regex_syntax::ParserBuilder::new()
            .dot_matches_new_line(true)
            .build()
            .parse(&translated.expression)
            .map_err(|error| PatternError::new(first_line(&error.to_string()), source))?;
        let shape = Shape::of(&hir);
        let anchored = Hir::concat(vec![Hir::look(Look::Start), hir, Hir::look(Look::End)]);
        let regex = Regex::builder()
            .configure(Regex::config().nfa_size_limit(Some(COMPILED_LIMIT)))
            .build_from_hir(&anchored)
            .map_err(|_| PatternError::new("expression too large", source))?;
        let inner =
            Inner { source: Box::from(source), shape, regex, group_names: translated.group_names };
        Ok(Pattern { inner: Arc::new(inner) })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.inner.source
    }

    /// Whether the whole of `text` matches. Allocates at a thread's first use of the pattern only.
    pub fn is_match(&self, text: &str) -> bool {
        match &self.inner.shape {
            Shape::Literals(literals) => {
                literals.binary_search_by(|literal| literal.as_ref().cmp(text)).is_ok()
            }
            Shape::Around { prefix, suffix, at_least } => {
                text.len() >= prefix.len() + suffix.len()
                    && text.starts_with(prefix.as_ref())
                    && text.ends_with(suffix.as_ref())
                    && text.len() - prefix.len() - suffix.len() >= *at_least
            }
            Shape::Contains(literal) => text.contains(literal.as_ref()),
            Shape::Other { prefix } => {
                text.starts_with(prefix.as_ref()) && self.inner.regex.is_match(text)
            }
        }
    }

    /// All texts that match, sorted, where they are few enough to be listed.
    pub fn literals(&self) -> Option<&[Box<str>]> {
        match &self.inner.shape {
            Shape::Literals(literals) => Some(literals),
            _ => None,
        }
    }

    /// What every text that matches begins with; empty if that says nothing.
    pub fn prefix(&self) -> &str {
        match &self.inner.shape {
            Shape::Around { prefix, .. } | Shape::Other { prefix } => prefix,
            Shape::Literals(_) | Shape::Contains(_) => "",
        }
    }

    /// The groups of a match of the whole `text`, in `captures`, which is reused. Steady.
    pub fn captures(&self, text: &str, captures: &mut Captures) -> bool {
        let fits = captures
            .pattern
            .as_ref()
            .is_some_and(|pattern| Arc::ptr_eq(&pattern.inner, &self.inner));
        if !fits {
            captures.slots = Some(self.inner.regex.create_captures());
            captures.pattern = Some(self.clone());
        }
        let slots = captures.slots.as_mut().expect("they were created above");
        self.inner.regex.captures(text, slots);
        slots.is_match()
    }
}

/// Where the groups of a pattern matched; belongs to the caller and is reused.
#[derive(Default)]
pub struct Captures {
    slots: Option<Slots>,
    pattern: Option<Pattern>,
}

impl Captures {
    /// The text of a group by its number; none where it took no part in the match.
    pub fn group<'t>(&self, text: &'t str, index: usize) -> Option<&'t str> {
        let span = self.slots.as_ref()?.get_group(index)?;
        text.get(span.start..span.end)
    }

    /// The text of a group by its name.
    pub fn named<'t>(&self, text: &'t str, name: &str) -> Option<&'t str> {
        let names = &self.pattern.as_ref()?.inner.group_names;
        let index = names.iter().position(|candidate| candidate.as_deref() == Some(name))?;
        self.group(text, index)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.as_str())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Pattern {}

/// Why a pattern was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    reason: String,
    at: String,
}

impl PatternError {
    #[cold]
    fn new(reason: impl Into<String>, at: impl Into<String>) -> Self {
        PatternError { reason: reason.into(), at: at.into() }
    }
}

/// In the words of Go's `regexp`: ``error parsing regexp: missing closing ]: `[a` ``.
impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.reason, self.at)
    }
}

impl std::error::Error for PatternError {}

fn first_line(text: &str) -> &str {
    text.lines().next_back().unwrap_or(text).trim_start_matches("error: ")
}

#[cfg(test)]
mod tests;
