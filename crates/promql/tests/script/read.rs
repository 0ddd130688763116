//! Reads scripts.

use promql::Value;
use store::{Labels, Pattern};

use super::series::{self, Point};

/// A command of a script.
pub(crate) enum Command {
    Clear,
    Load(Load),
    Evaluate(Box<Evaluation>),
    Unreadable { line: usize, reason: String },
}

/// `load`
pub(crate) struct Load {
    /// Milliseconds.
    pub(crate) interval: i64,
    pub(crate) with_nhcb: bool,
    pub(crate) series: Vec<Line>,
}

/// A series of `load`.
pub(crate) struct Line {
    pub(crate) labels: Labels,
    pub(crate) points: Vec<Point>,
    /// When a sample's counts began, relative to the sample, in milliseconds.
    pub(crate) starts: Vec<Option<i64>>,
}

/// A text that is expected: any, this one, or one that matches.
pub(crate) enum Text {
    Any,
    Exactly(String),
    Matching(Pattern),
}

impl Text {
    fn matches(&self, text: &str) -> bool {
        match self {
            Text::Any => true,
            Text::Exactly(expected) => expected == text,
            Text::Matching(pattern) => pattern.is_match(text),
        }
    }
}

/// What an evaluation is expected to answer.
#[derive(Default)]
pub(crate) struct Expected {
    pub(crate) scalar: Option<f64>,
    pub(crate) string: Option<String>,
    pub(crate) series: Vec<(Labels, Vec<Point>)>,
    /// Start, end and step of an expected range vector.
    pub(crate) range: Option<(i64, i64, i64)>,
    fail: Option<Text>,
    ordered: bool,
    warnings: Vec<Text>,
    infos: Vec<Text>,
    no_warnings: bool,
    no_infos: bool,
}

/// `eval`
pub(crate) struct Evaluation {
    pub(crate) line: usize,
    pub(crate) query: String,
    pub(crate) time: i64,
    pub(crate) range: Option<(i64, i64, i64)>,
    pub(crate) expected: Expected,
}

impl Evaluation {
    pub(crate) fn fails(&self) -> bool {
        self.expected.fail.is_some()
    }

    pub(crate) fn is_ordered(&self) -> bool {
        self.expected.ordered
    }

    pub(crate) fn excluded_from_range(&self) -> bool {
        self.expected.range.is_some() || self.expected.string.is_some()
    }

    pub(crate) fn check_failure(&self, message: &str) -> Result<(), String> {
        match &self.expected.fail {
            Some(text) if text.matches(message) => Ok(()),
            Some(Text::Exactly(expected)) => {
                Err(format!("should fail with {expected:?}, failed with {message:?}"))
            }
            Some(Text::Matching(pattern)) => {
                Err(format!("should fail with {pattern:?}, failed with {message:?}"))
            }
            _ => Err(format!("fails: {message}")),
        }
    }

    pub(crate) fn check_annotations(
        &self,
        warnings: &[String],
        infos: &[String],
    ) -> Result<(), String> {
        let expected = &self.expected;
        for (what, expected, none, found) in [
            ("warnings", &expected.warnings, expected.no_warnings, warnings),
            ("infos", &expected.infos, expected.no_infos, infos),
        ] {
            if none && !found.is_empty() {
                return Err(format!("unexpected {what}: {found:?}"));
            }
            if expected.is_empty() {
                continue;
            }
            let missing = expected.iter().any(|text| !found.iter().any(|f| text.matches(f)));
            let surplus = found.iter().any(|f| !expected.iter().any(|text| text.matches(f)));
            if missing || surplus {
                return Err(format!("other {what} expected, found {found:?}"));
            }
        }
        Ok(())
    }

    /// Start, end and step of what is expected as a matrix.
    pub(crate) fn matrix_range(&self) -> (i64, i64, i64) {
        self.expected.range.or(self.range).unwrap_or((self.time, self.time, 1))
    }

    /// Whether an empty answer of any type is fine.
    pub(crate) fn expects_nothing(&self, value: &Value) -> bool {
        matches!(value, Value::Vector(samples) if samples.is_empty())
            || matches!(value, Value::Matrix(series) if series.is_empty())
    }
}

/// Reads a script. What cannot be read becomes a command that says so.
pub(crate) fn read(text: &str) -> Vec<Command> {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .map(|line| if line.starts_with('#') { "" } else { line })
        .collect();
    let mut commands = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let first = at;
        at += 1;
        if lines[first].is_empty() {
            continue;
        }
        while at < lines.len() && !lines[at].is_empty() && !is_command(lines[at], lines[first]) {
            at += 1;
        }
        let command = command(lines[first], &lines[first + 1..at], first + 1);
        commands.push(command.unwrap_or_else(|reason| {
            let reason = format!("{}: {reason}", lines[first]);
            Command::Unreadable { line: first + 1, reason }
        }));
    }
    commands
}

/// Whether a line begins a command even though no empty line comes before.
fn is_command(line: &str, _: &str) -> bool {
    let word = line.split_whitespace().next().unwrap_or("");
    matches!(word, "clear" | "load" | "load_with_nhcb") || word.starts_with("eval")
}

fn command(first: &str, rest: &[&str], line: usize) -> Result<Command, String> {
    let (word, arguments) = first.split_once([' ', '\t']).unwrap_or((first, ""));
    let arguments = arguments.trim();
    match word {
        "clear" => Ok(Command::Clear),
        "load" => load(arguments, rest, false),
        "load_with_nhcb" => load(arguments, rest, true),
        _ if word.starts_with("eval") => {
            let flavour = word.strip_prefix("eval").unwrap_or("").trim_start_matches('_');
            let evaluation = evaluation(flavour, arguments, rest, line)?;
            Ok(Command::Evaluate(Box::new(evaluation)))
        }
        _ => Err(format!("no command: {word}")),
    }
}

