//! The section `storage`.

use super::error::Report;
use super::model::Storage;
use super::schema::{Schema, choice, duration, float, int, section, size, unchecked};
use super::section::Section;

/// The section.
pub(super) static STORAGE: Schema = Schema {
    groups: &[&[
        section("tsdb", &TSDB).filled().present(),
        section("exemplars", &EXEMPLARS).present(),
    ]],
    check: unchecked,
};

static TSDB: Schema = Schema {
    groups: &[&[
        duration("out_of_order_time_window"),
        float("stale_series_compaction_threshold"),
        section("chunk_encoding", &CHUNK_ENCODING),
        section("retention", &RETENTION).filled().present(),
    ]],
    check: |section, report| {
        let threshold = section.float("stale_series_compaction_threshold");
        if !(0.0..=1.0).contains(&threshold) {
            section.error(
                report,
                "stale_series_compaction_threshold",
                format!("{threshold} is not between 0 and 1"),
            );
        }
    },
};

static CHUNK_ENCODING: Schema =
    Schema { groups: &[&[choice("floats", &["xor", "xor2", ""])]], check: unchecked };

static RETENTION: Schema = Schema {
    groups: &[&[duration("time"), size("size"), float("percentage")]],
    check: |section, report| {
        if section.int("size") < 0 {
            section.error(report, "size", "the size must be greater than or equal to 0");
        }
        let percentage = section.float("percentage");
        if !(0.0..=100.0).contains(&percentage) {
            section.error(report, "percentage", format!("{percentage} is not between 0 and 100"));
        }
    },
};

static EXEMPLARS: Schema = Schema { groups: &[&[int("max_exemplars")]], check: unchecked };

/// Exemplars that are kept when nothing is said.
const EXEMPLARS_DEFAULT: u64 = 100_000;

/// The section for the store. What it can't do yet goes to the report.
pub(super) fn build(storage: &Section, report: &mut Report) -> Storage {
    let max_exemplars = storage.section("exemplars").map_or(EXEMPLARS_DEFAULT, |exemplars| {
        // Less than nothing is nothing.
        u64::try_from(exemplars.int("max_exemplars")).unwrap_or(0)
    });
    let Some(tsdb) = storage.section("tsdb") else {
        return Storage { max_exemplars, retention_time: None, retention_size: None };
    };
    for (name, message) in [
        ("out_of_order_time_window", "samples out of order are not accepted yet"),
        ("stale_series_compaction_threshold", "stale series are not compacted early yet"),
    ] {
        if tsdb.has(name) {
            report.unsupported(tsdb.at(name), tsdb.path_of(name), message);
        }
    }
    if let Some(encoding) = tsdb.section("chunk_encoding")
        && encoding.text("floats") == "xor2"
    {
        report.unsupported(
            encoding.at("floats"),
            encoding.path_of("floats"),
            "chunks are written in the encoding xor only",
        );
    }
    let retention = tsdb.section("retention");
    if let Some(retention) = retention {
        for name in ["size", "percentage"] {
            if retention.has(name) {
                report.unsupported(
                    retention.at(name),
                    retention.path_of(name),
                    "retention works by time only",
                );
            }
        }
    }
    Storage {
        max_exemplars,
        // Zero that is written keeps everything, as opposed to nothing written.
        retention_time: retention
            .filter(|retention| retention.is_written("time"))
            .map(|retention| retention.duration("time")),
        retention_size: retention
            .and_then(|retention| u64::try_from(retention.int("size")).ok())
            .filter(|size| *size > 0),
    }
}
