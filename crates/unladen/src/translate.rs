//! From OpenTelemetry's names and units to those of an exposition, as its specification of compatibility
//! with Prometheus says.
//!
//! 1. The name is cut where a character is not in the legacy alphabet; the parts are joined by `_`.
//! 2. The unit follows as words, unless it is among the parts: `s` is `seconds`, `By/s` is
//!    `bytes_per_second`. What stands in braces says what is counted and is no unit.
//! 3. A gauge of the unit `1` ends in `ratio`, a counter in `total`; what is there already moves to the
//!    end.

use crate::described::Role;

/// How much of an instrument's name and unit an exposition tells, in OpenTelemetry's own words for these
/// four strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Translation {
    /// `http.server.duration` in `s` is `http_server_duration_seconds`; names of labels have
    /// underscores too, whatever a scraper could read.
    #[default]
    UnderscoreEscapingWithSuffixes,
    /// The same without unit and type: `http_server_duration`.
    UnderscoreEscapingWithoutSuffixes,
    /// `http.server.duration_seconds`, for scrapers that can read it; others get it escaped as they ask.
    NoUtf8EscapingWithSuffixes,
    /// `http.server.duration`, for scrapers that can read it.
    NoTranslation,
}

impl Translation {
    /// Whether names come out in the legacy alphabet.
    pub(crate) const fn is_escaping(self) -> bool {
        use Translation::*;
        matches!(self, UnderscoreEscapingWithSuffixes | UnderscoreEscapingWithoutSuffixes)
    }

    const fn has_suffixes(self) -> bool {
        use Translation::*;
        matches!(self, UnderscoreEscapingWithSuffixes | NoUtf8EscapingWithSuffixes)
    }

    /// The exposition's name for an instrument, and the unit if the name ends in it (before `_total`).
    pub(crate) fn apply(self, name: &str, unit: &str, role: Role) -> (String, String) {
        if !self.has_suffixes() {
            let name = if self.is_escaping() { words(name).join("_") } else { name.to_owned() };
            return (leading_letter(name), String::new());
        }
        let (main, per) = unit_words(unit);
        let is_ratio = unit == "1" && role == Role::Gauge;
        let base = if self.is_escaping() {
            escaped(name, &main, &per, is_ratio, role)
        } else {
            unescaped(name, &main, &per, is_ratio, role)
        };
        let mut unit = [main.as_str(), &per].into_iter().filter(|word| !word.is_empty());
        let mut unit = unit.by_ref().collect::<Vec<_>>().join("_");
        if is_ratio {
            "ratio".clone_into(&mut unit);
        }
        let is_end = base
            .strip_suffix(unit.as_str())
            .is_some_and(|rest| rest.len() > 1 && rest.ends_with('_'));
        if !is_end {
            unit.clear();
        }
        let total = if role == Role::Counter { "_total" } else { "" };
        (leading_letter(base + total), unit)
    }
}

fn escaped(name: &str, main: &str, per: &str, is_ratio: bool, role: Role) -> String {
    let mut words = words(name);
    for unit in [main, per] {
        if !unit.is_empty() && !words.contains(&unit) {
            words.push(unit);
        }
    }
    if role == Role::Counter && words.len() > 1 {
        words.retain(|word| *word != "total");
    }
    if is_ratio {
        words.retain(|word| *word != "ratio");
        words.push("ratio");
    }
    words.join("_")
}

fn unescaped(name: &str, main: &str, per: &str, is_ratio: bool, role: Role) -> String {
    let without = |name: &str, end: &str| match name.strip_suffix(end) {
        Some(rest) if rest.ends_with(['_', '.', '-', '/']) && rest.len() > 1 => {
            rest[..rest.len() - 1].to_owned()
        }
        _ => name.to_owned(),
    };
    let mut name = name.to_owned();
    if role == Role::Counter {
        name = without(&name, "total");
    }
    if is_ratio {
        name = without(&name, "ratio");
    }
    if !per.is_empty() {
        name = without(&name, per);
    }
    if !main.is_empty() && !name.ends_with(main) {
        name = name + "_" + main;
    }
    if !per.is_empty() {
        name = name + "_" + per;
    }
    if is_ratio {
        name += "_ratio";
    }
    name
}

/// The parts of a name that need no escaping.
fn words(name: &str) -> Vec<&str> {
    let is_legacy = |c: char| c.is_ascii_alphanumeric() || c == ':';
    name.split(|c| !is_legacy(c)).filter(|word| !word.is_empty()).collect()
}

/// A name may not begin with a digit, nor be empty.
fn leading_letter(name: String) -> String {
    match name.as_bytes().first() {
        Some(first) if !first.is_ascii_digit() => name,
        _ => format!("_{name}"),
    }
}

/// A unit as words, before and behind the `/`; the second begins with `per_`.
fn unit_words(unit: &str) -> (String, String) {
    let (main, per) = unit.split_once('/').unwrap_or((unit, ""));
    let is_annotation = |unit: &str| unit.contains(['{', '}']);
    let main = match main.trim() {
        annotation if is_annotation(annotation) => String::new(),
        "1" => String::new(),
        unit => words(word_of(unit)).join("_"),
    };
    let per = match per.trim() {
        annotation if is_annotation(annotation) => String::new(),
        unit => words(word_of_per(unit)).join("_"),
    };
    let per = if per.is_empty() { per } else { format!("per_{per}") };
    (main, per)
}

