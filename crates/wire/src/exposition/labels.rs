//! The labels of a series that was read, and what their escapes mean.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use super::Kind;
use super::reader::{is_name_byte, is_name_start};
use crate::number;

/// A label as it stands in a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Label<'a> {
    /// The name; `__name__` for the metric's.
    pub name: Escaped<'a>,
    /// The value.
    pub value: Escaped<'a>,
}

impl Label<'_> {
    /// Whether this is the metric's name.
    pub fn is_metric_name(&self) -> bool {
        self.name.raw == "__name__"
    }
}

/// A text that may hold escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Escaped<'a> {
    raw: &'a str,
    rules: Rules,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    Plain,
    /// `\\`, `\n` and `\"`.
    Label,
    /// `\\` and `\n`.
    Help,
    /// As `Label`, then a number in OpenMetrics' spelling if it is one.
    Float,
}

impl<'a> Escaped<'a> {
    pub(super) const fn plain(raw: &'a str) -> Self {
        Escaped { raw, rules: Rules::Plain }
    }

    pub(super) const fn label(raw: &'a str) -> Self {
        Escaped { raw, rules: Rules::Label }
    }

    pub(super) const fn help(raw: &'a str) -> Self {
        Escaped { raw, rules: Rules::Help }
    }

    /// As it stands, without the quotes.
    pub fn raw(&self) -> &'a str {
        self.raw
    }

    /// The text, if it needs no work.
    pub fn as_plain(&self) -> Option<&'a str> {
        match self.rules {
            Rules::Plain => Some(self.raw),
            Rules::Label | Rules::Help => (!self.raw.contains('\\')).then_some(self.raw),
            Rules::Float => None,
        }
    }

    /// Appends the text to `out`. *Growth* of `out`, otherwise steady.
    ///
    /// As in Prometheus, a backslash before any character that needs none stands for itself.
    pub fn unescape_into(&self, out: &mut String) {
        if self.rules == Rules::Float {
            let mut digits = number::Buffer::new();
            return match self.float() {
                Some(value) => out.push_str(digits.openmetrics(value)),
                None => Escaped::label(self.raw).unescape_into(out),
            };
        }
        if let Some(plain) = self.as_plain() {
            return out.push_str(plain);
        }
        let mut rest = self.raw;
        while let Some(at) = rest.find('\\') {
            let (before, escape) = rest.split_at(at);
            out.push_str(before);
            let (text, length) = match escape.as_bytes().get(1) {
                Some(b'\\') => ("\\", 2),
                Some(b'n') => ("\n", 2),
                Some(b'"') if self.rules != Rules::Help => ("\"", 2),
                _ => ("\\", 1),
            };
            out.push_str(text);
            rest = &escape[length..];
        }
        out.push_str(rest);
    }

    /// The text: what stands there where it needs no work, otherwise what is written to `scratch`,
    /// which is cleared for it. *Steady* once `scratch` is large enough.
    pub fn resolve<'s>(&self, scratch: &'s mut String) -> &'s str
    where
        'a: 's,
    {
        if let Some(plain) = self.as_plain() {
            return plain;
        }
        scratch.clear();
        self.unescape_into(scratch);
        scratch
    }

    /// The text, on the heap only where it needs work.
    pub fn to_cow(&self) -> Cow<'a, str> {
        match self.as_plain() {
            Some(plain) => Cow::Borrowed(plain),
            None => {
                let mut text = String::new();
                self.unescape_into(&mut text);
                Cow::Owned(text)
            }
        }
    }

    /// The value of `le` or `quantile`. One that holds an escape is none that a number has.
    fn float(&self) -> Option<f64> {
        number::parse_literal(self.raw.as_bytes()).ok()
    }
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_cow())
    }
}

/// The labels of a series, in the order in which they stand.
#[derive(Clone, Debug)]
pub struct Labels<'a> {
    rest: &'a str,
    kind: Kind,
}

impl<'a> Labels<'a> {
    /// `series` was read before, so that its grammar is known to hold.
    pub(super) fn new(series: &'a str, kind: Kind) -> Self {
        Labels { rest: series, kind }
    }

