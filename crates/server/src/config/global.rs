//! The section `global`, and what it passes on to the jobs.

use store::Labels;

use super::error::Report;
use super::model::{Global, NameValidation, ScrapeProtocol};
use super::read::closest;
use super::schema::{Schema, boolean, choice, count, duration, labels, path, size, text, texts};
use super::section::{Data, Section};
use crate::duration::format;

/// The section.
pub(super) static GLOBAL: Schema = Schema {
    groups: &[&[
        duration("scrape_interval").or_seconds(60),
        duration("scrape_timeout"),
        texts("scrape_protocols").present(),
        duration("evaluation_interval").or_seconds(60),
        duration("rule_query_offset"),
        path("query_log_file"),
        path("scrape_failure_log_file"),
        labels("external_labels"),
        size("body_size_limit"),
        count("sample_limit"),
        count("target_limit"),
        count("label_limit"),
        count("label_name_length_limit"),
        count("label_value_length_limit"),
        count("keep_dropped_targets"),
        choice("metric_name_validation_scheme", VALIDATIONS).or("utf8"),
        text("metric_name_escaping_scheme"),
        boolean("scrape_native_histograms").default(super::schema::Default::Bool(false)).present(),
        boolean("convert_classic_histograms_to_nhcb"),
        boolean("always_scrape_classic_histograms"),
        boolean("extra_scrape_metrics").default(super::schema::Default::Bool(false)).present(),
    ]],
    check,
};

/// The names of the validation schemes.
pub(super) const VALIDATIONS: &[&str] = &["utf8", "legacy", ""];
/// The names of the escaping schemes.
const ESCAPINGS: &[&str] = &["allow-utf-8", "underscores", "dots", "values"];

fn check(section: &mut Section, report: &mut Report) {
    for (name, seconds) in [("scrape_interval", 60), ("evaluation_interval", 60)] {
        if section.duration(name).is_zero() {
            section.set(name, Data::Duration(std::time::Duration::from_secs(seconds)));
        }
    }
    let interval = section.duration("scrape_interval");
    let timeout = section.duration("scrape_timeout");
    if timeout > interval {
        section.error(
            report,
            "scrape_timeout",
            format!(
                "the scrape timeout {} is greater than the scrape interval {}",
                format(timeout),
                format(interval)
            ),
        );
    } else if timeout.is_zero() {
        let usual = std::time::Duration::from_secs(10);
        section.set("scrape_timeout", Data::Duration(usual.min(interval)));
    }
    if section.text("metric_name_validation_scheme").is_empty() {
        section.set("metric_name_validation_scheme", Data::Text("utf8".to_owned()));
    }
    let validation = validation_of(section).unwrap_or_default();
    for (name, _) in section.text_map("external_labels") {
        if !validation.is_label_name(name) {
            section.error(report, "external_labels", format!("{name:?} is not a valid label name"));
        }
    }
    if section.has("query_log_file") {
        report.unsupported(
            section.at("query_log_file"),
            section.path_of("query_log_file"),
            "queries are not logged to a file yet",
        );
    }
    check_escaping_name(section, report);
    if section.values.iter().flatten().all(|value| !value.written) {
        section.set("metric_name_escaping_scheme", Data::Text("allow-utf-8".to_owned()));
    }
    if section.get("scrape_protocols").is_some() {
        check_protocols(section, report);
    }
}

/// The validation scheme of `global` or of a job; `None` if the job doesn't say.
pub(super) fn validation_of(section: &Section) -> Option<NameValidation> {
    match section.text("metric_name_validation_scheme") {
        "utf8" => Some(NameValidation::Utf8),
        "legacy" => Some(NameValidation::Legacy),
        _ => None,
    }
}

/// Refuses an unknown escaping scheme.
pub(super) fn check_escaping_name(section: &Section, report: &mut Report) {
    let name = section.text("metric_name_escaping_scheme");
    if !name.is_empty() && !ESCAPINGS.contains(&name) {
        let hint = match closest(name, ESCAPINGS.iter().copied()) {
            Some(known) => format!("did you mean {known:?}?"),
            None => format!("expected {}", super::section::enumerate(ESCAPINGS, "or")),
        };
        section.error(
            report,
            "metric_name_escaping_scheme",
            format!("unknown escaping scheme {name:?}, {hint}"),
        );
    }
}

