//! The grammar of text 0.0.4.
//!
//! ```text
//! line    = blank | "#" comment | "#" blanks ("HELP" | "TYPE") blanks family text | series blanks value [blanks digits]
//! series  = name [blanks labels] | labels, with the name in quotes among the labels
//! ```
//! Blanks (space and tab) may stand between all tokens, also before the line's first; a body may end
//! without a newline; a NUL at the start of a line ends the body. A label's value may hold a newline
//! as it stands.
//!
//! Where Prometheus makes blanks before a name a part of the name, they are skipped here, as the
//! format's description says.

use super::error::Reason;
use super::labels::{Escaped, Names};
use super::reader::{Cursor, Event, Grammar, Line, Quoting, Read, Reading, utf8};
use super::{Format, Kind};
use crate::number;

const SERIES: Grammar = Grammar {
    blanks: true,
    metric: true,
    name: Quoting { newline: true, nul: false },
    value: Quoting { newline: true, nul: true },
};

/// The next line that holds something, and where it begins; the cursor ends up at its end.
pub(super) fn line<'a>(
    cursor: &mut Cursor<'a>,
    names: &mut Names,
) -> Read<Option<(usize, Line<'a>)>> {
    loop {
        cursor.skip_blanks();
        let begin = cursor.at;
        match cursor.peek() {
            None | Some(0) => return Ok(None),
            Some(b'\n') => cursor.at += 1,
            Some(b'#') => {
                let event = comment(cursor)?;
                return Ok(event.map(|event| (begin, Line::Event(event))));
            }
            Some(_) => {
                let series = cursor.series(SERIES, names)?;
                let reading = reading(cursor)?;
                return Ok(Some((begin, Line::Sample(series, reading))));
            }
        }
    }
}

/// What follows a series, up to the end of the line.
#[inline]
pub(super) fn reading<'a>(cursor: &mut Cursor<'a>) -> Read<Reading<'a>> {
    cursor.skip_blanks();
    let value = match cursor.usual_number() {
        Some(value) => value,
        None => value(cursor)?,
    };
    let mut timestamp_ms = None;
    cursor.skip_blanks();
    if !at_end(cursor) {
        let begin = cursor.at;
        let digits = cursor.take_while(|b| b.is_ascii_digit());
        timestamp_ms = milliseconds(digits);
        if timestamp_ms.is_none() {
            cursor.at = begin;
            return cursor.fault(Reason::Timestamp);
        }
        cursor.skip_blanks();
        if !at_end(cursor) {
            return cursor.fault(Reason::Trailing);
        }
    }
    Ok(Reading { value, timestamp_ms, exemplar: None })
}

/// A value of any form.
#[inline(never)]
fn value(cursor: &mut Cursor<'_>) -> Read<f64> {
    let begin = cursor.at;
    let token = cursor.take_while(|b| !matches!(b, b'{' | b' ' | b'\t' | b'\n' | 0));
    if token.is_empty() {
        return cursor.fault(Reason::ValueMissing);
    }
    match number::parse(token) {
        Ok(value) => Ok(value),
        Err(error) => {
            cursor.at = begin;
            cursor.fault(Reason::Value(error))
        }
    }
}

#[inline]
fn at_end(cursor: &Cursor<'_>) -> bool {
    matches!(cursor.peek(), None | Some(b'\n'))
}

fn milliseconds(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() {
        return None;
    }
    digits
        .iter()
        .try_fold(0i64, |sum, digit| sum.checked_mul(10)?.checked_add(i64::from(digit - b'0')))
}

/// A line that begins with `#`; `None` where a NUL ends the body.
fn comment<'a>(cursor: &mut Cursor<'a>) -> Read<Option<Event<'a>>> {
    let begin = cursor.at;
    cursor.at += 1;
    if !cursor.skip_blanks() {
        let line = cursor.take_line();
        if line.contains(&0) {
            return Ok(None);
        }
        return Ok(Some(Event::Comment(&cursor.body[begin..cursor.at])));
    }
    let word = cursor.rest().get(..4);
    let is_metadata = matches!(word, Some(b"HELP" | b"TYPE"))
        && matches!(cursor.rest().get(4), Some(b' ' | b'\t'));
    if !is_metadata {
        cursor.take_line();
        return Ok(Some(Event::Comment(&cursor.body[begin..cursor.at])));
    }
    cursor.at += 4;
    cursor.skip_blanks();
    let family = cursor.family()?;
    let text_at = cursor.at;
    let line = cursor.take_line();
    // One character, usually a blank, separates; nothing but blanks is no text.
    let is_blank = line.iter().all(|b| matches!(b, b' ' | b'\t'));
    let text = if is_blank { &[] } else { &line[1..] };
    if word == Some(b"HELP") {
        let text = utf8(text, text_at + 1)?;
        return Ok(Some(Event::Help { family, text: Escaped::help(text) }));
    }
    match Kind::from_word(text, Format::Text) {
        Some(kind) => Ok(Some(Event::Type { family, kind })),
        None => {
            cursor.at = text_at + usize::from(!text.is_empty());
            cursor.fault(Reason::Kind)
        }
    }
}
