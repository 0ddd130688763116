//! From nodes to sections: each field is read as its table says.

use std::path::{Component, Path, PathBuf};

use super::error::{Position, Report};
use super::node::{Content, Node};
use super::schema::{Field, Kind, Print, Schema};
use super::section::{Data, Section, Value, enumerate, join};
use crate::{duration, size};

/// Reads one file.
pub(super) struct Reader<'r> {
    /// What relative paths are relative to.
    pub(super) dir: &'r Path,
    pub(super) report: &'r mut Report,
}

impl Reader<'_> {
    /// Reads a section; null is a section in which nothing is said. Faults go to the report, and a
    /// field with a fault is left at its default.
    pub(super) fn section(&mut self, schema: &'static Schema, node: &Node, path: &str) -> Section {
        let mut section = Section::empty(schema, node.at, path.to_owned());
        let entries = match &node.content {
            Content::Null => &[],
            Content::Map(entries) => entries.as_slice(),
            _ => {
                self.expected(node, path, "a mapping of fields");
                return section;
            }
        };
        let before = self.report.error_count();
        for (key, value) in entries {
            let Some((index, field)) =
                schema.fields().enumerate().find(|(_, field)| field.name == key.text)
            else {
                let message = unknown_field(&key.text, schema);
                self.report.error(key.at, join(path, &key.text), message);
                continue;
            };
            let data = if matches!(value.content, Content::Null) {
                null(field)
            } else {
                self.data(field, value, &join(path, field.name))
            };
            if let Some(data) = data {
                section.values[index] = Some(Value { at: key.at, data, written: true });
            }
        }
        self.check_unsaid(&mut section);
        if self.report.error_count() == before {
            (schema.check)(&mut section, self.report);
        }
        section.faulty = self.report.error_count() > before;
        section
    }

    /// Lets the checks of sections that nobody wrote fill in what they fill in.
    fn check_unsaid(&mut self, section: &mut Section) {
        for value in section.values.iter_mut().flatten().filter(|value| !value.written) {
            if let Data::Section(inner) = &mut value.data {
                self.check_unsaid(inner);
                (inner.schema.check)(inner, self.report);
            }
        }
    }

    fn data(&mut self, field: &Field, node: &Node, path: &str) -> Option<Data> {
        Some(match field.kind {
            Kind::Text | Kind::Secret | Kind::Url => Data::Text(self.text(node, path)?),
            Kind::Path => {
                let file = self.text(node, path)?;
                Data::Text(join_dir(self.dir, &file))
            }
            Kind::Choice(words) => Data::Text(self.choice(node, path, words)?),
            Kind::Bool => Data::Bool(self.bool(node, path)?),
            Kind::Int => Data::Int(self.int(node, path, i64::MIN)?),
            Kind::Count => Data::Int(self.int(node, path, 0)?),
            Kind::Float => Data::Float(self.float(node, path)?),
            Kind::Duration => {
                let text = self.text(node, path)?;
                Data::Duration(self.parsed(node, path, duration::parse(&text))?)
            }
            Kind::Size => {
                let text = self.text(node, path)?;
                Data::Int(self.parsed(node, path, size::parse(&text))?)
            }
            Kind::Texts | Kind::FlowTexts | Kind::Secrets => Data::Texts(self.texts(node, path)),
            Kind::Paths => {
                let mut items = self.texts(node, path);
                for (_, text) in &mut items {
                    *text = join_dir(self.dir, text);
                }
                Data::Texts(items)
            }
            Kind::Labels => Data::TextMap(self.text_map(node, path, true)?),
            Kind::TextMap => Data::TextMap(self.text_map(node, path, false)?),
            Kind::TextsMap | Kind::SecretsMap => Data::TextsMap(self.texts_map(node, path)?),
            Kind::Section(schema) => Data::Section(Box::new(self.section(schema, node, path))),
            Kind::Sections(schema) => Data::Sections(self.sections(schema, node, path)),
            Kind::SectionMap(schema) => {
                let entries = self.entries(node, path)?;
                let read = entries.iter().map(|(key, value)| {
                    (key.text.clone(), self.section(schema, value, &join(path, &key.text)))
                });
                Data::SectionMap(read.collect())
            }
            Kind::Any => Data::Any(node.clone()),
        })
    }

    fn sections(&mut self, schema: &'static Schema, node: &Node, path: &str) -> Vec<Section> {
        let Content::List(items) = &node.content else {
            self.expected(node, path, "a list of sections");
            return Vec::new();
        };
        let mut sections = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            if matches!(item.content, Content::Null) {
                self.report.error(item.at, path, "the entry is empty: fill it in or remove it");
                continue;
            }
            sections.push(self.section(schema, item, &path));
        }
        sections
    }

    fn text(&mut self, node: &Node, path: &str) -> Option<String> {
        match &node.content {
            Content::Scalar { text, .. } => Some(text.clone()),
            Content::Null => Some(String::new()),
            Content::List(_) | Content::Map(_) => {
                self.expected(node, path, "a text");
                None
            }
        }
    }

    fn choice(&mut self, node: &Node, path: &str, words: &[&str]) -> Option<String> {
        let text = self.text(node, path)?;
        if words.contains(&text.as_str()) {
            return Some(text);
        }
        let message = match closest(&text, words.iter().copied()) {
            Some(word) => format!("unknown value {text:?}, did you mean {word:?}?"),
            None => {
                let known: Vec<&str> =
                    words.iter().copied().filter(|word| !word.is_empty()).collect();
                format!("unknown value {text:?}, expected {}", enumerate(&known, "or"))
            }
        };
        self.report.error(node.at, path, message);
        None
    }

    fn bool(&mut self, node: &Node, path: &str) -> Option<bool> {
        // What YAML 1.1 calls a boolean.
        if let Content::Scalar { text, plain: true } = &node.content {
            match text.as_str() {
                "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True"
                | "TRUE" => return Some(true),
                "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False"
                | "FALSE" => return Some(false),
                _ => {}
            }
        }
        self.expected(node, path, "true or false");
        None
    }

    fn int(&mut self, node: &Node, path: &str, min: i64) -> Option<i64> {
        let number = match &node.content {
            Content::Scalar { text, plain: true } => whole_number(text),
            _ => None,
        };
        match number {
            Some(number) if number >= min => number.into(),
            Some(number) => {
                self.report.error(node.at, path, format!("{number} is less than {min}"));
                None
            }
            None => {
                self.expected(node, path, "a whole number");
                None
            }
        }
    }

    fn float(&mut self, node: &Node, path: &str) -> Option<f64> {
        if let Content::Scalar { text, plain: true } = &node.content {
            let bare = text.trim_start_matches(['-', '+']);
            let number = match bare {
                ".inf" | ".Inf" | ".INF" if text.starts_with('-') => Some(f64::NEG_INFINITY),
                ".inf" | ".Inf" | ".INF" => Some(f64::INFINITY),
                ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
                _ if bare.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
                    text.replace('_', "").parse().ok()
                }
                _ => None,
            };
            if number.is_some() {
                return number;
            }
        }
        self.expected(node, path, "a number");
        None
    }

    fn texts(&mut self, node: &Node, path: &str) -> Vec<(Position, String)> {
        match &node.content {
            Content::List(items) => items
                .iter()
                .enumerate()
                .filter_map(|(index, item)| {
                    Some((item.at, self.text(item, &format!("{path}[{index}]"))?))
                })
                .collect(),
            Content::Null => Vec::new(),
            Content::Scalar { .. } | Content::Map(_) => {
                self.expected(node, path, "a list of texts");
                Vec::new()
            }
        }
    }

    fn text_map(&mut self, node: &Node, path: &str, labels: bool) -> Option<Vec<(String, String)>> {
        let mut read = Vec::new();
        for (key, value) in self.entries(node, path)? {
            if labels && key.text.is_empty() {
                self.report.error(key.at, path, "a label's name must not be empty");
                continue;
            }
            if let Some(text) = self.text(value, &join(path, &key.text)) {
                read.push((key.text.clone(), text));
            }
        }
        read.sort();
        Some(read)
    }

    fn texts_map(&mut self, node: &Node, path: &str) -> Option<Vec<(String, Vec<String>)>> {
        let mut read = Vec::new();
        for (key, value) in self.entries(node, path)? {
            let texts = self.texts(value, &join(path, &key.text));
            read.push((key.text.clone(), texts.into_iter().map(|(_, text)| text).collect()));
        }
        read.sort();
        Some(read)
    }

    fn entries<'n>(
        &mut self,
        node: &'n Node,
        path: &str,
    ) -> Option<&'n [(super::node::Key, Node)]> {
        match &node.content {
            Content::Map(entries) => Some(entries),
            Content::Null => Some(&[]),
            Content::Scalar { .. } | Content::List(_) => {
                self.expected(node, path, "a mapping");
                None
            }
        }
    }

    fn parsed<T>(&mut self, node: &Node, path: &str, result: Result<T, String>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(message) => {
                self.report.error(node.at, path, message);
                None
            }
        }
    }

    fn expected(&mut self, node: &Node, path: &str, what: &str) {
        self.report.error(node.at, path, format!("expected {what}, found {}", node.describe()));
    }
}

