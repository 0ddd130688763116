//! From a file to a configuration.
//!
//! The steps: 1. read the file and the YAML in it; 2. read the sections by their tables, each checked by
//! itself; 3. let the jobs inherit from `global`, and check what spans sections; 4. read the files of
//! `scrape_config_files`, whose jobs inherit the same way; 5. build what the server works with, and note
//! what it can't do yet.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::alerting::{self, ALERTING};
use super::error::{ConfigErrors, Notice, Position, Report};
use super::global::{self, GLOBAL};
use super::model::{Config, NameValidation, ScrapeConfig};
use super::node;
use super::observe::{self, OTLP, TRACING};
use super::print::print;
use super::read::Reader;
use super::remote::{self, READ, WRITE};
use super::schema::{Schema, int, paths, section, sections, unchecked};
use super::scrape::{self, JOB};
use super::section::Section;
use super::storage::{self, STORAGE};

/// How a configuration is read.
pub struct Options<'e> {
    /// Gives the environment variables that `external_labels` refer to.
    pub environment: &'e dyn Fn(&str) -> Option<String>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { environment: &|name| std::env::var(name).ok() }
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").finish_non_exhaustive()
    }
}

/// A configuration and what there is to say about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// What works.
    pub config: Config,
    /// The main file with its defaults filled in and its secrets hidden, as `/api/v1/status/config` shows
    /// it.
    pub text: String,
    /// Every file that was read: the main one first, then those of `scrape_config_files`. Whoever waits
    /// for changes looks at these. (Of a text that stands in no file it is the name it was given.)
    pub files: Vec<PathBuf>,
    /// What is understood and doesn't work yet. A server must not run with it: it would ignore it.
    pub unsupported: Vec<Notice>,
    /// What has no effect, or may not be meant.
    pub warnings: Vec<Notice>,
}

/// The whole file.
static ROOT: Schema = Schema {
    groups: &[&[
        section("global", &GLOBAL).filled(),
        section("runtime", &RUNTIME).filled(),
        section("alerting", &ALERTING),
        paths("rule_files"),
        paths("scrape_config_files"),
        sections("scrape_configs", &JOB),
        section("storage", &STORAGE).filled().present(),
        section("tracing", &TRACING),
        sections("remote_write", &WRITE),
        sections("remote_read", &READ),
        section("otlp", &OTLP).filled(),
    ]],
    check: check_globs,
};

/// A file of `scrape_config_files`.
static SCRAPE_CONFIG_FILE: Schema =
    Schema { groups: &[&[sections("scrape_configs", &JOB)]], check: unchecked };

static RUNTIME: Schema = Schema { groups: &[&[int("gogc").or_int(75)]], check: unchecked };

/// Loads `prometheus.yml`.
///
/// # Errors
/// Everything that is wrong with the file and the files it includes: what can't be read, is no YAML,
/// is no known field, has no meaning or contradicts something else; each with its place.
pub fn load(path: &Path, options: &Options<'_>) -> Result<Loaded, ConfigErrors> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let dir = path.parent().unwrap_or(Path::new(""));
            load_text(&text, path, dir, options)
        }
        Err(error) => {
            let mut report = Report::new(path);
            report.file_error(format!("can't be read: {error}"));
            Err(report.into_errors().expect_err("it has an error"))
        }
    }
}

/// Loads a text as if it stood in the file `name`; relative paths begin in `dir`.
///
/// # Errors
/// As [`load`].
pub fn load_text(
    text: &str,
    name: &Path,
    dir: &Path,
    options: &Options<'_>,
) -> Result<Loaded, ConfigErrors> {
    let mut report = Report::new(name);
    let Some(mut root) = read(text, &ROOT, dir, &mut report) else {
        return Err(report.into_errors().expect_err("the text could not be read"));
    };
    if let Some(section) = root.section_mut("global") {
        global::expand_labels(section, options.environment, &mut report);
    }
    let global_section = section_of(&root, "global").clone();
    let validation = global::validation_of(&global_section).unwrap_or_default();
    for job in root.sections_mut("scrape_configs") {
        scrape::inherit(job, &global_section, &mut report);
    }
    check_across(&root, validation, &mut report);

    let global = global::build(&global_section);
    let storage = storage::build(section_of(&root, "storage"), &mut report);
    let jobs = root.sections("scrape_configs");
    let mut scrape_configs: Vec<ScrapeConfig> =
        jobs.iter().map(|job| scrape::build(job, &mut report)).collect();
    let mut names = JobNames::default();
    names.add(jobs, name, &mut report);
    let mut files = vec![name.to_owned()];
    load_included(&root, &global_section, &mut names, &mut scrape_configs, &mut files, &mut report);
    note_unsupported(&root, &mut report);

    let text = print(&root);
    let (unsupported, warnings) = report.into_errors()?;
    let config = Config { global, scrape_configs, storage };
    Ok(Loaded { config, text, files, unsupported, warnings })
}

/// Reads a text by a table. `None` if it is no YAML; other faults are in the report as well.
fn read(text: &str, schema: &'static Schema, dir: &Path, report: &mut Report) -> Option<Section> {
    match node::parse(text) {
        Ok(tree) => Some(Reader { dir, report }.section(schema, &tree, "")),
        Err(fault) => {
            report.error(fault.at, fault.path, fault.message);
            None
        }
    }
}

fn section_of<'s>(root: &'s Section, name: &str) -> &'s Section {
    root.section(name).expect("the section has defaults")
}

