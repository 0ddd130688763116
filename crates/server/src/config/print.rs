//! The loaded configuration as text, as Prometheus shows it: defaults filled in, secrets hidden, fields
//! in the order of their tables. What is printed can be read again.

use std::fmt::Write as _;

use super::address;
use super::error::Position;
use super::node::{Content, Node};
use super::read::whole_number;
use super::schema::{Field, Kind, Print};
use super::section::{Data, Section};
use crate::secret::REDACTED;
use crate::{duration, size};

/// A file from its root section.
pub(super) fn print(root: &Section) -> String {
    let mut out = String::new();
    fields(&mut out, root, 0, false);
    out
}

/// Writes the fields of a section, each on its line. `inline` is for the first entry of a list's item,
/// which stands behind the dash.
fn fields(out: &mut String, section: &Section, indent: usize, inline: bool) {
    let mut first = inline;
    for (field, value) in section.schema.fields().zip(&section.values) {
        if !is_shown(field, value.as_ref().map(|value| &value.data)) {
            continue;
        }
        margin(out, indent, &mut first);
        out.push_str(field.name);
        out.push(':');
        match value {
            Some(value) => data(out, field, &value.data, indent),
            None => empty(out, field.kind),
        }
    }
    if first && inline {
        out.push_str("{}\n");
    }
}

fn is_shown(field: &Field, data: Option<&Data>) -> bool {
    match (field.print, data) {
        (Print::Always, _) => true,
        (Print::Present, Some(_)) => true,
        (Print::NonZero, Some(data)) => !data.is_zero(),
        (_, None) => false,
    }
}

/// What a field shows that is printed always and holds nothing.
fn empty(out: &mut String, kind: Kind) {
    out.push_str(match kind {
        Kind::Bool => " false\n",
        Kind::Int | Kind::Count | Kind::Float => " 0\n",
        Kind::Duration => " 0s\n",
        Kind::Size => " 0B\n",
        Kind::Texts | Kind::FlowTexts | Kind::Paths | Kind::Secrets | Kind::Sections(_) => " []\n",
        Kind::Labels
        | Kind::TextMap
        | Kind::TextsMap
        | Kind::SecretsMap
        | Kind::Section(_)
        | Kind::SectionMap(_) => " {}\n",
        Kind::Secret => " null\n",
        Kind::Text | Kind::Url | Kind::Path | Kind::Choice(_) | Kind::Any => " \"\"\n",
    });
}

fn margin(out: &mut String, indent: usize, first: &mut bool) {
    if *first {
        *first = false;
    } else {
        out.push_str(&"  ".repeat(indent));
    }
}

/// Writes what follows a field's colon, up to the end of the line or block.
fn data(out: &mut String, field: &Field, data: &Data, indent: usize) {
    let hidden = matches!(field.kind, Kind::Secret | Kind::Secrets | Kind::SecretsMap);
    match data {
        Data::Text(text) if hidden && text.is_empty() => out.push_str(" null\n"),
        Data::Text(_) if hidden => line(out, REDACTED),
        Data::Text(text) if matches!(field.kind, Kind::Url) => line(out, &address::redact(text)),
        Data::Text(text) => line(out, text),
        Data::Bool(value) => writeln!(out, " {value}").expect("a string takes everything"),
        Data::Int(value) if matches!(field.kind, Kind::Size) => line(out, &size::format(*value)),
        Data::Int(value) => writeln!(out, " {value}").expect("a string takes everything"),
        Data::Float(value) => {
            writeln!(out, " {}", float(*value)).expect("a string takes everything");
        }
        Data::Duration(value) => line(out, &duration::format(*value)),
        Data::Texts(items) if items.is_empty() => out.push_str(" []\n"),
        Data::Texts(items) if matches!(field.kind, Kind::FlowTexts) => flow(out, items),
        Data::Texts(items) => {
            out.push('\n');
            for (_, text) in items {
                item(out, indent, if hidden { REDACTED } else { text });
            }
        }
        Data::TextMap(entries) => text_map(out, entries, indent),
        Data::TextsMap(entries) => {
            out.push('\n');
            for (name, values) in entries {
                key(out, name, indent + 1);
                if values.is_empty() {
                    out.push_str(" []");
                }
                out.push('\n');
                for value in values {
                    item(out, indent + 1, if hidden { REDACTED } else { value });
                }
            }
        }
        Data::Section(section) => nested(out, section, indent),
        Data::Sections(items) if items.is_empty() => out.push_str(" []\n"),
        Data::Sections(items) => {
            out.push('\n');
            for section in items {
                out.push_str(&"  ".repeat(indent));
                out.push_str("- ");
                fields(out, section, indent + 1, true);
            }
        }
        Data::SectionMap(entries) => {
            out.push('\n');
            for (name, section) in entries {
                key(out, name, indent + 1);
                nested(out, section, indent + 1);
            }
        }
        Data::Any(node) => any(out, node, indent),
    }
}

