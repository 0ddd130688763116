//! The elements of `scrape_configs`.

use super::discovery;
use super::error::Report;
use super::global;
use super::http_options;
use super::model::{Limits, NameEscaping, NameValidation, Scheme, ScrapeConfig, ScrapeProtocol};
use super::relabel_rules::{self, RULE};
use super::schema::{
    Field, Schema, boolean, choice, count, duration, float, path, sections, size, text, texts,
    texts_map,
};
use super::section::{Data, Section};
use crate::duration::format;

/// One job.
pub(super) static JOB: Schema =
    Schema { groups: &[FIELDS, http_options::FIELDS, RELABELLING, discovery::FIELDS], check };

const FIELDS: &[Field] = &[
    text("job_name").always(),
    boolean("honor_labels"),
    boolean("honor_timestamps").or_true().always(),
    boolean("track_timestamps_staleness").always(),
    texts_map("params"),
    duration("scrape_interval"),
    duration("scrape_timeout"),
    texts("scrape_protocols").present(),
    text("fallback_scrape_protocol"),
    boolean("scrape_native_histograms").present(),
    boolean("always_scrape_classic_histograms").present(),
    boolean("convert_classic_histograms_to_nhcb").present(),
    path("scrape_failure_log_file"),
    text("metrics_path").or("/metrics"),
    text("scheme").or("http"),
    boolean("enable_compression").or_true().always(),
    size("body_size_limit"),
    count("sample_limit"),
    count("target_limit"),
    count("label_limit"),
    count("label_name_length_limit"),
    count("label_value_length_limit"),
    count("native_histogram_bucket_limit"),
    float("native_histogram_min_bucket_factor"),
    count("keep_dropped_targets"),
    choice("metric_name_validation_scheme", global::VALIDATIONS),
    text("metric_name_escaping_scheme"),
    boolean("extra_scrape_metrics").present(),
];

const RELABELLING: &[Field] =
    &[sections("relabel_configs", &RULE), sections("metric_relabel_configs", &RULE)];

fn check(section: &mut Section, report: &mut Report) {
    section.require(report, "job_name");
    http_options::check(section, report);
    if section.sections("relabel_configs").is_empty() {
        discovery::check_static_targets(section, report);
    }
    if section.get("scrape_protocols").is_some() {
        global::check_protocols(section, report);
    }
    if let Some(name) = section.some_text("fallback_scrape_protocol")
        && let Err(message) = global::protocol(name)
    {
        section.error(report, "fallback_scrape_protocol", message);
    }
    global::check_escaping_name(section, report);
    if !matches!(section.text("scheme"), "" | "http" | "https") {
        section.error(report, "scheme", "the scheme must be http or https");
    }
}

/// What a job takes over from `global` where it says nothing, zero or empty.
const INHERITED: [&str; 8] = [
    "body_size_limit",
    "sample_limit",
    "target_limit",
    "label_limit",
    "label_name_length_limit",
    "label_value_length_limit",
    "keep_dropped_targets",
    "scrape_failure_log_file",
];

/// What a job takes over where it doesn't say yes or no.
const INHERITED_SWITCHES: [&str; 4] = [
    "scrape_native_histograms",
    "extra_scrape_metrics",
    "convert_classic_histograms_to_nhcb",
    "always_scrape_classic_histograms",
];

/// Fills in what the job inherits, and checks what depends on it.
pub(super) fn inherit(job: &mut Section, global: &Section, report: &mut Report) {
    inherit_times(job, global, report);
    for name in INHERITED {
        if !job.has(name)
            && let Some(value) = global.get(name)
        {
            job.set(name, value.data.clone());
        }
    }
    for name in INHERITED_SWITCHES {
        if job.get(name).is_none() {
            job.set(name, Data::Bool(global.bool(name)));
        }
    }
    if job.get("scrape_protocols").is_none() {
        let protocols = match global.get("scrape_protocols") {
            Some(value) => value.data.clone(),
            None => default_protocols(job),
        };
        job.set("scrape_protocols", protocols);
    }
    inherit_names(job, global, report);
}

fn inherit_times(job: &mut Section, global: &Section, report: &mut Report) {
    if job.duration("scrape_interval").is_zero() {
        job.set("scrape_interval", Data::Duration(global.duration("scrape_interval")));
    }
    let interval = job.duration("scrape_interval");
    let timeout = job.duration("scrape_timeout");
    if timeout > interval {
        job.error(
            report,
            "scrape_timeout",
            format!(
                "the scrape timeout {} of job {:?} is greater than its scrape interval {}",
                format(timeout),
                job.text("job_name"),
                format(interval)
            ),
        );
    } else if timeout.is_zero() {
        let timeout = global.duration("scrape_timeout").min(interval);
        job.set("scrape_timeout", Data::Duration(timeout));
    }
}

/// Native histograms travel in protobuf only, so a job that wants them asks for that first.
fn default_protocols(job: &Section) -> Data {
    let first = job.bool("scrape_native_histograms").then_some(ScrapeProtocol::PrometheusProto);
    let names = first
        .into_iter()
        .chain(ScrapeProtocol::DEFAULT)
        .map(|protocol| (job.at, protocol.as_str().to_owned()));
    Data::Texts(names.collect())
}

