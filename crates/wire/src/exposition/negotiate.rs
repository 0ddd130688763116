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

/// Picks the format of the clause of `accept`, a request's header, that weighs most; of equal ones the
/// first, but those with a `*` come last. Text 0.0.4 where there is no header or none that is known,
/// because every scraper reads that. *Steady.*
///
/// As Prometheus' Go client does it: protobuf only delimited, OpenMetrics of version 0.0.1, 1.0.0 or none,
/// text of 0.0.4 or none; wildcards name no format; and the spelling is that of the clause picked or,
/// where that says none, of the last one before it that does. What weighs 0 is not acceptable.
pub fn negotiate(accept: Option<&str>) -> Negotiated {
    let accept = accept.unwrap_or_default();
    let best = clauses(accept)
        .filter_map(|clause| Some((clause.rank, clause.format?)))
        .reduce(|best, other| if other.0.is_before(&best.0) { other } else { best });
    let up_to = |rank: &Rank| best.is_none_or(|(best, _)| !best.is_before(rank));
    let spelt = clauses(accept)
        .filter(|clause| up_to(&clause.rank))
        .filter_map(|clause| Some((clause.rank, clause.escaping?)))
        .reduce(|last, other| if last.0.is_before(&other.0) { other } else { last });
    Negotiated {
        format: best.map_or(Format::Text, |(_, format)| format),
        escaping: spelt.map_or(Escaping::default(), |(_, escaping)| escaping),
    }
}

/// One alternative of `Accept`.
struct Clause {
    rank: Rank,
    /// What it asks for, if that is known.
    format: Option<Format>,
    escaping: Option<Escaping>,
}

/// What decides which clause comes first.
#[derive(Clone, Copy)]
struct Rank {
    weight: f64,
    wildcards: usize,
    place: usize,
}

impl Rank {
    fn is_before(&self, other: &Rank) -> bool {
        let weight = other.weight.total_cmp(&self.weight);
        weight.then(self.wildcards.cmp(&other.wildcards)).then(self.place.cmp(&other.place)).is_lt()
    }
}

fn clauses(accept: &str) -> impl Iterator<Item = Clause> {
    accept.split(',').enumerate().filter_map(|(place, clause)| {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let mut weight = 1.0;
        let (mut version, mut proto, mut encoding, mut escaping) = ("", "", "", None);
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match name.trim() {
                "q" => weight = value.parse().unwrap_or(0.0),
                "version" => version = value,
                "proto" => proto = value,
                "encoding" => encoding = value,
                "escaping" => escaping = Escaping::from_word(value),
                _ => {}
            }
        }
        let is = |known: &str| media.eq_ignore_ascii_case(known);
        let is_family = proto == "io.prometheus.client.MetricFamily" && encoding == "delimited";
        let format = match version {
            _ if is("application/vnd.google.protobuf") && is_family => Some(Format::Protobuf),
            "" | "0.0.1" | "1.0.0" if is("application/openmetrics-text") => {
                Some(Format::OpenMetrics)
            }
            "" | "0.0.4" if is("text/plain") => Some(Format::Text),
            _ => None,
        };
        let wildcards = media.bytes().filter(|b| *b == b'*').count();
        (weight > 0.0).then_some(Clause {
            rank: Rank { weight, wildcards, place },
            format,
            escaping,
        })
    })
}

/// How a body is packed on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    /// As it is.
    #[default]
    Identity,
    /// RFC 1952.
    Gzip,
}

impl Encoding {
    /// The word in `Accept-Encoding` and `Content-Encoding`.
    pub const fn word(self) -> &'static str {
        match self {
            Encoding::Identity => "identity",
            Encoding::Gzip => "gzip",
        }
    }
}

/// Picks the encoding that `accept_encoding`, a request's header, weighs most; identity where it weighs
/// as much as gzip or neither is named, as Prometheus' Go client does. *Steady.*
pub fn negotiate_encoding(accept_encoding: Option<&str>) -> Encoding {
    let weight_of = |wanted: &str| {
        accept_encoding.unwrap_or_default().split(',').find_map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let is_it = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(wanted));
            let weight = parts
                .filter_map(|part| part.split_once('='))
                .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
                .map_or(1.0, |(_, value)| value.trim().parse().unwrap_or(0.0));
            is_it.then_some(weight)
        })
    };
    let rest = weight_of("*").unwrap_or(0.0);
    let weight = |encoding: Encoding| weight_of(encoding.word()).unwrap_or(rest);
    if weight(Encoding::Gzip) > weight(Encoding::Identity) {
        return Encoding::Gzip;
    }
    Encoding::Identity
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
        use Escaping::{AllowUtf8, Dots, Underscores, Values};
        use Format::{OpenMetrics, Protobuf, Text};
        let protobuf = "application/vnd.google.protobuf;\
            proto=io.prometheus.client.MetricFamily;encoding=delimited";
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
            (Some(protobuf), Protobuf, Underscores),
            (Some(&format!("{protobuf};q=0.6;escaping=dots,{prometheus_3}")), Protobuf, Dots),
            (Some(&format!("{protobuf};q=0.3,text/plain;q=0.4")), Text, Underscores),
            (Some(&protobuf.replace("delimited", "text")), Text, Underscores),
            (Some(&protobuf.replace("client", "server")), Text, Underscores),
            (Some("application/vnd.google.protobuf"), Text, Underscores),
            // A wildcard asks for nothing in particular.
            (Some("*/*, application/openmetrics-text;q=0.1"), OpenMetrics, Underscores),
            // The spelling of a clause that can't be served is that of the next one that can.
            (Some("text/plain;version=1.0.0;escaping=values, text/plain;q=0.4"), Text, Values),
            (Some("text/plain;q=0.9, text/html;escaping=values;q=0.8"), Text, Underscores),
            (Some("text/html;escaping=dots"), Text, Dots),
            (Some("text/plain;q=0.9;escaping=dots,text/plain;escaping=values"), Text, Values),
        ] {
            assert_eq!(negotiate(accept), Negotiated { format, escaping }, "{accept:?}");
        }
        assert_eq!(
            negotiate(Some(prometheus_3)).to_string(),
            "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=allow-utf-8"
        );
    }

    #[test]
    fn packs_what_is_wanted_packed() {
        use Encoding::{Gzip, Identity};
        for (accept, encoding) in [
            (None, Identity),
            (Some(""), Identity),
            (Some("gzip"), Gzip),
            (Some("GZIP, zstd"), Gzip),
            (Some("gzip, deflate, br"), Gzip),
            (Some("zstd, br"), Identity),
            (Some("gzip;q=0"), Identity),
            (Some("gzip; q=0.5, identity"), Identity),
            (Some("identity;q=0.5, gzip;Q=0.7"), Gzip),
            (Some("*"), Identity),
            (Some("identity;q=0, *"), Gzip),
            (Some("gzip;q=x"), Identity),
        ] {
            assert_eq!(negotiate_encoding(accept), encoding, "{accept:?}");
        }
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