fn nested(out: &mut String, section: &Section, indent: usize) {
    let mut body = String::new();
    fields(&mut body, section, indent + 1, false);
    if body.is_empty() {
        out.push_str(" {}\n");
    } else {
        out.push('\n');
        out.push_str(&body);
    }
}

fn text_map(out: &mut String, entries: &[(String, String)], indent: usize) {
    if entries.is_empty() {
        out.push_str(" {}\n");
        return;
    }
    out.push('\n');
    for (name, value) in entries {
        key(out, name, indent + 1);
        line(out, value);
    }
}

fn key(out: &mut String, name: &str, indent: usize) {
    out.push_str(&"  ".repeat(indent));
    scalar(out, name);
    out.push(':');
}

fn line(out: &mut String, text: &str) {
    out.push(' ');
    scalar(out, text);
    out.push('\n');
}

fn item(out: &mut String, indent: usize, text: &str) {
    out.push_str(&"  ".repeat(indent));
    out.push('-');
    line(out, text);
}

fn flow(out: &mut String, items: &[(Position, String)]) {
    out.push_str(" [");
    for (index, (_, text)) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        // Within brackets these end a bare text.
        if text.contains([',', '[', ']', '{', '}', '?']) || text.ends_with(':') {
            double_quoted(out, text);
        } else {
            scalar(out, text);
        }
    }
    out.push_str("]\n");
}

/// A value of no known shape. Its depth is bounded where it was read.
fn any(out: &mut String, node: &Node, indent: usize) {
    match &node.content {
        Content::Null => out.push_str(" null\n"),
        // What was written plain is written plain again: it may be a number.
        Content::Scalar { text, plain: true } => {
            out.push(' ');
            out.push_str(text);
            out.push('\n');
        }
        Content::Scalar { text, plain: false } => line(out, text),
        Content::List(items) if items.is_empty() => out.push_str(" []\n"),
        Content::List(items) => {
            out.push('\n');
            for value in items {
                out.push_str(&"  ".repeat(indent + 1));
                out.push('-');
                any(out, value, indent + 1);
            }
        }
        Content::Map(entries) if entries.is_empty() => out.push_str(" {}\n"),
        Content::Map(entries) => {
            out.push('\n');
            for (name, value) in entries {
                key(out, &name.text, indent + 1);
                any(out, value, indent + 1);
            }
        }
    }
}

fn float(value: f64) -> String {
    if value.is_nan() {
        ".nan".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { ".inf" } else { "-.inf" }.to_owned()
    } else {
        format!("{value}")
    }
}

