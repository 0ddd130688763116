//! The parameters of a request, as Prometheus reads them.

use std::time::Duration;

use store::Matcher;

use super::error::ApiError;

/// The earliest and the latest time that a request can mean, in milliseconds: what clients send that
/// want everything.
pub(crate) const MIN_TIME: i64 = (i64::MIN / 1000 + 62_135_596_801) * 1000;
/// See [`MIN_TIME`].
pub(crate) const MAX_TIME: i64 = (i64::MAX / 1000 - 62_135_596_801) * 1000 + 999;

/// The names that Go gives these two times.
const MIN_TIME_TEXT: &str = "-292273086-05-16T16:47:06Z";
const MAX_TIME_TEXT: &str = "292277025-08-18T07:12:54.999999999Z";

/// Parameters from the body and from the address; those of the body come first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads both. `body` is that of a form.
    pub(crate) fn new(query: Option<&str>, body: &[u8]) -> Self {
        let pairs = url::form_urlencoded::parse(body)
            .chain(url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()))
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        Form(pairs)
    }

    /// The first value of a parameter, empty where it is absent.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// A time, in milliseconds.
    pub(crate) fn time(&self, name: &str) -> Result<i64, ApiError> {
        parse_time(self.get(name)).map_err(|reason| ApiError::parameter(name, reason))
    }

    /// A time that may be absent.
    pub(crate) fn time_or(&self, name: &str, default: i64) -> Result<i64, ApiError> {
        match self.get(name) {
            "" => Ok(default),
            text => parse_time(text).map_err(|reason| {
                ApiError::parameter(name, format!("invalid time value for '{name}': {reason}"))
            }),
        }
    }

    /// A duration that may be absent.
    pub(crate) fn duration(&self, name: &str) -> Result<Option<Nanoseconds>, ApiError> {
        match self.get(name) {
            "" => Ok(None),
            text => {
                parse_duration(text).map(Some).map_err(|reason| ApiError::parameter(name, reason))
            }
        }
    }

    /// `limit`; 0 is none.
    pub(crate) fn limit(&self) -> Result<usize, ApiError> {
        match self.get("limit") {
            "" => Ok(0),
            text => match parse_whole(text) {
                Ok(limit) => usize::try_from(limit)
                    .map_err(|_| ApiError::parameter("limit", "limit must be non-negative")),
                Err(reason) => Err(ApiError::parameter("limit", reason)),
            },
        }
    }

    /// The selectors of `match[]`.
    pub(crate) fn selectors(&self) -> Result<Vec<Vec<Matcher>>, String> {
        let sets = self
            .all("match[]")
            .map(|text| promql::parse_selector(text).map_err(|error| error.to_string()))
            .collect::<Result<Vec<_>, _>>()?;
        for matchers in &sets {
            if matchers.iter().all(Matcher::matches_empty) {
                return Err("match[] must contain at least one non-empty matcher".to_owned());
            }
        }
        Ok(sets)
    }
}

/// A duration of a request; negative ones can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nanoseconds(pub(crate) i64);

impl Nanoseconds {
    pub(crate) fn milliseconds(self) -> i64 {
        self.0 / 1_000_000
    }

