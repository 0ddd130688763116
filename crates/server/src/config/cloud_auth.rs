//! How requests are signed for the clouds: `sigv4`, `azuread`, `google_iam`. Understood, not working yet.

use super::error::Report;
use super::schema::{Schema, boolean, choice, path, secret, section, text, unchecked};
use super::section::Section;

/// Amazon.
pub(super) static SIGV4: Schema = Schema {
    groups: &[&[
        text("region"),
        text("access_key"),
        secret("secret_key"),
        text("profile"),
        text("role_arn"),
        text("external_id"),
        boolean("use_fips_sts_endpoint"),
        text("service_name"),
    ]],
    check: |section, report| {
        if section.has("access_key") != section.has("secret_key") {
            section.error(report, "access_key", "access_key and secret_key are only set together");
        }
        if section.has("external_id") && !section.has("role_arn") {
            section.error(report, "external_id", "it needs a role_arn: set it as well");
        }
    },
};

/// Google.
pub(super) static GOOGLE_IAM: Schema =
    Schema { groups: &[&[path("credentials_file")]], check: unchecked };

/// Microsoft.
pub(super) static AZUREAD: Schema = Schema {
    groups: &[&[
        section("managed_identity", &MANAGED_IDENTITY).present(),
        section("workload_identity", &WORKLOAD_IDENTITY).present(),
        section("oauth", &OAUTH).present(),
        section("sdk", &SDK).present(),
        section("certificate", &CERTIFICATE).present(),
        choice("cloud", &["AzureChina", "AzureGovernment", "AzurePublic", ""]).or("AzurePublic"),
        text("scope"),
    ]],
    check: check_azuread,
};

static MANAGED_IDENTITY: Schema = Schema {
    groups: &[&[text("client_id")]],
    check: |section, report| {
        if section.has("client_id") {
            check_uuid(section, "client_id", report);
        }
    },
};

static WORKLOAD_IDENTITY: Schema = Schema {
    groups: &[&[
        text("client_id"),
        text("tenant_id"),
        text("token_file_path").or("/var/run/secrets/azure/tokens/azure-identity-token"),
    ]],
    check: |section, report| {
        check_uuid(section, "client_id", report);
        check_uuid(section, "tenant_id", report);
    },
};

static OAUTH: Schema = Schema {
    groups: &[&[text("client_id"), secret("client_secret"), text("tenant_id")]],
    check: |section, report| {
        check_uuid(section, "client_id", report);
        section.require(report, "client_secret");
        section.require(report, "tenant_id");
    },
};

static SDK: Schema = Schema { groups: &[&[text("tenant_id")]], check: unchecked };

static CERTIFICATE: Schema = Schema {
    groups: &[&[
        text("client_id"),
        text("tenant_id"),
        text("certificate_path"),
        text("certificate_key_path"),
        secret("certificate_password"),
        boolean("send_certificate_chain"),
    ]],
    check: |section, report| {
        check_uuid(section, "client_id", report);
        section.require(report, "tenant_id");
        section.require(report, "certificate_path");
    },
};

const AZURE_WAYS: [&str; 5] =
    ["managed_identity", "workload_identity", "oauth", "sdk", "certificate"];

fn check_azuread(section: &mut Section, report: &mut Report) {
    section.at_most_one(report, &AZURE_WAYS);
    if !AZURE_WAYS.iter().any(|way| section.has_section(way)) {
        report.error(
            section.at,
            &section.path,
            "one of managed_identity, workload_identity, oauth, sdk and certificate is required",
        );
    }
    let scope_fits =
        |c: char| c.is_ascii_alphanumeric() || c.is_whitespace() || "_:/.-".contains(c);
    if !section.text("scope").chars().all(scope_fits) {
        section.error(report, "scope", "the scope has characters that a scope can't have");
    }
}

fn check_uuid(section: &Section, name: &str, report: &mut Report) {
    if section.require(report, name) && !is_uuid(section.text(name)) {
        section.error(report, name, "the value is not a UUID");
    }
}

/// 32 hex digits, bare or in groups of 8-4-4-4-12, these also in braces or after `urn:uuid:`.
pub(super) fn is_uuid(text: &str) -> bool {
    let grouped = text
        .strip_prefix("urn:uuid:")
        .or_else(|| text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')))
        .unwrap_or(text);
    let hex = |group: &str| group.bytes().all(|b| b.is_ascii_hexdigit());
    if text.len() == 32 {
        return hex(text);
    }
    let groups: Vec<&str> = grouped.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| hex(group))
}
