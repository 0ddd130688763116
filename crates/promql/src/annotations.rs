//! Warnings and infos about an answer, with the place in the query that caused them.
//!
//! Annotations with the same text are one annotation. They come out sorted by text, whatever the
//! order in which threads found them.

use std::collections::BTreeMap;

use crate::ast::Span;
use crate::number;

/// How grave an annotation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The answer is probably not what was meant.
    Warning,
    /// The answer may be worth a second look.
    Info,
}

#[derive(Clone, Debug, PartialEq)]
enum Detail {
    None,
    /// Classic buckets that had to be made monotonic.
    Monotonicity(Repair),
    /// How often a start time overlapped.
    Occurrences(u32),
}

/// What had to be repaired for classic buckets to be monotonic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Repair {
    /// First and last time, in milliseconds.
    pub(crate) times: (i64, i64),
    /// Lowest and highest bucket.
    pub(crate) buckets: (f64, f64),
    /// The largest difference that was repaired.
    pub(crate) max_difference: f64,
    /// The number of samples behind the first one.
    pub(crate) count: u64,
}

impl Repair {
    fn merge(&mut self, other: &Repair) {
        self.times = (self.times.0.min(other.times.0), self.times.1.max(other.times.1));
        self.buckets = (self.buckets.0.min(other.buckets.0), self.buckets.1.max(other.buckets.1));
        self.max_difference = self.max_difference.max(other.max_difference);
        self.count += other.count + 1;
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Annotation {
    span: Span,
    detail: Detail,
}

/// The annotations of one query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations {
    entries: BTreeMap<(Severity, String), Annotation>,
}

impl Annotations {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The warnings as Prometheus prints them, at most `limit` (0: all) and then how many more there
    /// are. `query` is the text that was evaluated; positions are `line:column` in it, from 1.
    pub fn warnings(&self, query: &str, limit: usize) -> Vec<String> {
        self.render(Severity::Warning, query, limit)
    }

    /// The infos, like [`Annotations::warnings`].
    pub fn infos(&self, query: &str, limit: usize) -> Vec<String> {
        self.render(Severity::Info, query, limit)
    }

    fn render(&self, severity: Severity, query: &str, limit: usize) -> Vec<String> {
        let mut lines: Vec<String> = self
            .entries
            .iter()
            .filter(|((candidate, _), _)| *candidate == severity)
            .map(|((_, text), annotation)| annotation.render(severity, text, query))
            .collect();
        if limit > 0 && lines.len() > limit {
            let name = match severity {
                Severity::Warning => "warning",
                Severity::Info => "info",
            };
            let omitted = lines.len() - limit;
            lines.truncate(limit);
            lines.push(format!("{omitted} more {name} annotations omitted"));
        }
        lines
    }

    /// Adds a warning.
    pub(crate) fn warn(&mut self, span: Span, text: String) {
        self.add(Severity::Warning, span, text, Detail::None);
    }

    /// Adds an info.
    pub(crate) fn info(&mut self, span: Span, text: String) {
        self.add(Severity::Info, span, text, Detail::None);
    }

    /// Adds an info about repaired buckets.
    pub(crate) fn repaired(&mut self, span: Span, text: String, repair: Repair) {
        self.add(Severity::Info, span, text, Detail::Monotonicity(repair));
    }

    /// Adds a warning that counts its occurrences.
    pub(crate) fn occurred(&mut self, span: Span, text: String) {
        self.add(Severity::Warning, span, text, Detail::Occurrences(1));
    }

    fn add(&mut self, severity: Severity, span: Span, text: String, detail: Detail) {
        match self.entries.entry((severity, text)) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(Annotation { span, detail });
            }
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                let entry = entry.get_mut();
                entry.span = span;
                match (&mut entry.detail, detail) {
                    (Detail::Monotonicity(repair), Detail::Monotonicity(other)) => {
                        repair.merge(&other);
                    }
                    (Detail::Occurrences(count), Detail::Occurrences(other)) => *count += other,
                    _ => {}
                }
            }
        }
    }

    /// Takes over the annotations of a part of the work.
    pub(crate) fn merge(&mut self, other: Annotations) {
        for ((severity, text), annotation) in other.entries {
            self.add(severity, annotation.span, text, annotation.detail);
        }
    }
}

impl Annotation {
    fn render(&self, severity: Severity, text: &str, query: &str) -> String {
        let prefix = match severity {
            Severity::Warning => "PromQL warning",
            Severity::Info => "PromQL info",
        };
        let position = position(query, self.span);
        match &self.detail {
            Detail::None | Detail::Occurrences(0 | 1) => format!("{prefix}: {text} ({position})"),
            Detail::Occurrences(count) => {
                format!("{prefix}: {text} ({count} occurrences) ({position})")
            }
            Detail::Monotonicity(repair) => format!(
                "{prefix}: {text}, from buckets {} to {}, with a max diff of {}, over {} samples \
                 from {} to {} ({position})",
                number::general(repair.buckets.0),
                number::general(repair.buckets.1),
                number::general_rounded(repair.max_difference, 2),
                repair.count + 1,
                number::rfc3339(repair.times.0),
                number::rfc3339(repair.times.1),
            ),
        }
    }
}

/// `line:column` of the start of `span`, both from 1, columns in bytes.
fn position(query: &str, span: Span) -> String {
    let Some(before) = query.as_bytes().get(..span.start as usize) else {
        return "invalid position".to_owned();
    };
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = match before.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => before.len() - at,
        None => before.len() + 1,
    };
    format!("{line}:{column}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_annotation_and_come_out_sorted() {
        let mut annotations = Annotations::default();
        annotations.warn(Span { start: 4, end: 5 }, "b".to_owned());
        annotations.warn(Span { start: 1, end: 5 }, "a".to_owned());
        annotations.warn(Span { start: 4, end: 5 }, "b".to_owned());
        annotations.info(Span { start: 0, end: 5 }, "c".to_owned());
        assert_eq!(
            annotations.warnings("x +\n y", 0),
            ["PromQL warning: a (1:2)", "PromQL warning: b (2:1)"]
        );
        assert_eq!(
            annotations.warnings("x +\n y", 1),
            ["PromQL warning: a (1:2)", "1 more warning annotations omitted"]
        );
        assert_eq!(annotations.infos("x", 0), ["PromQL info: c (1:1)"]);
    }

    #[test]
    fn repairs_add_up() {
        let repair = |time, difference| Repair {
            times: (time, time),
            buckets: (1.0, time as f64),
            max_difference: difference,
            count: 0,
        };
        let mut annotations = Annotations::default();
        annotations.repaired(Span::default(), "fixed".to_owned(), repair(60_000, 0.5));
        annotations.repaired(Span::default(), "fixed".to_owned(), repair(0, 1234.0));
        assert_eq!(
            annotations.infos("x", 0),
            ["PromQL info: fixed, from buckets 1 to 60000, with a max diff of 1.2e+03, over 2 \
              samples from 1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z (1:1)"]
        );
    }
}