    fn skip(&mut self, bytes: &[u8]) {
        self.rest =
            self.rest.trim_start_matches(|c: char| c.is_ascii() && bytes.contains(&(c as u8)));
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// The inside of a token in quotes, if one stands here.
    fn quoted(&mut self) -> Option<&'a str> {
        let bytes = self.rest.as_bytes();
        if bytes.first() != Some(&b'"') {
            return None;
        }
        let mut at = 1;
        while at < bytes.len() && bytes[at] != b'"' {
            if bytes[at] == b'\\' {
                at += 1;
                // The reader takes NULs between a backslash and what it escapes along.
                while bytes.get(at) == Some(&0) {
                    at += 1;
                }
            }
            at += 1;
        }
        let token = self.take((at + 1).min(bytes.len()));
        Some(&token[1..token.len() - 1])
    }

    fn word(&mut self) -> &'a str {
        let length = self.rest.bytes().position(|b| !is_name_byte(b)).unwrap_or(self.rest.len());
        self.take(length)
    }

    fn is_float(&self, name: &str) -> bool {
        matches!((self.kind, name), (Kind::Histogram, "le") | (Kind::Summary, "quantile"))
    }
}

const METRIC_NAME: Escaped<'static> = Escaped::plain("__name__");

impl<'a> Iterator for Labels<'a> {
    type Item = Label<'a>;

    fn next(&mut self) -> Option<Label<'a>> {
        if self.rest.bytes().next().is_some_and(is_name_start) {
            // Only the metric's own name stands before the braces; within them a name leads to `=`.
            let before = self.rest;
            let word = self.word();
            self.skip(b" \t");
            if !self.rest.starts_with('=') {
                return Some(Label { name: METRIC_NAME, value: Escaped::plain(word) });
            }
            self.rest = before;
        }
        self.skip(b"{, \t");
        let name = match self.quoted() {
            Some(quoted) => Escaped::label(quoted),
            None => Escaped::plain(self.word()),
        };
        self.skip(b" \t");
        if !self.rest.starts_with('=') {
            let is_name = name.rules == Rules::Label;
            return is_name.then_some(Label { name: METRIC_NAME, value: name });
        }
        self.skip(b"= \t");
        let raw = self.quoted()?;
        let rules = if self.is_float(name.raw) { Rules::Float } else { Rules::Label };
        self.skip(b", \t");
        Some(Label { name, value: Escaped { raw, rules } })
    }
}

/// Names kept without a heap.
const INLINE: usize = 16;

/// Where the names of the series under the cursor stand, to find one that stands twice.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    inline: [(usize, usize); INLINE],
    length: usize,
    /// Beyond that, all of them: sorted, because a hostile line may hold a hundred thousand.
    spilled: Vec<(usize, usize)>,
}

impl Names {
    pub(super) fn clear(&mut self) {
        self.length = 0;
        self.spilled.clear();
    }

    pub(super) fn push(&mut self, begin: usize, end: usize) {
        if self.length < INLINE {
            self.inline[self.length] = (begin, end);
        } else {
            if self.length == INLINE {
                self.spilled.extend_from_slice(&self.inline);
            }
            self.spilled.push((begin, end));
        }
        self.length += 1;
    }

    /// Where a name begins that stood before. The metric's own name is a label, too.
    pub(super) fn duplicate(&mut self, body: &[u8]) -> Option<usize> {
        let text = |&(begin, end): &(usize, usize)| &body[begin..end];
        if self.length <= INLINE {
            let names = &self.inline[..self.length];
            return names.iter().enumerate().find_map(|(index, name)| {
                let twice = text(name) == b"__name__"
                    || names[..index].iter().any(|other| same_name(text(other), text(name)));
                twice.then_some(name.0)
            });
        }
        self.spilled.sort_unstable_by(|a, b| compare_names(text(a), text(b)).then(a.cmp(b)));
        let twice = self
            .spilled
            .windows(2)
            .find(|pair| compare_names(text(&pair[0]), text(&pair[1])).is_eq())
            .map(|pair| pair[1].0);
        twice.or_else(|| self.spilled.iter().find(|n| text(n) == b"__name__").map(|n| n.0))
    }
}

fn same_name(a: &[u8], b: &[u8]) -> bool {
    a == b || ((a.contains(&b'\\') || b.contains(&b'\\')) && compare_names(a, b).is_eq())
}

fn compare_names(a: &[u8], b: &[u8]) -> Ordering {
    unescaped(a).cmp(unescaped(b))
}

fn unescaped(name: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = name;
    std::iter::from_fn(move || {
        let (byte, length) = match rest {
            [] => return None,
            [b'\\', b'\\', ..] => (b'\\', 2),
            [b'\\', b'n', ..] => (b'\n', 2),
            [b'\\', b'"', ..] => (b'"', 2),
            [byte, ..] => (*byte, 1),
        };
        rest = &rest[length..];
        Some(byte)
    })
}