/// A text, with quotes where it would be read as something else without them.
fn scalar(out: &mut String, text: &str) {
    if text
        .chars()
        .any(|c| c.is_control() || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}'))
    {
        double_quoted(out, text);
    } else if reads_as_other(text) {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else if is_plain(text) {
        out.push_str(text);
    } else {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    }
}

fn double_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if u32::from(c) < 0x100 && c.is_control() => {
                write!(out, "\\x{:02x}", u32::from(c)).expect("a string takes everything");
            }
            '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("a string takes everything");
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Whether YAML 1.1 takes the bare text for nothing, a boolean, a number, a time or a merge.
fn reads_as_other(text: &str) -> bool {
    const WORDS: [&str; 13] =
        ["", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", "<<", "="];
    let lower = text.to_ascii_lowercase();
    if WORDS.contains(&lower.as_str()) {
        return true;
    }
    let bare = lower.trim_start_matches(['-', '+']);
    if matches!(bare, ".inf" | ".nan") {
        return true;
    }
    if !bare.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return false;
    }
    let digits = bare.replace('_', "");
    in_sixties(&digits)
        || is_date(&digits)
        || whole_number(&digits).is_some()
        || digits.parse::<f64>().is_ok()
}

/// `190:20:30` counts in sixties.
fn in_sixties(text: &str) -> bool {
    let whole = text.split_once('.').map_or(text, |(whole, _)| whole);
    let mut parts = whole.split(':');
    parts.next().is_some_and(|part| part.bytes().all(|b| b.is_ascii_digit()))
        && whole.contains(':')
        && parts.all(|part| part.len() <= 2 && part.parse::<u8>().is_ok_and(|n| n < 60))
}

/// `2002-12-14`, with or without a time behind it.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let mut digits = |lengths: std::ops::RangeInclusive<usize>| {
        parts.next().is_some_and(|part| {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            lengths.contains(&digits)
        })
    };
    digits(4..=4) && digits(1..=2) && digits(1..=2)
}

fn is_plain(text: &str) -> bool {
    let first = text.chars().next().unwrap_or(' ');
    let second = text.chars().nth(1).unwrap_or(' ');
    let starts = match first {
        '-' | '?' | ':' => !second.is_whitespace(),
        ',' | '[' | ']' | '{' | '}' | '#' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
        | '@' | '`' => false,
        c => !c.is_whitespace(),
    };
    starts
        && !text.starts_with("---")
        && !text.starts_with("...")
        && !text.ends_with(|c: char| c.is_whitespace() || c == ':')
        && !text.contains(": ")
        && !text.contains(" #")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_read_again_as_itself() {
        let texts = [
            "plain",
            "",
            "~",
            "null",
            "yes",
            "on",
            "1",
            "1.5",
            "0x1f",
            "1e6",
            "12:30",
            "2020-01-01",
            "- a",
            "-a",
            "a: b",
            "a:b",
            "a:",
            "a #b",
            "a#b",
            "#a",
            "&a",
            "*a",
            "!a",
            "%a",
            "@a",
            "`a",
            "'a'",
            "\"a\"",
            "a'b",
            " a",
            "a ",
            "a\nb",
            "a\tb",
            "\u{7f}",
            "\u{85}",
            "\u{2028}",
            "[a]",
            "{a}",
            "a,b",
            "<<",
            "=",
            ".",
            "..",
            ".5",
            "---",
            "--- a",
            "...",
            "?",
            "? a",
            ":a",
            "|",
            ">",
            "測試",
            "é",
            "\u{feff}a",
            "a\\b",
            "$1",
            "(.*)",
            "1m",
            "15MiB",
            "<secret>",
            "0123abc",
            "+1",
        ];
        for text in texts {
            let mut out = "field: ".to_owned();
            scalar(&mut out, text);
            let node = super::super::node::parse(&out).unwrap_or_else(|fault| {
                panic!("{text:?} became {out:?}: {fault:?}");
            });
            let Content::Map(entries) = node.content else { panic!("{out:?} is no mapping") };
            match &entries[0].1.content {
                Content::Scalar { text: got, .. } => assert_eq!(got, text, "{out:?}"),
                other => panic!("{text:?} became {out:?}, which is {other:?}"),
            }
        }
    }
}