/// Refuses an empty list of protocols, an unknown one and one that comes twice; warns of one that is
/// not offered.
pub(super) fn check_protocols(section: &Section, report: &mut Report) {
    let path = section.path_of("scrape_protocols");
    let protocols = section.texts("scrape_protocols");
    if protocols.is_empty() {
        section.error(report, "scrape_protocols", "the list must not be empty");
    }
    for (index, (at, name)) in protocols.iter().enumerate() {
        if protocols[..index].iter().any(|(_, other)| other.eq_ignore_ascii_case(name)) {
            report.error(*at, &path, format!("the protocol {name:?} is in the list twice"));
        } else if let Err(message) = protocol(name) {
            report.error(*at, &path, message);
        }
    }
    let protobuf = ScrapeProtocol::PrometheusProto.as_str();
    // Where it is the only one, whoever scrapes with it is told so as unsupported.
    if protocols.len() > 1 && protocols.iter().any(|(_, name)| name == protobuf) {
        report.warn(
            section.at("scrape_protocols"),
            path,
            "the protobuf format is not read yet: targets are not offered it",
        );
    }
}

/// The protocol of this name.
pub(super) fn protocol(name: &str) -> Result<ScrapeProtocol, String> {
    ScrapeProtocol::from_name(name).ok_or_else(|| {
        let names = ScrapeProtocol::ALL.map(ScrapeProtocol::as_str);
        let hint = match closest(name, names.into_iter())
            .or_else(|| names.into_iter().find(|known| known.eq_ignore_ascii_case(name)))
        {
            Some(known) => format!("did you mean {known:?}?"),
            None => format!("expected {}", super::section::enumerate(&names, "or")),
        };
        format!("unknown scrape protocol {name:?}, {hint}")
    })
}

/// Replaces what `external_labels` say of the environment, which `lookup` gives.
pub(super) fn expand_labels(
    section: &mut Section,
    lookup: &dyn Fn(&str) -> Option<String>,
    report: &mut Report,
) {
    let mut expanded = Vec::new();
    for (name, value) in section.text_map("external_labels") {
        let value = expand(value, &mut |variable| {
            lookup(variable).filter(|value| !value.is_empty()).unwrap_or_else(|| {
                report.warn(
                    section.at("external_labels"),
                    format!("{}.{name}", section.path_of("external_labels")),
                    format!("the environment variable {variable} is not set or empty"),
                );
                String::new()
            })
        });
        expanded.push((name.clone(), value));
    }
    section.set("external_labels", Data::TextMap(expanded));
}

/// The section for the server.
pub(super) fn build(section: &Section) -> Global {
    let external_labels = section.text_map("external_labels");
    Global {
        scrape_interval: section.duration("scrape_interval"),
        scrape_timeout: section.duration("scrape_timeout"),
        evaluation_interval: section.duration("evaluation_interval"),
        rule_query_offset: section.duration("rule_query_offset"),
        external_labels: Labels::from_pairs(
            external_labels.iter().map(|(name, value)| (name.as_str(), value.as_str())),
        ),
    }
}

/// Replaces `$NAME` and `${NAME}`, as a shell would; `$$` is a dollar.
fn expand(text: &str, lookup: &mut dyn FnMut(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) =
            rest.strip_prefix('{').and_then(|body| body.split_once('}'))
        {
            match name {
                // `${}` is broken and goes, `${$}` is a dollar.
                "" => {}
                "$" => out.push('$'),
                name => out.push_str(&lookup(name)),
            }
            rest = after;
        } else if let Some(body) = rest.strip_prefix('{') {
            // Without its end the brace goes, and what follows stays.
            rest = body;
        } else {
            let end = match rest.as_bytes().first() {
                // A shell's special parameters are one character long.
                Some(b'*' | b'#' | b'@' | b'!' | b'?' | b'-' | b'0'..=b'9') => 1,
                _ => rest
                    .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                    .unwrap_or(rest.len()),
            };
            if end == 0 {
                out.push('$');
            } else {
                out.push_str(&lookup(&rest[..end]));
                rest = &rest[end..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expands_as_a_shell_does() {
        let cases = [
            ("plain", "plain"),
            ("$A", "one"),
            ("${A}b", "oneb"),
            ("$Ab", ""),
            ("x$A-$B", "xone-two"),
            ("$$A", "$A"),
            ("a$", "a$"),
            ("a$ b", "a$ b"),
            ("${", ""),
            ("${}x", "x"),
            ("$1x", "x"),
            ("ä$A", "äone"),
        ];
        for (text, expanded) in cases {
            let got = expand(text, &mut |name| match name {
                "A" => "one".to_owned(),
                "B" => "two".to_owned(),
                _ => String::new(),
            });
            assert_eq!(got, expanded, "{text}");
        }
    }
}