fn word_of(unit: &str) -> &str {
    match unit {
        "d" => "days",
        "h" => "hours",
        "min" => "minutes",
        "s" => "seconds",
        "ms" => "milliseconds",
        "us" => "microseconds",
        "ns" => "nanoseconds",
        "By" => "bytes",
        "KiBy" => "kibibytes",
        "MiBy" => "mebibytes",
        "GiBy" => "gibibytes",
        "TiBy" => "tibibytes",
        "KBy" => "kilobytes",
        "MBy" => "megabytes",
        "GBy" => "gigabytes",
        "TBy" => "terabytes",
        "m" => "meters",
        "V" => "volts",
        "A" => "amperes",
        "J" => "joules",
        "W" => "watts",
        "g" => "grams",
        "Cel" => "celsius",
        "Hz" => "hertz",
        "%" => "percent",
        other => other,
    }
}

fn word_of_per(unit: &str) -> &str {
    match unit {
        "s" => "second",
        "m" => "minute",
        "h" => "hour",
        "d" => "day",
        "w" => "week",
        "mo" => "month",
        "y" => "year",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Role::*;
    use Translation::*;

    #[test]
    fn names_and_units() {
        // name, unit, role, name and unit of the exposition
        for (name, unit, role, expected, expected_unit) in [
            ("http.server.duration", "s", Histogram, "http_server_duration_seconds", "seconds"),
            (
                "http.server.duration",
                "ms",
                Histogram,
                "http_server_duration_milliseconds",
                "milliseconds",
            ),
            ("http.server.requests", "", Counter, "http_server_requests_total", ""),
            ("http.server.requests", "{request}", Counter, "http_server_requests_total", ""),
            ("requests", "1", Counter, "requests_total", ""),
            ("requests_total", "", Counter, "requests_total", ""),
            ("requests.total.bytes", "By", Counter, "requests_bytes_total", "bytes"),
            ("total", "", Counter, "total_total", ""),
            ("cpu.utilization", "1", Gauge, "cpu_utilization_ratio", "ratio"),
            ("cpu.ratio.now", "1", Gauge, "cpu_now_ratio", "ratio"),
            ("cpu.utilization", "1", UpDownCounter, "cpu_utilization", ""),
            ("memory.used", "By", UpDownCounter, "memory_used_bytes", "bytes"),
            ("memory_used_bytes", "By", Gauge, "memory_used_bytes", "bytes"),
            ("bytes.used", "By", Gauge, "bytes_used", ""),
            ("speed", "m/s", Gauge, "speed_meters_per_second", "meters_per_second"),
            ("net.io", "By/s", Gauge, "net_io_bytes_per_second", "bytes_per_second"),
            ("rate", "{packet}/s", Gauge, "rate_per_second", "per_second"),
            ("rate", "By/{packet}", Gauge, "rate_bytes", "bytes"),
            ("rate", "/min", Gauge, "rate_per_min", "per_min"),
            ("queue.time", "h", Gauge, "queue_time_hours", "hours"),
            ("load", "%", Gauge, "load_percent", "percent"),
            ("frequency", "Hz", Gauge, "frequency_hertz", "hertz"),
            ("temperature", "Cel", Gauge, "temperature_celsius", "celsius"),
            ("disk", "GiBy", Gauge, "disk_gibibytes", "gibibytes"),
            ("odd", "10*3.foo", Gauge, "odd_10_3_foo", "10_3_foo"),
            ("a--b//c..d", "", Gauge, "a_b_c_d", ""),
            ("a:b", "", Gauge, "a:b", ""),
            ("größe", "", Gauge, "gr_e", ""),
            ("9lives", "", Gauge, "_9lives", ""),
            ("花火", "", Gauge, "_", ""),
        ] {
            let (name, found) = UnderscoreEscapingWithSuffixes.apply(name, unit, role);
            assert_eq!((name.as_str(), found.as_str()), (expected, expected_unit), "{unit}");
        }
    }

    #[test]
    fn other_strategies() {
        for (strategy, name, unit, role, expected) in [
            (UnderscoreEscapingWithoutSuffixes, "a.b", "s", Counter, "a_b"),
            (NoTranslation, "a.b", "s", Counter, "a.b"),
            (NoUtf8EscapingWithSuffixes, "a.b", "s", Counter, "a.b_seconds_total"),
            (NoUtf8EscapingWithSuffixes, "a.b.total", "s", Counter, "a.b_seconds_total"),
            (NoUtf8EscapingWithSuffixes, "a.b_seconds", "s", Histogram, "a.b_seconds"),
            (NoUtf8EscapingWithSuffixes, "a.b", "1", Gauge, "a.b_ratio"),
            (NoUtf8EscapingWithSuffixes, "a.b", "By/s", Gauge, "a.b_bytes_per_second"),
            (NoUtf8EscapingWithSuffixes, "a.bytes_per_second", "By/s", Gauge, "a.bytes_per_second"),
        ] {
            assert_eq!(strategy.apply(name, unit, role).0, expected, "{strategy:?}");
        }
    }
}
