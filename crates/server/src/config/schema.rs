//! The vocabulary in which sections are described: one table of fields for each section.
//!
//! A table is enough to read a section, to fill in its defaults, to name its unknown fields and to
//! print it. What a table cannot say (one field against another) is the section's `check`.

use super::error::Report;
use super::section::Section;

/// What a section may hold.
pub(super) struct Schema {
    /// The fields in the order in which they are printed. Groups let sections share fields.
    pub(super) groups: &'static [&'static [Field]],
    /// Looks at fields together, once each of them is right by itself.
    pub(super) check: fn(&mut Section, &mut Report),
}

impl Schema {
    /// All fields, in order.
    pub(super) fn fields(&self) -> impl Iterator<Item = &'static Field> {
        self.groups.iter().flat_map(|group| group.iter())
    }
}

/// For a section in which every combination of fields is fine.
pub(super) fn unchecked(_: &mut Section, _: &mut Report) {}

/// One field of a section.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) default: Default,
    pub(super) print: Print,
}

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Secret,
    /// A text that never leaves the configuration in full when printed: a URL with its password hidden.
    Url,
    /// A file; relative ones are joined with the folder of the configuration.
    Path,
    Bool,
    /// A whole number of either sign.
    Int,
    /// A whole number from 0.
    Count,
    Float,
    Duration,
    Size,
    /// One of these words; the empty one, if it is among them, says nothing.
    Choice(&'static [&'static str]),
    Texts,
    /// Texts that are printed on one line.
    FlowTexts,
    Paths,
    Secrets,
    /// Label names and values.
    Labels,
    TextMap,
    /// Several texts for each name.
    TextsMap,
    SecretsMap,
    Section(&'static Schema),
    Sections(&'static Schema),
    /// A section for each name.
    SectionMap(&'static Schema),
    /// Anything at all.
    Any,
}

/// What a field holds when nothing is said.
#[derive(Clone, Copy)]
pub(super) enum Default {
    /// The empty text, 0, false, no entries, no section.
    Zero,
    Text(&'static str),
    Bool(bool),
    Int(i64),
    /// Milliseconds.
    Duration(u64),
    /// A section with its own defaults.
    Filled,
}

/// When a field is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Print {
    /// Unless it is zero.
    NonZero,
    Always,
    /// Whenever it was said or inherited, even if it is false or empty.
    Present,
}

impl Field {
    const fn new(name: &'static str, kind: Kind) -> Self {
        Field { name, kind, default: Default::Zero, print: Print::NonZero }
    }

    pub(super) const fn default(self, default: Default) -> Self {
        Field { default, ..self }
    }

    /// A default text.
    pub(super) const fn or(self, text: &'static str) -> Self {
        self.default(Default::Text(text))
    }

    /// A default number.
    pub(super) const fn or_int(self, number: i64) -> Self {
        self.default(Default::Int(number))
    }

    /// A default duration in seconds.
    pub(super) const fn or_seconds(self, seconds: u64) -> Self {
        self.default(Default::Duration(seconds * 1000))
    }

    /// True unless said otherwise.
    pub(super) const fn or_true(self) -> Self {
        self.default(Default::Bool(true))
    }

    /// There even if nothing is said.
    pub(super) const fn filled(self) -> Self {
        self.default(Default::Filled)
    }

    pub(super) const fn always(self) -> Self {
        Field { print: Print::Always, ..self }
    }

    pub(super) const fn present(self) -> Self {
        Field { print: Print::Present, ..self }
    }
}

/// Constructors named after what they make; a table reads as a list of them.
macro_rules! constructors {
    ($($name:ident => $kind:expr;)*) => {$(
        pub(super) const fn $name(name: &'static str) -> Field {
            Field::new(name, $kind)
        }
    )*};
}

constructors! {
    text => Kind::Text;
    secret => Kind::Secret;
    url => Kind::Url;
    path => Kind::Path;
    boolean => Kind::Bool;
    int => Kind::Int;
    count => Kind::Count;
    float => Kind::Float;
    duration => Kind::Duration;
    size => Kind::Size;
    texts => Kind::Texts;
    flow_texts => Kind::FlowTexts;
    paths => Kind::Paths;
    secrets => Kind::Secrets;
    labels => Kind::Labels;
    text_map => Kind::TextMap;
    texts_map => Kind::TextsMap;
    secrets_map => Kind::SecretsMap;
    anything => Kind::Any;
}

pub(super) const fn choice(name: &'static str, words: &'static [&'static str]) -> Field {
    Field::new(name, Kind::Choice(words))
}

pub(super) const fn section(name: &'static str, schema: &'static Schema) -> Field {
    Field::new(name, Kind::Section(schema))
}

pub(super) const fn sections(name: &'static str, schema: &'static Schema) -> Field {
    Field::new(name, Kind::Sections(schema))
}

pub(super) const fn section_map(name: &'static str, schema: &'static Schema) -> Field {
    Field::new(name, Kind::SectionMap(schema))
}
