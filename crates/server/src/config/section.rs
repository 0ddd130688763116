//! A section that was read: every field's value and place, defaults filled in.

use std::time::Duration;

use super::error::{Position, Report};
use super::node::Node;
use super::schema::{Default, Field, Kind, Schema};

/// The values of one section, in the order of its schema.
#[derive(Clone)]
pub(super) struct Section {
    pub(super) schema: &'static Schema,
    pub(super) at: Position,
    /// Such as `scrape_configs[1].basic_auth`; empty for the whole file.
    pub(super) path: String,
    /// `None` where nothing was said and the default is zero.
    pub(super) values: Vec<Option<Value>>,
    /// Something in it is wrong and reported: what is built from it would be reported again.
    pub(super) faulty: bool,
}

/// The value of one field.
#[derive(Clone)]
pub(super) struct Value {
    pub(super) at: Position,
    pub(super) data: Data,
    /// It stands in the file, as opposed to a default.
    pub(super) written: bool,
}

#[derive(Clone)]
pub(super) enum Data {
    /// Texts, secrets, URLs, paths, choices.
    Text(String),
    Bool(bool),
    Int(i64),
    Float(f64),
    Duration(Duration),
    /// Texts, paths, secrets.
    Texts(Vec<(Position, String)>),
    Sections(Vec<Section>),
    TextMap(Vec<(String, String)>),
    TextsMap(Vec<(String, Vec<String>)>),
    SectionMap(Vec<(String, Section)>),
    Section(Box<Section>),
    Any(Node),
}

impl Data {
    /// Whether Go would call it zero, and `omitempty` leave it out.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Data::Text(text) => text.is_empty(),
            Data::Bool(value) => !value,
            Data::Int(value) => *value == 0,
            Data::Float(value) => *value == 0.0,
            Data::Duration(value) => value.is_zero(),
            Data::Texts(items) => items.is_empty(),
            Data::Sections(items) => items.is_empty(),
            Data::TextMap(entries) => entries.is_empty(),
            Data::TextsMap(entries) => entries.is_empty(),
            Data::SectionMap(entries) => entries.is_empty(),
            Data::Section(section) => section.is_zero(),
            Data::Any(_) => false,
        }
    }
}

impl Section {
    /// A section in which nothing is said.
    pub(super) fn empty(schema: &'static Schema, at: Position, path: String) -> Self {
        let values = schema.fields().map(|field| default_value(field, at, &path)).collect();
        Section { schema, at, path, values, faulty: false }
    }

    /// Whether every field is zero.
    pub(super) fn is_zero(&self) -> bool {
        self.values.iter().flatten().all(|value| value.data.is_zero())
    }

    fn index(&self, name: &str) -> usize {
        self.schema
            .fields()
            .position(|field| field.name == name)
            .unwrap_or_else(|| panic!("the section {:?} has no field {name}", self.path))
    }

