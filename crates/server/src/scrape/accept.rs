//! What a target is asked for, and what its answer turns out to be.

use wire::exposition::Format;

use crate::config::{ScrapeConfig, ScrapeProtocol};

/// The header lines of a scrape's request, as Prometheus builds them: each protocol with a quality
/// that falls in the order of the configuration, then anything. What cannot be read is not asked for.
pub(super) fn request_headers(config: &ScrapeConfig, timeout: std::time::Duration) -> String {
    let mut lines = String::from("Accept: ");
    let readable =
        || config.scrape_protocols.iter().filter(|p| **p != ScrapeProtocol::PrometheusProto);
    let mut quality = readable().count() + 1;
    for protocol in readable() {
        lines.push_str(protocol.media_type());
        if matches!(
            protocol,
            ScrapeProtocol::PrometheusText100 | ScrapeProtocol::OpenMetricsText100
        ) {
            lines.push_str(";escaping=");
            lines.push_str(config.escaping.as_str());
        }
        lines.push_str(&format!(";q=0.{quality},"));
        quality -= 1;
    }
    lines.push_str(&format!("*/*;q=0.{quality}\r\n"));
    let encodings = if config.enable_compression { "gzip, zstd" } else { "identity" };
    lines.push_str(&format!("Accept-Encoding: {encodings}\r\n"));
    let seconds = timeout.as_secs_f64();
    lines.push_str(&format!("X-Prometheus-Scrape-Timeout-Seconds: {seconds}\r\n"));
    lines
}

/// The format that `content_type` names, or the fallback's.
///
/// # Errors
/// It names none that can be read, and there is no fallback.
pub(super) fn format_of(
    content_type: &str,
    fallback: Option<ScrapeProtocol>,
) -> Result<Format, String> {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let named = if media_type.eq_ignore_ascii_case("application/openmetrics-text") {
        Some(ScrapeProtocol::OpenMetricsText100)
    } else if media_type.eq_ignore_ascii_case("text/plain") {
        Some(ScrapeProtocol::PrometheusText004)
    } else if media_type.eq_ignore_ascii_case("application/vnd.google.protobuf") {
        Some(ScrapeProtocol::PrometheusProto)
    } else {
        None
    };
    match named.or(fallback) {
        Some(ScrapeProtocol::PrometheusText004 | ScrapeProtocol::PrometheusText100) => {
            Ok(Format::Text)
        }
        Some(ScrapeProtocol::OpenMetricsText001 | ScrapeProtocol::OpenMetricsText100) => {
            Ok(Format::OpenMetrics)
        }
        Some(ScrapeProtocol::PrometheusProto) => Err(format!(
            "the target answers in protobuf (Content-Type {content_type:?}), which is not read yet"
        )),
        None if content_type.is_empty() => Err("non-compliant scrape target sending blank \
            Content-Type and no fallback_scrape_protocol specified for target"
            .to_owned()),
        None if !is_media_type(media_type) => Err(format!(
            "cannot parse Content-Type {content_type:?} and no fallback_scrape_protocol for target"
        )),
        None => Err(format!(
            "received unsupported Content-Type {content_type:?} and no fallback_scrape_protocol \
             specified for target"
        )),
    }
}

fn is_media_type(text: &str) -> bool {
    let is_token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&b))
    };
    match text.split_once('/') {
        Some((kind, subtype)) => is_token(kind) && is_token(subtype),
        None => is_token(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_not_asked_for() {
        let text = "scrape_configs:\n- job_name: j\n  \
            scrape_protocols: [PrometheusProto, OpenMetricsText1.0.0, PrometheusText0.0.4]\n";
        let (name, dir) = (std::path::Path::new("t.yml"), std::path::Path::new(""));
        let loaded = crate::config::load_text(text, name, dir, &Default::default()).unwrap();
        let timeout = std::time::Duration::from_millis(1500);
        assert_eq!(
            request_headers(&loaded.config.scrape_configs[0], timeout),
            "Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.3,\
             text/plain;version=0.0.4;q=0.2,*/*;q=0.1\r\nAccept-Encoding: gzip, zstd\r\n\
             X-Prometheus-Scrape-Timeout-Seconds: 1.5\r\n"
        );
    }

    #[test]
    fn content_types() {
        use ScrapeProtocol::{OpenMetricsText001, PrometheusProto, PrometheusText004};
        let cases: [(&str, Option<ScrapeProtocol>, Result<Format, &str>); 11] = [
            ("text/plain", None, Ok(Format::Text)),
            ("Text/Plain; version=0.0.4; charset=utf-8", None, Ok(Format::Text)),
            ("application/openmetrics-text; version=1.0.0", None, Ok(Format::OpenMetrics)),
            ("", None, Err("blank Content-Type")),
            ("", Some(PrometheusText004), Ok(Format::Text)),
            ("text/html; charset=utf-8", None, Err("unsupported Content-Type \"text/html")),
            ("text/html", Some(OpenMetricsText001), Ok(Format::OpenMetrics)),
            ("text/plain", Some(OpenMetricsText001), Ok(Format::Text)),
            ("a b/c", None, Err("cannot parse Content-Type")),
            ("application/vnd.google.protobuf", None, Err("protobuf")),
            ("", Some(PrometheusProto), Err("protobuf")),
        ];
        for (content_type, fallback, expected) in cases {
            match (format_of(content_type, fallback), expected) {
                (Ok(format), Ok(expected)) => assert_eq!(format, expected, "{content_type:?}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (got, _) => panic!("{content_type:?}: {got:?}, expected {expected:?}"),
            }
        }
    }
}
