//! Replacement texts with `$1`, `${name}` and `$$`, as Go's `Regexp.Expand` reads them.

use super::Captures;

/// A replacement text, read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Number(usize),
    Name(Box<str>),
}

impl Template {
    /// Reads a replacement. There is no malformed one: a `$` that begins nothing stands for itself.
    pub fn new(mut text: &str) -> Self {
        let mut parts = Vec::new();
        let mut literal = String::new();
        while let Some((before, after)) = text.split_once('$') {
            literal.push_str(before);
            text = after;
            if let Some(rest) = text.strip_prefix('$') {
                literal.push('$');
                text = rest;
            } else if let Some((name, rest)) = reference(text) {
                flush(&mut parts, &mut literal);
                parts.push(number(name).map_or_else(|| Part::Name(Box::from(name)), Part::Number));
                text = rest;
            } else {
                literal.push('$');
            }
        }
        literal.push_str(text);
        flush(&mut parts, &mut literal);
        Template { parts }
    }

    /// Whether the result is the same for every match.
    pub fn is_literal(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// Appends the replacement for a match in `text`. A group that is not there is empty.
    pub fn expand(&self, text: &str, captures: &Captures, out: &mut String) {
        for part in &self.parts {
            match part {
                Part::Text(literal) => out.push_str(literal),
                Part::Number(index) => out.push_str(captures.group(text, *index).unwrap_or("")),
                Part::Name(name) => out.push_str(captures.named(text, name).unwrap_or("")),
            }
        }
    }
}

fn flush(parts: &mut Vec<Part>, literal: &mut String) {
    if !literal.is_empty() {
        parts.push(Part::Text(Box::from(literal.as_str())));
        literal.clear();
    }
}

/// The name behind a `$`, with or without braces, and what follows it. As long as it can be:
/// `$1x` names the group `1x`.
fn reference(text: &str) -> Option<(&str, &str)> {
    let (braced, body) = text.strip_prefix('{').map_or((false, text), |body| (true, body));
    let end = body
        .find(|c: char| !(c.is_alphabetic() || c.is_numeric() || c == '_'))
        .unwrap_or(body.len());
    let (name, rest) = body.split_at(end);
    if name.is_empty() {
        return None;
    }
    if braced { Some((name, rest.strip_prefix('}')?)) } else { Some((name, rest)) }
}

/// A name of digits only, without a leading zero, is a number.
fn number(name: &str) -> Option<usize> {
    let canonical = name == "0" || !name.starts_with('0');
    if canonical && name.len() <= 8 && name.bytes().all(|b| b.is_ascii_digit()) {
        name.parse().ok()
    } else {
        None
    }
}
