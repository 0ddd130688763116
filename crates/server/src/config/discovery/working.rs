//! The discoveries that work: static, file, HTTP.

use std::path::PathBuf;

use store::Labels;
use url::Url;

use crate::config::address;
use crate::config::error::Report;
use crate::config::http_options;
use crate::config::model::{Discovery, FileDiscovery, HttpDiscovery, StaticGroup};
use crate::config::schema::{Schema, duration, labels, paths, texts, unchecked, url};
use crate::config::section::Section;

/// A group of targets that stands in the configuration, or in a file that discovery reads.
pub(in crate::config) static STATIC: Schema =
    Schema { groups: &[&[texts("targets").always(), labels("labels")]], check: unchecked };

pub(super) static FILE: Schema = Schema {
    groups: &[&[paths("files").always(), duration("refresh_interval").or_seconds(300)]],
    check: check_file,
};

pub(super) static HTTP: Schema = Schema {
    groups: &[
        http_options::FIELDS,
        &[duration("refresh_interval").or_seconds(60), url("url").always()],
    ],
    check: check_http,
};

fn check_file(section: &mut Section, report: &mut Report) {
    check_refresh(section, report);
    let files = section.texts("files");
    if files.is_empty() {
        section.error(report, "files", "the list must name at least one file");
    }
    for (at, file) in files {
        if !is_discovery_file(file) {
            report.error(
                *at,
                section.path_of("files"),
                format!(
                    "{file:?} can't be watched: a path ends in .json, .yml or .yaml, and only its \
                     last part may hold one *"
                ),
            );
        }
    }
}

/// One `*` at most, with no `/` after it, and an ending that says the format.
fn is_discovery_file(path: &str) -> bool {
    let Some(stem) = [".json", ".yml", ".yaml", ".JSON", ".YML", ".YAML"]
        .iter()
        .find_map(|ending| path.strip_suffix(ending))
    else {
        return false;
    };
    match stem.split_once('*') {
        Some((_, after)) => !after.contains(['*', '/']),
        None => true,
    }
}

/// Nothing can be done again and again without any time in between.
fn check_refresh(section: &Section, report: &mut Report) {
    if section.duration("refresh_interval").is_zero() {
        section.error(report, "refresh_interval", "the interval must be greater than 0s");
    }
}

fn check_http(section: &mut Section, report: &mut Report) {
    check_refresh(section, report);
    if section.require(report, "url")
        && let Err(reason) = address::parse_http(section.text("url"))
    {
        section.error(report, "url", reason);
    }
    http_options::check(section, report);
}

pub(super) fn build_static(groups: &[Section]) -> Discovery {
    Discovery::Static(groups.iter().map(build_group).collect())
}

/// One group of targets.
pub(in crate::config) fn build_group(group: &Section) -> StaticGroup {
    StaticGroup {
        targets: group.text_list("targets"),
        labels: Labels::from_pairs(
            group.text_map("labels").iter().map(|(name, value)| (name.as_str(), value.as_str())),
        ),
    }
}

pub(super) fn build_file(section: &Section) -> Discovery {
    Discovery::File(FileDiscovery {
        files: section.texts("files").iter().map(|(_, file)| PathBuf::from(file)).collect(),
        refresh_interval: section.duration("refresh_interval"),
    })
}

pub(super) fn build_http(section: &Section, report: &mut Report) -> Option<Discovery> {
    let address = match Url::parse(section.text("url")) {
        Ok(address) => address,
        Err(error) => {
            section.error(report, "url", format!("not a URL: {error}"));
            return None;
        }
    };
    Some(Discovery::Http(Box::new(HttpDiscovery {
        url: address,
        refresh_interval: section.duration("refresh_interval"),
        http: http_options::build(section, report),
    })))
}