/// What a field holds when the file says null: the zero value. A section, and what can be left open,
/// is as if it were not there.
fn null(field: &Field) -> Option<Data> {
    if matches!(field.print, Print::Present) && !matches!(field.kind, Kind::Text) {
        return None;
    }
    Some(match field.kind {
        Kind::Text | Kind::Secret | Kind::Url | Kind::Path | Kind::Choice(_) => {
            Data::Text(String::new())
        }
        Kind::Bool => Data::Bool(false),
        Kind::Int | Kind::Count | Kind::Size => Data::Int(0),
        Kind::Float => Data::Float(0.0),
        Kind::Duration => Data::Duration(std::time::Duration::ZERO),
        Kind::Texts | Kind::FlowTexts | Kind::Paths | Kind::Secrets => Data::Texts(Vec::new()),
        Kind::Labels | Kind::TextMap => Data::TextMap(Vec::new()),
        Kind::TextsMap | Kind::SecretsMap => Data::TextsMap(Vec::new()),
        Kind::Sections(_) => Data::Sections(Vec::new()),
        Kind::SectionMap(_) => Data::SectionMap(Vec::new()),
        Kind::Section(_) | Kind::Any => return None,
    })
}

/// Joins a relative path with the folder, and tidies `.` and `..` as far as the text goes. An empty
/// path stays empty.
pub(super) fn join_dir(dir: &Path, path: &str) -> String {
    if path.is_empty() || Path::new(path).is_absolute() {
        return path.to_owned();
    }
    let mut tidy = PathBuf::new();
    for component in dir.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(tidy.components().next_back(), Some(Component::Normal(_))) =>
            {
                tidy.pop();
            }
            other => tidy.push(other),
        }
    }
    tidy.to_string_lossy().into_owned()
}

