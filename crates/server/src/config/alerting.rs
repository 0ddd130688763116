//! The section `alerting`: understood, not working yet.

use super::address;
use super::discovery;
use super::error::Report;
use super::http_options;
use super::model::NameValidation;
use super::relabel_rules::{self, RULE};
use super::remote::SIGV4;
use super::schema::{Schema, choice, duration, section, sections, text, unchecked};
use super::section::Section;

/// The section.
pub(super) static ALERTING: Schema = Schema {
    groups: &[&[
        sections("alert_relabel_configs", &RULE),
        sections("alertmanagers", &ALERTMANAGER),
    ]],
    check: unchecked,
};

static ALERTMANAGER: Schema = Schema {
    groups: &[
        http_options::FIELDS,
        &[
            section("sigv4", &SIGV4).present(),
            text("scheme").or("http"),
            text("path_prefix"),
            duration("timeout").or_seconds(10),
            choice("api_version", &["v2"]).or("v2").always(),
            sections("relabel_configs", &RULE),
            sections("alert_relabel_configs", &RULE),
        ],
        discovery::FIELDS,
    ],
    check: |section, report| {
        http_options::check(section, report);
        section.at_most_one(report, &["basic_auth", "authorization", "oauth2", "sigv4"]);
        if section.sections("relabel_configs").is_empty() {
            discovery::check_static_targets(section, report);
        }
        if let Err(reason) = address::parse(section.text("path_prefix")) {
            section.error(report, "path_prefix", reason);
        }
    },
};

/// Checks the rules, which depend on `global`.
pub(super) fn check_rules(alerting: &Section, validation: NameValidation, report: &mut Report) {
    relabel_rules::build(alerting.sections("alert_relabel_configs"), validation, report);
    for manager in alerting.sections("alertmanagers") {
        relabel_rules::build(manager.sections("relabel_configs"), validation, report);
        relabel_rules::build(manager.sections("alert_relabel_configs"), validation, report);
    }
}
