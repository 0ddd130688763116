//! Forms of patterns that can be matched without a regular expression.

use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

/// More alternatives than this are not listed.
const MOST_LITERALS: usize = 256;

/// What a pattern comes down to.
#[derive(Debug)]
pub(super) enum Shape {
    /// Exactly these texts, sorted. `(?i)` and small classes are multiplied out.
    Literals(Vec<Box<str>>),
    /// `prefix.*suffix`, with at least so many bytes between: 1 for `.+`.
    Around { prefix: Box<str>, suffix: Box<str>, at_least: usize },
    /// `.*literal.*`
    Contains(Box<str>),
    /// Anything else that begins with `prefix`.
    Other { prefix: Box<str> },
}

impl Shape {
    pub(super) fn of(hir: &Hir) -> Self {
        if let Some(mut literals) = literals(hir) {
            literals.sort_unstable();
            literals.dedup();
            return Shape::Literals(literals.into_iter().map(String::into_boxed_str).collect());
        }
        let parts: &[Hir] = match hir.kind() {
            HirKind::Concat(parts) => parts,
            _ => std::slice::from_ref(hir),
        };
        let wild = |at: usize| parts.get(at).and_then(anything);
        let text = |at: usize| parts.get(at).and_then(literal);
        match parts.len() {
            1 => {
                if let Some(at_least) = wild(0) {
                    return around("", "", at_least);
                }
            }
            2 => match (text(0), wild(0), text(1), wild(1)) {
                (Some(prefix), _, _, Some(at_least)) => return around(prefix, "", at_least),
                (_, Some(at_least), Some(suffix), _) => return around("", suffix, at_least),
                _ => {}
            },
            3 => match (text(0), wild(1), text(2), wild(0), text(1), wild(2)) {
                (Some(prefix), Some(at_least), Some(suffix), ..) => {
                    return around(prefix, suffix, at_least);
                }
                (.., Some(0), Some(inner), Some(0)) => return Shape::Contains(Box::from(inner)),
                _ => {}
            },
            _ => {}
        }
        Shape::Other { prefix: Box::from(text(0).unwrap_or("")) }
    }
}

fn around(prefix: &str, suffix: &str, at_least: usize) -> Shape {
    Shape::Around { prefix: Box::from(prefix), suffix: Box::from(suffix), at_least }
}

fn literal(hir: &Hir) -> Option<&str> {
    match hir.kind() {
        HirKind::Literal(literal) => std::str::from_utf8(&literal.0).ok(),
        _ => None,
    }
}

/// `.*` is `Some(0)`, `.+` is `Some(1)`: a repetition without end of every character.
fn anything(hir: &Hir) -> Option<usize> {
    match hir.kind() {
        HirKind::Capture(capture) => anything(&capture.sub),
        HirKind::Repetition(Repetition { min, max: None, sub, .. }) if *min <= 1 => {
            let HirKind::Class(Class::Unicode(class)) = sub.kind() else { return None };
            let every =
                matches!(class.ranges(), [all] if all.start() == '\0' && all.end() == char::MAX);
            every.then_some(*min as usize)
        }
        _ => None,
    }
}

/// All texts that `hir` matches, if they are few and it looks at nothing but them.
fn literals(hir: &Hir) -> Option<Vec<String>> {
    let found = match hir.kind() {
        HirKind::Empty => vec![String::new()],
        HirKind::Literal(literal) => vec![std::str::from_utf8(&literal.0).ok()?.to_owned()],
        HirKind::Class(Class::Unicode(class)) => {
            let count: usize =
                class.iter().map(|range| range.end() as usize - range.start() as usize + 1).sum();
            if count > MOST_LITERALS {
                return None;
            }
            class.iter().flat_map(|range| range.start()..=range.end()).map(String::from).collect()
        }
        HirKind::Class(Class::Bytes(_)) | HirKind::Look(_) => return None,
        HirKind::Repetition(repetition) => {
            if (repetition.min, repetition.max) != (0, Some(1)) {
                return None;
            }
            let mut optional = literals(&repetition.sub)?;
            optional.push(String::new());
            optional
        }
        HirKind::Capture(capture) => literals(&capture.sub)?,
        HirKind::Alternation(branches) => {
            let mut all = Vec::new();
            for branch in branches {
                all.extend(literals(branch)?);
                if all.len() > MOST_LITERALS {
                    return None;
                }
            }
            all
        }
        HirKind::Concat(parts) => {
            let mut all = vec![String::new()];
            for part in parts {
                let next = literals(part)?;
                if all.len() * next.len() > MOST_LITERALS {
                    return None;
                }
                all = all
                    .iter()
                    .flat_map(|head| next.iter().map(move |tail| format!("{head}{tail}")))
                    .collect();
            }
            all
        }
    };
    (found.len() <= MOST_LITERALS).then_some(found)
}
