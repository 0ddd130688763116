//! Which format the two sides of a scrape agree on.
//!
//! The serving side reads `Accept` with [`negotiate`]; the scraping side reads `Content-Type` with
//! [`media_type`].

use std::fmt;

use super::Format;
use super::name::Escaping;

/// What to answer with; by default what every scraper reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Negotiated {
    /// The format of the body.
    pub format: Format,
    /// The spelling of names outside the legacy alphabet.
    pub escaping: Escaping,
}

impl fmt::Display for Negotiated {
    /// The `Content-Type`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; escaping={}", self.format.content_type(), self.escaping.word())
    }
}

/// Picks the format that `accept`, a request's header, weighs highest; of equal ones the first. Text
/// 0.0.4 where there is no header or none that is known, because every scraper reads that. *Steady.*
pub fn negotiate(accept: Option<&str>) -> Negotiated {
    let mut best = Negotiated { format: Format::Text, escaping: Escaping::default() };
    let mut best_weight = 0.0;
    for clause in accept.unwrap_or_default().split(',') {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let (mut weight, mut version, mut escaping) = (1.0, "", Escaping::default());
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match name.trim() {
                "q" => weight = value.parse().unwrap_or(0.0),
                "version" => version = value,
                "escaping" => escaping = Escaping::from_word(value).unwrap_or_default(),
                _ => {}
            }
        }
        let is = |known: &str| media.eq_ignore_ascii_case(known);
        let format = match version {
            "" | "0.0.1" | "1.0.0" if is("application/openmetrics-text") => Format::OpenMetrics,
            "" | "0.0.4" if is("text/plain") || is("text/*") || is("*/*") => Format::Text,
            _ => continue,
        };
        if weight > best_weight {
            best_weight = weight;
            best = Negotiated { format, escaping };
        }
    }
    best
}

/// What a scraped body is, by its `Content-Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// A text that [`Reader`](super::Reader) reads.
    Text(Format),
    /// Length-delimited protobuf messages.
    Protobuf,
}

/// Why a `Content-Type` names no format. A scraper goes on with its fallback protocol, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaTypeError {
    /// There is none, or an empty one.
    Blank,
    /// It is not of the form `type/subtype; name=value`.
    Malformed,
    /// It names something that is no exposition.
    Unsupported,
}

impl fmt::Display for MediaTypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MediaTypeError::Blank => "the target sends no Content-Type",
            MediaTypeError::Malformed => "the target sends a Content-Type that can't be parsed",
            MediaTypeError::Unsupported => "the target sends an unsupported Content-Type",
        })
    }
}

impl std::error::Error for MediaTypeError {}

/// Reads a response's `Content-Type`. As in Prometheus, versions and other parameters don't matter, but
/// have to be well-formed.
pub fn media_type(content_type: &str) -> Result<MediaType, MediaTypeError> {
    if content_type.is_empty() {
        return Err(MediaTypeError::Blank);
    }
    let mut parts = split_parameters(content_type);
    let media = parts.next().unwrap_or_default().trim();
    let is_token = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&b))
    };
    let is_quoted = |text: &str| text.len() >= 2 && text.starts_with('"') && text.ends_with('"');
    let has_type = match media.split_once('/') {
        Some((first, second)) => is_token(first) && is_token(second),
        None => is_token(media),
    };
    let mut rest: Vec<&str> = parts.map(str::trim).collect();
    // Go allows one dangling semicolon.
    if rest.last() == Some(&"") {
        rest.pop();
    }
    let well_formed = has_type
        && rest.iter().all(|part| {
            part.split_once('=').is_some_and(|(name, value)| {
                is_token(name.trim_end()) && (is_token(value) || is_quoted(value))
            })
        });
    if !well_formed {
        return Err(MediaTypeError::Malformed);
    }
    match media.to_ascii_lowercase().as_str() {
        "text/plain" => Ok(MediaType::Text(Format::Text)),
        "application/openmetrics-text" => Ok(MediaType::Text(Format::OpenMetrics)),
        "application/vnd.google.protobuf" => Ok(MediaType::Protobuf),
        _ => Err(MediaTypeError::Unsupported),
    }
}

/// Splits at semicolons that are not in quotes.
fn split_parameters(content_type: &str) -> impl Iterator<Item = &str> {
    let mut in_quotes = false;
    content_type.split(move |c| {
        in_quotes ^= c == '"';
        c == ';' && !in_quotes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_the_weightiest_format_it_knows() {
        use Escaping::{AllowUtf8, Underscores, Values};
        use Format::{OpenMetrics, Text};
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;\
            escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format, escaping) in [
            (None, Text, Underscores),
            (Some(""), Text, Underscores),
            (Some("*/*"), Text, Underscores),
            (Some("text/html, application/xhtml+xml"), Text, Underscores),
            (Some(prometheus_3), OpenMetrics, AllowUtf8),
            (Some("application/openmetrics-text"), OpenMetrics, Underscores),
            (Some("Application/OpenMetrics-Text; version=\"1.0.0\""), OpenMetrics, Underscores),
            (Some("application/openmetrics-text; version=2.0.0, text/plain"), Text, Underscores),
            (Some("application/openmetrics-text;q=0, text/plain;q=0.1"), Text, Underscores),
            (Some("text/plain;q=0.5;escaping=values, */*;q=0.4"), Text, Values),
            (Some("text/plain;escaping=nonsense"), Text, Underscores),
            (Some("application/openmetrics-text;q=x, ;;=,"), Text, Underscores),
        ] {
            assert_eq!(negotiate(accept), Negotiated { format, escaping }, "{accept:?}");
        }
        assert_eq!(
            negotiate(Some(prometheus_3)).to_string(),
            "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=allow-utf-8"
        );
    }

    #[test]
    fn knows_what_a_target_sends() {
        use MediaTypeError::{Blank, Malformed, Unsupported};
        let text = Ok(MediaType::Text(Format::Text));
        for (content_type, expected) in [
            ("", Err(Blank)),
            ("text/plain", text),
            ("text/plain; version=0.0.4; charset=utf-8", text),
            ("TEXT/PLAIN;", text),
            ("text/plain; note=\"a;b\"", text),
            (
                "application/openmetrics-text; version=1.0.0",
                Ok(MediaType::Text(Format::OpenMetrics)),
            ),
            (
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily",
                Ok(MediaType::Protobuf),
            ),
            ("text/html; charset=utf-8", Err(Unsupported)),
            ("text", Err(Unsupported)),
            ("text/plain; version", Err(Malformed)),
            ("text/plain;;version=1", Err(Malformed)),
            ("/plain", Err(Malformed)),
            ("a b", Err(Malformed)),
        ] {
            assert_eq!(media_type(content_type), expected, "{content_type:?}");
        }
    }
}
