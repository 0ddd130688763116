//! The sections `remote_write` and `remote_read`: understood, not working yet.

use super::address;
use super::cloud_auth::{AZUREAD, GOOGLE_IAM};
use super::error::Report;
use super::http_options::{self, is_reserved_header};
use super::model::NameValidation;
use super::relabel_rules::{self, RULE};
use super::schema::{
    Default, Schema, boolean, choice, count, duration, int, labels, section, sections, text,
    text_map, unchecked, url,
};
use super::section::Section;

pub(super) use super::cloud_auth::SIGV4;

/// One endpoint to write to.
pub(super) static WRITE: Schema = Schema {
    groups: &[
        &[
            url("url").always(),
            duration("remote_timeout").or_seconds(30),
            text_map("headers"),
            sections("write_relabel_configs", &RULE),
            text("name"),
            boolean("send_exemplars"),
            boolean("send_native_histograms"),
            boolean("round_robin_dns"),
            choice(
                "protobuf_message",
                &["prometheus.WriteRequest", "io.prometheus.write.v2.Request"],
            )
            .or("prometheus.WriteRequest"),
        ],
        http_options::FIELDS_HTTP1,
        &[
            section("queue_config", &QUEUE).filled(),
            section("metadata_config", &METADATA).filled(),
            section("sigv4", &SIGV4).present(),
            section("azuread", &AZUREAD).present(),
            section("google_iam", &GOOGLE_IAM).present(),
        ],
    ],
    check: |section, report| {
        check_endpoint(section, report);
        section.require(report, "protobuf_message");
        section.at_most_one(
            report,
            &["basic_auth", "authorization", "oauth2", "sigv4", "azuread", "google_iam"],
        );
    },
};

/// One endpoint to read from.
pub(super) static READ: Schema = Schema {
    groups: &[
        &[
            url("url").always(),
            duration("remote_timeout").or_seconds(60),
            count("chunked_read_limit").or_int(50_000_000),
            text_map("headers"),
            boolean("read_recent"),
            text("name"),
        ],
        http_options::FIELDS,
        &[labels("required_matchers"), boolean("filter_external_labels").or_true().present()],
    ],
    check: check_endpoint,
};

static QUEUE: Schema = Schema {
    groups: &[&[
        int("capacity").or_int(10_000),
        int("max_shards").or_int(50),
        int("min_shards").or_int(1),
        int("max_samples_per_send").or_int(2_000),
        duration("batch_send_deadline").or_seconds(5),
        duration("min_backoff").default(Default::Duration(30)),
        duration("max_backoff").or_seconds(5),
        boolean("retry_on_http_429"),
        duration("sample_age_limit"),
    ]],
    check: check_queue,
};

static METADATA: Schema = Schema {
    groups: &[&[
        boolean("send").or_true().always(),
        duration("send_interval").or_seconds(60).always(),
        int("max_samples_per_send").or_int(2_000),
    ]],
    check: unchecked,
};

fn check_endpoint(section: &mut Section, report: &mut Report) {
    if section.require(report, "url")
        && let Err(reason) = address::parse(section.text("url"))
    {
        section.error(report, "url", reason);
    }
    check_headers(section, report);
    http_options::check(section, report);
}

/// Refuses headers that are not for the configuration to set.
pub(super) fn check_headers(section: &Section, report: &mut Report) {
    for (name, _) in section.text_map("headers") {
        if name.eq_ignore_ascii_case("authorization") {
            section.error(
                report,
                "headers",
                "the header authorization can't be set here: use one of the options for \
                 authentication",
            );
        } else if is_reserved_header(name) {
            section.error(report, "headers", format!("the header {name:?} can't be set here"));
        }
    }
}

fn check_queue(section: &mut Section, report: &mut Report) {
    for name in ["max_shards", "min_shards", "max_samples_per_send", "capacity"] {
        if section.int(name) <= 0 {
            section.error(report, name, "the number must be greater than 0");
        }
    }
    if section.int("min_shards") > section.int("max_shards") {
        section.error(report, "min_shards", "it must not be greater than max_shards");
    }
    if section.duration("max_backoff") < section.duration("min_backoff") {
        section.error(report, "max_backoff", "it must not be less than min_backoff");
    }
}

/// Refuses two endpoints of one name. An endpoint without a name gets one of its own.
pub(super) fn check_names(endpoints: &[Section], report: &mut Report) {
    for (index, endpoint) in endpoints.iter().enumerate() {
        let name = endpoint.text("name");
        let earlier = endpoints[..index].iter().find(|other| other.text("name") == name);
        if let Some(other) = earlier.filter(|_| !name.is_empty()) {
            endpoint.error(
                report,
                "name",
                format!("the name {name:?} is already taken on line {}", other.at("name").line),
            );
        }
    }
}

/// Checks the rules, which depend on `global`.
pub(super) fn check_rules(endpoints: &[Section], validation: NameValidation, report: &mut Report) {
    for endpoint in endpoints {
        relabel_rules::build(endpoint.sections("write_relabel_configs"), validation, report);
    }
}
