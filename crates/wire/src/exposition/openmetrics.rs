//! The grammar of OpenMetrics 1.0.
//!
//! ```text
//! line     = "# " ("HELP" | "TYPE" | "UNIT") " " family " " text "\n"
//!          | series " " value [" " seconds] [" # " labels " " value [" " seconds]] "\n"
//! last     = "# EOF" ["\n"]
//! ```
//! Exactly one blank separates, there are no other comments and no empty lines, and nothing follows
//! the `# EOF` that every body ends with.

use super::error::Reason;
use super::labels::{Escaped, Names};
use super::reader::{Cursor, Event, Exemplar, Grammar, Line, Quoting, Read, Reading, utf8};
use super::{Format, Kind};
use crate::number;

const SERIES: Grammar = Grammar {
    blanks: false,
    metric: true,
    name: Quoting { newline: true, nul: false },
    value: Quoting { newline: false, nul: true },
};

const EXEMPLAR: Grammar = Grammar {
    blanks: false,
    metric: false,
    name: Quoting { newline: false, nul: false },
    value: Quoting { newline: false, nul: false },
};

/// The next line and where it begins; the cursor ends up at its end.
pub(super) fn line<'a>(
    cursor: &mut Cursor<'a>,
    names: &mut Names,
) -> Read<Option<(usize, Line<'a>)>> {
    let begin = cursor.at;
    match cursor.peek() {
        None => cursor.fault(Reason::EofMissing),
        Some(b'#') => {
            let event = metadata(cursor)?;
            Ok(event.map(|event| (begin, Line::Event(event))))
        }
        Some(_) => {
            let series = cursor.series(SERIES, names)?;
            let reading = reading(cursor)?;
            Ok(Some((begin, Line::Sample(series, reading))))
        }
    }
}

/// What follows a series, up to the end of the line.
#[inline]
pub(super) fn reading<'a>(cursor: &mut Cursor<'a>) -> Read<Reading<'a>> {
    let value = value(cursor, Reason::ValueMissing)?;
    let mut timestamp_ms = None;
    let mut exemplar = None;
    if cursor.peek() == Some(b' ') && !at_exemplar(cursor) {
        timestamp_ms = Some(milliseconds(cursor)?);
    }
    if at_exemplar(cursor) {
        exemplar = Some(self::exemplar(cursor)?);
    }
    match cursor.peek() {
        Some(b'\n') => Ok(Reading { value, timestamp_ms, exemplar }),
        None => cursor.fault(Reason::EofMissing),
        Some(_) => cursor.fault(Reason::Trailing),
    }
}

fn at_exemplar(cursor: &Cursor<'_>) -> bool {
    cursor.rest().starts_with(b" # {")
}

/// A blank and what follows up to the next blank or end of the line.
fn token<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    if cursor.peek() != Some(b' ') {
        return None;
    }
    cursor.at += 1;
    let token = cursor.take_while(|b| !matches!(b, b' ' | b'\n' | 0));
    (!token.is_empty()).then_some(token)
}

fn value(cursor: &mut Cursor<'_>, missing: Reason) -> Read<f64> {
    let begin = cursor.at;
    if cursor.peek() == Some(b' ') {
        cursor.at += 1;
        if let Some(value) = cursor.usual_number() {
            return Ok(value);
        }
        cursor.at = begin;
    }
    let Some(token) = token(cursor) else {
        return cursor.fault(missing);
    };
    match number::parse(token) {
        Ok(value) => Ok(value),
        Err(error) => {
            cursor.at = begin + 1;
            cursor.fault(Reason::Value(error))
        }
    }
}

/// Seconds, with a fraction or not, to milliseconds, cut and not rounded, as in Prometheus.
fn milliseconds(cursor: &mut Cursor<'_>) -> Read<i64> {
    let begin = cursor.at;
    let seconds = token(cursor).and_then(|token| number::parse(token).ok());
    match seconds.map(|seconds| seconds * 1000.0) {
        Some(milliseconds) if milliseconds.abs() < i64::MAX as f64 => Ok(milliseconds as i64),
        _ => {
            cursor.at = begin + 1;
            cursor.fault(Reason::Timestamp)
        }
    }
}

/// ` # {labels} value [seconds]`; the cursor stands at the blank.
#[inline(never)]
fn exemplar<'a>(cursor: &mut Cursor<'a>) -> Read<Exemplar<'a>> {
    cursor.at += 3;
    let begin = cursor.at;
    // Nobody stores an exemplar under its labels, so that a name may stand twice here.
    cursor.braces(EXEMPLAR, false, &mut Names::default())?;
    let series = cursor.text_from(begin)?;
    let value = value(cursor, Reason::Exemplar)?;
    let timestamp_ms = match cursor.peek() {
        Some(b' ') => Some(milliseconds(cursor)?),
        _ => None,
    };
    Ok(Exemplar { series, value, timestamp_ms })
}

/// A line that begins with `#`; `None` at the `# EOF`.
fn metadata<'a>(cursor: &mut Cursor<'a>) -> Read<Option<Event<'a>>> {
    let rest = cursor.rest();
    if let Some(after) = rest.strip_prefix(b"# EOF") {
        if !matches!(after, [] | [b'\n']) {
            cursor.at += b"# EOF".len();
            return cursor.fault(Reason::AfterEof);
        }
        return Ok(None);
    }
    let word = match rest.get(2..7) {
        Some(word @ (b"HELP " | b"TYPE " | b"UNIT ")) if rest[1] == b' ' => word,
        _ => return cursor.fault(Reason::Comment),
    };
    cursor.at += 7;
    let family = cursor.family()?;
    if cursor.peek() != Some(b' ') {
        return cursor.fault(Reason::MetadataText);
    }
    cursor.at += 1;
    let text_at = cursor.at;
    let text = cursor.take_line();
    if cursor.peek().is_none() {
        return cursor.fault(Reason::EofMissing);
    }
    let wrong = |cursor: &mut Cursor<'a>, reason| {
        cursor.at = text_at;
        cursor.fault(reason)
    };
    match word {
        b"TYPE " => match Kind::from_word(text, Format::OpenMetrics) {
            Some(kind) => Ok(Some(Event::Type { family, kind })),
            None => wrong(cursor, Reason::Kind),
        },
        b"UNIT " => {
            let unit = utf8(text, text_at)?;
            let is_suffix = family.raw().strip_suffix(unit).is_some_and(|n| n.ends_with('_'));
            if !unit.is_empty() && !is_suffix {
                return wrong(cursor, Reason::Unit);
            }
            Ok(Some(Event::Unit { family, unit: Escaped::label(unit) }))
        }
        _ => Ok(Some(Event::Help { family, text: Escaped::label(utf8(text, text_at)?) })),
    }
}