    /// The value of a field, if it was said or has a default.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.values[self.index(name)].as_ref()
    }

    /// Whether the field stands in the file with a value other than zero.
    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.data.is_zero())
    }

    /// Whether the field stands in the file at all.
    pub(super) fn is_written(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.written)
    }

    /// Whether the field is a section that is there, be it empty.
    pub(super) fn has_section(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Value { data: Data::Section(_), .. }))
    }

    /// Sets what was left open, from another section or a rule.
    pub(super) fn set(&mut self, name: &str, data: Data) {
        let index = self.index(name);
        let (at, written) =
            self.values[index].as_ref().map_or((self.at, false), |old| (old.at, old.written));
        self.values[index] = Some(Value { at, data, written });
    }

    /// Takes a field out, as if it had not been said.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        let index = self.index(name);
        self.values[index].take()
    }

    /// The place of a field, or of the section where the field is not said.
    pub(super) fn at(&self, name: &str) -> Position {
        self.get(name).filter(|value| value.written).map_or(self.at, |value| value.at)
    }

    /// The full name of a field.
    pub(super) fn path_of(&self, name: &str) -> String {
        join(&self.path, name)
    }

    /// Reports a fault of one field.
    pub(super) fn error(&self, report: &mut Report, name: &str, message: impl Into<String>) {
        report.error(self.at(name), self.path_of(name), message);
    }

    /// Reports a field that is empty and must not be.
    pub(super) fn require(&self, report: &mut Report, name: &str) -> bool {
        let there = self.has(name);
        if !there {
            self.error(report, name, "the field is required and must not be empty");
        }
        there
    }

    /// Reports more than one of these being set. The place is that of the second.
    pub(super) fn at_most_one(&self, report: &mut Report, names: &[&str]) -> bool {
        let set: Vec<&str> =
            names.iter().copied().filter(|name| self.has(name) || self.has_section(name)).collect();
        if set.len() > 1 {
            let are = if names.len() == set.len() {
                if names.len() == 2 { "both".to_owned() } else { "all".to_owned() }
            } else {
                enumerate(&set, "and")
            };
            self.error(
                report,
                set[1],
                format!("at most one of {} may be set, and {are} are", enumerate(names, "and")),
            );
        }
        set.len() <= 1
    }

    /// A text, a secret, a path, a choice; empty if not said.
    pub(super) fn text(&self, name: &str) -> &str {
        match self.get(name).map(|value| &value.data) {
            Some(Data::Text(text)) => text,
            None => "",
            Some(_) => panic!("{} is not a text", self.path_of(name)),
        }
    }

    /// A text that is not empty.
    pub(super) fn some_text(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    pub(super) fn bool(&self, name: &str) -> bool {
        self.some_bool(name).unwrap_or(false)
    }

    /// A boolean, if it was said or has a default.
    pub(super) fn some_bool(&self, name: &str) -> Option<bool> {
        match self.get(name).map(|value| &value.data) {
            Some(Data::Bool(value)) => Some(*value),
            None => None,
            Some(_) => panic!("{} is not a boolean", self.path_of(name)),
        }
    }

    pub(super) fn int(&self, name: &str) -> i64 {
        match self.get(name).map(|value| &value.data) {
            Some(Data::Int(value)) => *value,
            None => 0,
            Some(_) => panic!("{} is not a number", self.path_of(name)),
        }
    }

    pub(super) fn float(&self, name: &str) -> f64 {
        match self.get(name).map(|value| &value.data) {
            Some(Data::Float(value)) => *value,
            None => 0.0,
            Some(_) => panic!("{} is not a number", self.path_of(name)),
        }
    }

    pub(super) fn duration(&self, name: &str) -> Duration {
        match self.get(name).map(|value| &value.data) {
            Some(Data::Duration(value)) => *value,
            None => Duration::ZERO,
            Some(_) => panic!("{} is not a duration", self.path_of(name)),
        }
    }

    /// Texts, paths or secrets with their places.
    pub(super) fn texts(&self, name: &str) -> &[(Position, String)] {
        match self.get(name).map(|value| &value.data) {
            Some(Data::Texts(items)) => items,
            None => &[],
            Some(_) => panic!("{} is not a list of texts", self.path_of(name)),
        }
    }

    /// Texts without their places.
    pub(super) fn text_list(&self, name: &str) -> Vec<String> {
        self.texts(name).iter().map(|(_, text)| text.clone()).collect()
    }

    pub(super) fn text_map(&self, name: &str) -> &[(String, String)] {
        match self.get(name).map(|value| &value.data) {
            Some(Data::TextMap(entries)) => entries,
            None => &[],
            Some(_) => panic!("{} is not a mapping of texts", self.path_of(name)),
        }
    }

    pub(super) fn texts_map(&self, name: &str) -> &[(String, Vec<String>)] {
        match self.get(name).map(|value| &value.data) {
            Some(Data::TextsMap(entries)) => entries,
            None => &[],
            Some(_) => panic!("{} is not a mapping of lists", self.path_of(name)),
        }
    }

    pub(super) fn section(&self, name: &str) -> Option<&Section> {
        match self.get(name).map(|value| &value.data) {
            Some(Data::Section(section)) => Some(section),
            None => None,
            Some(_) => panic!("{} is not a section", self.path_of(name)),
        }
    }

    pub(super) fn sections(&self, name: &str) -> &[Section] {
        match self.get(name).map(|value| &value.data) {
            Some(Data::Sections(items)) => items,
            None => &[],
            Some(_) => panic!("{} is not a list of sections", self.path_of(name)),
        }
    }

    pub(super) fn sections_mut(&mut self, name: &str) -> &mut [Section] {
        let index = self.index(name);
        match self.values[index].as_mut().map(|value| &mut value.data) {
            Some(Data::Sections(items)) => items,
            None => &mut [],
            Some(_) => panic!("{name} is not a list of sections"),
        }
    }

    pub(super) fn section_mut(&mut self, name: &str) -> Option<&mut Section> {
        let index = self.index(name);
        match self.values[index].as_mut().map(|value| &mut value.data) {
            Some(Data::Section(section)) => Some(section),
            None => None,
            Some(_) => panic!("{name} is not a section"),
        }
    }

    pub(super) fn section_map(&self, name: &str) -> &[(String, Section)] {
        match self.get(name).map(|value| &value.data) {
            Some(Data::SectionMap(entries)) => entries,
            None => &[],
            Some(_) => panic!("{} is not a mapping of sections", self.path_of(name)),
        }
    }
}

/// `a.b`, or `b` at the top.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// `a, b and c`.
pub(super) fn enumerate(words: &[&str], last: &str) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [most @ .., end] => format!("{} {last} {end}", most.join(", ")),
    }
}

fn default_value(field: &Field, at: Position, path: &str) -> Option<Value> {
    let data = match field.default {
        Default::Zero => return None,
        Default::Text(text) => Data::Text(text.to_owned()),
        Default::Bool(value) => Data::Bool(value),
        Default::Int(value) => Data::Int(value),
        Default::Duration(ms) => Data::Duration(Duration::from_millis(ms)),
        Default::Filled => match field.kind {
            Kind::Section(schema) => {
                Data::Section(Box::new(Section::empty(schema, at, join(path, field.name))))
            }
            _ => unreachable!("only sections are filled"),
        },
    };
    Some(Value { at, data, written: false })
}
