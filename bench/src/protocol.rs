//! The line in which an engine tells what it measured: `PEER name key=value key=value …`.
//!
//! A name is one word, a value has no space; everything else that a program prints is for people.

use std::fmt;

/// One line: who, and what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// The engine's name.
    pub name: String,
    values: Vec<(String, String)>,
}

impl Line {
    /// A line without values.
    pub fn new(name: &str) -> Self {
        Line { name: name.to_owned(), values: Vec::new() }
    }

    /// Adds a value, or replaces the one of that key.
    pub fn set(&mut self, key: &str, value: impl fmt::Display) {
        let value = value.to_string();
        match self.values.iter_mut().find(|(known, _)| known == key) {
            Some((_, known)) => *known = value,
            None => self.values.push((key.to_owned(), value)),
        }
    }

    /// The same line with one value more.
    pub fn with(mut self, key: &str, value: impl fmt::Display) -> Self {
        self.set(key, value);
        self
    }

    /// The value of a key.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.values.iter().find(|(known, _)| known == key).map(|(_, value)| &**value)
    }

    /// The value of a key where it is a number.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.text(key)?.parse().ok()
    }

    /// All keys and values in their order.
    pub fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Reads a line; none where it is not such a line.
    pub fn parse(line: &str) -> Option<Line> {
        let mut words = line.strip_prefix("PEER ")?.split_ascii_whitespace();
        let mut parsed = Line::new(words.next()?);
        for word in words {
            let (key, value) = word.split_once('=')?;
            parsed.set(key, value);
        }
        Some(parsed)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PEER {}", self.name)?;
        self.values.iter().try_for_each(|(key, value)| write!(f, " {key}={value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_again() {
        let line = Line::new("floor").with("cpu_ns", 12.5).with("mode", "reusable");
        assert_eq!(Line::parse(&line.to_string()), Some(line.clone()));
        assert_eq!(line.number("cpu_ns"), Some(12.5));
        assert_eq!(line.number("mode"), None);
        for not_a_line in ["", "PEER", "PEER ", "PEER floor cpu_ns", "warning: floor cpu_ns=1"] {
            assert_eq!(Line::parse(not_a_line), None, "{not_a_line:?}");
        }
    }
}