/// A whole number of YAML 1.1: decimal, `0x`, `0o`, `0b`, a leading zero for octal, `_` between digits.
pub(super) fn whole_number(text: &str) -> Option<i64> {
    let text = text.replace('_', "");
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(&text)),
    };
    let radix = |digits: &str, radix| i64::from_str_radix(digits, radix).ok();
    let prefixed = [("0x", 16), ("0o", 8), ("0b", 2)]
        .iter()
        .find_map(|(prefix, base)| digits.strip_prefix(prefix).map(|rest| radix(rest, *base)));
    let number = match prefixed {
        Some(number) => number,
        None if digits.len() > 1 && digits.starts_with('0') => radix(digits, 8),
        None if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok(),
        // `1e6` is a whole number as well.
        None if digits.starts_with(|c: char| c.is_ascii_digit()) => digits
            .parse::<f64>()
            .ok()
            .filter(|number| number.fract() == 0.0 && *number < i64::MAX as f64)
            .map(|number| number as i64),
        None => None,
    };
    number.map(|number| sign * number)
}

fn unknown_field(name: &str, schema: &Schema) -> String {
    match closest(name, schema.fields().map(|field| field.name)) {
        Some(known) => format!("unknown field, did you mean {known:?}?"),
        None => "unknown field".to_owned(),
    }
}

/// The word that differs least from `word`, if it differs by little.
pub(super) fn closest<'w>(word: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let near = word.len().div_ceil(4).min(3);
    words
        .filter(|candidate| !candidate.is_empty())
        .map(|candidate| (distance(&word.to_lowercase(), candidate), candidate))
        .filter(|(distance, _)| *distance <= near)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many bytes to insert, remove or replace to get from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    // Longer words than any field's cost too much to compare and are near none.
    if a.len() > 100 || a.len().abs_diff(b.len()) > 3 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