/// The schemes of validation and escaping: the job's own, else those of `global`, else what follows
/// from the validation.
fn inherit_names(job: &mut Section, global: &Section, report: &mut Report) {
    let of_global = global::validation_of(global).unwrap_or_default();
    let own = global::validation_of(job);
    let validation = own.unwrap_or(of_global);
    job.set("metric_name_validation_scheme", Data::Text(validation.as_str().to_owned()));
    let escaping = match job.some_text("metric_name_escaping_scheme") {
        Some(name) => name.to_owned(),
        None if own.is_none() => match global.some_text("metric_name_escaping_scheme") {
            Some(name) => name.to_owned(),
            None => natural_escaping(of_global).as_str().to_owned(),
        },
        None => natural_escaping(validation).as_str().to_owned(),
    };
    if escaping == "allow-utf-8" && validation == NameValidation::Legacy {
        job.error(
            report,
            "metric_name_escaping_scheme",
            "allow-utf-8 asks for UTF-8 names, and the validation scheme is not utf8: choose \
             underscores, dots or values, or set metric_name_validation_scheme to utf8",
        );
    }
    job.set("metric_name_escaping_scheme", Data::Text(escaping));
}

fn natural_escaping(validation: NameValidation) -> NameEscaping {
    match validation {
        NameValidation::Utf8 => NameEscaping::AllowUtf8,
        NameValidation::Legacy => NameEscaping::Underscores,
    }
}

/// The job for the scraper. It has inherited already; what does not work yet goes to the report.
pub(super) fn build(job: &Section, report: &mut Report) -> ScrapeConfig {
    let validation = global::validation_of(job).unwrap_or_default();
    note_unsupported(job, report);
    let protocols = job
        .texts("scrape_protocols")
        .iter()
        .filter_map(|(_, name)| ScrapeProtocol::from_name(name))
        .collect();
    ScrapeConfig {
        job_name: job.text("job_name").to_owned(),
        scrape_interval: job.duration("scrape_interval"),
        scrape_timeout: job.duration("scrape_timeout"),
        scrape_protocols: protocols,
        fallback_scrape_protocol: ScrapeProtocol::from_name(job.text("fallback_scrape_protocol")),
        honor_labels: job.bool("honor_labels"),
        honor_timestamps: job.bool("honor_timestamps"),
        track_timestamps_staleness: job.bool("track_timestamps_staleness"),
        params: job.texts_map("params").iter().cloned().collect(),
        metrics_path: job.text("metrics_path").to_owned(),
        scheme: if job.text("scheme") == "https" { Scheme::Https } else { Scheme::Http },
        enable_compression: job.bool("enable_compression"),
        limits: build_limits(job),
        scrape_failure_log_file: job.some_text("scrape_failure_log_file").map(Into::into),
        validation,
        escaping: escaping_of(job.text("metric_name_escaping_scheme")),
        scrape_native_histograms: job.bool("scrape_native_histograms"),
        convert_classic_histograms_to_nhcb: job.bool("convert_classic_histograms_to_nhcb"),
        always_scrape_classic_histograms: job.bool("always_scrape_classic_histograms"),
        extra_scrape_metrics: job.bool("extra_scrape_metrics"),
        http: http_options::build(job, report),
        discoveries: discovery::build(job, report),
        relabel_configs: relabel_rules::build(job.sections("relabel_configs"), validation, report),
        metric_relabel_configs: relabel_rules::build(
            job.sections("metric_relabel_configs"),
            validation,
            report,
        ),
    }
}

fn escaping_of(name: &str) -> NameEscaping {
    match name {
        "underscores" => NameEscaping::Underscores,
        "dots" => NameEscaping::Dots,
        "values" => NameEscaping::Values,
        _ => NameEscaping::AllowUtf8,
    }
}

fn build_limits(job: &Section) -> Limits {
    let limit = |name| u64::try_from(job.int(name)).ok().filter(|limit| *limit > 0);
    Limits {
        body_size: limit("body_size_limit"),
        samples: limit("sample_limit"),
        targets: limit("target_limit"),
        labels: limit("label_limit"),
        label_name_length: limit("label_name_length_limit"),
        label_value_length: limit("label_value_length_limit"),
        native_histogram_buckets: limit("native_histogram_bucket_limit"),
        native_histogram_min_bucket_factor: job.float("native_histogram_min_bucket_factor"),
        keep_dropped_targets: limit("keep_dropped_targets"),
    }
}

/// What the scraper can't do yet.
fn note_unsupported(job: &Section, report: &mut Report) {
    for name in ["scrape_native_histograms", "convert_classic_histograms_to_nhcb"] {
        if job.bool(name) {
            report.unsupported(
                job.at(name),
                job.path_of(name),
                "native histograms are not scraped yet",
            );
        }
    }
    let protobuf = ScrapeProtocol::PrometheusProto.as_str();
    if job.text("fallback_scrape_protocol") == protobuf {
        report.unsupported(
            job.at("fallback_scrape_protocol"),
            job.path_of("fallback_scrape_protocol"),
            "the protobuf format is not read yet",
        );
    }
    if let [(_, only)] = job.texts("scrape_protocols")
        && only == protobuf
    {
        let origin = if job.is_written("scrape_protocols") { "" } else { " (taken from global)" };
        report.unsupported(
            job.at("scrape_protocols"),
            job.path_of("scrape_protocols"),
            format!("the protobuf format is not read yet{origin}"),
        );
    }
}
