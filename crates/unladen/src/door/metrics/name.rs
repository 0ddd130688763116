//! Names of the facade's metrics as an exposition has them, in the way of metrics-exporter-prometheus.

use ::metrics::Unit;
use wire::exposition::Kind;

/// Which metrics something is said about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matcher {
    /// The one of this name.
    Full(String),
    /// Those whose names begin so.
    Prefix(String),
    /// Those whose names end so.
    Suffix(String),
}

impl Matcher {
    /// Whether it says something about `name`.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Matcher::Full(full) => name == full,
            Matcher::Prefix(prefix) => name.starts_with(prefix.as_str()),
            Matcher::Suffix(suffix) => name.ends_with(suffix.as_str()),
        }
    }

    pub(super) fn rank(&self) -> u8 {
        match self {
            Matcher::Full(_) => 0,
            Matcher::Prefix(_) => 1,
            Matcher::Suffix(_) => 2,
        }
    }

    /// As names of an exposition are.
    pub(super) fn sanitized(self) -> Self {
        match self {
            Matcher::Full(full) => Matcher::Full(sanitized(&full)),
            Matcher::Prefix(prefix) => Matcher::Prefix(sanitized(&prefix)),
            Matcher::Suffix(suffix) => {
                // It is no beginning, so a digit may come first.
                Matcher::Suffix(suffix.chars().map(|c| legal(c, false)).collect())
            }
        }
    }
}

/// Every character outside the legacy alphabet becomes `_`.
pub(super) fn sanitized(name: &str) -> String {
    name.chars().enumerate().map(|(index, c)| legal(c, index == 0)).collect()
}

fn legal(character: char, is_first: bool) -> char {
    let is_legal = character.is_ascii_alphabetic()
        || matches!(character, '_' | ':')
        || (character.is_ascii_digit() && !is_first);
    if is_legal { character } else { '_' }
}

/// A name with its unit, and a counter's with `_total`; and the unit if the name ends in it.
pub(super) fn recommended(name: &str, unit: Option<Unit>, kind: Kind) -> (String, &'static str) {
    let word = match unit {
        None | Some(Unit::Count) => "",
        Some(Unit::Percent) => "ratio",
        Some(unit) => unit.as_str(),
    };
    let ends = ["_sum", "_count", "_bucket", "_total"];
    let end = ends.into_iter().find(|end| name.ends_with(end)).unwrap_or("");
    let mut full = name[..name.len() - end.len()].to_owned();
    if !word.is_empty() && !full.ends_with(word) {
        full.push('_');
        full.push_str(word);
    }
    let is_unit = |base: &str| {
        let rest = base.strip_suffix(word);
        rest.is_some_and(|rest| rest.len() > 1 && rest.ends_with('_'))
    };
    full.push_str(end);
    if kind == Kind::Counter && end != "_total" {
        full.push_str("_total");
    }
    let base = match kind {
        Kind::Counter => full.strip_suffix("_total").unwrap_or(&full),
        _ => &full,
    };
    let unit = if !word.is_empty() && is_unit(base) { word } else { "" };
    (full, unit)
}

/// The unit as OTLP has it, in the case sensitive code of UCUM.
pub(super) fn otlp_unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "",
        Unit::Percent => "%",
        Unit::Seconds => "s",
        Unit::Milliseconds => "ms",
        Unit::Microseconds => "us",
        Unit::Nanoseconds => "ns",
        Unit::Tebibytes => "TiBy",
        Unit::Gibibytes => "GiBy",
        Unit::Mebibytes => "MiBy",
        Unit::Kibibytes => "KiBy",
        Unit::Bytes => "By",
        Unit::TerabitsPerSecond => "Tbit/s",
        Unit::GigabitsPerSecond => "Gbit/s",
        Unit::MegabitsPerSecond => "Mbit/s",
        Unit::KilobitsPerSecond => "kbit/s",
        Unit::BitsPerSecond => "bit/s",
        Unit::CountPerSecond => "1/s",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, expected) in [
            ("requests", "requests"),
            ("http.requests-now", "http_requests_now"),
            ("a:b", "a:b"),
            ("9lives", "_lives"),
            ("größe", "gr__e"),
            ("", ""),
        ] {
            assert_eq!(sanitized(name), expected);
        }
        for (name, unit, kind, expected, in_name) in [
            ("x", None, Kind::Counter, "x_total", ""),
            ("x_total", None, Kind::Counter, "x_total", ""),
            ("x_total", Some(Unit::Seconds), Kind::Counter, "x_seconds_total", "seconds"),
            ("x", Some(Unit::Bytes), Kind::Gauge, "x_bytes", "bytes"),
            ("x_bytes", Some(Unit::Bytes), Kind::Counter, "x_bytes_total", "bytes"),
            ("x", Some(Unit::Percent), Kind::Gauge, "x_ratio", "ratio"),
            ("x", Some(Unit::Count), Kind::Histogram, "x", ""),
            ("x_count", Some(Unit::Seconds), Kind::Gauge, "x_seconds_count", ""),
            ("seconds", Some(Unit::Seconds), Kind::Gauge, "seconds", ""),
        ] {
            assert_eq!(recommended(name, unit, kind), (expected.to_owned(), in_name), "{name}");
        }
        assert!(Matcher::Suffix(".9ms".into()).sanitized().matches("a_9ms"));
    }
}
