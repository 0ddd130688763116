//! The sections `tracing` and `otlp`: understood, not working yet.

use super::error::{Position, Report};
use super::http_options::TLS;
use super::model::NameValidation;
use super::remote::check_headers;
use super::schema::{Schema, boolean, choice, duration, float, section, text, text_map, texts};
use super::section::{Data, Section};

/// Where the server sends its own traces.
pub(super) static TRACING: Schema = Schema {
    groups: &[&[
        choice("client_type", &["http", "grpc"]).or("grpc"),
        text("endpoint"),
        float("sampling_fraction"),
        boolean("insecure"),
        section("tls_config", &TLS),
        text_map("headers"),
        choice("compression", &["gzip", ""]),
        duration("timeout"),
    ]],
    check: |section, report| {
        section.require(report, "endpoint");
        check_headers(section, report);
    },
};

/// How metrics that arrive over OTLP become series.
pub(super) static OTLP: Schema = Schema {
    groups: &[&[
        boolean("promote_all_resource_attributes"),
        texts("promote_resource_attributes"),
        texts("ignore_resource_attributes"),
        text("translation_strategy").or("UnderscoreEscapingWithSuffixes"),
        boolean("keep_identifying_resource_attributes"),
        boolean("convert_histograms_to_nhcb"),
        boolean("promote_scope_metadata"),
        // Printed also when off, which Prometheus leaves out: read again, it would be on.
        boolean("label_name_underscore_sanitization").or_true().present(),
        boolean("label_name_preserve_multiple_underscores").or_true().present(),
    ]],
    check: check_otlp,
};

fn check_otlp(section: &mut Section, report: &mut Report) {
    if section.bool("promote_all_resource_attributes") {
        if section.has("promote_resource_attributes") {
            section.error(
                report,
                "promote_resource_attributes",
                "at most one of promote_all_resource_attributes and promote_resource_attributes \
                 may be set",
            );
        }
    } else if section.has("ignore_resource_attributes") {
        section.error(
            report,
            "ignore_resource_attributes",
            "it has no effect unless promote_all_resource_attributes is true",
        );
    }
    for name in ["promote_resource_attributes", "ignore_resource_attributes"] {
        check_attributes(section.texts(name), &section.path_of(name), report);
        let trimmed = section.texts(name).iter().map(|(at, text)| (*at, text.trim().to_owned()));
        if section.has(name) {
            section.set(name, Data::Texts(trimmed.collect()));
        }
    }
}

fn check_attributes(attributes: &[(Position, String)], path: &str, report: &mut Report) {
    for (index, (at, name)) in attributes.iter().enumerate() {
        let name = name.trim();
        if name.is_empty() {
            report.error(*at, path, "an attribute's name must not be empty");
        } else if attributes[..index].iter().any(|(_, other)| other.trim() == name) {
            report.error(*at, path, format!("the attribute {name:?} is in the list twice"));
        }
    }
}

/// Refuses a strategy that needs UTF-8 names where they are off.
pub(super) fn check_strategy(otlp: &Section, validation: NameValidation, report: &mut Report) {
    let strategy = otlp.text("translation_strategy");
    let needs_utf8 = match strategy {
        "" | "UnderscoreEscapingWithSuffixes" | "UnderscoreEscapingWithoutSuffixes" => false,
        "NoUTF8EscapingWithSuffixes" | "NoTranslation" => true,
        _ => {
            otlp.error(
                report,
                "translation_strategy",
                format!("unknown translation strategy {strategy:?}"),
            );
            false
        }
    };
    if needs_utf8 && validation == NameValidation::Legacy {
        otlp.error(
            report,
            "translation_strategy",
            format!(
                "{strategy} keeps UTF-8 names, and global.metric_name_validation_scheme is legacy"
            ),
        );
    }
}