fn load(interval: &str, lines: &[&str], with_nhcb: bool) -> Result<Command, String> {
    let mut series = Vec::new();
    let mut starts = Vec::new();
    for line in lines {
        let end = line.find([' ', '\t']).unwrap_or(line.len());
        if line[..end].ends_with("@st") {
            starts = start_offsets(&line[end..])?;
            continue;
        }
        let (labels, points) = series::line(line)?;
        series.push(Line { labels, points, starts: std::mem::take(&mut starts) });
    }
    Ok(Command::Load(Load { interval: duration(interval)?, with_nhcb, series }))
}

/// `_`, `_xN`, `-1m`, `-1mx3`, `-30s-1mx2`: starts relative to the samples.
fn start_offsets(text: &str) -> Result<Vec<Option<i64>>, String> {
    let mut offsets = Vec::new();
    for word in text.split_whitespace() {
        let (value, count) = match word.rsplit_once('x') {
            Some((value, count)) => (value, count.parse::<usize>().map_err(|e| e.to_string())?),
            None => (word, 0),
        };
        if value == "_" {
            offsets.extend(std::iter::repeat_n(None, count.max(1)));
            continue;
        }
        let sign = value[1..].find(['+', '-']).map(|at| at + 1);
        let (base, step) = match sign {
            Some(at) => (duration(&value[..at])?, duration(&value[at..])?),
            None => (duration(value)?, 0),
        };
        offsets.extend((0..=count as i64).map(|index| Some(base + index * step)));
    }
    Ok(offsets)
}

/// Milliseconds of `1h30m`, `-5s`, `0`.
pub(crate) fn duration(text: &str) -> Result<i64, String> {
    let text = text.trim();
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut total = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: i64 = rest[..digits].parse().map_err(|e| format!("{text:?}: {e}"))?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            "y" => 365 * 86_400_000,
            "" if number == 0 => 0,
            other => return Err(format!("{text:?}: no unit: {other:?}")),
        };
        total += number * unit;
        rest = &rest[letters..];
    }
    Ok(sign * total)
}

fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_at(text.find([' ', '\t']).unwrap_or(text.len()))
}

fn keyword<'a>(text: &'a str, expected: &str) -> Result<&'a str, String> {
    let (found, rest) = word(text);
    if found == expected { Ok(rest) } else { Err(format!("{expected:?} expected at {text:?}")) }
}

fn times(text: &str) -> Result<((i64, i64, i64), &str), String> {
    let (start, rest) = word(keyword(text, "from")?);
    let (end, rest) = word(keyword(rest, "to")?);
    let (step, rest) = word(keyword(rest, "step")?);
    Ok(((duration(start)?, duration(end)?, duration(step)?), rest.trim()))
}

fn evaluation(
    flavour: &str,
    arguments: &str,
    lines: &[&str],
    line: usize,
) -> Result<Evaluation, String> {
    let (kind, rest) = word(arguments);
    let (time, range, query) = match kind {
        "instant" => {
            let (at, rest) = word(keyword(rest, "at")?);
            (duration(at)?, None, rest.trim())
        }
        "range" => {
            let (range, query) = times(rest)?;
            (range.0, Some(range), query)
        }
        other => return Err(format!("no kind of evaluation: {other}")),
    };
    let mut expected = Expected::default();
    match flavour {
        "ordered" => expected.ordered = true,
        "fail" => expected.fail = Some(Text::Any),
        "warn" => expected.warnings.push(Text::Any),
        "info" => expected.infos.push(Text::Any),
        _ => {}
    }
    let mut evaluation = Evaluation { line, query: query.to_owned(), time, range, expected };
    for line in lines {
        expectation(&mut evaluation, line)?;
    }
    Ok(evaluation)
}

fn expectation(evaluation: &mut Evaluation, line: &str) -> Result<(), String> {
    let expected = &mut evaluation.expected;
    if let Some(message) = line.strip_prefix("expected_fail_message") {
        expected.fail = Some(Text::Exactly(message.trim().to_owned()));
    } else if let Some(pattern) = line.strip_prefix("expected_fail_regexp") {
        expected.fail = Some(Text::Matching(contains(pattern)?));
    } else if let Some(range) = line.strip_prefix("expect range vector") {
        let range = times(range)?.0;
        expected.range = Some(range);
        evaluation.time = range.1;
    } else if let Some(string) = line.strip_prefix("expect string") {
        expected.string = Some(series::quoted(string.trim())?.0);
    } else if let Some(rest) = line.strip_prefix("expect ") {
        let (kind, text) = word(rest);
        let text = text.trim();
        let text = if let Some(message) = text.strip_prefix("msg:") {
            Text::Exactly(message.trim().to_owned())
        } else if let Some(pattern) = text.strip_prefix("regex:") {
            Text::Matching(contains(pattern)?)
        } else {
            Text::Any
        };
        match kind {
            "fail" => expected.fail = Some(text),
            "ordered" => expected.ordered = true,
            "warn" => expected.warnings.push(text),
            "info" => expected.infos.push(text),
            "no_warn" => expected.no_warnings = true,
            "no_info" => expected.no_infos = true,
            other => return Err(format!("no expectation: {other}")),
        }
    } else if let Ok(value) = series::number(line) {
        expected.scalar = Some(value);
    } else {
        expected.series.push(series::line(line)?);
    }
    Ok(())
}

fn contains(pattern: &str) -> Result<Pattern, String> {
    Pattern::new(&format!(".*(?:{}).*", pattern.trim())).map_err(|error| error.to_string())
}
