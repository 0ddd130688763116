//! Patterns from outside: matched against the whole text, in time linear in it, in bounded memory.

use std::fmt;

use regex_automata::meta::Regex;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, Look};

/// The longest pattern, in bytes.
const LONGEST: usize = 4096;

/// Bytes that a compiled pattern may take.
const COMPILED: usize = 1 << 20;

/// Bytes that matching may keep beside.
const CACHE: usize = 256 << 10;

/// A pattern that is anchored at both ends, in the syntax of the crate `regex`; `.` matches every
/// character.
#[derive(Clone, Debug)]
pub(super) struct Pattern(Regex);

/// Why a pattern is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PatternError(String);

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Pattern {
    /// Compiles `source`. *Setup.*
    pub(super) fn new(source: &str) -> Result<Pattern, PatternError> {
        let refused = |why: &str| PatternError(format!("the pattern {source:?} {why}"));
        if source.len() > LONGEST {
            return Err(PatternError(format!("a pattern is longer than {LONGEST} bytes")));
        }
        let parsed = ParserBuilder::new().dot_matches_new_line(true).build().parse(source);
        let pattern = parsed.map_err(|error| {
            let text = error.to_string();
            let reason = text.lines().next_back().unwrap_or_default();
            refused(&format!("can't be read: {}", reason.trim_start_matches("error: ")))
        })?;
        let config = Regex::config()
            .nfa_size_limit(Some(COMPILED))
            .hybrid_cache_capacity(CACHE)
            .onepass_size_limit(Some(CACHE))
            .dfa_size_limit(Some(CACHE));
        let whole = Hir::concat(vec![Hir::look(Look::Start), pattern, Hir::look(Look::End)]);
        Regex::builder()
            .configure(config)
            .build_from_hir(&whole)
            .map(Pattern)
            .map_err(|_| refused("takes too much memory"))
    }

    /// Whether the whole of `text` matches. *Growth* at the first texts, up to the bound; then *steady*.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a", "ba", false),
            ("a|bc", "bc", true),
            ("a|bc", "ac", false),
            ("orders-.*", "orders-", true),
            ("orders-.*", "orders-\n花", true),
            ("", "", true),
            ("", "a", false),
            (".+", "", false),
            ("(?i)a", "A", true),
            ("(?x)a # b", "a", true),
            (r"\d+", "017", true),
        ] {
            let compiled = Pattern::new(pattern).unwrap();
            assert_eq!(compiled.matches(text), expected, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn what_is_broken_or_too_large_is_refused() {
        for (pattern, reason) in [
            ("(", "the pattern \"(\" can't be read: unclosed group"),
            ("a)|(b", "the pattern \"a)|(b\" can't be read: unopened group"),
            ("[a", "the pattern \"[a\" can't be read: unclosed character class"),
            ("((a{1000}){1000}){1000}", "takes too much memory"),
            (r"(\w{500}){500}", "takes too much memory"),
            (&"a".repeat(5000), "a pattern is longer than 4096 bytes"),
        ] {
            let error = Pattern::new(pattern).unwrap_err().to_string();
            assert!(error.contains(reason), "{pattern:?}: {error}");
        }
    }

    #[test]
    fn time_is_linear_where_backtracking_would_not_end() {
        let pattern = Pattern::new("(a*)*(a|a)*b").unwrap();
        assert!(!pattern.matches(&"a".repeat(100_000)));
    }
}