/// Refuses patterns that can't be watched: one `*`, and no `/` after it.
fn check_globs(root: &mut Section, report: &mut Report) {
    for name in ["rule_files", "scrape_config_files"] {
        for (at, pattern) in root.texts(name) {
            if pattern.split_once('*').is_some_and(|(_, after)| after.contains('/')) {
                report.error(
                    *at,
                    name,
                    format!(
                        "{pattern:?} can't be looked up: only the last part of a path may hold *"
                    ),
                );
            }
        }
    }
}

/// What spans several sections.
fn check_across(root: &Section, validation: NameValidation, report: &mut Report) {
    observe::check_strategy(section_of(root, "otlp"), validation, report);
    if let Some(section) = root.section("alerting") {
        alerting::check_rules(section, validation, report);
    }
    for name in ["remote_write", "remote_read"] {
        remote::check_names(root.sections(name), report);
    }
    remote::check_rules(root.sections("remote_write"), validation, report);
}

/// Which job stands where.
#[derive(Default)]
struct JobNames {
    seen: HashMap<String, (PathBuf, Position)>,
}

impl JobNames {
    /// Takes in the jobs of a file, and refuses those whose name is taken.
    fn add(&mut self, jobs: &[Section], file: &Path, report: &mut Report) {
        for job in jobs {
            let name = job.text("job_name");
            match self.seen.get(name) {
                Some((first, at)) if !name.is_empty() => {
                    let place = if first == file {
                        format!("on line {}", at.line)
                    } else {
                        format!("in {} on line {}", first.display(), at.line)
                    };
                    let message = format!("the job name {name:?} is already taken {place}");
                    job.error(report, "job_name", message);
                }
                _ => {
                    let place = (file.to_owned(), job.at("job_name"));
                    self.seen.insert(name.to_owned(), place);
                }
            }
        }
    }
}

/// Adds the jobs of `scrape_config_files`, and the files to those that were read.
fn load_included(
    root: &Section,
    global: &Section,
    names: &mut JobNames,
    scrape_configs: &mut Vec<ScrapeConfig>,
    read: &mut Vec<PathBuf>,
    report: &mut Report,
) {
    for (at, pattern) in root.texts("scrape_config_files") {
        let files = match matching_files(Path::new(pattern)) {
            Ok(files) => files,
            Err(error) => {
                let message = format!("{pattern:?} can't be looked up: {error}");
                report.error(*at, "scrape_config_files", message);
                continue;
            }
        };
        if files.is_empty() {
            report.warn(*at, "scrape_config_files", format!("no file matches {pattern:?}"));
        }
        for file in files {
            let mut of_file = report.sibling(&file);
            load_jobs(&file, global, names, scrape_configs, &mut of_file);
            report.absorb(of_file);
            read.push(file);
        }
    }
}

fn load_jobs(
    file: &Path,
    global: &Section,
    names: &mut JobNames,
    scrape_configs: &mut Vec<ScrapeConfig>,
    report: &mut Report,
) {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return report.file_error(format!("can't be read: {error}")),
    };
    let dir = file.parent().unwrap_or(Path::new(""));
    let Some(mut root) = read(&text, &SCRAPE_CONFIG_FILE, dir, report) else { return };
    for job in root.sections_mut("scrape_configs") {
        scrape::inherit(job, global, report);
    }
    let jobs = root.sections("scrape_configs");
    names.add(jobs, file, report);
    scrape_configs.extend(jobs.iter().map(|job| scrape::build(job, report)));
}

/// The files that a path means, sorted. `*` stands for any characters of the path's last part, a leading
/// dot included; a path without it means itself, if it is there.
///
/// # Errors
/// The folder is there and can't be listed.
pub fn matching_files(pattern: &Path) -> std::io::Result<Vec<PathBuf>> {
    let name = pattern.file_name().unwrap_or_default().to_string_lossy();
    let Some((before, after)) = name.split_once('*') else {
        return Ok(if pattern.exists() { vec![pattern.to_owned()] } else { Vec::new() });
    };
    let dir = pattern.parent().unwrap_or(Path::new(""));
    let listed = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let entries = match std::fs::read_dir(listed) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if matches_stars(name, before, after) && entry.path().is_file() {
            files.push(dir.join(name));
        }
    }
    files.sort();
    Ok(files)
}

/// Whether a name is `before`, anything, and then `after`, whose further `*` are anything too.
fn matches_stars(name: &str, before: &str, after: &str) -> bool {
    let Some(mut rest) = name.strip_prefix(before) else { return false };
    let mut pieces = after.split('*').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    true
}

/// The sections of the main file that don't work yet.
fn note_unsupported(root: &Section, report: &mut Report) {
    for (at, pattern) in root.texts("rule_files") {
        report.unsupported(*at, "rule_files", format!("rules don't work yet: {pattern}"));
    }
    if let Some(alerting) = root.section("alerting")
        && !alerting.is_zero()
    {
        report.unsupported(root.at("alerting"), "alerting", "alerts are not sent yet");
    }
    for (name, message) in [
        ("remote_write", "samples are not sent to other servers yet"),
        ("remote_read", "samples are not fetched from other servers yet"),
    ] {
        for endpoint in root.sections(name) {
            report.unsupported(endpoint.at, &endpoint.path, message);
        }
    }
    for (name, message) in [
        ("tracing", "the server doesn't send traces yet"),
        ("otlp", "metrics are not taken in over OTLP yet"),
    ] {
        let written = root
            .section(name)
            .is_some_and(|section| section.values.iter().flatten().any(|value| value.written));
        if written {
            report.unsupported(root.at(name), name, message);
        }
    }
    let runtime = section_of(root, "runtime");
    if runtime.is_written("gogc") {
        report.warn(
            runtime.at("gogc"),
            runtime.path_of("gogc"),
            "it has no effect: there is no garbage collector",
        );
    }
}