    /// As a length of time; a negative one is none at all.
    pub(crate) fn length(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

/// A whole number, with the words of Go where it is none.
pub(crate) fn parse_whole(text: &str) -> Result<i64, String> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    text.parse::<i64>().map_err(|error| {
        let reason = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.Atoi: parsing {}: {reason}", promql::quote::quoted(text))
    })
}

/// Seconds since the epoch, or a date of RFC 3339; in milliseconds.
pub(crate) fn parse_time(text: &str) -> Result<i64, String> {
    let refused = || format!("cannot parse {} to a valid timestamp", promql::quote::quoted(text));
    if let Some(seconds) = parse_float(text) {
        let milliseconds = seconds.trunc() * 1000.0 + (seconds.fract() * 1000.0).round();
        // Beyond what 64 bits hold; Go would wrap around.
        if milliseconds.abs() >= i64::MAX as f64 {
            return Err(refused());
        }
        // What is reckoned with times, such as a lookback, has room on both sides.
        return Ok((milliseconds as i64).clamp(MIN_TIME, MAX_TIME));
    }
    match text {
        MIN_TIME_TEXT => Ok(MIN_TIME),
        MAX_TIME_TEXT => Ok(MAX_TIME),
        _ => parse_date(text).ok_or_else(refused),
    }
}

/// Seconds, or a duration such as `5m`.
pub(crate) fn parse_duration(text: &str) -> Result<Nanoseconds, String> {
    let quoted = promql::quote::quoted(text);
    if let Some(seconds) = parse_float(text) {
        let nanoseconds = seconds * 1e9;
        if nanoseconds.abs() >= i64::MAX as f64 {
            return Err(format!("cannot parse {quoted} to a valid duration. It overflows int64"));
        }
        return Ok(Nanoseconds(nanoseconds as i64));
    }
    match promql::parser::parse_duration(text) {
        Ok(milliseconds) => Ok(Nanoseconds(milliseconds.saturating_mul(1_000_000))),
        Err(_) => Err(format!("cannot parse {quoted} to a valid duration")),
    }
}

/// A finite number. Rust also reads words that are none to us.
fn parse_float(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// `2006-01-02T15:04:05.999999999Z` or with an offset such as `+07:00`.
fn parse_date(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if !text.is_ascii() || bytes.len() < 20 {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    };
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if marks.iter().any(|&(at, mark)| bytes[at] != mark) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let mut rest = &text[19..];
    let mut milliseconds = 0;
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let digits = fraction.get(..length).filter(|digits| !digits.is_empty())?;
        let padded = format!("{digits:0<3}");
        milliseconds = padded.get(..3)?.parse().ok()?;
        rest = &fraction[length..];
    }
    let offset_minutes = match rest.as_bytes() {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let base = text.len() - rest.len();
            let (hours, minutes) = (number(base + 1, base + 3)?, number(base + 4, base + 6)?);
            if hours > 24 || minutes >= 60 {
                return None;
            }
            (hours * 60 + minutes) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    let days = days_since_epoch(year, month, day)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = days * 86_400 + hour * 3600 + (minute - offset_minutes) * 60 + second;
    Some(seconds * 1000 + milliseconds)
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
fn days_since_epoch(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let index = usize::try_from(month - 1).ok()?;
    if day < 1 || day > *lengths.get(index)? {
        return None;
    }
    let before: i64 = lengths[..index].iter().sum();
    let past = year - 1;
    let leap_days = past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400);
    // 719,162 days lie between 0001-01-01 and 1970-01-01.
    Some(past * 365 + leap_days + before + day - 1 - 719_162)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1700000000.1234", Some(1_700_000_000_123)),
            ("-1.5", Some(-1500)),
            ("1e3", Some(1_000_000)),
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2024-02-29T12:30:15.9876Z", Some(1_709_209_815_987)),
            ("2024-02-29T12:30:15+02:00", Some(1_709_202_615_000)),
            ("2023-02-29T12:30:15Z", None),
            ("2024-02-29 12:30:15Z", None),
            ("2024-02-29T12:30:15", None),
            ("9223372036800000", Some(MAX_TIME)),
            ("-9223372036800000", Some(MIN_TIME)),
            ("1e300", None),
            ("NaN", None),
            ("", None),
            (MIN_TIME_TEXT, Some(MIN_TIME)),
            (MAX_TIME_TEXT, Some(MAX_TIME)),
        ] {
            assert_eq!(parse_time(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, expected) in [
            ("15", Some(15_000)),
            ("0.5", Some(500)),
            ("-1", Some(-1000)),
            ("1h30m", Some(5_400_000)),
            ("1x", None),
            ("1e300", None),
        ] {
            let found = parse_duration(text).ok().map(Nanoseconds::milliseconds);
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn forms_have_the_body_first() {
        let form = Form::new(Some("query=a%2Bb&match%5B%5D=x"), b"query=c+d&match[]=y");
        assert_eq!(form.get("query"), "c d");
        assert_eq!(form.all("match[]").collect::<Vec<_>>(), ["y", "x"]);
        assert_eq!(form.get("absent"), "");
    }
}
